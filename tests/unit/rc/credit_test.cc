// End-to-end flow control by the credit counts of acknowledgements (IBA 9.7.7.2).
#include "tests/unit/rc/lone_qp.h"

namespace cw::rc::test {
namespace {

// An acknowledgement that counts messages and receives.
void receive_ack(LoneQp& lone, uint32_t psn, uint32_t msn, uint8_t credit_code) {
  Inbound inbound{.opcode = Opcode::kRcAcknowledge, .psn = psn};
  inbound.extensions.aeth = wire::Aeth::ack(msn, credit_code);
  lone.receive(inbound);
}

void post(LoneQp& lone, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    ASSERT_TRUE(lone.qp->post_send({.payload = lone.chain(random_bytes(1, 10)), .signaled = false}).ok());
  }
}

TEST(Credits, TheTableRisesAndCodesRoundDown) {
  for (uint8_t code = 0; code < 30; ++code) {
    EXPECT_LT(wire::credit_count(code), wire::credit_count(static_cast<uint8_t>(code + 1)));
    EXPECT_EQ(wire::credit_code(wire::credit_count(code)), code);
    EXPECT_EQ(wire::credit_code(wire::credit_count(static_cast<uint8_t>(code + 1)) - 1), code);
  }
  EXPECT_EQ(wire::credit_count(5), 6u);
  EXPECT_EQ(wire::credit_count(16), 256u);
  EXPECT_EQ(wire::credit_count(30), 32768u);
  EXPECT_EQ(wire::credit_code(~0u), 30u);
}

TEST(Credits, WithoutACountThereIsNoLimit) {
  LoneQp lone;
  post(lone, 20);
  EXPECT_EQ(lone.sent().size(), 20u);
  receive_ack(lone, 1004, 0, wire::Aeth::kCreditsInvalid);
  post(lone, 20);
  EXPECT_EQ(lone.sent().size(), 20u);
}

TEST(Credits, SendsNoMoreMessagesThanThePeerHasReceives) {
  LoneQp lone;
  post(lone, 1);
  EXPECT_EQ(lone.sent().size(), 1u);
  receive_ack(lone, 1000, 1, 3);  // 3 receives behind message 1: up to message 4
  post(lone, 6);
  EXPECT_EQ(lone.sent().size(), 3u);
  receive_ack(lone, 1002, 3, 2);  // up to message 5
  EXPECT_EQ(lone.sent().size(), 1u);
  receive_ack(lone, 1004, 5, 0);  // up to message 5: one may go, to learn more
  EXPECT_EQ(lone.sent().size(), 1u);
  receive_ack(lone, 1005, 6, wire::Aeth::kCreditsInvalid);
  EXPECT_EQ(lone.sent().size(), 1u);
}

TEST(Credits, AnAcknowledgementSaidAgainBringsNewReceives) {
  LoneQp lone;
  post(lone, 1);
  (void)lone.sent();
  receive_ack(lone, 1000, 1, 1);
  post(lone, 4);
  EXPECT_EQ(lone.sent().size(), 1u);
  receive_ack(lone, 1000, 1, 4);
  EXPECT_EQ(lone.sent().size(), 3u);
}

TEST(Credits, AnOlderCountTakesNothingBack) {
  LoneQp lone;
  post(lone, 2);
  (void)lone.sent();
  receive_ack(lone, 1000, 1, 4);
  receive_ack(lone, 1001, 2, 0);
  post(lone, 4);
  EXPECT_EQ(lone.sent().size(), 3u);
}

TEST(Credits, WhatTakesNoReceiveIsNotHeldUp) {
  LoneQp lone;
  post(lone, 1);
  (void)lone.sent();
  receive_ack(lone, 1000, 1, 0);
  post(lone, 1);
  EXPECT_EQ(lone.sent().size(), 1u);
  ASSERT_TRUE(lone.qp->post_write({.payload = lone.chain(random_bytes(1, 10)), .rkey = verbs::Rkey(3)}).ok());
  ASSERT_TRUE(lone.post_read(10).ok());
  ASSERT_TRUE(lone.post_fetch_add(1).ok());
  ASSERT_TRUE(lone.qp->post_write({.payload = lone.chain(random_bytes(1, 10)), .rkey = verbs::Rkey(3), .immediate = 8}).ok());
  EXPECT_EQ(lone.sent().size(), 3u);
}

TEST(Credits, ALongMessageThatWasBegunIsFinished) {
  LoneQp lone({.qp = {.send_window_packets = 2}});
  post(lone, 1);
  (void)lone.sent();
  receive_ack(lone, 1000, 1, 1);
  ASSERT_TRUE(lone.post_send(1000).ok());
  post(lone, 1);
  EXPECT_EQ(lone.sent().size(), 2u);
  receive_ack(lone, 1002, 1, 0);
  EXPECT_EQ(lone.sent(), (SentList{{Opcode::kRcSendMiddle, 1003, true, 256}, {Opcode::kRcSendLast, 1004, true, 232}}));
  receive_ack(lone, 1004, 2, 0);
  EXPECT_EQ(lone.sent().size(), 1u);
}

TEST(Credits, AWrongMessageNumberCannotStopUs) {
  LoneQp lone;
  post(lone, 1);
  (void)lone.sent();
  for (uint32_t psn = 1000; psn < 1010; ++psn) {
    receive_ack(lone, psn, 0, 0);  // never counts
    post(lone, 1);
    EXPECT_EQ(lone.sent(), (SentList{{kOnly, psn + 1, true, 10}}));
  }
}

TEST(Credits, AreToldWhenTheOwnerWantsIt) {
  LoneQp lone({.qp = {.advertise_credits = true}});
  lone.qp->post_receives(6);
  EXPECT_TRUE(lone.receive(kOnly, 5000, 10));
  EXPECT_EQ(lone.sent(), (SentList{{Opcode::kRcAcknowledge, 5000, false, 0, 4, 1}}));  // 5 left, said as 4
  for (uint32_t psn = 5001; psn <= 5005; ++psn) {
    EXPECT_TRUE(lone.receive(kOnly, psn, 10));
  }
  EXPECT_EQ(lone.sent(), (SentList{{Opcode::kRcAcknowledge, 5005, false, 0, 0, 6}}));
  (void)lone.completions();
}

// Both ends count: no receiver is ever "not ready", however few receives there are beyond the first message.
TEST(Credits, SpareThePeerRnrNaks) {
  sim::RcPairOptions options = pair_options();
  options.qp.advertise_credits = true;
  sim::RcPair pair(options);
  pair.qps[1]->post_receives(2);
  uint32_t posted = 0;
  uint32_t received = 0;
  const bool done = pair.run([&] {
    // The first message goes alone: its acknowledgement brings the first count.
    while (posted < (received == 0 ? 1u : 100u)) {
      EXPECT_TRUE(pair.qps[0]->post_send({.payload = pair.payload(0, random_bytes(1, 3000)), .signaled = false}).ok());
      ++posted;
    }
    verbs::Completion completion;
    while (pair.qps[1]->poll_completion(completion)) {
      pair.qps[1]->post_receives(1);
      ++received;
    }
    return received == 100;
  });
  EXPECT_TRUE(done) << received;
  EXPECT_EQ(pair.stats(1).rnr_naks_sent, 0u);
}

}  // namespace
}  // namespace cw::rc::test
