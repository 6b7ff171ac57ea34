#include "rnic/rnic_error.h"

#include <array>

#include "rnic/rnic_host.h"

namespace cw::rnic {

std::string_view to_string(RnicErrorCause cause) noexcept {
  static constexpr auto kNames = std::to_array<std::string_view>(
      {"none", "closed", "peer_closed", "completion", "flushed", "access_error", "request_error", "queue_pair",
       "completion_queue", "device_fatal", "device_removed", "post_refused", "setup", "peer_silent"});
  static_assert(kNames.size() == kRnicErrorCauseCount);
  return kNames[static_cast<size_t>(cause)];
}

std::string_view origin_of(RnicErrorCause cause, verbs::WcStatus status) noexcept {
  switch (cause) {
    case RnicErrorCause::kNone:
      return "none";
    case RnicErrorCause::kClosed:
      return "owner";
    case RnicErrorCause::kPeerClosed:
    case RnicErrorCause::kAccessError:
    case RnicErrorCause::kRequestError:
    case RnicErrorCause::kPeerSilent:
      return "peer";
    case RnicErrorCause::kCompletion:
    case RnicErrorCause::kCount:
      break;
    case RnicErrorCause::kFlushed:
    case RnicErrorCause::kQueuePair:
    case RnicErrorCause::kCompletions:
    case RnicErrorCause::kDevice:
    case RnicErrorCause::kDeviceRemoved:
    case RnicErrorCause::kPostRefused:
    case RnicErrorCause::kSetup:
      return "device";
  }
  switch (status) {
    case verbs::WcStatus::kLocalLengthError:  // its message was longer than the receive
    case verbs::WcStatus::kBadResponse:
    case verbs::WcStatus::kRemoteInvalidRequest:
    case verbs::WcStatus::kRemoteAccessError:
    case verbs::WcStatus::kRemoteOperationError:
    case verbs::WcStatus::kRetryExceeded:
    case verbs::WcStatus::kRnrRetryExceeded:
    case verbs::WcStatus::kRemoteAborted:
    case verbs::WcStatus::kResponseTimeout:
      return "peer";
    default:
      return "device";
  }
}

std::string_view to_string(ConnectFailure failure) noexcept {
  static constexpr auto kNames = std::to_array<std::string_view>(
      {"none", "no_route", "address_unresolved", "route_unresolved", "other_device", "device_refused", "no_queue_pair",
       "receive_pieces", "request_failed", "connection_refused", "rejected", "unreachable", "timeout", "lost_in_setup",
       "device_gone"});
  static_assert(kNames.size() == kConnectFailureCount);
  return kNames[static_cast<size_t>(failure)];
}

verbs::Rejection rejection_of(ConnectFailure failure) noexcept {
  switch (failure) {
    case ConnectFailure::kNoRoute:
    case ConnectFailure::kAddressUnresolved:
    case ConnectFailure::kRouteUnresolved:
    case ConnectFailure::kUnreachable:
    case ConnectFailure::kTimeout:
      return {verbs::RejectReason::kNoAnswer, to_string(failure)};
    case ConnectFailure::kNoListener:
      return {verbs::RejectReason::kNoListener, to_string(failure)};
    case ConnectFailure::kNone:
    case ConnectFailure::kOtherDevice:
    case ConnectFailure::kDeviceRefused:
    case ConnectFailure::kNoQueuePair:
    case ConnectFailure::kPieces:
    case ConnectFailure::kRequestFailed:
    case ConnectFailure::kRejected:
    case ConnectFailure::kLost:
    case ConnectFailure::kDeviceGone:
    case ConnectFailure::kCount:
      break;
  }
  return {verbs::RejectReason::kOther, to_string(failure)};
}

std::string_view to_string(DeviceEvent event) noexcept {
  static constexpr std::array<std::string_view, kDeviceEventCount> kNames = {"access_error",
                                                                             "request_error",
                                                                             "queue_pair_fatal",
                                                                             "completion_queue_error",
                                                                             "device_fatal",
                                                                             "device_removed",
                                                                             "communication_established",
                                                                             "port_down",
                                                                             "port_up",
                                                                             "port_change",
                                                                             "device_refused",
                                                                             "listening_again",
                                                                             "other"};
  return kNames[static_cast<size_t>(event)];
}

std::string_view to_string(Exposure exposure) noexcept {
  switch (exposure) {
    case Exposure::kUnknown:
      return "unknown";
    case Exposure::kNone:
      return "none";
    case Exposure::kExposed:
      return "exposed";
  }
  return "unknown";
}

}  // namespace cw::rnic
