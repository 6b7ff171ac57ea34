#include "apps/sim/scenario.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "apps/sim/draw.h"
#include "apps/sim/isolation.h"

namespace cw::sim {
namespace {

using rpcrdma::BenchProcedure;

void draw_hosts(Draw& draw, WorldOptions& hosts) {
  hosts.small_tables = true;
  hosts.ipv6 = draw.one_in(3);
  hosts.vlan = draw.one_in(4) ? static_cast<uint16_t>(draw.between(1, 4094)) : uint16_t{0};
  hosts.path_mtu = 256u << draw.below(5);
  hosts.credits = static_cast<uint32_t>(draw.magnitude(1, 32));
  hosts.load.window = static_cast<uint32_t>(draw.magnitude(1, 16));
  const uint32_t inline_max = std::min(16 * hosts.path_mtu, 8192u);
  hosts.load.inline_bytes = std::min(1024u << draw.below(4), inline_max);
  hosts.gateway_inline_bytes = std::min(1024u << draw.below(4), inline_max);
  hosts.remote_invalidate = !draw.one_in(4);
  const uint32_t backend = draw.below(5);
  hosts.backend = backend < 2 ? gateway::BackendKind::kTcp : gateway::BackendKind::kBuiltin;
  hosts.run_on_workers = backend == 2;
  hosts.ack_timeout = static_cast<uint8_t>(draw.between(8, 14));
  hosts.send_window_packets = 1u << draw.between(2, 7);
  hosts.server_call_timeout = draw.of({Duration::seconds(1), Duration::seconds(5), Duration::seconds(120)});
  hosts.client_call_timeout = draw.of({Duration::ms(20), Duration::ms(500), Duration::seconds(2), Duration::seconds(10)});
  hosts.client_qpns_repeat = draw.one_in(2);
}

CallPlan draw_call(Draw& draw, const WorldOptions& hosts) {
  CallPlan call;
  call.procedure = static_cast<BenchProcedure>(draw.below(4));
  if (call.procedure != BenchProcedure::kNull) {
    // Up to 24 packets: enough to have a middle, few enough to be cheap.
    call.bytes = draw.one_in(8) ? draw.below(4) : static_cast<uint32_t>(draw.magnitude(1, uint64_t{24} * hosts.path_mtu));
  }
  if (draw.one_in(2)) {
    call.shape = static_cast<CallShape>(draw.below(static_cast<uint32_t>(CallShape::kCount)));
  }
  return call;
}

ClientPlan draw_client(Draw& draw, const Scenario& scenario) {
  ClientPlan client;
  client.connections = draw.one_in(4) ? 2 : 1;
  client.calls.resize(draw.magnitude(4, 64));
  for (CallPlan& call : client.calls) {
    call = draw_call(draw, scenario.hosts);
  }
  const uint32_t places = client.connections * std::min(scenario.hosts.load.window, scenario.hosts.credits);
  const auto rounds = static_cast<int64_t>(client.calls.size() / places + 1);
  if (!draw.one_in(4)) {
    client.pause = scenario.phase_one / (rounds * draw.between(1, 4));
  }
  // A call that is never answered keeps its credit until the gateway gives up: soon enough for the bound of phase two.
  client.stays_after_timeout = draw.one_in(2) && scenario.hosts.server_call_timeout <= Duration::seconds(5);
  if (client.stays_after_timeout && draw.one_in(2)) {
    for (CallPlan& call : client.calls) {
      call.cancel_after = draw.one_in(6) ? draw.time(Duration::us(1), Duration::ms(5)) : Duration();
    }
  }
  return client;
}

void draw_amounts(Draw& draw, Fault& fault) {
  switch (fault.kind) {
    case FaultKind::kLoss:
    case FaultKind::kCorrupt:
    case FaultKind::kTruncate:
      fault.amount = static_cast<uint32_t>(draw.magnitude(1, 300));
      return;
    case FaultKind::kBurstLoss:
      fault.amount = static_cast<uint32_t>(draw.magnitude(1, 60));
      return;
    case FaultKind::kDuplicate:
    case FaultKind::kReorder:
      fault.amount = static_cast<uint32_t>(draw.magnitude(1, 500));
      fault.time = draw.time(Duration::ns(500), Duration::ms(200));
      return;
    case FaultKind::kEcnMark:
      fault.amount = draw.between(1, 1000);
      return;
    case FaultKind::kJitter:
    case FaultKind::kDelay:
      fault.time = draw.time(Duration::us(1), Duration::ms(50));
      return;
    case FaultKind::kMtu:
      fault.amount = draw.between(100, 4300);
      return;
    case FaultKind::kBottleneck:
      fault.amount = static_cast<uint32_t>(draw.magnitude(4500, 100'000));  // at least one frame
      fault.time = draw.time(Duration::us(1), Duration::us(200));
      return;
    case FaultKind::kClockJumpGateway:
    case FaultKind::kClockJumpClient:
      fault.time = draw.time(Duration::ms(1), Duration::seconds(300));
      return;
    case FaultKind::kStarvePackets:
      fault.amount = draw.of({1000u, 1000u, 900u, 500u});
      return;
    case FaultKind::kBackendSlow:
      fault.time = draw.time(Duration::us(50), Duration::seconds(2));
      return;
    case FaultKind::kBackendCloses:
      fault.amount = draw.below(8);
      return;
    default:
      return;
  }
}

// In some scenarios what would be NULL calls makes the server call back, with credits of its own in that direction.
void draw_callbacks(Draw& draw, Scenario& scenario) {
  if (!draw.one_in(3)) {
    return;
  }
  scenario.hosts.reverse_credits = draw.one_in(8) ? 0 : static_cast<uint32_t>(draw.magnitude(1, 16));
  scenario.hosts.client_reverse_credits = static_cast<uint32_t>(draw.magnitude(1, 16));
  for (ClientPlan& client : scenario.clients) {
    for (CallPlan& call : client.calls) {
      if (call.procedure == BenchProcedure::kNull) {
        call.procedure = BenchProcedure::kCallback;
        call.bytes = static_cast<uint32_t>(draw.magnitude(1, 1100));
      }
    }
  }
}

// Of the few responses of a READ: in requests of one to all of them, of which one or many are asked for at once.
void draw_reads(Draw& draw, WorldOptions& hosts) {
  hosts.read_request_packets = 1u << draw.below(6);
  hosts.read_window_packets = hosts.read_request_packets << draw.below(5);
}

// Some have less room for packets behind a gap than their connections would fill. All have a fence for each connection: without
// one a SEND may overtake a repeated READ request, which is what the oracle `blame` looks for (SimOracle in sim_test.cc).
void draw_recovery(Draw& draw, WorldOptions& hosts) {
  if (draw.one_in(4)) {
    hosts.recovery.held_packets_max = static_cast<uint32_t>(draw.magnitude(1, 32));
  }
}

Fault draw_fault(Draw& draw, const Scenario& scenario) {
  Fault fault;
  // Half of all are the link's, since packets are what there is most of.
  fault.kind = draw.one_in(2) ? static_cast<FaultKind>(draw.below(static_cast<uint32_t>(FaultKind::kPartition) + 1))
                              : static_cast<FaultKind>(draw.below(kRoceFaultKindCount));
  fault.client = draw.below(static_cast<uint32_t>(scenario.clients.size()));
  fault.direction = static_cast<Direction>(draw.below(3));
  const auto phase_ns = static_cast<uint64_t>(scenario.phase_one.to_ns());
  fault.from = Duration::ns(static_cast<int64_t>(draw.word() % phase_ns));
  const Duration length = draw.time(scenario.phase_one / 64, scenario.phase_one);
  fault.until = std::min(fault.from + length, scenario.phase_one);
  fault.seed = draw.word();
  draw_amounts(draw, fault);
  return fault;
}

// Half of the clients are not Causeway. Of those most get packets that overtake each other by no more than the gateway has to
// reckon with (the oracle `blame`), often enough that repeated READ requests are overtaken too.
void draw_peers(Draw& draw, Scenario& scenario) {
  for (uint32_t i = 0; i < scenario.clients.size(); ++i) {
    scenario.clients[i].standard = draw.one_in(2);
    if (!scenario.clients[i].standard || draw.one_in(3)) {
      continue;
    }
    Fault fault;
    fault.kind = FaultKind::kReorder;
    fault.client = i;
    fault.direction = static_cast<Direction>(draw.below(3));
    fault.until = scenario.phase_one;
    fault.amount = draw.between(20, 500);
    fault.time = draw.time(Duration::ns(500), Duration::us(50) + scenario.link_delay * 2);
    fault.seed = draw.word();
    scenario.faults.push_back(fault);
  }
}

// ---- iWARP: draws of their own, so that a seed's other draws are the same on any wire ----

constexpr uint64_t kIwarpDraws = 0x6977'6172'7000'0000;

void draw_iwarp_hosts(Draw& draw, Scenario& scenario) {
  IwarpWorld& iwarp = scenario.hosts.iwarp;
  iwarp.gateway_crc = !draw.one_in(4);
  iwarp.client_crc = !draw.one_in(4);
  iwarp.client_ird = static_cast<uint16_t>(draw.magnitude(1, 64));
  iwarp.gateway_ord = static_cast<uint16_t>(draw.magnitude(1, 64));
  iwarp.send_queue_depth = draw.one_in(4) ? uint16_t{64} : iwarp.send_queue_depth;
  iwarp.fpdu_bytes_max = draw.one_in(2) ? iwarp.fpdu_bytes_max : static_cast<uint32_t>(draw.magnitude(300, 0xffff));
  iwarp.input_bytes_max = draw.one_in(2) ? iwarp.input_bytes_max : draw.magnitude(1, 1u << 18);
  iwarp.fpdu_timeout = draw.of({Duration::ms(20), Duration::seconds(1), iwarp.fpdu_timeout});
  iwarp.handshake_timeout = draw.of({Duration::ms(20), Duration::seconds(1), iwarp.handshake_timeout});
  iwarp.tcp.user_timeout = draw.of({Duration::ms(200), Duration::seconds(3), iwarp.tcp.user_timeout});
  iwarp.tcp.delay = scenario.link_delay;
  iwarp.tcp.mss_bytes = draw.of({536u, 1448u, 8948u, 65'483u});
  iwarp.tcp.buffer_bytes = static_cast<uint32_t>(draw.magnitude(1u << 12, 1u << 22));
}

// Every wire has a client.
void draw_wires(Draw& draw, Scenario& scenario) {
  std::vector<ClientPlan>& clients = scenario.clients;
  if (scenario.wires == Wires::kBoth && clients.size() == 1) {
    clients.push_back(draw_client(draw, scenario));
  }
  const uint32_t first = draw.below(2);
  for (uint32_t i = 0; i < clients.size(); ++i) {
    const bool drawn = i < 2 ? (first + i) % 2 == 0 : draw.one_in(2);
    clients[i].iwarp = scenario.wires == Wires::kIwarp || drawn;
    clients[i].standard = clients[i].standard && !clients[i].iwarp;
  }
}

Fault draw_stream_fault(Draw& draw, const Scenario& scenario, uint32_t client) {
  Fault fault;
  const uint32_t kinds = kFaultKindCount - kRoceFaultKindCount;
  fault.kind = static_cast<FaultKind>(kRoceFaultKindCount + draw.below(kinds));
  fault.client = client;
  fault.direction = static_cast<Direction>(draw.below(3));
  const auto phase_ns = static_cast<uint64_t>(scenario.phase_one.to_ns());
  fault.from = draw.one_in(3) ? Duration() : Duration::ns(static_cast<int64_t>(draw.word() % phase_ns));
  fault.until = std::min(fault.from + draw.time(scenario.phase_one / 64, scenario.phase_one), scenario.phase_one);
  fault.seed = draw.word();
  switch (fault.kind) {
    case FaultKind::kStreamReset:
    case FaultKind::kStreamHalfClose:
      fault.at_frame = draw.one_in(4) ? draw.magnitude(1, 1u << 17) : 0;
      break;
    case FaultKind::kStreamTiny:
      fault.amount = draw.of({10u, 100u, 500u, 1000u});
      break;
    case FaultKind::kStreamJitter:
      fault.time = draw.time(Duration::us(1), Duration::ms(50));
      break;
    case FaultKind::kStreamWindow:
      fault.amount = static_cast<uint32_t>(draw.magnitude(1, 16'384));
      break;
    default:
      break;
  }
  return fault;
}

// Of a process: what ends streams without a word of theirs, or makes their time pass.
Fault draw_process_fault(Draw& draw, const Scenario& scenario, uint32_t client) {
  Fault fault;
  fault.kind = draw.of({FaultKind::kKillGateway, FaultKind::kKillClient, FaultKind::kKillClient, FaultKind::kDrainGateway,
                        FaultKind::kHandOverGateway, FaultKind::kHandOverGateway, FaultKind::kDisconnect,
                        FaultKind::kPauseGateway, FaultKind::kClockJumpGateway, FaultKind::kStarvePackets});
  fault.client = client;
  const auto phase_ns = static_cast<uint64_t>(scenario.phase_one.to_ns());
  fault.from = Duration::ns(static_cast<int64_t>(draw.word() % phase_ns));
  fault.until = std::min(fault.from + draw.time(scenario.phase_one / 64, scenario.phase_one), scenario.phase_one);
  fault.seed = draw.word();
  draw_amounts(draw, fault);
  return fault;
}

// What a cable does to packets it does to streams in its own way.
void draw_stream_faults(Draw& draw, Scenario& scenario) {
  for (Fault& fault : scenario.faults) {
    if (is_link_fault(fault.kind) && scenario.clients[fault.client].iwarp) {
      fault = draw_stream_fault(draw, scenario, fault.client);
    }
  }
  for (uint32_t i = 0; i < scenario.clients.size(); ++i) {
    for (uint32_t count = scenario.clients[i].iwarp ? draw.below(3) : 0; count > 0; --count) {
      scenario.faults.push_back(draw_stream_fault(draw, scenario, i));
    }
    if (scenario.clients[i].iwarp && draw.one_in(3)) {
      scenario.faults.push_back(draw_process_fault(draw, scenario, i));
    }
  }
}

}  // namespace

const char* to_string(Wires wires) noexcept {
  switch (wires) {
    case Wires::kRoce:
      return "roce";
    case Wires::kIwarp:
      return "iwarp";
    case Wires::kBoth:
      return "both";
  }
  return "unknown";
}

const char* to_string(CallShape shape) noexcept {
  switch (shape) {
    case CallShape::kNatural:
      return "natural";
    case CallShape::kReduced:
      return "reduced";
    case CallShape::kLongCall:
      return "long_call";
    case CallShape::kReplyChunk:
      return "reply_chunk";
    case CallShape::kLongBoth:
      return "long_both";
    case CallShape::kNoRoom:
      return "no_room";
    case CallShape::kCount:
      break;
  }
  return "unknown";
}

// The longest chain of waits: a queue pair gives up (17 s of doubled timeouts), its end is told (8 s), calls time out, the new
// connection's handshake (30 s) meets the rest of the old one.
Duration Scenario::finish_within() const {
  return Duration::seconds(100) + hosts.client_call_timeout * 2;
}

void size_pools(Scenario& scenario) {
  WorldOptions& hosts = scenario.hosts;
  uint32_t connections = 0;
  uint32_t bytes_max = 0;
  for (const ClientPlan& client : scenario.clients) {
    connections += client.connections;
    for (const CallPlan& call : client.calls) {
      bytes_max = std::max(bytes_max, call.bytes);
    }
  }
  const uint32_t per_connection = std::min(hosts.credits, hosts.load.window);
  const uint32_t inline_bytes = std::max(hosts.load.inline_bytes, hosts.gateway_inline_bytes);
  // Dead connections hold what they held until they are given up: twice everything.
  const uint32_t in_flight = 2 * connections * per_connection;
  const uint32_t pull = 2 * (bytes_max / hosts.path_mtu + 2) * std::max(2u, connections);
  // Calls back to a client: their messages, the replies, and what waits for credits, on both sides.
  const uint32_t reverse = hosts.client_reverse_credits == 0 ? 0 : 2 * connections * (rpcrdma::ReverseCaller::kWaitingMax + 16);
  hosts.packet_buffers =
      192 + 4 * reverse * (inline_bytes / hosts.path_mtu + 2) + in_flight * (inline_bytes / hosts.path_mtu + 2) + pull;
  hosts.pull_buffers_max = pull;
  hosts.large_buffers = 16 + reverse + in_flight * (bytes_max / 8192 + 2);
  if (scenario.wires == Wires::kRoce) {
    return;
  }
  // What streams have read and not taken: an FPDU and what is behind it. The rest of a buffer is another segment's, and small
  // segments may lie in buffers alone.
  constexpr uint32_t kInputBytes = 2 * 65536 + 16384;
  hosts.packet_buffers = 2 * hosts.packet_buffers + 2 * connections * (kInputBytes / hosts.path_mtu + 16);
}

Scenario draw_scenario(uint64_t seed, const Variant& variant) {
  const Wires wires = variant.wires;
  if (is_isolation_seed(seed)) {
    Scenario scenario = draw_isolation(seed, wires);
    scenario.hosts.express = variant.express;
    return scenario;
  }
  Draw draw(seed);
  Scenario scenario;
  scenario.seed = seed;
  scenario.wires = wires;
  scenario.phase_one = draw.time(Duration::ms(2), Duration::seconds(4));
  scenario.link_delay = draw.time(Duration::us(1), Duration::us(100));
  draw_hosts(draw, scenario.hosts);
  scenario.hosts.express = variant.express;
  const uint32_t clients = draw.of({1u, 1u, 2u, 3u});
  for (uint32_t i = 0; i < clients; ++i) {
    scenario.clients.push_back(draw_client(draw, scenario));
  }
  const uint32_t bytes_max = 24 * scenario.hosts.path_mtu;
  // Chunks of a few segments: their list has to fit the smallest Buffer.
  scenario.hosts.segment_bytes_max = draw.one_in(2) ? 0 : std::max(64u, bytes_max / draw.between(1, 4) + 1);
  for (uint32_t count = draw.below(9); count > 0; --count) {
    scenario.faults.push_back(draw_fault(draw, scenario));
  }
  draw_callbacks(draw, scenario);
  draw_reads(draw, scenario.hosts);
  draw_peers(draw, scenario);
  draw_recovery(draw, scenario.hosts);
  if (wires != Wires::kRoce) {
    Draw more(seed ^ kIwarpDraws);
    draw_iwarp_hosts(more, scenario);
    draw_wires(more, scenario);
    draw_stream_faults(more, scenario);
  }
  size_pools(scenario);
  return scenario;
}

Scenario boundary_scenario(Wires wires) {
  Scenario scenario;
  scenario.wires = wires;
  scenario.phase_one = Duration::ms(2);
  scenario.link_delay = Duration::us(5);
  WorldOptions& hosts = scenario.hosts;
  hosts.small_tables = true;
  hosts.path_mtu = 1024;
  hosts.credits = 4;
  hosts.load.window = 2;
  hosts.load.inline_bytes = 1024;
  hosts.gateway_inline_bytes = 4096;
  hosts.backend = gateway::BackendKind::kTcp;
  hosts.ack_timeout = 10;
  hosts.client_qpns_repeat = true;
  hosts.client_call_timeout = Duration::seconds(2);
  ClientPlan& client = scenario.clients.emplace_back();
  client.calls = {{BenchProcedure::kNull, 0, CallShape::kNatural},      {BenchProcedure::kEcho, 100, CallShape::kNatural},
                  {BenchProcedure::kEcho, 3000, CallShape::kReduced},   {BenchProcedure::kSink, 2500, CallShape::kNatural},
                  {BenchProcedure::kSource, 3000, CallShape::kNatural}, {BenchProcedure::kEcho, 2000, CallShape::kLongBoth}};
  if (wires == Wires::kIwarp) {
    client.iwarp = true;
    hosts.iwarp.tcp.mss_bytes = 300;  // messages of a few segments
    client.calls = {{BenchProcedure::kNull, 0, CallShape::kNatural},
                    {BenchProcedure::kEcho, 40, CallShape::kReduced},
                    {BenchProcedure::kSink, 700, CallShape::kNatural},
                    {BenchProcedure::kEcho, 500, CallShape::kLongBoth}};
  }
  size_pools(scenario);
  return scenario;
}

std::string describe(const Scenario& scenario) {
  std::string out;
  char line[300];
  const WorldOptions& hosts = scenario.hosts;
  const char* backend = hosts.backend == gateway::BackendKind::kTcp ? "tcp" : hosts.run_on_workers ? "workers" : "builtin";
  const auto add = [&](int used) { out.append(line, static_cast<size_t>(used)); };
  add(std::snprintf(line, sizeof(line),
                    "seed %" PRIu64 ": phase one %" PRId64 " us, link delay %" PRId64 " ns, %s, vlan %u, mtu %" PRIu32
                    ", backend %s\n",
                    scenario.seed, scenario.phase_one.to_us(), scenario.link_delay.to_ns(), hosts.ipv6 ? "IPv6" : "IPv4",
                    unsigned{hosts.vlan}, hosts.path_mtu, backend));
  add(std::snprintf(line, sizeof(line),
                    "  credits %" PRIu32 ", window %" PRIu32 " calls and %" PRIu32 " packets, inline %" PRIu32 " client %" PRIu32
                    " gateway, remote invalidate %s, ack timeout code %u\n",
                    hosts.credits, hosts.load.window, hosts.send_window_packets, hosts.load.inline_bytes,
                    hosts.gateway_inline_bytes, hosts.remote_invalidate ? "yes" : "no", unsigned{hosts.ack_timeout}));
  add(std::snprintf(line, sizeof(line),
                    "  READ requests of %" PRIu32 " packets, %" PRIu32 " at once; %" PRIu32 " packets held behind gaps\n",
                    hosts.read_request_packets, hosts.read_window_packets, hosts.recovery.held_packets_max));
  add(std::snprintf(line, sizeof(line),
                    "  call timeouts %" PRId64 " us client %" PRId64 " us gateway, segments of %" PRIu32 ", buffers %" PRIu32
                    " packets %" PRIu32 " large\n",
                    hosts.client_call_timeout.to_us(), hosts.server_call_timeout.to_us(), hosts.segment_bytes_max,
                    hosts.packet_buffers, hosts.large_buffers));
  if (scenario.wires != Wires::kRoce) {
    const IwarpWorld& iwarp = hosts.iwarp;
    add(std::snprintf(line, sizeof(line),
                      "  iWARP: CRC %s client %s gateway, IRD %u, ORD %u, send queue of %u, FPDUs up to %" PRIu32 ", MSS %" PRIu32
                      ", TCP buffers of %" PRIu32 ", FPDU timeout %" PRId64 " us, input %" PRIu64 "\n",
                      iwarp.client_crc ? "yes" : "no", iwarp.gateway_crc ? "yes" : "no", unsigned{iwarp.client_ird},
                      unsigned{iwarp.gateway_ord}, unsigned{iwarp.send_queue_depth}, iwarp.fpdu_bytes_max, iwarp.tcp.mss_bytes,
                      iwarp.tcp.buffer_bytes, iwarp.fpdu_timeout.to_us(), iwarp.input_bytes_max));
  }
  for (size_t i = 0; i < scenario.clients.size(); ++i) {
    const ClientPlan& client = scenario.clients[i];
    add(std::snprintf(line, sizeof(line), "  client %zu: %" PRIu32 " connections, %zu calls, pause %" PRId64 " us%s%s:", i,
                      client.connections, client.calls.size(), client.pause.to_us(),
                      client.stays_after_timeout ? ", stays after timeouts" : "",
                      client.iwarp      ? ", iWARP"
                      : client.standard ? ", standard"
                                        : ""));
    for (const CallPlan& call : client.calls) {
      add(std::snprintf(line, sizeof(line), " %s/%" PRIu32 "/%s", load::to_string(call.procedure), call.bytes,
                        to_string(call.shape)));
      if (call.cancel_after != Duration()) {
        add(std::snprintf(line, sizeof(line), "/cancelled after %" PRId64 " us", call.cancel_after.to_us()));
      }
    }
    out += "\n";
  }
  for (size_t i = 0; i < scenario.faults.size(); ++i) {
    add(std::snprintf(line, sizeof(line), "  fault %zu: ", i));
    out += describe(scenario.faults[i]) + "\n";
  }
  for (size_t i = 0; i < scenario.hostiles.size(); ++i) {
    add(std::snprintf(line, sizeof(line), "  hostile %zu: ", i));
    out += describe(scenario.hostiles[i]) + "\n";
  }
  return out;
}

}  // namespace cw::sim
