#include "iwarp/stream/stream_error.h"

namespace cw::iwarp {

std::string_view to_string(StreamErrorCause cause) noexcept {
  switch (cause) {
    case StreamErrorCause::kNone:
      return "none";
    case StreamErrorCause::kClosed:
      return "closed";
    case StreamErrorCause::kPeerClosed:
      return "peer_closed";
    case StreamErrorCause::kTcpReset:
      return "tcp_reset";
    case StreamErrorCause::kTcpTimeout:
      return "tcp_timeout";
    case StreamErrorCause::kTerminated:
      return "terminated";
    case StreamErrorCause::kViolation:
      return "violation";
    case StreamErrorCause::kFpduTimeout:
      return "fpdu_timeout";
    case StreamErrorCause::kNoResources:
      return "no_resources";
    case StreamErrorCause::kCount:
      break;
  }
  return "none";
}

}  // namespace cw::iwarp
