#include "control/config/buffer_plan.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace cw::control {
namespace {

// Per core: a batch of packets, the next ones' heads, twice a batch that a device did not take at once, and a burst received.
constexpr uint64_t kSendingPerCore = 512;
constexpr uint64_t kLowPerCore = 384;
constexpr uint64_t kHeldPerCoreMin = 64;
// Per port and core: rings of 1024 descriptors each way; an AF_XDP socket's are twice as long.
constexpr uint64_t kRingsOfNic = 2048;
constexpr uint64_t kRingsOfXdp = 4096;

// Packet buffers that one connection's credits reserve: for its calls, and for the replies to calls of the backend.
uint64_t buffers_per_connection(const ListenerConfig& listener, uint32_t path_mtu) {
  return (uint64_t{listener.credits} + listener.reverse_credits) * ((listener.inline_bytes + path_mtu - 1) / path_mtu);
}

// Devices of DPDK's own copy what they send and fetch what they receive; the others' rings hold buffers.
uint64_t ring_buffers(const PortConfig& port) {
  if (is_af_xdp(port.device)) {
    return kRingsOfXdp;
  }
  return port.device.starts_with("net_") || port.device.starts_with("eth_") ? 0 : kRingsOfNic;
}

}  // namespace

uint32_t smallest_path_mtu(const Config& config) {
  if (config.ports.empty()) {
    return kHeapPacketBytes;
  }
  uint32_t mtu = 9000;
  for (const PortConfig& port : config.ports) {
    mtu = std::min(mtu, port.mtu);
  }
  return path_mtu_for(mtu, config.roce.path_mtu_max);
}

std::vector<BufferDemand> buffer_demands(const Config& config) {
  const uint32_t path_mtu = smallest_path_mtu(config);
  std::vector<BufferDemand> demands;
  for (const ListenerConfig& listener : config.listeners) {
    demands.push_back({listener.name, buffers_per_connection(listener, path_mtu), connections_max_of(listener, config.limits)});
  }
  return demands;
}

uint64_t reserved_buffers(std::vector<BufferDemand> demands, uint32_t connections_max) {
  std::ranges::sort(demands, std::ranges::greater{}, &BufferDemand::buffers_each);
  uint64_t total = 0;
  uint32_t connections_left = connections_max;
  for (const BufferDemand& demand : demands) {
    const uint32_t connections = std::min(connections_left, demand.connections_max);
    total += connections * demand.buffers_each;
    connections_left -= connections;
  }
  return total;
}

uint64_t reserved_buffers(const Config& config) {
  return reserved_buffers(buffer_demands(config), config.limits.connections_max);
}

BufferPlan plan_buffers(const Config& config) {
  const uint64_t cores = poll_core_count(config);
  const uint64_t given = config.dataplane.rx_buffers;
  BufferPlan plan;
  plan.reserved = reserved_buffers(config);
  const uint64_t left = given - std::min(given, plan.reserved);
  const uint32_t path_mtu = smallest_path_mtu(config);
  const uint64_t one_call = (config.limits.call_bytes_max + path_mtu - 1) / path_mtu + config.limits.read_segments_max + 1;
  const uint64_t pulled = std::max(cores * one_call, std::min(given / 2, left * 3 / 4));
  const uint64_t held = std::max(cores * kHeldPerCoreMin, std::min(given / 8, left / 4));
  uint64_t rings = 0;
  for (const PortConfig& port : config.ports) {
    rings += std::max<uint64_t>(1, config.dataplane.poll_lcores.size()) * ring_buffers(port);
  }
  const uint64_t threads = cores + config.dataplane.workers + 1;
  const uint64_t cached = threads * pool_cache(config.dataplane.rx_buffers) * 3 / 2;
  plan.pulled_max = static_cast<uint32_t>(std::min<uint64_t>(pulled, UINT32_MAX));
  plan.pulled_min = static_cast<uint32_t>(std::min<uint64_t>(cores * one_call, UINT32_MAX));
  plan.held_max = static_cast<uint32_t>(held);
  plan.low = static_cast<uint32_t>(cores * kLowPerCore);
  plan.shared = std::max(given, plan.reserved + pulled + held);
  const uint64_t packets = plan.shared + cores * kSendingPerCore + rings + cached;
  plan.packets = static_cast<uint32_t>(std::min<uint64_t>(packets, UINT32_MAX));
  return plan;
}

}  // namespace cw::control
