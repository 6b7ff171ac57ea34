// Selective recovery between two Causeway peers: what the responder keeps and reports, what the requester makes of a report.
#include <gtest/gtest.h>

#include "rocev2/rc/held_packets.h"
#include "rocev2/rc/responder_hold.h"
#include "rocev2/rc/scoreboard.h"
#include "rocev2/wire/gap_report.h"
#include "tests/unit/rc/lone_qp.h"

namespace cw::rc::test {
namespace {

using wire::GapReport;

constexpr Opcode kReport = Opcode::kRcGapReport;

LoneQpOptions selective() {
  LoneQpOptions options;
  options.connect.path_mtu_bytes = 256;
  options.connect.peer_hold_packets = 512;
  return options;
}

Sent gap_report(uint32_t psn, uint32_t msn, size_t bytes = 8) {
  return Sent{kReport, psn, false, bytes, 0x60, msn};
}

void receive_report(LoneQp& lone, uint32_t missing, std::initializer_list<uint32_t> held) {
  GapReport report;
  for (const uint32_t psn : held) {
    report.set(psn - missing - 1);
  }
  Inbound inbound{.opcode = kReport, .psn = missing};
  inbound.payload.resize(GapReport::kSizeMax);
  inbound.payload.resize(report.write(std::span<uint8_t, GapReport::kSizeMax>(inbound.payload)));
  inbound.extensions.aeth = wire::Aeth::nak(NakCode::kPsnSequenceError, 0);
  lone.receive(inbound);
}

// What the last packet sent says is held, as PSNs.
std::vector<uint32_t> reported(const LoneQp& lone) {
  std::vector<uint32_t> psns;
  const auto view = wire::PacketView::parse(lone.frames.back());
  const auto report = GapReport::parse(view->payload);
  for (uint32_t i = 0; report.ok() && i < GapReport::kBits; ++i) {
    if (report->holds(i)) {
      psns.push_back(view->bth.psn.plus(i + 1).value());
    }
  }
  return psns;
}

TEST(GapReport, WritesNoMoreWordsThanItNeedsAndReadsThemBack) {
  for (const uint32_t bit : {0u, 1u, 63u, 64u, 130u, 511u}) {
    GapReport report;
    report.set(0);
    report.set(bit);
    std::array<uint8_t, GapReport::kSizeMax> raw;
    const size_t size = report.write(raw);
    EXPECT_EQ(size, 8u * (bit / 64 + 1));
    EXPECT_EQ(*GapReport::parse(Bytes(raw).first(size)), report);
  }
}

TEST(GapReport, RefusesWhatIsNoWholeNumberOfWords) {
  const std::array<uint8_t, 80> raw{};
  for (size_t size = 0; size <= raw.size(); ++size) {
    EXPECT_EQ(GapReport::parse(Bytes(raw).first(size)).ok(), size > 0 && size % 8 == 0 && size <= 64) << size;
  }
}

TEST(GapReport, TheFirstBitIsThePacketBehindTheMissingOne) {
  constexpr std::array<uint8_t, 8> kBytes = {0x80, 0, 0, 0, 0, 0, 0, 1};
  static_assert(GapReport::parse(kBytes)->holds(0) && GapReport::parse(kBytes)->holds(63));
  static_assert(!GapReport::parse(kBytes)->holds(1));
}

TEST(SelectiveResponder, HoldsWhatComesBehindAGapAndServesItInOrder) {
  LoneQp lone(selective());
  lone.qp->post_receives(8);
  EXPECT_TRUE(lone.receive(kOnly, 5001, 10));
  EXPECT_EQ(lone.sent(), (SentList{gap_report(5000, 0)}));
  EXPECT_EQ(reported(lone), std::vector<uint32_t>{5001});
  EXPECT_TRUE(lone.receive(kOnly, 5002, 10));
  EXPECT_EQ(lone.completions(), "");
  EXPECT_TRUE(lone.receive(kOnly, 5000, 10));
  EXPECT_EQ(lone.completions(), "receive 0 success; receive 0 success; receive 0 success");
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(lone.payloads[i], random_bytes(5000 + i, 10));
  }
  EXPECT_EQ(lone.sent(), (SentList{ack(5002, 3)}));
  EXPECT_EQ(lone.qp->info().expected_psn, Psn(5003));
}

TEST(SelectiveResponder, ReportsTheNextHoleWhenOneIsFilled) {
  LoneQp lone(selective());
  lone.qp->post_receives(8);
  lone.receive(kOnly, 5001, 10);
  lone.receive(kOnly, 5003, 10);
  (void)lone.sent();
  lone.receive(kOnly, 5000, 10);
  EXPECT_EQ(lone.sent(), (SentList{gap_report(5002, 2)}));
  EXPECT_EQ(reported(lone), std::vector<uint32_t>{5003});
}

TEST(SelectiveResponder, APacketHeldAlreadyIsADuplicate) {
  LoneQp lone(selective());
  lone.qp->post_receives(8);
  EXPECT_TRUE(lone.receive(kOnly, 5001, 10));
  EXPECT_FALSE(lone.receive(kOnly, 5001, 10));
  EXPECT_EQ(lone.discards(DropReason::kDuplicate), 1u);
  lone.receive(kOnly, 5000, 10);
  EXPECT_EQ(lone.completions(), "receive 0 success; receive 0 success");
}

TEST(SelectiveResponder, HoldsNoMoreThanItsBudgetAndSaysSo) {
  LoneQpOptions options = selective();
  options.endpoint.recovery.held_packets_max = 4;
  LoneQp lone(options);
  lone.qp->post_receives(8);
  EXPECT_TRUE(lone.receive(kOnly, 5001, 10));
  EXPECT_TRUE(lone.receive(kOnly, 5002, 10));
  EXPECT_FALSE(lone.receive(kOnly, 5003, 10));
  EXPECT_EQ(lone.endpoint->stats().holds_refused, 1u);
  (void)lone.sent();
  EXPECT_EQ(reported(lone), (std::vector<uint32_t>{5001, 5002}));
  lone.receive(kOnly, 5000, 10);
  EXPECT_EQ(lone.qp->info().expected_psn, Psn(5003));
  // The budget is free again.
  EXPECT_TRUE(lone.receive(kOnly, 5004, 10));
}

constexpr IpAddress kOtherClient = IpAddress::v4(0x0a00'0003);

// Whoever comes later finds room too: one client alone gets half of the budget.
TEST(SelectiveResponder, OneClientLeavesRoomForOthers) {
  LoneQpOptions options = selective();
  options.endpoint.recovery.held_packets_max = 12;
  LoneQp lone(options);
  RcQp* first = lone.qp;
  RcQp* second = lone.connect_another(options, kOtherClient);
  first->post_receives(100);
  second->post_receives(100);
  const auto held_of = [&](RcQp* qp) {
    lone.qp = qp;
    uint32_t held = 0;
    for (uint32_t psn = 5001; psn < 5020; ++psn) {
      held += lone.receive(kOnly, psn, 10) ? 1 : 0;
    }
    return held;
  };
  EXPECT_EQ(held_of(first), 6u);
  EXPECT_EQ(held_of(second), 3u);
  lone.qp = first;
  (void)lone.sent();
}

// When each connection could have as many as were free, eleven that fill one after the other left nothing of 2048.
TEST(SelectiveResponder, TheConnectionsOfOneClientLeaveHalfOfTheBudgetToOthers) {
  constexpr uint32_t kBudget = 2048;
  LoneQpOptions options = selective();
  options.buffers = kBudget + 16;
  options.endpoint.qp_max = 16;
  options.endpoint.recovery.held_packets_max = kBudget;
  LoneQp lone(options);
  RcQp* const first = lone.qp;
  const auto fill = [&](RcQp* qp, uint32_t packets) {
    lone.qp = qp;
    uint32_t held = 0;
    for (uint32_t psn = 5001; psn <= 5000 + packets; ++psn) {
      held += lone.receive(kOnly, psn, 10) ? 1 : 0;
    }
    return held;
  };
  uint32_t of_one = fill(first, HeldPackets::kSpan - 1);
  RcQp* last = nullptr;
  for (uint32_t i = 1; i < 11; ++i) {
    last = lone.connect_another(options);
    of_one += fill(last, HeldPackets::kSpan - 1);
  }
  EXPECT_EQ(of_one, kBudget / 2);
  EXPECT_EQ(fill(lone.connect_another(options, kOtherClient), 128), 128u) << "a whole window behind a gap";
  EXPECT_EQ(fill(last, 1), 0u);
  lone.endpoint->destroy_qp(*first);
  EXPECT_GT(fill(last, HeldPackets::kSpan - 1), 400u) << "what it gives back is its client's again";
}

TEST(SelectiveResponder, WithoutRoomForAGapItAnswersAsToAnOrdinaryPeer) {
  LoneQpOptions options = selective();
  options.endpoint.recovery = {};
  LoneQp lone(options);
  lone.qp->post_receives(8);
  EXPECT_FALSE(lone.receive(kOnly, 5001, 10));
  EXPECT_FALSE(lone.receive(kOnly, 5002, 10));
  EXPECT_EQ(lone.sent(), (SentList{nak(5000, NakCode::kPsnSequenceError, 0)}));
}

TEST(SelectiveResponder, WithFewBuffersNothingMoreIsHeld) {
  LoneQp lone(selective());
  lone.qp->post_receives(8);
  EXPECT_TRUE(lone.receive(kOnly, 5001, 10));
  lone.endpoint->set_watermark(BufferWatermark::kLow);
  EXPECT_FALSE(lone.receive(kOnly, 5002, 10));
  EXPECT_FALSE(lone.receive(kOnly, 5000, 10));
  EXPECT_EQ(lone.sent(), (SentList{rnr_nak(5000, 20, 0)}));
}

TEST(SelectiveResponder, APacketBeyondTheSpanIsNotHeld) {
  LoneQp lone(selective());
  lone.qp->post_receives(8);
  EXPECT_TRUE(lone.receive(kOnly, 5000 + HeldPackets::kSpan - 1, 10));
  EXPECT_FALSE(lone.receive(kOnly, 5000 + HeldPackets::kSpan, 10));
}

TEST(SelectiveResponder, AMissingReceiveGivesUpWhatIsHeldAndAsksThePeerToWait) {
  LoneQp lone(selective());
  lone.qp->post_receives(1);
  lone.receive(kOnly, 5001, 10);
  lone.receive(kOnly, 5002, 10);
  (void)lone.sent();
  lone.receive(kOnly, 5000, 10);
  EXPECT_EQ(lone.sent(), (SentList{rnr_nak(5001, 12, 1)}));
  EXPECT_EQ(lone.completions(), "receive 0 success");
  lone.qp->post_receives(2);
  lone.receive(kOnly, 5001, 10);
  lone.receive(kOnly, 5002, 10);
  EXPECT_EQ(lone.completions(), "receive 0 success; receive 0 success");
}

TEST(SelectiveResponder, AHeldRequestThatIsRefusedEndsTheConnectionWhenItsTurnComes) {
  LoneQp lone(selective());
  lone.qp->post_receives(8);
  EXPECT_TRUE(lone.receive(Opcode::kRcSendLast, 5001, 10));  // of no message
  (void)lone.sent();
  EXPECT_EQ(lone.qp->state(), QpState::kRts);
  lone.receive(kOnly, 5000, 10);
  EXPECT_EQ(lone.qp->error().cause, QpErrorCause::kOpcodeSequence);
  EXPECT_EQ(lone.sent(), (SentList{nak(5001, NakCode::kInvalidRequest, 1)}));
  EXPECT_EQ(lone.completions(), "receive 0 success");
}

TEST(SelectiveResponder, HoldsNothingThatComesFromAnotherSourcePort) {  // a forger has to guess it
  LoneQp lone(selective());
  lone.qp->post_receives(8);
  lone.receive(kOnly, 5000, 10);
  (void)lone.sent();
  Inbound forged{.opcode = kOnly, .psn = 5002, .payload = random_bytes(1, 10)};
  forged.path.udp_source_port = 1;
  EXPECT_FALSE(lone.receive(forged));
  EXPECT_EQ(lone.sent(), (SentList{nak(5001, NakCode::kPsnSequenceError, 1)}));
  EXPECT_TRUE(lone.receive(kOnly, 5002, 10));
  lone.receive(kOnly, 5001, 10);
  (void)lone.completions();
  EXPECT_EQ(lone.payloads[2], random_bytes(5002, 10));
}

// A peer that goes back to a NAK: it is told of a gap only when what is missing has not come in time.
struct OrdinaryPeer : LoneQp {
  explicit OrdinaryPeer(const LoneQpOptions& options = {}) : LoneQp(options) {
    qp->post_receives(8);
    receive(kOnly, 5000, 10);
    (void)sent();
    (void)completions();
  }
  // One packet comes `late` behind the next, and none is lost.
  void swap(uint32_t first, Duration late) {
    receive(kOnly, first + 1, 10);
    pass(late);
    receive(kOnly, first, 10);
    (void)sent();
    (void)completions();
  }
};

TEST(OrdinaryPeer, ASendThatIsOnlyLateIsNotAskedForAgain) {
  OrdinaryPeer lone;
  EXPECT_TRUE(lone.receive(kOnly, 5002, 10));
  EXPECT_TRUE(lone.receive(kOnly, 5003, 10));
  lone.pass(Duration::us(150));
  EXPECT_EQ(lone.sent(), SentList{});
  EXPECT_EQ(lone.completions(), "");
  EXPECT_TRUE(lone.receive(kOnly, 5001, 10));
  EXPECT_EQ(lone.sent(), (SentList{ack(5003, 4)}));
  EXPECT_EQ(lone.completions(), "receive 0 success; receive 0 success; receive 0 success");
  EXPECT_EQ(lone.payloads[1], random_bytes(5002, 10));
  lone.pass(Duration::ms(10));
  EXPECT_EQ(lone.sent(), SentList{});
}

TEST(OrdinaryPeer, IsToldOfAGapOnceWhenTheWindowIsOver) {
  OrdinaryPeer lone;
  lone.receive(kOnly, 5002, 10);
  lone.pass(ReorderWindow::kMost);
  EXPECT_EQ(lone.sent(), (SentList{nak(5001, NakCode::kPsnSequenceError, 1)}));
  lone.receive(kOnly, 5003, 10);
  lone.pass(Duration::ms(10));
  EXPECT_EQ(lone.sent(), SentList{});
  // It goes back: what is held is executed once, and the repetitions are acknowledged.
  lone.pass(Duration::ms(1));
  lone.receive(kOnly, 5001, 10);
  EXPECT_EQ(lone.sent(), (SentList{ack(5003, 4)}));
  lone.receive(kOnly, 5002, 10);
  EXPECT_EQ(lone.sent(), (SentList{ack(5003, 4)}));
  EXPECT_EQ(lone.completions(), "receive 0 success; receive 0 success; receive 0 success");
}

TEST(OrdinaryPeer, IsToldAgainWhenItWentBackAndThePacketIsLostAgain) {
  OrdinaryPeer lone;
  lone.receive(kOnly, 5002, 10);
  lone.pass(ReorderWindow::kMost);
  EXPECT_EQ(lone.sent().size(), 1u);
  lone.pass(Duration::ms(1));
  lone.receive(kOnly, 5002, 10);
  EXPECT_EQ(lone.sent(), SentList{});
  lone.pass(ReorderWindow::kMost);
  EXPECT_EQ(lone.sent(), (SentList{nak(5001, NakCode::kPsnSequenceError, 1)}));
}

// A copy that the network has made of a packet behind the gap comes sooner than any answer to the NAK.
TEST(OrdinaryPeer, IsNotToldAgainBeforeItsAnswerCanHaveCome) {
  for (const bool measured : {false, true}) {
    OrdinaryPeer lone;
    if (measured) {
      ASSERT_TRUE(lone.post_send(10, 1).ok());
      (void)lone.sent();
      lone.pass(Duration::us(300));
      lone.receive_ack(1000);
      (void)lone.completions();
      ASSERT_EQ(lone.qp->info().round_trip, Duration::us(300));
    }
    // A fourth of the ACK timeout, or two round trips.
    const Duration patience = measured ? Duration::us(600) : ack_timeout(8) / 4;
    lone.receive(kOnly, 5002, 10);
    lone.pass(measured ? Duration::us(300) : ReorderWindow::kMost);
    EXPECT_EQ(lone.sent(), (SentList{nak(5001, NakCode::kPsnSequenceError, 1)}));
    lone.pass(Duration::us(20));
    lone.receive(kOnly, 5002, 10);
    lone.pass(patience - Duration::us(21));
    EXPECT_EQ(lone.sent(), SentList{}) << measured;
    lone.pass(Duration::us(2));
    EXPECT_EQ(lone.sent(), (SentList{nak(5001, NakCode::kPsnSequenceError, 1)})) << measured;
  }
}

// What there is no room for is behind a gap that is watched already.
TEST(OrdinaryPeer, WhatIsNotKeptBehindAGapCausesNoNakOfItsOwn) {
  LoneQpOptions options;
  options.endpoint.recovery.held_packets_max = 2;
  OrdinaryPeer lone(options);
  EXPECT_TRUE(lone.receive(kOnly, 5003, 10));
  EXPECT_FALSE(lone.receive(kOnly, 5002, 10));
  EXPECT_EQ(lone.endpoint->stats().holds_refused, 1u);
  EXPECT_EQ(lone.sent(), SentList{});
  lone.pass(ReorderWindow::kMost);
  EXPECT_EQ(lone.sent(), (SentList{nak(5001, NakCode::kPsnSequenceError, 1)}));
  lone.pass(Duration::ms(10));
  EXPECT_EQ(lone.sent(), SentList{});
}

// An rxe of Linux that goes back executes REG_MR a second time, which ends the connection: to be told too early costs it more
// than to wait.
TEST(OrdinaryPeer, HoweverManyPacketsOvertakeOneTheWindowDecides) {
  OrdinaryPeer lone;
  for (const uint32_t psn : {5002u, 5003u, 5004u, 5005u, 5006u}) {
    lone.receive(kOnly, psn, 10);
  }
  lone.pass(ReorderWindow::kMost - Duration::us(1));
  EXPECT_EQ(lone.sent(), SentList{});
  lone.pass(Duration::us(1));
  EXPECT_EQ(lone.sent(), (SentList{nak(5001, NakCode::kPsnSequenceError, 1)}));
  lone.receive(kOnly, 5001, 10);
  (void)lone.completions();
}

// Whoever never sends what is missing keeps nothing from others for good.
TEST(OrdinaryPeer, WhatIsHeldIsGivenUpWhenWhatIsMissingDoesNotCome) {
  OrdinaryPeer lone;
  lone.receive(kOnly, 5002, 10);
  lone.receive(kOnly, 5003, 10);
  lone.pass(ReorderWindow::kMost);
  EXPECT_EQ(lone.sent(), (SentList{nak(5001, NakCode::kPsnSequenceError, 1)}));
  lone.pass(kHoldLifeLeast - ReorderWindow::kMost - Duration::us(1));
  EXPECT_EQ(lone.pool.in_use(), 2u);
  lone.pass(Duration::us(1));
  EXPECT_EQ(lone.pool.in_use(), 0u);
  EXPECT_EQ(lone.endpoint->stats().holds_expired, 2u);
  EXPECT_EQ(lone.sent(), SentList{});
  EXPECT_FALSE(lone.receive(kOnly, 5004, 10));
  for (const uint32_t psn : {5001u, 5002u, 5003u}) {  // after its timeout
    lone.receive(kOnly, psn, 10);
  }
  EXPECT_EQ(lone.completions(), "receive 0 success; receive 0 success; receive 0 success");
}

TEST(SelectiveResponder, WhatIsHeldIsGivenUpWhenWhatIsMissingDoesNotCome) {
  LoneQp lone(selective());
  lone.qp->post_receives(8);
  lone.receive(kOnly, 5001, 10);
  (void)lone.sent();
  lone.pass(kHoldLifeLeast);
  EXPECT_EQ(lone.pool.in_use(), 0u);
  EXPECT_EQ(lone.endpoint->stats().holds_expired, 1u);
  lone.receive(kOnly, 5000, 10);
  lone.receive(kOnly, 5001, 10);
  EXPECT_EQ(lone.completions(), "receive 0 success; receive 0 success");
}

// Each skips a PSN; the last is a client that means it.
TEST(OrdinaryPeer, ThreeHundredOthersWithAGapDoNotCostItItsHold) {
  constexpr uint32_t kOthers = 300;
  LoneQpOptions options;
  options.buffers = kOthers + 16;
  options.endpoint.qp_max = kOthers + 1;
  options.endpoint.recovery = recovery_limits(16384, 2048);
  LoneQp lone(options);
  RcQp* honest = lone.qp;
  const auto open_gap = [&](RcQp* qp) {
    lone.qp = qp;
    qp->post_receives(8);
    lone.receive(kOnly, 5000, 10);
    (void)lone.sent();
    (void)lone.completions();
    return lone.receive(kOnly, 5002, 10);
  };
  for (uint32_t i = 0; i < kOthers; ++i) {
    ASSERT_TRUE(open_gap(lone.connect_another(options))) << i;
  }
  EXPECT_TRUE(open_gap(honest));
  EXPECT_EQ(lone.sent(), SentList{});
  lone.receive(kOnly, 5001, 10);
  EXPECT_EQ(lone.completions(), "receive 0 success; receive 0 success");
  EXPECT_EQ(lone.endpoint->stats().holds_refused, 0u);
}

// And not how little they have been late so far: an rxe of Linux 6.12, told after 51 us of a SEND that came 59 us late, sent it
// again and ended the connection.
TEST(OrdinaryPeer, WherePacketsComeLateTheWindowAloneDecides) {
  OrdinaryPeer lone;
  lone.swap(5001, Duration::us(40));
  for (const uint32_t psn : {5004u, 5005u, 5006u, 5007u}) {
    lone.receive(kOnly, psn, 10);
  }
  lone.pass(ReorderWindow::kMost - Duration::us(1));
  EXPECT_EQ(lone.sent(), SentList{});
  lone.pass(Duration::us(1));
  EXPECT_EQ(lone.sent(), (SentList{nak(5003, NakCode::kPsnSequenceError, 3)}));
  // Sooner than any answer to the NAK could be here: it was late by more than was known.
  lone.receive(kOnly, 5003, 10);
  EXPECT_EQ(lone.sent(), (SentList{ack(5007, 8)}));
  (void)lone.completions();
}

TEST(OrdinaryPeer, ASecondGapBehindTheFirstHasAWindowOfItsOwn) {
  OrdinaryPeer lone;
  lone.receive(kOnly, 5002, 10);
  lone.receive(kOnly, 5004, 10);
  lone.pass(Duration::us(100));
  lone.receive(kOnly, 5001, 10);
  EXPECT_EQ(lone.sent(), (SentList{ack(5002, 3)}));
  lone.pass(ReorderWindow::kMost - Duration::us(1));
  EXPECT_EQ(lone.sent(), SentList{});
  lone.pass(Duration::us(1));
  EXPECT_EQ(lone.sent(), (SentList{nak(5003, NakCode::kPsnSequenceError, 3)}));
  lone.receive(kOnly, 5003, 10);
  (void)lone.completions();
}

// The RNR NAK makes the peer repeat everything from there.
TEST(OrdinaryPeer, NothingIsKeptBehindAMessageThatNoReceiveIsThereFor) {
  LoneQp lone;
  lone.receive(kOnly, 5001, 10);
  lone.receive(kOnly, 5000, 10);
  EXPECT_EQ(lone.sent(), (SentList{rnr_nak(5000, 12, 0)}));
  EXPECT_FALSE(lone.receive(kOnly, 5001, 10));
  lone.pass(ReorderWindow::kMost);
  EXPECT_EQ(lone.pool.in_use(), 0u);
}

TEST(OrdinaryPeer, IsToldAtOnceWhenNothingMayBeKept) {
  LoneQpOptions options;
  options.endpoint.recovery = {};
  OrdinaryPeer lone(options);
  EXPECT_FALSE(lone.receive(kOnly, 5002, 10));
  EXPECT_EQ(lone.sent(), (SentList{nak(5001, NakCode::kPsnSequenceError, 1)}));
}

TEST(SelectiveResponder, SwitchedOffItTreatsEveryPeerAsOrdinary) {
  LoneQpOptions options = selective();
  options.qp.selective_recovery = false;
  LoneQp lone(options);
  lone.qp->post_receives(8);
  EXPECT_FALSE(lone.receive(kOnly, 5001, 10));
  EXPECT_EQ(lone.sent(), (SentList{nak(5000, NakCode::kPsnSequenceError, 0)}));
}

TEST(SelectiveRequester, RepeatsOnlyWhatIsMissing) {
  LoneQp lone(selective());
  for (uint64_t id = 1; id <= 5; ++id) {
    ASSERT_TRUE(lone.post_send(10, id).ok());
  }
  (void)lone.sent();
  receive_report(lone, 1001, {1002, 1004});
  EXPECT_EQ(lone.completions(), "send 1 success");
  EXPECT_EQ(lone.sent(), (SentList{{kOnly, 1001, true, 10}}));  // overtaken by 1004, sent three packets later
  lone.pass(ReorderWindow::kUnknown);
  EXPECT_EQ(lone.sent(), (SentList{{kOnly, 1003, true, 10}}));
  EXPECT_EQ(lone.endpoint->stats().packets_retransmitted, 2u);
  lone.receive_ack(1004);
  EXPECT_EQ(lone.completions(), "send 2 success; send 3 success; send 4 success; send 5 success");
  EXPECT_EQ(lone.qp->info().retries, 0u);
}

TEST(SelectiveRequester, TheSameReportAgainRepeatsNothing) {
  LoneQp lone(selective());
  for (uint64_t id = 1; id <= 4; ++id) {
    ASSERT_TRUE(lone.post_send(10, id).ok());
  }
  (void)lone.sent();
  for (uint32_t i = 0; i < 1000; ++i) {
    receive_report(lone, 1000, {1001, 1003});
    EXPECT_EQ(lone.sent().size(), i == 0 ? 1u : 0u);
  }
}

TEST(SelectiveRequester, ARepetitionThatIsOvertakenWasLostToo) {
  LoneQp lone(selective());
  for (uint64_t id = 1; id <= 3; ++id) {
    ASSERT_TRUE(lone.post_send(10, id).ok());
  }
  (void)lone.sent();
  receive_report(lone, 1000, {1001, 1002});
  EXPECT_EQ(lone.sent().size(), 0u);
  lone.pass(ReorderWindow::kUnknown);
  EXPECT_EQ(lone.sent(), (SentList{{kOnly, 1000, true, 10}}));
  ASSERT_TRUE(lone.post_send(10, 4).ok());
  EXPECT_EQ(lone.sent(), (SentList{{kOnly, 1003, true, 10}}));
  receive_report(lone, 1000, {1001, 1002, 1003});  // 1003 left after the repetition
  EXPECT_EQ(lone.sent().size(), 0u);
  lone.pass(ReorderWindow::kUnknown);
  EXPECT_EQ(lone.sent(), (SentList{{kOnly, 1000, true, 10}}));
  lone.receive_ack(1003);
  EXPECT_FALSE(lone.qp->has_unfinished_work());
}

TEST(SelectiveRequester, WhatHasArrivedBehindTheGapMakesRoomInTheWindow) {
  LoneQpOptions options = selective();
  options.qp.send_window_packets = 4;
  LoneQp lone(options);
  ASSERT_TRUE(lone.post_send(256 * 20).ok());
  EXPECT_EQ(lone.sent().size(), 4u);
  receive_report(lone, 1000, {1001, 1002, 1003});
  const SentList next = lone.sent();
  ASSERT_EQ(next.size(), 4u);
  EXPECT_EQ(next[0].psn, 1000u);
  EXPECT_EQ(next[3].psn, 1006u);
}

// Seed 2095 of the simulation: a READ request that had arrived behind a gap made room for one packet more than the window.
TEST(SelectiveRequester, AReadRequestThatHasArrivedMakesNoRoomInTheWindow) {
  LoneQpOptions options = selective();
  options.qp.send_window_packets = 4;
  LoneQp lone(options);
  ASSERT_TRUE(lone.post_send(10, 1).ok());
  ASSERT_TRUE(lone.post_read(512, 2).ok());
  for (uint64_t id = 3; id <= 8; ++id) {
    ASSERT_TRUE(lone.post_send(10, id).ok());
  }
  EXPECT_EQ(lone.sent().size(), 5u);  // 1000, the READ as 1001 and 1002, 1003 to 1005
  receive_report(lone, 1000, {1001, 1003});
  EXPECT_EQ(lone.sent().at(0).psn, 1006u);  // for 1003
  lone.pass(ReorderWindow::kUnknown);
  EXPECT_EQ(lone.sent().at(0).psn, 1000u);
  EXPECT_TRUE(lone.qp->is_consistent());
}

TEST(SelectiveRequester, KeepsWithinWhatThePeerCanHold) {
  LoneQpOptions options = selective();
  options.qp.send_window_packets = 64;
  options.connect.peer_hold_packets = 8;
  LoneQp lone(options);
  ASSERT_TRUE(lone.post_send(256 * 4, 1).ok());
  EXPECT_EQ(lone.sent().size(), 4u);
  receive_report(lone, 1000, {1001, 1002, 1003});
  ASSERT_TRUE(lone.post_send(256 * 20, 2).ok());
  EXPECT_EQ(lone.sent().size(), 1u + 4u);  // the repetition, and up to PSN 1007
}

TEST(SelectiveRequester, AReportOfPacketsNeverSentChangesNothing) {
  LoneQp lone(selective());
  ASSERT_TRUE(lone.post_send(10, 1).ok());
  (void)lone.sent();
  receive_report(lone, 1000, {1001, 1005, 1300});
  EXPECT_EQ(lone.sent().size(), 0u);
  receive_report(lone, 1001, {1002});
  EXPECT_EQ(lone.discards(DropReason::kPsnStale), 1u);
  EXPECT_EQ(lone.completions(), "");
  lone.receive_ack(1000);
  EXPECT_EQ(lone.completions(), "send 1 success");
}

TEST(SelectiveRequester, AReportOfAnOrdinaryPeerIsNotBelieved) {
  LoneQp lone;
  ASSERT_TRUE(lone.post_send(10, 1).ok());
  ASSERT_TRUE(lone.post_send(10, 2).ok());
  (void)lone.sent();
  receive_report(lone, 1000, {1001});
  EXPECT_EQ(lone.discards(DropReason::kUnexpected), 1u);
  EXPECT_EQ(lone.sent().size(), 0u);
}

TEST(SelectiveRequester, ATimeoutForgetsWhatWasReportedAndRepeatsEverything) {
  LoneQp lone(selective());
  for (uint64_t id = 1; id <= 3; ++id) {
    ASSERT_TRUE(lone.post_send(10, id).ok());
  }
  (void)lone.sent();
  receive_report(lone, 1000, {1001, 1002});
  lone.pass(ReorderWindow::kUnknown);
  EXPECT_EQ(lone.sent().size(), 1u);
  lone.pass(Duration::seconds(1));
  EXPECT_EQ(lone.sent().size(), 1u);
  lone.receive_ack(1000);
  EXPECT_EQ(lone.sent().size(), 2u);
  lone.receive_ack(1002);
  EXPECT_FALSE(lone.qp->has_unfinished_work());
}

// Nothing has been seen to come late: what something sent three packets later has overtaken is lost at once.
Scoreboard::Clock board_at(int64_t us, bool reorders = false) {
  return {.now = Instant::from_ns(1'000'000 + us * 1000),
          .wait = Duration::us(10),
          .overtaken_max = reorders ? 0 : ReorderWindow::kDupThresh,
          .echo_time = Duration::us(40)};
}

TEST(Scoreboard, ARepetitionThatArrivesProvesTheLossOfWhatWasSentBefore) {
  Scoreboard board(Psn(10));
  for (uint32_t psn = 10; psn < 14; ++psn) {
    board.on_sent(Psn(psn), true);
  }
  GapReport report;
  report.set(0);  // 11
  EXPECT_TRUE(board.on_report(report, board_at(0)));
  EXPECT_EQ(board.next_lost(), std::nullopt);
  EXPECT_EQ(board.next_overdue(Duration::us(10)), board_at(10).now);
  board.note_overdue(board_at(9));
  EXPECT_EQ(board.next_lost(), std::nullopt);
  board.note_overdue(board_at(10));
  EXPECT_EQ(board.next_lost(), Psn(10));
  board.on_repeated(Psn(10), board_at(10).now);
  EXPECT_EQ(board.next_lost(), std::nullopt);
  board.advance(Psn(12), true, board_at(50));
  EXPECT_EQ(board.take_lessons().lost, 1u);
  EXPECT_FALSE(board.is_over());
  board.note_overdue(board_at(60));
  EXPECT_EQ(board.next_lost(), Psn(12));  // sent before the repetition of 10
  board.on_repeated(Psn(12), board_at(60).now);
  EXPECT_EQ(board.next_lost(), Psn(13));
  board.on_repeated(Psn(13), board_at(60).now);
  EXPECT_FALSE(board.is_over());
  board.advance(Psn(14), true, board_at(100));
  EXPECT_TRUE(board.is_over());
}

TEST(Scoreboard, WhatSomethingSentThreePacketsLaterHasOvertakenIsLostAtOnceUnlessPacketsComeLateHere) {
  for (const bool reorders : {false, true}) {
    Scoreboard board(Psn(10));
    for (uint32_t psn = 10; psn < 14; ++psn) {
      board.on_sent(Psn(psn), true);
    }
    GapReport report;
    report.set(1);  // 12
    EXPECT_TRUE(board.on_report(report, board_at(0, reorders)));
    EXPECT_EQ(board.next_lost(), std::nullopt);
    report.set(2);  // 13
    EXPECT_TRUE(board.on_report(report, board_at(1, reorders)));
    EXPECT_EQ(board.next_lost(), reorders ? std::nullopt : std::optional(Psn(10)));
  }
}

TEST(Scoreboard, WhatComesLateTeachesHowLate) {
  Scoreboard board(Psn(10));
  for (uint32_t psn = 10; psn < 14; ++psn) {
    board.on_sent(Psn(psn), true);
  }
  GapReport report;
  report.set(1);  // 12
  EXPECT_TRUE(board.on_report(report, board_at(0, true)));
  board.advance(Psn(11), true, board_at(7, true));
  const Scoreboard::Lessons lessons = board.take_lessons();
  EXPECT_EQ(lessons.late, Duration::us(7));
  EXPECT_EQ(lessons.spurious, 0u);
  EXPECT_EQ(board.take_lessons().late, Duration());
}

// Else one spurious repetition makes everything look lost that was sent before it: seen with 1 % of the packets behind 8 others.
TEST(Scoreboard, TheFirstTransmissionOfWhatWasRepeatedProvesNothing) {
  Scoreboard board(Psn(10));
  for (uint32_t psn = 10; psn < 30; ++psn) {
    board.on_sent(Psn(psn), true);
  }
  GapReport report;
  report.set(2);  // 13
  EXPECT_TRUE(board.on_report(report, board_at(0)));
  EXPECT_EQ(board.next_lost(), Psn(10));
  board.on_repeated(Psn(10), board_at(0).now);
  board.advance(Psn(11), true, board_at(39));  // too soon for an answer
  EXPECT_EQ(board.take_lessons().spurious, 1u);
  board.note_overdue(board_at(1000));
  EXPECT_EQ(board.next_lost(), Psn(11));  // before 13
  board.on_repeated(Psn(11), board_at(1000).now);
  EXPECT_EQ(board.next_lost(), Psn(12));
  board.on_repeated(Psn(12), board_at(1000).now);
  EXPECT_EQ(board.next_lost(), std::nullopt);  // 14 to 29 may be on their way
}

// The simulation showed it: of a stream of READs each request was sent twice, once one of them had been lost.
TEST(Scoreboard, AReadResponseProvesNothingOfTheRequestsThatWereSentBeforeTheRepetition) {
  Scoreboard board(Psn(10));
  for (uint32_t psn = 10; psn < 40; psn += 10) {
    board.on_sent(Psn(psn), false);
  }
  GapReport report;
  report.set(9);  // 20
  EXPECT_TRUE(board.on_report(report, board_at(0)));
  board.note_overdue(board_at(10));
  EXPECT_EQ(board.next_lost(), Psn(10));
  board.on_repeated(Psn(10), board_at(10).now);
  board.advance(Psn(11), false, board_at(60));  // 30 is held, but that has not been said
  board.note_overdue(board_at(100));
  EXPECT_EQ(board.next_lost(), std::nullopt);
  board.advance(Psn(30), true, board_at(100));
  board.note_overdue(board_at(200));
  EXPECT_EQ(board.next_lost(), std::nullopt);
}

TEST(Scoreboard, PsnsWrap) {
  Scoreboard board(Psn(0xff'ffff));
  for (uint32_t i = 0; i < 3; ++i) {
    board.on_sent(Psn(0xff'ffff).plus(i), true);
  }
  GapReport report;
  report.set(1);
  EXPECT_TRUE(board.on_report(report, board_at(0)));
  EXPECT_FALSE(board.on_report(report, board_at(0)));
  board.note_overdue(board_at(10));
  EXPECT_EQ(board.next_lost(), Psn(0xff'ffff));
  board.on_repeated(Psn(0xff'ffff), board_at(10).now);
  EXPECT_EQ(board.next_lost(), Psn(0));
}

}  // namespace
}  // namespace cw::rc::test
