#include "control/admin/received_file.h"

#include <sys/socket.h>

#include <array>
#include <cstring>

namespace cw::control {
namespace {

// Room for one descriptor; alignment makes it room for two. The kernel closes what comes beyond.
union ControlBuffer {
  cmsghdr aligned;
  std::array<char, CMSG_SPACE(sizeof(int))> bytes;
};

}  // namespace

ssize_t receive_with_file(int socket, MutableBytes buffer, UniqueFd& file) {
  iovec vector{buffer.data(), buffer.size()};
  ControlBuffer control{};
  msghdr header{};
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  header.msg_control = control.bytes.data();
  header.msg_controllen = control.bytes.size();
  const ssize_t got = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  for (cmsghdr* item = got < 0 ? nullptr : CMSG_FIRSTHDR(&header); item != nullptr; item = CMSG_NXTHDR(&header, item)) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    for (size_t at = CMSG_LEN(0); at + sizeof(int) <= item->cmsg_len; at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, reinterpret_cast<const char*>(item) + at, sizeof(fd));
      // Of two the last one stays: assigning closes the one before, so none is left open.
      file = UniqueFd(fd);
    }
  }
  return got;
}

ssize_t send_with_file(int socket, Bytes bytes, int file) {
  iovec vector{const_cast<uint8_t*>(bytes.data()), bytes.size()};
  ControlBuffer control{};
  msghdr header{};
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  if (file >= 0) {
    header.msg_control = control.bytes.data();
    header.msg_controllen = control.bytes.size();
    cmsghdr* item = CMSG_FIRSTHDR(&header);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(item), &file, sizeof(file));
  }
  return sendmsg(socket, &header, MSG_NOSIGNAL);
}

}  // namespace cw::control
