// What a queue pair reports. Names and meanings follow rdma-core's ibv_wc.
#pragma once

#include <cstdint>
#include <optional>

#include "base/buffer.h"
#include "base/time.h"
#include "verbs/ids.h"

namespace cw::verbs {

// ibv_wc_status, whole and with its values: a transport beside this one may give what a reliable connection of ours cannot. Ours
// gives those marked *. Local protection and access errors cannot happen to payload that is handed over as a Chain.
enum class WcStatus : uint8_t {
  kSuccess = 0,                   // * IBV_WC_SUCCESS
  kLocalLengthError = 1,          // * IBV_WC_LOC_LEN_ERR: received message longer than the receive buffer
  kLocalQpOperationError = 2,     // IBV_WC_LOC_QP_OP_ERR
  kLocalEecOperationError = 3,    // IBV_WC_LOC_EEC_OP_ERR (reliable datagrams only)
  kLocalProtectionError = 4,      // IBV_WC_LOC_PROT_ERR: the work's own memory is not registered for it
  kWorkRequestFlushed = 5,        // * IBV_WC_WR_FLUSH_ERR: the queue pair went to Error first
  kMemoryWindowBindError = 6,     // IBV_WC_MW_BIND_ERR
  kBadResponse = 7,               // * IBV_WC_BAD_RESP_ERR: a response that does not fit its request
  kLocalAccessError = 8,          // IBV_WC_LOC_ACCESS_ERR
  kRemoteInvalidRequest = 9,      // * IBV_WC_REM_INV_REQ_ERR: NAK Invalid Request
  kRemoteAccessError = 10,        // * IBV_WC_REM_ACCESS_ERR: NAK Remote Access Error
  kRemoteOperationError = 11,     // * IBV_WC_REM_OP_ERR: NAK Remote Operational Error
  kRetryExceeded = 12,            // * IBV_WC_RETRY_EXC_ERR: no answer, retry_count times
  kRnrRetryExceeded = 13,         // * IBV_WC_RNR_RETRY_EXC_ERR: receiver not ready, rnr_retry times
  kLocalRddViolation = 14,        // IBV_WC_LOC_RDD_VIOL_ERR (reliable datagrams only)
  kRemoteInvalidRdRequest = 15,   // IBV_WC_REM_INV_RD_REQ_ERR (reliable datagrams only)
  kRemoteAborted = 16,            // IBV_WC_REM_ABORT_ERR
  kInvalidEecNumber = 17,         // IBV_WC_INV_EECN_ERR (reliable datagrams only)
  kInvalidEecState = 18,          // IBV_WC_INV_EEC_STATE_ERR (reliable datagrams only)
  kFatalError = 19,               // IBV_WC_FATAL_ERR
  kResponseTimeout = 20,          // IBV_WC_RESP_TIMEOUT_ERR
  kGeneralError = 21,             // IBV_WC_GENERAL_ERR
  kTagMatchingError = 22,         // IBV_WC_TM_ERR
  kTagRendezvousIncomplete = 23,  // IBV_WC_TM_RNDV_INCOMPLETE
};
inline constexpr uint32_t kWcStatusCount = 24;
[[nodiscard]] const char* to_string(WcStatus status) noexcept;

// ibv_wc_opcode with its values: what completed. Without memory windows, local invalidation, segmentation and tag matching, which
// no interface here can post. Receives have the highest bit.
enum class WcOpcode : uint8_t {
  kSend = 0,                        // IBV_WC_SEND
  kRdmaWrite = 1,                   // IBV_WC_RDMA_WRITE
  kRdmaRead = 2,                    // IBV_WC_RDMA_READ
  kCompareSwap = 3,                 // IBV_WC_COMP_SWAP
  kFetchAdd = 4,                    // IBV_WC_FETCH_ADD
  kReceive = 128,                   // IBV_WC_RECV
  kReceiveRdmaWithImmediate = 129,  // IBV_WC_RECV_RDMA_WITH_IMM
};
[[nodiscard]] constexpr bool is_receive(WcOpcode opcode) {
  return (static_cast<uint8_t>(opcode) & static_cast<uint8_t>(WcOpcode::kReceive)) != 0;
}
[[nodiscard]] const char* to_string(WcOpcode opcode) noexcept;

struct Completion {
  WorkId id;  // of the posted work; meaningless for receives
  WcStatus status = WcStatus::kSuccess;
  WcOpcode opcode = WcOpcode::kSend;
  uint32_t bytes = 0;                 // bytes received, read or written; 8 for an atomic operation
  Chain payload;                      // kReceive: the message; kRdmaRead: the data; else empty
  uint64_t original = 0;              // kCompareSwap, kFetchAdd: what the peer's memory held before
  std::optional<uint32_t> immediate;  // receives only
  // Receives: when the first packet of the message arrived, by the same clock as `now`. never(): the transport does not say.
  Instant begun = Instant::never();
  bool solicited = false;           // receives: the sender asked that the owner be woken (a solicited event)
  std::optional<Rkey> invalidated;  // kReceive: the rkey of ours that the peer asked to invalidate, already invalid
};

}  // namespace cw::verbs
