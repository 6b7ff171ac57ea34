// Why a queue pair of an RNIC is in Error, said once where it was decided, why a connection that we asked for was not made, and
// what devices tell besides completions.
#pragma once

#include <cstdint>
#include <string_view>

#include "verbs/completion.h"
#include "verbs/connection.h"

namespace cw::rnic {

enum class RnicErrorCause : uint8_t {
  kNone,           // not in Error
  kClosed,         // our owner closed it
  kPeerClosed,     // the peer took leave
  kCompletion,     // a work completion: `status` is what it says
  kFlushed,        // work was flushed, and nobody has told why
  kAccessError,    // the device refused what the peer asked of our memory
  kRequestError,   // the device refused a request of the peer that is not valid
  kQueuePair,      // the device: the queue pair has failed
  kCompletions,    // the device: a completion queue has failed
  kDevice,         // the device itself has failed
  kDeviceRemoved,  // the device is gone
  kPostRefused,    // the device did not take a work request
  kSetup,          // the connection was not made
  kPeerSilent,     // idle, and asked whether it is there the peer did not answer
  kCount
};
inline constexpr uint32_t kRnicErrorCauseCount = static_cast<uint32_t>(RnicErrorCause::kCount);
[[nodiscard]] std::string_view to_string(RnicErrorCause cause) noexcept;
// Whose work decided it: owner, peer or device.
[[nodiscard]] std::string_view origin_of(RnicErrorCause cause, verbs::WcStatus status) noexcept;

struct RnicError {
  RnicErrorCause cause = RnicErrorCause::kNone;
  verbs::WcStatus status = verbs::WcStatus::kSuccess;  // kCompletion, kPeerSilent: why asking failed
  uint32_t work = 0;                                   // works of ours that were done by then

  [[nodiscard]] bool any() const { return cause != RnicErrorCause::kNone; }
};

// Why connect() came to nothing.
enum class ConnectFailure : uint8_t {
  kNone,               // it is under way
  kNoRoute,            // no RDMA device has a way to the server
  kAddressUnresolved,  // nobody has answered for the server's address
  kRouteUnresolved,    // the subnet manager knows no path to it
  kOtherDevice,        // the way is by another device than the one that was named
  kDeviceRefused,      // the device could not be opened, or did not register our memory
  kNoQueuePair,        // the device has none, or no room for completions
  kPieces,             // a message of the agreed length takes more pieces than the device has for a receive
  kRequestFailed,      // rdma-core did not take our request, or what has to follow its answer
  kNoListener,         // TCP: nobody listens at the port
  kRejected,           // by the peer, who may say why
  kUnreachable,        // the connection manager has given up
  kTimeout,            // no answer in time
  kLost,               // the peer went away
  kDeviceGone,         // the device is gone
  kCount
};
inline constexpr uint32_t kConnectFailureCount = static_cast<uint32_t>(ConnectFailure::kCount);
[[nodiscard]] std::string_view to_string(ConnectFailure failure) noexcept;
// In the words of all transports.
[[nodiscard]] verbs::Rejection rejection_of(ConnectFailure failure) noexcept;

// An event of a device, of a queue pair or a port (ibv_get_async_event, and what the connection manager says of devices).
enum class DeviceEvent : uint8_t {
  kAccessError,
  kRequestError,
  kQueuePairFatal,
  kCompletionQueueError,
  kDeviceFatal,
  kDeviceRemoved,
  kEstablished,  // the first message came before the connection was established
  kPortDown,
  kPortUp,
  kPortChange,  // of an address, a partition, a manager
  kRefused,     // a device could not be opened, or did not register our memory
  kListening,   // an address that was lost with its device is listened on again
  kOther,
};
inline constexpr uint32_t kDeviceEventCount = 13;
[[nodiscard]] std::string_view to_string(DeviceEvent event) noexcept;

}  // namespace cw::rnic
