// Goodput of one stream between two queue pairs, by what is streamed, kind of peer, window and what the link does: what the
// golden tables tests/golden/goodput.txt (loss) and goodput_reorder.txt (packets overtake each other, none is lost) hold. A
// change of loss recovery shows there as a diff.
//
// The link: 10 Gb/s, 25 us each way, path MTU 1024, no bound on the queue; 64 packets fill it. Packets are lost or overtaken at
// random in both directions, acknowledgements and NAKs as well.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cw::sim {

// SENDs and WRITEs are messages of 4 packets; READs a fourth of the window, four of them at a time.
// kCall is what an NFS WRITE looks like to a gateway: a READ of 16 packets under a key of its own, sixteen at a time, and when
// it is complete a SEND that invalidates the key. Its goodput is that of the READs; it is 0 when the connection breaks.
enum class StreamKind : uint8_t { kSend, kWrite, kRead, kCall, kCount };
// Whom the sender talks to: which recovery it may use depends on it.
enum class PeerKind : uint8_t {
  kStandard,  // drops what is behind a gap and says so once, and refuses dead keys, as Linux does (plain_peer.h)
  kCauseway,  // keeps what is behind a gap and asks for what is missing
  kCount,
};
// How the link disorders.
enum class Disorder : uint8_t {
  kNone,
  kTenthBehind64,   // 10 % of the packets come behind 64 that left later: spraying over paths of unequal length
  kPercentBehind8,  // 1 % behind 8
  kLongWay,         // none, but 300 us each way: what the next is to be compared with
  kJitter,          // each way 300 us, give or take 200 us for each packet by itself: the netem of a lab
  kCount,
};
[[nodiscard]] const char* to_string(StreamKind kind) noexcept;
[[nodiscard]] const char* to_string(PeerKind kind) noexcept;
[[nodiscard]] const char* to_string(Disorder disorder) noexcept;

struct GoodputCase {
  StreamKind stream = StreamKind::kSend;
  PeerKind peer = PeerKind::kStandard;
  uint32_t window_packets = 64;
  uint32_t loss_permille = 0;
  Disorder disorder = Disorder::kNone;
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
// All of a table, in its order.
[[nodiscard]] std::vector<GoodputRow> measure_goodput_table();
[[nodiscard]] std::vector<GoodputRow> measure_reorder_table();

// The fourth column is the loss rate, or the name of the disorder.
[[nodiscard]] std::string to_string(const std::vector<GoodputRow>& table);
// Rows of the text that to_string makes; what it cannot read it leaves out.
[[nodiscard]] std::vector<GoodputRow> parse_goodput(const std::string& text);
// One line per row that is missing, new, or off by more than the tolerance: a tenth of the golden figure, or 20 Mb/s.
[[nodiscard]] std::vector<std::string> compare_goodput(const std::vector<GoodputRow>& golden, const std::vector<GoodputRow>& now);

}  // namespace cw::sim
