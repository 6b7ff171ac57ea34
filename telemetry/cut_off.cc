#include "telemetry/cut_off.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace cw::telemetry {
namespace {

// Of a device; of all when it has no name.
std::string why_no_port(std::string_view device, std::span<const RdmaPortState> ports) {
  const auto is_its = [device](const RdmaPortState& port) {
    return port.is_there() && (device.empty() || port.device == device);
  };
  if (std::ranges::any_of(ports, [&](const RdmaPortState& port) { return is_its(port) && port.is_active(); })) {
    return {};
  }
  std::string states;
  for (const RdmaPortState& port : ports) {
    if (is_its(port)) {
      states += fmt::format("{}port {} of RDMA device {} is {}", states.empty() ? "" : ", ", port.port, port.device,
                            port.state.empty() ? "in no known state" : port.state);
    }
  }
  if (!states.empty()) {
    return states;
  }
  return device.empty() ? "there is no RDMA device" : fmt::format("there is no RDMA device {}", device);
}

// Empty: clients can come.
std::string why_cut_off(const ListenerLimits& listener, const VerbsListener* known, std::span<const RdmaPortState> ports) {
  const std::string& wanted = *listener.rdma_device;
  const std::string_view device = wanted.empty() && known != nullptr ? std::string_view(known->device.data()) : wanted;
  std::string why = why_no_port(device, ports);
  if (why.empty() && known != nullptr && known->is_lost != 0) {
    why = wanted.empty() ? fmt::format("no RDMA device has its address {}", listener.address)
                         : fmt::format("RDMA device {} does not have its address {}", wanted, listener.address);
  }
  return why;
}

}  // namespace

std::vector<CutOff> cut_off_listeners(std::span<const ListenerLimits> listeners, std::span<const VerbsListener> known,
                                      std::span<const RdmaPortState> ports) {
  std::vector<CutOff> found;
  for (const ListenerLimits& listener : listeners) {
    if (!listener.rdma_device) {
      continue;
    }
    const auto at = std::ranges::find(known, listener.port, &VerbsListener::port);
    std::string why = why_cut_off(listener, at == known.end() ? nullptr : &*at, ports);
    if (!why.empty()) {
      found.push_back({listener.name, std::move(why)});
    }
  }
  return found;
}

}  // namespace cw::telemetry
