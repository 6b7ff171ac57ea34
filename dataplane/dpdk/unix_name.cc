#include "dataplane/dpdk/unix_name.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

namespace cw::dataplane {

bool UnixName::fill(sockaddr_un& address, socklen_t& size) const {
  address = {};
  address.sun_family = AF_UNIX;
  const size_t at = abstract ? 1 : 0;
  if (name.empty() || name.size() + 1 > sizeof(address.sun_path)) {
    return false;
  }
  std::memcpy(address.sun_path + at, name.data(), name.size());
  // The driver binds and connects abstract names without a closing zero: every octet of the size is part of the name.
  size = abstract ? static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size()) : sizeof(address);
  return true;
}

control::UniqueFd connect_to(const UnixName& name, int type) {
  sockaddr_un address{};
  socklen_t size = 0;
  if (!name.fill(address, size)) {
    errno = EINVAL;
    return control::UniqueFd();
  }
  control::UniqueFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  if (!fd.valid() || connect(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) {
    return control::UniqueFd();
  }
  return fd;
}

void remove_dead_socket(const UnixName& name, int type) {
  struct stat status {};
  if (!name.abstract && stat(name.name.c_str(), &status) == 0 && S_ISSOCK(status.st_mode) && !connect_to(name, type).valid() &&
      errno == ECONNREFUSED) {
    (void)unlink(name.name.c_str());
  }
}

}  // namespace cw::dataplane
