// Rdma-core without a device (rnic::RnicHost), and a transport with a user on it. The test plays device, connection manager and
// peer by hand, in whatever order, and can have everything refused. What the transport must not do is noted in violations(),
// which a test expects to be empty at its end.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/heap_buffer_pool.h"
#include "rnic/rnic_fields.h"
#include "rnic/transport.h"

namespace cw::rnic::test {

using Kind = verbs::ConnectionEvent::Kind;
using verbs::WcStatus;

inline constexpr uint16_t kPort = 20049;

inline std::vector<uint8_t> pattern(size_t size, uint32_t seed = 1) {
  std::vector<uint8_t> bytes(size);
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<uint8_t>((i * 131 + i / 251 + size_t{seed} * 17) >> (seed % 3));
  }
  return bytes;
}

inline std::vector<uint8_t> bytes_of(const Chain& chain) {
  std::vector<uint8_t> bytes(chain.bytes());
  chain.copy_to(0, bytes);
  return bytes;
}

class FakeRdmaCore final : public RnicHost {
 public:
  // What the device has been given, and not done.
  struct Posted {
    SendWork work;
    std::vector<MutableBytes> pieces;
    [[nodiscard]] size_t bytes() const {
      size_t sum = 0;
      for (const MutableBytes& piece : pieces) {
        sum += piece.size();
      }
      return sum;
    }
  };
  // What peers may reach, as the device has registered it.
  struct Region {
    RnicId connection;
    MutableBytes memory;
    verbs::RemoteAccess access = verbs::RemoteAccess::kNone;
  };
  struct Connection {
    IpAddress server;  // active
    uint16_t port = 0;
    bool wants_route = false;
    bool asked = false;
    bool ready = false;
    bool established = false;
    uint16_t reads_of_peer_max = 0;
    uint32_t receives_when_asked = 0;
    bool has_queue_pair = false;
    bool answered = false;
    bool rejected = false;
    bool released = false;
    bool failed = false;
    uint32_t goodbyes = 0;
    uint32_t notifies = 0;
    uint16_t reads_max = 0;
    uint32_t receives_at_answer = 0;
    QueuePairWish wish;
    std::vector<uint8_t> private_data;
    std::deque<Posted> sends;
    std::deque<Posted> receives;
    std::vector<size_t> chains;  // their lengths
  };

  // What the transport finds.
  std::optional<Error> listen_error;
  std::optional<Error> resolve_error;
  ConnectFailure route_failure = ConnectFailure::kNone;
  ConnectFailure connect_failure = ConnectFailure::kNone;
  bool can_be_ready = true;
  bool can_establish = true;
  bool registers = true;
  bool deregisters = true;
  std::optional<Error> make_error;
  std::optional<Error> accept_error;
  uint32_t sends_taken = UINT32_MAX;  // of what is posted from now on
  uint32_t receives_taken = UINT32_MAX;
  Exposure exposed = Exposure::kNone;
  QueuePairMade made{.number = verbs::Qpn(17),
                     .send_requests = 512,
                     .receive_requests = 128,
                     .send_pieces = 4,
                     .read_pieces = 2,
                     .receive_pieces = 4,
                     .inline_bytes = 64,
                     .can_invalidate = true};

  [[nodiscard]] Connection& at(RnicId id) { return connections_[id.value()]; }
  [[nodiscard]] const std::map<uint64_t, Region>& regions() const { return regions_; }
  [[nodiscard]] const std::vector<uint16_t>& ports() const { return ports_; }
  [[nodiscard]] const std::vector<std::string>& violations() const { return violations_; }

  [[nodiscard]] Status listen(uint16_t port) override {
    if (listen_error) {
      return fail_with(*listen_error);
    }
    ports_.push_back(port);
    return {};
  }
  void unlisten(uint16_t port) override { std::erase(ports_, port); }
  [[nodiscard]] Status resolve_address(RnicId id, const IpAddress& server, uint16_t port, Duration /*patience*/) override {
    Connection& connection = live(id, "resolve_address");
    if (resolve_error) {
      connection.released = true;
      return fail_with(*resolve_error);
    }
    connection.server = server;
    connection.port = port;
    return {};
  }
  [[nodiscard]] ConnectFailure resolve_route(RnicId id, Duration /*patience*/) override {
    live(id, "resolve_route").wants_route = true;
    return route_failure;
  }
  [[nodiscard]] ConnectFailure connect(RnicId id, const RnicCall& call) override {
    Connection& connection = live(id, "connect");
    expect(connection.has_queue_pair && !connection.asked, "connect() out of turn");
    if (connect_failure == ConnectFailure::kNone) {
      connection.asked = true;
      connection.reads_max = call.reads_max;
      connection.reads_of_peer_max = call.reads_of_peer_max;
      connection.private_data.assign(call.private_data.begin(), call.private_data.end());
      connection.receives_when_asked = static_cast<uint32_t>(connection.receives.size());
    }
    return connect_failure;
  }
  [[nodiscard]] bool make_ready(RnicId id, uint16_t reads_max) override {
    Connection& connection = live(id, "make_ready");
    expect(connection.asked && !connection.ready, "make_ready() out of turn");
    connection.ready = can_be_ready;
    connection.reads_max = reads_max;
    return can_be_ready;
  }
  [[nodiscard]] bool establish(RnicId id) override {
    Connection& connection = live(id, "establish");
    expect(connection.ready && !connection.established, "establish() out of turn");
    connection.established = can_establish;
    connection.answered = true;
    return can_establish;
  }
  [[nodiscard]] Result<DeviceRegion> register_memory(RnicId id, MutableBytes memory, verbs::RemoteAccess access) override {
    const Connection& connection = live(id, "register_memory");
    if (!connection.has_queue_pair || !connection.wish.exposes) {
      return cw::fail(Error::kBadState);
    }
    if (!registers) {
      return cw::fail(Error::kNoResources);
    }
    const uint64_t handle = ++regions_made_;
    regions_[handle] = {id, memory, access};
    return DeviceRegion{.remote = {.key = verbs::Rkey(static_cast<uint32_t>(handle) << 8 | 1),
                                   .address = reinterpret_cast<uintptr_t>(memory.data())},
                        .handle = handle};
  }
  [[nodiscard]] bool deregister_memory(uint64_t handle) override {
    expect(regions_.contains(handle), "deregister_memory() of nothing");
    return deregisters && regions_.erase(handle) > 0;
  }
  [[nodiscard]] Result<QueuePairMade> make_queue_pair(RnicId id, const QueuePairWish& wish) override {
    Connection& connection = live(id, "make_queue_pair");
    if (make_error) {
      return cw::fail(*make_error);
    }
    expect(!connection.has_queue_pair, "a second queue pair");
    connection.has_queue_pair = true;
    connection.wish = wish;
    QueuePairMade result = made;
    result.receive_requests = std::min(made.receive_requests, wish.receive_requests);
    result.send_requests = std::min(made.send_requests, wish.send_requests);
    return result;
  }
  [[nodiscard]] Status accept(RnicId id, uint16_t reads_max, Bytes private_data) override {
    Connection& connection = live(id, "accept");
    if (accept_error) {
      return fail_with(*accept_error);
    }
    expect(connection.has_queue_pair && !connection.answered && !connection.rejected, "accept() out of turn");
    connection.answered = true;
    connection.reads_max = reads_max;
    connection.receives_at_answer = static_cast<uint32_t>(connection.receives.size());
    connection.private_data.assign(private_data.begin(), private_data.end());
    return {};
  }
  void reject(RnicId id, Bytes private_data) override {
    Connection& connection = live(id, "reject");
    expect(!connection.answered && !connection.rejected, "reject() out of turn");
    connection.rejected = true;
    connection.private_data.assign(private_data.begin(), private_data.end());
  }
  void notify(RnicId id) override { ++live(id, "notify").notifies; }
  [[nodiscard]] uint32_t post_sends(RnicId id, std::span<const SendWork> works) override {
    Connection& connection = live(id, "post_sends");
    expect(connection.has_queue_pair && !connection.failed, "post_sends() without a queue pair");
    expect(connection.port == 0 || connection.ready, "post_sends() to a queue pair that cannot send");
    expect(!works.empty() && works.back().signaled, "a chain whose end nobody hears of");
    connection.chains.push_back(works.size());
    const auto taken = std::min<size_t>(works.size(), sends_taken);
    for (const SendWork& work : works.first(taken)) {
      const bool is_read = work.verb == WorkVerb::kRead;
      expect(work.pieces.size() <= (is_read ? made.read_pieces : made.send_pieces), "more pieces than the device has");
      connection.sends.push_back({work, {work.pieces.begin(), work.pieces.end()}});
    }
    expect(connection.sends.size() <= std::min(made.send_requests, connection.wish.send_requests), "the send queue runs over");
    return static_cast<uint32_t>(taken);
  }
  [[nodiscard]] uint32_t post_receives(RnicId id, std::span<const ReceiveWork> works) override {
    Connection& connection = live(id, "post_receives");
    expect(connection.has_queue_pair && !connection.failed, "post_receives() without a queue pair");
    const auto taken = std::min<size_t>(works.size(), receives_taken);
    for (const ReceiveWork& work : works.first(taken)) {
      connection.receives.push_back({{.id = work.id}, {work.pieces.begin(), work.pieces.end()}});
    }
    expect(connection.receives.size() <= std::min(made.receive_requests, connection.wish.receive_requests),
           "the receive queue runs over");
    return static_cast<uint32_t>(taken);
  }
  void fail(RnicId id) override { live(id, "fail").failed = true; }
  void disconnect(RnicId id) override {
    Connection& connection = live(id, "disconnect");
    expect(connection.answered && connection.goodbyes == 0, "disconnect() out of turn");
    ++connection.goodbyes;
  }
  void destroy_queue_pair(RnicId id) override {
    Connection& connection = live(id, "destroy_queue_pair");
    expect(!deregisters || std::ranges::none_of(regions_, [&](const auto& each) { return each.second.connection == id; }),
           "a queue pair goes before what its peer may reach");
    connection.has_queue_pair = false;
    connection.sends.clear();
    connection.receives.clear();
  }
  void release(RnicId id) override {
    Connection& connection = live(id, "release");
    connection.released = true;
    connection.has_queue_pair = false;
  }
  [[nodiscard]] Exposure exposure(RnicId /*id*/) const override { return exposed; }
  [[nodiscard]] std::optional<QueuePairState> look(RnicId /*id*/) const override {
    return QueuePairState{.state = "RTS", .remote = verbs::Qpn(99), .path_mtu = 1024, .reads_max = 4};
  }
  [[nodiscard]] std::string_view device(RnicId /*id*/) const override { return "rxe0"; }

 private:
  [[nodiscard]] static Status fail_with(Error error) { return cw::fail(error); }
  void expect(bool holds, const char* what) {
    if (!holds) {
      violations_.emplace_back(what);
    }
  }
  [[nodiscard]] Connection& live(RnicId id, const char* what) {
    Connection& connection = connections_[id.value()];
    expect(!connection.released, what);
    return connection;
  }

  std::map<uint64_t, Connection> connections_;
  std::map<uint64_t, Region> regions_;
  uint64_t regions_made_ = 0;
  std::vector<uint16_t> ports_;
  std::vector<std::string> violations_;
};

// A transport on it, with a user who accepts and takes what comes, and the peers and the device by which a test acts.
struct OneEnd {
  struct Event {
    Kind kind;
    verbs::ConnectionId connection;
    std::vector<uint8_t> private_data;
    verbs::DisconnectCause cause;
  };

  explicit OneEnd(const RnicOptions& wanted = {}, uint32_t buffers = 256, uint32_t buffer_bytes = 2048)
      : pool(buffers, buffer_bytes, 4 * buffers), transport(wanted, host, pool, random) {
    pool.poison_released();
    EXPECT_TRUE(transport.listen(kPort).ok());
  }
  ~OneEnd() {
    completions.clear();
    EXPECT_EQ(host.violations(), std::vector<std::string>());
  }
  OneEnd(const OneEnd&) = delete;
  OneEnd& operator=(const OneEnd&) = delete;

  [[nodiscard]] Chain chain(Bytes bytes) {
    Chain made;
    EXPECT_TRUE(made.append_copy(pool, bytes));
    return made;
  }
  // Of so many buffers.
  [[nodiscard]] Chain chain_of(Bytes bytes, uint32_t pieces) {
    Chain made;
    const size_t each = bytes.size() / pieces;
    for (uint32_t i = 0; i < pieces; ++i) {
      Chain piece = chain(i + 1 < pieces ? bytes.subspan(i * each, each) : bytes.subspan(i * each));
      made.append(std::move(piece));
    }
    return made;
  }

  std::optional<RnicId> request(uint32_t peer = 0x0a00'0001, Bytes private_data = {}) {
    return transport.on_request(
        now,
        {.peer = IpAddress::v4(peer), .peer_port = 1000, .listener_port = kPort, .private_data = private_data, .reads_max = 8});
  }
  // The user's turn.
  void turn() {
    transport.on_deadline(now);
    take();
    (void)transport.flush(now);
    take();
  }
  void take() {
    verbs::ConnectionEvent event;
    while (transport.poll_event(now, event)) {
      events.push_back({event.kind, event.connection, {event.private_data.begin(), event.private_data.end()}, event.cause});
      if (event.kind == Kind::kConnectRequest) {
        const auto accepted = transport.accept(now, event.connection, accept_options);
        if (accepted.ok()) {
          connection = event.connection;
          qp = accepted->queue_pair;
          qp->post_receives(receives);
        } else {
          refusal = accepted.error();
          transport.reject(now, event.connection, verbs::RejectReason::kNoResources, {});
        }
      }
    }
    verbs::ReadyQueuePair ready;
    while (transport.poll_ready(ready)) {
      verbs::Completion completion;
      while (ready.queue_pair->poll_completion(completion)) {
        completions.push_back(std::move(completion));
      }
    }
  }
  void advance(Duration time) {
    now = now + time;
    turn();
  }
  // A connection that is established.
  RnicId connect() {
    const auto id = request();
    EXPECT_TRUE(id.has_value());
    turn();
    transport.on_established(now, *id);
    turn();
    EXPECT_TRUE(has_event(Kind::kEstablished));
    return *id;
  }
  // A message of the peer into the oldest receive.
  void deliver(RnicId id, Bytes message, std::optional<verbs::Rkey> invalidated = std::nullopt) {
    auto& receives_of = host.at(id).receives;
    ASSERT_FALSE(receives_of.empty()) << "the peer would find no receive";
    const FakeRdmaCore::Posted posted = receives_of.front();
    receives_of.pop_front();
    size_t at = 0;
    for (const MutableBytes& piece : posted.pieces) {
      const size_t bytes = std::min(piece.size(), message.size() - at);
      std::copy_n(message.begin() + static_cast<ptrdiff_t>(at), bytes, piece.begin());
      at += bytes;
    }
    ASSERT_EQ(at, message.size()) << "longer than the receive";
    transport.on_completion(now,
                            {.id = posted.work.id, .bytes = static_cast<uint32_t>(message.size()), .invalidated = invalidated});
  }
  // The device does its oldest work. READs find `source` at the peer's address 0; other bytes go to `sent`.
  void do_one(RnicId id) {
    auto& sends = host.at(id).sends;
    ASSERT_FALSE(sends.empty());
    const FakeRdmaCore::Posted posted = sends.front();
    sends.pop_front();
    size_t at = posted.work.remote_address;
    for (const MutableBytes& piece : posted.pieces) {
      if (posted.work.verb == WorkVerb::kRead) {
        ASSERT_LE(at + piece.size(), source.size());
        std::copy_n(source.begin() + static_cast<ptrdiff_t>(at), piece.size(), piece.begin());
      } else if (posted.work.verb == WorkVerb::kWrite) {
        sink.resize(std::max(sink.size(), at + piece.size()));
        std::ranges::copy(piece, sink.begin() + static_cast<ptrdiff_t>(at));
      } else {
        sent.insert(sent.end(), piece.begin(), piece.end());
      }
      at += piece.size();
    }
    if (posted.work.signaled) {
      transport.on_completion(now, {.id = posted.work.id});
    }
  }
  void do_all(RnicId id) {
    while (!host.at(id).sends.empty()) {
      do_one(id);
      if (host.at(id).sends.empty()) {
        (void)transport.flush(now);
      }
    }
    take();
  }
  // The device's queue pair is in Error: everything comes back, the first with `first`.
  void flush_all(RnicId id, WcStatus first = WcStatus::kWorkRequestFlushed) {
    for (auto* queue : {&host.at(id).sends, &host.at(id).receives}) {
      while (!queue->empty()) {
        const uint64_t work = queue->front().work.id;
        queue->pop_front();
        transport.on_completion(now, {.id = work, .status = std::exchange(first, WcStatus::kWorkRequestFlushed)});
      }
    }
    take();
  }
  [[nodiscard]] bool has_event(Kind kind) const {
    return std::ranges::any_of(events, [&](const Event& each) { return each.kind == kind; });
  }
  [[nodiscard]] bool was_disconnected_by(verbs::DisconnectCause cause) const {
    return std::ranges::any_of(events,
                               [&](const Event& each) { return each.kind == Kind::kDisconnected && each.cause == cause; });
  }
  [[nodiscard]] std::string cause() const { return std::string(transport.describe(connection).error.cause); }
  // The user lets go, and nothing is left.
  void expect_nothing_left() {
    transport.disconnect(now, connection);
    transport.destroy(connection);
    completions.clear();
    advance(Duration::seconds(10));
    EXPECT_EQ(transport.live_count(), 0u);
    EXPECT_EQ(transport.half_open_count(), 0u);
    EXPECT_EQ(transport.stats().connections, 0u);
    EXPECT_EQ(transport.stats().exposed, 0u);
    EXPECT_EQ(pool.in_use(), 0u);
  }

  Instant now = Instant::from_ns(1'000'000'000);
  HeapBufferPool pool;
  SeededRandom random{7};
  FakeRdmaCore host;
  RnicTransport transport;
  std::vector<Event> events;
  std::deque<verbs::Completion> completions;
  verbs::ConnectionOptions accept_options{.context = 5, .receive_bytes_max = 4096};
  uint32_t receives = 8;
  std::optional<Error> refusal;
  verbs::ConnectionId connection;
  verbs::QueuePair* qp = nullptr;
  std::vector<uint8_t> source;
  std::vector<uint8_t> sink;
  std::vector<uint8_t> sent;
};

}  // namespace cw::rnic::test
