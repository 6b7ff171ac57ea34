// The last things out of the ordinary that happened to the connections of a core over RNICs, and to the devices.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/ip_address.h"
#include "base/time.h"
#include "verbs/event_log.h"
#include "verbs/ids.h"
#include "verbs/transport_event.h"

namespace cw::rnic {

enum class RnicEventKind : uint8_t {
  kConnected,     // established
  kDropped,       // before it was; detail: RnicDrop
  kRejected,      // by its user; detail: verbs::RejectReason
  kNotConnected,  // active side; detail: ConnectFailure
  kFailed,        // detail: RnicErrorCause
  kWorkFailed,    // detail: verbs::WcStatus
  kDisconnected,  // by the peer
  kClosed,        // by its user
  kExposed,       // the device says, or does not deny, that the peer may reach memory; detail: Exposure
  kOutOfBuffers,  // nothing is posted for a while: the pool has no buffer
  kDevice,        // detail: DeviceEvent
  kCount,
};

struct RnicLogEntry {
  static constexpr std::string_view kWire = "verbs";

  Instant at;
  Instant first;
  IpAddress peer;
  uint32_t sequence = 0;  // works that were done
  uint32_t count = 1;
  verbs::Qpn local_qpn;
  uint16_t peer_port = 0;  // 0: it is about a device
  uint16_t detail = 0;
  RnicEventKind kind = RnicEventKind::kCount;

  // A peer that comes again from another port is the same for attempts that fail.
  [[nodiscard]] bool is_same(const RnicLogEntry& other) const {
    return kind == other.kind && detail == other.detail && peer == other.peer &&
           (kind == RnicEventKind::kDropped || peer_port == other.peer_port);
  }
};

// In the words that all transports use.
[[nodiscard]] verbs::TransportEvent to_event(const RnicLogEntry& entry) noexcept;

using RnicLog = verbs::EventLog<RnicLogEntry>;

}  // namespace cw::rnic
