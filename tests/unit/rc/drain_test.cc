// SQD: what has been begun is finished, nothing else is begun (IBA 10.3.1).
#include "tests/unit/rc/lone_qp.h"

namespace cw::rc::test {
namespace {

TEST(Drain, FinishesWhatWasBegunAndBeginsNothing) {
  LoneQp lone({.qp = {.send_window_packets = 2}});
  ASSERT_TRUE(lone.post_send(1000, 1).ok());
  ASSERT_TRUE(lone.post_send(10, 2).ok());
  EXPECT_EQ(lone.sent().size(), 2u);
  ASSERT_TRUE(lone.qp->drain().ok());
  EXPECT_EQ(lone.qp->state(), QpState::kSqd);
  ASSERT_TRUE(lone.post_send(10, 3).ok());  // accepted, and waits
  lone.receive_ack(1001);
  EXPECT_EQ(lone.sent().size(), 2u);
  EXPECT_FALSE(lone.qp->drained());
  lone.receive_ack(1003);
  EXPECT_EQ(lone.completions(), "send 1 success");
  EXPECT_TRUE(lone.qp->drained());
  EXPECT_EQ(lone.endpoint->poll_ready(), lone.qp);
  EXPECT_EQ(lone.sent(), SentList{});

  ASSERT_TRUE(lone.endpoint->to_rts(*lone.qp).ok());
  EXPECT_EQ(lone.sent(), (SentList{{Opcode::kRcSendOnly, 1004, true, 10}, {Opcode::kRcSendOnly, 1005, true, 10}}));
  lone.receive_ack(1005);
  EXPECT_EQ(lone.completions(), "send 2 success; send 3 success");
}

TEST(Drain, RepeatsWhatWasLost) {
  LoneQp lone;
  ASSERT_TRUE(lone.post_send(600, 1).ok());
  (void)lone.sent();
  ASSERT_TRUE(lone.qp->drain().ok());
  lone.receive_nak(1001, NakCode::kPsnSequenceError);
  EXPECT_EQ(lone.sent().size(), 2u);
  EXPECT_FALSE(lone.qp->drained());
  lone.pass(ack_timeout(8) * 2);
  EXPECT_EQ(lone.sent().size(), 1u);
  lone.receive_ack(1001);
  EXPECT_EQ(lone.sent().size(), 1u);
  lone.receive_ack(1002);
  EXPECT_TRUE(lone.qp->drained());
  EXPECT_EQ(lone.completions(), "send 1 success");
}

TEST(Drain, AnIdleQueuePairIsDrainedAtOnceAndStillReceives) {
  LoneQp lone;
  lone.qp->post_receives(1);
  ASSERT_TRUE(lone.qp->drain().ok());
  EXPECT_TRUE(lone.qp->drained());
  EXPECT_EQ(lone.endpoint->poll_ready(), lone.qp);
  EXPECT_TRUE(lone.receive(Opcode::kRcSendOnly, 5000, 10));
  EXPECT_EQ(lone.completions(), "receive 0 success");
  EXPECT_EQ(lone.sent(), (SentList{ack(5000, 1)}));
}

TEST(Drain, IsRefusedOutsideReadyToSend) {
  for (const QpState state : {QpState::kInit, QpState::kRtr}) {
    LoneQp lone({.state = state});
    EXPECT_EQ(lone.qp->drain().error(), Error::kBadState);
  }
  LoneQp lone;
  ASSERT_TRUE(lone.qp->drain().ok());
  EXPECT_EQ(lone.qp->drain().error(), Error::kBadState);
  lone.qp->close();
  EXPECT_EQ(lone.qp->drain().error(), Error::kBadState);
}

TEST(Drain, CloseFlushesWhatWaits) {
  LoneQp lone;
  ASSERT_TRUE(lone.qp->drain().ok());
  ASSERT_TRUE(lone.post_send(10, 1).ok());
  lone.qp->close();
  EXPECT_EQ(lone.completions(), "send 1 work request flushed");
}

}  // namespace
}  // namespace cw::rc::test
