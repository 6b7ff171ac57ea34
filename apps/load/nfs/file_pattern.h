// The content of every file of an NFS load: a pattern that says where it is, so that any READ can be checked and any WRITE leaves
// the file as it was. One buffer serves all calls: its period is odd, so blocks at different offsets differ.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "rpcrdma/backend/bench_program.h"

namespace cw::load {

class FilePattern {
 public:
  static constexpr uint32_t kPeriodBytes = (1u << 20) - 1;

  // `bytes_max`: the longest piece asked for.
  explicit FilePattern(uint32_t bytes_max) : raw_(size_t{kPeriodBytes} + bytes_max) {
    const MutableBytes all(raw_);
    for (size_t done = 0; done < raw_.size(); done += kPeriodBytes) {
      rpcrdma::fill_bench_pattern(7, 0, all.subspan(done, std::min<size_t>(kPeriodBytes, raw_.size() - done)));
    }
  }
  [[nodiscard]] MutableBytes at(uint64_t offset, uint32_t bytes) {
    return MutableBytes(raw_).subspan(static_cast<size_t>(offset % kPeriodBytes), bytes);
  }

 private:
  std::vector<uint8_t> raw_;
};

}  // namespace cw::load
