// The values that a requester's state is made of: what exists, from when to when.
#include "rocev2/rc/send_state.h"

#include <gtest/gtest.h>

#include <cstddef>

namespace cw::rc::test {
namespace {

using wire::Psn;

Instant at_us(int64_t us) {
  return Instant::from_ns(1'000'000'000 + us * 1000);
}

RoundTrip measured(Duration time) {
  RoundTrip rtt;
  rtt.start_sample(Psn(1), at_us(0), false, false);
  (void)rtt.finish_sample(at_us(0) + time);
  return rtt;
}

TEST(RoundTrip, KnowsNothingBeforeTheFirstSample) {
  const RoundTrip rtt;
  EXPECT_FALSE(rtt.is_measured());
  EXPECT_FALSE(rtt.is_trusted());
  EXPECT_FALSE(rtt.is_sampling());
  EXPECT_EQ(rtt.sampled_psn(), std::nullopt);
  EXPECT_EQ(rtt.srtt(), Duration());
  EXPECT_EQ(rtt.min_rtt(), Duration());
}

TEST(RoundTrip, TakesTheFirstSampleAndSmoothsTheOthers) {
  RoundTrip rtt = measured(Duration::us(80));
  EXPECT_TRUE(rtt.is_trusted());
  EXPECT_EQ(rtt.srtt(), Duration::us(80));
  rtt.start_sample(Psn(2), at_us(100), false, false);
  (void)rtt.finish_sample(at_us(260));
  EXPECT_EQ(rtt.srtt(), Duration::us(90));
  // The shortest is slowly forgotten.
  EXPECT_EQ(rtt.min_rtt(), Duration::us(80) + Duration::us(80) / 256);
}

TEST(RoundTrip, HasASampleFromStartToFinish) {
  RoundTrip rtt;
  rtt.start_sample(Psn(7), at_us(10), true, true);
  EXPECT_EQ(rtt.sampled_psn(), Psn(7));
  const RoundTrip::Sample sample = rtt.finish_sample(at_us(60));
  EXPECT_EQ(sample.time, Duration::us(50));
  EXPECT_TRUE(sample.is_read);
  EXPECT_TRUE(sample.is_alone);
  EXPECT_FALSE(sample.is_tainted);
  EXPECT_EQ(rtt.sampled_psn(), std::nullopt);
}

TEST(RoundTrip, ForgetsACancelledSample) {
  RoundTrip rtt;
  rtt.start_sample(Psn(7), at_us(10), false, false);
  rtt.cancel_sample();
  EXPECT_FALSE(rtt.is_sampling());
  rtt.taint_sample();  // none
  EXPECT_FALSE(rtt.is_sampling());
}

TEST(RoundTrip, CountsATaintedSampleUntilThereIsABetterOne) {
  RoundTrip rtt;
  rtt.start_sample(Psn(1), at_us(0), false, false);
  rtt.taint_sample();
  EXPECT_TRUE(rtt.finish_sample(at_us(9000)).is_tainted);
  EXPECT_EQ(rtt.srtt(), Duration::us(9000));
  EXPECT_TRUE(rtt.is_measured());
  EXPECT_FALSE(rtt.is_trusted());
  rtt.start_sample(Psn(2), at_us(10000), false, false);
  EXPECT_FALSE(rtt.finish_sample(at_us(10050)).is_tainted);
  EXPECT_EQ(rtt.srtt(), Duration::us(50));
  EXPECT_EQ(rtt.min_rtt(), Duration::us(50));
  EXPECT_TRUE(rtt.is_trusted());
}

TEST(TailProbe, IsDueThenOutstandingThenSettled) {
  TailProbe probe;
  EXPECT_FALSE(probe.is_due());
  EXPECT_FALSE(probe.outstanding().has_value());
  probe.schedule();
  EXPECT_TRUE(probe.is_due());
  EXPECT_FALSE(probe.outstanding().has_value());
  probe.on_sent(Psn(5), at_us(3));
  EXPECT_FALSE(probe.is_due());
  ASSERT_TRUE(probe.outstanding().has_value());
  EXPECT_EQ(probe.outstanding()->psn, Psn(5));
  EXPECT_EQ(probe.outstanding()->at, at_us(3));
  EXPECT_EQ(probe.count(), 1u);
  probe.settle();
  EXPECT_FALSE(probe.outstanding().has_value());
  EXPECT_EQ(probe.count(), 1u);
}

TEST(TailProbe, ProgressWithdrawsWhatIsDueAndLeavesTheOutstandingOne) {
  TailProbe probe;
  probe.schedule();
  probe.on_sent(Psn(5), at_us(3));
  probe.schedule();
  probe.on_progress(at_us(30), Duration::us(10), true);
  EXPECT_FALSE(probe.is_due());
  EXPECT_EQ(probe.count(), 0u);
  EXPECT_TRUE(probe.outstanding().has_value());  // its answer tells what was lost
}

void probe_and_answer(TailProbe& probe, Duration after, bool all = true) {
  probe.schedule();
  probe.on_sent(Psn(5), at_us(0));
  probe.on_progress(at_us(0) + after, Duration::us(10), all);
  probe.settle();
}

TEST(TailProbe, AnAnswerThatCannotBeToTheProbeTeachesPatience) {
  TailProbe probe;
  for (uint8_t patience = 1; patience <= 4; ++patience) {
    probe_and_answer(probe, Duration::us(9));
    EXPECT_EQ(probe.patience(), patience);
  }
  probe_and_answer(probe, Duration::us(9));
  EXPECT_EQ(probe.patience(), 4u) << "bounded";
}

TEST(TailProbe, ProbesThatAreAnsweredInARowTeachPatienceAndOthersDoNot) {
  TailProbe probe;
  for (uint32_t i = 0; i < 100; ++i) {  // three losses in a row, and an answer without one
    for (uint32_t loss = 0; loss < 3; ++loss) {
      probe_and_answer(probe, Duration::us(50));
    }
    probe.on_progress(at_us(60), Duration::us(10), true);
  }
  EXPECT_EQ(probe.patience(), 0u);
  for (uint32_t i = 0; i < 4; ++i) {
    probe_and_answer(probe, Duration::us(50));
  }
  EXPECT_EQ(probe.patience(), 1u);
  for (uint32_t i = 0; i < 255; ++i) {
    probe.on_progress(at_us(60), Duration::us(10), true);
  }
  EXPECT_EQ(probe.patience(), 1u);
  probe.on_progress(at_us(60), Duration::us(10), true);
  EXPECT_EQ(probe.patience(), 0u) << "given back";
}

TEST(TailProbe, WherePacketsAreLostProbesStayQuick) {
  TailProbe probe;
  for (uint32_t i = 0; i < 100; ++i) {  // each is answered by what it repeated, and the rest is still awaited
    probe_and_answer(probe, Duration::us(50), false);
  }
  EXPECT_EQ(probe.patience(), 0u);
  for (uint32_t i = 0; i < 8; ++i) {
    probe_and_answer(probe, Duration::us(50));
  }
  EXPECT_EQ(probe.patience(), 2u);
  probe.cancel();  // everything is sent again
  EXPECT_EQ(probe.patience(), 0u);
}

TEST(TailProbe, CancelLeavesNothingOfItButTheCount) {
  TailProbe probe;
  probe.schedule();
  probe.on_sent(Psn(5), at_us(3));
  probe.schedule();
  probe.cancel();
  EXPECT_FALSE(probe.is_due());
  EXPECT_FALSE(probe.outstanding().has_value());
  EXPECT_EQ(probe.count(), 2u);
}

TEST(RnrWait, IsUnderWayFromStartToEnd) {
  RnrWait rnr;
  EXPECT_FALSE(rnr.is_under_way());
  rnr.start(at_us(10));
  EXPECT_TRUE(rnr.is_under_way());
  EXPECT_EQ(rnr.until(), at_us(10));
  rnr.end();
  EXPECT_FALSE(rnr.is_under_way());
}

TEST(Retries, AreExhaustedAtTheLimitAndStartAgainWithProgress) {
  Retries retries(2);
  EXPECT_FALSE(retries.exhausted());
  retries.use();
  EXPECT_FALSE(retries.exhausted());
  retries.use();
  EXPECT_TRUE(retries.exhausted());
  retries.on_progress();
  EXPECT_EQ(retries.used(), 0u);
  EXPECT_EQ(retries.max(), 2u);
  EXPECT_TRUE(Retries(0).exhausted());
}

TEST(SuspectedLoss, HasProgressedOnlyWhileItExists) {
  SuspectedLoss suspected;
  EXPECT_FALSE(suspected.exists());
  EXPECT_FALSE(suspected.progressed());
  suspected.note_nak(true);
  EXPECT_TRUE(suspected.exists());
  EXPECT_TRUE(suspected.progressed());
  EXPECT_FALSE(suspected.is_of_probe());
  suspected.drop();
  EXPECT_FALSE(suspected.progressed());
  suspected.note_nak(false);
  EXPECT_TRUE(suspected.exists());
  EXPECT_FALSE(suspected.progressed());
  suspected.note_probe_answer();
  EXPECT_TRUE(suspected.is_of_probe());
  EXPECT_TRUE(suspected.progressed());
  EXPECT_TRUE(suspected.is_patient());
  suspected.learn(false);
  suspected.drop();
  EXPECT_FALSE(suspected.is_patient());
}

TEST(Recovery, EndsWithEverythingThatWasTrueOfIt) {
  Recovery recovery;
  EXPECT_FALSE(recovery.is_under_way());
  recovery.start(at_us(1));
  recovery.note_timeout();
  recovery.note_ahead(Psn(9));
  EXPECT_TRUE(recovery.is_under_way());
  EXPECT_TRUE(recovery.timed_out());
  EXPECT_EQ(recovery.last_ahead(), Psn(9));
  recovery.end();
  EXPECT_FALSE(recovery.is_under_way());
  EXPECT_FALSE(recovery.timed_out());
  EXPECT_EQ(recovery.last_ahead(), std::nullopt);
  EXPECT_EQ(recovery.went_back_at(), at_us(1));  // a repetition may still be under way
}

TEST(Recovery, GoesOnWhenATimeoutIsOver) {
  Recovery recovery;
  recovery.clear_timeout();
  EXPECT_FALSE(recovery.is_under_way());
  recovery.start(at_us(1));
  recovery.note_timeout();
  recovery.clear_timeout();
  EXPECT_FALSE(recovery.timed_out());
  EXPECT_TRUE(recovery.is_under_way());
  recovery.note_timeout();
  recovery.start(at_us(2));
  EXPECT_FALSE(recovery.timed_out());
  EXPECT_EQ(recovery.went_back_at(), at_us(2));
}

TEST(Recovery, RemembersWhatCameAheadWhenItGoesBackAgain) {
  Recovery recovery;
  recovery.note_ahead(Psn(9));
  recovery.start(at_us(1));
  EXPECT_EQ(recovery.last_ahead(), Psn(9));
}

TEST(Keepalive, CountsFromTheLastPacketHeard) {
  Keepalive keepalive(Duration::ms(5));
  EXPECT_TRUE(keepalive.is_enabled());
  EXPECT_FALSE(Keepalive().is_enabled());
  keepalive.watch_from(at_us(1));
  keepalive.watch_from(at_us(2));
  EXPECT_EQ(keepalive.alive_at(), at_us(1));
  keepalive.ask(at_us(10));
  keepalive.clear_due();
  keepalive.ask(at_us(20));
  EXPECT_TRUE(keepalive.is_due());
  EXPECT_EQ(keepalive.count(), 2u);
  EXPECT_EQ(keepalive.asked_at(), at_us(20));
  EXPECT_EQ(keepalive.alive_at(), at_us(1));
  keepalive.on_heard(at_us(21));
  EXPECT_EQ(keepalive.count(), 0u);
  EXPECT_EQ(keepalive.alive_at(), at_us(21));
}

SendWindow window_at(uint32_t psn) {
  SendWindow window(64, 16);
  window.begin_at(Psn(psn), 4);
  return window;
}

TEST(SendWindow, CountsResponsesApartFromPackets) {
  SendWindow window = window_at(0xff'fffe);
  EXPECT_EQ(window.packets_max(), 64u);
  EXPECT_EQ(window.initiator_depth(), 4u);
  EXPECT_FALSE(window.awaiting());
  window.on_sent(1, false);
  window.on_sent(8, true);
  window.on_sent(1, false);
  EXPECT_EQ(window.una(), Psn(0xff'fffe));
  EXPECT_EQ(window.next_psn(), Psn(8));  // past the wrap
  EXPECT_EQ(window.limit_psn(), Psn(8));
  EXPECT_EQ(window.psns_in_flight(), 10u);
  EXPECT_EQ(window.packets_in_flight(), 2u);
  EXPECT_EQ(window.read_psns(), 8u);
  EXPECT_EQ(window.reads_outstanding(), 1u);
  EXPECT_TRUE(window.is_outstanding(Psn(7)));
  EXPECT_FALSE(window.is_outstanding(Psn(8)));
  EXPECT_FALSE(window.is_outstanding(Psn(0xff'fffd)));
  EXPECT_TRUE(window.is_consistent());
}

TEST(SendWindow, TakesResponsesUntilTheRequestIsWhole) {
  SendWindow window = window_at(100);
  window.on_sent(8, true);
  window.on_responses(3, false);
  EXPECT_EQ(window.una(), Psn(103));
  EXPECT_EQ(window.read_psns(), 5u);
  EXPECT_EQ(window.reads_outstanding(), 1u);
  window.on_responses(5, true);
  EXPECT_FALSE(window.awaiting());
  EXPECT_EQ(window.reads_outstanding(), 0u);
  EXPECT_FALSE(window.catch_up());
  EXPECT_TRUE(window.is_consistent());
}

TEST(SendWindow, CatchesUpWhenMoreIsAcknowledgedThanWasSentAgain) {
  SendWindow window = window_at(100);
  window.on_sent(1, false);
  window.on_sent(8, true);
  window.go_back_to(Psn(100), {});
  EXPECT_FALSE(window.awaiting());
  EXPECT_EQ(window.limit_psn(), Psn(109));
  window.on_sent(1, false);
  EXPECT_EQ(window.limit_psn(), Psn(109));
  window.acknowledge(Psn(101));
  EXPECT_FALSE(window.catch_up());
  window.on_responses(2, false);  // to the first transmission: they are not counted any more
  EXPECT_FALSE(window.is_consistent());
  EXPECT_TRUE(window.catch_up());
  EXPECT_TRUE(window.is_consistent());
  EXPECT_EQ(window.una(), Psn(103));
  EXPECT_EQ(window.next_psn(), Psn(103));
  EXPECT_EQ(window.read_psns(), 0u);
}

TEST(SendWindow, GoesBackBehindWhatIsStillAwaited) {
  SendWindow window = window_at(100);
  window.on_sent(8, true);
  window.on_sent(1, false);
  window.go_back_to(Psn(108), {.psns = 8, .requests = 1});
  EXPECT_EQ(window.next_psn(), Psn(108));
  EXPECT_EQ(window.packets_in_flight(), 0u);
  EXPECT_EQ(window.reads_outstanding(), 1u);
}

TEST(SendWindow, AwaitsNothingWhenAbandoned) {
  SendWindow window = window_at(100);
  window.on_sent(8, true);
  window.on_sent(1, false);
  window.go_back_to(Psn(100), {});
  window.abandon();
  EXPECT_FALSE(window.awaiting());
  EXPECT_EQ(window.una(), Psn(109));
  EXPECT_EQ(window.read_psns(), 0u);
  EXPECT_TRUE(window.is_consistent());
}

// What comes before these is all that sending, and acknowledgements of SENDs and WRITEs, touch.
TEST(SendState, KeepsWhatOnlyReadsAndRecoveryTouchBehindFourLines) {
  EXPECT_LE(offsetof(SendState, longest_pause), 4u * 64 - 8);  // it begins eight bytes into a line
}

}  // namespace
}  // namespace cw::rc::test
