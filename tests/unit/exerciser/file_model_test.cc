#include "tests/exerciser/file_model.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/exerciser/manifest.h"
#include "tests/exerciser/pattern.h"

namespace cw::exerciser {
namespace {

std::vector<uint8_t> pattern(uint64_t key, uint64_t offset, size_t bytes) {
  std::vector<uint8_t> content(bytes);
  fill_pattern(key, offset, content);
  return content;
}

TEST(FileModel, AWriteBeyondTheEndLeavesAHoleOfZeros) {
  FileModel model;
  model.write({1, "write", 10, 5, 77});
  std::vector<uint8_t> expected(10, 0);
  const std::vector<uint8_t> written = pattern(77, 10, 5);
  expected.insert(expected.end(), written.begin(), written.end());
  EXPECT_EQ(15U, model.size());
  EXPECT_FALSE(model.compare(0, 15, expected));
  EXPECT_TRUE(model.is_zero(0, 10));
  EXPECT_FALSE(model.is_zero(9, 2));
}

TEST(FileModel, ALaterWriteCoversAnEarlierOne) {
  FileModel model;
  model.write({1, "write", 0, 100, 1});
  model.write({2, "write", 40, 20, 2});
  EXPECT_FALSE(model.compare(0, 40, pattern(1, 0, 40)));
  EXPECT_FALSE(model.compare(40, 20, pattern(2, 40, 20)));
  EXPECT_FALSE(model.compare(60, 40, pattern(1, 60, 40)));
}

TEST(FileModel, WhatTruncateCutOffReadsAsZerosAfterGrowingAgain) {
  FileModel model;
  model.write({1, "write", 0, 100, 1});
  model.resize({2, "truncate", 30});
  model.resize({3, "truncate", 60});
  EXPECT_FALSE(model.compare(0, 30, pattern(1, 0, 30)));
  EXPECT_TRUE(model.is_zero(30, 30));
  EXPECT_EQ(60U, model.size());
}

TEST(FileModel, APunchedHoleKeepsTheSize) {
  FileModel model;
  model.write({1, "write", 0, 100, 1});
  model.punch({2, "punch", 90, 50});
  model.punch({3, "punch", 500, 50});
  EXPECT_EQ(100U, model.size());
  EXPECT_TRUE(model.is_zero(90, 10));
  EXPECT_FALSE(model.is_zero(89, 1));
}

TEST(FileModel, AReadBeyondTheEndHasToBeShort) {
  FileModel model;
  model.write({1, "write", 0, 10, 1});
  EXPECT_FALSE(model.compare(4, 100, pattern(1, 4, 6)));
  EXPECT_FALSE(model.compare(10, 5, {}));
  EXPECT_FALSE(model.compare(11, 5, {}));
  const auto too_short = model.compare(0, 10, pattern(1, 0, 9));
  ASSERT_TRUE(too_short);
  EXPECT_EQ(Mismatch::Kind::kLength, too_short->kind);
  EXPECT_EQ(10U, too_short->expected);
  EXPECT_EQ(9U, too_short->got);
  const auto too_long = model.compare(10, 5, pattern(1, 10, 1));
  ASSERT_TRUE(too_long);
  EXPECT_EQ(0U, too_long->expected);
}

TEST(FileModel, AMismatchNamesThePlaceBothBytesAndHowMany) {
  FileModel model;
  model.write({1, "write", 100, 50, 1});
  std::vector<uint8_t> got = pattern(1, 110, 20);
  const uint8_t right = got[7];
  got[7] ^= 0x10;
  got[19] ^= 0x80;
  const auto mismatch = model.compare(110, 20, got);
  ASSERT_TRUE(mismatch);
  EXPECT_EQ(117U, mismatch->offset);
  EXPECT_EQ(right, mismatch->expected);
  EXPECT_EQ(right ^ 0x10, static_cast<int>(mismatch->got));
  EXPECT_EQ(2U, mismatch->wrong_bytes);
}

TEST(FileModel, AnExplanationSaysWhichOperationWroteTheOldDataThatCame) {
  FileModel model;
  model.write({11, "write", 0, 4096, 1});
  model.write({12, "mmap write", 0, 4096, 2});
  const auto mismatch = model.compare(0, 4096, pattern(1, 0, 4096));
  ASSERT_TRUE(mismatch);
  const std::string text = model.explain(*mismatch);
  EXPECT_NE(std::string::npos, text.find("perhaps old data: operation 11")) << text;
  EXPECT_NE(std::string::npos, text.find("12: mmap write, offset 0, 4096 bytes")) << text;
}

TEST(FileModel, TheHistoryKeepsTheLastOperations) {
  FileModel model;
  for (uint64_t number = 1; number <= 100; ++number) {
    model.note({number, "read", number, 1});
  }
  EXPECT_EQ(std::string::npos, model.history().find("  76: "));
  EXPECT_NE(std::string::npos, model.history().find("  77: read"));
  EXPECT_NE(std::string::npos, model.history().find("  100: read"));
}

TEST(Pattern, IsNeverZeroAndDiffersByKeyAndPlace) {
  int equal_by_key = 0;
  int equal_by_place = 0;
  for (uint64_t offset = 0; offset < 10'000; ++offset) {
    ASSERT_NE(0, pattern_at(5, offset));
    equal_by_key += pattern_at(5, offset) == pattern_at(6, offset);
    equal_by_place += pattern_at(5, offset) == pattern_at(5, offset + 4096);
  }
  // One in 128 by chance.
  EXPECT_LT(equal_by_key, 150);
  EXPECT_LT(equal_by_place, 150);
}

TEST(Manifest, HasTheCrcThatZlibWouldCompute) {
  const std::vector<uint8_t> check = {'1', '2', '3', '4', '5', '6', '7', '8', '9'};
  EXPECT_EQ("cbf43926 9 some/path\n", manifest_line(check, "some/path"));
}

}  // namespace
}  // namespace cw::exerciser
