#include "telemetry/metrics_server.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <list>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "control/admin/unique_fd.h"
#include "control/config/kernel_address.h"
#include "telemetry/collector.h"
#include "telemetry/http_request.h"

namespace cw::telemetry {
namespace {

using control::SocketAddress;
using control::UniqueFd;
using Clock = std::chrono::steady_clock;

constexpr auto kTurnMax = std::chrono::milliseconds(200);
constexpr const char* kWrongHost =
    "This gateway is asked on a loopback address, and answers only to that: http://127.0.0.1, http://[::1] or http://localhost, "
    "with its port. A proxy in front of it has to send such a Host field.\n";
constexpr const char* kPlainText = "text/plain; charset=utf-8";
constexpr const char* kMetricsText = "text/plain; version=0.0.4; charset=utf-8";

// A socket address in the kernel's form.
struct KernelAddress {
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_storage);
  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

KernelAddress to_kernel(const SocketAddress& address) {
  KernelAddress kernel;
  kernel.size = control::write_address(address, kernel.storage);
  return kernel;
}

uint16_t bound_port(int fd) {
  KernelAddress kernel;
  if (getsockname(fd, kernel.get(), &kernel.size) != 0) {
    return 0;
  }
  return control::read_address(kernel.storage).port;
}

enum class Phase : uint8_t {
  kRequest,  // reading the request
  kAnswer,   // sending
  kLinger,   // all sent; reading to the client's end, since closing on unread data would take the answer away from it
  kDone,
};

struct Client {
  UniqueFd fd;
  Phase phase = Phase::kRequest;
  std::string in;
  std::string out;
  size_t sent = 0;
  Clock::time_point deadline;
};

}  // namespace

class MetricsServer::Impl {
 public:
  Impl(const Options& options, UniqueFd listener, UniqueFd wake, const prometheus::Collectable& metrics,
       const HealthSource& health)
      : options_(options),
        listener_(std::move(listener)),
        wake_(std::move(wake)),
        metrics_(metrics),
        health_(health),
        thread_([this] { run(); }) {}

  ~Impl() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
    thread_.join();
  }

  [[nodiscard]] SocketAddress address() const { return {options_.listen.address, bound_port(listener_.get())}; }

 private:
  void run() {
    bool accepting = true;
    while (true) {
      std::vector<pollfd> polled = {{wake_.get(), POLLIN, 0}, {listener_.get(), static_cast<short>(accepting ? POLLIN : 0), 0}};
      for (const Client& client : clients_) {
        polled.push_back({client.fd.get(), static_cast<short>(client.phase == Phase::kAnswer ? POLLOUT : POLLIN), 0});
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
      std::erase_if(clients_, [now](const Client& client) { return client.phase == Phase::kDone || now >= client.deadline; });
      // After a failed accept (no descriptors left) the listener rests for one turn, instead of spinning.
      accepting = polled[1].revents == 0 || accept_client();
    }
  }

  [[nodiscard]] bool accept_client() {
    UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) {
      return errno == EAGAIN || errno == ECONNABORTED || errno == EINTR;
    }
    if (clients_.size() >= kClientsMax) {
      // The list is in order of arrival: whoever has taken longest to ask gives way, else the oldest of all.
      const auto asking = std::ranges::find(clients_, Phase::kRequest, &Client::phase);
      clients_.erase(asking == clients_.end() ? clients_.begin() : asking);
    }
    Client& client = clients_.emplace_back();
    client.fd = std::move(fd);
    client.deadline = Clock::now() + std::chrono::nanoseconds(options_.client_timeout.to_ns());
    return true;
  }

  void serve(Client& client) {
    if (client.phase == Phase::kAnswer) {
      return send_answer(client);
    }
    std::array<char, 4096> buffer;
    const ssize_t got = recv(client.fd.get(), buffer.data(), buffer.size(), 0);
    if (got <= 0) {
      client.phase = got < 0 && (errno == EAGAIN || errno == EINTR) ? client.phase : Phase::kDone;
      return;
    }
    if (client.phase == Phase::kLinger) {
      return;
    }
    client.in.append(buffer.data(), static_cast<size_t>(got));
    if (http_is_complete(client.in)) {
      answer(client, http_parse(client.in));
    } else if (client.in.size() > kRequestBytesMax) {
      answer(client, {HttpStatus::kRequestTooLong});
    }
  }

  void answer(Client& client, const HttpRequest& request) {
    client.out = answer_to(request);
    client.phase = Phase::kAnswer;
    send_answer(client);
  }

  [[nodiscard]] bool has_page() const { return options_.page != nullptr && options_.page->is_on(); }

  // A name that is not the loopback address's can be one that a web site has made point there, so that its visitor's browser
  // reads for it what is meant for this machine. Without the field it is no browser. Probes tell nobody anything.
  [[nodiscard]] bool is_misdirected(const HttpRequest& request) const {
    const bool is_probe = request.page == HttpPage::kHealthz || request.page == HttpPage::kReadyz;
    return control::is_loopback(options_.listen.address) && !is_probe && !request.host.empty() &&
           !http_host_is_loopback(request.host);
  }

  std::string answer_to(const HttpRequest& request) {
    if (is_misdirected(request)) {
      return http_answer({.status = HttpStatus::kMisdirectedRequest, .content_type = kPlainText, .body = kWrongHost},
                         request.head_only);
    }
    switch (request.page) {
      case HttpPage::kMetrics:
        return http_answer({.content_type = kMetricsText, .body = metrics_text()}, request.head_only);
      case HttpPage::kHealthz:
        return probe_answer(health().live, health().reason, request.head_only);
      case HttpPage::kReadyz:
        return probe_answer(health().ready, health().reason, request.head_only);
      case HttpPage::kIndex:
        return has_page() ? options_.page->answer(request) : index_answer(request);
      case HttpPage::kAsset:
      case HttpPage::kSnapshot:
      case HttpPage::kHistory:
        return has_page() ? options_.page->answer(request) : refusal(HttpStatus::kNotFound, request.head_only);
      case HttpPage::kNone:
        break;
    }
    return refusal(request.status, request.head_only);
  }

  static std::string index_answer(const HttpRequest& request) {
    const std::string text = index_text("off; [metrics] page = true in the configuration turns it on");
    return http_answer({.content_type = kPlainText, .body = text}, request.head_only);
  }

  static std::string refusal(HttpStatus status, bool head_only) {
    return http_answer({.status = status, .content_type = kPlainText, .body = "see /metrics\n"}, head_only);
  }

  static void send_answer(Client& client) {
    while (client.sent < client.out.size()) {
      const ssize_t sent = send(client.fd.get(), client.out.data() + client.sent, client.out.size() - client.sent, MSG_NOSIGNAL);
      if (sent < 0) {
        client.phase = errno == EAGAIN || errno == EINTR ? client.phase : Phase::kDone;
        return;
      }
      client.sent += static_cast<size_t>(sent);
    }
    shutdown(client.fd.get(), SHUT_WR);
    client.phase = Phase::kLinger;
  }

  static std::string probe_answer(bool fine, const std::string& reason, bool head_only) {
    const HttpStatus status = fine ? HttpStatus::kOk : HttpStatus::kServiceUnavailable;
    const std::string text = fine ? "ok\n" : reason + '\n';
    return http_answer({.status = status, .content_type = kPlainText, .body = text}, head_only);
  }

  const Health& health() {
    const Clock::time_point now = Clock::now();
    if (!health_at_ || now - *health_at_ > std::chrono::nanoseconds(kCacheTime.to_ns())) {
      cached_health_ = health_.health();
      health_at_ = Clock::now();
    }
    return cached_health_;
  }

  const std::string& metrics_text() {
    const Clock::time_point now = Clock::now();
    if (!cached_at_ || now - *cached_at_ > std::chrono::nanoseconds(kCacheTime.to_ns())) {
      cached_text_ = to_text(metrics_.Collect());
      cached_at_ = Clock::now();
    }
    return cached_text_;
  }

  Options options_;
  UniqueFd listener_;
  UniqueFd wake_;
  const prometheus::Collectable& metrics_;
  const HealthSource& health_;
  std::list<Client> clients_;
  std::string cached_text_;
  std::optional<Clock::time_point> cached_at_;
  Health cached_health_;
  std::optional<Clock::time_point> health_at_;
  std::thread thread_;  // last: it uses all of the above
};

MetricsServer::MetricsServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
MetricsServer::~MetricsServer() = default;
SocketAddress MetricsServer::address() const {
  return impl_->address();
}

std::unique_ptr<MetricsServer> MetricsServer::start(const Options& options, const prometheus::Collectable& metrics,
                                                    const HealthSource& health, std::string& problem) {
  KernelAddress kernel = to_kernel(options.listen);
  UniqueFd listener(socket(kernel.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  UniqueFd wake(eventfd(0, EFD_CLOEXEC));
  const int one = 1;
  if (!listener.valid() || !wake.valid() || setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
      bind(listener.get(), kernel.get(), kernel.size) != 0 || listen(listener.get(), static_cast<int>(kClientsMax)) != 0) {
    problem = fmt::format("metrics on {}: {}; set metrics.listen to a free address, or to \"off\"", to_string(options.listen),
                          std::strerror(errno));
    return nullptr;
  }
  auto impl = std::make_unique<Impl>(options, std::move(listener), std::move(wake), metrics, health);
  return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(impl)));
}

}  // namespace cw::telemetry
