// What is late and what is lost: the reordering window, and that no SEND overtakes a READ request that was sent again.
#include "rocev2/rc/reorder_window.h"

#include <gtest/gtest.h>

#include "rocev2/rc/repeated_reads.h"
#include "rocev2/rc/retransmit.h"
#include "tests/unit/rc/lone_qp.h"

namespace cw::rc::test {
namespace {

constexpr Duration kRoundTrip = Duration::us(400);

Instant at(int64_t us) {
  return Instant::from_ns(1'000'000'000 + us * 1000);
}

TEST(ReorderWindow, IsAFourthOfARoundTripWhereNothingHasComeLate) {
  const ReorderWindow window;
  EXPECT_FALSE(window.reorders());
  EXPECT_EQ(window.wait(kRoundTrip), kRoundTrip / 4);
  EXPECT_EQ(window.wait(Duration::us(4)), ReorderWindow::kLeast);
  EXPECT_EQ(window.wait(Duration()), ReorderWindow::kUnknown);
}

TEST(ReorderWindow, GrowsToAQuarterMoreThanWhatCameLatest) {
  ReorderWindow window;
  window.on_late(Duration::us(100));
  EXPECT_TRUE(window.reorders());
  EXPECT_EQ(window.wait(kRoundTrip), Duration::us(125));
  window.on_late(Duration::us(20));
  EXPECT_EQ(window.wait(kRoundTrip), Duration::us(125));
}

TEST(ReorderWindow, IsNoLongerThanARoundTripOrItsBound) {
  ReorderWindow window;
  window.on_late(Duration::seconds(100));
  EXPECT_EQ(window.wait(kRoundTrip), kRoundTrip);
  EXPECT_EQ(window.wait(Duration::us(10)), ReorderWindow::kMost);
}

TEST(ReorderWindow, LossesMakeItSmallOnceARoundTripUntilItIsForgotten) {
  ReorderWindow window;
  window.on_late(Duration::us(80));
  window.on_lost(at(0), kRoundTrip);
  window.on_lost(at(399), kRoundTrip);
  EXPECT_EQ(window.wait(kRoundTrip), Duration::ns(93'750));
  uint32_t losses = 1;
  for (int64_t us = 400; window.reorders(); us += 400) {
    window.on_lost(at(us), kRoundTrip);
    ++losses;
  }
  EXPECT_GT(losses, 50u);
  EXPECT_LT(losses, 100u);
  EXPECT_EQ(window.wait(kRoundTrip), kRoundTrip / 4);
}

TEST(RepeatedReads, ASendWaitsForThoseOfCompleteReadsThatLeftBeforeItsTurn) {
  RepeatedReads repeats;
  repeats.note(Psn(10), at(0), at(100), false);
  repeats.note(Psn(50), at(0), at(300), false);  // not complete: of another call
  EXPECT_FALSE(repeats.holds(Psn(7)));
  repeats.consider(at(1), Psn(40), Psn(7), Psn(9));
  EXPECT_TRUE(repeats.holds(Psn(7)));
  EXPECT_EQ(repeats.release_at(Psn(40)), at(100));
  repeats.note(Psn(12), at(2), at(200), false);  // later than its turn
  EXPECT_EQ(repeats.release_at(Psn(40)), at(100));
  repeats.review(at(100), Psn(40));
  EXPECT_FALSE(repeats.holds(Psn(7)));
  EXPECT_TRUE(repeats.release_at(Psn(40)).is_never());
  for (const uint32_t posted_then : {8u, 9u}) {
    repeats.consider(at(101), Psn(40), Psn(posted_then), Psn(20));
    EXPECT_FALSE(repeats.holds(Psn(posted_then)));
  }
  repeats.consider(at(101), Psn(40), Psn(10), Psn(20));
  EXPECT_TRUE(repeats.holds(Psn(10)));
}

TEST(RepeatedReads, AnAnswerFromAFirstWithinTheRequestShowsThatItWasExecuted) {
  constexpr Duration kLeast = Duration::us(50);
  RepeatedReads repeats;
  repeats.note(Psn(10), at(0), at(100), false);
  repeats.note(Psn(12), at(0), at(300), true);
  repeats.consider(at(1), Psn(40), Psn(7), Psn(7));
  repeats.note_answer(Psn(12), at(49), kLeast);  // too soon
  EXPECT_EQ(repeats.release_at(Psn(40)), at(300));
  repeats.note_answer(Psn(12), at(50), kLeast);
  EXPECT_EQ(repeats.release_at(Psn(40)), at(100));
  repeats.note_answer(Psn(10), at(60), kLeast);  // may be the first answer
  EXPECT_TRUE(repeats.holds(Psn(7)));
  EXPECT_EQ(repeats.over_at(), at(300));
  repeats.review(at(300), Psn(40));
  EXPECT_TRUE(repeats.empty());
}

// Of two repetitions from one response on, the first is answered, and the network makes a copy of that.
TEST(RepeatedReads, ACopyOfAnAnswerIsNotTakenForTheAnswerToTheNextRepetition) {
  constexpr Duration kLeast = Duration::us(50);
  for (const bool answered_before : {false, true}) {
    RepeatedReads repeats;
    repeats.note(Psn(12), at(0), at(200), true);
    if (answered_before) {
      repeats.note_answer(Psn(12), at(70), kLeast);
    }
    repeats.note(Psn(12), at(80), at(280), true);
    for (const int64_t us : {85, 140, 190}) {
      repeats.note_answer(Psn(12), at(us), kLeast);
    }
    repeats.consider(at(191), Psn(40), Psn(7), Psn(7));
    EXPECT_EQ(repeats.release_at(Psn(40)), at(280)) << answered_before;
    repeats.review(at(280), Psn(40));
    ASSERT_TRUE(repeats.empty());
    // No copy is under way any more.
    repeats.note(Psn(12), at(300), at(500), true);
    repeats.note_answer(Psn(12), at(350), kLeast);
    repeats.consider(at(351), Psn(40), Psn(8), Psn(8));
    EXPECT_FALSE(repeats.holds(Psn(8)));
  }
}

TEST(RepeatedReads, WithMoreThanItCanNoteASendWaitsForAllThatLeftBeforeItsTurnAndForNoOther) {
  constexpr uint32_t kMost = RepeatedReads::kMost;
  RepeatedReads repeats;
  for (uint32_t i = 0; i < kMost; ++i) {
    repeats.note(Psn(i), at(i), at(1000 + i), true);
  }
  repeats.consider(at(kMost), Psn(5000), Psn(7), Psn(7));
  for (uint32_t i = 1; i < 3 * kMost; ++i) {
    repeats.note(Psn(kMost + i), at(kMost + i), at(3000 + i), true);
    ASSERT_EQ(repeats.release_at(Psn(5000)), at(1000 + kMost - 1)) << i;
  }
  repeats.review(at(1000 + kMost - 1), Psn(5000));
  EXPECT_FALSE(repeats.holds(Psn(7)));
  repeats.consider(at(2000), Psn(5000), Psn(8), Psn(8));
  EXPECT_EQ(repeats.release_at(Psn(5000)), at(3000 + 3 * kMost - 1));
}

TEST(RepeatedReads, WithMoreThanItCanNoteTheOnesOfCompleteReadsAreWaitedForToo) {
  for (const uint32_t complete : {0u, 1u, 2u, RepeatedReads::kMost / 2, RepeatedReads::kMost}) {
    RepeatedReads repeats;
    for (uint32_t i = 0; i <= RepeatedReads::kMost; ++i) {
      repeats.note(Psn(i == complete ? 10 : 5000 + i), at(i), at(2000), false);
    }
    repeats.consider(at(1000), Psn(40), Psn(7), Psn(7));
    EXPECT_EQ(repeats.release_at(Psn(40)), at(2000)) << complete;
  }
}

LoneQpOptions towards(bool causeway) {
  LoneQpOptions options;
  options.connect.path_mtu_bytes = 256;
  options.connect.peer_hold_packets = causeway ? 512 : 0;
  options.connect.ack_timeout = 16;
  return options;
}

// A round trip of 400 us, and a first response of a READ of four.
void begin_read(LoneQp& lone) {
  ASSERT_TRUE(lone.post_read(256 * 4).ok());
  (void)lone.sent();
  lone.pass(kRoundTrip);
  lone.receive_response(kResponseFirst, 1000, 256);
  ASSERT_EQ(lone.qp->info().round_trip, kRoundTrip);
}

// What netem with "delay 300us 200us" does: seen with Linux, which was asked for the same responses up to five times.
TEST(Reordering, AResponseThatIsOnlyLateIsNotAskedForAgain) {
  for (const bool causeway : {false, true}) {
    LoneQp lone(towards(causeway));
    begin_read(lone);
    lone.receive_response(kResponseLast, 1003, 256);
    lone.pass(Duration::us(99));
    EXPECT_EQ(lone.sent().size(), 0u);
    lone.receive_response(kResponseMiddle, 1002, 256);
    lone.receive_response(kResponseMiddle, 1001, 256);
    EXPECT_EQ(lone.completions(), "RDMA read 1 success");
    EXPECT_EQ(lone.endpoint->stats().packets_late, 2u);
    EXPECT_EQ(lone.endpoint->stats().packets_retransmitted, 0u);
  }
}

TEST(Reordering, AResponseThatIsLateForLongerThanTheWindowIsAskedForOnceInARoundTrip) {
  LoneQp lone(towards(false));
  begin_read(lone);
  lone.receive_response(kResponseLast, 1003, 256);
  lone.pass(Duration::us(100));
  EXPECT_EQ(lone.sent(), (SentList{{kReadRequest, 1001, true, 0}}));
  for (uint32_t i = 0; i < 10; ++i) {
    lone.receive_response(kResponseLast, 1003, 256);  // duplicates
    lone.pass(Duration::us(30));
    EXPECT_EQ(lone.sent().size(), 0u);
  }
}

TEST(Reordering, AfterASpuriousRepetitionTheNextLateResponseIsWaitedFor) {
  LoneQp lone(towards(true));
  begin_read(lone);
  for (uint32_t psn = 1002; psn < 1004; ++psn) {
    lone.receive_response(psn == 1003 ? kResponseLast : kResponseMiddle, psn, 256);
  }
  lone.pass(Duration::us(150));
  EXPECT_EQ(lone.sent().size(), 1u);
  lone.pass(Duration::us(50));
  lone.receive_response(kResponseMiddle, 1001, 256);  // 200 us late, and no answer to the repetition yet
  EXPECT_EQ(lone.completions(), "RDMA read 1 success");
  EXPECT_EQ(lone.endpoint->stats().repetitions_spurious, 1u);
  ASSERT_TRUE(lone.post_read(256 * 4, 2).ok());
  (void)lone.sent();
  lone.pass(kRoundTrip);
  for (uint32_t psn = 1005; psn < 1008; ++psn) {  // three behind it: no proof any more
    lone.receive_response(psn == 1007 ? kResponseLast : kResponseMiddle, psn, 256);
  }
  lone.pass(Duration::us(240));
  EXPECT_EQ(lone.sent().size(), 0u);
  lone.pass(Duration::us(10));
  EXPECT_EQ(lone.sent(), (SentList{{kReadRequest, 1004, true, 0}}));
}

// The worst that was seen: the client's key is dead when the repetition arrives, and both queue pairs end.
TEST(Reordering, NoSendOvertakesAReadRequestThatWasSentAgain) {
  for (const bool causeway : {false, true}) {
    LoneQp lone(towards(causeway));
    begin_read(lone);
    lone.receive_response(kResponseLast, 1003, 256);
    lone.pass(Duration::us(100));
    EXPECT_EQ(lone.sent(), (SentList{{kReadRequest, 1001, true, 0}}));
    lone.receive_response(kResponseMiddle, 1001, 256);  // the first answer, late
    lone.receive_response(kResponseMiddle, 1002, 256);
    EXPECT_EQ(lone.completions(), "RDMA read 1 success");
    ASSERT_TRUE(lone.post_send(10, 2).ok());
    if (!causeway) {
      EXPECT_EQ(lone.sent().size(), 0u);
      EXPECT_EQ(lone.endpoint->stats().sends_behind_reads, 1u);
      lone.pass(kRoundTrip);
      EXPECT_EQ(lone.sent().size(), 0u);
      lone.pass(kRoundTrip);
    }
    EXPECT_EQ(lone.sent(), (SentList{{Opcode::kRcSendOnly, 1004, true, 10}}));
  }
}

TEST(Reordering, ASendGoesAtOnceWhenTheRepetitionHasBeenAnswered) {
  LoneQp lone(towards(false));
  begin_read(lone);
  lone.receive_response(kResponseLast, 1003, 256);
  lone.pass(Duration::us(100));
  EXPECT_EQ(lone.sent(), (SentList{{kReadRequest, 1001, true, 0}}));
  lone.pass(kRoundTrip);
  lone.receive_response(kResponseFirst, 1001, 256);
  lone.receive_response(kResponseMiddle, 1002, 256);
  EXPECT_EQ(lone.completions(), "RDMA read 1 success");
  ASSERT_TRUE(lone.post_send(10, 2).ok());
  EXPECT_EQ(lone.sent(), (SentList{{Opcode::kRcSendOnly, 1004, true, 10}}));
}

// The place is another queue pair's when the repetition is in the network no more, also when nothing else happens.
TEST(Reordering, AnIdleQueuePairKeepsNoPlaceForWhatItRepeated) {
  LoneQpOptions options = towards(false);
  options.endpoint.recovery.holds_max = 1;
  LoneQp lone(options);
  RcQp* first = lone.qp;
  RcQp* second = lone.connect_another(options);
  for (RcQp* qp : {first, second}) {
    lone.qp = qp;
    begin_read(lone);
    lone.receive_response(kResponseLast, 1003, 256);
    lone.pass(Duration::us(100));
    EXPECT_EQ(lone.sent(), (SentList{{kReadRequest, 1001, true, 0}}));
    lone.receive_response(kResponseMiddle, 1001, 256);
    lone.receive_response(kResponseMiddle, 1002, 256);
    EXPECT_EQ(lone.completions(), "RDMA read 1 success");
    lone.pass(kRoundTrip * 2);
  }
  EXPECT_EQ(lone.endpoint->stats().reads_unfenced, 0u);
  lone.qp = first;
}

// A NAK for each packet that came too early made the gateway send the whole window three times in 100 us.
TEST(Reordering, SequenceNaksMakeItGoBackOnceInARoundTrip) {
  LoneQp lone(towards(false));
  ASSERT_TRUE(lone.post_send(10, 1).ok());
  (void)lone.sent();
  lone.pass(kRoundTrip);
  lone.receive_ack(1000);
  for (uint64_t id = 2; id <= 9; ++id) {
    ASSERT_TRUE(lone.post_send(10, id).ok());
  }
  EXPECT_EQ(lone.sent().size(), 8u);
  lone.pass(kRoundTrip);
  lone.receive_nak(1001, NakCode::kPsnSequenceError);
  EXPECT_EQ(lone.sent().size(), 8u);
  for (uint32_t psn = 1002; psn < 1005; ++psn) {  // what was missing has come, and what overtook it has not been kept
    lone.pass(Duration::us(50));
    lone.receive_nak(psn, NakCode::kPsnSequenceError);
    EXPECT_EQ(lone.sent().size(), 0u);
  }
  lone.pass(kRoundTrip - Duration::us(150));  // the repetition may be answered now
  EXPECT_EQ(lone.sent().size(), 0u);
  lone.pass(kRoundTrip / 4);
  ASSERT_EQ(lone.sent().at(0).psn, 1004u);
  // Where the repetition was not answered either, the next NAK waits only until it could be.
  lone.pass(Duration::us(50));
  lone.receive_nak(1004, NakCode::kPsnSequenceError);
  lone.pass(kRoundTrip - Duration::us(90));
  ASSERT_EQ(lone.sent().at(0).psn, 1004u);
  // It was: an acknowledgement that comes so soon is of the repetition before.
  lone.pass(Duration::us(40));
  lone.receive_ack(1004);
  lone.receive_nak(1005, NakCode::kPsnSequenceError);
  lone.pass(kRoundTrip - Duration::us(40));
  EXPECT_EQ(lone.sent().size(), 0u);
  lone.pass(kRoundTrip / 4);
  ASSERT_EQ(lone.sent().at(0).psn, 1005u);
  lone.receive_ack(1008);
  EXPECT_FALSE(lone.qp->has_unfinished_work());
}

}  // namespace
}  // namespace cw::rc::test
