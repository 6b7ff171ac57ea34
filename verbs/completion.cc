#include "verbs/completion.h"

#include <array>

namespace cw::verbs {

const char* to_string(WcStatus status) noexcept {
  static constexpr std::array<const char*, kWcStatusCount> kNames = {
      "success",
      "local length error",
      "local QP operation error",
      "local EE context operation error",
      "local protection error",
      "work request flushed",
      "memory window bind error",
      "bad response",
      "local access error",
      "remote invalid request",
      "remote access error",
      "remote operation error",
      "transport retry count exceeded",
      "RNR retry count exceeded",
      "local RDD violation",
      "remote invalid RD request",
      "operation aborted",
      "invalid EE context number",
      "invalid EE context state",
      "fatal error",
      "response timeout",
      "general error",
      "tag matching error",
      "tag matching rendezvous incomplete",
  };
  const auto index = static_cast<size_t>(status);
  return index < kNames.size() ? kNames[index] : "unknown status";
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
