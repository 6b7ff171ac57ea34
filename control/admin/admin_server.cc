#include "control/admin/admin_server.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <list>
#include <thread>
#include <vector>

#include "control/admin/admin_quota.h"
#include "control/admin/received_file.h"
#include "control/admin/unique_fd.h"

namespace cw::control {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kListenBacklog = 16;
constexpr auto kTurnMax = std::chrono::milliseconds(500);

std::string errno_sentence(const std::string& path, const char* what) {
  return fmt::format("admin socket {}: {}: {}", path, what, std::strerror(errno));
}

sockaddr_un unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  return address;
}

// Makes way for bind(): a socket file that nobody answers on is what a killed process left behind.
bool clear_path(const std::string& path, std::string& problem) {
  const size_t slash = path.rfind('/');
  if (slash != std::string::npos && slash > 0) {
    mkdir(path.substr(0, slash).c_str(), 0755);  // failure shows in bind()
  }
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) {
    return true;
  }
  if (!S_ISSOCK(info.st_mode)) {
    problem = fmt::format("admin socket {}: something else has this name; remove it, or set admin.socket", path);
    return false;
  }
  const UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const sockaddr_un address = unix_address(path);
  if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 || errno == EAGAIN) {
    problem = fmt::format("admin socket {}: another causewayd is running; give each its own gateway.instance", path);
    return false;
  }
  if (unlink(path.c_str()) != 0) {
    problem = errno_sentence(path, "cannot remove the old socket");
    return false;
  }
  return true;
}

struct Client {
  UniqueFd fd;
  AdminCaller caller;
  AdminQuota::Holder holder;
  UniqueFd file;    // came with what is in `in`
  std::string in;   // requests not yet answered
  std::string out;  // answer not yet taken
  size_t sent = 0;
  bool at_end = false;  // nothing more will be read
  bool broken = false;
  Clock::time_point deadline;  // closed then, unless something moves
  [[nodiscard]] bool done() const { return broken || (at_end && in.empty() && out.empty()); }
};

}  // namespace

class AdminServer::Impl {
 public:
  Impl(std::string path, UniqueFd listener, UniqueFd wake, AdminPolicy policy, const AdminTarget& target, Duration idle_timeout)
      : path_(std::move(path)),
        listener_(std::move(listener)),
        wake_(std::move(wake)),
        policy_(std::move(policy)),
        target_(target),
        idle_timeout_(idle_timeout.to_ns()),
        thread_([this] { run(); }) {}

  ~Impl() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
    thread_.join();
    unlink(path_.c_str());
  }

 private:
  void run() {
    bool accepting = true;
    while (true) {
      std::vector<pollfd> polled = {{wake_.get(), POLLIN, 0}, {listener_.get(), static_cast<short>(accepting ? POLLIN : 0), 0}};
      for (const Client& client : clients_) {
        polled.push_back({client.fd.get(), static_cast<short>(client.out.empty() ? POLLIN : POLLOUT), 0});
      }
      poll(polled.data(), polled.size(), static_cast<int>(kTurnMax.count()));
      if (polled[0].revents != 0) {
        return;
      }
      size_t index = 2;
      for (Client& client : clients_) {
        if (polled[index++].revents != 0) {
          serve(client);
        }
      }
      const Clock::time_point now = Clock::now();
      std::erase_if(clients_, [this, now](const Client& client) {
        const bool ends = client.done() || now >= client.deadline;
        if (ends) {
          quota_.give_back(client.holder);
        }
        return ends;
      });
      // After a failed accept (no descriptors left) the listener rests for one turn, instead of spinning.
      accepting = polled[1].revents == 0 || accept_client();
    }
  }

  [[nodiscard]] bool accept_client() {
    UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) {
      return errno == EAGAIN || errno == ECONNABORTED || errno == EINTR;
    }
    const std::optional<AdminPeer> peer = peer_of(fd.get());
    // One that the kernel does not name is nobody's, and may look.
    const AdminQuota::Holder holder =
        peer ? AdminQuota::Holder{peer->uid, may_change(policy_, *peer)} : AdminQuota::Holder{UINT32_MAX, false};
    if (!quota_.take(holder)) {
      const std::string refusal = admin_error("too many clients on the admin socket; try again", "busy") + '\n';
      [[maybe_unused]] const ssize_t sent = send(fd.get(), refusal.data(), refusal.size(), MSG_NOSIGNAL);
      return true;
    }
    Client& client = clients_.emplace_back();
    client.holder = holder;
    client.caller = {peer ? name_of(*peer) : "a process unknown", holder.may_change};
    client.fd = std::move(fd);
    client.deadline = Clock::now() + idle_timeout_;
    return true;
  }

  // One read or some writes, and all requests that are complete, as long as their answers are taken.
  void serve(Client& client) {
    if (client.out.empty()) {
      receive(client);
    }
    flush(client);
    while (client.out.empty() && !client.broken && answer_next(client)) {
      flush(client);
    }
  }

  void receive(Client& client) {
    std::array<uint8_t, kRequestBytesMax> buffer;
    const ssize_t got = receive_with_file(client.fd.get(), buffer, client.file);
    if (!client.caller.may_change) {
      client.file = UniqueFd();
    }
    if (got > 0) {
      // The deadline is that of the whole line: one who trickles it does not stay longer.
      client.in.append(reinterpret_cast<const char*>(buffer.data()), static_cast<size_t>(got));
    } else if (got == 0) {
      client.at_end = true;
    } else if (errno != EAGAIN && errno != EINTR) {
      client.broken = true;
    }
  }

  // False when no request is complete.
  [[nodiscard]] bool answer_next(Client& client) {
    const size_t end = client.in.find('\n');
    const size_t length = end == std::string::npos ? client.in.size() : end;
    if (length > kRequestBytesMax) {
      client.in.clear();
      client.at_end = true;
      set_answer(client, admin_error(fmt::format("a request is at most {} bytes", kRequestBytesMax), "bad_request"));
      return true;
    }
    if (end == std::string::npos && !(client.at_end && !client.in.empty())) {
      return false;
    }
    std::string line = client.in.substr(0, length);
    client.in.erase(0, end == std::string::npos ? length : end + 1);
    if (line.ends_with('\r')) {
      line.pop_back();
    }
    if (!line.empty()) {
      AdminCaller caller = client.caller;
      caller.file = client.file.get();
      set_answer(client, admin_answer(line, caller, target_));
      client.file = UniqueFd();
    }
    return true;
  }

  static void set_answer(Client& client, std::string answer) {
    client.out = std::move(answer) + '\n';
    client.sent = 0;
    client.deadline = Clock::now() + std::chrono::nanoseconds(kStallTimeout.to_ns());
  }

  void flush(Client& client) {
    while (!client.out.empty()) {
      const ssize_t sent = send(client.fd.get(), client.out.data() + client.sent, client.out.size() - client.sent, MSG_NOSIGNAL);
      if (sent < 0) {
        client.broken = errno != EAGAIN && errno != EINTR;
        return;
      }
      client.sent += static_cast<size_t>(sent);
      client.deadline = Clock::now() + std::chrono::nanoseconds(kStallTimeout.to_ns());
      if (client.sent == client.out.size()) {
        client.out.clear();
        client.deadline = Clock::now() + idle_timeout_;
      }
    }
  }

  std::string path_;
  UniqueFd listener_;
  UniqueFd wake_;
  AdminPolicy policy_;
  AdminTarget target_;
  std::chrono::nanoseconds idle_timeout_;
  AdminQuota quota_;
  std::list<Client> clients_;
  std::thread thread_;  // last: it uses all of the above
};

AdminServer::AdminServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
AdminServer::~AdminServer() = default;

std::unique_ptr<AdminServer> AdminServer::start(const std::string& path, const AdminPolicy& policy, const AdminTarget& target,
                                                std::string& problem, Duration idle_timeout) {
  if (path.empty() || path.size() >= sizeof(sockaddr_un::sun_path)) {
    problem = fmt::format("admin socket {}: a socket's path has 1 to {} characters", path, sizeof(sockaddr_un::sun_path) - 1);
    return nullptr;
  }
  if (!clear_path(path, problem)) {
    return nullptr;
  }
  UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  UniqueFd wake(eventfd(0, EFD_CLOEXEC));
  const sockaddr_un address = unix_address(path);
  // The mode is set on the socket before bind makes the file, so that the file is never wider than 0660; chmod undoes the umask.
  if (!listener.valid() || !wake.valid() || fchmod(listener.get(), 0660) != 0 ||
      bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    problem = errno_sentence(path, "cannot be created");
    return nullptr;
  }
  if (policy.socket_gid && chown(path.c_str(), static_cast<uid_t>(-1), *policy.socket_gid) != 0) {
    problem = errno_sentence(path, "cannot be given to the group of admin.group; the gateway's user has to be a member of it");
    unlink(path.c_str());
    return nullptr;
  }
  if (chmod(path.c_str(), 0660) != 0 || listen(listener.get(), kListenBacklog) != 0) {
    problem = errno_sentence(path, "cannot listen");
    unlink(path.c_str());
    return nullptr;
  }
  auto impl = std::make_unique<Impl>(path, std::move(listener), std::move(wake), policy, target, idle_timeout);
  return std::unique_ptr<AdminServer>(new AdminServer(std::move(impl)));
}

}  // namespace cw::control
