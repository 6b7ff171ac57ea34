#include "rocev2/verbs/completion.h"

namespace cw::verbs {

const char* to_string(WcStatus status) noexcept {
  switch (status) {
    case WcStatus::kSuccess:
      return "success";
    case WcStatus::kLocalLengthError:
      return "local length error";
    case WcStatus::kLocalQpOperationError:
      return "local QP operation error";
    case WcStatus::kLocalProtectionError:
      return "local protection error";
    case WcStatus::kWorkRequestFlushed:
      return "work request flushed";
    case WcStatus::kBadResponse:
      return "bad response";
    case WcStatus::kLocalAccessError:
      return "local access error";
    case WcStatus::kRemoteInvalidRequest:
      return "remote invalid request";
    case WcStatus::kRemoteAccessError:
      return "remote access error";
    case WcStatus::kRemoteOperationError:
      return "remote operation error";
    case WcStatus::kRetryExceeded:
      return "transport retry count exceeded";
    case WcStatus::kRnrRetryExceeded:
      return "RNR retry count exceeded";
  }
  return "unknown status";
}

const char* to_string(WcOpcode opcode) noexcept {
  switch (opcode) {
    case WcOpcode::kSend:
      return "send";
    case WcOpcode::kRdmaWrite:
      return "RDMA write";
    case WcOpcode::kRdmaRead:
      return "RDMA read";
    case WcOpcode::kCompareSwap:
      return "compare and swap";
    case WcOpcode::kFetchAdd:
      return "fetch and add";
    case WcOpcode::kReceive:
      return "receive";
    case WcOpcode::kReceiveRdmaWithImmediate:
      return "receive RDMA with immediate";
  }
  return "unknown opcode";
}

}  // namespace cw::verbs
