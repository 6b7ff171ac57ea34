// Reads capture files for golden tests: classic pcap, Ethernet link type, either byte order, micro- or nanoseconds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/time.h"

namespace cw::test {

struct CapturedFrame {
  Instant time;                 // since the epoch
  uint32_t original_bytes = 0;  // on the wire; more than bytes.size() when the capture truncated the frame (its snap length)
  std::vector<uint8_t> raw;     // from the Ethernet header on, as far as they were captured

  [[nodiscard]] Bytes bytes() const { return raw; }
  [[nodiscard]] bool whole() const { return raw.size() >= original_bytes; }
};

// All frames in file order. Throws std::runtime_error when the file cannot be read, is of another kind or ends within a frame.
[[nodiscard]] std::vector<CapturedFrame> read_pcap(const std::filesystem::path& path);

// True for UDP to port 4791 over IPv4 or IPv6, tagged or not: a check on fixed positions, independent of the code under test.
[[nodiscard]] bool is_roce_frame(const CapturedFrame& frame);

// The committed golden packets: tests/golden/packets.
[[nodiscard]] std::filesystem::path golden_packets_dir();
// The full captures: $CAUSEWAY_CAPTURES, else shared/captures beside the repository; nothing when there is neither.
[[nodiscard]] std::optional<std::filesystem::path> full_captures_dir();

}  // namespace cw::test
