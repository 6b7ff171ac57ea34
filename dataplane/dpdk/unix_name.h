// Names of Unix sockets as DPDK's drivers make them: a path, or a name in the abstract space.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <memory>
#include <string>

#include "control/socket/unique_fd.h"

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

// The right to listen on a name, for one process at a time: a lock on the file NAME.lock beside it. A process that ends, however
// it ends, gives the lock back; the file that it may leave behind is taken over. Abstract names need no lock: the kernel lets one
// listener have each, and forgets it with the process.
class NameClaim {
 public:
  // With it, the file of a socket that a killed process left behind is gone, so that the name can be bound to. Null, and one
  // sentence in `error`, when another process listens there. The name is never connected to: that can hurt whoever listens
  // (DPDK's memif driver, 22.11, ends its process when a client is gone before it has been greeted).
  [[nodiscard]] static std::unique_ptr<NameClaim> take(const UnixName& name, std::string& error);
  // Gives the name back. Whoever bound to it has removed the socket's file.
  ~NameClaim();
  NameClaim(const NameClaim&) = delete;
  NameClaim& operator=(const NameClaim&) = delete;

 private:
  NameClaim() = default;
  std::string lock_path_;  // empty: an abstract name
  control::UniqueFd lock_;
};

}  // namespace cw::dataplane
