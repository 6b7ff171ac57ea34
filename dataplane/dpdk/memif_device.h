// The arguments of a DPDK memif device ("net_memif0,role=server,socket=/run/link.sock,socket-abstract=no,..."), as far as its
// control socket goes. Everything else is passed on as it stands.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cw::dataplane {

// The name of a Unix socket as DPDK's memif driver makes it: a path, or a name in the abstract space.
struct UnixName {
  std::string name;
  bool abstract = false;

  // False: longer than the address holds.
  [[nodiscard]] bool fill(sockaddr_un& address, socklen_t& size) const;
  // For messages: abstract names with a leading @, as ss(8) writes them.
  [[nodiscard]] std::string text() const { return (abstract ? "@" : "") + name; }
};

struct MemifDevice {
  bool server = false;
  UnixName socket{"/run/memif.sock", true};  // the driver's defaults
  std::vector<std::string> rest;             // the device's name, then all other arguments, in their order

  // nullopt: another kind of device.
  [[nodiscard]] static std::optional<MemifDevice> parse(std::string_view device);
  [[nodiscard]] std::string text() const;
};

}  // namespace cw::dataplane
