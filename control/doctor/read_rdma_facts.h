// Reads what transport = "verbs" takes of this host: RDMA devices, their ports and nodes, the kernel's interfaces, rdma-core.
// Changes nothing, and opens no device.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "control/doctor/facts.h"

namespace cw::control::doctor {

// Where it is read: below a root of files, for tests, as this host has them.
struct RdmaHost {
  std::filesystem::path root = "/";                          // of /sys, /dev, /lib/modules, /etc
  std::string kernel;                                        // its release
  std::vector<std::pair<std::string, IpAddress>> addresses;  // by interface
  // Whose rights are asked for; without a name this user's.
  struct User {
    std::string name;
    uid_t id = 0;
    std::vector<gid_t> groups;
  } user;
};
// For root the user is `causeway`, whom the service runs as, if there is one.
[[nodiscard]] RdmaHost this_host();

[[nodiscard]] RdmaFacts read_rdma(const RdmaHost& host);

// Of this host, when a listener has transport = "verbs".
void read_rdma_facts(Facts& facts);

}  // namespace cw::control::doctor
