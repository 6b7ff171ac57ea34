#include "control/admin/admin_server.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "control/admin/admin_quota.h"
#include "control/admin/received_file.h"
#include "control/socket/stream_server.h"

namespace cw::control {
namespace {

constexpr int kListenBacklog = 16;

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
  // EAGAIN: somebody listens, and the queue is full.
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

// What the sessions of one server share; its thread alone uses it.
struct Shared {
  AdminPolicy policy;
  AdminTarget target;
  Duration idle_timeout;
  AdminQuota quota;
};

// One client, who has a place of the quota. Its requests are answered in order, one at a time.
class AdminSession final : public StreamSession {
 public:
  AdminSession(UniqueFd client, AdminCaller caller, const AdminQuota::Holder& holder, Shared& shared)
      : StreamSession(std::move(client), shared.idle_timeout), shared_(shared), caller_(std::move(caller)), holder_(holder) {}
  ~AdminSession() override { shared_.quota.give_back(holder_); }

  // One read or some writes, and all requests that are complete, as long as their answers are taken.
  void on_ready() override {
    if (!is_answering()) {
      receive();
    }
    flush();
    while (!is_answering() && !broken_ && answer_next()) {
      flush();
    }
  }

  [[nodiscard]] bool has_ended() const override { return broken_ || (at_end_ && in_.empty() && !is_answering()); }

 private:
  void receive() {
    std::array<uint8_t, AdminServer::kRequestBytesMax> buffer;
    const ssize_t got = receive_with_file(fd(), buffer, file_);
    if (!caller_.may_change) {
      file_ = UniqueFd();
    }
    if (got > 0) {
      // The deadline is that of the whole line: one who trickles it does not stay longer.
      in_.append(reinterpret_cast<const char*>(buffer.data()), static_cast<size_t>(got));
    } else if (got == 0) {
      at_end_ = true;
    } else if (errno != EAGAIN && errno != EINTR) {
      broken_ = true;
    }
  }

  // False when no request is complete.
  [[nodiscard]] bool answer_next() {
    const size_t end = in_.find('\n');
    const size_t length = end == std::string::npos ? in_.size() : end;
    if (length > AdminServer::kRequestBytesMax) {
      // Where the next request begins is not known: the connection ends with this answer.
      in_.clear();
      at_end_ = true;
      answer(admin_error(fmt::format("a request is at most {} bytes", AdminServer::kRequestBytesMax), "bad_request"));
      return true;
    }
    // The last line may lack its end: a client that has shut down its side is not going to send it.
    if (end == std::string::npos && !(at_end_ && !in_.empty())) {
      return false;
    }
    std::string line = in_.substr(0, length);
    in_.erase(0, end == std::string::npos ? length : end + 1);
    if (line.ends_with('\r')) {
      line.pop_back();
    }
    if (!line.empty()) {
      AdminCaller caller = caller_;
      caller.file = file_.get();
      answer(admin_answer(line, caller, shared_.target));
      file_ = UniqueFd();
    }
    return true;
  }

  void answer(std::string text) {
    set_answer(std::move(text) + '\n');
    set_time_limit(AdminServer::kStallTimeout);
  }

  void flush() {
    if (!is_answering()) {
      return;
    }
    switch (send_answer()) {
      case Sent::kAll:
        return set_time_limit(shared_.idle_timeout);
      case Sent::kSome:
        return set_time_limit(AdminServer::kStallTimeout);
      case Sent::kNothing:
        return;
      case Sent::kBroken:
        broken_ = true;
    }
  }

  Shared& shared_;
  AdminCaller caller_;
  AdminQuota::Holder holder_;
  UniqueFd file_;        // came with what is in `in_`
  std::string in_;       // requests not yet answered
  bool at_end_ = false;  // nothing more will be read
  bool broken_ = false;
};

// Null, and told, when there is no place for the client.
std::unique_ptr<StreamSession> admit(UniqueFd client, Shared& shared) {
  const std::optional<AdminPeer> peer = peer_of(client.get());
  // One that the kernel does not name is nobody's, and may look.
  const AdminQuota::Holder holder =
      peer ? AdminQuota::Holder{peer->uid, may_change(shared.policy, *peer)} : AdminQuota::Holder{UINT32_MAX, false};
  if (!shared.quota.take(holder)) {
    const std::string refusal = admin_error("too many clients on the admin socket; try again", "busy") + '\n';
    [[maybe_unused]] const ssize_t sent = send(client.get(), refusal.data(), refusal.size(), MSG_NOSIGNAL);
    return nullptr;
  }
  AdminCaller caller{peer ? name_of(*peer) : "a process unknown", holder.may_change};
  return std::make_unique<AdminSession>(std::move(client), std::move(caller), holder, shared);
}

}  // namespace

class AdminServer::Impl {
 public:
  Impl(std::string path, const AdminPolicy& policy, const AdminTarget& target, Duration idle_timeout)
      : path_(std::move(path)), shared_{policy, target, idle_timeout, {}} {}
  ~Impl() {
    // While it still listens: a gateway that starts meanwhile leaves the name alone, and nobody else's is removed.
    unlink(path_.c_str());
    server_.reset();
  }
  [[nodiscard]] bool start(UniqueFd listener) {
    server_ = StreamServer::start(std::move(listener), [this](UniqueFd client, StreamServer::Sessions& /*sessions*/) {
      return admit(std::move(client), shared_);
    });
    return server_ != nullptr;
  }

 private:
  std::string path_;
  Shared shared_;
  std::unique_ptr<StreamServer> server_;  // last: it uses all of the above
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
  const sockaddr_un address = unix_address(path);
  // The mode is set on the socket before bind makes the file, so that the file is never wider than 0660; chmod undoes the umask.
  if (!listener.valid() || fchmod(listener.get(), 0660) != 0 ||
      bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    problem = errno_sentence(path, "cannot be created");
    return nullptr;
  }
  if (policy.socket_gid && chown(path.c_str(), static_cast<uid_t>(-1), *policy.socket_gid) != 0) {
    problem = errno_sentence(path, "cannot be given to the group of admin.group; the gateway's user has to be a member of it");
    unlink(path.c_str());
    return nullptr;
  }
  // Listening comes last: nobody gets in while the file has another group or mode.
  if (chmod(path.c_str(), 0660) != 0 || listen(listener.get(), kListenBacklog) != 0) {
    problem = errno_sentence(path, "cannot listen");
    unlink(path.c_str());
    return nullptr;
  }
  auto impl = std::make_unique<Impl>(path, policy, target, idle_timeout);
  if (!impl->start(std::move(listener))) {
    problem = errno_sentence(path, "cannot be served");
    return nullptr;
  }
  return std::unique_ptr<AdminServer>(new AdminServer(std::move(impl)));
}

}  // namespace cw::control
