// The options of every test program that opens a DPDK port of its own: the link, the core, the memory.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

#include "control/config/ip_text.h"
#include "dataplane/dpdk/one_port.h"

namespace cw::test {

struct LinkOptions {
  dataplane::OnePortSettings port;
  std::string address;

  // Precondition: the command line has been parsed.
  [[nodiscard]] control::IpPrefix own() const { return *control::parse_prefix(address); }
};

// What is wrong with an option's value, for CLI11; empty when nothing is.
[[nodiscard]] std::string prefix_problem(const std::string& text);
[[nodiscard]] std::string address_problem(const std::string& text);

enum class LinkCount : uint8_t { kOne, kOnePerThread };  // the latter: "{}" in texts stands for the thread's number
void add_link_options(CLI::App& cli, LinkOptions& link, LinkCount count = LinkCount::kOne);

}  // namespace cw::test
