// Calls that a backend owes a reply.
#include "gateway/pending_calls.h"

#include <gtest/gtest.h>

#include <set>

namespace cw::gateway {
namespace {

PendingCall call_at(int64_t ns, uint32_t epoch) {
  return {.call = rpcrdma::CallId(epoch), .since = Instant::from_ns(ns), .epoch = epoch};
}

TEST(PendingCalls, AreFoundByXidAndTakenOnce) {
  PendingCalls calls;
  EXPECT_TRUE(calls.empty());
  for (uint32_t i = 0; i < 5; ++i) {
    calls.add(100 + i, call_at(10 - i, i));
  }
  EXPECT_EQ(calls.oldest(), Instant::from_ns(6));
  const auto taken = calls.take(104);
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->epoch, 4u);
  EXPECT_FALSE(calls.take(104));
  EXPECT_FALSE(calls.has(104));
  EXPECT_TRUE(calls.has(100));
  EXPECT_EQ(calls.oldest(), Instant::from_ns(7));
  EXPECT_EQ(calls.take(100)->epoch, 0u) << "each keeps its own";
  std::set<uint32_t> left;
  calls.for_each([&](uint32_t xid, const PendingCall& call) {
    left.insert(xid);
    EXPECT_EQ(xid, 100 + call.epoch);
  });
  EXPECT_EQ(left, (std::set<uint32_t>{101, 102, 103}));
  EXPECT_EQ(calls.size(), 3u);
}

}  // namespace
}  // namespace cw::gateway
