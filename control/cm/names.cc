// Label values of the enumerations that appear in events and counters.
#include "control/cm/cm_event.h"
#include "control/cm/cm_stats.h"
#include "control/cm/reject_reason.h"
#include "control/cm/wire/mad_header.h"

namespace cw::cm {

const char* to_string(MessageType type) noexcept {
  switch (type) {
    case MessageType::kReq:
      return "req";
    case MessageType::kMra:
      return "mra";
    case MessageType::kRej:
      return "rej";
    case MessageType::kRep:
      return "rep";
    case MessageType::kRtu:
      return "rtu";
    case MessageType::kDreq:
      return "dreq";
    case MessageType::kDrep:
      return "drep";
    case MessageType::kSidrReq:
      return "sidr_req";
    case MessageType::kSidrRep:
      return "sidr_rep";
    case MessageType::kLap:
      return "lap";
    case MessageType::kApr:
      return "apr";
    case MessageType::kCount:
      break;
  }
  return "unknown";
}

const char* to_string(RejectReason reason) noexcept {
  switch (reason) {
    case RejectReason::kNoQp:
      return "no_qp";
    case RejectReason::kNoEec:
      return "no_eec";
    case RejectReason::kNoResources:
      return "no_resources";
    case RejectReason::kTimeout:
      return "timeout";
    case RejectReason::kUnsupported:
      return "unsupported";
    case RejectReason::kInvalidCommId:
      return "invalid_comm_id";
    case RejectReason::kInvalidCommInstance:
      return "invalid_comm_instance";
    case RejectReason::kInvalidServiceId:
      return "invalid_service_id";
    case RejectReason::kInvalidTransportType:
      return "invalid_transport_type";
    case RejectReason::kStaleConnection:
      return "stale_connection";
    case RejectReason::kRdcNotExist:
      return "rdc_not_exist";
    case RejectReason::kInvalidGid:
      return "invalid_gid";
    case RejectReason::kInvalidLid:
      return "invalid_lid";
    case RejectReason::kInvalidSl:
      return "invalid_sl";
    case RejectReason::kInvalidTrafficClass:
      return "invalid_traffic_class";
    case RejectReason::kInvalidHopLimit:
      return "invalid_hop_limit";
    case RejectReason::kInvalidPacketRate:
      return "invalid_packet_rate";
    case RejectReason::kInvalidAlternateGid:
      return "invalid_alternate_gid";
    case RejectReason::kInvalidAlternateLid:
      return "invalid_alternate_lid";
    case RejectReason::kInvalidAlternateSl:
      return "invalid_alternate_sl";
    case RejectReason::kInvalidAlternateTrafficClass:
      return "invalid_alternate_traffic_class";
    case RejectReason::kInvalidAlternateHopLimit:
      return "invalid_alternate_hop_limit";
    case RejectReason::kInvalidAlternatePacketRate:
      return "invalid_alternate_packet_rate";
    case RejectReason::kPortCmRedirect:
      return "port_cm_redirect";
    case RejectReason::kPortRedirect:
      return "port_redirect";
    case RejectReason::kInvalidMtu:
      return "invalid_mtu";
    case RejectReason::kInsufficientResponderResources:
      return "insufficient_responder_resources";
    case RejectReason::kConsumerDefined:
      return "consumer_defined";
    case RejectReason::kInvalidRnrRetry:
      return "invalid_rnr_retry";
    case RejectReason::kDuplicateLocalCommId:
      return "duplicate_local_comm_id";
    case RejectReason::kInvalidClassVersion:
      return "invalid_class_version";
    case RejectReason::kInvalidFlowLabel:
      return "invalid_flow_label";
    case RejectReason::kInvalidAlternateFlowLabel:
      return "invalid_alternate_flow_label";
    case RejectReason::kVendorOptionNotSupported:
      return "vendor_option_not_supported";
  }
  return "unknown";
}

verbs::Rejection rejection_of(RejectReason reason) noexcept {
  switch (reason) {
    case RejectReason::kInvalidServiceId:
      return {verbs::RejectReason::kNoListener, to_string(reason)};
    case RejectReason::kConsumerDefined:
      return {verbs::RejectReason::kRefused, to_string(reason)};
    case RejectReason::kNoResources:
      return {verbs::RejectReason::kNoResources, to_string(reason)};
    case RejectReason::kTimeout:
      return {verbs::RejectReason::kNoAnswer, to_string(reason)};
    default:
      return {verbs::RejectReason::kOther, to_string(reason)};
  }
}

const char* to_string(DisconnectCause cause) noexcept {
  switch (cause) {
    case DisconnectCause::kRemoteRequest:
      return "remote_request";
    case DisconnectCause::kLocalRequest:
      return "local_request";
    case DisconnectCause::kLocalUnanswered:
      return "local_unanswered";
    case DisconnectCause::kRejected:
      return "rejected";
    case DisconnectCause::kSuperseded:
      return "superseded";
  }
  return "unknown";
}

const char* to_string(ConnectFailure failure) noexcept {
  switch (failure) {
    case ConnectFailure::kNoAnswer:
      return "no_answer";
    case ConnectFailure::kNoDecision:
      return "no_decision";
    case ConnectFailure::kSuperseded:
      return "superseded";
    case ConnectFailure::kEvicted:
      return "evicted";
  }
  return "unknown";
}

const char* to_string(CmDrop drop) noexcept {
  switch (drop) {
    case CmDrop::kHeader:
      return "header";
    case CmDrop::kClassVersion:
      return "class_version";
    case CmDrop::kAttribute:
      return "attribute";
    case CmDrop::kSource:
      return "source";
    case CmDrop::kMalformed:
      return "malformed";
    case CmDrop::kUnknown:
      return "unknown_connection";
    case CmDrop::kUnbound:
      return "unbound";
    case CmDrop::kOutOfState:
      return "out_of_state";
    case CmDrop::kQpnMismatch:
      return "qpn_mismatch";
    case CmDrop::kDuplicate:
      return "duplicate";
    case CmDrop::kRequestRate:
      return "request_rate";
    case CmDrop::kAnswerRate:
      return "answer_rate";
    case CmDrop::kPrefixRequestRate:
      return "prefix_request_rate";
    case CmDrop::kPrefixAnswerRate:
      return "prefix_answer_rate";
    case CmDrop::kCount:
      break;
  }
  return "unknown";
}

const char* to_string(CmOutcome outcome) noexcept {
  switch (outcome) {
    case CmOutcome::kRemoteDisconnect:
      return "remote_disconnect";
    case CmOutcome::kLocalDisconnect:
      return "local_disconnect";
    case CmOutcome::kUnanswered:
      return "unanswered";
    case CmOutcome::kSuperseded:
      return "superseded";
    case CmOutcome::kRejectedLate:
      return "rejected_late";
    case CmOutcome::kRejectedByPeer:
      return "rejected_by_peer";
    case CmOutcome::kRejectedByUs:
      return "rejected_by_us";
    case CmOutcome::kNoAnswer:
      return "no_answer";
    case CmOutcome::kNoDecision:
      return "no_decision";
    case CmOutcome::kEvicted:
      return "evicted";
    case CmOutcome::kCount:
      break;
  }
  return "unknown";
}

}  // namespace cw::cm
