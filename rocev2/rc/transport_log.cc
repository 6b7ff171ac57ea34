#include "rocev2/rc/transport_log.h"

#include "rocev2/rc/qp_error.h"
#include "rocev2/wire/aeth.h"
#include "rocev2/wire/drop_reason.h"

namespace cw::rc {

const char* to_string(TransportEventKind kind) noexcept {
  switch (kind) {
    case TransportEventKind::kCreated:
      return "created";
    case TransportEventKind::kConnected:
      return "connected";
    case TransportEventKind::kDestroyed:
      return "destroyed";
    case TransportEventKind::kFailed:
      return "failed";
    case TransportEventKind::kAckTimeout:
      return "ack_timeout";
    case TransportEventKind::kTailProbe:
      return "tail_probe";
    case TransportEventKind::kSendsAgain:
      return "sends_again";
    case TransportEventKind::kNakReceived:
      return "nak_received";
    case TransportEventKind::kRnrNakReceived:
      return "rnr_nak_received";
    case TransportEventKind::kGapReportReceived:
      return "gap_report_received";
    case TransportEventKind::kResponseMissing:
      return "response_missing";
    case TransportEventKind::kKeepaliveSent:
      return "keepalive_sent";
    case TransportEventKind::kDuplicateRequest:
      return "duplicate_request";
    case TransportEventKind::kOutOfSequence:
      return "out_of_sequence";
    case TransportEventKind::kNakSent:
      return "nak_sent";
    case TransportEventKind::kRnrNakSent:
      return "rnr_nak_sent";
    case TransportEventKind::kGapReportSent:
      return "gap_report_sent";
    case TransportEventKind::kDiscarded:
      return "discarded";
    case TransportEventKind::kCnpReceived:
      return "cnp_received";
    case TransportEventKind::kCnpSent:
      return "cnp_sent";
    case TransportEventKind::kCount:
      break;
  }
  return "unknown";
}

const char* reason_of(const TransportEvent& event) noexcept {
  switch (event.kind) {
    case TransportEventKind::kFailed:
      return to_string(static_cast<QpErrorCause>(event.detail));
    case TransportEventKind::kNakReceived:
    case TransportEventKind::kNakSent:
      return wire::to_string(static_cast<wire::NakCode>(event.detail));
    case TransportEventKind::kDiscarded:
      return wire::to_string(static_cast<wire::DropReason>(event.detail));
    case TransportEventKind::kCnpReceived:
      return event.detail != 0 ? "rate cut" : "rate kept";
    default:
      return "";
  }
}

verbs::TransportEvent to_event(const TransportEvent& event) noexcept {
  return {.at = event.at,
          .first = event.first,
          .local_qpn = event.qpn,
          .sequence = event.psn.value(),
          .count = event.count,
          .event = to_string(event.kind),
          .reason = reason_of(event)};
}

}  // namespace cw::rc
