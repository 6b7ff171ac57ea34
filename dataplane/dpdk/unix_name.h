// Names of Unix sockets as DPDK's drivers make them: a path, or a name in the abstract space.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>

#include "control/admin/unique_fd.h"

namespace cw::dataplane {

struct UnixName {
  std::string name;
  bool abstract = false;

  // False: empty, or longer than the address holds.
  [[nodiscard]] bool fill(sockaddr_un& address, socklen_t& size) const;
  // For messages: abstract names with a leading @, as ss(8) writes them.
  [[nodiscard]] std::string text() const { return (abstract ? "@" : "") + name; }
};

// A socket of `type` (SOCK_STREAM, SOCK_SEQPACKET) connected to the name; none, with errno: nobody there.
[[nodiscard]] control::UniqueFd connect_to(const UnixName& name, int type);

// A process that was killed leaves its socket file behind, and nobody can bind to the name. One that nobody answers on is
// removed; a living one stays.
void remove_dead_socket(const UnixName& name, int type);

}  // namespace cw::dataplane
