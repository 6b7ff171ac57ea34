// A queue pair for a generator that cannot connect by itself: made by the real client, which then leaves without saying so.
#pragma once

#include <optional>
#include <string>

#include "apps/load/link_options.h"
#include "apps/load/pktgen/profile.h"

namespace cw::pktgen {

struct ProvisionOptions {
  test::LinkOptions link;
  IpAddress server;
  uint16_t service_port = 20049;
  uint32_t inline_bytes = 4096;
  uint32_t wait_seconds = 15;
};

struct Provisioned {
  Target target;
  QueuePairTarget qp;
};

// Connects over a DPDK port of its own. nullopt with one sentence in `error` when no connection comes about.
[[nodiscard]] std::optional<Provisioned> provision(const ProvisionOptions& options, std::string& error);

}  // namespace cw::pktgen
