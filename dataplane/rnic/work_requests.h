// What a turn has for a queue of a queue pair, given to the device as one chain, with one doorbell.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <span>

#include "dataplane/rnic/rdma_device.h"
#include "rnic/rnic_host.h"

namespace cw::dataplane {

// Of one chain.
inline constexpr uint32_t kRequestsAtOnce = 32;
// Of one request.
inline constexpr uint32_t kPiecesMax = 32;

struct ChainPosted {
  uint32_t taken = 0;   // that the device has, or may have
  bool failed = false;  // the queue pair is of no use any more, whatever was taken
};

// At most kRequestsAtOnce, with kPiecesMax pieces each, all of them in memory of `device`.
[[nodiscard]] ChainPosted post_chain(ibv_qp& qp, const RdmaDevice& device, std::span<const rnic::SendWork> works);
[[nodiscard]] ChainPosted post_chain(ibv_qp& qp, const RdmaDevice& device, std::span<const rnic::ReceiveWork> works);

}  // namespace cw::dataplane
