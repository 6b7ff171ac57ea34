#include "control/doctor/socket_probe.h"

#include <netinet/in.h>

#include <cerrno>

#include "control/config/kernel_address.h"
#include "control/socket/unique_fd.h"

namespace cw::control::doctor {
namespace {

const IpAddress kAnyV6{};
constexpr IpAddress kAnyV4 = IpAddress::v4(0);

// 0, or errno.
int error_of_bind(const SocketAddress& address) {
  sockaddr_storage raw{};
  const socklen_t length = write_address(address, raw);
  const UniqueFd fd(socket(raw.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) {
    return errno;
  }
  const int on = 1;
  const int off = 0;
  // Without SO_REUSEPORT: with it, the port of another program of this user would look free.
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (raw.ss_family == AF_INET6) {
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, address.address == kAnyV6 ? &off : &on, sizeof(on));
  }
  return bind(fd.get(), reinterpret_cast<const sockaddr*>(&raw), length) == 0 ? 0 : errno;
}

}  // namespace

BindResult try_bind(const SocketAddress& address) {
  int error = error_of_bind(address);
  if ((error == EAFNOSUPPORT || error == EADDRNOTAVAIL) && address.address == kAnyV6) {
    error = error_of_bind({kAnyV4, address.port});
  }
  switch (error) {
    case 0:
      return {};
    case EADDRINUSE:
      return {Bind::kTaken, error};
    case EADDRNOTAVAIL:
      return {Bind::kNotLocal, error};
    case EACCES:
      return {Bind::kNotPermitted, error};
    default:
      return {Bind::kOther, error};
  }
}

}  // namespace cw::control::doctor
