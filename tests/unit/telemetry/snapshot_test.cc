#include "telemetry/snapshot.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace cw::telemetry {
namespace {

using namespace std::chrono_literals;

// Torn when its words differ.
struct Words {
  std::array<uint64_t, 512> word{};
};

TEST(Published, NothingIsCopiedUnlessAsked) {
  Published<Words> published;
  EXPECT_FALSE(published.is_wanted());
  bool filled = false;
  published.publish([&](Words&) { filled = true; });
  EXPECT_FALSE(filled);
  EXPECT_FALSE(published.take());
  EXPECT_EQ(published.version(), 0u);
}

TEST(Published, OneRequestGivesOneCopy) {
  Published<Words> published;
  published.request();
  EXPECT_TRUE(published.is_wanted());
  published.publish([](Words& out) { out.word[0] = 7; });
  EXPECT_FALSE(published.is_wanted());
  EXPECT_TRUE(published.wait(std::chrono::steady_clock::now()));
  EXPECT_EQ(published.last().word[0], 7u);
  EXPECT_FALSE(published.take());
  EXPECT_EQ(published.version(), 1u);
}

TEST(Published, SilentCoreLeavesTheLastCopy) {
  Published<Words> published;
  published.request();
  published.publish([](Words& out) { out.word[0] = 7; });
  ASSERT_TRUE(published.take());
  published.request();
  EXPECT_FALSE(published.wait(std::chrono::steady_clock::now() + 1ms));
  EXPECT_EQ(published.last().word[0], 7u);
}

TEST(Published, CopyThatCameTooLateIsNotTakenForANewOne) {
  Published<Words> published;
  published.request();
  published.publish([](Words& out) { out.word[0] = 1; });  // nobody waits any more
  published.request();
  EXPECT_FALSE(published.take());
  published.publish([](Words& out) { out.word[0] = 2; });
  ASSERT_TRUE(published.take());
  EXPECT_EQ(published.last().word[0], 2u);
}

TEST(Published, CopiesAreNeverTornUnderThreads) {
  Published<Words> published;
  std::atomic<bool> stop{false};
  std::thread core([&] {
    uint64_t turn = 0;
    while (!stop.load(std::memory_order_relaxed)) {
      ++turn;
      if (published.is_wanted()) {
        published.publish([turn](Words& out) { out.word.fill(turn); });
      }
    }
  });
  uint64_t last = 0;
  for (int i = 0; i < 2000; ++i) {
    published.request();
    // Every seventh time the reader is too impatient, and the copy arrives while it uses the one before.
    const bool taken = published.wait(std::chrono::steady_clock::now() + (i % 7 == 0 ? 0ms : 1000ms));
    const Words& words = published.last();
    for (const uint64_t word : words.word) {
      ASSERT_EQ(word, words.word[0]);
    }
    EXPECT_GE(words.word[0], last);
    EXPECT_TRUE(taken || i % 7 == 0);
    last = words.word[0];
  }
  stop.store(true);
  core.join();
}

TEST(Published, WhoAsksWakesTheWriter) {
  uint32_t woken = 0;
  Published<Words> published([&woken] { ++woken; });
  published.request();
  EXPECT_EQ(woken, 1u);
  published.publish([](Words& out) { out = {}; });
  EXPECT_TRUE(published.take());
  EXPECT_EQ(woken, 1u);
}

}  // namespace
}  // namespace cw::telemetry
