// What becomes of calls when connections do not hold: clients come back and repeat, give up and repeat, or repeat what breaks
// each connection; and what a gateway does that is short of slots for calls.
#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "control/config/config_parse.h"
#include "rpcrdma/rpc/rpc_message.h"
#include "tests/support/rc_info.h"
#include "tests/unit/gateway/link_listener.h"
#include "tests/unit/gateway/world_checks.h"

namespace cw::sim {
namespace {

using load::BenchProcedure;

WorldOptions echo_of(uint32_t bytes, uint32_t window) {
  WorldOptions options;
  options.load.operation = BenchProcedure::kEcho;
  options.load.bytes = bytes;
  options.load.window = window;
  options.load.reconnect = true;
  return options;
}

uint64_t failed(const World& world, rpcrdma::CallStatus status) {
  return world.peer->driver.stats().failed[static_cast<size_t>(status)];
}
// Proves RPCRDMA-4.5.5-2, BIDI-5.4-2: the link is down for ten seconds with 32 calls pending. The client connects anew first;
// then exactly those calls are the first on the new connection, under their XIDs, and all of them are answered.
TEST(Recovery, CallsOutliveTheirConnection) {
  for (const uint32_t bytes : {100u, 20'000u}) {
    SCOPED_TRACE(bytes);
    WorldOptions options = echo_of(bytes, 32);
    options.backend = gateway::BackendKind::kTcp;
    World world(options);
    world.server->backend.call_delay = Duration::ms(1);
    LinkListener heard(world);
    world.start();
    ASSERT_TRUE(world.run_calls(200));
    const Instant cut = world.now;
    world.link.faults.loss = 1000;
    world.run_for(Duration::us(500));  // replies that were under way before make room for calls that never arrive
    std::set<uint32_t> pending;
    for (const HeardMessage& message : heard.messages) {
      if (message.to == 0) {
        pending.insert(message.xid);
      }
    }
    for (const HeardMessage& message : heard.messages) {
      if (message.to == 1 && message.at < cut) {
        pending.erase(message.xid);
      }
    }
    ASSERT_EQ(pending.size(), 32u);
    world.run_for(Duration::seconds(10));
    EXPECT_EQ(world.peer->driver.stats().lost, 1u);
    const size_t messages_before = heard.messages.size();
    const size_t requests_before = heard.requests_to(0);
    const verbs::Qpn old_qpn =
        std::find_if(heard.messages.begin(), heard.messages.end(), [](const auto& m) { return m.to == 0; })->qpn;
    world.link.faults = {};
    const uint64_t calls = world.peer->driver.stats().calls;
    ASSERT_TRUE(world.run_until(Duration::seconds(60), [&](World& w) { return w.peer->driver.stats().calls >= calls + 32; }));
    EXPECT_GE(heard.requests_to(0), requests_before);
    EXPECT_EQ(world.peer->driver.stats().connected, 2u);
    // The server's duplicate request cache sees the calls come from where they came from before.
    const std::vector<uint16_t>& ports = world.server->backend.source_ports();
    ASSERT_EQ(ports.size(), 2u);
    EXPECT_NE(ports[0], 0);
    EXPECT_EQ(ports[1], ports[0]);
    std::vector<uint32_t> first;
    for (size_t i = messages_before; i < heard.messages.size() && first.size() < 32; ++i) {
      const HeardMessage& message = heard.messages[i];
      if (message.to == 0 && std::find(first.begin(), first.end(), message.xid) == first.end()) {
        EXPECT_NE(message.qpn, old_qpn);
        first.push_back(message.xid);
      }
    }
    EXPECT_EQ(std::set<uint32_t>(first.begin(), first.end()), pending);
    const auto request = std::find_if(heard.requests.rbegin(), heard.requests.rend(), [](const auto& r) { return r.to == 0; });
    EXPECT_LE(request->messages_before, messages_before) << "the connection first, then the calls";
    EXPECT_EQ(world.peer->driver.stats().resent, 32u);
    ASSERT_TRUE(world.finish());
    EXPECT_EQ(world.peer->driver.stats().wrong, 0u);
    EXPECT_EQ(world.server->gateway.rpcrdma_stats().credit_violations, 0u);
    expect_nothing_left(world);
  }
}

// Four connections (nconnect) break together and come back in whatever order: the calls of each come to the backend from where
// they came before.
TEST(Recovery, ConnectionsThatBreakTogetherEachComeBackToTheirPort) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(seed);
    WorldOptions options = echo_of(100, 4);
    options.seed = seed;
    options.load.connections = 4;
    options.backend = gateway::BackendKind::kTcp;
    World world(options);
    world.server->backend.call_delay = Duration::ms(1);
    LinkListener heard(world);
    world.start();
    ASSERT_TRUE(world.run_calls(200));
    const auto queue_pair_of = [&](uint32_t xid) {
      const auto first = std::ranges::find_if(heard.messages, [&](const auto& m) { return m.to == 0 && m.xid == xid; });
      return first->qpn.value();
    };
    std::map<uint32_t, uint16_t> ports;  // by queue pair
    for (const SimBackend::FirstCall& call : world.server->backend.first_calls()) {
      ports[queue_pair_of(call.xid)] = call.source_port;
    }
    ASSERT_EQ(ports.size(), 4u);
    world.link.faults.loss = 1000;
    world.run_for(Duration::seconds(10));
    world.link.faults = {};
    heard.swallowed_requests = 1;  // who asks first comes last
    ASSERT_TRUE(world.run_until(Duration::seconds(60), [](World& w) { return w.server->backend.first_calls().size() == 8; }));
    for (const SimBackend::FirstCall& call : std::span(world.server->backend.first_calls()).subspan(4)) {
      EXPECT_EQ(call.source_port, ports[queue_pair_of(call.xid)]);
    }
    ASSERT_TRUE(world.finish());
    EXPECT_EQ(world.peer->driver.stats().lost, 4u);
    EXPECT_EQ(world.peer->driver.stats().wrong, 0u);
    expect_nothing_left(world);
  }
}

// An RPC-over-RDMA call that no client of ours would send: ECHO whose data are behind a key that does not exist.
Chain call_with_bad_handle(BufferPool& pool, uint32_t xid) {
  const uint32_t words[] = {xid, 1, 8, 0, 1, 44, 0x0bad'0bad, 64, 0, 0, 0, 0, 0, xid, 0, 2, rpcrdma::kBenchProgram,
                            1,   1, 0, 0, 0, 0,  64};
  std::vector<uint8_t> raw(sizeof(words));
  for (size_t i = 0; i < std::size(words); ++i) {
    store_be32(raw.data() + 4 * i, words[i]);
  }
  Chain message;
  CW_ASSERT(message.append_copy(pool, raw));
  return message;
}

rc::RcQp* live_queue_pair(World& world) {
  for (uint32_t id = 0; id < 4; ++id) {
    rpcrdma::ClientEndpoint* endpoint = world.peer->client.endpoint(client::ClientId(id));
    if (endpoint != nullptr && !endpoint->failed()) {
      return test::rc_queue_pair(world.peer->client, client::ClientId(id));
    }
  }
  return nullptr;
}

// Proves RPCRDMA-4.5.3-6: the first time the client's host refuses the Read and the connection is gone; the second time the call
// is answered with ERR_CHUNK, and the connection with everybody's calls on it stays.
TEST(Recovery, ACallThatBreaksItsConnectionDoesSoOnce) {
  World world(echo_of(100, 4));
  world.start();
  ASSERT_TRUE(world.run_calls(50));
  constexpr uint32_t kXid = 0x0bad'c0de;
  ASSERT_TRUE(live_queue_pair(world)->post_send({.payload = call_with_bad_handle(world.peer->packets, kXid)}).ok());
  ASSERT_TRUE(world.run_until(Duration::seconds(5), [](World& w) { return w.peer->driver.stats().lost == 1; }));
  ASSERT_TRUE(world.run_until(Duration::seconds(5), [](World& w) { return w.peer->driver.stats().connected == 2; }));
  LinkListener heard(world);
  for (uint32_t round = 1; round <= 2; ++round) {
    rc::RcQp* qp = live_queue_pair(world);
    ASSERT_NE(qp, nullptr);
    const uint32_t xid = round == 1 ? kXid : kXid + 1;  // another call with the same fault is another matter
    ASSERT_TRUE(qp->post_send({.payload = call_with_bad_handle(world.peer->packets, xid)}).ok());
    world.run_for(Duration::ms(50));
    EXPECT_EQ(world.peer->driver.stats().lost, round);
    EXPECT_EQ(world.server->gateway.rpcrdma_stats().refused_again, 1u);
    EXPECT_EQ(world.server->gateway.rpcrdma_stats().errors_out_chunk, 1u);
  }
  const auto answer =
      std::find_if(heard.messages.begin(), heard.messages.end(), [](const auto& m) { return m.xid == kXid && m.to == 1; });
  EXPECT_EQ(answer, heard.messages.end()) << "20 bytes: too short to be anything but an error";
  ASSERT_TRUE(world.run_calls(50));
  ASSERT_TRUE(world.finish());
  EXPECT_EQ(world.peer->driver.stats().wrong, 0u);
  expect_nothing_left(world);
}

// Proves RPCRDMA-8.1.4-7: calls are given up and begun anew as fast as they can while their data move: memory is shut off under
// the server's Reads and Writes, and each time the connection goes, with the calls that nobody gave up. The gateway counts it,
// the client's pause between connections bounds it, and when the storm is over all is well.
TEST(Recovery, GivingUpCallsInALoopBreaksTheConnectionForAllItsUsers) {
  WorldOptions options = echo_of(100'000, 8);
  options.client_call_timeout = Duration::ms(1);
  options.load.connections = 2;
  World world(options);
  world.link.faults.bytes_per_second = 1'000'000'000;
  world.start();
  world.run_for(Duration::seconds(10));
  const load::LoadStats& stats = world.peer->driver.stats();
  EXPECT_GT(failed(world, rpcrdma::CallStatus::kTimeout), 20u);
  EXPECT_GT(stats.interrupted, 2u) << "calls that nobody gave up";
  EXPECT_GT(stats.lost, 10u);
  EXPECT_LT(stats.lost, 2u * 10 * 6) << "five a second and connection at most";
  EXPECT_GE(ended(world, gateway::ConnectionResult::kFailedTransport) + ended(world, gateway::ConnectionResult::kClosedByPeer),
            stats.lost);
  EXPECT_EQ(stats.wrong, 0u);
  world.peer->driver.stop();
  world.run_for(Duration::seconds(1));  // connections that are about to be made
  expect_nothing_left(world);
}

// Proves RPCRDMA-3.3.1-14: eight connections want twice the slots that there are. Grants go down while calls are outstanding and
// up again; nobody's call is lost, nobody is taken for a cheat.
TEST(Recovery, AGatewayShortOfSlotsGrantsLess) {
  WorldOptions options = echo_of(200, 16);
  options.small_tables = true;
  options.credits = 16;
  options.load.connections = 8;
  options.load.reconnect = false;
  options.backend = gateway::BackendKind::kTcp;
  World world(options);
  world.server->backend.call_delay = Duration::ms(2);
  world.start();
  uint32_t least = 1000;
  uint32_t most = 0;
  ASSERT_TRUE(world.run_until(Duration::seconds(60), [&](World& w) {
    for (uint32_t id = 0; id < 8; ++id) {
      if (const rpcrdma::ClientEndpoint* endpoint = w.peer->client.endpoint(client::ClientId(id))) {
        if (w.peer->driver.stats().calls > 100) {
          least = std::min(least, endpoint->credits());
          most = std::max(most, endpoint->credits());
        }
      }
    }
    return w.peer->driver.stats().calls >= 2'000;
  }));
  EXPECT_GT(world.server->gateway.stats().grants_lowered, 0u);
  EXPECT_EQ(least, 4u) << "a quarter";
  EXPECT_EQ(most, 16u);
  ASSERT_TRUE(world.finish());
  EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
  EXPECT_EQ(world.server->gateway.rpcrdma_stats().credit_violations, 0u);
  EXPECT_EQ(world.server->node.endpoint().stats().rnr_naks_sent, 0u);
  gateway::ConnectionInfo info[8];
  ASSERT_EQ(world.server->gateway.describe(world.now, info), 8u);
  for (const gateway::ConnectionInfo& connection : info) {
    EXPECT_EQ(test::rc_info(connection).receives_posted, connection.credits_granted);
  }
  expect_nothing_left(world);
}

// Proves RPCRDMA-5-1: no request leaves before the server's address has been learnt, over IPv4 by ARP and over IPv6 by neighbour
// discovery; then it goes to that address and to the service of the port.
TEST(Recovery, TheServersAddressIsLearntFirst) {
  for (const bool ipv6 : {false, true}) {
    WorldOptions options = echo_of(10, 1);
    options.ipv6 = ipv6;
    World world(options);
    LinkListener heard(world);
    world.link.faults.loss = 1000;
    world.start();
    world.run_for(Duration::seconds(1));
    EXPECT_EQ(heard.requests.size(), 0u) << "nobody has answered";
    EXPECT_GT(heard.others.size(), 0u);
    const auto asks = [ipv6](const std::vector<uint8_t>& frame) {
      return ipv6 ? load_be16(frame.data() + 12) == 0x86dd && frame[20] == 58 && frame[54] == 135  // neighbour solicitation
                  : load_be16(frame.data() + 12) == 0x0806 && frame[21] == 1;                      // ARP request
    };
    EXPECT_TRUE(std::any_of(heard.others.begin(), heard.others.end(), asks));
    world.link.faults = {};
    ASSERT_TRUE(world.run_calls(1));
    ASSERT_EQ(heard.requests_to(0), 1u);
    const std::vector<uint8_t>& request = heard.requests.front().raw;
    EXPECT_TRUE(std::equal(request.begin(), request.begin() + 6, sim_mac(1).raw.begin()));
    const size_t ip_end = ipv6 ? 14 + 40 : 14 + 20;
    EXPECT_EQ(request[ip_end - 1], 1u) << "the last byte of the server's address";
    const size_t mad = ip_end + 8 + 12 + 8;
    // RDMA IP CM service of TCP's port space (6), and the port.
    EXPECT_EQ(load_be64(request.data() + mad + 24 + 8), 0x0000'0000'0106'0000u + GatewayHost::kPort);
  }
}

// What an NFS server behind the gateway is asked.
class NfsServer : public rpcrdma::Program {
 public:
  [[nodiscard]] uint32_t program() const override { return rpcrdma::kNfsProgram; }
  [[nodiscard]] uint32_t version() const override { return 3; }
  [[nodiscard]] bool call(const rpcrdma::CallContext& context, const Chain& message, const rpcrdma::ReplyPools& pools,
                          Chain& reply) override {
    asked.resize(message.bytes());
    message.copy_to(0, asked);
    uint8_t raw[rpcrdma::kAcceptedReplyBytes];
    rpcrdma::write_accepted_reply(raw, context.header.xid, rpcrdma::AcceptStatus::kSuccess);
    return reply.append_copy(pools.packets, raw);
  }
  std::vector<uint8_t> asked;
};

// Proves RPCRDMA-9-3: over RDMA at its own port NFS has the program number that it has over TCP, where the same call goes on,
// byte for byte, to the port that is TCP's.
TEST(Recovery, ProgramNumbersAreTheSameOverRdmaAndTcp) {
  NfsServer nfs;
  WorldOptions options = echo_of(10, 1);
  options.backend = gateway::BackendKind::kTcp;
  options.program = &nfs;
  World world(options);
  world.start();
  ASSERT_TRUE(world.run_until(Duration::seconds(5), [](World& w) { return w.peer->driver.stats().connected == 1; }));
  world.peer->driver.stop();
  const uint32_t words[] = {0x77, 1, 8, 0, 0, 0, 0, 0x77, 0, 2, 100'003, 3, 0, 0, 0, 0, 0};
  std::vector<uint8_t> raw(sizeof(words));
  for (size_t i = 0; i < std::size(words); ++i) {
    store_be32(raw.data() + 4 * i, words[i]);
  }
  Chain message;
  ASSERT_TRUE(message.append_copy(world.peer->packets, raw));
  ASSERT_TRUE(live_queue_pair(world)->post_send({.payload = std::move(message)}).ok());
  world.run_for(Duration::ms(10));
  EXPECT_EQ(nfs.asked, std::vector<uint8_t>(raw.begin() + 28, raw.end()));
  EXPECT_EQ(world.server->gateway.rpcrdma_stats().errors_out_chunk, 0u);

  const control::ParsedConfig usual = control::config_parse(
      "[[listener]]\nbackend = \"nfs\"\n[[backend]]\nname = \"nfs\"\naddress = \"127.0.0.1:2049\"\n", "test");
  EXPECT_EQ(usual.config.listeners.at(0).port, 20049);
  EXPECT_EQ(usual.config.backends.at(0).address->port, 2049);
  expect_nothing_left(world);
}

// Proves RPCRDMA-9-4: services side by side at ports of their own, registered or not.
TEST(Recovery, SeveralPortsServeSideBySide) {
  WorldOptions options = echo_of(300, 4);
  options.gateway_ports = 3;
  options.load.services = 3;
  options.load.connections = 3;
  World world(options);
  world.start();
  ASSERT_TRUE(world.run_calls(300));
  gateway::ConnectionInfo info[3];
  ASSERT_EQ(world.server->gateway.describe(world.now, info), 3u);
  std::map<uint16_t, uint64_t> calls;
  for (const gateway::ConnectionInfo& connection : info) {
    calls[connection.listener_port] = connection.calls;
  }
  ASSERT_EQ(calls.size(), 3u);
  for (uint16_t port = GatewayHost::kPort; port < GatewayHost::kPort + 3; ++port) {
    EXPECT_GT(calls[port], 10u) << port;
  }
  ASSERT_TRUE(world.finish());
  EXPECT_EQ(failures(world.peer->driver.stats()), 0u);
  expect_nothing_left(world);
}

}  // namespace
}  // namespace cw::sim
