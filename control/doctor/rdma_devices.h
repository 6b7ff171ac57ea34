// Which RDMA devices the listeners of a configuration come to use, and where an address is. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "control/doctor/facts.h"

namespace cw::control::doctor {

// Those with transport = "verbs".
[[nodiscard]] std::vector<const ListenerConfig*> verbs_listeners(const Config& config);

// Null: there is none of the name.
[[nodiscard]] const RdmaDeviceFacts* find_device(const RdmaFacts& rdma, std::string_view name);
// Null: no interface has it.
[[nodiscard]] const KernelInterfaceFacts* interface_with(const RdmaFacts& rdma, const IpAddress& address);
[[nodiscard]] const KernelInterfaceFacts* find_interface(const RdmaFacts& rdma, std::string_view name);

// Where clients that call an address come in.
struct RdmaPlace {
  const RdmaDeviceFacts* device = nullptr;  // null: nowhere
  const RdmaPortFacts* port = nullptr;
  const GidFacts* gid = nullptr;  // of RoCE
};
// `device`: empty stands for any. RoCE has an address by a GID; InfiniBand and iWARP by the kernel's interface on the same link.
[[nodiscard]] RdmaPlace place_of(const RdmaFacts& rdma, const IpAddress& address, std::string_view device);

struct UsedDevice {
  const RdmaDeviceFacts* device = nullptr;
  bool is_needed = false;  // a listener names it or has an address of it; else it is one of those that may be used
};
// Each once, by name.
[[nodiscard]] std::vector<UsedDevice> used_devices(const Facts& facts);

[[nodiscard]] bool is_active(const RdmaPortFacts& port);
// "RoCE on eth0", "iWARP on eth1", "InfiniBand on ib0".
[[nodiscard]] std::string describe(const RdmaDeviceFacts& device, const RdmaPortFacts& port);

}  // namespace cw::control::doctor
