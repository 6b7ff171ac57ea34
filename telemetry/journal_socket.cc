#include "telemetry/journal_socket.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>

namespace cw::telemetry {

void append_journal_field(std::string& entry, std::string_view key, std::string_view value) {
  entry += key;
  if (value.find('\n') == std::string_view::npos) {
    entry += '=';
  } else {
    entry += '\n';
    for (uint32_t shift = 0; shift < 64; shift += 8) {
      entry += static_cast<char>(static_cast<uint64_t>(value.size()) >> shift & 0xff);
    }
  }
  entry += value;
  entry += '\n';
}

JournalSocket::Sent JournalSocket::send(std::string_view entry) {
  sockaddr_un address{};
  if (path_.size() >= sizeof(address.sun_path)) {
    return Sent::kRefused;
  }
  address.sun_family = AF_UNIX;
  path_.copy(address.sun_path, path_.size());
  if (!fd_.valid()) {
    fd_ = control::UniqueFd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  }
  const ssize_t sent = sendto(fd_.get(), entry.data(), entry.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
                              reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  return sent >= 0 ? Sent::kTaken : errno == EAGAIN ? Sent::kNoRoom : Sent::kRefused;
}

}  // namespace cw::telemetry
