// The same answers as the budget of one thread, and bounds that hold whoever asks at once.
#include "dataplane/shared_record_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <thread>
#include <vector>

#include "base/heap_buffer_pool.h"
#include "base/random.h"

namespace cw::dataplane {
namespace {

constexpr uint32_t kBuffers = 300;
constexpr uint32_t kOneRecord = 60;
constexpr uint32_t kSources = 3;

// What a record has been given.
struct Held {
  uint32_t source = 0;
  uint32_t units = 0;
  bool growing = false;
};

TEST(SharedRecordBudget, AnswersAsTheBudgetOfOneThread) {
  HeapBufferPool pool{1, 64, 1};
  SharedRecordBudget shared(pool, kBuffers, kOneRecord, kSources);
  shared.set_sources(kSources);
  rpcrdma::LocalRecordBudget local(pool, kBuffers, kSources, kSources, kOneRecord);
  SeededRandom random(1);
  std::vector<Held> records;
  uint32_t refused = 0;
  uint32_t grown = 0;
  for (uint32_t step = 0; step < 20'000; ++step) {
    const uint32_t units = 1 + random.next_below(30);
    Held record{.source = random.next_below(kSources), .units = units, .growing = random.next_below(2) == 0};
    const uint32_t choice = random.next_below(4);
    if (choice == 0 && !records.empty()) {
      std::swap(records.back(), records[random.next_below(static_cast<uint32_t>(records.size()))]);
      shared.give_share(records.back().source, records.back().units, records.back().growing);
      local.give_share(records.back().source, records.back().units, records.back().growing);
      records.pop_back();
      continue;
    }
    if (choice == 1 && !records.empty() && records.back().growing) {
      Held& last = records.back();
      const bool taken = shared.take_share(last.source, units, last.units);
      ASSERT_EQ(local.take_share(last.source, units, last.units), taken);
      last.units += taken ? units : 0;
      last.growing = !taken;
      grown += taken ? 1 : 0;
      continue;
    }
    const bool taken = record.growing ? shared.take_growing(record.source, units) : shared.take_share(record.source, units, 0);
    ASSERT_EQ(record.growing ? local.take_growing(record.source, units) : local.take_share(record.source, units, 0), taken);
    if (taken) {
      records.push_back(record);
    }
    refused += taken ? 0 : 1;
  }
  EXPECT_GT(refused, 100u);
  EXPECT_GT(grown, 100u);
}

// A reload may lower the shares while sources hold what the larger ones allowed: all together still leave the longest record.
TEST(SharedRecordBudget, GrowingRecordsLeaveTheLongestWhateverTheSharesWere) {
  HeapBufferPool pool{1, 64, 1};
  SharedRecordBudget budget(pool, kBuffers, kOneRecord, 8);
  uint32_t growing = 0;
  for (uint32_t source = 0; source < 8; ++source) {
    budget.set_sources(source + 1);
    while (budget.take_growing(source, 1)) {
      ++growing;
    }
  }
  EXPECT_GT(growing, kBuffers / 2);
  EXPECT_LE(growing, kBuffers - kOneRecord);
}

TEST(SharedRecordBudget, ThreadsTogetherKeepTheBoundsAndLeaveNothing) {
  HeapBufferPool pool{1, 64, 1};
  SharedRecordBudget budget(pool, kBuffers, kOneRecord, 1);
  const auto share = rpcrdma::RecordBudget::share_of(kBuffers, kOneRecord, 1);
  std::atomic<uint32_t> growing{0};
  std::atomic<bool> exceeded{false};
  std::array<std::thread, 3> threads;
  for (std::thread& thread : threads) {
    thread = std::thread([&] {
      for (uint32_t i = 0; i < 20'000; ++i) {
        if (budget.take_growing(0, 7)) {
          exceeded = exceeded || growing.fetch_add(7) + 7 > share.growing;
          growing.fetch_sub(7);
          if (budget.take_share(0, 3, 7)) {
            budget.give_share(0, 10, false);
          } else {
            budget.give_share(0, 7, true);
          }
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_FALSE(exceeded);
  // All of it is there again.
  EXPECT_TRUE(budget.take_growing(0, share.growing));
  EXPECT_FALSE(budget.take_growing(0, 1));
  EXPECT_TRUE(budget.take_share(0, kBuffers, share.growing));
}

}  // namespace
}  // namespace cw::dataplane
