#include "dataplane/dpdk/one_port.h"

#include <fmt/format.h>
#include <unistd.h>

#include "dataplane/dpdk/eal.h"

namespace cw::dataplane {

std::unique_ptr<OnePort> OnePort::open(const OnePortSettings& settings, std::string& error) {
  EalSettings eal;
  eal.instance = fmt::format("{}{}", settings.instance, getpid());
  eal.cpus.main_lcore = settings.lcore;
  eal.memory_mb = settings.memory_mb;
  eal.verbose = settings.verbose;
  if (!start_eal(eal, error)) {
    return nullptr;
  }
  const PortSettings port{.device = settings.device, .mtu = settings.mtu};
  MbufPoolSizes sizes;
  sizes.packet_data_bytes = control::packet_data_bytes(port.device, port.mtu);
  sizes.a_page_each = control::is_af_xdp(port.device);
  sizes.packet_buffers = settings.packet_buffers;
  sizes.large_buffers = settings.large_buffers;
  sizes.views = settings.views;
  std::unique_ptr<OnePort> one(new OnePort);
  one->own_pools_ = MbufPools::create(sizes, error);
  if (one->own_pools_ == nullptr) {
    return nullptr;
  }
  one->pools_ = one->own_pools_.get();
  return one->open_port(port, error) ? std::move(one) : nullptr;
}

std::unique_ptr<OnePort> OnePort::open_beside(OnePort& first, const OnePortSettings& settings, std::string& error) {
  std::unique_ptr<OnePort> one(new OnePort);
  one->pools_ = first.pools_;
  return one->open_port({.device = settings.device, .mtu = settings.mtu}, error) ? std::move(one) : nullptr;
}

bool OnePort::open_port(const PortSettings& settings, std::string& error) {
  port_ = Port::open(settings, *pools_, error);
  if (port_ == nullptr) {
    return false;
  }
  queues_.push_back(std::make_unique<PortQueue>(*port_, uint16_t{0}, 0u, *pools_, nullptr));
  return true;
}

node::NodeOptions OnePort::node_options(const IpAddress& address, uint8_t length_bits) const {
  node::NodeOptions options;
  options.endpoint.ack_delay = rc::kAckDelay;
  link::StationOptions& station = options.ports.emplace_back();
  station.mac = port_->mac();
  station.mtu = port_->settings().mtu;
  station.addresses.push_back({address, length_bits});
  return options;
}

}  // namespace cw::dataplane
