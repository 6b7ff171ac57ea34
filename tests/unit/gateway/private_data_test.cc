// RFC 8797 from end to end: who says what when a connection is set up, and what holds on it afterwards.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "control/cm/private_data.h"
#include "rpcrdma/wire/private_data.h"
#include "tests/support/rc_info.h"
#include "tests/unit/gateway/link_listener.h"
#include "tests/unit/gateway/world_checks.h"

namespace cw::sim {
namespace {

using load::BenchProcedure;
using rpcrdma::InlineThresholds;

WorldOptions one_echo_of(uint32_t bytes) {
  WorldOptions options;
  options.load.operation = BenchProcedure::kEcho;
  options.load.bytes = bytes;
  options.load.window = 4;
  return options;
}

// Counts frames, by direction, that carry RFC 8797's identifier, and all frames.
struct Watch {
  uint32_t marked[2] = {};
  uint32_t frames[2] = {};
  uint32_t marked_at_qp1 = 0;

  static bool tap(void* context, Instant, uint32_t to, const std::vector<uint8_t>& raw) {
    Watch& watch = *static_cast<Watch*>(context);
    constexpr uint8_t kIdentifier[] = {0xf6, 0xab, 0x0e, 0x18};
    const bool found = std::search(raw.begin(), raw.end(), std::begin(kIdentifier), std::end(kIdentifier)) != raw.end();
    ++watch.frames[to];
    watch.marked[to] += found ? 1 : 0;
    // BTH at 42: opcode UD SEND only, destination QP 1.
    watch.marked_at_qp1 += found && raw[42] == 0x64 && raw[49] == 1 ? 1 : 0;
    return true;
  }
};

InlineThresholds client_thresholds(World& world) {
  return world.peer->client.endpoint(client::ClientId(0))->thresholds();
}
InlineThresholds server_thresholds(World& world) {
  InlineThresholds thresholds{.send_bytes = 0, .receive_bytes = 0};
  while (const gateway::Notice* notice = world.server->gateway.next_notice()) {
    if (notice->result == gateway::ConnectionResult::kAccepted) {
      thresholds = {notice->inline_send_bytes, notice->inline_receive_bytes, notice->remote_invalidation};
    }
    world.server->gateway.pop_notice();
  }
  return thresholds;
}

// Proves CMPD-1-3, CMPD-4-1, CMPD-1-2, RPCRDMA-3.3.2-3, RPCRDMA-6.3-2, CMPD-4-2: each side says it once, in REQ and REP, and
// never in a SEND;
// the
// thresholds stay what they are however many calls follow.
TEST(PrivateDataExchange, EachSideSaysItOnceWhileConnecting) {
  World world(one_echo_of(100));
  Watch watch;
  world.link.tap = Watch::tap;
  world.link.tap_context = &watch;
  world.start();
  ASSERT_TRUE(world.run_calls(50));
  const InlineThresholds before = client_thresholds(world);
  EXPECT_EQ(watch.marked[0], 1u) << "in the REQ";
  EXPECT_EQ(watch.marked[1], 1u) << "in the REP";
  EXPECT_EQ(watch.marked_at_qp1, 2u);
  ASSERT_TRUE(world.run_calls(50));
  EXPECT_EQ(watch.marked[0] + watch.marked[1], 2u);
  EXPECT_EQ(client_thresholds(world), before);
}

// Proves CMPD-1-1, CMPD-1-6, CMPD-5-1, CMPD-4-5, CMPD-1-5, CMPD-5.1-2, RPCRDMA-3.3.3-9, CMPD-4-3: with and without, on either
// side,
// calls of every size are answered; unless both spoke the thresholds are 1024 and nothing is invalidated remotely.
TEST(PrivateDataExchange, IsOptionalForBothSides) {
  for (const bool client_speaks : {true, false}) {
    for (const bool server_speaks : {true, false}) {
      for (const uint32_t bytes : {100u, 900u, 1500u, 3000u, 20'000u}) {
        SCOPED_TRACE(bytes);
        WorldOptions options = one_echo_of(bytes);
        options.gateway_private_data = server_speaks;
        if (!client_speaks) {
          options.client_private_data.emplace();
        }
        World world(options);
        world.start();
        ASSERT_TRUE(world.run_calls(20));
        EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
        const bool both = client_speaks && server_speaks;
        const InlineThresholds expected = both ? InlineThresholds{4096, 4096, true} : InlineThresholds{1024, 1024, false};
        EXPECT_EQ(client_thresholds(world), expected);
        EXPECT_EQ(server_thresholds(world), expected);
        EXPECT_EQ(world.server->gateway.rpcrdma_stats().remote_invalidations > 0, both && bytes > 4000);
        EXPECT_EQ(world.peer->client.rpcrdma_stats().errors_in_chunk, 0u);
      }
    }
  }
}

// Proves CMPD-5.1-4, CMPD-5-2, RPCRDMA-3.3.3-9: whatever else stands in the private data, the connection is accepted.
TEST(PrivateDataExchange, ForeignPrivateDataIsNoReasonToRefuse) {
  const std::vector<uint8_t> cases[] = {
      std::vector<uint8_t>(56, 0x5a),
      {0xf6, 0xab, 0x0e, 0x18, 2, 1, 0xff, 0xff},
      {0xf6, 0xab, 0x0e, 0x18, 0, 1, 0xff, 0xff},
      {0xf6, 0xab, 0x0e, 0x19, 1, 1, 3, 3},
      {0x18, 0x0e, 0xab, 0xf6, 1, 1, 3, 3},
      {0xf6},
  };
  for (const auto& raw : cases) {
    WorldOptions options = one_echo_of(2000);
    options.client_private_data = raw;
    World world(options);
    world.start();
    ASSERT_TRUE(world.run_calls(20));
    EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
    EXPECT_EQ(server_thresholds(world), (InlineThresholds{1024, 1024, false}));
  }
}

// The private data of the REP that the gateway answers to a client with this in its REQ. nullopt: the client's own.
std::vector<uint8_t> answer_to(const std::optional<std::vector<uint8_t>>& private_data, bool recovers_selectively) {
  constexpr size_t kAttributeAt = 16;  // in a MAD header
  constexpr uint16_t kRepAttribute = 0x0013;
  constexpr size_t kPrivateDataAt = 24 + 36;  // behind the MAD header and the REP's fields
  WorldOptions options = one_echo_of(100);
  options.client_private_data = private_data;
  options.gateway_recovers_selectively = recovers_selectively;
  options.client_recovers_selectively = !private_data.has_value();  // who says something else is no Causeway
  World world(options);
  std::vector<uint8_t> said;
  world.link.tap = [](void* context, Instant, uint32_t to, const std::vector<uint8_t>& raw) {
    const auto view = wire::PacketView::parse(raw);
    if (to == 1 && view.ok() && view->bth.opcode == wire::Opcode::kUdSendOnly &&
        load_be16(view->payload.data() + kAttributeAt) == kRepAttribute) {
      const Bytes answer = view->payload.subspan(kPrivateDataAt);
      static_cast<std::vector<uint8_t>*>(context)->assign(answer.begin(), answer.end());
    }
    return true;
  };
  world.link.tap_context = &said;
  world.start();
  EXPECT_TRUE(world.run_calls(20));
  EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
  return said;
}

// The offer of selective recovery goes out as the answer to one, never unasked: to every other client the REP has RFC 8797's
// message and zeros behind it, and nothing else.
TEST(PrivateDataExchange, OnlyAClientThatOffersSelectiveRecoveryIsOfferedIt) {
  const auto offer_of = [](const std::vector<uint8_t>& said) { return node::CausewayOffer::of_peer(said).hold_packets; };
  EXPECT_GT(offer_of(answer_to({}, true)), 0u) << "between two Causeways";

  const std::vector<uint8_t> standard = {0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3};
  const auto behind_it = [&](std::vector<uint8_t> more) {
    std::vector<uint8_t> raw = standard;
    raw.insert(raw.end(), more.begin(), more.end());
    return raw;
  };
  std::vector<uint8_t> plain_answer(cm::kRepPrivateDataSize);
  std::copy(standard.begin(), standard.end(), plain_answer.begin());
  EXPECT_EQ(answer_to({}, false), plain_answer) << "a gateway that does not recover selectively";
  const std::vector<uint8_t> others[] = {
      {},
      standard,
      behind_it({0x43, 0x57, 0x79, 0x31, 2, 1, 2, 0}),  // another version of the offer
      behind_it({0x43, 0x57, 0x79, 0x31, 1, 0, 2, 0}),  // S is not set
      behind_it({0x43, 0x57, 0x79, 0x31, 1, 1, 0, 0}),  // no packet is kept
      behind_it({0x43, 0x57, 0x79, 0x30, 1, 1, 2, 0}),  // somebody else's
      {0x43, 0x57, 0x79, 0x31, 1, 1, 2, 0},             // nothing in front of it
  };
  for (const std::vector<uint8_t>& raw : others) {
    SCOPED_TRACE(testing::PrintToString(raw));
    EXPECT_EQ(answer_to(raw, true), plain_answer);
  }
}

// Proves RPCRDMA-3.3.3-8, CMPD-4-14: the first Call may have all of the threshold that was agreed before it.
TEST(PrivateDataExchange, TheFirstCallMayUseTheWholeThreshold) {
  WorldOptions options = one_echo_of(3900);
  options.load.window = 1;
  World world(options);
  world.start();
  ASSERT_TRUE(world.run_calls(1));
  EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
  EXPECT_EQ(world.server->gateway.rpcrdma_stats().chunks[static_cast<size_t>(rpcrdma::ChunkKind::kRead)].chunks, 0u);
}

// Proves CMPD-7-3, CMPD-4-14: a client that says it will send 1024 and sends 4000 meets the Receive that our message promises.
TEST(PrivateDataExchange, ReceivesAreAsLongAsWeSaid) {
  for (const uint32_t client_inline : {1024u, 2048u, 4096u}) {
    WorldOptions options = one_echo_of(10);
    options.load.inline_bytes = client_inline;
    World world(options);
    world.start();
    ASSERT_TRUE(world.run_calls(1));
    ASSERT_TRUE(world.finish());
    rc::RcQp* qp = test::rc_queue_pair(world.peer->client, client::ClientId(0));
    ASSERT_NE(qp, nullptr);
    // A header of another version and 4000 bytes: answered, not refused for its length.
    Buffer* buffer = world.peer->packets.allocate_one();
    ASSERT_NE(buffer, nullptr);
    std::vector<uint8_t> message(4000);
    message[7] = 9;
    ASSERT_EQ(buffer->append(message), message.size());
    ASSERT_TRUE(qp->post_send({.payload = Chain(buffer)}).ok());
    world.run_for(Duration::ms(5));
    EXPECT_FALSE(qp->in_error());
    EXPECT_EQ(world.server->gateway.rpcrdma_stats().errors_out_version, 1u);
  }
}

// Proves CMPD-4-3: after each reconnection the calls are shaped by what the server says then.
TEST(PrivateDataExchange, AnotherThresholdAfterAReconnection) {
  WorldOptions options = one_echo_of(3000);
  options.load.reconnect = true;
  World world(options);
  world.start();
  ASSERT_TRUE(world.run_calls(20));
  EXPECT_EQ(client_thresholds(world).send_bytes, 4096u);
  world.restart_gateway_saying(1024);
  ASSERT_TRUE(world.run_calls(20, Duration::seconds(120)));
  EXPECT_EQ(client_thresholds(world).send_bytes, 1024u);
  EXPECT_EQ(world.peer->driver.stats().wrong, 0u);
  EXPECT_GT(world.server->gateway.rpcrdma_stats().chunks[static_cast<size_t>(rpcrdma::ChunkKind::kRead)].chunks, 0u);
}

// Proves RPCRDMA-2.2.3-1: a server without clients says nothing but what announces its addresses.
TEST(PrivateDataExchange, TheServerNeverConnects) {
  World world(one_echo_of(10));
  Watch watch;
  world.link.tap = Watch::tap;
  world.link.tap_context = &watch;
  world.run_for(Duration::seconds(30));
  EXPECT_EQ(watch.marked[0] + watch.marked[1], 0u);
  EXPECT_LE(watch.frames[1], 4u) << "address announcements at most";
  world.start();
  ASSERT_TRUE(world.run_calls(1));
  EXPECT_EQ(watch.marked[0], 1u) << "the client's REQ";
}

// Proves CMPD-7-2: of the request no bit of the message can be damaged on its way unnoticed, thanks to the CRC, which is all
// there is: nothing is negotiated before it that could protect it. The operator is told to keep the fabric to himself.
TEST(PrivateDataExchange, OnlyTheCrcAndAClosedFabricProtectTheMessage) {
  World world(one_echo_of(10));
  LinkListener heard(world);
  world.start();
  world.run_for(Duration::us(20));
  world.link.faults.loss = 1000;
  ASSERT_TRUE(world.run_until(Duration::seconds(5), [&](World&) { return !heard.requests.empty(); }));
  EXPECT_EQ(heard.messages.size(), 0u) << "the request is the first that is said";
  const std::vector<uint8_t> request = heard.requests.front().raw;
  constexpr uint8_t kIdentifier[] = {0xf6, 0xab, 0x0e, 0x18};
  const auto message = std::search(request.begin(), request.end(), std::begin(kIdentifier), std::end(kIdentifier));
  ASSERT_NE(message, request.end()) << "in clear";
  const auto at = static_cast<size_t>(message - request.begin());
  GatewayHost& server = *world.server;
  const auto damaged = [&] { return server.node.port_stats(0).discards[static_cast<size_t>(wire::DropReason::kIcrc)]; };
  for (size_t bit = 0; bit < 64; ++bit) {
    std::vector<uint8_t> frame = request;
    frame[at + bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
    const uint64_t before = damaged();
    ASSERT_TRUE(deliver_frame(world.now, server.node, server.packets, frame));
    EXPECT_EQ(damaged(), before + 1) << bit;
  }
  server.gateway.run(world.now);
  EXPECT_EQ(server.gateway.stats().connections_open, 0u);
  world.link.faults = {};
  ASSERT_TRUE(world.run_calls(1));

  std::stringstream page;
  page << std::ifstream(CAUSEWAY_SOURCE_ROOT "/docs/nfs.md").rdbuf();
  EXPECT_NE(page.str().find("Keep the fabric to machines"), std::string::npos);
}

// Proves RPCRDMA-5-8, RPCRDMA-5-4: straight to the well-known port, which is the default of both ends.
TEST(PrivateDataExchange, TheDefaultPortIsThatOfNfsOverRdma) {
  EXPECT_EQ(load::LoadOptions{}.service_port, 20049);
  EXPECT_EQ(gateway::ListenerOptions{}.port, 20049);
  World world(one_echo_of(10));
  world.start();
  EXPECT_TRUE(world.run_calls(1));
}

}  // namespace
}  // namespace cw::sim
