// The last things out of the ordinary that happened to the iWARP connections of a core: set-ups that failed, refusals, ends,
// Terminates, waits.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/ip_address.h"
#include "base/time.h"
#include "verbs/event_log.h"
#include "verbs/transport_event.h"

namespace cw::iwarp {

enum class ConnectionEventKind : uint8_t {
  kConnected,          // established
  kDropped,            // before it was; detail: IwarpDrop
  kBadSetup,           // so, because of an MPA frame; detail: MpaError
  kRejected,           // by its user; detail: verbs::RejectReason
  kTerminateReceived,  // detail: TerminateCause; sequence: MSN
  kTerminateSent,      // the same
  kFailed,             // ended otherwise; detail: StreamErrorCause
  kClosed,             // by its user
  kOutOfBuffers,       // nothing is read of it for a while: the pool has no buffer
  kCount,
};

struct ConnectionLogEntry {
  static constexpr std::string_view kWire = "iWARP";

  Instant at;
  Instant first;
  IpAddress peer;
  uint32_t sequence = 0;
  uint32_t count = 1;
  uint16_t peer_port = 0;
  uint16_t detail = 0;
  ConnectionEventKind kind = ConnectionEventKind::kCount;

  // A peer that comes again from another port is the same for attempts that fail.
  [[nodiscard]] bool is_same(const ConnectionLogEntry& other) const {
    const bool is_attempt = kind == ConnectionEventKind::kDropped || kind == ConnectionEventKind::kBadSetup;
    return kind == other.kind && detail == other.detail && peer == other.peer && (is_attempt || peer_port == other.peer_port);
  }
};

// In the words that all transports use.
[[nodiscard]] verbs::TransportEvent to_event(const ConnectionLogEntry& entry) noexcept;

using ConnectionLog = verbs::EventLog<ConnectionLogEntry>;

}  // namespace cw::iwarp
