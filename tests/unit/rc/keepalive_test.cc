// An idle connection notices that its peer is gone.
#include <gtest/gtest.h>

#include "tests/unit/rc/lone_qp.h"

namespace cw::rc::test {
namespace {

constexpr Duration kIdle = Duration::seconds(30);

LoneQpOptions watching() {
  LoneQpOptions options;
  options.qp.keepalive = kIdle;
  options.connect.path_mtu_bytes = 256;
  options.connect.ack_timeout = 14;
  options.connect.retry_count = 2;
  return options;
}

// The wheel is first told the time with the first deadline.
void settle(LoneQp& lone) {
  lone.pass(Duration::ms(1));
  EXPECT_EQ(lone.sent().size(), 0u);
}

TEST(Keepalive, RepeatsAnOldPacketThatThePeerHasToAcknowledge) {
  LoneQp lone(watching());
  settle(lone);
  ASSERT_TRUE(lone.post_send(10).ok());
  EXPECT_EQ(lone.sent().size(), 1u);
  lone.receive_ack(1000);
  for (uint32_t round = 0; round < 5; ++round) {
    lone.pass(kIdle - Duration::ms(2));
    EXPECT_EQ(lone.sent().size(), 0u);
    lone.pass(Duration::ms(4));
    EXPECT_EQ(lone.sent(), (SentList{{kOnly, 1000, true, 0}}));
    lone.receive_ack(1000);
  }
  EXPECT_EQ(lone.endpoint->stats().keepalives_sent, 5u);
  EXPECT_EQ(lone.discards(DropReason::kDuplicate), 0u);
  EXPECT_EQ(lone.endpoint->stats().packets_retransmitted, 0u);
  ASSERT_TRUE(lone.post_send(10).ok());  // and the numbers are as before
  EXPECT_EQ(lone.sent(), (SentList{{kOnly, 1001, true, 10}}));
}

TEST(Keepalive, APeerThatAnswersNoneEndsTheConnectionWithItsCause) {
  LoneQp lone(watching());
  settle(lone);
  lone.pass(kIdle);
  EXPECT_EQ(lone.sent(), (SentList{{kOnly, 999, true, 0}}));
  uint32_t sent = 1;
  for (uint32_t i = 0; i < 100 && lone.qp->state() == QpState::kRts; ++i) {
    lone.pass(Duration::ms(50));
    sent += static_cast<uint32_t>(lone.sent().size());
  }
  EXPECT_EQ(sent, 3u);
  EXPECT_EQ(lone.qp->error().cause, QpErrorCause::kPeerSilent);
  EXPECT_EQ(lone.qp->error().origin, QpErrorOrigin::kRequester);
  EXPECT_EQ(lone.endpoint->stats().keepalives_exhausted, 1u);
  EXPECT_EQ(lone.endpoint->stats().qps_failed, 1u);
  EXPECT_EQ(lone.endpoint->poll_ready(), lone.qp);
}

TEST(Keepalive, AnyUsefulPacketOfThePeerIsASignOfLife) {
  LoneQp lone(watching());
  settle(lone);
  lone.qp->post_receives(8);
  for (uint32_t i = 0; i < 4; ++i) {
    lone.pass(kIdle - Duration::ms(2));
    lone.receive(kOnly, 5000 + i, 10);
    EXPECT_EQ(lone.sent(), (SentList{ack(5000 + i, i + 1)}));
  }
  lone.pass(kIdle - Duration::ms(2));
  lone.receive(kOnly, 5000 + (1u << 22), 10);  // far outside the window: a stranger's guess
  lone.pass(Duration::ms(4));
  EXPECT_EQ(lone.sent(), (SentList{{kOnly, 999, true, 0}}));
  (void)lone.completions();
}

TEST(Keepalive, WaitsWhileWorkIsUnderWay) {
  LoneQp lone(watching());
  settle(lone);
  lone.pass(kIdle - Duration::ms(10));
  ASSERT_TRUE(lone.post_send(10).ok());
  EXPECT_EQ(lone.sent().size(), 1u);
  lone.pass(Duration::ms(20));
  EXPECT_EQ(lone.sent().size(), 0u);
  EXPECT_EQ(lone.endpoint->stats().keepalives_sent, 0u);
}

TEST(Keepalive, IsOffUnlessAskedFor) {
  LoneQp lone;
  EXPECT_EQ(lone.endpoint->next_deadline(), Instant::never());
}

// Both sides of an idle pair ask; after a while one of them is gone.
TEST(Keepalive, TwoIdlePeersKeepEachOtherUntilOneIsGone) {
  sim::RcPairOptions options = pair_options();
  options.qp.keepalive = Duration::seconds(1);
  sim::RcPair pair(options);
  pair.link.faults.loss = 100;
  pair.run_for(Duration::seconds(60));
  for (uint32_t i = 0; i < 2; ++i) {
    EXPECT_EQ(pair.qps[i]->state(), QpState::kRts);
    EXPECT_GT(pair.stats(i).keepalives_sent + pair.stats(1 - i).keepalives_sent, 50u);
    EXPECT_GT(pair.stats(i).duplicate_requests, 0u);
  }
  pair.qps[1]->close();
  pair.run_for(Duration::seconds(6));
  EXPECT_EQ(pair.qps[0]->error().cause, QpErrorCause::kPeerSilent);
  pair.destroy();
}

// A congestion notification carries nothing that a forger has to guess: not even the path's UDP source port.
TEST(Keepalive, ACongestionNotificationIsNoSignOfLife) {
  LoneQp lone(watching());
  settle(lone);
  for (uint32_t i = 0; i < 400 && lone.qp->state() == QpState::kRts; ++i) {
    lone.receive({.opcode = Opcode::kCnp, .payload = std::vector<uint8_t>(16)});
    lone.pass(Duration::ms(100));
    (void)lone.sent();
  }
  EXPECT_EQ(lone.qp->error().cause, QpErrorCause::kPeerSilent);
}

}  // namespace
}  // namespace cw::rc::test
