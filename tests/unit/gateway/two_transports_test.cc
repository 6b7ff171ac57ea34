// One gateway on two wires at once: RoCEv2 with a client of our own behind it, and a transport whose peer is the test. Both have
// a listener at the same port, and lead to the same backend.
#include <gtest/gtest.h>

#include <vector>

#include "apps/sim/hosts.h"
#include "tests/support/fake_transport.h"
#include "tests/unit/endpoint/words.h"

namespace cw::gateway {
namespace {

sim::WorldOptions two_wires() {
  sim::WorldOptions options;
  options.small_tables = true;
  options.load.connections = 1;
  options.load.window = 1;
  return options;
}

GatewayOptions on_two_wires() {
  GatewayOptions options = sim::sim_gateway_options(two_wires());
  options.listeners.push_back(options.listeners.front());
  options.listeners.back().transport = 1;
  return options;
}

class TwoTransports : public ::testing::Test {
 protected:
  TwoTransports() {
    (void)programs.add(bench);
    EXPECT_TRUE(gateway.start().ok());
  }
  void TearDown() override { EXPECT_EQ(other.violations(), std::vector<std::string>()); }

  void step() {
    now = now + Duration::us(10);
    node.on_deadline(now);
    gateway.run(now);
    carry(node, packets, client.node, client.packets);
    client.node.on_deadline(now);
    (void)client.driver.turn(now);
    carry(client.node, client.packets, node, packets);
  }
  template <typename Done>
  bool run_until(Done&& done) {
    for (int i = 0; i < 10'000 && !done(); ++i) {
      step();
    }
    return done();
  }
  void carry(node::Node& from, BufferPool& pool, node::Node& to, BufferPool& to_pool) {
    std::vector<std::vector<uint8_t>> frames;
    wire::TxBatch batch(pool);
    for (bool full = true; full; batch.clear()) {
      from.poll_transmit(now, batch);
      full = batch.full();
      for (const wire::TxPacket& packet : batch.packets()) {
        frames.push_back(packet.raw());
      }
    }
    for (const std::vector<uint8_t>& frame : frames) {
      EXPECT_TRUE(sim::deliver_frame(now, to, to_pool, frame));
    }
  }
  // A call of the fake wire's peer; the number of messages that it has been sent then.
  size_t call(verbs::ConnectionId id, uint32_t xid) {
    EXPECT_TRUE(other.peer_sends(id, rpcrdma::chain_of(packets, rpcrdma::inline_call(xid, rpcrdma::rpc_call(xid)).bytes())));
    step();
    return other.qp(id).posted().size();
  }

  Instant now = Instant::from_ns(1'000'000'000);
  SeededRandom random{7};
  HeapBufferPool packets{2048, 4256, 2048};
  HeapBufferPool large{16, 8192, 64};
  rpcrdma::BenchProgram bench;
  rpcrdma::ProgramRegistry programs;
  node::Node node{sim::sim_node_options(two_wires(), 1, false), random, nullptr};
  node::RoceTransport roce{sim::sim_roce_options(two_wires()), node, random};
  test::FakeTransport other;
  Gateway gateway{on_two_wires(), {&roce, &other}, packets, large, programs, random};
  sim::ClientHost client{two_wires(), 2};
};

TEST_F(TwoTransports, ServeAtOnceAndAreDrainedTogether) {
  EXPECT_EQ(other.ports(), std::vector<uint16_t>{sim::GatewayHost::kPort});
  client.driver.start(now);
  const verbs::ConnectionId id = other.peer_asks(IpAddress::v4(0x0a00'0001), sim::GatewayHost::kPort);
  step();
  other.peer_confirms(id);
  ASSERT_TRUE(run_until([&] { return client.driver.stats().calls >= 10; }));
  EXPECT_EQ(gateway.stats().connections_open, 2u);
  EXPECT_EQ(call(id, 1), 1u);
  other.peer_acknowledges(id);

  // What ends on one wire leaves the other alone.
  other.peer_leaves(id);
  const uint64_t calls = client.driver.stats().calls;
  ASSERT_TRUE(run_until([&] { return client.driver.stats().calls >= calls + 10; }));
  EXPECT_EQ(gateway.stats().connections_open, 1u);
  const verbs::ConnectionId again = other.peer_asks(IpAddress::v4(0x0a00'0001), sim::GatewayHost::kPort);
  step();
  other.peer_confirms(again);
  step();
  EXPECT_EQ(gateway.stats().connections_open, 2u);

  gateway.drain(now);
  const verbs::ConnectionId late = other.peer_asks(IpAddress::v4(0x0a00'0002), sim::GatewayHost::kPort);
  ASSERT_TRUE(run_until([&] { return gateway.stats().connections_open == 0; }));
  EXPECT_EQ(other.at(late).rejected, verbs::RejectReason::kNoResources);
  EXPECT_EQ(other.at(again).disconnects, 1u);
  EXPECT_EQ(client.driver.stats().wrong, 0u);
}

// Where there are no queue pair numbers nothing else tells the connections of one address apart.
TEST_F(TwoTransports, NoticesNameThePortOfThePeer) {
  std::vector<uint16_t> ports;
  const auto take_notices = [&] {
    for (; gateway.next_notice() != nullptr; gateway.pop_notice()) {
      ports.push_back(gateway.next_notice()->peer_port);
    }
  };
  const verbs::ConnectionId id = other.peer_asks(IpAddress::v4(0x0a00'0001), sim::GatewayHost::kPort);
  step();
  other.peer_confirms(id);
  step();
  take_notices();
  other.peer_leaves(id);
  step();
  gateway.drain(now);
  (void)other.peer_asks(IpAddress::v4(0x0a00'0001), sim::GatewayHost::kPort);
  step();
  take_notices();
  EXPECT_EQ(ports, (std::vector<uint16_t>{1001, 1001, 1002}));  // accepted, ended, refused
}

// Nobody else has a transport do what is due: a shell knows no more of one than its socket.
TEST_F(TwoTransports, DoWhatIsDueWhenTheGatewayRuns) {
  other.deadline = now + Duration::us(25);
  EXPECT_LE(gateway.next_deadline(), other.deadline);
  step();
  EXPECT_FALSE(other.deadline.is_never());
  step();
  step();
  EXPECT_TRUE(other.deadline.is_never());
}

// A gateway that cannot have all its listeners has none.
TEST_F(TwoTransports, StartOnBothOrOnNone) {
  node::Node second_node{sim::sim_node_options(two_wires(), 3, false), random, nullptr};
  node::RoceTransport second_roce{sim::sim_roce_options(two_wires()), second_node, random};
  test::FakeTransport full;
  full.ports_max = 0;
  Gateway second{on_two_wires(), {&second_roce, &full}, packets, large, programs, random};
  EXPECT_FALSE(second.start().ok());
  EXPECT_TRUE(full.ports().empty());
}

// Each wire makes room among its own half-open connections, as if it were alone: those of one take no slot from the other, and
// the sum is the bound.
TEST_F(TwoTransports, HalfOpenConnectionsOfOneWireTakeNoRoomFromTheOther) {
  GatewayOptions options = on_two_wires();
  options.connections_max = 1;
  options.half_open_max = 3;
  test::FakeTransport one;
  test::FakeTransport two;
  {
    Gateway second{options, {&one, &two}, packets, large, programs, random};
    ASSERT_TRUE(second.start().ok());
    std::vector<verbs::ConnectionId> asked;
    for (uint32_t i = 0; i < options.half_open_max; ++i) {
      (void)one.peer_asks(IpAddress::v4(0x0b00'0001), sim::GatewayHost::kPort);
    }
    second.run(now);
    EXPECT_EQ(one.live_count(), options.half_open_max);
    for (uint32_t i = 0; i < options.half_open_max; ++i) {
      asked.push_back(two.peer_asks(IpAddress::v4(0x0c00'0001 + i), sim::GatewayHost::kPort));
    }
    second.run(now);
    for (const verbs::ConnectionId id : asked) {
      EXPECT_EQ(two.at(id).state, test::FakeTransport::State::kAnswered);
    }
    // All there may be: the place, and what both wires may have beside it.
    (void)two.peer_asks(IpAddress::v4(0x0c00'0009), sim::GatewayHost::kPort);
    second.run(now);
    EXPECT_EQ(one.live_count() + two.live_count(), 7u);
    const auto refusals = [&] { return second.stats().connections[static_cast<size_t>(ConnectionResult::kRefusedLimit)]; };
    const uint64_t before = refusals();
    (void)two.peer_asks(IpAddress::v4(0x0c00'000a), sim::GatewayHost::kPort);
    second.run(now);
    EXPECT_EQ(refusals(), before + 1);
  }
  EXPECT_EQ(one.violations(), std::vector<std::string>());
  EXPECT_EQ(two.violations(), std::vector<std::string>());
}

// Another program may have the port that a reload wants: all else goes on, and the next reload tries again.
TEST_F(TwoTransports, AReloadThatFindsAPortTakenServesTheOthers) {
  other.ports_max = static_cast<uint32_t>(other.ports().size());
  const auto with_another = [] {
    GatewayOptions fresh = on_two_wires();
    fresh.listeners.push_back(fresh.listeners.back());
    fresh.listeners.back().port = sim::GatewayHost::kPort + 7;
    return fresh;
  };
  GatewayOptions fresh = with_another();
  EXPECT_FALSE(gateway.reconfigure(fresh));
  EXPECT_EQ(other.ports(), std::vector<uint16_t>{sim::GatewayHost::kPort});
  ++other.ports_max;
  fresh = with_another();
  EXPECT_TRUE(gateway.reconfigure(fresh));
  EXPECT_EQ(other.ports(), (std::vector<uint16_t>{sim::GatewayHost::kPort, sim::GatewayHost::kPort + 7}));
}

}  // namespace
}  // namespace cw::gateway
