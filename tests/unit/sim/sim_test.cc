// The simulation's own parts: links do what their names say, oracles speak when they should, runs repeat to the byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "apps/sim/boundary.h"
#include "apps/sim/isolation.h"
#include "apps/sim/link/damage.h"
#include "apps/sim/link/lies.h"
#include "apps/sim/link/losses.h"
#include "apps/sim/link/timing.h"
#include "apps/sim/link/wire.h"
#include "apps/sim/runner.h"
#include "apps/sim/shrinker.h"
#include "apps/sim/sweep.h"
#include "apps/sim/watch.h"
#include "apps/sim/world.h"
#include "control/cm/wire/mad.h"
#include "rocev2/wire/packet_view.h"
#include "rpcrdma/backend/bench_client.h"
#include "tests/unit/wire/frames.h"

namespace cw::sim {
namespace {

constexpr Instant kStart = Instant::from_ns(1'000'000);
constexpr Duration kWireDelay = Duration::us(5);

std::unique_ptr<Link> wire(Flight& flight) {
  return std::make_unique<Wire>(flight, kWireDelay);
}

std::vector<uint8_t> frame_of(size_t bytes, uint8_t value = 7) {
  return std::vector<uint8_t>(bytes, value);
}

std::vector<Arrival> arrivals(Flight& flight) {
  std::vector<Arrival> out;
  Arrival arrival;
  while (flight.take(Instant::never(), arrival)) {
    out.push_back(std::move(arrival));
  }
  return out;
}

TEST(SimLink, WireKeepsTheOrderAndTheDelay) {
  Flight flight;
  const auto link = wire(flight);
  link->push(kStart, Transit{.to = 1, .hold = Duration::us(10), .raw = frame_of(60, 1)});
  link->push(kStart, Transit{.to = 1, .raw = frame_of(60, 2)});
  link->push(kStart, Transit{.to = 1, .overtakes = true, .raw = frame_of(60, 3)});
  const auto frames = arrivals(flight);
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(frames[0].raw[0], 3);
  EXPECT_EQ(frames[0].at, kStart + kWireDelay);
  EXPECT_EQ(frames[1].raw[0], 1);
  EXPECT_EQ(frames[2].raw[0], 2);
  EXPECT_EQ(frames[2].at, frames[1].at);
}

TEST(SimLink, ActsOnlyInsideItsWindow) {
  Flight flight;
  Partition link(wire(flight), Window{kStart, kStart + Duration::us(10)}, 1);
  link.push(kStart + Duration::ns(-1), Transit{.raw = frame_of(60)});
  link.push(kStart, Transit{.raw = frame_of(60)});
  link.push(kStart + Duration::us(9), Transit{.raw = frame_of(60)});
  link.push(kStart + Duration::us(10), Transit{.raw = frame_of(60)});
  EXPECT_EQ(arrivals(flight).size(), 2u);
  EXPECT_EQ(link.hits(), 2u);
}

TEST(SimLink, LosesAboutAsManyAsItSays) {
  Flight flight;
  Loss link(wire(flight), Window{}, 42, 100);
  for (uint32_t i = 0; i < 10'000; ++i) {
    link.push(kStart, Transit{.raw = frame_of(1)});
  }
  EXPECT_NEAR(static_cast<double>(arrivals(flight).size()), 9'000.0, 150.0);
}

TEST(SimLink, LosesInBursts) {
  Flight flight;
  BurstLoss link(wire(flight), Window{}, 42, 10, 8);
  for (uint32_t i = 0; i < 10'000; ++i) {
    link.push(kStart, Transit{.raw = frame_of(1)});
  }
  EXPECT_NEAR(static_cast<double>(link.hits()), 10'000.0 * 8 / 108, 250.0);
}

TEST(SimLink, LimitsTheMtu) {
  Flight flight;
  MtuLimit link(wire(flight), Window{}, 1, 1000);
  link.push(kStart, Transit{.raw = frame_of(1000)});
  link.push(kStart, Transit{.raw = frame_of(1001)});
  EXPECT_EQ(arrivals(flight).size(), 1u);
}

TEST(SimLink, DuplicatesAndReorders) {
  Flight flight;
  auto doubled = std::make_unique<Duplicate>(wire(flight), Window{}, 1, 1000, Duration::us(100));
  Reorder link(std::move(doubled), Window{}, 2, 500, Duration::us(100));
  for (uint8_t i = 0; i < 100; ++i) {
    link.push(kStart + Duration::us(i), Transit{.raw = frame_of(1, i)});
  }
  const auto frames = arrivals(flight);
  ASSERT_EQ(frames.size(), 200u);
  EXPECT_FALSE(std::is_sorted(frames.begin(), frames.end(), [](const Arrival& a, const Arrival& b) { return a.raw < b.raw; }));
}

TEST(SimLink, ClogLetsEverythingGoAtOnce) {
  Flight flight;
  const Instant end = kStart + Duration::ms(1);
  Clog link(wire(flight), Window{kStart, end}, 1);
  link.push(kStart, Transit{.raw = frame_of(1, 1)});
  link.push(kStart + Duration::us(700), Transit{.raw = frame_of(1, 2)});
  const auto frames = arrivals(flight);
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].at, end + kWireDelay);
  EXPECT_EQ(frames[1].at, end + kWireDelay);
  EXPECT_EQ(frames[0].raw[0], 1);
}

TEST(SimLink, BottleneckTakesItsTimeAndHasABoundedQueue) {
  Flight flight;
  Bottleneck link(wire(flight), Window{}, 1, {.bits_per_second = 1'000'000'000, .queue_bytes = 2500});
  for (uint8_t i = 0; i < 4; ++i) {
    link.push(kStart, Transit{.raw = frame_of(1000, i)});
  }
  const auto frames = arrivals(flight);
  ASSERT_EQ(frames.size(), 2u);  // 8 us each; the queue holds two and a half
  EXPECT_EQ(frames[0].at, kStart + Duration::us(8) + kWireDelay);
  EXPECT_EQ(frames[1].at, kStart + Duration::us(16) + kWireDelay);
}

TEST(SimLink, MarksOnlyWhatIsCapableOfEcn) {
  auto frame = frame_of(80, 0);
  EXPECT_FALSE(mark_congestion(frame));
  frame[12] = 0x86;
  frame[13] = 0xdd;
  EXPECT_FALSE(mark_congestion(frame));
  frame[15] = 0x20;  // ECT(0) in the traffic class
  EXPECT_TRUE(mark_congestion(frame));
  EXPECT_EQ(frame[15], 0x30);
}

TEST(SimLink, CorruptionOfWhatNoIcrcGuardsIsALoss) {
  Flight flight;
  Corrupt link(wire(flight), Window{}, 1, 1000);
  auto arp = frame_of(80, 0);
  arp[12] = 0x08;
  arp[13] = 0x06;
  link.push(kStart, Transit{.raw = arp});
  EXPECT_TRUE(flight.empty());
  auto udp = frame_of(80, 0);
  udp[12] = 0x08;
  udp[14 + 9] = 17;
  link.push(kStart, Transit{.raw = udp});
  const auto frames = arrivals(flight);
  ASSERT_EQ(frames.size(), 1u);
  uint32_t flipped = 0;
  for (size_t i = 0; i < udp.size(); ++i) {
    flipped += static_cast<uint32_t>(std::popcount(static_cast<uint8_t>(udp[i] ^ frames[0].raw[i])));
  }
  EXPECT_EQ(flipped, 1u);
}

std::vector<uint8_t> packet_of(wire::Opcode opcode, size_t payload_bytes) {
  return wire::test::build_frame(wire::test::v4_path(), opcode, payload_bytes);
}

TEST(SimLink, WithholdsPacketsOfOneKindForAWhileOrForGood) {
  for (const std::optional<Duration> by : {std::optional<Duration>(), std::optional(Duration::ms(1))}) {
    Flight flight;
    Withhold link(wire(flight), Window{}, wire::OpcodeKind::kAcknowledge, by);
    link.push(kStart, Transit{.raw = packet_of(wire::Opcode::kRcAcknowledge, 0)});
    link.push(kStart, Transit{.raw = packet_of(wire::Opcode::kRcSendOnly, 100)});
    const auto frames = arrivals(flight);
    ASSERT_EQ(frames.size(), by ? 2u : 1u);
    EXPECT_EQ(frames.front().at, kStart + kWireDelay);
    EXPECT_EQ(frames.back().at, kStart + kWireDelay + by.value_or(Duration()));
  }
}

TEST(SimLink, GarblesTheHeaderOfAMessageUnderARightIcrc) {
  Flight flight;
  Garble link(wire(flight), Window{}, 1, 1000);
  const auto whole = packet_of(wire::Opcode::kRcSendOnly, 200);
  const auto write = packet_of(wire::Opcode::kRcWriteOnly, 200);
  link.push(kStart, Transit{.raw = whole});
  link.push(kStart, Transit{.raw = write});
  const auto frames = arrivals(flight);
  ASSERT_EQ(frames.size(), 2u);
  const auto before = wire::PacketView::parse(whole);
  const auto after = wire::PacketView::parse(frames[0].raw);
  ASSERT_TRUE(before.ok() && after.ok());
  EXPECT_TRUE(wire::verify_icrc(*after));
  EXPECT_TRUE(std::ranges::equal(before->payload.first(4), after->payload.first(4)));  // the XID
  EXPECT_FALSE(std::ranges::equal(before->payload, after->payload));
  EXPECT_TRUE(std::ranges::equal(before->payload.subspan(52), after->payload.subspan(52)));  // behind the header
  EXPECT_EQ(frames[1].raw, write);
}

std::vector<uint8_t> packet_with(wire::Opcode opcode, uint32_t psn) {
  wire::Bth bth;
  bth.opcode = opcode;
  bth.destination = verbs::Qpn(0x11);
  bth.psn = wire::Psn(psn);
  const std::vector<uint8_t> payload(opcode == wire::Opcode::kRcAcknowledge ? 0 : 100);
  return wire::test::build_frame(wire::test::v4_path(), bth, {}, payload);
}

TEST(SimLink, AnswersOneReadAtATimeAndARepetitionNoLater) {
  Flight flight;
  Drip link(wire(flight), Window{}, Duration::ms(1));
  link.push(kStart, Transit{.raw = packet_with(wire::Opcode::kRcReadResponseFirst, 5)});
  link.push(kStart, Transit{.raw = packet_with(wire::Opcode::kRcReadResponseLast, 6)});
  link.push(kStart, Transit{.raw = packet_with(wire::Opcode::kRcReadResponseOnly, 7)});
  link.push(kStart, Transit{.raw = packet_with(wire::Opcode::kRcReadResponseOnly, 5)});
  link.push(kStart, Transit{.raw = packet_with(wire::Opcode::kRcAcknowledge, 8)});
  const auto frames = arrivals(flight);
  ASSERT_EQ(frames.size(), 5u);
  EXPECT_EQ(frames[0].at, kStart + kWireDelay);
  for (uint32_t i = 1; i < 4; ++i) {
    EXPECT_EQ(frames[i].at, kStart + kWireDelay + Duration::ms(1));
  }
  EXPECT_EQ(frames[4].at, kStart + kWireDelay + Duration::ms(2));
}

TEST(SimLink, LeavesOneSendOutForGood) {
  Flight flight;
  LeaveOut link(wire(flight), Window{});
  for (const uint32_t psn : {5u, 6u, 5u, 7u, 0x40'0000u, 0x40'0001u}) {
    link.push(kStart, Transit{.raw = packet_with(wire::Opcode::kRcSendOnly, psn)});
  }
  EXPECT_EQ(link.hits(), 3u);  // twice the first, and the first of the next connection
  EXPECT_EQ(arrivals(flight).size(), 3u);
}

TEST(SimLink, KeepsTheEndOfAConnectionFromTheGateway) {
  Flight flight;
  NoGoodbye link(wire(flight), Window{});
  wire::Bth bth;
  bth.opcode = wire::Opcode::kUdSendOnly;
  bth.destination = verbs::Qpn(1);
  for (const cm::MessageType type : {cm::MessageType::kReq, cm::MessageType::kDreq, cm::MessageType::kDrep}) {
    cm::Mad mad{};
    store_be16(mad.data() + 16, cm::attribute_id_of(type));
    link.push(kStart, Transit{.raw = wire::test::build_frame(wire::test::v4_path(), bth, {}, mad)});
  }
  EXPECT_EQ(link.hits(), 2u);
  EXPECT_EQ(arrivals(flight).size(), 1u);
}

TEST(SimLink, SaysWhatTheNetworkCopied) {
  Flight flight;
  Duplicate link(wire(flight), Window{}, 1, 1000, Duration::us(100));
  link.push(kStart, Transit{.sent_at = kStart, .raw = frame_of(60)});
  const auto frames = arrivals(flight);
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_NE(frames[0].copied, frames[1].copied);
  EXPECT_EQ(frames[0].sent_at, kStart);
}

// A call of the simulation as the program sees it.
Chain tagged_call(BufferPool& pool, uint32_t attempt, uint8_t last_byte) {
  uint8_t raw[kTaggedHeaderBytes + 4] = {};
  Ledger::write_tag(std::span<uint8_t, kTagBytes>(raw + kTagOffset, kTagBytes), attempt);
  raw[kTaggedHeaderBytes + 3] = last_byte;
  Chain chain;
  CW_ASSERT(chain.append_copy(pool, raw));
  return chain;
}

class SimLedger : public ::testing::Test {
 protected:
  uint32_t send() {
    const uint32_t attempt = ledger.begin();
    const Chain call = tagged_call(pool, attempt, 1);
    ledger.sent(attempt, rpcrdma::bench_checksum(call, 4, call.bytes() - 4));
    return attempt;
  }
  void execute(uint32_t attempt, uint8_t last_byte = 1) {
    ledger.executed(Ledger::look_at(tagged_call(pool, attempt, last_byte)));
  }
  void expect_failure(Oracle oracle) {
    ASSERT_EQ(verdict.failures().size(), 1u);
    EXPECT_EQ(verdict.failures()[0].oracle, oracle);
  }
  HeapBufferPool pool{8, 256, 8};
  Verdict verdict;
  Ledger ledger{verdict};
};

TEST_F(SimLedger, IsContentWithOneExecutionAndOneAnswer) {
  const uint32_t attempt = send();
  execute(attempt);
  ledger.ended(attempt, Outcome::kAnswered);
  ledger.check_end();
  EXPECT_TRUE(verdict.passed());
}
TEST_F(SimLedger, SeesASecondExecution) {
  const uint32_t attempt = send();
  execute(attempt);
  execute(attempt);
  expect_failure(Oracle::kExecutedOnce);
}
TEST_F(SimLedger, SeesAnAnswerWithoutExecution) {
  ledger.ended(send(), Outcome::kAnswered);
  expect_failure(Oracle::kExecutedOnce);
}
TEST_F(SimLedger, SeesASecondOutcome) {
  const uint32_t attempt = send();
  ledger.ended(attempt, Outcome::kLost);
  ledger.ended(attempt, Outcome::kTimeout);
  expect_failure(Oracle::kAnsweredOnce);
}
TEST_F(SimLedger, SeesAMissingOutcome) {
  (void)send();
  ledger.check_end();
  expect_failure(Oracle::kAnsweredOnce);
}
TEST_F(SimLedger, SeesOtherBytesThanWereSent) {
  execute(send(), 2);
  expect_failure(Oracle::kPayload);
}
TEST_F(SimLedger, SeesACallThatNobodySent) {
  (void)send();
  execute(17);
  expect_failure(Oracle::kPayload);
}

TEST(SimMemory, SeesWritesAroundAndAfter) {
  GuardedMemory memory;
  memory.resize(Area::kWrite, 100);
  memory.lay_out();
  const MutableBytes area = memory.of(Area::kWrite);
  std::fill(area.begin(), area.end(), uint8_t{9});
  EXPECT_TRUE(memory.guards_hold());
  area.data()[100] = 0;
  EXPECT_FALSE(memory.guards_hold());
  RetiredMemory retired;
  retired.retire(std::move(memory));
  EXPECT_TRUE(retired.is_untouched());
  area.data()[3] = 0;  // the bytes did not move
  EXPECT_FALSE(retired.is_untouched());
}

// Twelve connections to two servers, and memory for two long replies: the first server hangs in the middle of each of its
// replies, and those of the other come.
TEST(SimBackend, AServerThatHangsWithinItsRepliesLeavesMemoryToTheOther) {
  HeapBufferPool pool(40, 8192, 400);
  HeapBufferPool calls(16, 65536, 16);
  rpcrdma::BenchProgram bench;
  SimBackend backend(pool, bench, {.buffers = 40}, 2);
  backend.hung_backends = 1;
  const auto send = [&](Instant now, uint64_t link, uint32_t number) {
    gateway::BackendRequest request;
    request.kind = gateway::BackendRequest::Kind::kOpen;
    request.link = gateway::LinkId(link);
    request.backend = number;
    backend.on_request(now, std::move(request));
    request = {};
    request.kind = gateway::BackendRequest::Kind::kSend;
    request.link = gateway::LinkId(link);
    request.backend = number;
    CW_ASSERT(rpcrdma::build_bench_echo(calls, std::vector<uint8_t>(50'000, 7), rpcrdma::BenchData::kInStream, request.message));
    backend.on_request(now, std::move(request));
  };
  uint32_t replies[2] = {};
  uint32_t closed = 0;
  Instant now = kStart;
  for (uint64_t link = 1; link <= 6; ++link) {
    send(now, link, 0);
  }
  for (uint64_t link = 11; link <= 16; ++link) {
    send(now, link, 1);
  }
  gateway::BackendEvent event;
  while (!backend.next_at().is_never()) {
    now = std::max(now, backend.next_at());
    while (backend.poll(now, event)) {
      replies[event.backend] += event.kind == gateway::BackendEvent::Kind::kMessage ? 1 : 0;
      closed += event.kind == gateway::BackendEvent::Kind::kClosed ? 1 : 0;
      event = {};
      if (replies[1] == 6 && closed == 0) {
        EXPECT_LT(now, kStart + Duration::seconds(1));
      }
    }
  }
  EXPECT_EQ(replies[0], 0u);
  EXPECT_EQ(replies[1], 6u);
  EXPECT_EQ(closed, 6u);
  EXPECT_EQ(backend.replies_stalled(), 6u);
  EXPECT_GT(backend.replies_waited(), 0u);
}

// A CRC-32 would not: it cancels out against the one at the end of the packet.
TEST(SimRun, TheHashSeesWhatIsInAPacketWithItsOwnCrc) {
  TraceHash hashes[2];
  for (uint8_t i = 0; i < 2; ++i) {
    std::vector<uint8_t> packet = frame_of(100, i);
    const uint32_t crc = rpcrdma::bench_checksum(packet);
    packet.resize(104);
    store_le32(packet.data() + 100, crc);
    hashes[i].add(kStart, 0, packet);
  }
  EXPECT_NE(hashes[0].value(), hashes[1].value());
}

TEST(SimRun, RepeatsToTheByte) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const Scenario scenario = draw_scenario(seed);
    const RunResult first = run(scenario);
    const RunResult second = run(scenario);
    EXPECT_EQ(first.hash, second.hash) << seed;
    EXPECT_EQ(first.frames, second.frames) << seed;
    EXPECT_EQ(first.simulated, second.simulated) << seed;
  }
}

// The express paths (EndpointOptions::express, ServerShared::express) change nothing that arrives anywhere, nor when.
TEST(SimRun, WithoutTheExpressPathsIsTheSame) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Variant without;
    without.express = false;
    EXPECT_EQ(run(draw_scenario(seed)).hash, run(draw_scenario(seed, without)).hash) << seed;
  }
}

TEST(SimRun, SweepsAreTheSameOnAnyNumberOfThreads) {
  SweepProgress progress;
  const SweepReport one = sweep(100, 60, 1, progress);
  const SweepReport three = sweep(100, 60, 3, progress);
  EXPECT_EQ(one.hash, three.hash);
  EXPECT_EQ(one.frames, three.frames);
  const auto a = one.coverage.events();
  const auto b = three.coverage.events();
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].count, b[i].count) << a[i].name;
  }
}

// They send no gap reports, and what is held is held by the gateway, which waits for late packets before it says NAK.
TEST(SimRun, StandardPeersMeetWhatTheGatewayHasForThem) {
  Coverage coverage;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    Scenario scenario = draw_scenario(seed);
    for (ClientPlan& client : scenario.clients) {
      client.standard = true;
    }
    if (scenario.hostiles.empty()) {
      EXPECT_TRUE(run(scenario, &coverage).passed()) << seed;
    }
  }
  EXPECT_EQ(coverage.count_of("peer.causeway"), 0u);
  EXPECT_EQ(coverage.count_of("rc.gap_report_sent"), 0u);
  for (const char* event : {"rc.packet_held", "rc.send_behind_reads", "rc.packet_late", "rc.repetition_spurious"}) {
    EXPECT_GT(coverage.count_of(event), 0u) << event;
  }
}

bool has_failure(const std::vector<Failure>& failures, Oracle oracle) {
  return std::ranges::any_of(failures, [oracle](const Failure& failure) { return failure.oracle == oracle; });
}

// A standard client writes over a link that puts packets out of order within what the gateway has to reckon with.
Scenario disordered_writes() {
  Scenario scenario;
  scenario.phase_one = Duration::ms(400);
  scenario.link_delay = Duration::us(20);
  WorldOptions& hosts = scenario.hosts;
  hosts.small_tables = true;
  hosts.path_mtu = 1024;
  hosts.credits = 16;
  hosts.load.window = 8;
  ClientPlan& client = scenario.clients.emplace_back();
  client.standard = true;
  client.calls.resize(200, CallPlan{.procedure = rpcrdma::BenchProcedure::kSink, .bytes = 4096});
  Fault& fault = scenario.faults.emplace_back();
  fault.kind = FaultKind::kReorder;
  fault.until = scenario.phase_one;
  fault.amount = 500;
  fault.time = Duration::us(75);
  size_pools(scenario);
  return scenario;
}

// Without fences a SEND may overtake a READ request that was sent again.
TEST(SimOracle, BlameSpeaksWhenASendOvertakesARepeatedReadRequest) {
  Scenario scenario = disordered_writes();
  Coverage fenced;
  Coverage unfenced;
  uint32_t blamed = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    scenario.faults[0].seed = seed;
    scenario.hosts.recovery = EndpointOptions().recovery;
    EXPECT_TRUE(run(scenario, &fenced).passed()) << seed;
    scenario.hosts.recovery.holds_max = 0;
    blamed += has_failure(run(scenario, &unfenced).failures, Oracle::kBlame) ? 1 : 0;
  }
  EXPECT_GT(blamed, 2u);
  EXPECT_GT(fenced.count_of("rc.send_behind_reads"), 0u);
  EXPECT_EQ(fenced.count_of("rc.read_unfenced"), 0u);
  EXPECT_EQ(unfenced.count_of("rc.send_behind_reads"), 0u);
  EXPECT_GT(unfenced.count_of("rc.read_unfenced"), 0u);
}

// A client sends what no client of ours would: one call with a key that does not exist, one with a header that is none.
TEST(SimOracle, BlameSpeaksWhenAPeerFindsFault) {
  for (const bool malformed : {false, true}) {
    WorldOptions options;
    options.load.window = 1;
    World world(options);
    world.start();
    ASSERT_TRUE(world.run_calls(10));
    const uint32_t words[] = {7, 1, 8, 0, 1, 44, 0x0bad'0bad, 64, 0, 0, 0, 0, 0, 7, 0, 2, rpcrdma::kBenchProgram,
                              1, 1, 0, 0, 0, 0,  64};
    std::vector<uint8_t> raw(sizeof(words));
    for (size_t i = 0; i < std::size(words); ++i) {
      store_be32(raw.data() + 4 * i, words[i]);
    }
    raw.resize(malformed ? 24 : raw.size());
    Chain message;
    ASSERT_TRUE(message.append_copy(world.peer->packets, raw));
    ASSERT_TRUE(world.peer->client.queue_pair(client::ClientId(0))->post_send({.payload = std::move(message)}).ok());
    world.run_for(Duration::ms(10));
    Verdict client;
    check_end(*world.peer, false, client);
    EXPECT_EQ(has_failure(client.failures(), Oracle::kBlame), !malformed);
    Verdict gave_up;
    check_end(*world.peer, true, gave_up);
    EXPECT_FALSE(has_failure(gave_up.failures(), Oracle::kBlame));
    Verdict gateway;
    Verdict hostile;
    GatewayWatch(gateway).check_end(*world.server, false, true);
    GatewayWatch(hostile).check_end(*world.server, false, false);
    EXPECT_EQ(has_failure(gateway.failures(), Oracle::kBlame), malformed);
    EXPECT_FALSE(has_failure(hostile.failures(), Oracle::kBlame));
  }
}

TEST(SimRun, SweepsMeetPacketsThatThereIsNoRoomToHold) {
  SweepProgress progress;
  const SweepReport report = sweep(1, 100, 1, progress);
  EXPECT_TRUE(report.failures.empty());
  EXPECT_GT(report.coverage.count_of("rc.hold_refused"), 0u);
}

TEST(SimRun, OtherFaultsLeaveTheDrawsOfAFaultAlone) {
  const Scenario scenario = draw_scenario(7);
  ASSERT_GE(scenario.faults.size(), 2u);
  const Scenario one = keep(scenario, {{1, 0}});
  ASSERT_EQ(one.faults.size(), 1u);
  EXPECT_EQ(one.faults[0].seed, scenario.faults[1].seed);
  EXPECT_EQ(run(one).hash, run(one).hash);
}

TEST(SimShrinker, FindsTheTwoFaultsThatMatterAndShortensThem) {
  Scenario scenario;
  for (uint32_t i = 0; i < 11; ++i) {
    Fault& fault = scenario.faults.emplace_back();
    fault.client = i;
    fault.until = Duration::ms(16);
  }
  const Shrunk shrunk = shrink(scenario, [](const Scenario& candidate) {
    bool third = false;
    bool eighth = false;
    for (const Fault& fault : candidate.faults) {
      third = third || (fault.client == 3 && fault.until >= Duration::ms(4));
      eighth = eighth || fault.client == 8;
    }
    return third && eighth;
  });
  EXPECT_EQ(to_string(shrunk.kept), "3/4,8/1024");
  EXPECT_LE(shrunk.runs, 200u);
}

TEST(SimShrinker, ReadsWhatItWrites) {
  std::vector<KeptFault> kept;
  ASSERT_TRUE(parse_kept("3,5/4,12", kept));
  EXPECT_EQ(to_string(kept), "3,5/4,12");
  ASSERT_TRUE(parse_kept("none", kept));
  EXPECT_TRUE(kept.empty());
  for (const char* bad : {"", ",", "3,", "x", "3/", "3 4", "3/4096"}) {
    EXPECT_FALSE(parse_kept(bad, kept)) << bad;
  }
}

TEST(SimIsolation, SpeaksWhenAClientLosesAFifthOfItsRate) {
  Scenario scenario;
  scenario.phase_one = Duration::seconds(1);
  const std::vector<Service> alone = {{.answered = 1000}, {.answered = 1000}};
  Verdict content;
  judge_isolation(scenario, alone, {{.answered = 800}, {.answered = 2000}}, content);
  EXPECT_TRUE(content.passed());
  Verdict verdict;
  judge_isolation(scenario, alone, {{.answered = 2000}, {.answered = 799}}, verdict);
  ASSERT_EQ(verdict.failures().size(), 1u);
  EXPECT_EQ(verdict.failures()[0].oracle, Oracle::kIsolation);
}

TEST(SimIsolation, SpeaksWhenAClientWaitsBeyondTheBound) {
  Scenario scenario;
  scenario.phase_one = Duration::seconds(1);
  const std::vector<Service> alone = {{.answered = 1000, .longest_wait = Duration::ms(5)}};
  Verdict content;
  judge_isolation(scenario, alone, {{.answered = 1000, .longest_wait = Duration::ms(5) + kWaitMax}}, content);
  EXPECT_TRUE(content.passed());
  Verdict verdict;
  judge_isolation(scenario, alone, {{.answered = 1000, .longest_wait = Duration::ms(6) + kWaitMax}}, verdict);
  ASSERT_EQ(verdict.failures().size(), 1u);
  EXPECT_EQ(verdict.failures()[0].oracle, Oracle::kIsolation);
}

// Where the sick backend is the honest clients' own, nobody can keep them from waiting.
TEST(SimIsolation, SeesInARunThatHonestClientsWait) {
  Scenario scenario = isolation_of(HostileKind::kBackendSlow);
  scenario.hosts.load.service_port = GatewayHost::kPort + 1;
  EXPECT_TRUE(run(honest_part(scenario)).passed());
  const RunResult result = run(scenario);
  EXPECT_TRUE(std::ranges::any_of(result.failures, [](const Failure& f) { return f.oracle == Oracle::kIsolation; }));
}

TEST(SimIsolation, HonestClientsAreTheSameBesideAHostileThatDoesNothing) {
  Scenario scenario = isolation_of(HostileKind::kForgedCnps);
  scenario.hostiles[0].turns = scenario.phase_one;
  const RunResult alone = run(honest_part(scenario));
  const RunResult beside = run(scenario);
  EXPECT_TRUE(beside.passed());
  ASSERT_EQ(alone.services.size(), beside.services.size());
  for (size_t i = 0; i < alone.services.size(); ++i) {
    EXPECT_GT(alone.services[i].answered, 1000u);
    EXPECT_EQ(alone.services[i].answered, beside.services[i].answered);
    EXPECT_EQ(alone.services[i].longest_wait, beside.services[i].longest_wait);
  }
}

TEST(SimIsolation, ReadsTheNamesOfKindsThatItWrites) {
  for (uint32_t kind = 0; kind < kHostileKindCount; ++kind) {
    EXPECT_EQ(parse_hostile_kind(to_string(static_cast<HostileKind>(kind))), static_cast<HostileKind>(kind));
  }
  EXPECT_FALSE(parse_hostile_kind("unknown"));
}

TEST(SimBoundary, ReadsWhatItWrites) {
  const BoundaryPoint point{.backend = gateway::BackendKind::kBuiltin, .kind = FaultKind::kKillClient, .at = 17};
  const auto scenario = parse_boundary(point.name());
  ASSERT_TRUE(scenario);
  EXPECT_EQ(scenario->faults[0].at_frame, 17u);
  EXPECT_EQ(scenario->faults[0].kind, FaultKind::kKillClient);
  const BoundaryPoint byte{
      .wires = Wires::kIwarp, .kind = FaultKind::kStreamHalfClose, .direction = Direction::kToClient, .at = 99};
  const auto of_stream = parse_boundary(byte.name());
  ASSERT_TRUE(of_stream);
  EXPECT_EQ(of_stream->wires, Wires::kIwarp);
  EXPECT_EQ(of_stream->faults[0].at_frame, 99u);
  EXPECT_EQ(of_stream->faults[0].direction, Direction::kToClient);
  EXPECT_FALSE(parse_boundary("tcp:stream_reset:to_client:1"));
  EXPECT_FALSE(parse_boundary("tcp:nothing:1"));
  EXPECT_FALSE(parse_boundary("tcp:kill_client:1x"));
}

}  // namespace
}  // namespace cw::sim
