#include "rocev2/rc/qp_error.h"

namespace cw::rc {

const char* to_string(QpErrorCause cause) noexcept {
  switch (cause) {
    case QpErrorCause::kNone:
      return "none";
    case QpErrorCause::kClosed:
      return "closed by us";
    case QpErrorCause::kRetryExceeded:
      return "no answer from the peer: retry count exceeded";
    case QpErrorCause::kRnrRetryExceeded:
      return "the peer had no receive posted: RNR retry count exceeded";
    case QpErrorCause::kPeerSilent:
      return "the idle peer answers no keep-alive: retry count exceeded";
    case QpErrorCause::kBadResponse:
      return "READ response does not fit its request";
    case QpErrorCause::kNakInvalidRequest:
      return "the peer refused a request as invalid";
    case QpErrorCause::kNakRemoteAccess:
      return "the peer refused access to its memory";
    case QpErrorCause::kNakRemoteOperation:
      return "the peer could not complete a request";
    case QpErrorCause::kOpcodeSequence:
      return "the peer's opcodes are out of order";
    case QpErrorCause::kOperationNotAllowed:
      return "the peer asked for an operation that is not enabled";
    case QpErrorCause::kPacketLength:
      return "the peer's packet has a wrong length for its place in the message";
    case QpErrorCause::kMessageTooLong:
      return "the peer's message is longer than we accept";
    case QpErrorCause::kWriteLength:
      return "the peer's WRITE does not have the length that it announced";
    case QpErrorCause::kMemoryAccess:
      return "the peer has no right to the memory that it named";
    case QpErrorCause::kMisalignedAtomic:
      return "the peer's atomic operation is not on a multiple of 8";
    case QpErrorCause::kMemoryGone:
      return "memory was withdrawn while the peer was reading it";
  }
  return "unknown";
}

const char* to_string(QpErrorOrigin origin) noexcept {
  switch (origin) {
    case QpErrorOrigin::kNone:
      return "none";
    case QpErrorOrigin::kOwner:
      return "owner";
    case QpErrorOrigin::kRequester:
      return "requester";
    case QpErrorOrigin::kResponder:
      return "responder";
  }
  return "unknown";
}

}  // namespace cw::rc
