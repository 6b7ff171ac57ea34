#include "apps/load/link_options.h"

#include <fmt/format.h>

#include <map>

#include "base/ip_address.h"

namespace cw::test {

namespace {

// As the first thread reads it.
std::string numbered(std::string text) {
  for (size_t at = text.find("{}"); at != std::string::npos; at = text.find("{}")) {
    text.replace(at, 2, "0");
  }
  return text;
}

}  // namespace

std::string prefix_problem(const std::string& text) {
  return control::parse_prefix(text) ? "" : fmt::format("'{}': write an address with prefix length, such as 10.9.0.2/24", text);
}
std::string address_problem(const std::string& text) {
  return parse_ip(text).ok() ? "" : fmt::format("'{}' is not an IP address", text);
}

control::PoolSizes LinkOptions::heap_sizes() const {
  control::PoolSizes sizes;
  sizes.packet_buffers = port.packet_buffers;
  sizes.large_buffers = port.large_buffers;
  sizes.views = port.views;
  return sizes;
}

void add_link_options(CLI::App& cli, LinkOptions& link, const LinkKinds& kinds) {
  static const std::map<std::string, WireKind> kTransports = {{"roce", WireKind::kRoce}, {"iwarp", WireKind::kIwarp}};
  if (kinds.wires) {
    cli.add_option("--transport", link.transport,
                   "roce, on a DPDK port of its own; or iwarp, on the kernel's TCP: no device, no hugepages, no root")
        ->transform(CLI::CheckedTransformer(kTransports).description("roce or iwarp"))
        ->default_str("roce");
  }
  cli.add_option("-d,--device", link.port.device,
                 "DPDK device, such as net_memif0,role=client,socket=/run/cw.sock,socket-abstract=no or "
                 "net_af_packet0,iface=tap0")
      ->required(!kinds.wires);
  cli.add_option("-a,--address", link.address, "own address with prefix length")
      ->required(!kinds.wires)
      ->check([kinds](const std::string& text) { return prefix_problem(kinds.one_per_thread ? numbered(text) : text); });
  cli.add_option("--mtu", link.port.mtu, "bytes of an IP packet on the link; 4500 gives RoCE MTU 4096")
      ->capture_default_str()
      ->check(CLI::Range(1280, 9216));
  cli.add_option("--lcore", link.port.lcore, "CPU to run on; iWARP without it: where the kernel likes")->capture_default_str();
  cli.add_option("--memory-mb", link.port.memory_mb, "memory for DPDK")->capture_default_str();
  cli.add_flag("-v,--verbose", link.port.verbose, "show DPDK's own start-up messages");
}

std::string settle_link(const CLI::App& cli, LinkOptions& link) {
  if (link.transport == WireKind::kRoce) {
    for (const char* needed : {"--device", "--address"}) {
      if (cli.count(needed) == 0) {
        return fmt::format("{} is required: a DPDK port of our own; or choose --transport iwarp, which has none", needed);
      }
    }
    return {};
  }
  link.is_pinned = cli.count("--lcore") > 0;
  for (const char* foreign : {"--device", "--address", "--mtu", "--memory-mb"}) {
    if (cli.count(foreign) > 0) {
      return fmt::format("{} belongs to RoCE: leave it out, iWARP goes over the kernel's TCP", foreign);
    }
  }
  return {};
}

}  // namespace cw::test
