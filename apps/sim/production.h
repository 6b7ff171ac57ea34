// The limits, pools and times of a gateway whose causeway.toml sets nothing but a port, listeners and backends: what a client has
// to share with others in practice. Counts are those of production. What is measured in bytes is a fourth (path MTU 1024 for
// 4096, reply buffers of 8 KiB for 32 KiB, calls of 1 MiB for 4 MiB), so that a run of seconds is cheap and the ratios stay.
#pragma once

#include <cstdint>

#include "gateway/gateway_options.h"
#include "gateway/node/node.h"
#include "gateway/node/roce_transport.h"
#include "iwarp/transport.h"

namespace cw::sim {

struct ProductionPools {
  uint32_t packets = 0;
  uint32_t large = 0;
  uint32_t large_bytes = 0;
  uint32_t views = 0;
  uint64_t reply_bytes = 0;  // of the longest reply that a backend may give
};

inline constexpr uint32_t kProductionByteScale = 4;
inline constexpr uint32_t kProductionPathMtu = 4096 / kProductionByteScale;
inline constexpr uint32_t kProductionInlineBytes = 4096 / kProductionByteScale;

[[nodiscard]] ProductionPools production_pools();
// Listeners and backends stay; what they and the gateway allow becomes what the file's defaults say.
void apply_production(gateway::GatewayOptions& options);
void apply_production(node::RoceOptions& options);
void apply_production(node::NodeOptions& options);
void apply_production(iwarp::IwarpOptions& options);
[[nodiscard]] uint32_t production_connections();
[[nodiscard]] uint32_t production_credits();
// The longest call and the longest result that a client of that gateway may ask for, bytes.
[[nodiscard]] uint32_t production_call_bytes();
[[nodiscard]] uint32_t production_reply_bytes();

}  // namespace cw::sim
