// The arguments of a DPDK memif device ("net_memif0,role=server,socket=/run/link.sock,socket-abstract=no,..."), as far as its
// control socket goes. Everything else is passed on as it stands.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/dpdk/unix_name.h"

namespace cw::dataplane {

struct MemifDevice {
  bool server = false;
  UnixName socket{"/run/memif.sock", true};  // the driver's defaults
  std::vector<std::string> rest;             // the device's name, then all other arguments, in their order

  // nullopt: another kind of device.
  [[nodiscard]] static std::optional<MemifDevice> parse(std::string_view device);
  [[nodiscard]] std::string text() const;
};

}  // namespace cw::dataplane
