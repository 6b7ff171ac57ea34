// iWARP over the kernel's TCP on the loopback interface: two transports with their sockets in one thread.
#include "dataplane/sockets/tcp_streams.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "base/heap_buffer_pool.h"
#include "base/random.h"
#include "control/socket/unique_fd.h"
#include "dataplane/monotonic_clock.h"
#include "tests/unit/dataplane/few_descriptors.h"
#include "verbs/memory_region.h"

namespace cw::dataplane {
namespace {

using Kind = verbs::ConnectionEvent::Kind;

constexpr verbs::ProtectionDomain kDomain{3};
const IpAddress kLoopback4 = IpAddress::v4(0x7f00'0001);

IpAddress loopback6() {
  std::array<uint8_t, 16> raw{};
  raw[15] = 1;
  return IpAddress::v6(raw);
}

std::vector<uint8_t> pattern(size_t size, uint32_t seed) {
  std::vector<uint8_t> bytes(size);
  SeededRandom random(seed);
  std::ranges::generate(bytes, [&] { return static_cast<uint8_t>(random.next_u32()); });
  return bytes;
}

std::vector<uint8_t> bytes_of(const Chain& chain) {
  std::vector<uint8_t> bytes(chain.bytes());
  chain.copy_to(0, bytes);
  return bytes;
}

// One that nobody has at the moment.
uint16_t free_port() {
  const control::UniqueFd fd(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  return ntohs(address.sin_port);
}

struct End {
  explicit End(const TcpStreamsOptions& tcp = {}, const iwarp::IwarpOptions& options = {}, bool with_memory = false)
      : random(7), memory(64, random), sockets(tcp), transport(options, sockets, pool, random, with_memory ? &memory : nullptr) {
    sockets.attach(transport);
  }

  void turn() { turn(monotonic_now()); }
  void turn(Instant now) {
    (void)sockets.receive(now);
    verbs::ConnectionEvent event;
    while (transport.poll_event(now, event)) {
      kinds.push_back(event.kind);
      rejection = event.rejection;
      peer = event.kind == Kind::kConnectRequest ? event.peer : peer;
      if (event.kind == Kind::kConnectRequest) {
        const auto accepted = transport.accept(now, event.connection, {.receive_bytes_max = 8192});
        connection = event.connection;
        qp = accepted.ok() ? accepted->queue_pair : nullptr;
      } else if (event.kind == Kind::kConnectResponse) {
        qp = event.queue_pair;
        transport.establish(now, event.connection);
      }
      if (qp != nullptr && (event.kind == Kind::kConnectRequest || event.kind == Kind::kConnectResponse)) {
        qp->post_receives(64);
      }
    }
    verbs::ReadyQueuePair ready;
    while (transport.poll_ready(ready)) {
      verbs::Completion completion;
      while (ready.queue_pair->poll_completion(completion)) {
        completions.push_back(std::move(completion));
      }
    }
    (void)sockets.transmit(now);
    transport.on_deadline(now);
  }
  [[nodiscard]] bool has(Kind kind) const { return std::ranges::find(kinds, kind) != kinds.end(); }
  [[nodiscard]] Chain chain(Bytes bytes) {
    Chain made;
    EXPECT_TRUE(made.append_copy(pool, bytes));
    return made;
  }

  HeapBufferPool pool{4096, 4096, 16384};
  SeededRandom random;
  verbs::MemoryTable memory;
  TcpStreams sockets;
  iwarp::IwarpTransport transport;
  std::vector<Kind> kinds;
  verbs::Rejection rejection;
  std::deque<verbs::Completion> completions;
  IpAddress peer;
  verbs::ConnectionId connection;
  verbs::QueuePair* qp = nullptr;
};

// Until `done`, or for a time that only a broken build takes.
[[nodiscard]] bool run(const std::vector<End*>& ends, const std::function<bool()>& done) {
  const Instant give_up = monotonic_now() + Duration::seconds(20);
  while (!done()) {
    if (monotonic_now() > give_up) {
      return false;
    }
    std::vector<pollfd> waiters;
    bool is_busy = false;
    for (End* end : ends) {
      end->turn();
      waiters.push_back({end->sockets.fd(), POLLIN, 0});
      is_busy |= !end->sockets.may_sleep(monotonic_now());
    }
    if (!is_busy && !done()) {
      (void)poll(waiters.data(), waiters.size(), 2);
    }
  }
  return true;
}

class TcpStreamsTest : public ::testing::Test {
 protected:
  void connect(const IpAddress& server_address) {
    ASSERT_TRUE(server.transport.listen(port).ok());
    const auto connected = client.transport.connect(monotonic_now(), server_address, port, {.context = 1, .domain = kDomain});
    ASSERT_TRUE(connected.ok());
    client.connection = *connected;
    ASSERT_TRUE(run({&client, &server}, [&] { return client.qp != nullptr && server.has(Kind::kEstablished); }));
  }
  void TearDown() override {
    for (End* end : {&client, &server}) {
      end->completions.clear();
      end->transport.disconnect(monotonic_now(), end->connection);
      end->transport.destroy(end->connection);
    }
    EXPECT_TRUE(
        run({&client, &server}, [&] { return client.transport.live_count() == 0 && server.transport.live_count() == 0; }));
    EXPECT_LE(client.pool.in_use(), iwarp::SpareBuffers::kCount);
    EXPECT_LE(server.pool.in_use(), iwarp::SpareBuffers::kCount);
  }

  const uint16_t port = free_port();
  End client{{}, {}, true};
  End server;
};

TEST_F(TcpStreamsTest, CarriesCallsReadsAndWritesOfAMegabyte) {
  for (const IpAddress& address : {kLoopback4, loopback6()}) {
    if (address == loopback6() && client.qp != nullptr) {
      TearDown();
      client.qp = nullptr;
      client.kinds.clear();
      server.kinds.clear();
    }
    ASSERT_NO_FATAL_FAILURE(connect(address));
    EXPECT_EQ(server.peer, address);
    const verbs::QueuePairInfo info = server.transport.describe(server.connection);
    EXPECT_GT(info.traffic.round_trip, Duration()) << "TCP has timed its handshake";
    EXPECT_GE(std::get<uint64_t>(info.value("tcp_mss_bytes")), 536u);
    EXPECT_GT(std::get<uint64_t>(info.value("tcp_congestion_window_bytes")), 0u);
    EXPECT_EQ(std::get<std::string>(info.value("state")), "RTS");
    std::vector<uint8_t> source = pattern(1 << 20, 1);
    std::vector<uint8_t> sink(1 << 20);
    const auto source_key = client.memory.register_region(kDomain, source, verbs::RemoteAccess::kRead);
    const auto sink_key = client.memory.register_region(kDomain, sink, verbs::RemoteAccess::kWrite);
    ASSERT_TRUE(client.qp->post_send({.payload = client.chain(pattern(1000, 2))}).ok());
    ASSERT_TRUE(run({&client, &server}, [&] { return server.completions.size() == 1; }));
    EXPECT_EQ(bytes_of(server.completions[0].payload), pattern(1000, 2));
    for (uint32_t i = 0; i < 4; ++i) {
      ASSERT_TRUE(server.qp
                      ->post_read({.rkey = *source_key,
                                   .remote_address = client.memory.address_of(*source_key),
                                   .length = static_cast<uint32_t>(source.size())})
                      .ok());
    }
    ASSERT_TRUE(run({&client, &server}, [&] { return server.completions.size() == 5; }));
    for (uint32_t i = 1; i < 5; ++i) {
      EXPECT_EQ(bytes_of(server.completions[i].payload), source);
    }
    server.completions.clear();
    const std::vector<uint8_t> written = pattern(1 << 20, 3);
    ASSERT_TRUE(
        server.qp
            ->post_write(
                {.payload = server.chain(written), .rkey = *sink_key, .remote_address = client.memory.address_of(*sink_key)})
            .ok());
    ASSERT_TRUE(server.qp->post_send({.payload = server.chain(pattern(100, 4)), .invalidate = *sink_key}).ok());
    client.completions.clear();
    ASSERT_TRUE(run({&client, &server}, [&] { return client.completions.size() == 1 && server.completions.size() == 2; }));
    EXPECT_EQ(client.completions[0].invalidated, *sink_key);
    EXPECT_EQ(sink, written);
    (void)client.memory.invalidate(kDomain, *source_key);
  }
}

// While it alone has something to say its socket is read without asking epoll, which would tell of the other one. Here the clock
// stands still, so this goes on as long as we like; a moment later the other one is heard.
TEST_F(TcpStreamsTest, WhoSpeaksAloneIsReadWithoutAskingForOthersAndNotForLong) {
  ASSERT_NO_FATAL_FAILURE(connect(kLoopback4));
  End other;
  const auto connected = other.transport.connect(monotonic_now(), kLoopback4, port, {.context = 2});
  ASSERT_TRUE(connected.ok());
  other.connection = *connected;
  ASSERT_TRUE(run({&server, &other}, [&] { return other.qp != nullptr && server.transport.live_count() == 2; }));
  Instant now = monotonic_now() + Duration::ms(1);  // whoever has been read until here is forgotten
  const auto say = [](End& end, uint8_t word) {
    ASSERT_TRUE(end.qp->post_send({.payload = end.chain(std::array{word})}).ok());
    end.turn();
  };
  const auto hears = [&](size_t count) {
    const Instant give_up = monotonic_now() + Duration::seconds(20);
    while (server.completions.size() < count && monotonic_now() < give_up) {
      server.turn(now);
    }
    return server.completions.size() == count && bytes_of(server.completions.back().payload).front() == count;
  };
  say(client, 1);
  ASSERT_TRUE(hears(1));
  pollfd news{server.sockets.fd(), POLLIN, 0};
  say(other, 3);
  ASSERT_EQ(poll(&news, 1, 20'000), 1);
  say(client, 2);
  EXPECT_TRUE(hears(2));
  server.turn(now);
  EXPECT_EQ(server.completions.size(), 2u);
  now = now + Duration::us(10);
  EXPECT_TRUE(hears(3));
  other.transport.destroy(other.connection);
}

// What the kernel was asked for; more cannot be seen in a short test.
TEST_F(TcpStreamsTest, TheKernelAsksIdlePeersAndGivesSilentOnesUp) {
  server.sockets.reconfigure({.user_timeout = Duration::seconds(71), .keepalive = Duration::seconds(53)});
  ASSERT_NO_FATAL_FAILURE(connect(kLoopback4));
  bool found = false;
  for (int fd = 0; fd < 1024 && !found; ++fd) {
    const auto option_of = [fd](int name) {
      int value = -1;
      socklen_t size = sizeof(value);
      return getsockopt(fd, IPPROTO_TCP, name, &value, &size) == 0 ? value : -1;
    };
    found = option_of(TCP_KEEPIDLE) == 53 && option_of(TCP_USER_TIMEOUT) == 71'000;
  }
  EXPECT_TRUE(found);
}

TEST_F(TcpStreamsTest, WhereNobodyListensTheConnectionIsRefused) {
  const auto connected = client.transport.connect(monotonic_now(), kLoopback4, port, {.context = 1});
  ASSERT_TRUE(connected.ok());
  client.connection = *connected;
  EXPECT_TRUE(run({&client}, [&] { return client.has(Kind::kRejected); }));
  EXPECT_EQ(client.rejection.reason, verbs::RejectReason::kNoListener);
}

TEST_F(TcpStreamsTest, AResetEndsTheConnectionAndNothingElse) {
  ASSERT_NO_FATAL_FAILURE(connect(kLoopback4));
  client.transport.destroy(client.connection);  // without a word before
  ASSERT_TRUE(run({&client, &server}, [&] { return server.has(Kind::kDisconnected); }));
  EXPECT_TRUE(server.qp->in_error());
}

TEST_F(TcpStreamsTest, LeavesTheLastDescriptorsToWhoLooksForTheCause) {
  ASSERT_TRUE(server.transport.listen(port).ok());
  const test::FewDescriptors one(1);  // the client's
  const auto connected = client.transport.connect(monotonic_now(), kLoopback4, port, {.context = 1});
  ASSERT_TRUE(connected.ok());
  client.connection = *connected;
  EXPECT_TRUE(run({&client, &server}, [&] { return server.sockets.look_at_tcp().accept_failures > 0; }));
  EXPECT_TRUE(run({&client, &server}, [&] { return client.has(Kind::kRejected); }));
  EXPECT_EQ(server.transport.live_count(), 0u);
}

TEST_F(TcpStreamsTest, AListenerThatIsClosedTakesNoMoreConnections) {
  ASSERT_TRUE(server.transport.listen(port).ok());
  ASSERT_TRUE(server.transport.listen(port).ok());
  server.transport.unlisten(port);
  const auto refused = client.transport.connect(monotonic_now(), kLoopback4, port, {.context = 1});
  ASSERT_TRUE(run({&client, &server}, [&] { return client.has(Kind::kRejected); }));
  client.transport.destroy(*refused);
  EXPECT_FALSE(server.sockets.in_use());
  ASSERT_NO_FATAL_FAILURE(connect(kLoopback4));  // and one opened again does
}

// The kernel deals the connections out.
TEST_F(TcpStreamsTest, SeveralCoresShareAPort) {
  End other;
  ASSERT_TRUE(server.transport.listen(port).ok());
  ASSERT_TRUE(other.transport.listen(port).ok());
  const auto connected = client.transport.connect(monotonic_now(), kLoopback4, port, {.context = 1});
  client.connection = *connected;
  ASSERT_TRUE(run({&client, &server, &other}, [&] { return client.qp != nullptr; }));
  EXPECT_NE(server.qp != nullptr, other.qp != nullptr);
  other.transport.destroy(other.connection);
}

TEST(TcpStreams, AListenerWithAnAddressListensThereOnly) {
  for (const bool by_reload : {false, true}) {
    const uint16_t port = free_port();
    const TcpStreamsOptions options{.listen = {{kLoopback4, port}}};
    End server(by_reload ? TcpStreamsOptions() : options);
    server.sockets.reconfigure(options);
    ASSERT_TRUE(server.transport.listen(port).ok());
    for (const bool v6 : {false, true}) {
      const control::UniqueFd fd(socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0));
      sockaddr_storage raw{};
      const socklen_t size = control::write_address({v6 ? loopback6() : kLoopback4, port}, raw);
      EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&raw), size), v6 ? -1 : 0);
    }
  }
}

TEST(TcpStreams, APortThatIsTakenIsSaidSo) {
  const control::UniqueFd fd(socket(AF_INET6, SOCK_STREAM, 0));
  sockaddr_storage raw{};
  const socklen_t size = control::write_address({IpAddress{}, 0}, raw);
  ASSERT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&raw), size), 0);
  ASSERT_EQ(listen(fd.get(), 1), 0);
  socklen_t read_size = sizeof(raw);
  ASSERT_EQ(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&raw), &read_size), 0);
  End server;
  const Status listening = server.transport.listen(control::read_address(raw).port);
  ASSERT_FALSE(listening.ok());
  EXPECT_EQ(listening.error(), Error::kNoResources);
  EXPECT_GT(server.sockets.look_at_tcp().listen_failures, 0u);
}

}  // namespace
}  // namespace cw::dataplane
