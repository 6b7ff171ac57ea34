// Why a queue pair of an RNIC is in Error, said once where it was decided, and what devices tell besides completions.
#pragma once

#include <cstdint>
#include <string_view>

#include "verbs/completion.h"

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
