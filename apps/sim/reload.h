// Other configurations for the gateway of a running simulation, as a live reload brings them: sections of clients, listeners and
// backends that come, change and go, each keeping its number for the life of the process. With a reload clients may be refused or
// slowed down, but nobody is dropped; the first configuration comes back before everything has to be answered.
#pragma once

#include <cstdint>

#include "apps/sim/hosts.h"

namespace cw::sim {

inline constexpr uint32_t kReloadClients = 3;    // [[client]] sections
inline constexpr uint32_t kReloadListeners = 2;  // the first is the one that clients know
inline constexpr uint32_t kReloadBackends = 2;

// Drawn from `seed`: never more credits, inline bytes or calls than the gateway began with, whose memory they take.
[[nodiscard]] gateway::GatewayOptions reloaded_options(const WorldOptions& options, uint64_t seed);
// What the gateway began with, and the other sections removed.
[[nodiscard]] gateway::GatewayOptions restored_options(const WorldOptions& options);

}  // namespace cw::sim
