#include "base/gzip.h"

#include <gtest/gtest.h>
#include <isa-l/igzip_lib.h>

#include <cstdint>
#include <string>
#include <vector>

namespace cw {
namespace {

// By ISA-L, which checks the checksum and the length at the end.
std::string inflated(std::string& gzip, size_t bytes_max) {
  std::vector<uint8_t> out(bytes_max);
  inflate_state state{};
  isal_inflate_init(&state);
  state.crc_flag = ISAL_GZIP;
  state.next_in = reinterpret_cast<uint8_t*>(gzip.data());
  state.avail_in = static_cast<uint32_t>(gzip.size());
  state.next_out = out.data();
  state.avail_out = static_cast<uint32_t>(out.size());
  EXPECT_EQ(isal_inflate(&state), ISAL_DECOMP_OK);
  EXPECT_EQ(state.block_state, ISAL_BLOCK_FINISH);
  return {reinterpret_cast<const char*>(out.data()), out.size() - state.avail_out};
}

TEST(Gzip, GivesBackWhatWentIn) {
  std::string text;
  while (text.size() < 1'000'000) {
    text += "line " + std::to_string(text.size() * 7919 % 1000) + "\n";
  }
  std::string gzip = gzip_of(text);
  EXPECT_LT(gzip.size(), text.size() / 2);
  EXPECT_EQ(inflated(gzip, text.size() + 1), text);
  gzip = gzip_of("");
  EXPECT_EQ(inflated(gzip, 1), "");
}

// Most of what is compressed repeats itself more than that.
TEST(Gzip, MetricsTakeAFifthOfTheirBytesAtMost) {
  std::string text;
  for (int line = 0; line < 2000; ++line) {
    text += "causeway_rpcs_total{backend=\"nfs\"} " + std::to_string(line) + "\n";
  }
  std::string gzip = gzip_of(text);
  EXPECT_LT(gzip.size(), text.size() / 5);
  EXPECT_EQ(inflated(gzip, text.size() + 1), text);
}

}  // namespace
}  // namespace cw
