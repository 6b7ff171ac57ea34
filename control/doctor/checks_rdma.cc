// What transport = "verbs" takes of a host: an RDMA device that is there, has the address and may be opened; memory to lock.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <vector>

#include "control/config/memory_plan.h"
#include "control/doctor/checks.h"
#include "control/doctor/rdma_devices.h"

namespace cw::control::doctor {
namespace {

constexpr uint32_t kBestMtu = 4200;  // carries a path MTU of 4096
constexpr uint32_t kBestPathMtu = 4096;

// The kernel drives a NIC's network and its RDMA by modules of their own, and does not always load the second.
struct RdmaModule {
  std::string_view network_driver;
  std::string_view module;
  std::string_view device;  // its devices' names begin so
};
constexpr std::array<RdmaModule, 9> kModules = {{
    {"mlx5_core", "mlx5_ib", "mlx5"},
    {"mlx4_core", "mlx4_ib", "mlx4"},
    {"ice", "irdma", "irdma"},
    {"i40e", "irdma", "irdma"},
    {"bnxt_en", "bnxt_re", "bnxt_re"},
    {"qede", "qedr", "qedr"},
    {"cxgb4", "iw_cxgb4", "cxgb4"},
    {"hns3", "hns_roce_hw_v2", "hns"},
    {"mana", "mana_ib", "mana"},
}};

std::string of_listener(const ListenerConfig& listener) {
  return fmt::format("listener {}: ", listener.name);
}

// "rxe0 (RoCE on eth0), siw1 (iWARP on eth1)".
std::string list_devices(const RdmaFacts& rdma) {
  std::string text;
  for (const RdmaDeviceFacts& device : rdma.devices) {
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", device.name,
                        device.ports.empty() ? "" : fmt::format(" ({})", describe(device, device.ports.front())));
  }
  return text;
}

// The interfaces that a device for the listener may be on: the one that has its address; without an address all that have any.
std::vector<const KernelInterfaceFacts*> interfaces_for(const RdmaFacts& rdma, const ListenerConfig& listener) {
  std::vector<const KernelInterfaceFacts*> found;
  if (listener.address) {
    if (const KernelInterfaceFacts* interface = interface_with(rdma, *listener.address)) {
      found.push_back(interface);
    }
    return found;
  }
  for (const KernelInterfaceFacts& interface : rdma.interfaces) {
    if (std::ranges::any_of(interface.addresses,
                            [](const IpAddress& each) { return !is_loopback(each) && !is_link_local(each); })) {
      found.push_back(&interface);
    }
  }
  return found;
}

// The command that makes a device, and in `why` what is known about there being none.
std::string device_fix(const RdmaFacts& rdma, const ListenerConfig& listener, std::string& why) {
  const std::vector<const KernelInterfaceFacts*> interfaces = interfaces_for(rdma, listener);
  const bool is_siw = listener.device.starts_with("siw");
  const bool is_software = is_siw || listener.device.starts_with("rxe");
  // By the name of the device, or by the NIC: udev gives devices other names ("rocep3s0").
  const auto is_named = [&](const RdmaModule& each) { return listener.device.starts_with(each.device); };
  const auto* module = std::ranges::find_if(kModules, is_named);
  if (module != kModules.end()) {
    why += fmt::format(": devices of this name are of the module {}", module->module);
    return fmt::format("modprobe {}; rdma link", module->module);
  }
  for (const KernelInterfaceFacts* each : interfaces) {
    module = std::ranges::find(kModules, each->driver, &RdmaModule::network_driver);
    if (!is_software && module != kModules.end()) {
      why += fmt::format(": {} is driven by {}, whose RDMA is the module {}", each->name, module->network_driver, module->module);
      return fmt::format("modprobe {}; rdma link", module->module);
    }
  }
  const char* name = is_siw ? "siw" : "rdma_rxe";
  if (!(is_siw ? rdma.has_siw : rdma.has_rxe)) {
    why += fmt::format(", and the kernel {} has no module {}", rdma.kernel, name);
    return fmt::format("install a kernel with {} (Debian: linux-image-amd64; those for clouds have none), or an RNIC", name);
  }
  if (interfaces.size() > 1) {
    why += "; clients may call ";
    for (size_t i = 0; i < interfaces.size(); ++i) {
      why += (i == 0 ? "" : i + 1 == interfaces.size() ? " or " : ", ") + interfaces[i]->name;
    }
    why += ": listener.address tells which interface it is";
  }
  const std::string device = listener.device.empty() ? "rxe0" : listener.device;
  return fmt::format("modprobe {}; rdma link add {} type {} netdev {}", name, device, is_siw ? "siw" : "rxe",
                     interfaces.size() == 1 ? interfaces.front()->name : "INTERFACE");
}

void check_libraries(const RdmaFacts& rdma, Findings& out) {
  if (!rdma.library.empty()) {
    out.push_back({"rdma", Severity::kFault, fmt::format("transport = \"verbs\" takes {}, which cannot be loaded", rdma.library),
                   "apt-get install librdmacm1 ibverbs-providers"});
  } else if (!rdma.has_providers) {
    out.push_back({"rdma", Severity::kFault, "rdma-core has no driver for any device: /etc/libibverbs.d is empty",
                   "apt-get install ibverbs-providers"});
  }
}

void check_device_is_there(const RdmaFacts& rdma, const ListenerConfig& listener, Findings& out) {
  if (rdma.devices.empty()) {
    std::string what = of_listener(listener) + "there is no RDMA device at all";
    std::string fix = device_fix(rdma, listener, what);
    out.push_back({"rdma", Severity::kFault, std::move(what), std::move(fix)});
  } else if (!listener.device.empty() && find_device(rdma, listener.device) == nullptr) {
    std::string what =
        fmt::format("{}there is no RDMA device {} among {}", of_listener(listener), listener.device, list_devices(rdma));
    const std::string fix = device_fix(rdma, listener, what);
    out.push_back({"rdma", Severity::kFault, std::move(what), fmt::format("correct listener.device; or {}", fix)});
  }
}

void check_node(const RdmaFacts& rdma, const NodeFacts& node, const std::string& what, const char* module, Findings& out) {
  if (!node.exists) {
    out.push_back({"rdma", Severity::kFault, fmt::format("there is no {}, {}", node.path, what),
                   fmt::format("modprobe {}; in a container: --device /dev/infiniband", module)});
  } else if (!node.may_open) {
    // Of another user than this one, not all is known: access lists, groups of the service.
    out.push_back({"rdma", rdma.user.empty() ? Severity::kFault : Severity::kWarning,
                   fmt::format("{} may not read and write {}, {}",
                               rdma.user.empty() ? "this user" : fmt::format("the user {}", rdma.user), node.path, what),
                   fmt::format("chmod 0666 {} (a udev rule keeps it), or give it to a group of that user", node.path)});
  }
}

// `matters`: clients have no other port to come by.
void check_port(const RdmaDeviceFacts& device, const RdmaPortFacts& port, bool matters, Findings& out) {
  const std::string who = fmt::format("{}, port {} ({})", device.name, port.number, describe(device, port));
  if (is_active(port)) {
    out.push_back({"rdma", Severity::kFine, fmt::format("{} is ACTIVE", who), {}});
    return;
  }
  const std::string state = fmt::format("{} is {}{}{}", who, port.state.empty() ? "in no known state" : port.state,
                                        port.physical_state.empty() ? "" : ", physically ", port.physical_state);
  const Severity severity = matters ? Severity::kFault : Severity::kNote;
  if (!port.is_infiniband) {
    const std::string interface = port.interfaces.empty() ? "INTERFACE" : port.interfaces.front();
    out.push_back({"rdma", severity, fmt::format("{}: its interface is down, or has no link", state),
                   fmt::format("ip link set {} up; cable and switch: ethtool {}", interface, interface)});
  } else if (port.state == "INIT" || port.state == "ARMED") {
    out.push_back({"rdma", severity, fmt::format("{}: it waits for a subnet manager", state),
                   "start one in the fabric: systemctl start opensm, or that of a switch"});
  } else {
    out.push_back({"rdma", severity, fmt::format("{}: it has no link", state), "cable and switch; ibstat"});
  }
}

bool has_active_port(const RdmaDeviceFacts& device) {
  return std::ranges::any_of(device.ports, is_active);
}

// A listener's address is on this one.
bool has_listener(const Facts& facts, const RdmaPortFacts& port) {
  return std::ranges::any_of(verbs_listeners(facts.config), [&](const ListenerConfig* listener) {
    return listener->address && place_of(facts.rdma, *listener->address, listener->device).port == &port;
  });
}

void check_used_devices(const Facts& facts, Findings& out) {
  const std::vector<UsedDevice> used = used_devices(facts);
  const bool any_is_active = std::ranges::any_of(used, [](const UsedDevice& each) { return has_active_port(*each.device); });
  for (const UsedDevice& each : used) {
    const RdmaDeviceFacts& device = *each.device;
    if (device.node.path.empty()) {
      out.push_back({"rdma", Severity::kFault, fmt::format("the kernel has no verbs for programs on {}", device.name),
                     "modprobe ib_uverbs"});
    } else {
      check_node(facts.rdma, device.node, fmt::format("by which programs use {}", device.name), "ib_uverbs", out);
    }
    for (const RdmaPortFacts& port : device.ports) {
      const bool has_no_other = !has_active_port(device) && (each.is_needed || !any_is_active);
      check_port(device, port, has_no_other || has_listener(facts, port), out);
    }
  }
}

void check_kernel_server(const Facts& facts, const ListenerConfig& listener, Findings& out) {
  if (std::ranges::find(facts.tcp.kernel_rdma_ports, listener.port) != facts.tcp.kernel_rdma_ports.end()) {
    out.push_back({"rdma", Severity::kFault,
                   fmt::format("{}the kernel's NFS server serves RDMA at port {}, too", of_listener(listener), listener.port),
                   fmt::format("/etc/nfs.conf, section [nfsd]: rdma = n; systemctl restart nfs-server; "
                               "or give listener {} another port",
                               listener.name)});
  }
}

// ---- Addresses ----

// The interface that an address for the listener belongs on.
std::string interface_of_device(const RdmaFacts& rdma, const ListenerConfig& listener) {
  const RdmaDeviceFacts* device = find_device(rdma, listener.device);
  return device == nullptr || device->ports.empty() || device->ports.front().interfaces.empty()
             ? "INTERFACE"
             : device->ports.front().interfaces.front();
}

bool is_on(const RdmaDeviceFacts& device, const std::string& interface) {
  return std::ranges::any_of(device.ports, [&](const RdmaPortFacts& port) {
    return std::ranges::find(port.interfaces, interface) != port.interfaces.end();
  });
}

// `where`: of an address that the listener's device does not have. Null: no interface has it.
Finding misplaced(const RdmaFacts& rdma, const ListenerConfig& listener, const KernelInterfaceFacts* where) {
  const std::string address = control::to_string(*listener.address);
  const std::string who = of_listener(listener) + address;
  const std::string wanted = interface_of_device(rdma, listener);
  if (where == nullptr) {
    return {"rdma_address", Severity::kFault, fmt::format("{} is on no interface of this host", who),
            fmt::format("ip address add {}/PREFIX dev {}; or correct listener.address", address, wanted)};
  }
  if (const RdmaPlace other = place_of(rdma, *listener.address, {}); other.device != nullptr) {
    return {"rdma_address", Severity::kFault,
            fmt::format("{} is of RDMA device {} ({}), and not of {}", who, other.device->name,
                        describe(*other.device, *other.port), listener.device),
            fmt::format("device = \"{}\"; or give the listener an address of {}", other.device->name, wanted)};
  }
  if (is_loopback(*listener.address)) {
    return {"rdma_address", Severity::kNote, fmt::format("{} is for clients on this host alone", who),
            "for others: an address of an RDMA device's interface"};
  }
  const auto on_it = std::ranges::find_if(rdma.devices, [&](const RdmaDeviceFacts& each) { return is_on(each, where->name); });
  if (on_it != rdma.devices.end() && (listener.device.empty() || listener.device == on_it->name)) {
    return {"rdma_address", Severity::kFault, fmt::format("{} is on {}, and {} has no GID of it", who, where->name, on_it->name),
            fmt::format("ip link set {} up; the device has to be in the same network namespace: rdma system; rdma link",
                        where->name)};
  }
  return {"rdma_address", Severity::kFault,
          fmt::format("{} is on {}, and {}: there are {}", who, where->name,
                      listener.device.empty() ? "no RDMA device is" : listener.device + " is not", list_devices(rdma)),
          fmt::format("ip address del {0}/PREFIX dev {1}; ip address add {0}/PREFIX dev {2}; or another address; "
                      "or a device on {1}: rdma link add rxe0 type rxe netdev {1}",
                      address, where->name, wanted)};
}

void check_address(const RdmaFacts& rdma, const ListenerConfig& listener, Findings& out) {
  const KernelInterfaceFacts* interface = interface_with(rdma, *listener.address);
  const RdmaPlace place = place_of(rdma, *listener.address, listener.device);
  if (interface == nullptr || place.device == nullptr) {
    out.push_back(misplaced(rdma, listener, interface));
    return;
  }
  const std::string who = of_listener(listener) + control::to_string(*listener.address);
  if (place.gid != nullptr && !place.gid->is_roce_v2) {
    out.push_back({"rdma_address", Severity::kWarning,
                   fmt::format("{} has a GID of RoCE v1 only on {}: clients of RoCEv2 do not reach it", who, place.device->name),
                   fmt::format("grep . /sys/class/infiniband/{}/ports/{}/gid_attrs/types/*; take a device that has RoCE v2",
                               place.device->name, place.port->number)});
    return;
  }
  out.push_back({"rdma_address",
                 Severity::kFine,
                 fmt::format("{} is of {}, port {} ({})", who, place.device->name, place.port->number,
                             describe(*place.device, *place.port)),
                 {}});
}

// Without an address of its own a listener has those of its device.
void check_any_address(const Facts& facts, const ListenerConfig& listener, Findings& out) {
  std::string interfaces;
  for (const UsedDevice& each : used_devices(facts)) {
    if (!listener.device.empty() && listener.device != each.device->name) {
      continue;
    }
    for (const RdmaPortFacts& port : each.device->ports) {
      for (const std::string& name : port.interfaces) {
        const KernelInterfaceFacts* interface = find_interface(facts.rdma, name);
        if (interface != nullptr &&
            std::ranges::any_of(interface->addresses, [](const IpAddress& address) { return !is_link_local(address); })) {
          out.push_back({"rdma_address",
                         Severity::kFine,
                         fmt::format("{}clients reach {} at the addresses of {}", of_listener(listener), each.device->name, name),
                         {}});
          return;
        }
        interfaces = interfaces.empty() ? name : interfaces;
      }
    }
  }
  const std::string device = listener.device.empty() ? "an RDMA device" : listener.device;
  out.push_back({"rdma_address", Severity::kFault,
                 fmt::format("{}no interface of {} has an address: nobody reaches it", of_listener(listener), device),
                 fmt::format("ip address add ADDRESS/PREFIX dev {}", interfaces.empty() ? "INTERFACE" : interfaces)});
}

}  // namespace

void check_rdma(const Facts& facts, Findings& out) {
  const auto listeners = verbs_listeners(facts.config);
  if (listeners.empty()) {
    return;
  }
  check_libraries(facts.rdma, out);
  for (const ListenerConfig* listener : listeners) {
    check_device_is_there(facts.rdma, *listener, out);
    check_kernel_server(facts, *listener, out);
  }
  check_used_devices(facts, out);
  check_node(facts.rdma, facts.rdma.connection_manager, "by which connections are made", "rdma_ucm", out);
  if (facts.rdma.service_sees_none) {
    out.push_back(
        {"rdma", Severity::kWarning, "the service causewayd sees no RDMA device: its unit has PrivateDevices=yes",
         "the drop-in verbs.conf of /usr/share/causeway/systemd; systemctl daemon-reload; systemctl restart causewayd"});
  }
}

void check_rdma_addresses(const Facts& facts, Findings& out) {
  for (const ListenerConfig* listener : verbs_listeners(facts.config)) {
    // That it is not there has been said.
    const bool has_device =
        listener->device.empty() ? !facts.rdma.devices.empty() : find_device(facts.rdma, listener->device) != nullptr;
    if (has_device && listener->address) {
      check_address(facts.rdma, *listener, out);
    } else if (has_device) {
      check_any_address(facts, *listener, out);
    }
  }
}

void check_rdma_memory(const Facts& facts, Findings& out) {
  if (verbs_listeners(facts.config).empty()) {
    return;
  }
  // Each poll core has them registered with each device, and the kernel counts all of it. siw counts for itself, and asks for no
  // capability.
  const std::vector<UsedDevice> used = used_devices(facts);
  const uint64_t devices = std::max<size_t>(1, used.size());
  const uint64_t cores = std::max<size_t>(1, facts.config.dataplane.poll_lcores.size());
  const uint64_t wanted = registered_bytes(facts.config) * devices * cores;
  const bool has_siw =
      std::ranges::any_of(used, [](const UsedDevice& each) { return each.device->is_iwarp && each.device->is_software; });
  if (!facts.memlock_bytes || (facts.capabilities.ipc_lock && !has_siw) || *facts.memlock_bytes >= wanted) {
    out.push_back({"rdma_memory", Severity::kFine, "the buffers may be registered with RDMA devices", {}});
    return;
  }
  const uint64_t kib = (wanted + 1023) / 1024;
  out.push_back(
      {"rdma_memory", Severity::kFault,
       fmt::format("this user may lock {} KiB of memory and {}, and the buffers take {} KiB, which {} RDMA {} registered{}",
                   *facts.memlock_bytes / 1024, has_siw ? "siw asks for no capability" : "has no CAP_IPC_LOCK", kib, devices,
                   devices == 1 ? "device has" : "devices have", cores == 1 ? "" : fmt::format(" for {} poll cores", cores)),
       fmt::format("systemd: LimitMEMLOCK=infinity (the unit has it); shell: ulimit -l {}, as root; "
                   "or lower dataplane.rx_buffers and dataplane.memory_mb",
                   kib)});
}

void check_rdma_mtu(const Facts& facts, Findings& out) {
  std::set<std::string> said;
  for (const UsedDevice& each : used_devices(facts)) {
    for (const RdmaPortFacts& port : each.device->ports) {
      const KernelInterfaceFacts* interface =
          port.interfaces.empty() ? nullptr : find_interface(facts.rdma, port.interfaces.front());
      // InfiniBand's is the subnet manager's, and TCP carries iWARP.
      if (port.is_infiniband || each.device->is_iwarp || interface == nullptr || interface->mtu == 0 ||
          !said.insert(fmt::format("{} {}", each.device->name, interface->name)).second) {
        continue;
      }
      const uint32_t path = path_mtu_for(interface->mtu, kBestPathMtu);
      const std::string what = fmt::format("{}: MTU {} of {} carries RoCE packets of {} bytes", each.device->name, interface->mtu,
                                           interface->name, path);
      if (path < kBestPathMtu) {
        out.push_back({"rdma_mtu", Severity::kNote, fmt::format("{}, 4096 is the best", what),
                       fmt::format("if all switches and clients can: ip link set {} mtu {}", interface->name, kBestMtu)});
      } else {
        out.push_back({"rdma_mtu", Severity::kFine, what, {}});
      }
    }
  }
}

}  // namespace cw::control::doctor
