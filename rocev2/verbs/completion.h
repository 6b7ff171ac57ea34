// What a queue pair reports. Names and meanings follow rdma-core's ibv_wc.
#pragma once

#include <cstdint>
#include <optional>

#include "rocev2/base/buffer.h"
#include "rocev2/verbs/ids.h"

namespace cw::verbs {

// ibv_wc_status, the members that a reliable connection can give.
enum class WcStatus : uint8_t {
  kSuccess,
  kLocalLengthError,       // IBV_WC_LOC_LEN_ERR: received message longer than the receive buffer
  kLocalQpOperationError,  // IBV_WC_LOC_QP_OP_ERR
  kLocalProtectionError,   // IBV_WC_LOC_PROT_ERR
  kWorkRequestFlushed,     // IBV_WC_WR_FLUSH_ERR: the queue pair went to Error first
  kBadResponse,            // IBV_WC_BAD_RESP_ERR
  kLocalAccessError,       // IBV_WC_LOC_ACCESS_ERR
  kRemoteInvalidRequest,   // IBV_WC_REM_INV_REQ_ERR
  kRemoteAccessError,      // IBV_WC_REM_ACCESS_ERR
  kRemoteOperationError,   // IBV_WC_REM_OP_ERR
  kRetryExceeded,          // IBV_WC_RETRY_EXC_ERR
  kRnrRetryExceeded,       // IBV_WC_RNR_RETRY_EXC_ERR
};
[[nodiscard]] const char* to_string(WcStatus status) noexcept;

enum class WcOpcode : uint8_t { kSend, kRdmaWrite, kRdmaRead, kCompareSwap, kFetchAdd, kReceive, kReceiveRdmaWithImmediate };
[[nodiscard]] const char* to_string(WcOpcode opcode) noexcept;

struct Completion {
  WorkId id;  // of the posted work; meaningless for receives
  WcStatus status = WcStatus::kSuccess;
  WcOpcode opcode = WcOpcode::kSend;
  uint32_t bytes = 0;                 // octets received, read or written; 8 for an atomic operation
  Chain payload;                      // kReceive: the message; kRdmaRead: the data; else empty
  uint64_t original = 0;              // kCompareSwap, kFetchAdd: what the peer's memory held before
  std::optional<uint32_t> immediate;  // receives only
  std::optional<Rkey> invalidated;    // kReceive: the rkey of ours that the peer asked to invalidate, already invalid
};

}  // namespace cw::verbs
