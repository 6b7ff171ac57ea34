#include "rocev2/wire/aeth.h"

#include <array>

#include "base/assert.h"

namespace cw::wire {
namespace {

// IBA table 45 in units of 10 us. From code 1 on the entries rise.
constexpr std::array<uint16_t, 31> kRnrTimersFromCode1 = {1,    2,    3,    4,    6,     8,     12,    16,    24,   32,   48,
                                                          64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536, 2048,
                                                          3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
constexpr int64_t kRnrTimerOfCode0 = 65536;
constexpr int64_t kRnrUnitUs = 10;

// IBA table 47, by credit code.
constexpr std::array<uint16_t, 31> kCredits = {0,    1,    2,    3,    4,    6,     8,     12,    16,   24,   32,
                                               48,   64,   96,   128,  192,  256,   384,   512,   768,  1024, 1536,
                                               2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};

}  // namespace

const char* to_string(NakCode code) noexcept {
  switch (code) {
    case NakCode::kPsnSequenceError:
      return "PSN sequence error";
    case NakCode::kInvalidRequest:
      return "invalid request";
    case NakCode::kRemoteAccessError:
      return "remote access error";
    case NakCode::kRemoteOperationalError:
      return "remote operational error";
    case NakCode::kInvalidRdRequest:
      return "invalid RD request";
  }
  return "reserved NAK code";
}

uint32_t credit_count(uint8_t code) {
  CW_DASSERT(code < kCredits.size());
  return kCredits[code];
}

uint8_t credit_code(uint32_t messages) {
  uint8_t code = 0;
  while (code + 1u < kCredits.size() && kCredits[code + 1u] <= messages) {
    ++code;
  }
  return code;
}

Duration rnr_timer(uint8_t code) {
  code &= 0x1f;
  return Duration::us((code == 0 ? kRnrTimerOfCode0 : kRnrTimersFromCode1[code - 1u]) * kRnrUnitUs);
}

uint8_t rnr_timer_code(Duration wait) {
  for (size_t i = 0; i < kRnrTimersFromCode1.size(); ++i) {
    const auto code = static_cast<uint8_t>(1 + i);
    if (rnr_timer(code) >= wait) {
      return code;
    }
  }
  return 0;
}

}  // namespace cw::wire
