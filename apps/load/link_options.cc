#include "apps/load/link_options.h"

#include <fmt/format.h>

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

void add_link_options(CLI::App& cli, LinkOptions& link, LinkCount count) {
  cli.add_option("-d,--device", link.port.device,
                 "DPDK device, such as net_memif0,role=client,socket=/run/cw.sock,socket-abstract=no or "
                 "net_af_packet0,iface=tap0")
      ->required();
  cli.add_option("-a,--address", link.address, "own address with prefix length")
      ->required()
      ->check([count](const std::string& text) { return prefix_problem(count == LinkCount::kOne ? text : numbered(text)); });
  cli.add_option("--mtu", link.port.mtu, "bytes of an IP packet on the link; 4500 gives RoCE MTU 4096")
      ->capture_default_str()
      ->check(CLI::Range(1280, 9216));
  cli.add_option("--lcore", link.port.lcore, "CPU to run on")->capture_default_str();
  cli.add_option("--memory-mb", link.port.memory_mb, "memory for DPDK")->capture_default_str();
  cli.add_flag("-v,--verbose", link.port.verbose, "show DPDK's own start-up messages");
}

}  // namespace cw::test
