// RDMA words that every transport shares. rkey here is `handle` in RFC 8166 and STag in iWARP.
#pragma once

#include <cstdint>

#include "base/strong_id.h"

namespace cw::verbs {

struct QpnTag {};
struct RkeyTag {};
struct WorkIdTag {};

using Qpn = StrongId<QpnTag, uint32_t>;        // 24 bits used
using Rkey = StrongId<RkeyTag, uint32_t>;      // names a memory region to the peer
using WorkId = StrongId<WorkIdTag, uint64_t>;  // the poster's own word, given back in the completion (ibv wr_id)

}  // namespace cw::verbs
