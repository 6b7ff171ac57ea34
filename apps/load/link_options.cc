#include "apps/load/link_options.h"

#include <fmt/format.h>

#include "base/ip_address.h"
#include "dataplane/cpus.h"
#include "dataplane/dpdk/bind_thread.h"
#include "dataplane/rnic/rdma_core.h"

namespace cw::test {

namespace {

// As the first thread reads it.
std::string numbered(std::string text) {
  for (size_t at = text.find("{}"); at != std::string::npos; at = text.find("{}")) {
    text.replace(at, 2, "0");
  }
  return text;
}

void add_port_options(CLI::App& cli, LinkOptions& link, LinkCount count) {
  cli.add_option("-d,--device", link.port.device,
                 "DPDK device, "
                 "such as net_memif0,role=client,socket=/run/cw.sock,socket-abstract=no or net_af_packet0,iface=tap0; "
                 "needed for RoCE; verbs: the RDMA device, such as rxe0, or whichever is on the way to the server");
  cli.add_option("-a,--address", link.address, "own address with prefix length; RoCE only, and needed there")
      ->check([count](const std::string& text) { return prefix_problem(count == LinkCount::kOne ? text : numbered(text)); });
  cli.add_option("--mtu", link.port.mtu, "bytes of an IP packet on the link; 4500 gives RoCE MTU 4096")
      ->capture_default_str()
      ->check(CLI::Range(1280, 9216));
  cli.add_option("--lcore", link.port.lcore, "CPU to run on")->capture_default_str();
  cli.add_option("--memory-mb", link.port.memory_mb, "memory for DPDK")->capture_default_str();
  cli.add_flag("-v,--verbose", link.port.verbose, "show DPDK's own start-up messages");
}

}  // namespace

std::string prefix_problem(const std::string& text) {
  return control::parse_prefix(text) ? "" : fmt::format("'{}': write an address with prefix length, such as 10.9.0.2/24", text);
}
std::string address_problem(const std::string& text) {
  return parse_ip(text).ok() ? "" : fmt::format("'{}' is not an IP address", text);
}

void add_wire_options(CLI::App& cli, LinkOptions& link, LinkCount count) {
  cli.add_option_function<std::string>(
         "--transport",
         [&link](const std::string& name) {
           for (const client::Wire wire : {client::Wire::kRoce, client::Wire::kIwarp, client::Wire::kVerbs}) {
             link.wire = name == client::to_string(wire) ? wire : link.wire;
           }
         },
         "the wire: roce, RoCEv2 on a DPDK port of our own; iwarp, RDMA over the kernel's TCP, without DPDK and root; "
         "or verbs, an RDMA device of this host, through rdma-core")
      ->default_str("roce")
      ->check(CLI::IsMember({"roce", "iwarp", "verbs"}));
  cli.add_flag_callback(
      "--no-crc", [&link] { link.crc = false; }, "iwarp: do not ask for CRCs; the server may want them anyway");
  add_port_options(cli, link, count);
}

void add_link_options(CLI::App& cli, LinkOptions& link) {
  add_port_options(cli, link, LinkCount::kOne);
  cli.get_option("--device")->required();
  cli.get_option("--address")->required();
}

std::string link_problem(const CLI::App& cli, const LinkOptions& link) {
  const bool is_verbs = link.wire == client::Wire::kVerbs;
  if (!link.crc && link.wire != client::Wire::kIwarp) {
    return "--no-crc: belongs to iWARP; add --transport iwarp, or leave it out";
  }
  if (link.wire == client::Wire::kRoce) {
    for (const char* name : {"--device", "--address"}) {
      if (cli.count(name) == 0) {
        return fmt::format("{}: is required; or leave out DPDK with --transport iwarp or verbs, when the server speaks it", name);
      }
    }
    return "";
  }
  for (const char* name : {"--device", "--address", "--mtu", "--memory-mb"}) {
    if (cli.count(name) > 0 && !(is_verbs && name == std::string_view("--device"))) {
      return fmt::format("{}: belongs to RoCE; with --transport {} {} has the link, so leave it out", name,
                         client::to_string(link.wire), is_verbs ? "the RDMA device" : "the kernel's TCP");
    }
  }
  return "";
}

std::unique_ptr<dataplane::HeapPools> open_heap(const LinkOptions& link, std::string& error) {
  if (link.wire == client::Wire::kVerbs) {
    error = dataplane::rdma_problem(link.port.device, std::nullopt);
    if (!error.empty()) {
      return nullptr;
    }
  }
  if (!dataplane::choose_cpus({.main_lcore = link.port.lcore, .poll_lcores = {link.port.lcore}}, error)) {
    return nullptr;
  }
  dataplane::bind_this_thread({&link.port.lcore, 1});
  // An RDMA device pins all that is registered with it.
  const uint32_t share = link.wire == client::Wire::kVerbs ? 1 : 2;
  return std::make_unique<dataplane::HeapPools>(control::PoolSizes{.packet_buffers = share * link.port.packet_buffers,
                                                                   .large_buffers = link.port.large_buffers,
                                                                   .views = share * link.port.views});
}

}  // namespace cw::test
