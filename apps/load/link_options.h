// The options of every program that is a client: which wire, and for RoCE the DPDK port of its own; the core, the memory.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

#include "control/config/ip_text.h"
#include "control/config/memory_plan.h"
#include "dataplane/dpdk/one_port.h"

namespace cw::test {

enum class WireKind : uint8_t { kRoce, kIwarp };

struct LinkOptions {
  WireKind transport = WireKind::kRoce;
  dataplane::OnePortSettings port;  // of iWARP: what is said of buffers and the core
  std::string address;
  bool is_pinned = true;  // to port.lcore and those behind it; of iWARP only when --lcore says so

  // Precondition: the command line has been parsed, and the wire is RoCE.
  [[nodiscard]] control::IpPrefix own() const { return *control::parse_prefix(address); }
  // Of iWARP.
  [[nodiscard]] control::PoolSizes heap_sizes() const;
};

// What is wrong with an option's value, for CLI11; empty when nothing is.
[[nodiscard]] std::string prefix_problem(const std::string& text);
[[nodiscard]] std::string address_problem(const std::string& text);

struct LinkKinds {
  bool one_per_thread = false;  // "{}" in texts stands for the thread's number
  bool wires = false;           // --transport chooses; else it is RoCE
};
void add_link_options(CLI::App& cli, LinkOptions& link, const LinkKinds& kinds = {});
// After parsing: what the options mean together. Empty, or what is wrong.
[[nodiscard]] std::string settle_link(const CLI::App& cli, LinkOptions& link);

}  // namespace cw::test
