#include "dataplane/entropy.h"

#include <sys/random.h>

#include <bit>

#include "base/assert.h"

namespace cw::dataplane {
namespace {

// RFC 8439 2.1.
void quarter_round(uint32_t& a, uint32_t& b, uint32_t& c, uint32_t& d) {
  a += b;
  d = std::rotl(d ^ a, 16);
  c += d;
  b = std::rotl(b ^ c, 12);
  a += b;
  d = std::rotl(d ^ a, 8);
  c += d;
  b = std::rotl(b ^ c, 7);
}

}  // namespace

Entropy::Entropy() {
  state_ = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
  // Key and nonce; words 12 and 13 count blocks.
  uint8_t* key = reinterpret_cast<uint8_t*>(&state_[4]);
  constexpr size_t kKeyBytes = 8 * sizeof(uint32_t);
  CW_ASSERT(getrandom(key, kKeyBytes, 0) == static_cast<ssize_t>(kKeyBytes));
  CW_ASSERT(getrandom(&state_[14], 2 * sizeof(uint32_t), 0) == static_cast<ssize_t>(2 * sizeof(uint32_t)));
}

void Entropy::refill() {
  block_ = state_;
  for (int round = 0; round < 10; ++round) {
    for (uint32_t i = 0; i < 4; ++i) {
      quarter_round(block_[i], block_[4 + i], block_[8 + i], block_[12 + i]);
    }
    for (uint32_t i = 0; i < 4; ++i) {
      quarter_round(block_[i], block_[4 + (i + 1) % 4], block_[8 + (i + 2) % 4], block_[12 + (i + 3) % 4]);
    }
  }
  for (uint32_t i = 0; i < 16; ++i) {
    block_[i] += state_[i];
  }
  if (++state_[12] == 0) {
    ++state_[13];
  }
  used_ = 0;
}

uint64_t Entropy::next_u64() {
  if (used_ + 2 > block_.size()) {
    refill();
  }
  const uint64_t value = (uint64_t{block_[used_]} << 32) | block_[used_ + 1];
  used_ += 2;
  return value;
}

}  // namespace cw::dataplane
