// Which backends a listener's calls can go to, and which program's calls go where. A connection has a lane to each of them: lane
// 0 leads to the listener's own backend, if it has one, the others to those that routes name.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/assert.h"
#include "gateway/backend_link.h"
#include "gateway/gateway_options.h"
#include "gateway/gateway_stats.h"
#include "rpcrdma/endpoint/rpcrdma_options.h"

namespace cw::gateway {

class ListenerLanes {
 public:
  // Where calls of a program go, and the number of what says so.
  struct Way {
    uint32_t lane = 0;
    uint32_t route = 0;  // RouteIds

    friend bool operator==(const Way&, const Way&) = default;
  };

  explicit ListenerLanes(const ListenerOptions& listener) : backends_{listener.backend}, other_{0, listener.other_route} {
    CW_ASSERT(listener.other_route < kRouteIdsMax);
    for (const RouteOptions& route : listener.routes) {
      const auto found = std::find(backends_.begin(), backends_.end(), route.backend);
      CW_ASSERT(route.number < kRouteIdsMax);
      programs_.push_back({route.program, {static_cast<uint32_t>(found - backends_.begin()), route.number}});
      if (found == backends_.end()) {
        backends_.push_back(route.backend);
      }
    }
    CW_ASSERT(backends_.size() <= 1u << kLinkLaneBits);
    std::sort(programs_.begin(), programs_.end(), [](const Routed& a, const Routed& b) { return a.program < b.program; });
  }

  friend bool operator==(const ListenerLanes&, const ListenerLanes&) = default;

  [[nodiscard]] uint32_t count() const { return static_cast<uint32_t>(backends_.size()); }
  // kNoBackend: lane 0 of a listener without a backend of its own.
  [[nodiscard]] uint32_t backend(uint32_t lane) const { return backends_[lane]; }
  [[nodiscard]] Way way_for(uint32_t program) const {
    if (programs_.empty()) [[likely]] {
      return other_;  // most have no routes, and pay for no look-up
    }
    const auto found = std::lower_bound(programs_.begin(), programs_.end(), program,
                                        [](const Routed& routed, uint32_t wanted) { return routed.program < wanted; });
    return found != programs_.end() && found->program == program ? found->way : other_;
  }

 private:
  struct Routed {
    uint32_t program = 0;
    Way way;

    friend bool operator==(const Routed&, const Routed&) = default;
  };
  std::vector<uint32_t> backends_;  // by lane
  std::vector<Routed> programs_;    // sorted
  Way other_;                       // of programs without a route
};

// Connections keep the lanes that they began with: those of a listener before a reload are there until the last has ended.
struct LaneTable {
  ListenerLanes lanes;
  rpcrdma::BackendShares shares;
  uint64_t connections = 0;
};

}  // namespace cw::gateway
