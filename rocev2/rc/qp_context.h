// What both halves of a queue pair know about it: who it talks to, in which format, and the endpoint it belongs to. The halves
// see this and their own state, never each other.
#pragma once

#include <cstdint>

#include "rocev2/rc/completion_queue.h"
#include "rocev2/rc/qp_error.h"
#include "rocev2/rc/rc_core.h"
#include "rocev2/rc/rc_stats.h"
#include "rocev2/rc/work.h"
#include "rocev2/wire/bth.h"
#include "rocev2/wire/drop_reason.h"
#include "rocev2/wire/packet_builder.h"
#include "verbs/ids.h"
#include "verbs/memory_region.h"

namespace cw::rc {

struct QpContext {
  explicit QpContext(RcCore& rc_core) : core(rc_core) {}

  RcCore& core;
  verbs::Qpn local;
  verbs::Qpn remote;
  uint16_t pkey = wire::kDefaultPkey;
  uint16_t ip_identification = 0;  // counts up per packet
  uint16_t mtu_bytes = 0;
  uint8_t mtu_shift = 0;      // log2(mtu_bytes)
  uint16_t hold_packets = 0;  // both sides recover selectively, within so many packets; 0: go-back-N
  bool awaits_late = false;   // go-back-N: requests behind a gap are kept, and the peer is told of it after a reordering window
  uint8_t budget_place = 0;   // HeldBudget::place_of the peer
  verbs::RemoteAccess access = verbs::RemoteAccess::kNone;
  verbs::ProtectionDomain domain;
  uint32_t psn_window_packets = 0;
  CompletionQueue completions;
  Dcqcn* rate = nullptr;  // limit of what is sent; nullptr: none, no congestion was met
  wire::PathHeader header;
  QpCounters counters;

  // Something out of the ordinary, for the core's log.
  void note(TransportEventKind kind, wire::Psn psn, uint8_t detail = 0) { core.log.note(local, kind, psn, detail); }
  // Packets that a message of `bytes` bytes takes: at least one.
  [[nodiscard]] uint32_t packets_of(uint64_t bytes) const {
    return bytes == 0 ? 1 : static_cast<uint32_t>((bytes + mtu_bytes - 1) >> mtu_shift);
  }
  [[nodiscard]] bool inside_window(int32_t distance) const {
    const int64_t window = psn_window_packets;
    return distance >= -window && distance <= window;
  }
};

// What a half did with a received packet.
struct PacketOutcome {
  bool took_frame = false;                             // the frame Buffer is now part of a message
  bool dropped = false;                                // counts under `reason`
  wire::DropReason reason = wire::DropReason::kCount;  // valid when dropped
  QpErrorCause failure = QpErrorCause::kNone;          // the queue pair has to go to Error

  [[nodiscard]] static PacketOutcome done() { return {}; }
  [[nodiscard]] static PacketOutcome took() { return {.took_frame = true}; }
  [[nodiscard]] static PacketOutcome drop(wire::DropReason why) { return {.dropped = true, .reason = why}; }
  [[nodiscard]] static PacketOutcome fail(QpErrorCause cause) { return {.failure = cause}; }
};

}  // namespace cw::rc
