// The raw receive limit: SENDs to one established queue pair.
#pragma once

#include "apps/load/pktgen/profile.h"

namespace cw::pktgen {

struct SendOptions {
  uint32_t count = 256;         // 1..1000000 messages, one packet each
  uint32_t payload_bytes = 64;  // kSendPayloadMin..path MTU
};

// An RPC-over-RDMA header without chunks and an accepted RPC reply.
inline constexpr uint32_t kSendPayloadMin = 52;

// Each message is a reply that nobody waits for: causewayd takes it in, counts it and needs to answer nothing but the ACK, so
// that the queue pair stays as it is although nobody acknowledges what causewayd would send.
// Precondition: options within their ranges.
[[nodiscard]] Profile make_sends(const Target& target, const QueuePairTarget& qp, const SendOptions& options);

}  // namespace cw::pktgen
