#include "tests/exerciser/manifest.h"

#include <array>
#include <cinttypes>
#include <cstdio>

namespace cw::exerciser {
namespace {

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t index = 0; index < table.size(); ++index) {
    uint32_t crc = index;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ (0xedb88320 & (0 - (crc & 1)));
    }
    table[index] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kTable = make_table();

}  // namespace

uint32_t crc32(std::span<const uint8_t> bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const uint8_t byte : bytes) {
    crc = (crc >> 8) ^ kTable[(crc ^ byte) & 0xff];
  }
  return ~crc;
}

std::string manifest_line(std::span<const uint8_t> bytes, const std::string& path) {
  char text[64];
  snprintf(text, sizeof text, "%08" PRIx32 " %zu ", crc32(bytes), bytes.size());
  return text + path + "\n";
}

}  // namespace cw::exerciser
