// Devices, MTU and firewall.
#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string_view>

#include "control/doctor/checks.h"
#include "control/doctor/interface_queues.h"
#include "control/doctor/rdma_devices.h"

namespace cw::control::doctor {
namespace {

constexpr uint32_t kRocePort = 4791;
constexpr uint32_t kNfsRdmaPort = 20049;
constexpr uint32_t kFullMtu = 4200;       // carries a path MTU of 4096
constexpr uint32_t kAfXdpPathMtu = 2048;  // its buffers are a page each
// Its driver for DPDK works beside the kernel's.
constexpr const char* kMellanox = "0x15b3";

void check_pci(const Facts& facts, const PortFacts& port, const PciFacts& pci, Findings& out) {
  const auto fault = [&](std::string what, std::string fix) {
    out.push_back({"devices", Severity::kFault, std::move(what), std::move(fix)});
  };
  if (!pci.exists) {
    fault(fmt::format("there is no PCI device {}", port.device), "lspci -D | grep -i ethernet shows those there are");
    return;
  }
  if (pci.vendor == kMellanox && pci.driver == "mlx5_core") {
    out.push_back({"devices", Severity::kFine, fmt::format("{} keeps its kernel driver mlx5_core", port.device), {}});
    return;
  }
  if (pci.driver != "vfio-pci" && pci.driver != "uio_pci_generic" && pci.driver != "igb_uio") {
    fault(fmt::format("{} is bound to {}, which DPDK cannot use", port.device, pci.driver.empty() ? "no driver" : pci.driver),
          fmt::format("modprobe vfio-pci; dpdk-devbind.py --bind=vfio-pci {} (it leaves the kernel's network)", port.device));
  } else if (!pci.has_iommu_group && !facts.vfio_without_iommu) {
    fault(fmt::format("{} has no IOMMU group: the IOMMU is off", port.device),
          "firmware: switch on VT-d or AMD-Vi; kernel command line: intel_iommu=on iommu=pt. "
          "In a guest without one: echo 1 > /sys/module/vfio/parameters/enable_unsafe_noiommu_mode");
  } else if (!pci.group_is_accessible) {
    fault(fmt::format("this user may not open the vfio group of {}", port.device),
          "chown causeway /dev/vfio/* (a udev rule keeps it)");
  } else {
    out.push_back({"devices", Severity::kFine, fmt::format("{} is bound to {}", port.device, pci.driver), {}});
  }
}

// The kernel is to have the addresses, and the gateway takes RoCE packets to them.
void check_beside_kernel(const Facts& facts, const PortFacts& port, const InterfaceFacts& interface, Findings& out) {
  if (port.by_xdp && !facts.has_xdp_program) {
    out.push_back({"devices", Severity::kFault, "causewayd was built without its XDP program: clang or libbpf-dev was missing",
                   "apt install clang libbpf-dev; meson setup --reconfigure BUILD; build again"});
  }
  if (!port.names_addresses && !interface.has_address) {
    out.push_back({"devices", Severity::kFault,
                   fmt::format("the kernel has no address on {}, and port.addresses names none", interface.name),
                   fmt::format("ip address add ADDRESS/PREFIX dev {}", interface.name)});
  } else if (port.names_addresses && !interface.has_gateway_address) {
    out.push_back(
        {"devices", Severity::kNote,
         fmt::format("the kernel has none of port.addresses on {}: right for the standby of a fail-over pair", interface.name),
         fmt::format("otherwise: ip address add ADDRESS/PREFIX dev {}", interface.name)});
  }
  if (port.by_xdp && interface.receive_queues > port.queues) {
    out.push_back({"devices", Severity::kWarning,
                   fmt::format("{} has {} receive queues and the gateway reads {}: RoCE packets on the others are lost",
                               interface.name, interface.receive_queues, port.queues),
                   queue_fix(interface.name, port.queues)});
  }
}

// Rules of a driver leave the kernel its packets only where the kernel has a driver, too.
void check_isolation(const PortFacts& port, const PciFacts& pci, Findings& out) {
  if (pci.exists && !port.interface) {
    out.push_back({"devices", Severity::kFault,
                   fmt::format("{} is beside_kernel, and the kernel has no interface of it: it is bound to {}", port.device,
                               pci.driver.empty() ? "no driver" : pci.driver),
                   "beside_kernel takes a NIC that keeps its kernel driver (mlx5); on others: exception_tap"});
  }
}

void check_tap(const InterfaceFacts& tap, Findings& out) {
  if (!tap.exists) {
    out.push_back(
        {"devices", Severity::kNote, fmt::format("the gateway will make {}, and it ends with it", tap.name),
         fmt::format("to keep its addresses over restarts: ip tuntap add dev {} mode tap; ip address add ADDRESS/PREFIX dev {}",
                     tap.name, tap.name)});
  } else if (!tap.has_gateway_address) {
    out.push_back({"devices", Severity::kFault,
                   fmt::format("the kernel has none of port.addresses on {}: nobody answers ARP for them", tap.name),
                   fmt::format("ip address add ADDRESS/PREFIX dev {}", tap.name)});
  } else {
    out.push_back({"devices", Severity::kFine, fmt::format("the kernel has the gateway's address on {}", tap.name), {}});
  }
}

void check_driver(const PortFacts& port, Findings& out) {
  if (!port.names_driver) {
    out.push_back({"devices", Severity::kFault, fmt::format("'{}' is no device of DPDK's", port.device),
                   "correct port.device: a PCI address (dpdk-devbind.py --status), or a driver with what it takes: "
                   "net_af_packet0,iface=eth0"});
  } else if (!port.missing_driver.empty()) {
    std::string package = port.missing_driver;
    std::ranges::replace(package, '_', '-');
    out.push_back({"devices", Severity::kFault,
                   fmt::format("port.device is '{}', and DPDK has no driver {} here", port.device, port.missing_driver),
                   fmt::format("correct the name, or install the driver (Debian: apt install librte-{}23)", package)});
  }
}

void check_interface(const InterfaceFacts& interface, bool beside_kernel, Findings& out) {
  if (!interface.exists) {
    out.push_back({"devices", Severity::kFault, fmt::format("there is no interface {}", interface.name),
                   "ip -br link shows those there are"});
    return;
  }
  if (!interface.is_up) {
    out.push_back({"devices", Severity::kFault, fmt::format("the interface {} is down", interface.name),
                   fmt::format("ip link set {} up", interface.name)});
  } else {
    out.push_back({"devices", Severity::kFine, fmt::format("the interface {} is up", interface.name), {}});
  }
  if (interface.has_gateway_address && !beside_kernel) {
    out.push_back(
        {"devices", Severity::kFault,
         fmt::format("an address of the gateway's is also the kernel's on {}: both answer, and the kernel refuses UDP 4791",
                     interface.name),
         fmt::format("ip addr del ADDRESS dev {}; or give the gateway another address (port.addresses); "
                     "or share it: net_af_xdp and port.beside_kernel",
                     interface.name)});
  }
}

// What rules of this host say of packets to a port.
struct Rules {
  bool accepts = false;
  bool drops = false;
  bool drops_by_default = false;
};

// Behind "dport": "4791", "{ 2049, 20049 }", "20000-20100" (nft), "20000:20100" (iptables).
bool names_port(std::string_view line, uint32_t port) {
  const size_t at = line.find("dport");
  if (at == std::string_view::npos) {
    return false;
  }
  line.remove_prefix(at);
  // What nft's counter says are packets and bytes.
  line = line.substr(0, line.find("counter"));
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  uint32_t first = 0;
  bool is_range = false;
  for (size_t i = 0; i < line.size();) {
    if (!is_digit(line[i])) {
      ++i;
      continue;
    }
    uint32_t number = 0;
    for (; i < line.size() && is_digit(line[i]) && number <= 0xffff; ++i) {
      number = number * 10 + static_cast<uint32_t>(line[i] - '0');
    }
    if (number == port || (is_range && first < port && port < number)) {
      return true;
    }
    first = number;
    is_range = i < line.size() && (line[i] == '-' || line[i] == ':');
  }
  return false;
}

Rules rules_for(const std::string& firewall, std::string_view protocol, uint32_t port) {
  Rules rules;
  std::istringstream lines(firewall);
  for (std::string line; std::getline(lines, line);) {
    const auto has = [&line](std::string_view word) { return line.find(word) != std::string::npos; };
    const bool refuses = has("drop") || has("DROP") || has("reject") || has("REJECT");
    const bool passes = has("accept") || has("ACCEPT");
    // nft: "type filter hook input priority filter; policy drop;", iptables-save: ":INPUT DROP [0:0]"
    rules.drops_by_default |= (has("hook input") && has("policy drop")) || has(":INPUT DROP");
    if (has(protocol) && names_port(line, port)) {
      rules.accepts |= passes && !refuses;
      rules.drops |= refuses;
    }
  }
  return rules;
}

// rxe (RoCE) and siw (iWARP) are behind the kernel's firewall, RNICs are not.
bool uses_software(const Facts& facts, bool is_iwarp) {
  return std::ranges::any_of(
      used_devices(facts), [&](const UsedDevice& each) { return each.device->is_software && each.device->is_iwarp == is_iwarp; });
}

void check_roce_rules(const Facts& facts, Findings& out) {
  const Rules rules = rules_for(facts.firewall, "udp", kRocePort);
  if (rules.drops) {
    out.push_back({"firewall", Severity::kFault, "a rule of this host drops UDP 4791, which all RoCE packets are",
                   "nft -a list ruleset | grep 4791 (or iptables-save); delete that rule"});
  } else if (rules.drops_by_default && !rules.accepts) {
    out.push_back({"firewall", Severity::kWarning,
                   "this host's firewall drops what no rule accepts, and none accepts UDP 4791. "
                   "Devices that DPDK drives are not concerned; bridges, guests, taps and rxe devices of this host are",
                   "nft add rule inet filter input udp dport 4791 accept"});
  } else {
    out.push_back({"firewall", Severity::kFine, "no rule of this host filters UDP 4791; look at clients and switches, too", {}});
  }
  if (!rules.accepts && facts.iwarp_listeners.empty() && !uses_software(facts, true) &&
      rules_for(facts.firewall, "", kNfsRdmaPort).accepts) {
    out.push_back({"firewall",
                   Severity::kNote,
                   "a rule accepts port 20049: it is no UDP or TCP port, clients of RoCE need UDP 4791 and nothing else",
                   {}});
  }
}

void check_iwarp_rules(const std::string& firewall, uint16_t port, Findings& out) {
  const Rules rules = rules_for(firewall, "tcp", port);
  if (rules.drops) {
    out.push_back(
        {"firewall", Severity::kWarning,
         fmt::format("a rule of this host drops or rejects TCP port {}: clients of iWARP that it is about cannot connect", port),
         fmt::format("nft -a list ruleset | grep {} (or iptables-save); delete that rule, unless it is meant", port)});
  } else if (rules.drops_by_default && !rules.accepts) {
    out.push_back({"firewall", Severity::kWarning,
                   fmt::format("this host's firewall drops what no rule accepts, and none accepts TCP port {}", port),
                   fmt::format("nft add rule inet filter input tcp dport {} accept", port)});
  } else {
    out.push_back(
        {"firewall", Severity::kFine, fmt::format("no rule of this host filters TCP port {}; look at clients, too", port), {}});
  }
}

}  // namespace

void check_devices(const Facts& facts, Findings& out) {
  for (const PortFacts& port : facts.ports) {
    check_driver(port, out);
    if (port.pci) {
      check_pci(facts, port, *port.pci, out);
      if (port.beside_kernel) {
        check_isolation(port, *port.pci, out);
      }
    }
    if (port.interface) {
      check_interface(*port.interface, port.beside_kernel, out);
      if (port.beside_kernel && port.interface->exists) {
        check_beside_kernel(facts, port, *port.interface, out);
      }
    }
    if (port.tap) {
      check_tap(*port.tap, out);
    }
  }
}

void check_mtu(const Facts& facts, Findings& out) {
  for (const PortFacts& port : facts.ports) {
    const uint32_t path = path_mtu_for(port.mtu, facts.config.roce.path_mtu_max);
    if (port.interface && port.interface->exists && port.interface->mtu < port.mtu) {
      out.push_back({"mtu", Severity::kFault,
                     fmt::format("the interface {} has MTU {}, port.mtu is {}: longer packets are lost", port.interface->name,
                                 port.interface->mtu, port.mtu),
                     fmt::format("ip link set {} mtu {}", port.interface->name, port.mtu)});
    } else if (port.device.starts_with("net_af_xdp") && path >= kAfXdpPathMtu) {
      out.push_back(
          {"mtu",
           Severity::kFine,
           fmt::format("{}: MTU {} carries RoCE packets of {} bytes, the most that AF_XDP can", port.device, port.mtu, path),
           {}});
    } else if (port.device.starts_with("net_af_xdp")) {
      out.push_back({"mtu", Severity::kNote,
                     fmt::format("{}: MTU {} carries RoCE packets of {} bytes, AF_XDP can do {}", port.device, port.mtu, path,
                                 kAfXdpPathMtu),
                     "if all switches and clients can: port.mtu = 2200, and the interface's"});
    } else if (port.mtu < kFullMtu) {
      out.push_back({"mtu", Severity::kNote,
                     fmt::format("{}: MTU {} carries RoCE packets of {} bytes, 4096 is the best", port.device, port.mtu, path),
                     fmt::format("if all switches and clients can: port.mtu = {}", kFullMtu)});
    } else {
      out.push_back(
          {"mtu", Severity::kFine, fmt::format("{}: MTU {} carries RoCE packets of {} bytes", port.device, port.mtu, path), {}});
    }
  }
}

void check_firewall(const Facts& facts, Findings& out) {
  const bool has_roce = !facts.ports.empty() || uses_software(facts, false);
  std::set<uint16_t> ports;
  for (const IwarpListenerFacts& listener : facts.iwarp_listeners) {
    ports.insert(listener.port);
  }
  if (uses_software(facts, true)) {
    for (const ListenerConfig* listener : verbs_listeners(facts.config)) {
      ports.insert(listener->port);
    }
  }
  if (!has_roce && ports.empty()) {
    return;
  }
  if (!facts.firewall_is_readable) {
    out.push_back({"firewall", Severity::kNote, "the firewall's rules cannot be read by this user", "run this as root"});
    return;
  }
  if (has_roce) {
    check_roce_rules(facts, out);
  }
  for (const uint16_t port : ports) {
    check_iwarp_rules(facts.firewall, port, out);
  }
}

}  // namespace cw::control::doctor
