// A load from end to end, on a DPDK port of its own, on the kernel's TCP or on an RDMA device: wire, driver, terminal. For NFS
// with files made before and removed after.
#pragma once

#include <atomic>
#include <string>

#include "apps/load/link_options.h"
#include "apps/load/load_terminal.h"

namespace cw::load {

struct NfsServerSettings {
  std::string mountd;  // address over the kernel's TCP; empty: the server's
  uint16_t mountd_port = 12050;
  std::string export_path = "/";
  std::string directory = "causeway-load";  // made in the export, the process id appended
};

struct SessionSettings {
  test::LinkOptions link;
  std::string next_hop;  // when the server is on another network
  NfsServerSettings nfs;
  TerminalSettings terminal;
};

// Once per process. Blocks. Returns the exit status.
[[nodiscard]] int run_session(const SessionSettings& settings, const std::atomic<bool>& interrupted);

}  // namespace cw::load
