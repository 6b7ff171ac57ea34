// The worker pool against a real TCP server with the bench program: calls go out and replies come back byte-exact, from one poll
// core and from two; and nothing is lost, said twice or leaked when something breaks.
#include "dataplane/worker_pool.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <map>
#include <thread>

#include "base/random.h"
#include "control/socket/unique_fd.h"
#include "rpcrdma/backend/bench_client.h"
#include "tests/support/locked_buffer_pool.h"
#include "tests/support/sanitized.h"
#include "tests/support/tcp_bench_server.h"
#include "tests/unit/dataplane/loopback_listener.h"

namespace cw::dataplane {
namespace {

using cw::test::LockedBufferPool;
using cw::test::TcpBenchServer;
using gateway::BackendEvent;
using gateway::BackendRequest;
using gateway::LinkId;
using test::ByteVector;
using test::random_bytes;

class Rig {
 public:
  struct Options {
    uint32_t workers = 2;
    uint32_t cores = 1;
    uint32_t ring_entries = 1024;
    control::SocketAddress server;
    uint32_t buffers = 2048;
    rpcrdma::RecordLimits limits;
  };
  explicit Rig(const Options& options) : pool(options.buffers, 16384, 8192), wakeups_(options.cores) {
    CW_ASSERT(programs_.add(bench_));
    std::vector<Wakeup*> raw;
    for (auto& wakeup : wakeups_) {
      wakeup = std::make_unique<Wakeup>();
      raw.push_back(wakeup.get());
    }
    WorkerPoolOptions pool_options;
    pool_options.workers = options.workers;
    pool_options.cores = options.cores;
    pool_options.ring_entries = options.ring_entries;
    pool_options.backends = {{options.server}};
    pool_options.limits = options.limits;
    pool_options.reply_buffers = options.buffers;
    pool_options.reply_buffers_min = options.buffers / 4;
    workers = std::make_unique<WorkerPool>(pool_options, pool, programs_, raw);
  }
  ~Rig() {
    workers.reset();
    EXPECT_EQ(pool.in_use(), 0u);
  }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  [[nodiscard]] static BackendRequest request(BackendRequest::Kind kind, uint64_t link) {
    BackendRequest out;
    out.kind = kind;
    out.link = LinkId(link);
    return out;
  }
  // An ECHO call with this XID.
  [[nodiscard]] BackendRequest echo(BackendRequest::Kind kind, uint64_t link, uint32_t xid, const ByteVector& data) {
    BackendRequest out = request(kind, link);
    CW_ASSERT(rpcrdma::build_bench_echo(pool, data, rpcrdma::BenchData::kInStream, out.message));
    store_be32(out.message.head()->data, xid);
    out.call = rpcrdma::CallId(xid);
    return out;
  }
  void submit(uint32_t core, BackendRequest&& request) {
    while (!workers->submit(core, request)) {
      workers->kick(core);
      std::this_thread::yield();
    }
    workers->kick(core);
  }
  // The next event, within five seconds.
  bool next(uint32_t core, BackendEvent& out) {
    for (int turn = 0; turn < 50; ++turn) {
      if (workers->poll(core, out)) {
        return true;
      }
      wakeups_[core]->prepare();
      if (!workers->has_events(core)) {
        pollfd polled{wakeups_[core]->fd(), POLLIN, 0};
        (void)poll(&polled, 1, 100);
      }
      wakeups_[core]->awake(true);
    }
    return false;
  }
  void expect(uint32_t core, BackendEvent::Kind kind, uint64_t link) {
    BackendEvent event;
    ASSERT_TRUE(next(core, event));
    EXPECT_EQ(event.kind, kind);
    EXPECT_EQ(event.link, LinkId(link));
  }
  void open(uint32_t core, uint64_t link) {
    submit(core, request(BackendRequest::Kind::kOpen, link));
    expect(core, BackendEvent::Kind::kOpened, link);
  }

  LockedBufferPool pool;
  std::unique_ptr<WorkerPool> workers;

 private:
  rpcrdma::BenchProgram bench_;
  rpcrdma::ProgramRegistry programs_;
  std::vector<std::unique_ptr<Wakeup>> wakeups_;
};

control::SocketAddress address_of(const TcpBenchServer& server) {
  return {IpAddress::v4(0x7f000001), server.port()};
}

uint32_t xid_of(const Chain& message) {
  std::array<uint8_t, 4> raw{};
  message.copy_to(0, raw);
  return load_be32(raw.data());
}
bool is_echo_of(const Chain& reply, const ByteVector& data) {
  return rpcrdma::check_bench_echo({.message = &reply, .long_reply = {}, .placed_data = {}}, data);
}

// Calls of random sizes on several links of one core, a window open on each; every reply is compared.
void run_core(Rig& rig, uint32_t core, uint32_t links, uint32_t calls, uint32_t bytes_max) {
  SeededRandom random(core + 1);
  std::map<uint32_t, std::pair<uint64_t, ByteVector>> waiting;  // by XID
  uint32_t sent = 0;
  uint32_t answered = 0;
  const uint64_t first = uint64_t{core} * 100 + 1;
  for (uint64_t link = first; link < first + links; ++link) {
    rig.open(core, link);
  }
  while (answered < calls) {
    while (sent < calls && waiting.size() < size_t{4} * links) {
      const uint64_t link = first + random.next_below(links);
      const uint32_t xid = core << 24 | sent;
      ByteVector data = random_bytes(random.next_below(10) == 0 ? bytes_max : random.next_below(2000), xid);
      rig.submit(core, rig.echo(BackendRequest::Kind::kSend, link, xid, data));
      waiting[xid] = {link, std::move(data)};
      ++sent;
    }
    BackendEvent event;
    ASSERT_TRUE(rig.next(core, event)) << answered << " of " << calls;
    ASSERT_EQ(event.kind, BackendEvent::Kind::kMessage);
    const auto found = waiting.find(xid_of(event.message));
    ASSERT_NE(found, waiting.end());
    EXPECT_EQ(event.link, LinkId(found->second.first));
    EXPECT_TRUE(is_echo_of(event.message, found->second.second));
    waiting.erase(found);
    ++answered;
  }
  for (uint64_t link = first; link < first + links; ++link) {
    rig.submit(core, Rig::request(BackendRequest::Kind::kClose, link));
  }
}

TEST(WorkerPool, CarriesCallsAndRepliesOfOneCore) {
  TcpBenchServer server;
  Rig rig({.server = address_of(server)});
  rig.workers->start();
  run_core(rig, 0, 4, 400, 100'000);
  EXPECT_EQ(server.calls(), 400u);
  EXPECT_EQ(server.connections(), 4u);
}

// As a reload brings it, while the workers run.
TEST(WorkerPool, ConnectsToABackendThatItHasBeenToldOf) {
  TcpBenchServer first;
  TcpBenchServer second;
  Rig rig({.server = address_of(first)});
  rig.workers->start();
  rig.open(0, 1);
  rig.submit(0, rig.echo(BackendRequest::Kind::kSend, 1, 1, random_bytes(10, 1)));  // answered: the server has taken it
  BackendEvent answered;
  ASSERT_TRUE(rig.next(0, answered));
  const uint32_t backend = gateway::kBackendIdsMax - 1;
  rig.workers->set_backend(backend, "second", false);
  rig.workers->set_server(backend, 3, address_of(second));
  BackendRequest open = Rig::request(BackendRequest::Kind::kOpen, 2);
  open.backend = backend;
  open.server = 3;
  rig.submit(0, std::move(open));
  rig.expect(0, BackendEvent::Kind::kOpened, 2);
  const ByteVector data = random_bytes(500, 1);
  rig.submit(0, rig.echo(BackendRequest::Kind::kSend, 2, 7, data));
  BackendEvent event;
  ASSERT_TRUE(rig.next(0, event));
  EXPECT_EQ(event.backend, backend);
  EXPECT_TRUE(is_echo_of(event.message, data));
  EXPECT_EQ(first.connections(), 1u);
  EXPECT_EQ(second.connections(), 1u);
}

TEST(WorkerPool, CarriesCallsAndRepliesOfTwoCoresApart) {
  TcpBenchServer server;
  Rig rig({.cores = 2, .server = address_of(server)});
  rig.workers->start();
  std::thread other([&rig] { run_core(rig, 1, 5, 300, 50'000); });
  run_core(rig, 0, 3, 300, 50'000);
  other.join();
  EXPECT_EQ(server.calls(), 600u);
}

TEST(WorkerPool, MovesAMessageOfMegabytesWhileTheServerTrickles) {
  TcpBenchServer server({.write_bytes_max = 7'001});
  Rig rig({.server = address_of(server)});
  rig.workers->start();
  rig.open(0, 1);
  const ByteVector data = random_bytes(4u << 20, 1);
  rig.submit(0, rig.echo(BackendRequest::Kind::kSend, 1, 1, data));
  BackendEvent event;
  ASSERT_TRUE(rig.next(0, event));
  ASSERT_EQ(event.kind, BackendEvent::Kind::kMessage);
  EXPECT_TRUE(is_echo_of(event.message, data));
}

TEST(WorkerPool, SaysThatTheBackendRefused) {
  const test::LoopbackListener nobody;
  Rig rig({.server = nobody.address()});
  rig.workers->start();
  for (uint64_t link = 1; link <= 5; ++link) {
    rig.submit(0, Rig::request(BackendRequest::Kind::kOpen, link));
    rig.expect(0, BackendEvent::Kind::kFailed, link);
  }
}

// The server dies with calls in flight: each link is told once, what was sent behind it is given back, and the next open works.
// RPC libraries went round and round when descriptors had run out (CVE-2021-46828): here each attempt fails at once and for
// good, no thread spins, connections that are open go on, and when there are descriptors again there are new ones too.
TEST(WorkerPool, B7_WithoutDescriptorsConnectionsFailAndNothingSpins) {
  TcpBenchServer server;
  Rig rig({.server = address_of(server)});
  rig.workers->start();
  rig.open(0, 1);
  while (server.connections() < 1) {
    std::this_thread::yield();  // open for us, perhaps not yet accepted: the server too needs a descriptor
  }
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 256;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<int> hog;
  for (int fd = 0; (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) {
    hog.push_back(fd);
  }
  EXPECT_EQ(errno, EMFILE);
  for (uint64_t link = 2; link < 50; ++link) {
    rig.submit(0, Rig::request(BackendRequest::Kind::kOpen, link));
    rig.expect(0, BackendEvent::Kind::kFailed, link);
  }
  timespec begin{};
  timespec end{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
  const int64_t busy_ns = (end.tv_sec - begin.tv_sec) * 1'000'000'000 + end.tv_nsec - begin.tv_nsec;
  EXPECT_LT(busy_ns, 200'000'000) << "something spins";
  const ByteVector data = random_bytes(5'000, 1);
  rig.submit(0, rig.echo(BackendRequest::Kind::kSend, 1, 77, data));
  BackendEvent event;
  ASSERT_TRUE(rig.next(0, event));
  EXPECT_EQ(event.kind, BackendEvent::Kind::kMessage);
  event.message.clear();
  for (const int fd : hog) {
    close(fd);
  }
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  rig.open(0, 60);
}

// The reply is complete and needs a view, and there is none. The server has nothing more to say, so that its socket wakes nobody.
TEST(WorkerPool, DeliversAReplyThatWaitedForAView) {
  TcpBenchServer server;
  Rig rig({.workers = 1, .server = address_of(server)});
  rig.workers->start();
  rig.open(0, 1);
  Chain all;
  all.push_back(rig.pool.allocate_one());
  (void)all.head()->append(ByteVector(8, 1));
  while (Buffer* view = rig.pool.share(*all.head(), 0, 8)) {
    all.push_back(view);
  }
  const ByteVector data = random_bytes(500, 1);
  rig.submit(0, rig.echo(BackendRequest::Kind::kSend, 1, 7, data));
  while (server.calls() == 0) {
    std::this_thread::yield();
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  BackendEvent event;
  EXPECT_FALSE(rig.workers->poll(0, event));
  all.clear();
  ASSERT_TRUE(rig.next(0, event));
  EXPECT_EQ(event.kind, BackendEvent::Kind::kMessage);
  EXPECT_TRUE(is_echo_of(event.message, data));
}

// A backend begins more replies than the pool holds and ends none. The other backend's replies come
// meanwhile, large and small, and the first one's connections end when their replies have stood still for long enough.
TEST(WorkerPool, ABackendThatHangsWithinRepliesHoldsNobodyUp) {
  constexpr uint32_t kHung = 20;
  test::LoopbackListener hung;
  hung.listen();
  TcpBenchServer server;
  Rig rig({.workers = 1,
           .server = hung.address(),
           .buffers = 100,
           .limits = {.message_bytes_max = 1u << 20, .stall_max = Duration::ms(cw::test::kSanitized ? 4'000 : 700)}});
  rig.workers->set_backend(1, "other", false);
  rig.workers->set_server(1, 0, address_of(server));
  rig.workers->set_backend_count(2);
  rig.workers->start();
  std::vector<test::Peer> peers;
  for (uint64_t link = 1; link <= kHung; ++link) {
    rig.open(0, link);
    peers.push_back(hung.accept());
  }
  BackendRequest open = Rig::request(BackendRequest::Kind::kOpen, 100);
  open.backend = 1;
  rig.submit(0, std::move(open));
  rig.expect(0, BackendEvent::Kind::kOpened, 100);
  ByteVector begun(kHung + 1'000);
  rpcrdma::write_record_mark(std::span<uint8_t, 4>(begun.data(), 4), 400'000);
  for (const test::Peer& peer : peers) {
    ASSERT_EQ(peer.send(begun), begun.size());
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LE(rig.pool.in_use(), 45u);
  for (uint32_t call = 0; call < 20; ++call) {
    const ByteVector data = random_bytes(call % 2 == 0 ? 300'000 : 100, call);
    rig.submit(0, rig.echo(BackendRequest::Kind::kSend, 100, call, data));
    BackendEvent event;
    ASSERT_TRUE(rig.next(0, event)) << call;
    ASSERT_EQ(event.kind, BackendEvent::Kind::kMessage) << call;
    EXPECT_TRUE(is_echo_of(event.message, data));
  }
  EXPECT_GT(rig.workers->stats().replies_waiting, 0u);
  BackendEvent event;
  ASSERT_TRUE(rig.next(0, event));
  EXPECT_EQ(event.kind, BackendEvent::Kind::kClosed);
  EXPECT_GT(rig.workers->stats().replies_stalled, 0u);
}

uint16_t port_of(const test::Peer& peer) {
  sockaddr_in seen{};
  socklen_t length = sizeof(seen);
  EXPECT_EQ(getpeername(peer.fd(), reinterpret_cast<sockaddr*>(&seen), &length), 0);
  return ntohs(seen.sin_port);
}

// A client comes back while its connection before has a call at the backend: what is sent waits with the new one until the old
// one is closed, and the backend sees one port.
TEST(WorkerPool, AConnectionWaitsForThePortOfTheOneBefore) {
  test::LoopbackListener listener;
  listener.listen();
  Rig rig({.workers = 2, .server = listener.address()});
  rig.workers->start();
  const uint16_t port = rig.workers->source_ports().take(IpAddress::v4(0x0a090002), 0);
  const auto open = [&](uint64_t link) {
    BackendRequest request = Rig::request(BackendRequest::Kind::kOpen, link);
    request.source_port = port;
    rig.submit(0, std::move(request));
  };
  open(1);
  rig.expect(0, BackendEvent::Kind::kOpened, 1);
  const test::Peer before = listener.accept();
  EXPECT_EQ(port_of(before), port);
  open(2);
  rig.submit(0, rig.echo(BackendRequest::Kind::kSend, 2, 1, random_bytes(100, 1)));
  rig.expect(0, BackendEvent::Kind::kPortBusy, 2);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  BackendEvent event;
  EXPECT_FALSE(rig.workers->poll(0, event));
  rig.submit(0, Rig::request(BackendRequest::Kind::kClose, 1));
  rig.expect(0, BackendEvent::Kind::kOpened, 2);
  const test::Peer after = listener.accept();
  EXPECT_EQ(port_of(after), port);
  ASSERT_TRUE(test::wait_for(after.fd(), POLLIN));
  ByteVector got;
  after.receive(got);
  EXPECT_GT(got.size(), 100u);
  EXPECT_EQ(rig.workers->stats().other_ports, 0u);
}

// The one before waits for an answer that is late: from another port the backend would do the call again.
TEST(WorkerPool, AConnectionWaitsForThePortOfOursLongerThanForThatOfOthers) {
  test::LoopbackListener listener;
  listener.listen();
  Rig rig({.workers = 2, .server = listener.address()});
  rig.workers->start();
  const uint16_t port = rig.workers->source_ports().take(IpAddress::v4(0x0a090002), 0);
  std::vector<test::Peer> peers;
  for (uint64_t link = 1; link <= 2; ++link) {
    BackendRequest request = Rig::request(BackendRequest::Kind::kOpen, link);
    request.source_port = port;
    rig.submit(0, std::move(request));
    if (link == 1) {
      rig.expect(0, BackendEvent::Kind::kOpened, link);
      peers.push_back(listener.accept());
    }
  }
  rig.expect(0, BackendEvent::Kind::kPortBusy, 2);
  std::this_thread::sleep_for(std::chrono::milliseconds(1'500));
  BackendEvent event;
  EXPECT_FALSE(rig.workers->poll(0, event));
  rig.submit(0, Rig::request(BackendRequest::Kind::kClose, 1));
  rig.expect(0, BackendEvent::Kind::kOpened, 2);
  EXPECT_EQ(port_of(listener.accept()), port);
  EXPECT_EQ(rig.workers->stats().other_ports, 0u);
}

TEST(WorkerPool, WhileAConnectionOfOursHasThePortNobodyTriesToConnectFromIt) {
  EXPECT_EQ(port_try(true, Duration()), PortTry::kLater);
  EXPECT_EQ(port_try(true, kHeldPortPatience - Duration::ns(1)), PortTry::kLater);
  EXPECT_EQ(port_try(true, kHeldPortPatience), PortTry::kThisOrAny);
  EXPECT_EQ(port_try(false, Duration()), PortTry::kThis) << "given back: at the next look";
  EXPECT_EQ(port_try(false, kPortPatience), PortTry::kThisOrAny);
}

TEST(WorkerPool, AConnectionWhosePortSomebodyElseHasComesFromAnother) {
  test::LoopbackListener listener;
  listener.listen();
  Rig rig({.workers = 1, .server = listener.address()});
  rig.workers->start();
  const uint16_t port = rig.workers->source_ports().take(IpAddress::v4(0x0a090002), 0);
  const control::UniqueFd other(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(port);
  ASSERT_EQ(bind(other.get(), reinterpret_cast<sockaddr*>(&any), sizeof(any)), 0);
  BackendRequest request = Rig::request(BackendRequest::Kind::kOpen, 1);
  request.source_port = port;
  rig.submit(0, std::move(request));
  rig.expect(0, BackendEvent::Kind::kPortBusy, 1);
  rig.expect(0, BackendEvent::Kind::kOpened, 1);
  EXPECT_NE(port_of(listener.accept()), port);
  EXPECT_EQ(rig.workers->stats().other_ports, 1u);
}

TEST(WorkerPool, SaysOnceThatTheBackendDied) {
  TcpBenchServer server({.answers = false});
  Rig rig({.server = address_of(server)});
  rig.workers->start();
  for (uint64_t link = 1; link <= 3; ++link) {
    rig.open(0, link);
    for (uint32_t i = 0; i < 20; ++i) {
      rig.submit(0, rig.echo(BackendRequest::Kind::kSend, link, i, random_bytes(3'000, i)));
    }
  }
  while (server.connections() < 3) {
    std::this_thread::yield();  // open for us, perhaps not yet accepted: those would not be dropped
  }
  server.drop_connections();
  std::vector<uint64_t> closed;
  BackendEvent event;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(rig.next(0, event));
    EXPECT_EQ(event.kind, BackendEvent::Kind::kClosed);
    closed.push_back(event.link.value());
  }
  std::sort(closed.begin(), closed.end());
  EXPECT_EQ(closed, (std::vector<uint64_t>{1, 2, 3}));
  rig.submit(0, rig.echo(BackendRequest::Kind::kSend, 1, 99, random_bytes(3'000, 1)));
  rig.submit(0, Rig::request(BackendRequest::Kind::kClose, 2));
  rig.open(0, 4);
  EXPECT_FALSE(rig.workers->poll(0, event));
}

TEST(WorkerPool, DeliversRepliesThatCameBeforeTheEnd) {
  TcpBenchServer server({.close_after_calls = 11});
  Rig rig({.workers = 1, .server = address_of(server)});
  rig.workers->start();
  rig.open(0, 1);
  for (uint32_t i = 0; i < 10; ++i) {
    const ByteVector data = random_bytes(100 + i, i);
    rig.submit(0, rig.echo(BackendRequest::Kind::kSend, 1, i, data));
    BackendEvent event;
    ASSERT_TRUE(rig.next(0, event));
    ASSERT_EQ(event.kind, BackendEvent::Kind::kMessage);
    EXPECT_TRUE(is_echo_of(event.message, data));
  }
  rig.submit(0, rig.echo(BackendRequest::Kind::kSend, 1, 10, {}));
  rig.expect(0, BackendEvent::Kind::kClosed, 1);
}

TEST(WorkerPool, RunsProgramsAndAnswersTheCoreThatAsked) {
  Rig rig({.cores = 2});
  rig.workers->start();
  const auto run = [&rig](uint32_t core) {
    std::map<uint32_t, ByteVector> waiting;
    for (uint32_t i = 0; i < 200; ++i) {
      const uint32_t xid = core << 24 | i;
      waiting[xid] = random_bytes(i * 37 % 5000, xid);
      rig.submit(core, rig.echo(BackendRequest::Kind::kRun, 1, xid, waiting[xid]));
    }
    while (!waiting.empty()) {
      BackendEvent event;
      ASSERT_TRUE(rig.next(core, event));
      ASSERT_EQ(event.kind, BackendEvent::Kind::kRan);
      const uint32_t xid = xid_of(event.message);
      EXPECT_EQ(event.call, rpcrdma::CallId(xid));
      ASSERT_EQ(waiting.count(xid), 1u);
      EXPECT_TRUE(is_echo_of(event.message, waiting[xid]));
      waiting.erase(xid);
    }
  };
  std::thread other([&run] { run(1); });
  run(0);
  other.join();
}

TEST(WorkerPool, LeavesARequestAloneThatItsRingCannotTake) {
  Rig rig({.workers = 1, .ring_entries = 7});  // not started: nobody empties the ring
  uint32_t taken = 0;
  BackendRequest request = rig.echo(BackendRequest::Kind::kSend, 1, 0, random_bytes(500, 1));
  while (rig.workers->submit(0, request)) {
    ++taken;
    request = rig.echo(BackendRequest::Kind::kSend, 1, taken, random_bytes(500, 1));
  }
  EXPECT_EQ(taken, 7u);
  EXPECT_EQ(xid_of(request.message), 7u);
  EXPECT_GT(request.message.bytes(), 500u);
}

// A core that takes no events: its replies wait, in order, and the worker reads no more from the server than a bounded amount.
TEST(WorkerPool, HoldsBackWhenACoreTakesNoEvents) {
  TcpBenchServer server;
  Rig rig({.workers = 1, .ring_entries = 15, .server = address_of(server)});
  rig.workers->start();
  rig.open(0, 1);
  constexpr uint32_t kCalls = 10'000;  // more than the sockets between worker and server hold
  constexpr uint32_t kBytes = 10'000;
  uint32_t sent = 0;
  for (uint32_t patience = 0; sent < kCalls && patience < 100;) {
    BackendRequest request = rig.echo(BackendRequest::Kind::kSend, 1, sent, random_bytes(kBytes, sent));
    if (rig.workers->submit(0, request)) {
      ++sent;
    } else {
      ++patience;
      (void)poll(nullptr, 0, 2);
    }
    rig.workers->kick(0);
  }
  EXPECT_LT(sent, kCalls);  // the worker has stopped taking
  EXPECT_LT(rig.pool.in_use(), 1'000u);
  for (uint32_t answered = 0; answered < sent; ++answered) {
    BackendEvent event;
    ASSERT_TRUE(rig.next(0, event)) << answered << " of " << sent;
    ASSERT_EQ(event.kind, BackendEvent::Kind::kMessage);
    EXPECT_EQ(xid_of(event.message), answered);
    EXPECT_TRUE(is_echo_of(event.message, random_bytes(kBytes, answered)));
  }
}

// More than a batch, for both workers, without a kick: the last ones are still with the core.
TEST(WorkerPool, GivesBackWhatWasNeverKicked) {
  TcpBenchServer server;
  for (const bool started : {false, true}) {
    Rig rig({.server = address_of(server)});
    if (started) {
      rig.workers->start();
    }
    for (uint32_t i = 0; i < 75; ++i) {
      BackendRequest request = rig.echo(BackendRequest::Kind::kSend, 1 + i % 2, i, random_bytes(500, i));
      ASSERT_TRUE(rig.workers->submit(0, request));
    }
  }
}

TEST(WorkerPool, SendsInOrderWhatBurstsOfAnySizeHold) {
  TcpBenchServer server;
  Rig rig({.workers = 1, .server = address_of(server)});
  rig.workers->start();
  uint32_t sent = 0;
  uint32_t answered = 0;
  for (uint32_t burst = 1; burst < 80; burst += 6) {
    const uint64_t link = burst;
    BackendRequest open = Rig::request(BackendRequest::Kind::kOpen, link);  // in one burst with what is sent on it
    ASSERT_TRUE(rig.workers->submit(0, open));
    for (uint32_t i = 0; i < burst; ++i) {
      BackendRequest request = rig.echo(BackendRequest::Kind::kSend, link, sent, random_bytes(50, sent));
      ASSERT_TRUE(rig.workers->submit(0, request));
      ++sent;
    }
    rig.workers->kick(0);
    rig.expect(0, BackendEvent::Kind::kOpened, link);
    for (uint32_t i = 0; i < burst; ++i) {
      BackendEvent event;
      ASSERT_TRUE(rig.next(0, event));
      ASSERT_EQ(event.kind, BackendEvent::Kind::kMessage);
      EXPECT_EQ(xid_of(event.message), answered++);
    }
  }
}

// The core has stopped to take events: some are in its ring, and more are with the worker.
TEST(WorkerPool, StopsWhileEventsWaitForRoom) {
  TcpBenchServer server;
  Rig rig({.workers = 1, .ring_entries = 7, .server = address_of(server)});
  rig.workers->start();
  rig.open(0, 1);
  bool full = false;  // also the ring of requests, since the worker takes no more
  for (uint32_t i = 0; i < 1'000 && !full; ++i) {
    BackendRequest request = rig.echo(BackendRequest::Kind::kSend, 1, i, random_bytes(100, i));
    full = !rig.workers->submit(0, request);
    rig.workers->kick(0);
    (void)poll(nullptr, 0, 2);
  }
  EXPECT_TRUE(full);
  EXPECT_GE(server.calls(), 8u);
}

TEST(WorkerPool, StopsWithWorkPendingAndLeaksNothing) {
  TcpBenchServer server;
  for (uint32_t round = 0; round < 30; ++round) {
    Rig rig({.workers = 1 + round % 2, .ring_entries = 63, .server = address_of(server)});
    rig.workers->start();
    for (uint32_t i = 0; i < 20 + round; ++i) {
      const uint64_t link = 1 + i % 4;
      BackendRequest request = i < 4 ? Rig::request(BackendRequest::Kind::kOpen, link)
                                     : rig.echo(i % 3 == 0 ? BackendRequest::Kind::kRun : BackendRequest::Kind::kSend, link, i,
                                                random_bytes(9'000, i));
      (void)rig.workers->submit(0, request);
      rig.workers->kick(0);
    }
    BackendEvent event;
    for (uint32_t i = 0; i < round; ++i) {
      (void)rig.next(0, event);
    }
    rig.workers->stop();
    rig.workers->stop();
  }
}

}  // namespace
}  // namespace cw::dataplane
