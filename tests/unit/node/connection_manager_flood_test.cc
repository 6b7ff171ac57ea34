// Management datagrams against a gateway at work: garbled messages inside faultless packets, and floods of requests. They may be
// answered or dropped; they cost a bounded share of memory, and neither the load nor the next honest client notices for long.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "control/cm/wire/dreq.h"
#include "control/cm/wire/lap.h"
#include "control/cm/wire/mra.h"
#include "control/cm/wire/rej.h"
#include "control/cm/wire/rep.h"
#include "control/cm/wire/rtu.h"
#include "tests/support/rc_info.h"
#include "tests/unit/node/attacked_world.h"
#include "tests/unit/node/forged_messages.h"

namespace cw::node::test {
namespace {

// Every message of every type with any of its bytes bent, or all of them random: one drop or one answer, never two drops.
TEST(ConnectionManagerFlood, GarbledMessagesCountOnceOrAreAnswered) {
  AttackedWorld attacked;
  cm::ConnectionManager& manager = attacked.world.server->node.cm();
  SeededRandom random(5);
  const std::vector<ByteVector> messages = {mad_of(request_from(stranger(1), 9, verbs::Qpn(0x99))),
                                            mad_of(cm::Rep{}),
                                            mad_of(cm::Rtu{}),
                                            mad_of(cm::Mra{}),
                                            mad_of(cm::Rej{}),
                                            mad_of(cm::Dreq{}),
                                            mad_of(cm::Lap{})};
  for (uint32_t i = 0; i < 3'000; ++i) {
    ByteVector mad = messages[random.next_below(static_cast<uint32_t>(messages.size()))];
    const bool all = random.next_below(4) == 0;
    const uint32_t bends = all ? 232 : random.next_below(6);
    for (uint32_t bend = 0; bend < bends; ++bend) {
      mad[all ? 24 + bend : random.next_below(256)] = static_cast<uint8_t>(random.next_u32());
    }
    const Observation before = attacked.observe();
    (void)attacked.inject(attacked.datagram(mad, stranger(random.next_below(1000))));
    const Observation after = attacked.observe();
    ASSERT_LE(after.discards, before.discards + 1);
    ASSERT_LE(after.cm_sent, before.cm_sent + 1);
    const bool taken_in = after.cm_live > before.cm_live;
    ASSERT_EQ(taken_in || after.discards > before.discards || after.cm_sent > before.cm_sent, true) << i;
    ASSERT_EQ(after.packets_in_use, before.packets_in_use);
    for (size_t qp = 0; qp < 2; ++qp) {
      ASSERT_TRUE(is_untouched(before.queue_pairs[qp], after.queue_pairs[qp]));
    }
    if (i % 50 == 0) {
      ASSERT_TRUE(manager.is_consistent());
      attacked.world.run_for(Duration::ms(1));
    }
  }
  attacked.expect_unharmed();
}

// The answers to strangers have a budget; a datagram beyond it still counts once.
TEST(ConnectionManagerFlood, MessagesThatNameNobodyCountOnceHoweverMany) {
  AttackedWorld attacked;
  for (uint32_t i = 0; i < 3'000; ++i) {
    const Observation before = attacked.observe();
    const ByteVector mad = i % 2 == 0 ? mad_of(cm::Rep{.local_comm_id = i + 1, .remote_comm_id = i + 7})
                                      : mad_of(cm::Dreq{.local_comm_id = i + 1, .remote_comm_id = i + 7});
    (void)attacked.inject(attacked.datagram(mad, stranger(i % 250)));
    const Observation after = attacked.observe();
    ASSERT_EQ(after.discards, before.discards + 1) << i;
    attacked.expect_same(before, after, "stranger");
  }
  attacked.expect_unharmed();
}

// Somebody who knows the gateway but no communication id cannot end a connection.
TEST(ConnectionManagerFlood, GuessedCommunicationIdsEndNothing) {
  AttackedWorld attacked;
  SeededRandom random(6);
  for (uint32_t i = 0; i < 3'000; ++i) {
    const gateway::ConnectionInfo victim = attacked.connection(i % 2);
    const uint32_t ours = random.next_u32();
    const uint32_t theirs = random.next_u32();
    const std::array<ByteVector, 4> guesses = {
        mad_of(cm::Dreq{.local_comm_id = theirs, .remote_comm_id = ours, .remote_qpn = victim.qp.local_qpn}),
        mad_of(cm::Rej{.local_comm_id = theirs, .remote_comm_id = ours}), mad_of(cm::Rej{.local_comm_id = theirs}),
        mad_of(cm::Rtu{.local_comm_id = theirs, .remote_comm_id = ours})};
    const Observation before = attacked.observe();
    (void)attacked.inject(attacked.datagram(guesses[i % 4], sim::sim_ip(false, 2)));
    const Observation after = attacked.observe();
    ASSERT_EQ(after.discards, before.discards + 1) << i;
    attacked.expect_same(before, after, "guess");
  }
  attacked.expect_unharmed();
}

// A request in a client's name, with the number of its queue pair: all that it takes to be that client after a restart, but for
// the answer, which goes to the client. The connections live on, whoever the address is taken from.
TEST(ConnectionManagerFlood, RequestsInAClientsNameEndNothing) {
  AttackedWorld attacked;
  const IpAddress client = sim::sim_ip(false, 2);
  for (uint32_t i = 0; i < 200; ++i) {
    const gateway::ConnectionInfo victim = attacked.connection(i % 2);
    ASSERT_EQ(victim.peer, client);
    (void)attacked.inject(attacked.datagram(mad_of(request_from(client, 0x2000'0000 + i, victim.qp.remote_qpn)), client));
    attacked.world.run_for(Duration::us(100));
    ASSERT_EQ(attacked.world.peer->driver.stats().lost, 0u) << i;
  }
  EXPECT_EQ(attacked.world.server->gateway.stats().connections_open, 2u);
  EXPECT_EQ(attacked.world.server->node.cm().stats().ended(cm::CmOutcome::kRejectedByPeer), 200u);  // "not mine", it said
  EXPECT_TRUE(attacked.world.server->node.cm().is_consistent());
  attacked.expect_unharmed();
}

// Where there is no place left, the client that restarted would wait for ever for the one that its former self has taken: that
// one goes when the client has answered. Nobody else's does, and nothing goes for a request that anybody may have sent.
void restarted_client_without_a_place(const sim::WorldOptions& options, gateway::ConnectionResult full) {
  AttackedWorld attacked(options);
  sim::GatewayHost& host = *attacked.world.server;
  attacked.world.peer->driver.stop();
  attacked.world.run_for(Duration::ms(50));
  const auto results = [&](gateway::ConnectionResult result) {
    return host.gateway.stats().connections[static_cast<size_t>(result)];
  };
  const IpAddress client = sim::sim_ip(false, 2);
  (void)attacked.inject(attacked.datagram(mad_of(request_from(client, 0x3000'0000, verbs::Qpn(0x777))), client));
  host.gateway.run(attacked.world.now);
  EXPECT_EQ(results(full), 1u);
  EXPECT_EQ(host.gateway.stats().connections_open, 2u);
  const uint64_t accepted = results(gateway::ConnectionResult::kAccepted);
  const gateway::ConnectionInfo former = attacked.connection(0);
  (void)attacked.inject(attacked.datagram(mad_of(request_from(client, 0x3000'0001, former.qp.remote_qpn)), client));
  host.gateway.run(attacked.world.now);
  EXPECT_EQ(results(full), 1u) << "it is not refused";
  EXPECT_EQ(results(gateway::ConnectionResult::kAccepted), accepted) << "and has nothing yet";
  EXPECT_EQ(results(gateway::ConnectionResult::kClosedByPeer), 0u);
  EXPECT_EQ(host.gateway.stats().connections_open, 2u);

  // It is the client: the first packet on the queue pair that it was told of.
  std::array<gateway::ConnectionInfo, 8> all;
  ASSERT_EQ(host.gateway.describe(attacked.world.now, all), 3u);
  const auto fresh = std::ranges::find(all, gateway::ConnectionState::kAccepting, &gateway::ConnectionInfo::state);
  ASSERT_NE(fresh, all.end());
  const rc::RcQpInfo fresh_qp = cw::test::rc_info(*fresh);
  EXPECT_EQ(fresh_qp.receives_posted, 1u);
  (void)attacked.inject(AttackedWorld::frame(fresh_qp, wire::Opcode::kRcSendFirst, fresh_qp.expected_psn, 1024));
  host.gateway.run(attacked.world.now);
  EXPECT_EQ(results(full), 1u);
  EXPECT_EQ(results(gateway::ConnectionResult::kAccepted), accepted + 1);
  EXPECT_EQ(results(gateway::ConnectionResult::kClosedByPeer), 1u);
  EXPECT_EQ(host.gateway.stats().connections_open, 2u);
  for (uint32_t i = 0; i < 2; ++i) {
    EXPECT_NE(attacked.connection(i).id, former.id);
  }
}

TEST(ConnectionManagerFlood, AClientThatRestartsTakesThePlaceOfItsFormerSelfWhenItHasAnswered) {
  sim::WorldOptions options = AttackedWorld::options();
  options.connections_max = 2;
  options.load.reconnect = false;
  restarted_client_without_a_place(options, gateway::ConnectionResult::kRefusedLimit);
  options.connections_max = 64;
  options.clients.push_back({.name = "cluster", .prefixes = {{sim::sim_ip(false, 2), 32}}, .connections_max = 2});
  restarted_client_without_a_place(options, gateway::ConnectionResult::kRefusedClientLimit);
}

// A forged REQ with the address and QPN of a client's connection, while there is no place left: the client's own "not mine" is
// the end of it.
TEST(ConnectionManagerFlood, AForgedRequestEndsNothingWhereListenerOrClassIsFull) {
  for (const bool by_class : {false, true}) {
    sim::WorldOptions options = AttackedWorld::options();
    options.load.reconnect = false;
    if (by_class) {
      options.clients.push_back({.name = "cluster", .prefixes = {{sim::sim_ip(false, 2), 32}}, .connections_max = 2});
    } else {
      options.connections_max = 2;
    }
    AttackedWorld attacked(options);
    const IpAddress client = sim::sim_ip(false, 2);
    for (uint32_t i = 0; i < 20; ++i) {
      const gateway::ConnectionInfo victim = attacked.connection(i % 2);
      (void)attacked.inject(attacked.datagram(mad_of(request_from(client, 0x2000'0000 + i, victim.qp.remote_qpn)), client));
      attacked.world.run_for(Duration::ms(1));  // a client that was disconnected knows it within microseconds
      ASSERT_EQ(attacked.world.peer->driver.stats().lost, 0u) << i;
    }
    EXPECT_EQ(attacked.world.server->gateway.stats().connections_open, 2u);
    attacked.expect_unharmed();
  }
}

// What a packet on a half-open queue pair proves, it proves by its PSN, which only the client was told.
TEST(ConnectionManagerFlood, OnlyTheNextPacketOfAQueuePairProvesItsClient) {
  AttackedWorld attacked;
  sim::GatewayHost& host = *attacked.world.server;
  (void)attacked.inject(attacked.datagram(mad_of(request_from(stranger(1), 0x3000'0000, verbs::Qpn(0x777))), stranger(1)));
  host.gateway.run(attacked.world.now);
  std::array<gateway::ConnectionInfo, 8> all;
  ASSERT_EQ(host.gateway.describe(attacked.world.now, all), 3u);
  const auto fresh = std::ranges::find(all, gateway::ConnectionState::kAccepting, &gateway::ConnectionInfo::state);
  ASSERT_NE(fresh, all.end());
  const rc::RcQpInfo fresh_qp = cw::test::rc_info(*fresh);
  for (const int32_t off : {-100'000, -2, -1, 1, 2, 1000, 100'000}) {
    const wire::Psn psn(fresh_qp.expected_psn.value() + static_cast<uint32_t>(off));
    (void)attacked.inject(AttackedWorld::frame(fresh_qp, wire::Opcode::kRcSendOnly, psn, 64));
    host.gateway.run(attacked.world.now);
    EXPECT_EQ(host.gateway.stats().connections_open, 2u) << off;
  }
  (void)attacked.inject(AttackedWorld::frame(fresh_qp, wire::Opcode::kRcSendFirst, fresh_qp.expected_psn, 1024));
  host.gateway.run(attacked.world.now);
  EXPECT_EQ(host.gateway.stats().connections_open, 3u);
}

// REQs in the names of others, at rates that no limit of rates meets: they take no place and open no backend connection. A client
// that loses its connection meanwhile is back at once, its neighbours in the network that is lied about included.
void come_back_under_forged_requests(uint32_t per_second, uint32_t network) {
  sim::WorldOptions options = AttackedWorld::options();
  options.load.connections = 1;
  options.backend = gateway::BackendKind::kTcp;
  AttackedWorld attacked(options);
  attacked.world.peer->driver.stop();
  sim::GatewayHost& host = *attacked.world.server;
  const Duration interval = Duration::us(1'000'000 / per_second);
  uint32_t id = 0;
  const auto forge = [&] {
    const IpAddress from = IpAddress::v4(network + 3 + id % 250);
    (void)attacked.inject(attacked.datagram(mad_of(request_from(from, 0x1000'0000 + id, verbs::Qpn(0x100 + id))), from));
    ++id;
    attacked.world.run_for(interval);
  };
  while (attacked.world.now < Instant::from_ns(0) + Duration::seconds(35)) {
    forge();
  }
  EXPECT_EQ(host.gateway.stats().connections_open, 1u);
  EXPECT_EQ(host.backend.open_count(), 1u);
  attacked.world.peer->driver.resume(attacked.world.now);  // else it does not come back
  const rc::RcQpInfo victim = cw::test::rc_info(attacked.connection(0));
  (void)attacked.inject(AttackedWorld::frame(victim, wire::Opcode::kRcFetchAdd, victim.expected_psn));
  ASSERT_TRUE(
      attacked.world.run_until(Duration::seconds(1), [](sim::World& world) { return world.peer->driver.stats().lost == 1; }));
  const Instant lost = attacked.world.now;
  while (attacked.world.peer->driver.connected() == 0 && attacked.world.now - lost < Duration::seconds(10)) {
    forge();
  }
  EXPECT_LT((attacked.world.now - lost).to_seconds(), 2.0) << per_second;
  const cm::CmStats& cm = host.node.cm().stats();
  EXPECT_LE(cm.sent_of(cm::MessageType::kRep), 4 * (id + 2));
  EXPECT_LE(host.node.cm().half_open_count(), cm::CmOptions().half_open_max);
  EXPECT_TRUE(host.node.cm().is_consistent());
}

TEST(ConnectionManagerFlood, AClientComesBackAtOnceWhileRequestsAreForgedInOthersNames) {
  for (const uint32_t per_second : {10u, 50u, 250u}) {
    come_back_under_forged_requests(per_second, 0x0a09'0100);
  }
  come_back_under_forged_requests(250, 0x0a09'0000);  // in its own network
}

TEST(ConnectionManagerFlood, AFloodOfRequestsIsBoundedAndHonestClientsComeThrough) {
  sim::WorldOptions options = AttackedWorld::options();
  options.load.connections = 3;
  options.backend = gateway::BackendKind::kTcp;
  AttackedWorld attacked(options);
  sim::GatewayHost& host = *attacked.world.server;
  cm::ConnectionManager& manager = host.node.cm();
  const cm::CmOptions limits;
  const uint64_t rate_drops = manager.stats().dropped(cm::CmDrop::kRequestRate);
  uint32_t packets_max = 0;
  uint32_t qp_max = 0;
  for (uint32_t i = 0; i < 5'000; ++i) {
    const IpAddress from = stranger(i);
    const Observation before = attacked.observe();
    (void)attacked.inject(attacked.datagram(mad_of(request_from(from, 0x1000'0000 + i, verbs::Qpn(0x100 + i))), from));
    ASSERT_LE(attacked.observe().discards, before.discards + 1);
    ASSERT_LE(manager.half_open_count(), limits.half_open_max);
    if (i % 10 == 0) {
      attacked.world.step();  // the gateway takes its decisions in between
      ASSERT_TRUE(manager.is_consistent());
    }
    packets_max = std::max(packets_max, host.packets.in_use());
    qp_max = std::max(qp_max, host.node.endpoint().qp_count());
  }
  EXPECT_GT(manager.stats().dropped(cm::CmDrop::kRequestRate), rate_drops + 4'000);
  EXPECT_LE(qp_max, 3u + limits.half_open_max);
  EXPECT_EQ(host.backend.open_count(), 3u);
  EXPECT_LT(packets_max, 2'000u);              // a reply and some receives each
  EXPECT_TRUE(attacked.world.run_calls(300));  // the load has not stopped
  EXPECT_EQ(attacked.world.peer->driver.stats().lost, 0u);

  // A client that loses its connection now comes back as soon as the first half-open connections have been given up.
  host.backend.call_delay = Duration::ms(200);
  const rc::RcQpInfo victim = cw::test::rc_info(attacked.connection(0));
  (void)attacked.inject(AttackedWorld::frame(victim, wire::Opcode::kRcFetchAdd, victim.expected_psn));
  EXPECT_TRUE(
      attacked.world.run_until(Duration::seconds(1), [](sim::World& world) { return world.peer->driver.stats().lost == 1; }));
  EXPECT_TRUE(attacked.world.run_until(limits.handshake_max + Duration::seconds(5),
                                       [](sim::World& world) { return world.peer->driver.connected() == 3; }));
  ASSERT_TRUE(attacked.world.finish());
  attacked.world.run_for(limits.handshake_max);
  EXPECT_EQ(manager.half_open_count(), 0u);
  EXPECT_EQ(host.gateway.stats().connections_open, 3u);
  EXPECT_EQ(attacked.world.peer->driver.stats().lost, 1u);
  attacked.expect_ends_well();
}

}  // namespace
}  // namespace cw::node::test
