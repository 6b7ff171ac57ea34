#include "dataplane/dpdk/memif_relay.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "dataplane/monotonic_clock.h"
#include "telemetry/log.h"

namespace cw::dataplane {
namespace {

using control::UniqueFd;
using End = MemifLink::End;

constexpr size_t kDescriptorsMax = 4;  // a message carries one at most; what comes beyond these the kernel closes
constexpr int kListenBacklog = 4;      // ends that wait until the present one has gone
constexpr const char* kDriverName = "/d";
constexpr const char* kDirectoryPattern = "/.memif-XXXXXX";

UniqueFd new_socket() {
  return UniqueFd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
}

// Where this process keeps what it needs while it runs: as the service manager or the session says.
std::string runtime_directory() {
  for (const char* name : {"RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR"}) {
    const char* const value = std::getenv(name);
    std::string directory = value == nullptr ? "" : std::string(value, std::strcspn(value, ":"));  // the first of several
    if (directory.starts_with('/') && access(directory.c_str(), W_OK | X_OK) == 0) {
      return directory;
    }
  }
  return "/tmp";
}

// The descriptors that came with a message: closed here once they have been passed on.
struct Descriptors {
  std::array<int, kDescriptorsMax> fds{};
  size_t count = 0;

  Descriptors() = default;
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;
  ~Descriptors() {
    for (size_t i = 0; i < count; ++i) {
      close(fds[i]);
    }
  }
};

union ControlBuffer {
  cmsghdr aligned;
  std::array<char, CMSG_SPACE(kDescriptorsMax * sizeof(int))> raw;
};

std::optional<ucred> credentials_of(const UniqueFd& fd) {
  ucred who{};
  socklen_t size = sizeof(who);
  return fd.valid() && getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 ? std::optional(who) : std::nullopt;
}

// To poll().
int wait_ms(Instant now, Instant until) {
  constexpr int64_t kNsPerMs = 1'000'000;
  return until.is_never() ? -1 : static_cast<int>(std::max<int64_t>(((until - now).to_ns() + kNsPerMs - 1) / kNsPerMs, 0));
}

}  // namespace

struct MemifRelay::Message {
  std::array<uint8_t, MemifHandshake::kMessageBytes> raw{};
  size_t size = 0;
  Descriptors descriptors;

  [[nodiscard]] Bytes bytes() const { return Bytes(raw).first(size); }
  // Of the file that came with it, if one came. One whose size nobody knows (an eventfd) has 0 bytes.
  [[nodiscard]] std::optional<uint64_t> file_bytes() const {
    struct stat file {};
    if (descriptors.count == 0) {
      return std::nullopt;
    }
    return fstat(descriptors.fds[0], &file) == 0 ? static_cast<uint64_t>(file.st_size) : 0;
  }
};

MemifRelay::MemifRelay(const MemifDevice& device, DeviceLeases& leases, std::function<bool()> restart)
    : device_(device),
      for_driver_(device),
      restart_(std::move(restart)),
      link_(device.server, leases, *this),
      stop_event_(eventfd(0, EFD_CLOEXEC)) {}

MemifRelay::~MemifRelay() {
  stop();
  if (device_.server && listener_.valid() && !device_.socket.abstract) {
    (void)unlink(device_.socket.name.c_str());
  }
  if (!driver_directory_.empty()) {
    (void)unlink(for_driver_.socket.name.c_str());
    (void)rmdir(driver_directory_.c_str());
  }
}

void MemifRelay::stop() {
  if (thread_.joinable()) {
    stopping_.store(true);
    const uint64_t one = 1;
    (void)!write(stop_event_.get(), &one, sizeof(one));
    thread_.join();
  }
}

std::unique_ptr<MemifRelay> MemifRelay::open(const MemifDevice& device, DeviceLeases& leases, std::function<bool()> restart,
                                             std::string& error) {
  std::unique_ptr<MemifRelay> relay(new MemifRelay(device, leases, std::move(restart)));
  const bool ready = device.server ? relay->listen_for_peer(error) : relay->listen_for_driver(error);
  return ready ? std::move(relay) : nullptr;
}

bool MemifRelay::listen_for_peer(std::string& error) {
  sockaddr_un address{};
  socklen_t size = 0;
  if (!device_.socket.fill(address, size)) {
    error = fmt::format("the name of the socket is too long (at most {} bytes)", sizeof(address.sun_path) - 1);
    return false;
  }
  claim_ = NameClaim::take(device_.socket, error);
  if (claim_ == nullptr) {
    return false;
  }
  UniqueFd fd = new_socket();
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(fd.get(), kListenBacklog) != 0) {
    error = fmt::format("cannot listen on {}: {} (is its directory there and writable, and no other process listening?)",
                        device_.socket.text(), std::strerror(errno));
    return false;
  }
  listener_ = std::move(fd);
  return make_driver_directory(error);
}

// A directory that only this user can enter, for as long as the driver's name is needed.
bool MemifRelay::make_driver_directory(std::string& error) {
  std::string pattern = runtime_directory() + kDirectoryPattern;
  if (mkdtemp(pattern.data()) == nullptr) {
    error = fmt::format("cannot make a directory {}: {}", pattern, std::strerror(errno));
    return false;
  }
  driver_directory_ = pattern;
  for_driver_.socket = {pattern + kDriverName, false};
  sockaddr_un address{};
  socklen_t size = 0;
  if (!for_driver_.socket.fill(address, size)) {
    error = fmt::format("the name of the directory is too long for a socket in it: {}", for_driver_.socket.name);
    return false;
  }
  return true;
}

bool MemifRelay::hide_driver(std::string& error) {
  if (!device_.server) {
    return true;
  }
  driver_socket_ = UniqueFd(::open(for_driver_.socket.name.c_str(), O_PATH | O_CLOEXEC | O_NOFOLLOW));
  if (!driver_socket_.valid()) {
    error = fmt::format("the driver's socket {}: {}", for_driver_.socket.name, std::strerror(errno));
    return false;
  }
  (void)unlink(for_driver_.socket.name.c_str());
  (void)rmdir(driver_directory_.c_str());
  driver_directory_.clear();
  return true;
}

// By the file itself, which has no name any more.
UniqueFd MemifRelay::connect_to_driver() const {
  return connect_to({fmt::format("/proc/self/fd/{}", driver_socket_.get()), false}, SOCK_SEQPACKET);
}

bool MemifRelay::listen_for_driver(std::string& error) {
  peer_ = connect_to(device_.socket, SOCK_SEQPACKET);
  if (!peer_.valid()) {
    error = fmt::format("cannot connect to {}: {} (start the end that has role=server first)", device_.socket.text(),
                        std::strerror(errno));
    return false;
  }
  if (!is_welcome(peer_)) {
    error =
        fmt::format("{} belongs to another user, and an abstract name is for the gateway's user and root", device_.socket.text());
    return false;
  }
  // Not a name that anybody else could connect to: strangers who fill the line would keep the driver waiting.
  if (!make_driver_directory(error)) {
    return false;
  }
  sockaddr_un address{};
  socklen_t size = 0;
  (void)for_driver_.socket.fill(address, size);
  listener_ = new_socket();
  if (bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(listener_.get(), 1) != 0) {
    error = fmt::format("cannot make a socket for the driver: {}", std::strerror(errno));
    return false;
  }
  return true;
}

void MemifRelay::start() {
  thread_ = std::thread([this] { run(); });
}

void MemifRelay::run() {
  (void)pthread_setname_np(pthread_self(), "cw-memif");
  while (!stopping_.load()) {
    // -1 is skipped by poll(): what the link does not care for now.
    const MemifLink::Ready wanted = link_.watched();
    std::array<pollfd, 4> watched{{{stop_event_.get(), POLLIN, 0},
                                   {wanted.listener ? listener_.get() : -1, POLLIN, 0},
                                   {wanted.peer ? peer_.get() : -1, POLLIN, 0},
                                   {wanted.driver ? driver_.get() : -1, POLLIN, 0}}};
    const Instant now = monotonic_now();
    const int ready = ::poll(watched.data(), watched.size(), wait_ms(now, link_.deadline(now)));
    if (ready < 0 || watched[0].revents != 0) {
      continue;
    }
    link_.advance(monotonic_now(),
                  {.listener = watched[1].revents != 0, .peer = watched[2].revents != 0, .driver = watched[3].revents != 0});
    message_.reset();  // and what came with it is closed
  }
}

bool MemifRelay::accept(End end) {
  UniqueFd accepted(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (end == End::kDriver) {
    const std::optional<ucred> who = credentials_of(accepted);
    if (!who || who->pid != getpid()) {
      return false;
    }
    driver_ = std::move(accepted);
    return true;
  }
  if (!accepted.valid() || !is_welcome(accepted)) {
    return false;
  }
  peer_ = std::move(accepted);
  return true;
}

bool MemifRelay::connect(End end) {
  if (end == End::kDriver) {
    driver_ = connect_to_driver();
    if (!driver_.valid()) {
      telemetry::log_error("memif link {}: cannot reach the driver: {}", device_.socket.text(), std::strerror(errno));
    }
    return driver_.valid();
  }
  UniqueFd peer = connect_to(device_.socket, SOCK_SEQPACKET);
  if (!peer.valid() || !is_welcome(peer)) {
    return false;
  }
  peer_ = std::move(peer);
  return true;
}

bool MemifRelay::is_welcome(const UniqueFd& peer) {
  const std::optional<ucred> who = device_.socket.abstract ? credentials_of(peer) : std::nullopt;
  if (!device_.socket.abstract || (who && (who->uid == 0 || who->uid == geteuid()))) {
    return true;
  }
  refuse("an abstract name is for the gateway's user and root");
  return false;
}

// The other end is told, as its driver would tell it.
void MemifRelay::refuse(const char* reason) {
  refused_.fetch_add(1, std::memory_order_relaxed);
  telemetry::log_warning("memif link {}: the other end is refused: {}", device_.socket.text(), reason);
  if (peer_.valid()) {
    const auto message = MemifHandshake::disconnect(reason);
    (void)::send(peer_.get(), message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
}

std::optional<MemifLink::Received> MemifRelay::receive(End from) {
  message_ = std::make_unique<Message>();
  Message& message = *message_;
  iovec vector{message.raw.data(), message.raw.size()};
  ControlBuffer control{};
  msghdr header{};
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  header.msg_control = control.raw.data();
  header.msg_controllen = control.raw.size();
  const ssize_t size = recvmsg(socket_of(from).get(), &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  for (cmsghdr* item = size < 0 ? nullptr : CMSG_FIRSTHDR(&header); item != nullptr; item = CMSG_NXTHDR(&header, item)) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const size_t count = (item->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count && message.descriptors.count < kDescriptorsMax; ++i) {
      std::memcpy(&message.descriptors.fds[message.descriptors.count++], CMSG_DATA(item) + i * sizeof(int), sizeof(int));
    }
  }
  if (size <= 0 || (header.msg_flags & MSG_TRUNC) != 0) {
    return std::nullopt;
  }
  message.size = static_cast<size_t>(size);
  return MemifLink::Received{.message = message.bytes(), .file_bytes = message.file_bytes()};
}

bool MemifRelay::pass_on(End to) {
  Message& message = *message_;
  iovec vector{message.raw.data(), message.size};
  ControlBuffer control{};
  msghdr header{};
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  const size_t bytes = message.descriptors.count * sizeof(int);
  if (bytes > 0) {
    header.msg_control = control.raw.data();
    header.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* item = CMSG_FIRSTHDR(&header);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(item), message.descriptors.fds.data(), bytes);
  }
  // Whoever does not take a dozen messages is not alive.
  return sendmsg(socket_of(to).get(), &header, MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(message.size);
}

void MemifRelay::close(End end) {
  (end == End::kPeer ? peer_ : driver_) = UniqueFd();
}

void MemifRelay::shut_down_driver() {
  (void)shutdown(driver_.get(), SHUT_WR);
}

}  // namespace cw::dataplane
