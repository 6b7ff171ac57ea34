#include "rocev2/wire/mac_address.h"

namespace cw::wire {
namespace {

constexpr char kDigits[] = "0123456789abcdef";

// -1 when `c` is no hexadecimal digit.
constexpr int digit_of(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  if (c >= 'a' && c <= 'f') {
    return c - 'a' + 10;
  }
  if (c >= 'A' && c <= 'F') {
    return c - 'A' + 10;
  }
  return -1;
}

}  // namespace

std::array<char, kMacTextBytes> to_text(const MacAddress& address) {
  std::array<char, kMacTextBytes> text{};
  for (size_t i = 0; i < 6; ++i) {
    text[3 * i] = kDigits[address.raw[i] >> 4];
    text[3 * i + 1] = kDigits[address.raw[i] & 0xf];
    text[3 * i + 2] = i == 5 ? '\0' : ':';
  }
  return text;
}

Result<MacAddress> parse_mac(std::string_view text) {
  if (text.size() != kMacTextBytes - 1 || (text[2] != ':' && text[2] != '-')) {
    return fail(Error::kBadValue);
  }
  MacAddress address;
  for (size_t i = 0; i < 6; ++i) {
    const int high = digit_of(text[3 * i]);
    const int low = digit_of(text[3 * i + 1]);
    if (high < 0 || low < 0 || (i < 5 && text[3 * i + 2] != text[2])) {
      return fail(Error::kBadValue);
    }
    address.raw[i] = static_cast<uint8_t>(high * 16 + low);
  }
  return address;
}

}  // namespace cw::wire
