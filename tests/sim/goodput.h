// Goodput of one connection by loss rate and window: what the golden table tests/golden/goodput.txt holds. A change of loss
// recovery shows there as a diff.
//
// One queue pair writes messages of 64 KiB to another, 4096-octet packets, over a cable of 25 Gb/s with 20 us each way and a
// queue of 2 MiB in front of it; packets are lost in both directions. 40 us of 25 Gb/s are 31 packets: a window of 16 cannot fill
// the cable, one of 64 just does. Measured until 48 MiB have been acknowledged or 2 s are over.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cw::sim {

// Whom the sender talks to: what recovery it may use depends on it.
enum class PeerKind : uint8_t { kStandard, kCount };
[[nodiscard]] const char* to_string(PeerKind kind) noexcept;

struct GoodputRow {
  PeerKind peer = PeerKind::kStandard;
  uint32_t window_packets = 0;
  uint32_t loss_permille = 0;
  uint64_t mbit_per_second = 0;
};

[[nodiscard]] uint64_t measure_goodput(PeerKind peer, uint32_t window_packets, uint32_t loss_permille, uint64_t seed);
// All of the table, in its order.
[[nodiscard]] std::vector<GoodputRow> measure_goodput_table();

[[nodiscard]] std::string to_string(const std::vector<GoodputRow>& table);
// Rows of the text that to_string makes; what it cannot read it leaves out.
[[nodiscard]] std::vector<GoodputRow> parse_goodput(const std::string& text);
// One line per row that is missing, new, or off by more than the tolerance: a tenth of the golden figure, or 20 Mb/s.
[[nodiscard]] std::vector<std::string> compare_goodput(const std::vector<GoodputRow>& golden, const std::vector<GoodputRow>& now);

}  // namespace cw::sim
