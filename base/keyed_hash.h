// The hash of the tables whose keys peers can choose: mixed with a random word, so that nobody can aim for one bucket.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/ip_address.h"

namespace cw {

// Mixes a word so that every bit of the input reaches every bit of the output.
[[nodiscard]] inline uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 33)) * 0xff51afd7ed558ccdULL;
  z = (z ^ (z >> 29)) * 0xc4ceb9fe1a85ec53ULL;
  return z ^ (z >> 32);
}

[[nodiscard]] inline uint64_t hash_of(uint64_t key, const IpAddress& address, uint32_t number) {
  const uint64_t high = mix(load_be64(address.raw.data()) ^ key);
  const uint64_t low = mix(load_be64(address.raw.data() + 8) ^ high);
  return mix(number ^ low);
}

}  // namespace cw
