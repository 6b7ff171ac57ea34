// Why a stream is in Error, said once where it was decided.
#pragma once

#include <cstdint>
#include <string_view>

#include "iwarp/wire/terminate.h"

namespace cw::iwarp {

enum class StreamErrorCause : uint8_t {
  kNone,         // not in Error
  kClosed,       // our owner closed it
  kPeerClosed,   // the peer ended its half of the TCP connection
  kTcpReset,     // by the peer
  kTcpTimeout,   // the peer acknowledged nothing for the time limit, or there is no way to it
  kTerminated,   // the peer sent a Terminate: `terminate` says why
  kViolation,    // the peer broke a rule: `terminate` is what we told it
  kFpduTimeout,  // an FPDU that began did not end
  kNoResources,  // of ours
  kCount
};
inline constexpr uint32_t kStreamErrorCauseCount = static_cast<uint32_t>(StreamErrorCause::kCount);
[[nodiscard]] std::string_view to_string(StreamErrorCause cause) noexcept;

struct StreamError {
  StreamErrorCause cause = StreamErrorCause::kNone;
  TerminateCause terminate = TerminateCause::kNone;  // kTerminated, kViolation
  uint32_t message = 0;                              // MSN of the segment that decided it, if it has one

  [[nodiscard]] bool any() const { return cause != StreamErrorCause::kNone; }
};

}  // namespace cw::iwarp
