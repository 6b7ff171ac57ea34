#include "control/doctor/host_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <sstream>

namespace cw::control::doctor {
namespace {

constexpr uint32_t kCpusMax = 8192;

std::optional<uint32_t> number(std::string_view text) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

}  // namespace

std::vector<uint32_t> parse_cpu_list(std::string_view text) {
  std::vector<uint32_t> cpus;
  text = text.substr(0, text.find('\n'));
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    const size_t dash = part.find('-');
    const auto first = number(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : number(part.substr(dash + 1));
    for (uint32_t cpu = first.value_or(1); first && last && cpu <= *last && cpu < kCpusMax; ++cpu) {
      cpus.push_back(cpu);
    }
  }
  return cpus;
}

uint64_t effective_capabilities(std::string_view status) {
  constexpr std::string_view kName = "CapEff:";
  const size_t at = status.find(kName);
  if (at == std::string_view::npos) {
    return 0;
  }
  status.remove_prefix(at + kName.size());
  status.remove_prefix(std::min(status.find_first_not_of(" \t"), status.size()));
  uint64_t mask = 0;
  std::from_chars(status.data(), status.data() + status.size(), mask, 16);
  return mask;
}

std::optional<std::string> interface_of(std::string_view device) {
  // vhost's iface= is a socket, and a tap is made by its driver, in front of an interface or of none.
  std::string_view key;
  if (device.starts_with("net_af_packet") || device.starts_with("net_af_xdp")) {
    key = ",iface=";
  } else if (device.starts_with("net_tap")) {
    key = ",remote=";
  }
  const size_t at = device.find(key);
  if (key.empty() || at == std::string_view::npos) {
    return std::nullopt;
  }
  device.remove_prefix(at + key.size());
  return std::string(device.substr(0, device.find(',')));
}

bool is_pci_address(std::string_view device) {
  // Letters, digits, and 12 characters of one shape.
  constexpr std::string_view kShape = "hhhh:hh:hh.h";
  return device.size() == kShape.size() && std::ranges::equal(device, kShape, [](char c, char shape) {
           const bool is_hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
           return shape == 'h' ? is_hex : c == shape;
         });
}

std::vector<uint64_t> listening_inodes(std::string_view table, uint16_t port) {
  std::vector<uint64_t> inodes;
  std::istringstream lines{std::string(table)};
  for (std::string line; std::getline(lines, line);) {
    // "sl: address:port address:port state tx:rx timer retransmits uid timeout inode", all but the last three in hexadecimal.
    std::istringstream words(line);
    std::array<std::string, 10> word;
    for (std::string& each : word) {
      words >> each;
    }
    const std::string& local = word[1];
    constexpr std::string_view kListen = "0A";
    if (const size_t colon = local.rfind(':');
        colon != std::string::npos && word[3] == kListen && std::strtoul(local.c_str() + colon + 1, nullptr, 16) == port) {
      inodes.push_back(std::strtoull(word[9].c_str(), nullptr, 10));
    }
  }
  return inodes;
}

std::vector<uint16_t> rdma_ports(std::string_view portlist) {
  std::vector<uint16_t> ports;
  std::istringstream words{std::string(portlist)};
  uint32_t port = 0;
  for (std::string transport; words >> transport >> port;) {
    if (transport.starts_with("rdma") && port <= 0xffff) {
      ports.push_back(static_cast<uint16_t>(port));
    }
  }
  return ports;
}

uint64_t last_number(std::string_view text) {
  std::istringstream words{std::string(text)};
  uint64_t last = 0;
  for (uint64_t number = 0; words >> number;) {
    last = number;
  }
  return last;
}

std::optional<std::string> driver_of(std::string_view device) {
  const std::string_view name = device.substr(0, device.find(','));
  const size_t end = name.find_last_not_of("0123456789");
  if (!name.starts_with("net_") || end == std::string_view::npos || end < std::string_view("net_").size()) {
    return std::nullopt;
  }
  return std::string(name.substr(0, end + 1));
}

uint64_t meminfo_bytes(std::string_view meminfo, std::string_view key) {
  size_t at = meminfo.find(key);
  if (at == std::string_view::npos) {
    return 0;
  }
  at = meminfo.find_first_of("0123456789", at + key.size());
  uint64_t kib = 0;
  for (; at < meminfo.size() && meminfo[at] >= '0' && meminfo[at] <= '9'; ++at) {
    kib = kib * 10 + static_cast<uint64_t>(meminfo[at] - '0');
  }
  return kib * 1024;
}

bool has_invariant_tsc(std::string_view cpuinfo) {
  return cpuinfo.find("constant_tsc") != std::string_view::npos && cpuinfo.find("nonstop_tsc") != std::string_view::npos;
}

}  // namespace cw::control::doctor
