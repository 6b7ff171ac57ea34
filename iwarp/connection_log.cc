#include "iwarp/connection_log.h"

#include "iwarp/mpa/setup.h"
#include "iwarp/stream/stream_error.h"
#include "iwarp/transport.h"
#include "iwarp/wire/terminate.h"

namespace cw::iwarp {
namespace {

std::string_view name_of(ConnectionEventKind kind) {
  switch (kind) {
    case ConnectionEventKind::kConnected:
      return "connected";
    case ConnectionEventKind::kDropped:
      return "dropped";
    case ConnectionEventKind::kBadSetup:
      return "bad_setup";
    case ConnectionEventKind::kRejected:
      return "rejected";
    case ConnectionEventKind::kTerminateReceived:
      return "terminate_received";
    case ConnectionEventKind::kTerminateSent:
      return "terminate_sent";
    case ConnectionEventKind::kFailed:
      return "failed";
    case ConnectionEventKind::kClosed:
      return "closed";
    case ConnectionEventKind::kOutOfBuffers:
      return "out_of_buffers";
    case ConnectionEventKind::kCount:
      break;
  }
  return "unknown";
}

std::string_view reason_of(const ConnectionLogEntry& entry) {
  switch (entry.kind) {
    case ConnectionEventKind::kDropped:
      return to_string(static_cast<IwarpDrop>(entry.detail));
    case ConnectionEventKind::kBadSetup:
      return to_string(static_cast<MpaError>(entry.detail));
    case ConnectionEventKind::kRejected:
      return to_string(static_cast<verbs::RejectReason>(entry.detail));
    case ConnectionEventKind::kTerminateReceived:
    case ConnectionEventKind::kTerminateSent:
      return to_string(static_cast<TerminateCause>(entry.detail));
    case ConnectionEventKind::kFailed:
      return to_string(static_cast<StreamErrorCause>(entry.detail));
    case ConnectionEventKind::kConnected:
    case ConnectionEventKind::kClosed:
    case ConnectionEventKind::kOutOfBuffers:
    case ConnectionEventKind::kCount:
      break;
  }
  return {};
}

}  // namespace

verbs::TransportEvent to_event(const ConnectionLogEntry& entry) noexcept {
  return {.at = entry.at,
          .first = entry.first,
          .peer = entry.peer,
          .peer_port = entry.peer_port,
          .sequence = entry.sequence,
          .count = entry.count,
          .event = name_of(entry.kind),
          .reason = reason_of(entry)};
}

}  // namespace cw::iwarp
