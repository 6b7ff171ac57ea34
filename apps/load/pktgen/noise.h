// What every LAN carries beside RoCE: to run while a real load is measured.
#pragma once

#include "apps/load/pktgen/profile.h"

namespace cw::pktgen {

struct NoiseOptions {
  uint32_t count = 1000;  // 1..1000000 frames
};

// A mix drawn by the seed: other UDP, TCP, ARP or neighbour discovery, broadcast and multicast, link-layer protocols, and RoCE to
// a group. None of it may touch a connection.
[[nodiscard]] Profile make_noise(const Target& target, const NoiseOptions& options);

}  // namespace cw::pktgen
