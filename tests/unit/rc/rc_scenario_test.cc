// Two endpoints on one link: behaviour that only shows over time.
#include <gtest/gtest.h>

#include "apps/sim/rc_pair.h"
#include "tests/unit/rc/lone_qp.h"

namespace cw::sim {
namespace {

RcPairOptions options(uint32_t mtu_bytes = 1024) {
  RcPairOptions options = rc::test::pair_options();
  options.connect.path_mtu_bytes = mtu_bytes;
  options.connect.initiator_depth = 8;
  options.connect.responder_resources = 8;
  options.qp.send_window_packets = 64;
  options.qp.receive_bytes_max = 1u << 20;
  return options;
}

struct Drained {
  uint32_t succeeded = 0;
  uint32_t failed = 0;
};

Drained drain(rc::RcQp& qp) {
  Drained drained;
  verbs::Completion completion;
  while (qp.poll_completion(completion)) {
    (completion.status == verbs::WcStatus::kSuccess ? drained.succeeded : drained.failed) += 1;
    completion.payload.clear();
  }
  return drained;
}

// Sends `count` messages of `bytes`, a few at a time; how long it took.
Duration send_many(RcPair& pair, uint32_t count, uint32_t bytes) {
  const std::vector<uint8_t> raw = random_bytes(1, bytes);
  const Instant begin = pair.now;
  uint32_t posted = 0;
  uint32_t completed = 0;
  uint32_t received = 0;
  pair.qps[1]->post_receives(count);
  const bool finished = pair.run([&] {
    while (posted < count && posted - completed < 16) {
      EXPECT_TRUE(pair.qps[0]->post_send({.payload = pair.payload(0, raw)}).ok());
      ++posted;
    }
    completed += drain(*pair.qps[0]).succeeded;
    received += drain(*pair.qps[1]).succeeded;
    return completed == count && received == count;
  });
  EXPECT_TRUE(finished) << to_string(pair.qps[0]->error().cause);
  return pair.now - begin;
}

TEST(RcScenario, OnePercentOfLossCostsNoTimeoutWhileTrafficFlows) {
  RcPair pair(options());
  pair.link.faults.loss = 10;
  send_many(pair, 4000, 4096);
  EXPECT_GT(pair.stats(0).packets_retransmitted, 100u);
  EXPECT_LE(pair.stats(0).ack_timeouts, 2u);
  pair.destroy();
}

TEST(RcScenario, ReorderingCostsRepetitionsButNothingElse) {
  RcPair pair(options());
  pair.link.faults.reorder = 20;
  send_many(pair, 1000, 4096);
  EXPECT_EQ(pair.stats(0).ack_timeouts, 0u);
  pair.destroy();
  EXPECT_EQ(pair.buffers_in_use(), 0u);
}

TEST(RcScenario, ACleanLinkCausesNoRepetitionsAtAll) {
  RcPair pair(options());
  send_many(pair, 1000, 4096);
  EXPECT_EQ(pair.stats(0).packets_retransmitted, 0u);
  EXPECT_EQ(pair.stats(0).tail_probes, 0u);
  EXPECT_EQ(pair.stats(1).naks_sent[0], 0u);
  EXPECT_EQ(pair.stats(1).duplicate_requests, 0u);
  pair.destroy();
}

TEST(RcScenario, ABlackHoleEndsInRetryExceededOnTheSideThatWaits) {
  RcPair pair(options());
  pair.link.faults.loss = 1000;
  ASSERT_TRUE(pair.qps[0]->post_send({.payload = pair.payload(0, random_bytes(1, 100))}).ok());
  ASSERT_TRUE(pair.run([&] { return pair.qps[0]->in_error(); }, Duration::seconds(60)));
  EXPECT_EQ(pair.qps[0]->error().cause, rc::QpErrorCause::kRetryExceeded);
  EXPECT_EQ(pair.qps[0]->error().psn, wire::Psn(100));
  EXPECT_EQ(drain(*pair.qps[0]).failed, 1u);
  EXPECT_EQ(pair.qps[1]->state(), rc::QpState::kRts);
  // 67 ms x (1 + 2 + 4 + 5 x 8): some three seconds, not minutes.
  EXPECT_LT(pair.now - Instant::from_ns(1'000'000'000), Duration::seconds(4));
  pair.destroy();
  EXPECT_EQ(pair.buffers_in_use(), 0u);
}

TEST(RcScenario, ARepetitionBudgetOfZeroFailsAtTheFirstTimeout) {
  RcPairOptions few = options();
  few.connect.retry_count = 0;
  RcPair pair(few);
  pair.link.faults.loss = 1000;
  ASSERT_TRUE(pair.qps[0]->post_send({.payload = pair.payload(0, random_bytes(1, 100))}).ok());
  ASSERT_TRUE(pair.run([&] { return pair.qps[0]->in_error(); }));
  EXPECT_EQ(pair.stats(0).ack_timeouts, 1u);
  pair.destroy();
}

TEST(RcScenario, ASlowReceiverIsWaitedForAndNothingIsLost) {
  RcPair pair(options());
  for (uint32_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(pair.qps[0]->post_send({.payload = pair.payload(0, random_bytes(i, 3000))}).ok());
  }
  uint32_t received = 0;
  Instant next_receive = pair.now;
  ASSERT_TRUE(pair.run([&] {
    if (pair.now >= next_receive && received < 20) {
      pair.qps[1]->post_receives(1);
      next_receive = pair.now + Duration::ms(2);
    }
    verbs::Completion completion;
    while (pair.qps[1]->poll_completion(completion)) {
      EXPECT_EQ(bytes_of(completion.payload), random_bytes(received, 3000));
      ++received;
      completion.payload.clear();
    }
    return received == 20 && !pair.qps[0]->has_unfinished_work();
  }));
  EXPECT_GT(pair.stats(1).rnr_naks_sent, 0u);
  EXPECT_EQ(pair.stats(0).ack_timeouts, 0u);
  pair.destroy();
}

TEST(RcScenario, ARefusedRequestEndsBothSidesAndSaysWhy) {
  RcPairOptions server = options();
  server.exposes_memory = false;  // the server role: no READ, no WRITE
  RcPair pair(server);
  ASSERT_TRUE(pair.qps[0]->post_read({.id = verbs::WorkId(5), .length = 100}).ok());
  ASSERT_TRUE(pair.qps[0]->post_send({.payload = pair.payload(0, random_bytes(1, 100))}).ok());
  ASSERT_TRUE(pair.run([&] { return pair.qps[0]->in_error(); }));
  EXPECT_EQ(pair.qps[0]->error().cause, rc::QpErrorCause::kNakInvalidRequest);
  EXPECT_EQ(pair.qps[1]->error().cause, rc::QpErrorCause::kOperationNotAllowed);
  verbs::Completion completion;
  ASSERT_TRUE(pair.qps[0]->poll_completion(completion));
  EXPECT_EQ(completion.id, verbs::WorkId(5));
  EXPECT_EQ(completion.status, verbs::WcStatus::kRemoteInvalidRequest);
  EXPECT_EQ(drain(*pair.qps[0]).failed, 1u);
  pair.destroy();
  EXPECT_EQ(pair.buffers_in_use(), 0u);
}

TEST(RcScenario, MarkedPacketsAreCountedAndDelivered) {
  RcPair pair(options());
  pair.link.faults.mark = 500;
  send_many(pair, 100, 1000);
  EXPECT_GT(pair.stats(1).ecn_marked, 20u);
  EXPECT_EQ(pair.nodes[1]->bad_frames, 0u);
  pair.destroy();
}

TEST(RcScenario, ALostTailIsRepairedByAProbeNotByATimeout) {
  RcPair pair(options());
  send_many(pair, 10, 1000);
  const Instant begin = pair.now;
  pair.link.faults.loss = 1000;
  pair.qps[1]->post_receives(1);
  ASSERT_TRUE(pair.qps[0]->post_send({.payload = pair.payload(0, random_bytes(1, 100))}).ok());
  pair.transmit();
  pair.link.faults.loss = 0;
  ASSERT_TRUE(pair.run([&] { return !pair.qps[0]->has_unfinished_work(); }));
  EXPECT_LT(pair.now - begin, Duration::ms(1));
  EXPECT_EQ(pair.stats(0).ack_timeouts, 0u);
  EXPECT_EQ(pair.stats(0).tail_probes, 1u);
  (void)drain(*pair.qps[1]);
  (void)drain(*pair.qps[0]);
  pair.destroy();
}

TEST(RcScenario, AThousandConnectionsComeAndGoAndNothingIsLeft) {
  RcPair pair(options());
  Endpoint& client = pair.endpoint(0);
  Endpoint& server = pair.endpoint(1);
  for (uint32_t i = 0; i < 1000; ++i) {
    rc::RcQp* a = *client.create_qp({});
    rc::RcQp* b = *server.create_qp({});
    rc::RcConnect connect{.path = RcPair::path(0), .remote_qpn = b->local_qpn()};
    ASSERT_TRUE(client.connect_qp(*a, connect).ok());
    connect.path = RcPair::path(1);
    connect.remote_qpn = a->local_qpn();
    ASSERT_TRUE(server.connect_qp(*b, connect).ok());
    b->post_receives(1);
    ASSERT_TRUE(a->post_send({.payload = pair.payload(0, random_bytes(i, 500))}).ok());
    for (uint32_t steps = i % 4; steps > 0; --steps) {
      pair.step();
    }
    client.destroy_qp(*a);  // with whatever is under way
    server.destroy_qp(*b);
  }
  pair.run_for(Duration::ms(100));
  pair.destroy();
  EXPECT_EQ(pair.buffers_in_use(), 0u);
  EXPECT_EQ(client.qp_count(), 0u);
}

}  // namespace
}  // namespace cw::sim
