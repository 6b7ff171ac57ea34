// Plain counters: RcStats of one core, bumped by its owner only and read by telemetry through a snapshot; QpCounters of one queue
// pair, for causewayctl. Nothing is ever reset.
#pragma once

#include <array>
#include <cstdint>

#include "rocev2/wire/drop_reason.h"

namespace cw::rc {

// NAK codes 0..4 of IBA table 46; anything else lands in the last slot.
inline constexpr uint32_t kNakCodeCount = 6;

struct RcStats {
  // Packets that reached a queue pair, and payload bytes in them; packets handed to the shell.
  uint64_t packets_in = 0;
  uint64_t packets_out = 0;
  uint64_t payload_bytes_in = 0;
  uint64_t payload_bytes_out = 0;

  std::array<uint64_t, wire::kDropReasonCount> discards{};  // by wire::DropReason, each discarded packet once

  // Requester
  uint64_t acks_received = 0;                           // acknowledgements that told something new
  std::array<uint64_t, kNakCodeCount> naks_received{};  // by NAK code
  uint64_t rnr_naks_received = 0;
  uint64_t ack_timeouts = 0;
  uint64_t packets_retransmitted = 0;
  uint64_t implied_naks = 0;          // a READ response was missing when something later was answered
  uint64_t responses_early = 0;       // READ responses and atomic answers kept although something before them was missing
  uint64_t packets_late = 0;          // came behind what was sent later: reordering, not loss
  uint64_t repetitions_spurious = 0;  // what they repeat was late, not lost
  uint64_t sends_behind_reads = 0;    // times that a SEND had to wait for a repeated READ request to leave the network
  uint64_t reads_unfenced = 0;        // repeated READ requests that no SEND waits for, for want of a RepeatedReads
  uint64_t tail_probes = 0;           // early repetition of the oldest packet, before the timeout
  uint64_t retries_exhausted = 0;     // by timeout or sequence NAK
  uint64_t rnr_retries_exhausted = 0;
  uint64_t keepalives_sent = 0;
  uint64_t keepalives_exhausted = 0;  // the peer answered none
  uint64_t bad_responses = 0;         // READ response that does not fit its request
  uint64_t window_stalls = 0;         // data waited for the send window

  // Responder
  uint64_t acks_sent = 0;
  std::array<uint64_t, kNakCodeCount> naks_sent{};  // by NAK code
  uint64_t rnr_naks_sent = 0;
  uint64_t duplicate_requests = 0;  // requests received again, answered from state
  uint64_t out_of_sequence = 0;     // requests ahead of the expected PSN
  uint64_t reads_replayed = 0;
  uint64_t atomics_replayed = 0;

  // Selective recovery
  uint64_t gap_reports_sent = 0;      // counted as NAKs too
  uint64_t gap_reports_received = 0;  // likewise
  uint64_t packets_held = 0;          // arrived behind a gap and kept
  uint64_t holds_refused = 0;         // arrived behind a gap, and no room to keep them
  uint64_t holds_expired = 0;         // kept, and given up because what was missing did not come in time

  // Congestion
  uint64_t cnps_received = 0;
  uint64_t cnps_sent = 0;
  uint64_t rate_cuts = 0;      // CNPs that lowered a rate
  uint64_t cnps_ignored = 0;   // too soon after the last cut, nothing under way, no room, or switched off
  uint64_t rates_limited = 0;  // gauge: queue pairs whose rate is limited now
  uint64_t paced_turns = 0;    // times that data waited for the rate
  uint64_t ecn_marked = 0;     // packets that arrived with Congestion Experienced

  // Life
  uint64_t qps_created = 0;
  uint64_t qps_destroyed = 0;
  uint64_t qps_failed = 0;        // went to Error for any reason but our own close
  uint64_t no_header_buffer = 0;  // a packet had to wait because the shell's pool was empty
};

struct QpCounters {
  uint64_t packets_in = 0;
  uint64_t packets_out = 0;
  uint64_t payload_bytes_in = 0;
  uint64_t payload_bytes_out = 0;
  uint32_t packets_retransmitted = 0;
  uint32_t ack_timeouts = 0;
  uint32_t naks_sent = 0;      // RNR included
  uint32_t naks_received = 0;  // RNR included
  uint32_t duplicate_requests = 0;
  uint32_t discards = 0;
  uint32_t cnps_received = 0;
  uint32_t cnps_sent = 0;
};

}  // namespace cw::rc
