#include "control/service/notifier.h"

#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace cw::control {
namespace {

std::optional<int64_t> whole_number(const char* text) {
  int64_t value = 0;
  const char* end = text + std::strlen(text);
  const auto parsed = std::from_chars(text, end, value);
  return parsed.ec == std::errc{} && parsed.ptr == end && value > 0 ? std::optional(value) : std::nullopt;
}

// The variables are inherited by whatever the service starts; WATCHDOG_PID says whom they are for.
std::optional<Duration> wanted_watchdog(const NotifyEnvironment& environment) {
  if (environment.watchdog_usec == nullptr) {
    return std::nullopt;
  }
  if (environment.watchdog_pid != nullptr && whole_number(environment.watchdog_pid) != environment.own_pid) {
    return std::nullopt;
  }
  const std::optional<int64_t> usec = whole_number(environment.watchdog_usec);
  constexpr int64_t kUsecMax = int64_t{1} << 50;  // as nanoseconds it still fits
  return usec && *usec <= kUsecMax ? std::optional(Duration::us(*usec)) : std::nullopt;
}

struct SocketName {
  sockaddr_un address{};
  socklen_t size = 0;
};

std::optional<SocketName> socket_name(std::string_view text) {
  SocketName name;
  if (text.size() < 2 || text.size() >= sizeof(name.address.sun_path) || (text[0] != '/' && text[0] != '@')) {
    return std::nullopt;
  }
  name.address.sun_family = AF_UNIX;
  text.copy(name.address.sun_path, text.size());
  name.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + text.size());
  if (text[0] == '@') {
    name.address.sun_path[0] = '\0';
  } else {
    ++name.size;  // the NUL belongs to a path, not to an abstract name
  }
  return name;
}

std::string status_field(std::string_view text) {
  if (text.size() > Notifier::kStatusBytesMax) {
    text = text.substr(0, Notifier::kStatusBytesMax);
  }
  std::string field = "STATUS=";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    field += byte < 0x20 || byte == 0x7f ? ' ' : c;
  }
  return field;
}

}  // namespace

NotifyEnvironment notify_environment() {
  return {std::getenv("NOTIFY_SOCKET"), std::getenv("WATCHDOG_USEC"), std::getenv("WATCHDOG_PID"), getpid()};
}

Notifier Notifier::open(const NotifyEnvironment& environment, std::string& problem) {
  Notifier notifier;
  problem.clear();
  if (environment.socket == nullptr || *environment.socket == '\0') {
    return notifier;
  }
  const std::optional<SocketName> name = socket_name(environment.socket);
  if (!name) {
    problem =
        fmt::format("NOTIFY_SOCKET={}: neither a path nor an abstract name that a UNIX socket can have", environment.socket);
    return notifier;
  }
  UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const timeval timeout{kSendTimeout.to_us() / 1'000'000, kSendTimeout.to_us() % 1'000'000};
  if (!fd.valid() || setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) != 0 ||
      connect(fd.get(), reinterpret_cast<const sockaddr*>(&name->address), name->size) != 0) {
    problem = fmt::format("NOTIFY_SOCKET={}: {}", environment.socket, std::strerror(errno));
    return notifier;
  }
  notifier.fd_ = std::move(fd);
  notifier.watchdog_timeout_ = wanted_watchdog(environment);
  return notifier;
}

bool Notifier::ready(std::string_view status) const {
  return send("READY=1\n" + status_field(status));
}

bool Notifier::reloading(Instant now, std::string_view status) const {
  return send(fmt::format("RELOADING=1\nMONOTONIC_USEC={}\n{}", now.to_ns() / 1000, status_field(status)));
}

bool Notifier::stopping(std::string_view status, Duration longest) const {
  return send(fmt::format("STOPPING=1\nEXTEND_TIMEOUT_USEC={}\n{}", longest.to_ns() / 1000, status_field(status)));
}

bool Notifier::status(std::string_view text) const {
  return send(status_field(text));
}

bool Notifier::feed_watchdog() const {
  return !watchdog_timeout_ || send("WATCHDOG=1");
}

bool Notifier::send(const std::string& message) const {
  if (!fd_.valid()) {
    return true;
  }
  return ::send(fd_.get(), message.data(), message.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(message.size());
}

}  // namespace cw::control
