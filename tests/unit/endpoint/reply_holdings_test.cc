// What replies hold is given up in order, never early, and all of it in the end, also when endpoints share too few entries.
#include "rpcrdma/endpoint/reply_holdings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>

#include "base/random.h"

namespace cw::rpcrdma {
namespace {

using Entries = Slab<ReplyHoldings::Entry>;

TEST(ReplyHoldings, GivesUpEachReplyWhenItsWorksAreDone) {
  Entries entries(8);
  ReplyHoldings holdings;
  holdings.add(entries, 3, 100);
  holdings.add(entries, 7, 20);
  holdings.add(entries, 9, 3);
  EXPECT_EQ(holdings.settle(entries, 2), 0u);
  EXPECT_EQ(holdings.settle(entries, 7), 120u);
  EXPECT_EQ(holdings.settle(entries, 8), 0u);
  EXPECT_EQ(holdings.settle(entries, 9), 3u);
  EXPECT_EQ(holdings.settle(entries, 100), 0u);
  EXPECT_EQ(entries.in_use(), 0u);
}

TEST(ReplyHoldings, WithoutAnEntryRepliesAreGivenUpTogether) {
  Entries entries(0);
  ReplyHoldings holdings;
  holdings.add(entries, 3, 100);
  holdings.add(entries, 7, 20);
  holdings.add(entries, 9, 3);
  EXPECT_EQ(holdings.settle(entries, 2), 0u);
  EXPECT_EQ(holdings.settle(entries, 3), 100u);
  EXPECT_EQ(holdings.settle(entries, 7), 0u);
  EXPECT_EQ(holdings.settle(entries, 9), 23u);
}

// A neighbour has all entries. Two replies of this endpoint are always under way, so that it is never done with all of them.
TEST(ReplyHoldings, AnEndpointThatIsNeverIdleGivesUpItsRepliesWithoutAnEntry) {
  Entries entries(0);
  ReplyHoldings holdings;
  uint64_t kept = 0;
  for (uint64_t posted = 1; posted <= 1000; ++posted) {
    holdings.add(entries, posted, 1);
    ++kept;
    kept -= holdings.settle(entries, posted - std::min<uint64_t>(posted, 2));
    ASSERT_LE(kept, 5u) << posted << " posted";
  }
}

TEST(ReplyHoldings, WhatIsForgottenGivesItsEntriesBack) {
  Entries entries(8);
  ReplyHoldings holdings;
  for (uint64_t until = 1; until <= 5; ++until) {
    holdings.add(entries, until, 10);
  }
  EXPECT_EQ(entries.in_use(), 3u);  // the newest, and one before it, need none
  holdings.clear(entries);
  EXPECT_EQ(entries.in_use(), 0u);
  EXPECT_EQ(holdings.settle(entries, 100), 0u);
}

// Three endpoints on entries for five replies.
TEST(ReplyHoldings, NothingIsGivenUpEarlyAndNothingIsLost) {
  struct Endpoint {
    ReplyHoldings holdings;
    std::deque<ReplyHoldings::Entry> held;  // each reply
    uint64_t posted = 0;
    uint64_t done = 0;
    uint64_t kept = 0;  // as the holdings say
  };
  SeededRandom random(1);
  Entries entries(5);
  std::array<Endpoint, 3> endpoints;
  for (uint32_t step = 0; step < 20'000; ++step) {
    Endpoint& one = endpoints[random.next_below(endpoints.size())];
    if (random.next_below(2) == 0) {
      one.posted += 1 + random.next_below(4);
      const uint64_t bytes = 1 + random.next_below(1000);
      one.held.push_back({.until = one.posted, .bytes = bytes});
      one.holdings.add(entries, one.posted, bytes);
      one.kept += bytes;
    } else {
      one.done += random.next_below(static_cast<uint32_t>(std::min<uint64_t>(one.posted - one.done, 12)) + 1);
      one.kept -= one.holdings.settle(entries, one.done);
    }
    uint64_t least = 0;
    while (!one.held.empty() && one.held.front().until <= one.done) {
      one.held.pop_front();
    }
    for (const ReplyHoldings::Entry& reply : one.held) {
      least += reply.bytes;
    }
    ASSERT_GE(one.kept, least) << "step " << step;
    if (one.done == one.posted) {
      one.kept -= one.holdings.settle(entries, one.done);
      ASSERT_EQ(one.kept, 0u) << "step " << step;
    }
  }
  for (Endpoint& one : endpoints) {
    one.holdings.clear(entries);
  }
}

}  // namespace
}  // namespace cw::rpcrdma
