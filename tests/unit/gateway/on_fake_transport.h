// What stands around the gateway, or around some of its parts, in tests of what they decide: a transport without a wire
// (FakeTransport), and the workers, whose side the test plays.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/heap_buffer_pool.h"
#include "gateway/backend_link.h"
#include "gateway/gateway_options.h"
#include "rpcrdma/rpc/rpc_message.h"
#include "tests/support/fake_transport.h"
#include "tests/unit/endpoint/words.h"

namespace cw::gateway {

inline constexpr uint16_t kFakePort = 20049;
inline constexpr IpAddress kAlice = IpAddress::v4(0x0a00'0001);
inline constexpr IpAddress kBob = IpAddress::v4(0x0a00'0002);

// One listener in front of one TCP backend.
class OnAFakeTransport : public ::testing::Test {
 protected:
  OnAFakeTransport() {
    options.backends = {{.name = "nfs", .kind = BackendKind::kTcp}};
    ListenerOptions listener;
    listener.name = "all";
    listener.port = kFakePort;
    listener.server.credits = 8;
    options.listeners = {listener};
    options.connections_max = 4;
    options.half_open_max = 4;
    options.calls_in_flight_max = 64;
  }
  ListenerOptions& listener() { return options.listeners.front(); }
  // When everything that used them is gone.
  void TearDown() override {
    EXPECT_EQ(transport.held_count(), 0u);
    EXPECT_EQ(transport.violations(), std::vector<std::string>());
    EXPECT_EQ(packets.in_use(), 0u) << "a Buffer has leaked";
  }
  // The next for the workers; false when there is none.
  virtual bool poll_request(BackendRequest& out) = 0;
  std::optional<BackendRequest> request() {
    BackendRequest request;
    return poll_request(request) ? std::optional(std::move(request)) : std::nullopt;
  }
  // The next request to the workers is of this kind; gives its link.
  LinkId expect_request(BackendRequest::Kind kind) {
    const std::optional<BackendRequest> next = request();
    EXPECT_TRUE(next && next->kind == kind);
    return next ? next->link : LinkId();
  }
  void expect_no_request() { EXPECT_FALSE(request().has_value()); }
  // The next request opens a link to the backend, or server 0 of it; gives the link.
  LinkId expect_opening(uint32_t backend, uint32_t server = 0) {
    const std::optional<BackendRequest> next = request();
    EXPECT_TRUE(next && next->kind == BackendRequest::Kind::kOpen);
    EXPECT_EQ(next ? next->backend : UINT32_MAX, backend);
    EXPECT_EQ(next ? next->server : UINT32_MAX, server);
    return next ? next->link : LinkId();
  }
  void expect_forwarded(LinkId link, uint32_t xid, uint32_t program = rpcrdma::kBenchProgram) {
    const std::optional<BackendRequest> next = request();
    ASSERT_TRUE(next && next->kind == BackendRequest::Kind::kSend);
    EXPECT_EQ(next->link, link);
    EXPECT_EQ(rpcrdma::words_of(next->message), rpcrdma::rpc_call(xid, 0, program).words());
  }
  // The oldest message to the peer is the reply to `xid`.
  void expect_replied(verbs::ConnectionId id, uint32_t xid, uint32_t credits = 8) {
    expect_answered(id, xid, rpcrdma::AcceptStatus::kSuccess, credits);
  }
  // The same of any status.
  void expect_answered(verbs::ConnectionId id, uint32_t xid, rpcrdma::AcceptStatus status, uint32_t credits = 8) {
    ASSERT_TRUE(transport.at(id).qp != nullptr && !transport.qp(id).posted().empty());
    rpcrdma::Words words{xid, 1, credits, 0, 0, 0, 0};
    words.add({xid, 1, 0, 0, 0, static_cast<uint32_t>(status)});
    EXPECT_EQ(rpcrdma::words_of(transport.qp(id).posted().front().payload), words.words());
  }

  GatewayOptions options;
  test::FakeTransport transport;
  HeapBufferPool packets{256, 4096, 64};
  Instant now = Instant::from_ns(1'000'000);
};

}  // namespace cw::gateway
