#include "dataplane/dpdk/one_port.h"

#include <fmt/format.h>
#include <unistd.h>

#include "dataplane/dpdk/eal.h"

namespace cw::dataplane {

std::unique_ptr<OnePort> OnePort::open(const OnePortSettings& settings, std::string& error) {
  EalSettings eal;
  eal.instance = fmt::format("{}{}", settings.instance, getpid());
  eal.main_lcore = settings.lcore;
  eal.memory_mb = settings.memory_mb;
  eal.verbose = settings.verbose;
  if (!start_eal(eal, error)) {
    return nullptr;
  }
  const PortSettings port{.device = settings.device, .mtu = settings.mtu};
  MbufPoolSizes sizes;
  sizes.packet_data_bytes = Port::packet_data_bytes(port);
  sizes.packet_buffers = settings.packet_buffers;
  sizes.large_buffers = settings.large_buffers;
  sizes.views = settings.views;
  std::unique_ptr<OnePort> one(new OnePort);
  one->pools_ = MbufPools::create(sizes, error);
  if (one->pools_ == nullptr) {
    return nullptr;
  }
  one->port_ = Port::open(port, *one->pools_, error);
  if (one->port_ == nullptr) {
    return nullptr;
  }
  one->queues_.push_back(std::make_unique<PortQueue>(*one->port_, uint16_t{0}, 0u, *one->pools_, nullptr));
  return one;
}

node::NodeOptions OnePort::node_options(const wire::IpAddress& address, uint8_t length_bits) const {
  node::NodeOptions options;
  link::StationOptions& station = options.ports.emplace_back();
  station.mac = port_->mac();
  station.mtu = port_->settings().mtu;
  station.addresses.push_back({address, length_bits});
  return options;
}

}  // namespace cw::dataplane
