// The simulated TCP: what it does to streams, seen by two iWARP transports.
#include <gtest/gtest.h>

#include <memory>

#include "apps/sim/tcp.h"
#include "base/heap_buffer_pool.h"
#include "verbs/memory_region.h"

namespace cw::sim {
namespace {

constexpr uint16_t kTcpPort = 20049;
const IpAddress kServerAddress = IpAddress::v4(0x0a00'0001);

// A process with an iWARP transport, and no more. The clock of its host is the net's.
struct TcpPeer {
  TcpPeer(TcpNet& net_of, uint32_t index) : net(net_of), tcp(net, index, IpAddress::v4(0x0a00'0001 + index)) {
    tcp.attach(iwarp);
  }

  // Everything that is to be done now.
  void turn() {
    do {
      tcp.receive(net.now());
      iwarp.on_deadline(net.now());
      verbs::ConnectionEvent event;
      while (iwarp.poll_event(net.now(), event)) {
        on_event(event);
      }
      verbs::ReadyQueuePair ready;
      while (iwarp.poll_ready(ready)) {
        verbs::Completion completion;
        while (ready.queue_pair->poll_completion(completion)) {
          messages += completion.opcode == verbs::WcOpcode::kReceive ? 1 : 0;
          bytes += completion.opcode == verbs::WcOpcode::kReceive ? completion.bytes : 0;
        }
      }
      tcp.transmit(net.now());
    } while (tcp.has_work());
  }
  void on_event(const verbs::ConnectionEvent& event) {
    using Kind = verbs::ConnectionEvent::Kind;
    switch (event.kind) {
      case Kind::kConnectRequest: {
        const auto accepted = iwarp.accept(net.now(), event.connection, {.receive_bytes_max = 100'000});
        ASSERT_TRUE(accepted.ok());
        queue_pair = accepted->queue_pair;
        queue_pair->post_receives(16);
        connection = event.connection;
        return;
      }
      case Kind::kConnectResponse:
        queue_pair = event.queue_pair;
        iwarp.establish(net.now(), event.connection);
        return;
      case Kind::kEstablished:
        ++established;
        return;
      case Kind::kRejected:
        rejected = event.rejection.reason;
        iwarp.destroy(event.connection);
        return;
      case Kind::kUnreachable:
      case Kind::kDisconnected:
        ++ended;
        iwarp.destroy(event.connection);
        queue_pair = nullptr;
        return;
    }
  }
  void connect() {
    const auto made = iwarp.connect(net.now(), kServerAddress, kTcpPort, {.receive_bytes_max = 100'000});
    ASSERT_TRUE(made.ok());
    connection = *made;
    turn();
  }
  void send(uint32_t size) {
    ASSERT_NE(queue_pair, nullptr);
    const std::vector<uint8_t> data(size, 0x5a);
    Chain payload;
    ASSERT_TRUE(payload.append_copy(pool, data));
    ASSERT_TRUE(queue_pair->post_send({.payload = std::move(payload)}).ok());
    turn();
  }
  void hang_up() {
    iwarp.disconnect(net.now(), connection);
    iwarp.destroy(connection);
    queue_pair = nullptr;
    turn();
  }

  TcpNet& net;
  SeededRandom random{7};
  HeapBufferPool pool{512, 2048, 512};
  TcpHost tcp;
  iwarp::IwarpTransport iwarp{{.connections_max = 8, .half_open_max = 8}, tcp, pool, random};
  verbs::QueuePair* queue_pair = nullptr;
  verbs::ConnectionId connection;
  std::optional<verbs::RejectReason> rejected;
  uint32_t established = 0;
  uint32_t ended = 0;
  uint32_t messages = 0;
  uint64_t bytes = 0;
};

class SimTcp : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(server->iwarp.listen(kTcpPort).ok()); }

  // As long as something happens, but no longer than `time`.
  void pass(Duration time = Duration::ms(100)) {
    const Instant end = net.now() + time;
    const auto serve = [this] {
      if (server) {
        server->turn();
      }
      if (client) {
        client->turn();
      }
    };
    serve();
    while (net.next_at() <= end) {
      net.advance(net.next_at(), [this](uint32_t, Bytes more) { segments += more.empty() ? 0 : 1; });
      serve();
    }
    net.advance(end, [](uint32_t, Bytes) {});
    serve();
  }
  void trouble(FaultKind kind, Direction direction, uint64_t at_byte = 0, uint32_t amount = 0) {
    net.add_fault(2,
                  {.kind = kind,
                   .direction = direction,
                   .until = Duration::seconds(1),
                   .at_frame = at_byte,
                   .amount = amount,
                   .time = Duration::ms(1),
                   .seed = 3},
                  Instant());
  }

  TcpNet net{{.mss_bytes = 1000, .buffer_bytes = 10'000}, 1};
  std::unique_ptr<TcpPeer> server = std::make_unique<TcpPeer>(net, 0);
  std::unique_ptr<TcpPeer> client = std::make_unique<TcpPeer>(net, 2);
  uint64_t segments = 0;
};

TEST_F(SimTcp, CarriesMoreThanItsBuffersHold) {
  client->connect();
  pass();
  client->send(60'000);
  pass();
  EXPECT_EQ(server->bytes, 60'000u);
  EXPECT_GT(client->tcp.look_at_tcp().blocked_writes, 0u);
  client->hang_up();
  pass();
  EXPECT_TRUE(net.is_quiet());
  EXPECT_EQ(server->iwarp.live_count() + client->iwarp.live_count(), 0u);
}

TEST_F(SimTcp, CutsAStreamIntoSingleBytes) {
  trouble(FaultKind::kStreamTiny, Direction::kBoth, 0, 1000);
  client->connect();
  pass();
  client->send(900);
  pass();
  EXPECT_EQ(server->bytes, 900u);
  EXPECT_GT(segments, 200u);
}

TEST_F(SimTcp, WritesNoMoreThanAByteIntoAWindowOfOne) {
  trouble(FaultKind::kStreamWindow, Direction::kBoth, 0, 1);
  client->connect();
  pass();
  client->send(100);
  pass();
  EXPECT_EQ(server->bytes, 100u);
  EXPECT_EQ(segments, net.bytes_of(2, 0) + net.bytes_of(2, 1));
}

TEST_F(SimTcp, HoldsEverythingBackWhileItStalls) {
  client->connect();
  pass();
  trouble(FaultKind::kStreamStall, Direction::kToGateway);
  client->send(9'000);
  pass(Duration::ms(500));
  EXPECT_EQ(server->messages, 0u);
  EXPECT_GT(net.bytes_of(2, 0), 9'000u);  // they are on their way
  pass(Duration::seconds(1));
  EXPECT_EQ(server->messages, 1u);
}

TEST_F(SimTcp, ResetsBothEndsAtAByte) {
  client->connect();
  pass();
  const uint64_t before = net.bytes_of(2, 0);
  trouble(FaultKind::kStreamReset, Direction::kToGateway, before + 51);
  client->send(100);
  pass();
  EXPECT_EQ(net.bytes_of(2, 0), before + 50);
  EXPECT_EQ(server->ended, 1u);
  EXPECT_EQ(client->ended, 1u);
  EXPECT_TRUE(net.is_quiet());
}

TEST_F(SimTcp, HalfClosesAtAByteAndTheOtherEndFollows) {
  client->connect();
  pass();
  trouble(FaultKind::kStreamHalfClose, Direction::kToGateway, net.bytes_of(2, 0) + 51);
  client->send(100);
  pass();
  EXPECT_EQ(server->messages, 0u);
  EXPECT_EQ(server->ended, 1u);
  EXPECT_EQ(client->ended, 1u);
  pass(Duration::seconds(5));  // the last words of both have their time
  EXPECT_TRUE(net.is_quiet());
}

TEST_F(SimTcp, RefusesConnects) {
  trouble(FaultKind::kConnectRefused, Direction::kBoth);
  client->connect();
  pass();
  EXPECT_EQ(client->rejected, verbs::RejectReason::kNoListener);
  EXPECT_EQ(server->iwarp.stats().accepted, 0u);
  EXPECT_TRUE(net.is_quiet());
}

TEST_F(SimTcp, RefusesConnectsToAProcessThatIsNotThere) {
  server->tcp.die(Death::kClosed);
  client->connect();
  pass();
  EXPECT_EQ(client->rejected, verbs::RejectReason::kNoListener);
  EXPECT_TRUE(net.is_quiet());
}

TEST_F(SimTcp, AsksAgainWhenNobodyAnswers) {
  trouble(FaultKind::kConnectIgnored, Direction::kBoth);
  client->connect();
  pass(Duration::ms(900));
  EXPECT_EQ(server->iwarp.stats().accepted, 0u);
  pass(Duration::seconds(1));
  EXPECT_EQ(server->established, 1u);
}

TEST_F(SimTcp, AMachineThatIsGoneSaysNothingUntilItsPeerGivesUp) {
  client->connect();
  pass();
  client->tcp.die(Death::kSilent);
  client.reset();
  pass(Duration::seconds(29));
  EXPECT_EQ(server->ended, 0u);
  pass(Duration::seconds(2));
  EXPECT_EQ(server->ended, 1u);
  EXPECT_EQ(server->iwarp.stats().stream_errors[static_cast<size_t>(iwarp::StreamErrorCause::kTcpTimeout)], 1u);
}

TEST_F(SimTcp, AMachineThatIsBackKnowsNothingOfItsStreams) {
  client->connect();
  pass();
  client->send(1);  // the called end may speak from here on
  pass();
  client->tcp.die(Death::kSilent);
  client.reset();
  client = std::make_unique<TcpPeer>(net, 2);
  server->send(100);
  pass();
  EXPECT_EQ(server->iwarp.stats().stream_errors[static_cast<size_t>(iwarp::StreamErrorCause::kTcpReset)], 1u);
}

TEST_F(SimTcp, AProcessThatEndsHasItsStreamsClosed) {
  client->connect();
  pass();
  client->tcp.die(Death::kClosed);
  client.reset();
  pass();
  EXPECT_EQ(server->iwarp.stats().stream_errors[static_cast<size_t>(iwarp::StreamErrorCause::kPeerClosed)], 1u);
  pass(Duration::seconds(5));
  EXPECT_TRUE(net.is_quiet());
}

}  // namespace
}  // namespace cw::sim
