// A queue pair that goes on in another process: it begins no message, and says there where it goes on.
#include "tests/unit/rc/lone_qp.h"

namespace cw::rc::test {
namespace {

uint64_t discards(const LoneQp& lone, DropReason reason) {
  return lone.endpoint->stats().discards[static_cast<size_t>(reason)];
}

TEST(Pause, NoMessageIsBegunAndNobodyIsToldOfAGap) {
  LoneQp lone;
  lone.qp->post_receives(4);
  ASSERT_TRUE(lone.receive(Opcode::kRcSendOnly, 5000, 10));
  EXPECT_EQ(lone.completions(), "receive 0 success");
  (void)lone.sent();
  lone.qp->pause();
  EXPECT_TRUE(lone.qp->is_idle());
  for (const uint32_t psn : {5001u, 5002u, 5001u, 5009u}) {
    EXPECT_FALSE(lone.receive(Opcode::kRcSendOnly, psn, 10));
  }
  EXPECT_FALSE(lone.receive(Opcode::kRcSendFirst, 5001, 256));
  lone.wait_for_late_ones();
  EXPECT_EQ(lone.sent(), SentList{});
  EXPECT_EQ(lone.completions(), "");
  EXPECT_EQ(discards(lone, DropReason::kPaused), 5u);
  EXPECT_EQ(lone.qp->connected().remote_first_psn, Psn(5001));
}

TEST(Pause, WhatHasBegunIsFinished) {
  LoneQp lone;
  lone.qp->post_receives(4);
  ASSERT_TRUE(lone.receive(Opcode::kRcSendFirst, 5000, 256));
  lone.qp->pause();
  EXPECT_FALSE(lone.qp->is_idle());
  EXPECT_TRUE(lone.receive(Opcode::kRcSendMiddle, 5001, 256));
  EXPECT_TRUE(lone.receive(Opcode::kRcSendLast, 5002, 10));
  EXPECT_FALSE(lone.qp->is_idle()) << "the message has an owner to find";
  EXPECT_EQ(lone.completions(), "receive 0 success");
  EXPECT_FALSE(lone.receive(Opcode::kRcSendOnly, 5003, 10));
  EXPECT_TRUE(lone.qp->is_idle());
  EXPECT_EQ(lone.qp->connected().msn, 1u);
}

TEST(Pause, ARepetitionIsAcknowledgedStill) {
  LoneQp lone;
  lone.qp->post_receives(1);
  ASSERT_TRUE(lone.receive(Opcode::kRcSendOnly, 5000, 10));
  (void)lone.completions();
  (void)lone.sent();
  lone.qp->pause();
  lone.receive(Opcode::kRcSendOnly, 5000, 10);
  EXPECT_EQ(lone.sent(), SentList{ack(5000, 1)});
}

TEST(Pause, WhatWasHeldBehindAGapIsLeftToTheNextProcess) {
  LoneQp lone;
  lone.qp->post_receives(4);
  ASSERT_TRUE(lone.receive(Opcode::kRcSendOnly, 5000, 10));
  (void)lone.completions();
  EXPECT_TRUE(lone.receive(Opcode::kRcSendOnly, 5002, 10)) << "held";
  lone.qp->pause();
  EXPECT_FALSE(lone.receive(Opcode::kRcSendOnly, 5001, 10));
  EXPECT_TRUE(lone.qp->is_idle());
  EXPECT_EQ(lone.qp->connected().remote_first_psn, Psn(5001));
}

TEST(Pause, WorkOfOurOwnIsFinishedFirst) {
  LoneQp lone;
  ASSERT_TRUE(lone.post_send(10, 1).ok());
  EXPECT_EQ(lone.sent().size(), 1u);
  lone.qp->pause();
  EXPECT_FALSE(lone.qp->is_idle());
  lone.receive_ack(1000);
  EXPECT_EQ(lone.completions(), "send 1 success");
  EXPECT_TRUE(lone.qp->is_idle());
  EXPECT_EQ(lone.qp->connected().local_first_psn, Psn(1001));
}

// The first word of the next process tells the peer from where to send again.
TEST(Pause, TheNextProcessAsksForWhatItExpects) {
  LoneQpOptions options;
  options.connect.resumes = true;
  options.connect.msn = 7;
  LoneQp lone(options);
  EXPECT_EQ(lone.sent(), SentList{nak(5000, NakCode::kPsnSequenceError, 7)});
  lone.qp->post_receives(2);
  EXPECT_TRUE(lone.qp->communication_established());
  ASSERT_TRUE(lone.receive(Opcode::kRcSendOnly, 5000, 10));
  EXPECT_EQ(lone.sent(), SentList{ack(5000, 8)});
  EXPECT_EQ(lone.completions(), "receive 0 success");
}

TEST(Pause, AQueuePairGetsTheNumberThatItHad) {
  const EndpointOptions options{.qp_max = 4, .send_work_max = 4, .receive_work_max = 4, .qpn_key = 77};
  SeededRandom random(1);
  Endpoint before(options, random, nullptr);
  std::vector<verbs::Qpn> numbers(4);
  for (verbs::Qpn& number : numbers) {
    number = (*before.create_qp({}))->local_qpn();
  }
  Endpoint after(options, random, nullptr);
  for (const verbs::Qpn number : numbers) {
    const auto qp = after.create_qp({}, number);
    ASSERT_TRUE(qp.ok());
    EXPECT_EQ((*qp)->local_qpn(), number);
    EXPECT_EQ(after.create_qp({}, number).error(), Error::kNoResources) << "it is in use, and nothing is left";
    after.destroy_qp(**qp);
    EXPECT_TRUE(after.create_qp({}, number).ok()) << "who asks for it has reasons";
  }
  EXPECT_EQ(after.create_qp({}).error(), Error::kNoResources);

  EndpointOptions others = options;
  others.core = CoreShare{1, 2};
  Endpoint of_another_core(others, random, nullptr);
  EXPECT_EQ(of_another_core.create_qp({}, verbs::Qpn(numbers[0].value() & ~1u)).error(), Error::kNoResources);
}

}  // namespace
}  // namespace cw::rc::test
