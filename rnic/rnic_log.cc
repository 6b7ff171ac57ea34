#include "rnic/rnic_log.h"

#include <array>

#include "rnic/transport.h"

namespace cw::rnic {
namespace {

constexpr std::array<std::string_view, static_cast<size_t>(RnicEventKind::kCount)> kNames = {
    "connected",    "dropped", "rejected", "not_connected",  "failed",      "work_failed",
    "disconnected", "closed",  "exposed",  "out_of_buffers", "device_event"};

std::string_view reason_of(const RnicLogEntry& entry) {
  switch (entry.kind) {
    case RnicEventKind::kDropped:
      return to_string(static_cast<RnicDrop>(entry.detail));
    case RnicEventKind::kRejected:
      return to_string(static_cast<verbs::RejectReason>(entry.detail));
    case RnicEventKind::kNotConnected:
      return to_string(static_cast<ConnectFailure>(entry.detail));
    case RnicEventKind::kFailed:
      return to_string(static_cast<RnicErrorCause>(entry.detail));
    case RnicEventKind::kWorkFailed:
      return to_string(static_cast<verbs::WcStatus>(entry.detail));
    case RnicEventKind::kExposed:
      return to_string(static_cast<Exposure>(entry.detail));
    case RnicEventKind::kDevice:
      return to_string(static_cast<DeviceEvent>(entry.detail));
    case RnicEventKind::kConnected:
    case RnicEventKind::kDisconnected:
    case RnicEventKind::kClosed:
    case RnicEventKind::kOutOfBuffers:
    case RnicEventKind::kCount:
      break;
  }
  return {};
}

}  // namespace

verbs::TransportEvent to_event(const RnicLogEntry& entry) noexcept {
  return {.at = entry.at,
          .first = entry.first,
          .local_qpn = entry.local_qpn,
          .peer = entry.peer,
          .peer_port = entry.peer_port,
          .sequence = entry.sequence,
          .count = entry.count,
          .event = entry.kind < RnicEventKind::kCount ? kNames[static_cast<size_t>(entry.kind)] : "unknown",
          .reason = reason_of(entry)};
}

}  // namespace cw::rnic
