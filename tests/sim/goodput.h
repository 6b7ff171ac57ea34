// Goodput of one stream between two queue pairs, by what is streamed, kind of peer, window and loss rate: what the golden table
// tests/golden/goodput.txt holds. A change of loss recovery shows there as a diff.
//
// The link: 10 Gb/s, 25 us each way, path MTU 1024, no bound on the queue; 64 packets fill it. Packets are lost at random in both
// directions, acknowledgements and NAKs as well.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cw::sim {

// Messages of 4 packets; READs of a fourth of the window, four of them at a time.
enum class StreamKind : uint8_t { kSend, kWrite, kRead, kCount };
// Whom the sender talks to: which recovery it may use depends on it.
enum class PeerKind : uint8_t {
  kStandard,  // drops what is behind a gap and says so once, as IBA 9.7.5.2.8 has it and Linux rdma_rxe does
  kCauseway,  // keeps what is behind a gap and asks for what is missing
  kCount,
};
[[nodiscard]] const char* to_string(StreamKind kind) noexcept;
[[nodiscard]] const char* to_string(PeerKind kind) noexcept;

struct GoodputCase {
  StreamKind stream = StreamKind::kSend;
  PeerKind peer = PeerKind::kStandard;
  uint32_t window_packets = 64;
  uint32_t loss_permille = 0;
  uint32_t packets = 20'000;  // how long the stream is
};

struct GoodputRow {
  GoodputCase key;
  uint64_t mbit_per_second = 0;  // payload; 0 when the stream did not come to its end
  // What recovery did; not in the table.
  uint64_t ack_timeouts = 0;
  uint64_t tail_probes = 0;
  uint64_t naks = 0;
  uint64_t packets_repeated = 0;
  uint64_t payload_bytes_sent = 0;  // by whoever has the data, repetitions included
  uint64_t buffers_left = 0;
};

[[nodiscard]] GoodputRow measure_goodput(const GoodputCase& one);
// All of the table, in its order.
[[nodiscard]] std::vector<GoodputRow> measure_goodput_table();

[[nodiscard]] std::string to_string(const std::vector<GoodputRow>& table);
// Rows of the text that to_string makes; what it cannot read it leaves out.
[[nodiscard]] std::vector<GoodputRow> parse_goodput(const std::string& text);
// One line per row that is missing, new, or off by more than the tolerance: a tenth of the golden figure, or 20 Mb/s.
[[nodiscard]] std::vector<std::string> compare_goodput(const std::vector<GoodputRow>& golden, const std::vector<GoodputRow>& now);

}  // namespace cw::sim
