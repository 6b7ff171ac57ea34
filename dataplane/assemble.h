// Turns a checked configuration into the options of every layer: the only place where configuration names meet protocol names.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "control/config/config.h"
#include "control/gateway/gateway_options.h"
#include "control/node/node.h"
#include "dataplane/dpdk/mbuf_pool.h"
#include "dataplane/dpdk/port.h"
#include "dataplane/worker_pool.h"

namespace cw::dataplane {

[[nodiscard]] PortSettings port_settings(const control::PortConfig& port);
[[nodiscard]] MbufPoolSizes pool_sizes(const control::Config& config);
[[nodiscard]] node::NodeOptions node_options(const control::Config& config, std::span<const std::unique_ptr<Port>> ports);
[[nodiscard]] gateway::GatewayOptions gateway_options(const control::Config& config);
[[nodiscard]] WorkerPoolOptions worker_options(const control::Config& config);

}  // namespace cw::dataplane
