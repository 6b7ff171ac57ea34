#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

namespace cw {
namespace {

uint32_t crc_of(Bytes bytes) {
  Crc32c crc;
  crc.add(bytes);
  return crc.value();
}

// Bit by bit, as the polynomial is defined.
uint32_t slow_crc_of(Bytes bytes) {
  uint32_t crc = 0xffff'ffff;
  for (const uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f6'3b78 : 0);
    }
  }
  return ~crc;
}

// RFC 3720 B.4.
TEST(Crc32c, GivesTheValuesOfTheStandard) {
  const std::array<uint8_t, 32> zeros{};
  EXPECT_EQ(crc_of(zeros), 0x8a91'36aau);
  std::array<uint8_t, 32> bytes{};
  bytes.fill(0xff);
  EXPECT_EQ(crc_of(bytes), 0x62a8'ab43u);
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  EXPECT_EQ(crc_of(bytes), 0x46dd'794eu);
  std::ranges::reverse(bytes);
  EXPECT_EQ(crc_of(bytes), 0x113f'db5cu);
  EXPECT_EQ(crc_of({}), 0u);
}

TEST(Crc32c, GivesTheSameForEveryLengthAndEveryPlaceOfACut) {
  std::vector<uint8_t> bytes(300);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<uint8_t>(i * 37 + i / 7);
  }
  for (size_t size = 0; size <= bytes.size(); ++size) {
    const Bytes whole = Bytes(bytes).first(size);
    ASSERT_EQ(crc_of(whole), slow_crc_of(whole)) << size;
  }
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    Crc32c crc;
    crc.add(Bytes(bytes).first(cut));
    crc.add(Bytes(bytes).subspan(cut));
    ASSERT_EQ(crc.value(), slow_crc_of(bytes)) << cut;
  }
}

}  // namespace
}  // namespace cw
