// Scripts of faults: they say what they mean, each event costs what it has to and no more, and the counters agree with the wire.
//
// Bounds are in round trips of the link, 50 us. What makes them up:
//   2    A gap shows with the next packet, half a round trip after it left. The NAK or the repeated READ request takes another
//        half, and so does the repetition. Patience with what may only be late is a fourth, the queue of a full window a fifth.
//   6.5  Behind the last packet nothing shows a gap. The last news comes within one. A probe follows 4 later (retransmit.h: at
//        least 200 us), or half of one more because of the timer. It has to be answered, which takes one.
//   7.25 For half of one a peer that slept may go on acknowledging SENDs and WRITEs (suspected_loss.h). The rest is the timer's.
#include "apps/sim/script_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "apps/sim/link/wire.h"
#include "apps/sim/rc_pair.h"
#include "rocev2/rc/dcqcn.h"

namespace cw::sim {
namespace {

constexpr double kGapRoundTrips = 2.0;
constexpr double kTailRoundTrips = 6.5;
constexpr double kDataTailRoundTrips = 7.25;
constexpr double kReadToWrite = 1.25;  // recovery of a READ against that of a WRITE
constexpr uint32_t kWindow = 128;      // RcOptions::send_window_packets as it comes

enum class Spot : uint8_t { kFirst, kMiddle, kLast, kTail };  // of a message in the middle of the work; of all
constexpr Spot kSpots[] = {Spot::kFirst, Spot::kMiddle, Spot::kLast, Spot::kTail};
constexpr const char* kSpotNames[] = {"first", "middle", "last", "tail"};
constexpr StreamKind kWorks[] = {StreamKind::kSend, StreamKind::kWrite, StreamKind::kRead};
constexpr PeerKind kPeers[] = {PeerKind::kStandard, PeerKind::kCauseway};

struct PacketFault {
  ScriptAction action;
  uint32_t behind = 0;
};
constexpr PacketFault kFaults[] = {{ScriptAction::kDrop}, {ScriptAction::kDuplicate}, {ScriptAction::kCorrupt},
                                   {ScriptAction::kMark}, {ScriptAction::kBehind, 3}, {ScriptAction::kBehind, 64}};

struct MatrixCase {
  StreamKind work;
  PeerKind peer;
  Spot spot;
  PacketFault fault;
};

bool is_data(const MatrixCase& one) {
  return one.work != StreamKind::kRead;
}
bool loses(const MatrixCase& one) {
  return one.fault.action == ScriptAction::kDrop || one.fault.action == ScriptAction::kCorrupt;
}
bool loses_tail(const MatrixCase& one) {
  return is_data(one) && one.spot == Spot::kTail && loses(one);
}

std::vector<MatrixCase> matrix() {
  std::vector<MatrixCase> cases;
  for (const StreamKind work : kWorks) {
    for (const PeerKind peer : kPeers) {
      for (const Spot spot : kSpots) {
        for (const PacketFault& fault : kFaults) {
          cases.push_back({work, peer, spot, fault});
        }
      }
    }
  }
  return cases;
}

ScriptWork work_of(const MatrixCase& one) {
  return {.work = one.work, .peer = one.peer};
}

uint32_t psn_of(const ScriptWork& work, Spot spot) {
  constexpr uint32_t kMessage = 8;
  switch (spot) {
    case Spot::kFirst:
      return work.psn_of(kMessage, 0);
    case Spot::kMiddle:
      return work.psn_of(kMessage, work.message_packets() / 2);
    case Spot::kLast:
      return work.psn_of(kMessage, work.message_packets() - 1);
    case Spot::kTail:
      break;
  }
  return work.psn_of(work.messages - 1, work.message_packets() - 1);
}

// An event for a packet that carries data.
ScriptEvent event_at(const ScriptWork& work, uint32_t psn, const PacketFault& fault) {
  const bool reads = work.work == StreamKind::kRead;
  return {.direction = reads ? PacketDirection::kIn : PacketDirection::kOut,
          .packet = reads ? PacketClass::kResponse : PacketClass::kRequest,
          .psn = psn,
          .action = fault.action,
          .behind = fault.behind};
}
ScriptEvent event_of(const MatrixCase& one) {
  const ScriptWork work = work_of(one);
  return event_at(work, psn_of(work, one.spot), one.fault);
}

std::string name_of(const MatrixCase& one) {
  return std::string("causeway-sim --work ") + to_string(one.work) + " --peer " + to_string(one.peer) + " --script '" +
         to_string(event_of(one)) + "' (" + kSpotNames[static_cast<size_t>(one.spot)] + ")";
}

double round_trips(Duration duration) {
  return duration.to_seconds() / (ScriptWork::kOneWay * 2).to_seconds();
}

// A run is the same each time: several tests look at one.
const ScriptOutcome& outcome_of(const MatrixCase& one) {
  static std::map<std::string, ScriptOutcome> outcomes;
  const auto [found, is_new] = outcomes.try_emplace(name_of(one));
  if (is_new) {
    found->second = run_script(work_of(one), {event_of(one)});
  }
  return found->second;
}

void expect_honest_counters(const ScriptOutcome& outcome) {
  for (const CounterRow& row : compare_counters(outcome)) {
    EXPECT_EQ(row.counted, row.on_wire) << row.name << " of node " << row.node;
  }
}

TEST(Script, ATextSaysTheSameAsItsEvents) {
  std::string error;
  const auto script =
      parse_script("qp 0 out psn +5 #1 drop; qp 1 in response +7 behind 64;qp 2 out request +16777215 #3 mark; ", error);
  ASSERT_TRUE(script.has_value()) << error;
  EXPECT_EQ(*script,
            (FaultScript{
                {.psn = 5},
                {.qp = 1,
                 .direction = PacketDirection::kIn,
                 .packet = PacketClass::kResponse,
                 .psn = 7,
                 .action = ScriptAction::kBehind,
                 .behind = 64},
                {.qp = 2, .packet = PacketClass::kRequest, .psn = 0xff'ffff, .transmission = 3, .action = ScriptAction::kMark}}));
  EXPECT_EQ(to_string(*script), "qp 0 out psn +5 #1 drop; qp 1 in response +7 #1 behind 64; qp 2 out request +16777215 #3 mark");
  EXPECT_EQ(parse_script(to_string(*script), error), script);
  EXPECT_EQ(parse_script("", error), FaultScript{});
}

TEST(Script, WhatIsWrongWithATextIsSaid) {
  const auto error_of = [](const char* text) {
    std::string error;
    EXPECT_FALSE(parse_script(text, error).has_value()) << text;
    return error;
  };
  EXPECT_EQ(error_of("0 out psn +5 drop"), "event 1: expected qp, not '0'");
  EXPECT_EQ(error_of("qp 0 out psn +5 drop; qp 0 up psn +5 drop"), "event 2: expected out or in, not 'up'");
  EXPECT_EQ(error_of("qp x out psn +5 drop"), "event 1: expected the index of a connection (0 to 16777215), not 'x'");
  EXPECT_EQ(error_of("qp 0 out nak +5 drop"), "event 1: expected psn, request, response or ack, not 'nak'");
  EXPECT_EQ(error_of("qp 0 out psn 5 drop"), "event 1: expected + and a relative PSN (0 to 16777215), not '5'");
  EXPECT_EQ(error_of("qp 0 out psn +16777216 drop"), "event 1: expected + and a relative PSN (0 to 16777215), not '+16777216'");
  EXPECT_EQ(error_of("qp 0 out psn +5 #0 drop"), "event 1: expected # and which transmission (1 to 16777215), not '#0'");
  EXPECT_EQ(error_of("qp 0 out psn +5 lose"), "event 1: expected drop, duplicate, corrupt, mark or behind, not 'lose'");
  EXPECT_EQ(error_of("qp 0 out psn +5 behind"), "event 1: expected how many packets go past (1 to 16777215), and it ends");
  EXPECT_EQ(error_of("qp 0 out psn +5 drop twice"), "event 1: expected the end of the event, not 'twice'");
}

TEST(Script, AnEventHappensOnceAndToItsPacketOnly) {
  const ScriptWork work{.qps = 2};
  const ScriptOutcome outcome = run_script(work, {{.qp = 1, .psn = 70},
                                                  {.qp = 1, .psn = 70, .transmission = 2},
                                                  {.qp = 0, .psn = 5000},
                                                  {.qp = 0, .psn = 70, .transmission = 2}});
  EXPECT_TRUE(passed(outcome)) << describe(work, {}, outcome);
  EXPECT_TRUE(outcome.events[0].fired && outcome.events[1].fired);
  EXPECT_FALSE(outcome.events[2].fired || outcome.events[3].fired);
  EXPECT_GT(outcome.events[1].at, outcome.events[0].at);
  EXPECT_EQ(outcome.qps[1].transmissions_max, 3u);
  EXPECT_EQ(outcome.qps[0].transmissions_max, 1u);
  EXPECT_EQ(outcome.wire[1].packets_arrived + 2, outcome.wire[0].packets_sent);
}

// Alone in its direction.
TEST(Script, APacketThatNothingGoesPastComesNevertheless) {
  const ScriptWork work{.message_bytes = 100, .messages = 5};
  const ScriptOutcome outcome = run_script(work, {{.psn = 4, .action = ScriptAction::kBehind, .behind = 1000}});
  EXPECT_TRUE(passed(outcome));
  ASSERT_TRUE(outcome.events[0].recovered_after.has_value());
  EXPECT_GE(*outcome.events[0].recovered_after, ScriptedFaults::kBehindAtMost + ScriptWork::kOneWay);
  EXPECT_LE(*outcome.events[0].recovered_after, ScriptedFaults::kBehindAtMost + ScriptWork::kOneWay + Duration::us(1));
}

TEST(Script, APacketThatIsHeldComesBehindAsManyAsTheScriptSays) {
  Flight flight;
  const auto frame_of = [](uint32_t psn) {
    wire::Bth bth;
    bth.opcode = wire::Opcode::kRcSendOnly;
    bth.destination = verbs::Qpn(0x11);
    bth.psn = wire::Psn(0xff'fffe).plus(psn);
    HeapBufferPool pool(1, 9216, 0);
    wire::TxBatch batch(pool);
    wire::TxPacket& packet = *batch.add();
    wire::build_packet(packet, wire::PathHeader(RcPair::path(0)), 1, bth, wire::Extensions{}, Bytes{});
    return packet.raw();
  };
  ScriptedFaults link(std::make_unique<Wire>(flight, Duration::us(5)),
                      {{.psn = 3, .action = ScriptAction::kBehind, .behind = 2}, {.psn = 4, .action = ScriptAction::kDrop}},
                      {{.qpn = {verbs::Qpn(0x10), verbs::Qpn(0x11)}, .first_psn = {wire::Psn(0xff'fffe), wire::Psn(0)}}});
  for (uint32_t psn = 2; psn < 8; ++psn) {
    link.push(Instant(), Transit{.from = 0, .to = 1, .raw = frame_of(psn)});
  }
  std::vector<uint32_t> order;
  Arrival arrival;
  while (link.poll(Instant::from_ns(5'000), arrival)) {
    order.push_back(wire::PacketView::parse(arrival.raw)->bth.psn.minus(0xff'fffe).value());
  }
  EXPECT_EQ(order, (std::vector<uint32_t>{2, 5, 6, 3, 7}));  // what is lost goes past nothing
  EXPECT_EQ(link.firings().size(), 2u);
}

TEST(ScriptMatrix, EveryWorkEndsWholeInOrderAndOnce) {
  for (const MatrixCase& one : matrix()) {
    SCOPED_TRACE(name_of(one));
    const ScriptOutcome& outcome = outcome_of(one);
    EXPECT_TRUE(outcome.finished);
    EXPECT_EQ(outcome.violations, std::vector<std::string>{});
    EXPECT_EQ(outcome.buffers_left, 0u);
    EXPECT_TRUE(outcome.events[0].fired);
    EXPECT_EQ(outcome.stats[0].ack_timeouts, 0u);
  }
}

TEST(ScriptMatrix, CountersAgreeWithTheWire) {
  for (const MatrixCase& one : matrix()) {
    SCOPED_TRACE(name_of(one));
    const ScriptOutcome& outcome = outcome_of(one);
    expect_honest_counters(outcome);
    const bool corrupts = one.fault.action == ScriptAction::kCorrupt;
    EXPECT_EQ(outcome.damaged[0] + outcome.damaged[1], corrupts ? 1u : 0u);
    // Who hears a NAK or an acknowledgement counts no more than arrived: some tell nothing new.
    for (uint32_t i = 0; i < 2; ++i) {
      EXPECT_LE(outcome.stats[i].naks_received[0], outcome.wire[i].sequence_naks_arrived);
      EXPECT_LE(outcome.stats[i].acks_received, outcome.wire[i].acks_arrived);
    }
  }
}

TEST(ScriptMatrix, RecoveryTakesABoundedNumberOfRoundTrips) {
  for (const StreamKind work : kWorks) {
    for (const PeerKind peer : kPeers) {
      const ScriptOutcome clean = run_script({.work = work, .peer = peer}, {});
      for (const MatrixCase& one : matrix()) {
        if (one.work != work || one.peer != peer || one.fault.action == ScriptAction::kMark) {
          continue;
        }
        SCOPED_TRACE(name_of(one));
        const ScriptOutcome& outcome = outcome_of(one);
        const double tail = is_data(one) ? kDataTailRoundTrips : kTailRoundTrips;
        const double bound = one.spot == Spot::kTail ? tail : kGapRoundTrips;
        EXPECT_TRUE(outcome.events[0].recovered_after.has_value());
        EXPECT_LE(round_trips(outcome.events[0].recovered_after.value_or(Duration::seconds(1))), bound);
        EXPECT_LE(round_trips(outcome.time - clean.time), bound);
      }
    }
  }
}

TEST(ScriptMatrix, AReadRecoversAsFastAsAWrite) {
  for (MatrixCase one : matrix()) {
    if (one.work != StreamKind::kRead || !loses(one)) {
      continue;
    }
    SCOPED_TRACE(name_of(one));
    const Duration read = outcome_of(one).events[0].recovered_after.value_or(Duration::seconds(1));
    one.work = StreamKind::kWrite;
    const Duration write = outcome_of(one).events[0].recovered_after.value_or(Duration());
    EXPECT_LE(read.to_seconds(), kReadToWrite * write.to_seconds());
  }
}

// To a standard peer, go-back-N: everything from the lost packet on, as far as it had been sent, once for each gap (IBA 9.7.5.1.1
// to 9.7.5.1.3), and of a READ the rest of the request. To a Causeway peer what was lost.
TEST(ScriptMatrix, NoMoreIsRepeatedThanTheRecoveryHasTo) {
  for (const MatrixCase& one : matrix()) {
    SCOPED_TRACE(name_of(one));
    const ScriptWork work = work_of(one);
    const ScriptOutcome& outcome = outcome_of(one);
    const uint64_t repeated = outcome.packets_repeated();
    EXPECT_EQ(repeated, outcome.events[0].packets_repeated);
    const bool disturbs = loses(one) || one.fault.action == ScriptAction::kBehind;
    if (!disturbs) {
      EXPECT_EQ(repeated, 0u);
      EXPECT_EQ(outcome.stats[0].tail_probes, 0u);
      continue;
    }
    const uint32_t psn = psn_of(work, one.spot);
    const uint32_t rest = work.message_packets() - psn % work.message_packets();
    const bool standard = one.peer == PeerKind::kStandard;
    // Behind the last packet nothing shows a gap: the probe, which repeats the oldest that is not acknowledged, does.
    const bool probed = loses_tail(one);
    const uint64_t lost = probed ? 2 : standard ? kWindow : 1;
    EXPECT_LE(repeated, is_data(one) ? lost : 1 + (standard ? rest : 1));
    EXPECT_LE(outcome.qps[0].transmissions_max, 2u);
    if (!probed) {
      EXPECT_GE(outcome.qps[0].first_repeated.value_or(psn), psn);
    }
    EXPECT_GE(repeated, loses(one) ? 1u : 0u);
  }
}

// What carries no data can be lost too. Its loss costs at most what the loss of a last packet does. A probe for a READ of which
// nothing has come waits 20 us for each response (kReadProbePerResponse).
TEST(ScriptMatrix, LostRequestsAcknowledgementsAndNaksAreMadeUpFor) {
  const auto expect_recovery = [](const ScriptWork& work, const FaultScript& script, double bound) {
    const ScriptOutcome outcome = run_script(work, script);
    SCOPED_TRACE(describe(work, script, outcome));
    EXPECT_TRUE(passed(outcome));
    for (const EventOutcome& event : outcome.events) {
      ASSERT_TRUE(event.fired && event.recovered_after.has_value());
      EXPECT_LE(round_trips(*event.recovered_after), bound);
    }
  };
  for (const PeerKind peer : kPeers) {
    const ScriptWork reads{.work = StreamKind::kRead, .peer = peer};
    expect_recovery(reads, {{.packet = PacketClass::kRequest, .psn = psn_of(reads, Spot::kFirst)}}, kTailRoundTrips);
    expect_recovery(reads, {{.packet = PacketClass::kRequest, .psn = reads.psn_of(reads.messages - 1, 0)}},
                    kTailRoundTrips + round_trips(Duration::us(20) * reads.message_packets()));
    for (const StreamKind kind : {StreamKind::kSend, StreamKind::kWrite}) {
      const ScriptWork work{.work = kind, .peer = peer};
      const ScriptEvent acknowledgement{.direction = PacketDirection::kIn, .packet = PacketClass::kAcknowledgement};
      ScriptEvent last = acknowledgement;
      last.psn = psn_of(work, Spot::kTail);
      expect_recovery(work, {last}, kTailRoundTrips);
      ScriptEvent nak = acknowledgement;
      nak.psn = psn_of(work, Spot::kFirst);
      expect_recovery(work, {{.packet = PacketClass::kRequest, .psn = nak.psn}, nak}, kTailRoundTrips);
    }
  }
}

// Packets that are late and not lost. Where both ends can keep what overtakes, the first that is late costs at most a repetition
// each; when they have seen some, all together cost at most one. A standard peer drops what overtakes a SEND or WRITE: nothing
// can be learnt there.
TEST(ScriptMatrix, ReorderingIsLearnt) {
  for (const StreamKind kind : kWorks) {
    for (const PeerKind peer : kPeers) {
      for (const uint32_t behind : {3u, 64u}) {
        const ScriptWork work{.work = kind, .peer = peer, .messages = 340};
        if (peer == PeerKind::kStandard && kind != StreamKind::kRead) {
          continue;
        }
        FaultScript script;
        for (uint32_t i = 0; i < 8; ++i) {
          script.push_back(event_at(work, work.psn_of(20 + 40 * i, 3), {ScriptAction::kBehind, behind}));
        }
        const ScriptOutcome outcome = run_script(work, script);
        SCOPED_TRACE(describe(work, script, outcome));
        EXPECT_TRUE(passed(outcome));
        EXPECT_LE(outcome.qps[0].transmissions_max, 2u);
        uint32_t before = 0;
        uint32_t after = 0;
        for (uint32_t i = 0; i < 8; ++i) {
          (i < 4 ? before : after) += outcome.events[i].packets_repeated;
        }
        const uint32_t repetition = kind != StreamKind::kRead ? 1 : peer == PeerKind::kStandard ? 1 + 5 : 1 + 1;
        EXPECT_LE(before, 4 * repetition);
        EXPECT_LE(after, repetition);
      }
    }
  }
}

TEST(ScriptMatrix, AMarkBringsOneNotificationAndTheRateDown) {
  for (const MatrixCase& one : matrix()) {
    if (one.fault.action != ScriptAction::kMark) {
      continue;
    }
    SCOPED_TRACE(name_of(one));
    const ScriptOutcome& outcome = outcome_of(one);
    EXPECT_EQ(outcome.cnps.size(), 1u);
    EXPECT_EQ(outcome.stats[0].ecn_marked + outcome.stats[1].ecn_marked, 1u);
    EXPECT_EQ(outcome.stats[is_data(one) ? 0 : 1].rate_cuts, 1u);  // who sends the data
    EXPECT_GT(outcome.qps[0].lowest_rate, 0u);
  }
}

TEST(ScriptMatrix, NotificationsArePaced) {
  for (const StreamKind kind : kWorks) {
    SCOPED_TRACE(to_string(kind));
    const ScriptWork work{.work = kind, .messages = 80};
    FaultScript script;
    for (uint32_t psn = 100; psn < 500; ++psn) {
      script.push_back(event_at(work, psn, {ScriptAction::kMark}));
    }
    const ScriptOutcome outcome = run_script(work, script);
    const ScriptOutcome clean = run_script(work, {});
    EXPECT_TRUE(passed(outcome));
    EXPECT_EQ(outcome.packets_repeated(), 0u);
    ASSERT_GE(outcome.cnps.size(), 2u);
    for (size_t i = 1; i < outcome.cnps.size(); ++i) {
      EXPECT_GE(outcome.cnps[i] - outcome.cnps[i - 1], rc::Dcqcn::kCutInterval);
    }
    // Half of what the window allows, at the first cut.
    const double window_rate = kWindow * (work.mtu_bytes + 100) / (ScriptWork::kOneWay * 2).to_seconds();
    EXPECT_LE(static_cast<double>(outcome.qps[0].lowest_rate), window_rate / 2);
    EXPECT_GT(outcome.time, clean.time);
  }
}

// Time that packets take on the line.
double line_seconds(const ScriptWork& work, uint64_t packets) {
  constexpr uint64_t kHeaderBytesMax = 100;
  return static_cast<double>(packets * (work.mtu_bytes + kHeaderBytesMax) * 8) / static_cast<double>(ScriptWork::kBitsPerSecond);
}

// Beside a queue pair that suffers, another of the same endpoint and on the same link has the time that it has beside one that
// does not, give or take 2 % and the line time of what is repeated; and the time that it has alone, but for the line time of all
// that the other sends.
TEST(ScriptMatrix, AnInnocentQueuePairIsNotSlowed) {
  constexpr double kTolerance = 1.02;
  for (const StreamKind kind : kWorks) {
    for (const PeerKind peer : kPeers) {
      const ScriptWork two{.work = kind, .peer = peer, .qps = 2};
      const double alone = run_script({.work = kind, .peer = peer}, {}).time.to_seconds();
      const double beside = run_script(two, {}).qps[1].time.to_seconds();
      for (const MatrixCase& one : matrix()) {
        const bool is_chosen = one.spot == Spot::kFirst || one.spot == Spot::kTail;
        if (one.work != kind || one.peer != peer || !is_chosen || one.fault.behind == 3) {
          continue;
        }
        SCOPED_TRACE(name_of(one) + " --qps 2");
        const ScriptOutcome outcome = run_script(two, {event_of(one)});
        EXPECT_TRUE(passed(outcome));
        const double time = outcome.qps[1].time.to_seconds();
        const uint64_t repeated = outcome.packets_repeated();
        const uint64_t neighbour = uint64_t{two.messages} * two.message_packets() + repeated;
        EXPECT_LE(time, beside * kTolerance + line_seconds(two, repeated));
        EXPECT_LE(time, alone * kTolerance + line_seconds(two, neighbour));
        EXPECT_EQ(outcome.qps[1].transmissions_max, 1u);
        EXPECT_EQ(outcome.qps[1].lowest_rate, 0u);
      }
    }
  }
}

TEST(ScriptMatrix, OtherSizesMtusAndNumbersOfQueuePairs) {
  for (const StreamKind kind : kWorks) {
    for (const PeerKind peer : kPeers) {
      for (const uint32_t mtu : {256u, 4096u}) {
        for (const uint32_t bytes : {1u, 4097u, 65'536u}) {
          const ScriptWork work{.work = kind, .peer = peer, .message_bytes = bytes, .mtu_bytes = mtu, .qps = 3, .messages = 8};
          FaultScript script;
          for (const ScriptAction action : {ScriptAction::kDrop, ScriptAction::kDuplicate, ScriptAction::kCorrupt}) {
            script.push_back(event_at(work, work.psn_of(5, 0), {action}));
            script.back().qp = static_cast<uint32_t>(script.size()) - 1;
          }
          const ScriptOutcome outcome = run_script(work, script);
          EXPECT_TRUE(passed(outcome)) << describe(work, script, outcome);
          EXPECT_TRUE(outcome.events[0].fired && outcome.events[1].fired && outcome.events[2].fired);
          EXPECT_EQ(outcome.stats[0].ack_timeouts, 0u);
        }
      }
    }
  }
}

}  // namespace
}  // namespace cw::sim
