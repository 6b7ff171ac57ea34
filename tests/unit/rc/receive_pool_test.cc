// Receives shared by several queue pairs.
#include "rocev2/rc/receive_pool.h"

#include "tests/unit/rc/lone_qp.h"

namespace cw::rc::test {
namespace {

LoneQpOptions pooled(ReceivePool& pool) {
  LoneQpOptions options;
  options.qp.receive_pool = &pool;
  return options;
}

// A second connection of the endpoint, by the same peer.
RcQp* another_qp(LoneQp& lone, ReceivePool& pool) {
  RcOptions options;
  options.receive_pool = &pool;
  RcQp* qp = *lone.endpoint->create_qp(options);
  RcConnect connect{.path = sim::RcPair::path(0), .remote_qpn = verbs::Qpn(0x1234), .remote_first_psn = Psn(7000)};
  EXPECT_TRUE(lone.endpoint->connect_qp(*qp, connect).ok());
  return qp;
}

TEST(ReceivePool, ReportsOnceThatItFellBelowItsLimit) {
  ReceivePool pool;
  pool.post(4);
  pool.arm_limit(3);
  pool.take();
  EXPECT_FALSE(pool.take_limit_event());
  pool.take();
  EXPECT_TRUE(pool.take_limit_event());
  EXPECT_FALSE(pool.take_limit_event());
  pool.take();
  EXPECT_FALSE(pool.take_limit_event());
  pool.arm_limit(2);
  EXPECT_TRUE(pool.take_limit_event());
}

TEST(ReceivePool, ServesSeveralQueuePairsUntilItIsEmpty) {
  ReceivePool pool;
  LoneQp lone(pooled(pool));
  RcQp* first = lone.qp;
  RcQp* second = another_qp(lone, pool);
  pool.post(2);
  EXPECT_TRUE(lone.receive(kOnly, 5000, 10));
  lone.qp = second;
  EXPECT_TRUE(lone.receive(kOnly, 7000, 10));
  EXPECT_EQ(pool.available(), 0u);
  EXPECT_FALSE(lone.receive(kOnly, 7001, 10));
  EXPECT_EQ(lone.sent(), (SentList{ack(5000, 1), rnr_nak(7001, 12, 1)}));
  second->post_receives(1);  // goes to the pool
  EXPECT_EQ(pool.available(), 1u);
  EXPECT_EQ(first->info().receives_posted, 1u);
  EXPECT_TRUE(lone.receive(kOnly, 7001, 10));
  EXPECT_EQ(lone.sent(), (SentList{ack(7001, 2)}));
  EXPECT_EQ(lone.completions(), "receive 0 success; receive 0 success");
  lone.qp = first;
  EXPECT_EQ(lone.completions(), "receive 0 success");
}

TEST(ReceivePool, AMessageThatIsNeverDeliveredGivesItsReceiveBack) {
  ReceivePool pool;
  LoneQp lone(pooled(pool));
  pool.post(2);
  lone.receive(kFirst, 5000, 256);
  EXPECT_EQ(pool.available(), 1u);
  lone.qp->close();
  EXPECT_EQ(pool.available(), 2u);
}

TEST(ReceivePool, WhatADestroyedQueuePairHadNotHandedOverComesBack) {
  ReceivePool pool;
  LoneQp lone(pooled(pool));
  pool.post(3);
  lone.receive(kOnly, 5000, 10);
  lone.receive(kFirst, 5001, 256);
  EXPECT_EQ(pool.available(), 1u);
  lone.endpoint->destroy_qp(*lone.qp);
  lone.qp = nullptr;
  EXPECT_EQ(pool.available(), 3u);
}

TEST(ReceivePool, ATooLongMessageIsDeliveredAsAnErrorAndPostedForAgain) {
  ReceivePool pool;
  LoneQpOptions options = pooled(pool);
  options.qp.receive_bytes_max = 100;
  LoneQp lone(options);
  pool.post(2);
  lone.receive(kOnly, 5000, 101);
  EXPECT_EQ(lone.completions(), "receive 0 local length error");
  EXPECT_EQ(pool.available(), 1u);
}

// Eight connections and three receives: everybody is told to wait again and again, and everything arrives.
// Proves RPCRDMA-2.3.2-2: of a message of five packets four have arrived. Until the fifth completes its receive no Buffer of it
// goes to anybody else, whoever asks and whatever he writes into what he gets; nor afterwards, while the owner holds it.
TEST(ReceivePool, WhatAReceiveHasTakenIsNobodyElsesUntilItIsGivenBack) {
  sim::RcPairOptions options = pair_options();
  options.connect.path_mtu_bytes = 1024;
  options.qp.receive_bytes_max = 8192;
  sim::RcPair pair(options);
  HeapBufferPool& pool = pair.nodes[1]->payload_pool;
  const auto scribble = [&pool] {  // all that is free, twice
    for (int round = 0; round < 2; ++round) {
      Chain all;
      while (Buffer* buffer = pool.allocate_one()) {
        const MutableBytes room = buffer->tailroom();
        std::fill(room.begin(), room.end(), uint8_t{0xdd});
        all.push_back(buffer);
      }
    }
  };
  const std::vector<uint8_t> first = sim::random_bytes(1, size_t{5} * 1024);
  const std::vector<uint8_t> second = sim::random_bytes(2, 3000);
  uint32_t to_client = 0;
  pair.link.tap_context = &to_client;
  pair.link.tap = [](void* context, Instant, uint32_t to, const std::vector<uint8_t>&) {
    return to != 1 || ++*static_cast<uint32_t*>(context) <= 4;
  };
  pair.qps[1]->post_receives(2);
  ASSERT_TRUE(pair.qps[0]->post_send({.payload = pair.payload(0, first)}).ok());
  pair.run_for(Duration::us(200));
  verbs::Completion completion;
  EXPECT_FALSE(pair.qps[1]->poll_completion(completion));
  EXPECT_GE(pool.in_use(), 4u) << "pinned";
  scribble();
  pair.link.tap = nullptr;
  ASSERT_TRUE(pair.run([&] { return pair.qps[1]->poll_completion(completion); }));
  EXPECT_EQ(completion.status, verbs::WcStatus::kSuccess);
  EXPECT_EQ(sim::bytes_of(completion.payload), first);
  ASSERT_TRUE(pair.qps[0]->post_send({.payload = pair.payload(0, second)}).ok());
  verbs::Completion next;
  ASSERT_TRUE(pair.run([&] { return pair.qps[1]->poll_completion(next); }));
  scribble();
  EXPECT_EQ(sim::bytes_of(completion.payload), first);
  EXPECT_EQ(sim::bytes_of(next.payload), second);
  completion.payload.clear();
  next.payload.clear();
  pair.run_for(Duration::ms(1));
  pair.destroy();
  EXPECT_EQ(pair.buffers_in_use(), 0u);
}

TEST(ReceivePool, ASmallPoolDelaysAndNeverDeadlocks) {
  ReceivePool pool;
  sim::RcPairOptions settings = pair_options();
  settings.qp.min_rnr_timer = 1;
  settings.qp.receive_pool = &pool;
  sim::RcPair pair(settings);
  std::vector<std::array<RcQp*, 2>> connections{{pair.qps[0], pair.qps[1]}};
  for (uint32_t i = 1; i < 8; ++i) {
    std::array<RcQp*, 2> both{};
    for (uint32_t node = 0; node < 2; ++node) {
      both[node] = *pair.endpoint(node).create_qp(settings.qp);
    }
    for (uint32_t node = 0; node < 2; ++node) {
      RcConnect connect{.path = sim::RcPair::path(node), .remote_qpn = both[1 - node]->local_qpn()};
      ASSERT_TRUE(pair.endpoint(node).connect_qp(*both[node], connect).ok());
    }
    connections.push_back(both);
  }
  pool.post(3);
  constexpr uint32_t kEach = 20;
  for (const auto& both : connections) {
    for (uint32_t i = 0; i < kEach; ++i) {
      ASSERT_TRUE(both[0]->post_send({.payload = pair.payload(0, random_bytes(i, 3000)), .signaled = false}).ok());
    }
  }
  uint32_t received = 0;
  const bool done = pair.run([&] {
    verbs::Completion completion;
    for (const auto& both : connections) {
      while (both[1]->poll_completion(completion)) {
        EXPECT_EQ(completion.status, verbs::WcStatus::kSuccess);
        ++received;
        pool.post(1);
      }
    }
    return received == kEach * 8;
  });
  EXPECT_TRUE(done) << received;
  EXPECT_GT(pair.stats(1).rnr_naks_sent, 0u);
  EXPECT_EQ(pool.available(), 3u);
}

}  // namespace
}  // namespace cw::rc::test
