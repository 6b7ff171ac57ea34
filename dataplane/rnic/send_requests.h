// What a turn has for the send queue of a queue pair, given to the device as one chain, with one doorbell.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <span>

#include "dataplane/rnic/rdma_device.h"
#include "rnic/rnic_host.h"

namespace cw::dataplane {

// Of one call.
inline constexpr uint32_t kRequestsAtOnce = 32;
// Of one request.
inline constexpr uint32_t kPiecesMax = 32;

struct SendsPosted {
  uint32_t taken = 0;   // that the device has, or may have
  bool failed = false;  // the queue pair is of no use any more, whatever was taken
};

// At most kRequestsAtOnce, with kPiecesMax pieces each, all of them in memory of `device`.
[[nodiscard]] SendsPosted post_send_requests(ibv_qp& qp, const RdmaDevice& device, std::span<const rnic::SendWork> works);

// Some devices (rxe, siw) take all of a chain, cannot ring their doorbell, say that they failed, and name no request.
template <typename Request>
[[nodiscard]] uint32_t taken_of(std::span<const Request> chain, const Request* refused) {
  return refused == nullptr ? static_cast<uint32_t>(chain.size()) : static_cast<uint32_t>(refused - chain.data());
}

}  // namespace cw::dataplane
