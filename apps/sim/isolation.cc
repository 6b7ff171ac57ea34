#include "apps/sim/isolation.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>

#include "apps/sim/draw.h"
#include "apps/sim/production.h"
#include "control/cm/cm_options.h"

namespace cw::sim {
namespace {

// How long a client waits until it sends a request anew.
constexpr Duration kHandshakeRepeat = cm::CmOptions().retransmit_first;

using rpcrdma::BenchProcedure;

constexpr Duration kHostilesCome = Duration::ms(100);
constexpr Duration kHostilesTurn = Duration::ms(300);
constexpr Duration kTablePhase = Duration::seconds(3);
constexpr Duration kTablePause = Duration::ms(10);
constexpr uint32_t kTableClients = 3;
// Where what the gateway has against a hostile needs its time: the read timeout, and as long again.
constexpr Duration kLongPhase = Duration::seconds(25);
constexpr Duration kLongPause = Duration::ms(60);
constexpr Duration kLongWay = Duration::ms(1);
constexpr Duration kReconnectEach = Duration::ms(300);
constexpr Duration kJustInTime = Duration::ms(9'900);  // before the read timeout of 10 s
constexpr uint32_t kSlowReaders = 7;                   // addresses
constexpr uint32_t kFewCalls = 1024;                   // of the gateway, for more credits than that
constexpr uint32_t kHonestLossPermille = 3;            // beside those who take what selective recovery needs
constexpr uint32_t kPlacesLeft = 8;                    // of all connections: for honest clients that come back
constexpr uint64_t kSeedOfChoice = 0x1501'a7ed;        // what is drawn afterwards has nothing to do with the choice
constexpr uint64_t kTableSeed = 18;
constexpr uint32_t kMssBytes = 8948;   // jumbo frames
constexpr uint32_t kSetUpsHeld = 480;  // nearly all half-open connections that there may be
// What its network may ask for, less what honest clients of that network need: the share of half-open ones is full in a second.
constexpr uint32_t kUnreadyPerSecond = 500;

// Calls as NFS makes them: many small ones, some that read and some that write, small enough to be cheap.
ClientPlan honest_client(uint32_t window, Duration pause) {
  constexpr std::array<CallPlan, 6> kCalls = {{
      {BenchProcedure::kEcho, 200, CallShape::kNatural},
      {BenchProcedure::kSource, 16 * 1024, CallShape::kNatural},
      {BenchProcedure::kSink, 16 * 1024, CallShape::kNatural},
      {BenchProcedure::kNull, 0, CallShape::kNatural},
      {BenchProcedure::kSink, 3000, CallShape::kNatural},
      {BenchProcedure::kSource, 3000, CallShape::kNatural},
  }};
  ClientPlan client;
  client.endless = true;
  client.pause = pause;
  for (uint32_t i = 0; i < window; ++i) {
    client.calls.push_back(kCalls[i % kCalls.size()]);
  }
  return client;
}

// Connects anew once, so that it needs what a newcomer needs.
Fault reconnect(uint32_t client, Duration at) {
  Fault fault;
  fault.kind = FaultKind::kDisconnect;
  fault.client = client;
  fault.from = at;
  fault.until = at;
  return fault;
}

// On iWARP buffers have the size of production: what a stream may hold is counted in bytes there, and in buffers elsewhere.
Scenario production_scenario(Wires wires) {
  Scenario scenario;
  scenario.wires = wires;
  scenario.link_delay = Duration::us(20);
  WorldOptions& hosts = scenario.hosts;
  hosts.production = true;
  hosts.backend = gateway::BackendKind::kTcp;
  hosts.backends = 2;
  hosts.gateway_ports = 2;
  hosts.path_mtu = kProductionPathMtu * (wires == Wires::kRoce ? 1 : kProductionByteScale);
  hosts.iwarp.tcp.delay = scenario.link_delay;
  hosts.iwarp.tcp.mss_bytes = kMssBytes;
  hosts.reserved_packet_bytes = kProductionPathMtu;
  hosts.credits = production_credits();
  hosts.load.window = 6;
  hosts.load.inline_bytes = kProductionInlineBytes;
  hosts.gateway_inline_bytes = kProductionInlineBytes;
  hosts.client_call_timeout = Duration::seconds(60);
  hosts.client_reverse_credits = 16;
  hosts.packet_buffers = 2048;
  return scenario;
}

Hostile worst_of(HostileKind kind) {
  Hostile hostile;
  hostile.kind = kind;
  hostile.connections = 16;
  switch (kind) {
    case HostileKind::kNoReadAnswers:
    case HostileKind::kSilentReads:
      hostile.connections = 20;
      hostile.window = 4;
      return hostile;
    case HostileKind::kHugeCalls:
    case HostileKind::kHugeReplies:
    case HostileKind::kHugeIwarpCalls:
    case HostileKind::kHugeIwarpReplies:
      hostile.connections = 2;
      return hostile;
    case HostileKind::kSlowAcks:
      hostile.time = Duration::ms(50);
      return hostile;
    case HostileKind::kConnectLoop:
      hostile.amount = 200;
      hostile.window = 2;
      return hostile;
    case HostileKind::kGarbage:
      hostile.amount = 200;
      hostile.window = 4;
      return hostile;
    case HostileKind::kSlowReads:
      hostile.connections = 8;
      hostile.window = 16;
      hostile.time = kJustInTime;
      return hostile;
    case HostileKind::kCallSlots:
      hostile.connections = 32;
      hostile.time = kJustInTime;
      return hostile;
    case HostileKind::kGapHolders:
      hostile.connections = production_connections() - kPlacesLeft;
      return hostile;
    case HostileKind::kNoDreqAnswer:
      hostile.connections = 48;
      hostile.window = 1;
      return hostile;
    case HostileKind::kRefusedByBackend:
      hostile.amount = 100;
      hostile.window = 2;
      return hostile;
    case HostileKind::kForgedRequests:
      hostile.connections = 0;
      hostile.amount = 250;
      return hostile;
    case HostileKind::kForgedRivals:
      hostile.connections = production_connections() - kTableClients;
      hostile.amount = 50;
      return hostile;
    case HostileKind::kForgedCnps:
      hostile.connections = 0;
      hostile.amount = 5000;
      return hostile;
    case HostileKind::kBackendSlow:
      hostile.time = Duration::ms(500);
      return hostile;
    case HostileKind::kHalfRequests:
      hostile.connections = kSetUpsHeld;
      hostile.window = 1;
      return hostile;
    case HostileKind::kHalfFpdus:
      hostile.connections = production_connections() - kPlacesLeft;
      hostile.window = 1;
      return hostile;
    case HostileKind::kConnectFlood:
      hostile.connections = 0;
      hostile.amount = 2000;
      return hostile;
    case HostileKind::kNeverReady:
      hostile.connections = 0;
      hostile.amount = kUnreadyPerSecond;
      return hostile;
    default:
      return hostile;
  }
}

// What else there is in a scenario with such a hostile.
void suit(HostileKind kind, Scenario& scenario) {
  if (kind == HostileKind::kCallSlots) {
    scenario.hosts.calls_in_flight_max = kFewCalls;
  }
  if (kind == HostileKind::kNoDreqAnswer) {
    // Who connects while the table is full of connections that do not end: often, and over a way on which that takes a while.
    scenario.link_delay = kLongWay;
    for (Duration at = kReconnectEach; at < scenario.phase_one; at = at + kReconnectEach) {
      scenario.faults.push_back(reconnect(static_cast<uint32_t>(scenario.faults.size() % scenario.clients.size()), at));
    }
  }
  if (kind != HostileKind::kGapHolders) {
    return;
  }
  for (uint32_t i = 0; i < scenario.clients.size(); ++i) {
    Fault loss;
    loss.kind = FaultKind::kLoss;
    loss.client = i;
    loss.until = scenario.phase_one;
    loss.amount = kHonestLossPermille;
    loss.seed = kTableSeed + i;
    scenario.faults.push_back(loss);
  }
}

bool takes_its_time(HostileKind kind) {
  return kind == HostileKind::kSlowReads || kind == HostileKind::kCallSlots || kind == HostileKind::kNoDreqAnswer;
}

HostileKind draw_kind(Draw& draw, Wires wires) {
  HostileKind kind;
  do {
    kind = static_cast<HostileKind>(wires == Wires::kRoce
                                        ? draw.below(kRoceHostileKindCount)
                                        : kRoceHostileKindCount + draw.below(kHostileKindCount - kRoceHostileKindCount));
  } while (awaits_fix(kind));
  return kind;
}

// With both wires the first client is the one on RoCE.
void spread_over(Wires wires, Scenario& scenario) {
  for (size_t i = wires == Wires::kBoth ? 1 : 0; wires != Wires::kRoce && i < scenario.clients.size(); ++i) {
    scenario.clients[i].iwarp = true;
    scenario.clients[i].standard = false;
  }
}

uint32_t addresses_of(HostileKind kind) {
  return kind == HostileKind::kSlowReads ? kSlowReaders : 1;
}

uint64_t answers_of(const std::vector<Service>& services) {
  uint64_t sum = 0;
  for (const Service& service : services) {
    sum += service.answered;
  }
  return sum;
}

Duration longest_of(const std::vector<Service>& services) {
  Duration longest;
  for (const Service& service : services) {
    longest = std::max(longest, service.longest_wait);
  }
  return longest;
}

uint64_t per_second(uint64_t count, Duration time) {
  return count * 1'000'000 / static_cast<uint64_t>(time.to_us());
}

}  // namespace

bool is_isolation_seed(uint64_t seed) {
  return Draw(seed ^ kSeedOfChoice).one_in(kIsolationSeeds);
}

Scenario draw_isolation(uint64_t seed, Wires wires) {
  Draw draw(seed);
  Scenario scenario = production_scenario(wires);
  scenario.seed = seed;
  scenario.phase_one = draw.time(Duration::seconds(1), Duration::seconds(3));
  scenario.link_delay = draw.time(Duration::us(2), Duration::us(50));
  const uint32_t clients = draw.between(2, 3);
  for (uint32_t i = 0; i < clients; ++i) {
    scenario.clients.push_back(honest_client(scenario.hosts.load.window, draw.time(Duration::ms(5), Duration::ms(20))));
    if (draw.one_in(2)) {
      scenario.faults.push_back(reconnect(i, scenario.phase_one * draw.between(2, 3) / 4));
    }
  }
  uint32_t places = production_connections() - kPlacesLeft;
  for (uint32_t count = draw.of({1u, 1u, 2u, 3u}); count > 0; --count) {
    Hostile hostile = worst_of(draw_kind(draw, wires));
    suit(hostile.kind, scenario);
    if (hostile.connections > 0) {
      const uint32_t most = std::min(hostile.connections, places);
      hostile.connections = most == 0 || draw.one_in(2) ? most : draw.between(1, most);
    }
    places -= hostile.connections;
    hostile.window = draw.one_in(2) ? hostile.window : static_cast<uint32_t>(draw.magnitude(1, hostile.window));
    hostile.amount = hostile.amount == 0 || draw.one_in(2) ? hostile.amount : draw.between(1, hostile.amount);
    hostile.time = hostile.time == Duration() ? hostile.time : draw.time(Duration::us(100), hostile.time * 4);
    hostile.from = draw.time(Duration::us(1), scenario.phase_one / 4);
    hostile.turns = hostile.from + draw.time(Duration::us(1), scenario.phase_one / 4);
    hostile.until = scenario.phase_one;
    hostile.seed = draw.word();
    scenario.hostiles.push_back(hostile);
  }
  for (ClientPlan& client : scenario.clients) {
    client.standard = draw.one_in(2);
  }
  scenario.hosts.iwarp.tcp.delay = scenario.link_delay;
  spread_over(wires, scenario);
  return scenario;
}

Scenario isolation_of(HostileKind kind) {
  const Wires wires = is_on_iwarp(kind) ? Wires::kBoth : Wires::kRoce;
  Scenario scenario = production_scenario(wires);
  scenario.seed = kTableSeed;
  scenario.phase_one = takes_its_time(kind) ? kLongPhase : kTablePhase;
  for (uint32_t i = 0; i < kTableClients; ++i) {
    scenario.clients.push_back(honest_client(scenario.hosts.load.window, takes_its_time(kind) ? kLongPause : kTablePause));
  }
  spread_over(wires, scenario);
  scenario.faults.push_back(reconnect(1, scenario.phase_one / 2));
  suit(kind, scenario);
  for (uint32_t i = 0; i < addresses_of(kind); ++i) {
    Hostile hostile = worst_of(kind);
    hostile.from = kHostilesCome;
    hostile.turns = kHostilesTurn;
    hostile.until = scenario.phase_one;
    hostile.seed = kTableSeed + i;
    scenario.hostiles.push_back(hostile);
  }
  return scenario;
}

Scenario honest_part(const Scenario& scenario) {
  Scenario out = scenario;
  out.hostiles.clear();
  return out;
}

namespace {

// A client that connects anew while its link loses packets may lose a message of the handshake, and then waits until that is sent
// again: a quarter of a phase, in one run and not in the other.
Duration excused(const Scenario& scenario, uint32_t client) {
  Duration time;
  for (const Fault& fault : scenario.faults) {
    const bool loses = std::ranges::any_of(scenario.faults, [&](const Fault& other) {
      return is_link_fault(other.kind) && other.client == client && other.from <= fault.from && fault.from <= other.until;
    });
    if (fault.kind == FaultKind::kDisconnect && fault.client == client && loses) {
      time = time + kHandshakeRepeat;
    }
  }
  return std::min(time, scenario.phase_one / 2);
}

}  // namespace

void judge_isolation(const Scenario& scenario, const std::vector<Service>& alone, const std::vector<Service>& beside,
                     Verdict& verdict) {
  for (size_t i = 0; i < std::min(alone.size(), beside.size()); ++i) {
    const std::string who = "client " + std::to_string(i) + " ";
    const auto time = static_cast<uint64_t>((scenario.phase_one - excused(scenario, static_cast<uint32_t>(i))).to_us());
    const auto phase = static_cast<uint64_t>(scenario.phase_one.to_us());
    if (beside[i].answered * 1000 * phase < alone[i].answered * kRatePermilleMin * time) {
      verdict.fail(Oracle::kIsolation, who + "got " + std::to_string(per_second(beside[i].answered, scenario.phase_one)) +
                                           " answers a second beside hostiles, " +
                                           std::to_string(per_second(alone[i].answered, scenario.phase_one)) + " alone");
    }
    if (beside[i].longest_wait > alone[i].longest_wait + kWaitMax) {
      verdict.fail(Oracle::kIsolation, who + "waited " + std::to_string(beside[i].longest_wait.to_us()) +
                                           " us for an answer beside hostiles, " + std::to_string(alone[i].longest_wait.to_us()) +
                                           " us alone");
    }
  }
}

IsolationRow measure_isolation(HostileKind kind) {
  const Scenario scenario = isolation_of(kind);
  const RunResult alone = run(honest_part(scenario));
  const RunResult beside = run(scenario);
  return {.kind = kind,
          .alone_per_second = per_second(answers_of(alone.services), scenario.phase_one),
          .beside_per_second = per_second(answers_of(beside.services), scenario.phase_one),
          .alone_wait = longest_of(alone.services),
          .beside_wait = longest_of(beside.services),
          .failures = beside.failures};
}

const char* isolation_head() {
  return "# hostile         alone_per_second  beside_per_second  alone_wait_us  beside_wait_us\n";
}

std::string to_string(const IsolationRow& row) {
  std::array<char, 160> line;
  const int used = std::snprintf(line.data(), line.size(), "%-17s %16" PRIu64 " %18" PRIu64 " %14" PRId64 " %15" PRId64 "\n",
                                 to_string(row.kind), row.alone_per_second, row.beside_per_second, row.alone_wait.to_us(),
                                 row.beside_wait.to_us());
  return {line.data(), static_cast<size_t>(used)};
}

}  // namespace cw::sim
