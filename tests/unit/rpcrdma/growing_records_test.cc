// Records in several fragments: admitted for what is announced, they grow within bounds that leave everybody what it needs.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/heap_buffer_pool.h"
#include "base/random.h"
#include "rpcrdma/rpc/record_admission.h"
#include "tests/unit/rpcrdma/record_sender.h"

namespace cw::rpcrdma {
namespace {

using test::kRecordLimits;
using test::Sender;
using Fragments = std::vector<uint32_t>;
using Senders = std::vector<std::unique_ptr<Sender>>;

constexpr uint32_t kBytes = 256;     // of a Buffer
constexpr uint32_t kBuffers = 128;   // of the pool
constexpr uint32_t kOneRecord = 24;  // 5,000 bytes and their marks are 20, beside a reserve of two, one open and a tail
constexpr uint32_t kHugeUnits = 20;  // of one admitted for the longest record
constexpr uint32_t kUnitsMax = 22;   // of one that had begun, its first mark between two Buffers

class GrowingRecordsTest : public ::testing::Test {
 protected:
  // Takes Buffers until so many are left.
  void leave_free(size_t count) {
    while (pool.in_use() + count < kBuffers) {
      held.emplace_back().push_back(pool.allocate_one());
    }
  }
  static void turn(RecordAdmission& line) {
    line.begin_turn();
    while (line.poll() != nullptr) {
    }
  }
  // Records of the source whose second fragment does not come.
  Senders hang(RecordAdmission& line, uint32_t count, uint32_t bytes, uint32_t source = 0) {
    Senders hung;
    for (uint32_t i = 0; i < count; ++i) {
      hung.push_back(std::make_unique<Sender>(line, Fragments{bytes, 100}, source));
      EXPECT_FALSE(hung.back()->feed(kRecordMarkBytes + bytes));
    }
    return hung;
  }

  HeapBufferPool pool{kBuffers, kBytes, 512};
  LocalRecordBudget budget{pool, kBuffers, 1, 1, kOneRecord};  // a share of 64, of which 40 to grow in
  std::vector<Chain> held;
};

TEST_F(GrowingRecordsTest, ARecordHoldsWhatItsMarksHaveAnnounced) {
  RecordAdmission line(budget);
  Sender sender(line, Fragments{300, 600, 300});
  EXPECT_FALSE(sender.feed(10));
  EXPECT_EQ(budget.held(0).growing, 2u);
  EXPECT_EQ(pool.in_use(), 2u);
  EXPECT_FALSE(sender.feed(300));  // and the second mark
  EXPECT_EQ(budget.held(0).growing, 4u);
  EXPECT_EQ(pool.in_use(), 4u);
  EXPECT_FALSE(sender.feed(602));
  EXPECT_EQ(budget.held(0).growing, 0u) << "it does not grow any more";
  EXPECT_EQ(budget.held(0).units, 5u);
  EXPECT_TRUE(sender.feed());
  EXPECT_EQ(sender.message.bytes(), 1200u);
  EXPECT_EQ(budget.held(0).units, 0u);
}

TEST_F(GrowingRecordsTest, WhereNoneGrowsItIsAdmittedForTheLongestAndGivesBackTheRest) {
  LocalRecordBudget none(pool, kBuffers);
  RecordAdmission line(none);
  Sender sender(line, Fragments{300, 300});
  EXPECT_FALSE(sender.feed(304));
  EXPECT_EQ(pool.in_use(), kHugeUnits);
  EXPECT_FALSE(sender.feed(10));
  EXPECT_LE(pool.in_use(), 4u);
  EXPECT_TRUE(sender.feed());
}

// Each of them alone could have been admitted; together they would leave nothing to grow into.
TEST_F(GrowingRecordsTest, WhoMayNotGrowAnyMoreIsAdmittedForTheLongest) {
  RecordAdmission line(budget);
  const Senders hung = hang(line, 13, 700);  // three Buffers each, of 40
  EXPECT_EQ(budget.held(0).growing, 39u);
  Sender next(line, Fragments{700, 100});
  EXPECT_FALSE(next.feed(704));
  EXPECT_EQ(budget.held(0).growing, 39u);
  EXPECT_EQ(budget.held(0).units, 39u + kHugeUnits);
  EXPECT_EQ(pool.in_use(), 39u + kHugeUnits);
  Sender another(line, Fragments{700, 100});
  EXPECT_FALSE(another.feed());
  EXPECT_TRUE(another.reader.is_waiting()) << "the share has no second one of the longest";
  EXPECT_TRUE(next.feed());
  next.message.clear();
  ASSERT_NE(line.poll(), nullptr);
  EXPECT_TRUE(another.feed());
  for (const auto& each : hung) {
    ASSERT_TRUE(each->feed());
    each->message.clear();
  }
}

// The heart of it: all of them have begun, none can end without more than what is free.
TEST_F(GrowingRecordsTest, RecordsThatFillAllThereIsToGrowInEndOneAfterAnother) {
  RecordAdmission line(budget);
  Senders senders;
  for (uint32_t i = 0; i < 60; ++i) {
    senders.push_back(std::make_unique<Sender>(line, Fragments{200, 1'200, 1'200, 1'200}, 0, i));
    (void)senders.back()->feed(205);
  }
  leave_free(0);
  uint32_t came = 0;
  for (const auto& each : senders) {
    came += each->feed() ? 1 : 0;
  }
  EXPECT_LT(came, 2u) << "only one has got the longest";
  EXPECT_GT(line.waiting(), 50u);
  held.clear();
  for (uint32_t round = 0; round < 1'000 && came < senders.size(); ++round) {
    turn(line);
    for (const auto& each : senders) {
      if (each->message.empty() && each->feed()) {
        ++came;
        each->message.clear();
      }
    }
  }
  EXPECT_EQ(came, senders.size() + 0u);
  EXPECT_EQ(budget.held(0).units, 0u);
}

TEST_F(GrowingRecordsTest, ASmallReplyInFragmentsPassesTheHugeOnesThatWait) {
  RecordAdmission line(budget, 2);
  leave_free(0);
  Sender huge(line, 5'000, 0, 1);
  EXPECT_FALSE(huge.feed());
  Sender small(line, Fragments{30, 40, 100, 20}, 0, 2);
  EXPECT_FALSE(small.feed());
  turn(line);
  EXPECT_TRUE(small.feed());
  EXPECT_TRUE(huge.reader.is_waiting());
  Sender next(line, Fragments{30, 520, 20}, 0, 2);
  EXPECT_FALSE(next.feed());
  turn(line);
  EXPECT_FALSE(next.feed());  // its second fragment needs more than is kept back
  EXPECT_TRUE(next.reader.is_waiting());
  EXPECT_EQ(budget.held(0).growing, 1u) << "it waits for what is announced, not for the longest";
}

TEST_F(GrowingRecordsTest, WhoHasBegunGoesBeforeThoseThatHaveNot) {
  RecordAdmission line(budget);
  Sender first(line, Fragments{300, 600}, 0, 1);
  EXPECT_FALSE(first.feed(304));
  leave_free(0);
  Sender fresh(line, 2'000, 0, 2);
  EXPECT_FALSE(fresh.feed());
  Sender fresher(line, 2'000, 0, 3);
  EXPECT_FALSE(fresher.feed());
  EXPECT_EQ(line.poll(), nullptr);  // the fresh one is the first, and collects
  EXPECT_FALSE(first.feed());
  EXPECT_TRUE(first.reader.is_waiting());
  std::vector<uint64_t> order;
  for (Chain& each : held) {
    each.clear();
    while (const RecordDemand* served = line.poll()) {
      order.push_back(served->owner);
    }
  }
  EXPECT_EQ(order, (std::vector<uint64_t>{2, 1, 3}));
}

TEST_F(GrowingRecordsTest, ASourceWhoseFragmentsHangLeavesToTheOthersWhatTheyNeed) {
  LocalRecordBudget two(pool, kBuffers, 2, 2, kOneRecord);  // 42 each, of which 18 to grow in
  RecordAdmission line(two, 2);
  std::array<Senders, 3> hung = {hang(line, 50, 100, 0), hang(line, 50, 700, 0), hang(line, 50, 2'000, 0)};
  EXPECT_LE(two.held(0).growing, 18u);
  EXPECT_LE(two.held(0).units, 42u);
  Sender huge(line, 5'000, 1);
  EXPECT_TRUE(huge.feed());
  huge.message.clear();
  Senders others = hang(line, 4, 700, 1);
  EXPECT_GE(two.held(1).growing, 12u) << "as if the other were not there";
  for (const auto& each : others) {
    EXPECT_TRUE(each->feed());
  }
}

TEST_F(GrowingRecordsTest, ARecordThatHangsInTheMiddleIsDueAndItsMemoryGoesToTheNext) {
  RecordAdmission line(budget);
  Senders hung = hang(line, 13, 700);
  Sender holder(line, Fragments{700, 100});
  EXPECT_FALSE(holder.feed(704));  // has been admitted for the longest, and says no more
  Sender next(line, Fragments{700, 100});
  EXPECT_FALSE(next.feed());
  ASSERT_TRUE(next.reader.is_waiting());
  const Instant now = Instant::from_ns(1);
  EXPECT_EQ(hung[0]->reader.due(now), now + kRecordLimits.stall_max);
  EXPECT_EQ(holder.reader.due(now), now + kRecordLimits.stall_max);
  EXPECT_EQ(next.reader.due(now), Instant::never());
  holder.reader.reset();
  ASSERT_NE(line.poll(), nullptr);
  EXPECT_TRUE(next.feed());
}

// Who lets fragments trickle does not get a new minute with each of them, and waits cost nobody anything.
TEST_F(GrowingRecordsTest, TheTimeOfARecordIsThatBetweenItsWaits) {
  RecordAdmission line(budget);
  Sender sender(line, Fragments{300, 300, 300, 300});
  Instant now = Instant::from_ns(1);
  const Instant begun = now;
  EXPECT_FALSE(sender.feed(304));
  EXPECT_EQ(sender.reader.due(now), now + kRecordLimits.stall_max);
  Duration waited;
  for (uint32_t i = 0; i < 3; ++i) {
    now = now + Duration::seconds(9);
    leave_free(0);
    EXPECT_FALSE(sender.feed());
    ASSERT_TRUE(sender.reader.is_waiting()) << i;
    EXPECT_EQ(sender.reader.due(now), Instant::never());
    now = now + Duration::seconds(100);
    waited = waited + Duration::seconds(100);
    held.clear();
    ASSERT_NE(line.poll(), nullptr);
    EXPECT_EQ(sender.reader.due(now), now + kRecordLimits.stall_max);
  }
  for (uint32_t i = 0; i < 4; ++i) {
    now = now + Duration::seconds(9);
    EXPECT_FALSE(sender.feed(1));
    EXPECT_EQ(sender.reader.due(now), earlier(now + kRecordLimits.stall_max, begun + waited + kRecordLimits.record_time_max));
  }
  EXPECT_LT(begun + waited + kRecordLimits.record_time_max, now + kRecordLimits.stall_max);
}

// Deadlock excluded, whatever order things come in: connections of some sources and workers send records of all lengths in all
// cuts, some break, and clients keep messages for a while. The bounds hold at each step; then every record comes.
class Interleaving {
 public:
  static constexpr uint32_t kReserve = 2;
  explicit Interleaving(uint64_t seed) : random_(seed) {
    sources_ = 1 + random_.next_below(4);
    const uint32_t workers = 1 + random_.next_below(3);
    // Beside the longest record: what each worker keeps back and has open, and for each source one that has begun and waits.
    const uint32_t one_record = kUnitsMax + workers * (kReserve + 1 + sources_);
    buffers_ = one_record + (random_.next_below(3) == 0 ? 0 : random_.next_below(150));
    pool_ = std::make_unique<HeapBufferPool>(buffers_, kBytes, 1'024);
    budget_ = std::make_unique<LocalRecordBudget>(*pool_, buffers_, sources_, sources_, one_record);
    growing_max_ = buffers_ - one_record;
    for (uint32_t i = 0; i < workers; ++i) {
      workers_.push_back(std::make_unique<RecordAdmission>(*budget_, kReserve));
    }
    senders_.resize(40);
  }
  void run() {
    for (uint32_t step = 0; step < 1'500; ++step) {
      auto& sender = senders_[random_.next_below(static_cast<uint32_t>(senders_.size()))];
      switch (random_.next_below(8)) {
        case 0:
          if (sender != nullptr && random_.next_below(20) == 0) {
            sender.reset();
          }
          break;
        case 1:
          turn();
          break;
        case 2:
          if (!kept_.empty()) {
            std::swap(kept_.back(), kept_[random_.next_below(static_cast<uint32_t>(kept_.size()))]);
            kept_.pop_back();
          }
          break;
        default:
          feed(sender, 1 + random_.next_below(1'500));
      }
      ASSERT_NO_FATAL_FAILURE(check());
    }
    for (uint32_t round = 0; round < 3'000 && !is_done(); ++round) {
      kept_.clear();
      turn();
      for (auto& sender : senders_) {
        if (sender != nullptr) {
          feed(sender, SIZE_MAX);
        }
      }
      ASSERT_NO_FATAL_FAILURE(check());
    }
    EXPECT_TRUE(is_done()) << "records wait that nobody serves";
    turn();
    kept_.clear();
    for (uint32_t source = 0; source < sources_; ++source) {
      EXPECT_EQ(budget_->held(source).units, 0u);
    }
    workers_.clear();
    EXPECT_EQ(pool_->in_use(), 0u);
  }

 private:
  void feed(std::unique_ptr<Sender>& sender, size_t count) {
    if (sender == nullptr) {
      sender = std::make_unique<Sender>(*workers_[random_.next_below(static_cast<uint32_t>(workers_.size()))], draw_record(),
                                        random_.next_below(sources_));
    }
    if (sender->feed(count)) {
      kept_.push_back(std::move(sender->message));
      sender.reset();
    }
  }
  Fragments draw_record() {
    Fragments fragments(1 + random_.next_below(kRecordLimits.fragments_max));
    for (uint32_t& each : fragments) {
      const uint32_t longest = random_.next_below(2) == 0 ? 60 : 1'250;
      each = random_.next_below(longest + 1);
    }
    fragments.back() += 1;
    return fragments;
  }
  void turn() {
    for (auto& worker : workers_) {
      worker->begin_turn();
      while (worker->poll() != nullptr) {
      }
    }
  }
  void check() {
    uint32_t growing = 0;
    for (uint32_t source = 0; source < sources_; ++source) {
      const RecordBudget::Held held = budget_->held(source);
      ASSERT_LE(held.growing, held.units);
      ASSERT_LE(held.growing, budget_->share().growing);
      ASSERT_LE(held.units, std::max(budget_->share().units, budget_->share().growing + kUnitsMax));
      growing += held.growing;
    }
    ASSERT_LE(growing, growing_max_);
  }
  [[nodiscard]] bool is_done() const {
    return std::ranges::all_of(senders_, [](const auto& sender) { return sender == nullptr; });
  }

  SeededRandom random_;
  uint32_t sources_ = 0;
  uint32_t buffers_ = 0;
  uint32_t growing_max_ = 0;
  std::unique_ptr<HeapBufferPool> pool_;
  std::unique_ptr<LocalRecordBudget> budget_;
  std::vector<std::unique_ptr<RecordAdmission>> workers_;
  std::vector<Chain> kept_;
  Senders senders_;
};

TEST(GrowingRecordsProperty, WhateverTheOrderEveryRecordComes) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ASSERT_NO_FATAL_FAILURE(Interleaving(seed).run());
    ASSERT_FALSE(::testing::Test::HasFailure());
  }
}

}  // namespace
}  // namespace cw::rpcrdma
