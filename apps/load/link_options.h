// The options of every program with the client role: the wire, for RoCE the DPDK port of its own, for rdma-core the RDMA device,
// the core, the memory.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <memory>
#include <string>

#include "apps/client/client_wire.h"
#include "control/config/ip_text.h"
#include "dataplane/dpdk/one_port.h"
#include "dataplane/heap_pools.h"

namespace cw::test {

struct LinkOptions {
  dataplane::OnePortSettings port;
  std::string address;
  client::Wire wire = client::Wire::kRoce;
  bool crc = true;  // iWARP: asked for

  // Without DPDK: buffers are ordinary memory.
  [[nodiscard]] bool has_heap() const { return wire != client::Wire::kRoce; }
  // Of RoCE. Precondition: the command line has been parsed, and link_problem() found nothing.
  [[nodiscard]] control::IpPrefix own() const { return *control::parse_prefix(address); }
};

// What is wrong with an option's value, for CLI11; empty when nothing is.
[[nodiscard]] std::string prefix_problem(const std::string& text);
[[nodiscard]] std::string address_problem(const std::string& text);

enum class LinkCount : uint8_t { kOne, kOnePerThread };  // the latter: "{}" in texts stands for the thread's number
// RoCE alone.
void add_link_options(CLI::App& cli, LinkOptions& link);
// Every wire.
void add_wire_options(CLI::App& cli, LinkOptions& link, LinkCount count = LinkCount::kOne);
// Behind add_wire_options() and the parsing: what is missing for the wire, or has no meaning on it. Empty, or an option's name
// and a sentence.
[[nodiscard]] std::string link_problem(const CLI::App& cli, const LinkOptions& link);
// iWARP and rdma-core: buffers, and this thread on its CPU. nullptr with one sentence.
[[nodiscard]] std::unique_ptr<dataplane::HeapPools> open_heap(const LinkOptions& link, std::string& error);

}  // namespace cw::test
