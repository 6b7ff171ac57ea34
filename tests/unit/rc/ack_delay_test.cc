// Acknowledgements of SENDs that wait for those of the SENDs behind them (ack_policy.h, EndpointOptions::ack_delay).
#include "rocev2/rc/ack_policy.h"

#include "tests/unit/rc/lone_qp.h"

namespace cw::rc::test {
namespace {

using SentList = std::vector<Sent>;

constexpr Duration kDelay = Duration::us(20);

LoneQpOptions patient() {
  LoneQpOptions options = client_options();
  options.endpoint.receive_work_max = 64;
  options.endpoint.ack_delay = kDelay;
  options.remote_psn = 4999;
  return options;
}

// The peer has sent a first message just before.
struct Busy : LoneQp {
  explicit Busy(const LoneQpOptions& options = patient()) : LoneQp(options) {
    qp->post_receives(1);
    receive(Opcode::kRcSendOnly, 4999, 10);
    EXPECT_EQ(sent(), (SentList{ack(4999, 1)}));
  }
};

// A READ or WRITE that names no memory.
Inbound of_no_bytes(Opcode opcode, uint32_t psn) {
  Inbound inbound{.opcode = opcode, .psn = psn};
  inbound.extensions.reth = wire::Reth{0, verbs::Rkey(1), 0};
  return inbound;
}

TEST(AckDelay, WhoHasBeenSilentIsAnsweredAtOnce) {
  LoneQp lone(patient());
  lone.qp->post_receives(8);
  for (uint32_t i = 0; i < 4; ++i) {
    lone.receive(Opcode::kRcSendOnly, 4999 + i, 10);
    EXPECT_EQ(lone.sent(), (SentList{ack(4999 + i, i + 1)}));
    lone.pass(kDelay + Duration::ns(1));
  }
  (void)lone.completions();
}

TEST(AckDelay, OneAcknowledgementForSendsOfSeveralBurstsLeavesWhenTheDelayIsOver) {
  Busy lone;
  lone.qp->post_receives(8);
  lone.receive(Opcode::kRcSendOnly, 5000, 10);
  EXPECT_EQ(lone.endpoint->next_deadline(), lone.now + kDelay);
  EXPECT_FALSE(lone.endpoint->has_work());
  EXPECT_EQ(lone.sent(), SentList{});
  lone.pass(Duration::us(15));
  lone.receive(Opcode::kRcSendOnly, 5001, 10);
  EXPECT_EQ(lone.sent(), SentList{});
  lone.pass(Duration::us(5));  // the first one's delay: it has waited long enough for all of them
  EXPECT_EQ(lone.sent(), (SentList{ack(5001, 3)}));
  lone.pass(Duration::ms(1));
  EXPECT_EQ(lone.sent(), SentList{});
  EXPECT_TRUE(lone.endpoint->next_deadline().is_never());
  (void)lone.completions();
}

TEST(AckDelay, NobodyWaitsForMoreThanSoMany) {
  Busy lone;
  lone.qp->post_receives(2 * kAcksLaterMax);
  for (uint32_t i = 0; i < kAcksLaterMax; ++i) {
    EXPECT_EQ(lone.sent(), SentList{}) << i;
    lone.receive(Opcode::kRcSendOnly, 5000 + i, 10);
  }
  EXPECT_EQ(lone.sent(), (SentList{ack(5000 + kAcksLaterMax - 1, kAcksLaterMax + 1)}));
  lone.receive(Opcode::kRcSendOnly, 5000 + kAcksLaterMax, 10);
  EXPECT_EQ(lone.sent(), SentList{});
  lone.endpoint->flush_acknowledgements();
  EXPECT_EQ(lone.sent(), (SentList{ack(5000 + kAcksLaterMax, kAcksLaterMax + 1 + 1)}));
  (void)lone.completions();
}

TEST(AckDelay, OurOwnRequestsDoNotTakeItAlong) {
  Busy lone;
  lone.qp->post_receives(8);
  lone.receive(Opcode::kRcSendOnly, 5000, 10);
  ASSERT_TRUE(lone.post_send(10).ok());
  EXPECT_EQ(lone.sent(), (SentList{{Opcode::kRcSendOnly, 1000, true, 10}}));
  lone.pass(kDelay);
  EXPECT_EQ(lone.sent(), (SentList{ack(5000, 2)}));
  (void)lone.completions();
}

TEST(AckDelay, AWriteAPacketWithinAMessageAndARepetitionAreAcknowledgedAtOnce) {
  Busy lone;
  lone.qp->post_receives(8);
  lone.receive(Opcode::kRcSendOnly, 5000, 10);
  lone.receive(of_no_bytes(Opcode::kRcWriteOnly, 5001));
  EXPECT_EQ(lone.sent(), (SentList{ack(5001, 3)})) << "of the SEND as well";
  lone.receive(Opcode::kRcSendFirst, 5002, 256);
  EXPECT_EQ(lone.sent(), (SentList{ack(5002, 3)})) << "within a message its sender may have come to the end of its window";
  lone.receive(Opcode::kRcSendLast, 5003, 10);
  EXPECT_EQ(lone.sent(), SentList{});
  lone.receive(Opcode::kRcSendLast, 5003, 10);
  EXPECT_EQ(lone.sent(), (SentList{ack(5003, 4)})) << "an acknowledgement may have been lost";
  (void)lone.completions();
}

TEST(AckDelay, AGapIsReportedAtOnce) {
  LoneQpOptions options = patient();
  options.qp.selective_recovery = false;
  Busy lone(options);
  lone.qp->post_receives(8);
  lone.receive(Opcode::kRcSendOnly, 5000, 10);
  lone.receive(Opcode::kRcSendOnly, 5002, 10);
  EXPECT_EQ(lone.sent(), (SentList{nak(5001, NakCode::kPsnSequenceError, 2)}));
  lone.receive(Opcode::kRcSendOnly, 5001, 10);
  lone.pass(kDelay);
  EXPECT_EQ(lone.sent(), (SentList{ack(5001, 3)}));
  (void)lone.completions();
}

TEST(AckDelay, AReadAnswersForIt) {
  Busy lone;
  lone.qp->post_receives(8);
  lone.receive(Opcode::kRcSendOnly, 5000, 10);
  lone.receive(of_no_bytes(Opcode::kRcReadRequest, 5001));
  lone.receive(Opcode::kRcSendOnly, 5002, 10);
  const SentList responses = lone.sent();
  ASSERT_EQ(responses.size(), 1u);
  EXPECT_EQ(responses[0].opcode, Opcode::kRcReadResponseOnly);
  lone.pass(kDelay);
  EXPECT_EQ(lone.sent(), (SentList{ack(5002, 4)}));
  (void)lone.completions();
}

// The queue pair is still in line for the acknowledgement that the READ's answer made needless.
TEST(AckDelay, BehindAReadThatTookAnEarlierAcknowledgementItIsNotForgotten) {
  Busy lone;
  lone.qp->post_receives(8);
  lone.receive(Opcode::kRcSendFirst, 5000, 256);
  lone.receive(Opcode::kRcSendLast, 5001, 10);
  lone.receive(of_no_bytes(Opcode::kRcReadRequest, 5002));
  lone.receive(Opcode::kRcSendOnly, 5003, 10);
  const SentList all = lone.sent();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].opcode, Opcode::kRcReadResponseOnly);
  EXPECT_EQ(all[1], ack(5003, 4));
  (void)lone.completions();
}

TEST(AckDelay, ARefusalIsNotHeldWithIt) {
  Busy lone;
  lone.qp->post_receives(8);
  lone.receive(Opcode::kRcSendOnly, 5000, 10);
  lone.receive(Opcode::kRcSendMiddle, 5001, 256);  // no message was begun
  EXPECT_EQ(lone.qp->state(), QpState::kError);
  EXPECT_EQ(lone.sent(), (SentList{nak(5001, NakCode::kInvalidRequest, 2)}));
  (void)lone.completions();
}

TEST(AckDelay, AClosedOrDestroyedQueuePairLeavesNothingBehind) {
  for (const bool destroyed : {false, true}) {
    Busy lone;
    lone.qp->post_receives(8);
    lone.receive(Opcode::kRcSendOnly, 5000, 10);
    if (destroyed) {
      lone.endpoint->destroy_qp(*lone.qp);
      lone.qp = nullptr;
    } else {
      lone.qp->close();
    }
    EXPECT_TRUE(lone.endpoint->next_deadline().is_never());
    lone.endpoint->flush_acknowledgements();
    EXPECT_FALSE(lone.endpoint->has_work());
    if (!destroyed) {
      (void)lone.completions();
    }
  }
}

TEST(AckDelay, APeerThatCountsOurReceivesLearnsOfThemAtOnce) {
  LoneQpOptions options = patient();
  options.qp.advertise_credits = true;
  LoneQp lone(options);
  lone.qp->post_receives(8);
  lone.receive(Opcode::kRcSendOnly, 4999, 10);
  EXPECT_EQ(lone.sent().size(), 1u);
  lone.receive(Opcode::kRcSendOnly, 5000, 10);
  EXPECT_EQ(lone.sent().size(), 1u);
  (void)lone.completions();
}

}  // namespace
}  // namespace cw::rc::test
