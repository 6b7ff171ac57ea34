#include "apps/load/amount.h"

#include <gtest/gtest.h>

namespace cw::load {
namespace {

TEST(Amount, BytesCountInPowersOf1024) {
  EXPECT_EQ(parse_bytes("512"), 512u);
  EXPECT_EQ(parse_bytes("64k"), 65536u);
  EXPECT_EQ(parse_bytes("1M"), 1u << 20);
  EXPECT_EQ(parse_bytes("1.5k"), 1536u);
  for (const char* text : {"", "k", "-1", "1.3", "1kb", "12 k", "nan", "inf", "2000g", "0x10"}) {
    EXPECT_FALSE(parse_bytes(text).has_value()) << text;
  }
}

TEST(Amount, QuantitiesCountInPowersOf1000) {
  EXPECT_EQ(parse_quantity("20k"), 20'000);
  EXPECT_EQ(parse_quantity("0.5"), 0.5);
  EXPECT_EQ(parse_quantity("2m"), 2e6);
  EXPECT_FALSE(parse_quantity("2g").has_value());
  EXPECT_FALSE(parse_quantity("1000000001").has_value());
}

TEST(Amount, DurationsHaveUnits) {
  EXPECT_EQ(parse_duration("250us"), Duration::us(250));
  EXPECT_EQ(parse_duration("1.5s"), Duration::ms(1500));
  EXPECT_EQ(parse_duration("3"), Duration::seconds(3));
  EXPECT_EQ(parse_duration("2m"), Duration::seconds(120));
  EXPECT_FALSE(parse_duration("5h").has_value());
  EXPECT_FALSE(parse_duration("-5s").has_value());
}

TEST(Amount, BytesAreShortWhenTheyAreRound) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(512), "512 B");
  EXPECT_EQ(bytes_text(1000), "1000 B");
  EXPECT_EQ(bytes_text(65536), "64 KiB");
  EXPECT_EQ(bytes_text(1536 * 1024), "1536 KiB");
  EXPECT_EQ(bytes_text(4 << 20), "4 MiB");
}

}  // namespace
}  // namespace cw::load
