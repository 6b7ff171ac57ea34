// Which backends a listener's calls can go to, and which program's calls go where. A connection has a lane to each of them: lane
// 0 leads to the listener's own backend, if it has one, the others to those that routes name.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "control/gateway/backend_link.h"
#include "control/gateway/gateway_options.h"
#include "rocev2/base/assert.h"

namespace cw::gateway {

class ListenerLanes {
 public:
  explicit ListenerLanes(const ListenerOptions& listener) : backends_{listener.backend} {
    for (const RouteOptions& route : listener.routes) {
      const auto found = std::find(backends_.begin(), backends_.end(), route.backend);
      programs_.emplace_back(route.program, static_cast<uint32_t>(found - backends_.begin()));
      if (found == backends_.end()) {
        backends_.push_back(route.backend);
      }
    }
    CW_ASSERT(backends_.size() <= 1u << kLinkLaneBits);
    std::sort(programs_.begin(), programs_.end());
  }

  [[nodiscard]] uint32_t count() const { return static_cast<uint32_t>(backends_.size()); }
  // kNoBackend: lane 0 of a listener without a backend of its own.
  [[nodiscard]] uint32_t backend(uint32_t lane) const { return backends_[lane]; }
  [[nodiscard]] uint32_t lane_for(uint32_t program) const {
    const auto found = std::lower_bound(programs_.begin(), programs_.end(), std::pair(program, 0u));
    return found != programs_.end() && found->first == program ? found->second : 0;
  }

 private:
  std::vector<uint32_t> backends_;                       // by lane
  std::vector<std::pair<uint32_t, uint32_t>> programs_;  // program and lane, sorted
};

}  // namespace cw::gateway
