// A little work between two endpoints under a fault script (link/script.h): what each event cost, what was on the wire, and
// whether the counters say the same.
//
// The link: 100 Gb/s, 25 us each way, no bound on the queue. Each queue pair of node 0 has its messages to send, write or read.
// The first kMessagesAhead go ahead and complete before the others begin, so that the round trip is known then; all others are
// posted at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/sim/goodput.h"
#include "apps/sim/link/script.h"
#include "rocev2/rc/rc_stats.h"

namespace cw::sim {

struct ScriptWork {
  StreamKind work = StreamKind::kSend;  // not kCall
  PeerKind peer = PeerKind::kCauseway;
  uint32_t message_bytes = 8192;
  uint32_t mtu_bytes = 1024;
  uint32_t qps = 1;
  uint32_t messages = 28;  // of each queue pair

  static constexpr uint32_t kMessagesAhead = 4;
  static constexpr uint32_t kMessageBytesMax = 65'536;
  static constexpr uint32_t kQpMax = 16;
  static constexpr Duration kOneWay = Duration::us(25);
  static constexpr uint64_t kBitsPerSecond = 100'000'000'000;

  [[nodiscard]] uint32_t message_packets() const { return message_bytes == 0 ? 1 : (message_bytes + mtu_bytes - 1) / mtu_bytes; }
  // Relative PSN of a packet of a message. Messages count from the first that goes ahead.
  [[nodiscard]] uint32_t psn_of(uint32_t message, uint32_t packet) const { return message * message_packets() + packet; }
};

struct EventOutcome {
  bool fired = false;
  Duration at;  // since the work began, behind the messages that went ahead
  // From then until the packet arrived intact; an acknowledgement also when a later one did. Nobody has disturbed a packet that
  // took one way.
  std::optional<Duration> recovered_after;
  // What the queue pair's ends sent again from then on, until its next event: requests and READ responses.
  uint32_t packets_repeated = 0;
  uint64_t bytes_repeated = 0;
};

// What a node put on the wire, and what arrived there. Counted from the frames alone.
struct WireCounts {
  uint64_t packets_sent = 0;
  uint64_t payload_bytes_sent = 0;  // of requests and READ responses
  uint64_t requests_repeated = 0;   // of a PSN that this queue pair has sent before
  uint64_t responses_repeated = 0;
  uint64_t acks_sent = 0;
  uint64_t sequence_naks_sent = 0;  // gap reports included
  uint64_t gap_reports_sent = 0;
  uint64_t rnr_naks_sent = 0;
  uint64_t cnps_sent = 0;
  uint64_t packets_arrived = 0;  // intact
  uint64_t requests_arrived_again = 0;
  uint64_t reads_arrived_again = 0;
  uint64_t sequence_naks_arrived = 0;
  uint64_t acks_arrived = 0;
  uint64_t cnps_arrived = 0;
  uint64_t marked_arrived = 0;
  uint64_t damaged_arrived = 0;
};

struct QpOutcome {
  Duration time;                   // until its last completion
  uint32_t transmissions_max = 0;  // of one request or READ response
  // The earliest packet that was sent again, relative PSN; nothing when none was.
  std::optional<uint32_t> first_repeated;
  uint64_t lowest_rate = 0;  // bytes per second to which congestion limited one of its ends; 0: never
};

struct ScriptOutcome {
  bool finished = false;                // every work completed
  std::vector<std::string> violations;  // of order, exactly once, payload
  std::vector<EventOutcome> events;     // as in the script
  std::vector<QpOutcome> qps;
  WireCounts wire[2];
  rc::RcStats stats[2];
  uint64_t damaged[2] = {};   // refused by the iCRC, as the node counts
  std::vector<Instant> cnps;  // when notifications were sent, by either node
  uint32_t buffers_left = 0;
  Duration time;  // until the last completion of all

  [[nodiscard]] uint64_t packets_repeated() const;
};

[[nodiscard]] ScriptOutcome run_script(const ScriptWork& work, const FaultScript& script);

// What a node counts, beside what was on the wire.
struct CounterRow {
  const char* name = "";
  uint32_t node = 0;
  uint64_t counted = 0;
  uint64_t on_wire = 0;
};
[[nodiscard]] std::vector<CounterRow> compare_counters(const ScriptOutcome& outcome);

// Tables of the events and the counters.
[[nodiscard]] std::string describe(const ScriptWork& work, const FaultScript& script, const ScriptOutcome& outcome);
// Whether it finished, without violations, and with counters that agree with the wire.
[[nodiscard]] bool passed(const ScriptOutcome& outcome);

}  // namespace cw::sim
