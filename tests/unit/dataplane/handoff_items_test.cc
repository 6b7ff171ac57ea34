#include "dataplane/handoff_items.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/support/locked_buffer_pool.h"

namespace cw::dataplane {
namespace {

using gateway::BackendRequest;

BackendRequest request_of(BackendRequest::Kind kind) {
  BackendRequest request;
  request.kind = kind;
  request.link = gateway::link_id(7, 3, 1, 99);
  request.backend = 65'535;
  request.server = 40'000;
  request.client = IpAddress::v4(0x0a000001);
  request.call = rpcrdma::CallId(uint64_t{5} << 40);
  return request;
}

TEST(RequestItem, SaysOfAnOpenWhomItIsForAndWhereTo) {
  BackendRequest request = request_of(BackendRequest::Kind::kOpen);
  const RequestItem item(request);
  EXPECT_EQ(item.kind, BackendRequest::Kind::kOpen);
  EXPECT_EQ(item.link, request.link);
  EXPECT_EQ(item.backend, 65'535u);
  EXPECT_EQ(item.server, 40'000u);
  EXPECT_EQ(item.client(), request.client);
  EXPECT_EQ(item.message(), nullptr);
}

TEST(RequestItem, TakesTheMessageOfTheOthers) {
  cw::test::LockedBufferPool pool(8, 1024, 0);
  for (const auto kind : {BackendRequest::Kind::kSend, BackendRequest::Kind::kRun}) {
    BackendRequest request = request_of(kind);
    ASSERT_TRUE(request.message.append_copy(pool, std::array<uint8_t, 3>{1, 2, 3}));
    const Buffer* const first = request.message.head();
    const RequestItem item(request);
    EXPECT_TRUE(request.message.empty());
    EXPECT_EQ(item.kind, kind);
    EXPECT_EQ(item.link, request.link);
    EXPECT_EQ(item.backend, 65'535u);
    EXPECT_EQ(item.call(), request.call);
    EXPECT_EQ(item.message(), first);
    release_buffers(item.message());
  }
  BackendRequest close = request_of(BackendRequest::Kind::kClose);
  EXPECT_EQ(RequestItem(close).message(), nullptr);
}

}  // namespace
}  // namespace cw::dataplane
