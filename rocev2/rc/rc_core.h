// What all queue pairs of one endpoint share: counters, the slabs that work requests come from, the timer wheel and the lists of
// queue pairs that have something to do. One core owns all of it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/buffer.h"
#include "base/buffer_watermark.h"
#include "base/intrusive_list.h"
#include "base/slab.h"
#include "base/timer_wheel.h"
#include "rocev2/rc/dcqcn.h"
#include "rocev2/rc/held_budget.h"
#include "rocev2/rc/held_packets.h"
#include "rocev2/rc/rc_stats.h"
#include "rocev2/rc/read_gaps.h"
#include "rocev2/rc/read_replay.h"
#include "rocev2/rc/repeated_reads.h"
#include "rocev2/rc/scoreboard.h"
#include "rocev2/rc/transport_log.h"
#include "rocev2/rc/work.h"
#include "verbs/memory_region.h"

namespace cw::rc {

class RcQp;
struct AckTag {};
struct ActiveTag {};
struct ReadyTag {};

// How much of what arrives behind gaps an endpoint may keep.
struct RecoveryLimits {
  uint32_t gaps_max = 0;   // queue pairs that recover selectively as requesters at once, of each kind; 0: go-back-N
  uint32_t holds_max = 0;  // queue pairs that hold packets behind a gap at once, and whose SENDs wait for repeated READ requests
  uint32_t held_packets_max = 0;  // over all of them
};

// For a poll core that may get each of `connections_max`. One of a few hundred places could be taken from everybody by as many
// connections that skip a PSN each, and who finds none is told of a gap too early. A place is 6 KiB of memory, which is touched
// only when so many are used at once.
[[nodiscard]] constexpr RecoveryLimits recovery_limits(uint32_t connections_max, uint32_t held_packets_max) {
  return {.gaps_max = std::min(256u, connections_max),
          .holds_max = std::min(4096u, connections_max),
          .held_packets_max = held_packets_max};
}

struct SendState;

// A SEND without a Work of which its owner wants to hear.
struct WatchedSend {
  const SendState* owner = nullptr;  // nullptr: none
  verbs::WorkId id;
  wire::Psn ssn;
  uint32_t bytes = 0;
};

struct RcCore {
  static constexpr uint32_t kWatchedSends = 8;

  RcCore(uint32_t qp_max, uint32_t send_work_max, uint32_t receive_work_max, uint32_t read_replay_max,
         const RecoveryLimits& recovery, uint32_t rate_limits_max, uint32_t log_events, verbs::MemoryTable* memory_table)
      : sends(send_work_max),
        receives(receive_work_max),
        replays(read_replay_max),
        boards(recovery.gaps_max),
        held(recovery.holds_max),
        read_gaps(recovery.gaps_max),
        repeated_reads(recovery.holds_max),
        held_budget(recovery.held_packets_max),
        rates(rate_limits_max),
        log(log_events),
        timers(qp_max),
        memory(memory_table) {}

  RcStats stats;
  BufferWatermark watermark = BufferWatermark::kPlenty;  // what there is to receive into
  bool express = true;                                   // EndpointOptions::express
  Duration ack_delay;                                    // how long an acknowledgement may wait for company
  Slab<Work> sends;                                      // posted SEND, WRITE, READ until polled
  uint32_t whole_sends = 0;                              // those that are posted without a Work: whole_sends.h
  std::array<WatchedSend, kWatchedSends> watched_sends;  // of these
  Slab<Work> receives;                                   // messages arriving or waiting to be polled
  uint32_t whole_messages = 0;                           // those that wait without a Work: CompletionQueue
  Instant whole_at;                                      // valid when there are any: when they came
  Slab<ReadReplay> replays;                              // one per queue pair that answers READs
  Slab<Scoreboard> boards;                               // one per queue pair whose peer reports a gap
  Slab<HeldPackets> held;                                // one per queue pair that holds packets behind a gap
  Slab<ReadGaps> read_gaps;                              // one per queue pair that misses responses before others
  Slab<RepeatedReads> repeated_reads;                    // one per queue pair whose repeated READ requests may be on their way
  HeldBudget held_budget;                                // of what is in all of `held`: received buffers that are not free
  Slab<Dcqcn> rates;                                     // one per queue pair that has met congestion
  TransportLog log;
  TimerWheel timers;
  verbs::MemoryTable* memory;  // nullptr: this endpoint exposes nothing (server role)
  Chain released;              // acknowledged payload, given back to its pools once per burst

  // So many more works may be posted.
  [[nodiscard]] uint32_t send_work_left() const { return sends.capacity() - sends.in_use() - whole_sends; }
  // One more message may arrive.
  [[nodiscard]] uint32_t receive_work_left() const { return receives.capacity() - receives.in_use() - whole_messages; }
  [[nodiscard]] bool has_receive_work() const { return receive_work_left() > 0; }

  IntrusiveList<RcQp, AckTag> ack_due;    // have an acknowledgement, NAK or READ response to send
  IntrusiveList<RcQp, AckTag> ack_held;   // have an acknowledgement that waits for company, the longest waiting first
  IntrusiveList<RcQp, ActiveTag> active;  // have requests to send now
  IntrusiveList<RcQp, ReadyTag> ready;    // have completions or a state change for their owner
};

}  // namespace cw::rc
