// Turns a checked configuration into the options of every layer: the only place where configuration names meet protocol names.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "control/config/config.h"
#include "dataplane/dpdk/eal.h"
#include "dataplane/dpdk/mbuf_pool.h"
#include "dataplane/dpdk/port.h"
#include "dataplane/rnic/rdma_host.h"
#include "dataplane/sockets/tcp_streams.h"
#include "dataplane/worker_pool.h"
#include "gateway/config_ids.h"
#include "gateway/gateway_options.h"
#include "gateway/node/node.h"
#include "gateway/node/roce_transport.h"
#include "iwarp/transport.h"
#include "rnic/transport.h"

namespace cw::dataplane {

[[nodiscard]] CpuSettings cpu_settings(const control::Config& config);
[[nodiscard]] EalSettings eal_settings(const control::Config& config);
[[nodiscard]] PortSettings port_settings(const control::Config& config, const control::PortConfig& port);
// What one core has of it all: limits of memory and rates are shared evenly, those of connections are for all cores together.
// `qpn_key` is the same on all cores. macs: those of the ports, in their order.
[[nodiscard]] node::NodeOptions node_options(const control::Config& config, std::span<const wire::MacAddress> macs,
                                             const CoreShare& core, uint64_t qpn_key);
[[nodiscard]] uint32_t client_connections_max(const control::ClientConfig& client);
// Places by class of clients.
[[nodiscard]] std::unique_ptr<gateway::ConnectionQuota> client_quota(const control::Config& config,
                                                                     const gateway::ConfigIds& numbers);
// What the configuration allows each class, set for all cores.
void set_rates(const control::Config& config, const gateway::ConfigIds& numbers, const gateway::Rates& rates);
// Precondition, here and below: what `config` names has its `numbers`.
[[nodiscard]] gateway::GatewayOptions gateway_options(const control::Config& config, const CoreShare& core,
                                                      gateway::ConnectionQuota& quota, gateway::ConnectionQuota& client_quota,
                                                      const gateway::Rates& rates, gateway::SourcePorts& source_ports,
                                                      const gateway::ConfigIds& numbers);
// ListenerOptions::transport is a control::TransportKind: a core has its transports in that order, and all of them.
inline constexpr uint32_t kTransportKinds = 3;
[[nodiscard]] iwarp::IwarpOptions iwarp_options(const control::Config& config, const CoreShare& core);
[[nodiscard]] TcpStreamsOptions tcp_options(const control::Config& config, const CoreShare& core);
[[nodiscard]] rnic::RnicOptions rnic_options(const control::Config& config, const CoreShare& core);
[[nodiscard]] RdmaHostOptions rdma_options(const control::Config& config, const CoreShare& core);
[[nodiscard]] node::RoceOptions roce_options(const control::Config& config, const CoreShare& core);
[[nodiscard]] std::unique_ptr<gateway::ConnectionQuota> connection_quota(const control::Config& config,
                                                                         const gateway::ConfigIds& numbers);
[[nodiscard]] WorkerPoolOptions worker_options(const control::Config& config);

}  // namespace cw::dataplane
