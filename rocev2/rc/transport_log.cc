#include "rocev2/rc/transport_log.h"

#include <algorithm>

#include "base/assert.h"
#include "rocev2/rc/qp_error.h"
#include "rocev2/wire/aeth.h"
#include "rocev2/wire/drop_reason.h"

namespace cw::rc {

TransportLog::TransportLog(uint32_t capacity) : events_(std::make_unique<TransportEvent[]>(capacity)), capacity_(capacity) {
  CW_ASSERT(capacity > 0);
}

void TransportLog::note(verbs::Qpn qpn, TransportEventKind kind, wire::Psn psn, uint8_t detail) {
  if (written_ > 0) {
    TransportEvent& last = at(written_ - 1);
    if (last.qpn == qpn && last.kind == kind && last.detail == detail && last.count < UINT32_MAX) {
      last.at = now_;
      last.psn = psn;
      ++last.count;
      return;
    }
  }
  at(written_++) = {now_, now_, qpn, psn, 1, kind, detail};
}

uint32_t TransportLog::copy(std::span<TransportEvent> out) const {
  const uint32_t count = static_cast<uint32_t>(std::min<size_t>(size(), out.size()));
  for (uint32_t i = 0; i < count; ++i) {
    out[i] = events_[(written_ - count + i) % capacity_];
  }
  return count;
}

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

}  // namespace cw::rc
