#include "control/doctor/rdma_devices.h"

#include <fmt/core.h>

#include <algorithm>

namespace cw::control::doctor {

std::vector<const ListenerConfig*> verbs_listeners(const Config& config) {
  std::vector<const ListenerConfig*> found;
  for (const ListenerConfig& listener : config.listeners) {
    if (listener.transport == TransportKind::kVerbs) {
      found.push_back(&listener);
    }
  }
  return found;
}

const RdmaDeviceFacts* find_device(const RdmaFacts& rdma, std::string_view name) {
  const auto found = std::ranges::find(rdma.devices, name, &RdmaDeviceFacts::name);
  return found == rdma.devices.end() ? nullptr : &*found;
}

const KernelInterfaceFacts* interface_with(const RdmaFacts& rdma, const IpAddress& address) {
  const auto found = std::ranges::find_if(rdma.interfaces, [&](const KernelInterfaceFacts& interface) {
    return std::ranges::find(interface.addresses, address) != interface.addresses.end();
  });
  return found == rdma.interfaces.end() ? nullptr : &*found;
}

const KernelInterfaceFacts* find_interface(const RdmaFacts& rdma, std::string_view name) {
  const auto found = std::ranges::find(rdma.interfaces, name, &KernelInterfaceFacts::name);
  return found == rdma.interfaces.end() ? nullptr : &*found;
}

RdmaPlace place_of(const RdmaFacts& rdma, const IpAddress& address, std::string_view device) {
  const KernelInterfaceFacts* interface = interface_with(rdma, address);
  RdmaPlace found;
  for (const RdmaDeviceFacts& each : rdma.devices) {
    if (!device.empty() && device != each.name) {
      continue;
    }
    for (const RdmaPortFacts& port : each.ports) {
      if (each.is_iwarp || port.is_infiniband) {
        const bool is_here = interface != nullptr && std::ranges::find(port.interfaces, interface->name) != port.interfaces.end();
        if (is_here && found.device == nullptr) {
          found = {&each, &port, nullptr};
        }
        continue;
      }
      for (const GidFacts& gid : port.gids) {
        // An address has a GID for each version of RoCE.
        if (gid.gid == address &&
            (found.device == nullptr || (found.gid != nullptr && !found.gid->is_roce_v2 && gid.is_roce_v2))) {
          found = {&each, &port, &gid};
        }
      }
    }
  }
  return found;
}

std::vector<UsedDevice> used_devices(const Facts& facts) {
  std::vector<UsedDevice> used;
  for (const RdmaDeviceFacts& device : facts.rdma.devices) {
    bool is_used = false;
    bool is_needed = false;
    for (const ListenerConfig* listener : verbs_listeners(facts.config)) {
      const RdmaDeviceFacts* by_address =
          listener->device.empty() && listener->address ? place_of(facts.rdma, *listener->address, "").device : nullptr;
      is_needed |= listener->device == device.name || by_address == &device;
      is_used |= listener->device.empty() && by_address == nullptr;
    }
    if (is_used || is_needed) {
      used.push_back({&device, is_needed});
    }
  }
  return used;
}

bool is_active(const RdmaPortFacts& port) {
  return port.state == "ACTIVE";
}

std::string describe(const RdmaDeviceFacts& device, const RdmaPortFacts& port) {
  return fmt::format("{}{}{}",
                     port.is_infiniband ? "InfiniBand"
                     : device.is_iwarp  ? "iWARP"
                                        : "RoCE",
                     port.interfaces.empty() ? "" : " on ", port.interfaces.empty() ? "" : port.interfaces.front());
}

}  // namespace cw::control::doctor
