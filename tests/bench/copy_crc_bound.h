// What one core can do with payload at most when each byte is copied once and its CRC computed once: 1 / (1/memcpy + 1/crc),
// both measured here and now, by packets of a path MTU, with all bytes in the nearest caches: the strictest bound there is.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "base/crc32.h"
#include "tests/bench/measure.h"

namespace cw::bench {

class CopyCrcBound {
 public:
  CopyCrcBound(uint32_t packet_bytes, const TscTime& time)
      : packet_bytes_(packet_bytes), ns_per_cycle_(time.ns_per_cycle()), from_(kSetBytes, 0x5a), room_(kSetBytes + kPageBytes) {
    // Half a page apart: a load that lies a multiple of 4096 bytes behind a store waits for it, on most processors, and a copy by
    // whole pages took ten times as long then.
    const auto apart = (reinterpret_cast<uintptr_t>(room_.data()) - reinterpret_cast<uintptr_t>(from_.data())) % kPageBytes;
    to_ = room_.data() + (kPageBytes + kPageBytes / 2 - apart) % kPageBytes;
  }

  // One look at both; a few tens of microseconds, so that it fits between the repeats of what stands next to it.
  void sample() {
    const auto copy_one = [this](size_t at) { std::memcpy(to_ + at, from_.data() + at, packet_bytes_); };
    const auto crc_one = [this](size_t at) { sum_ ^= crc32(0, from_.data() + at, packet_bytes_); };
    (void)rate_of(copy_one);  // fetches what others have pushed out
    copies_.push_back(rate_of(copy_one));
    (void)rate_of(crc_one);
    crcs_.push_back(rate_of(crc_one));
  }
  // GB/s. Precondition: sample() was called.
  [[nodiscard]] double copy() const { return spread_of(copies_).median; }
  [[nodiscard]] double crc() const { return spread_of(crcs_).median; }
  [[nodiscard]] double bound() const { return 1 / (1 / copy() + 1 / crc()); }
  [[nodiscard]] bool is_measured() const { return !copies_.empty(); }

 private:
  static constexpr size_t kSetBytes = 256 << 10;  // each of two
  static constexpr size_t kPageBytes = 4096;
  static constexpr uint64_t kSampleBytes = 1 << 20;

  template <typename Work>
  double rate_of(Work&& work) {
    uint64_t done = 0;
    const uint64_t first = __rdtsc();
    while (done < kSampleBytes) {
      work(at_);
      asm volatile("" : : "r"(to_), "r"(sum_) : "memory");
      at_ = at_ + size_t{2} * packet_bytes_ <= from_.size() ? at_ + packet_bytes_ : 0;
      done += packet_bytes_;
    }
    return static_cast<double>(done) / (static_cast<double>(__rdtsc() - first) * ns_per_cycle_);
  }

  uint32_t packet_bytes_;
  double ns_per_cycle_;
  std::vector<uint8_t> from_;
  std::vector<uint8_t> room_;
  uint8_t* to_ = nullptr;  // in it
  std::vector<double> copies_;
  std::vector<double> crcs_;
  size_t at_ = 0;
  uint32_t sum_ = 0;
};

}  // namespace cw::bench
