#include "dataplane/handed_over.h"

#include <gtest/gtest.h>

namespace cw::dataplane {
namespace {

HandedOver example() {
  return {.qpn_key = 0x0123'4567'89ab'cdef, .cores = {{{1, 2, 3}, {}}, {}, {{9}}}};
}

TEST(HandedOverBytes, ComeBackAsTheyWere) {
  const HandedOver before = example();
  EXPECT_EQ(before.connections(), 3u);
  const std::optional<HandedOver> after = parse_handed_over(to_bytes(before));
  ASSERT_TRUE(after.has_value());
  EXPECT_EQ(after->qpn_key, before.qpn_key);
  EXPECT_EQ(after->cores, before.cores);
}

TEST(HandedOverBytes, WhatIsCutOrLongerIsNothing) {
  std::vector<uint8_t> bytes = to_bytes(example());
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(parse_handed_over(Bytes(bytes).first(length)).has_value()) << length;
  }
  bytes.push_back(0);
  EXPECT_FALSE(parse_handed_over(bytes).has_value());
}

TEST(HandedOverBytes, AnotherFormatIsNothingAndChangedBitsDoNoHarm) {
  const std::vector<uint8_t> bytes = to_bytes(example());
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::vector<uint8_t> changed = bytes;
    changed[bit / 8] = static_cast<uint8_t>(changed[bit / 8] ^ (1u << bit % 8));
    const auto parsed = parse_handed_over(changed);
    EXPECT_TRUE(bit >= 64 || !parsed.has_value()) << "magic or format";
  }
}

}  // namespace
}  // namespace cw::dataplane
