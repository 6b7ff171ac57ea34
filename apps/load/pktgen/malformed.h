// One frame of every kind that causewayd refuses under a name of its own.
#pragma once

#include <optional>

#include "apps/load/pktgen/profile.h"

namespace cw::pktgen {

// Without `qp`: what needs no connection, each frame refused the same in every pass. With it also what is refused at an
// established queue pair, and RPC-over-RDMA headers that are refused there: for one pass, since the queue pair's PSNs move on.
[[nodiscard]] Profile make_malformed(const Target& target, const std::optional<QueuePairTarget>& qp);

// The parts, in the order of the file.
void add_malformed_frames(Profile& profile, const Target& target);      // Ethernet to iCRC, and QPNs that are not there
void add_malformed_management(Profile& profile, const Target& target);  // QP1 and connection management
void add_malformed_requests(Profile& profile, const Target& target);    // REQs that are answered with a REJ
// At a queue pair; no PSN is used up.
void add_malformed_at_qp(Profile& profile, const Target& target, const QueuePairTarget& qp);
void add_malformed_headers(Profile& profile, const Target& target, const QueuePairTarget& qp);

}  // namespace cw::pktgen
