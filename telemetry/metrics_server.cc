#include "telemetry/metrics_server.h"

#include <fmt/core.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/gzip.h"
#include "control/config/kernel_address.h"
#include "control/socket/stream_server.h"
#include "telemetry/exposition.h"
#include "telemetry/http_request.h"
#include "telemetry/log.h"
#include "telemetry/tls.h"
#include "telemetry/web_access.h"

namespace cw::telemetry {
namespace {

using control::SocketAddress;
using control::StreamServer;
using control::StreamSession;
using control::UniqueFd;
using Clock = std::chrono::steady_clock;

constexpr const char* kWrongHost =
    "This gateway is asked on a loopback address, and answers only to that: http://127.0.0.1, http://[::1] or http://localhost, "
    "with its port. A proxy in front of it has to send such a Host field.\n";
constexpr const char* kHttpToTls =
    "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
    "This port speaks TLS: ask with https://\n";
constexpr const char* kPlainText = "text/plain; charset=utf-8";

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

Instant instant_of(Clock::time_point time) {
  return Instant::from_ns(std::chrono::nanoseconds(time.time_since_epoch()).count());
}

IpAddress peer_of(int fd) {
  KernelAddress kernel;
  return getpeername(fd, kernel.get(), &kernel.size) == 0 ? control::read_address(kernel.storage).address : IpAddress();
}

// Why a client whose request was answered this way has not got what it wanted. Nothing: it has.
std::optional<WebRefusal> refusal_of(HttpStatus status, const HttpRequest& request) {
  switch (status) {
    case HttpStatus::kOk:
    case HttpStatus::kNotModified:
    case HttpStatus::kServiceUnavailable:  // what a probe wants to know
      break;
    case HttpStatus::kUnauthorized:
      return request.authorization.empty() ? WebRefusal::kNoPassword : WebRefusal::kWrongPassword;
    case HttpStatus::kTooManyRequests:
      return WebRefusal::kPasswordRate;
    case HttpStatus::kMisdirectedRequest:
      return WebRefusal::kWrongHost;
    case HttpStatus::kNotFound:
      return WebRefusal::kNotFound;
    case HttpStatus::kBadRequest:
    case HttpStatus::kMethodNotAllowed:
    case HttpStatus::kNotAcceptable:
    case HttpStatus::kRequestTooLong:
    case HttpStatus::kVersionNotSupported:
      return WebRefusal::kBadRequest;
  }
  return std::nullopt;
}

// What the clients of one server ask: pages and probes. The server's thread alone uses it.
class Answers {
 public:
  Answers(const MetricsServer::Options& options, const prometheus::Collectable& metrics, const HealthSource& health)
      : options_(options), metrics_(metrics), health_(health) {}

  [[nodiscard]] bool read_web_config(std::string& problem) {
    access_ = WebAccess::open(options_.web_config, problem);
    return access_ != nullptr;
  }
  [[nodiscard]] Duration client_timeout() const { return options_.client_timeout; }

  // How one client that has connected is spoken with. Null: in plain text.
  std::unique_ptr<TlsChannel> channel_to(int fd) {
    if (access_ == nullptr) {
      return nullptr;
    }
    if (const std::string news = access_->refresh(instant_of(Clock::now())); !news.empty()) {
      log_warning("metrics: {}", news);
    }
    return access_->tls() == nullptr ? nullptr : std::make_unique<TlsChannel>(access_->tls(), fd);
  }

  void count(WebRefusal reason) {
    if (options_.refusals != nullptr) {
      options_.refusals->count(reason);
    }
  }

  HttpReply answer_to(const HttpRequest& request, int fd) {
    if (is_misdirected(request)) {
      return http_answer({.status = HttpStatus::kMisdirectedRequest, .content_type = kPlainText, .body = kWrongHost},
                         request.head_only);
    }
    if (access_ != nullptr && !is_probe(request)) {
      switch (access_->judge(request.authorization, peer_of(fd), instant_of(Clock::now()))) {
        case WebAccess::Verdict::kMayAsk:
          break;
        case WebAccess::Verdict::kWrong:
          return password_answer(request, fd);
        case WebAccess::Verdict::kTooFast:
          return http_answer(
              {.status = HttpStatus::kTooManyRequests, .content_type = kPlainText, .body = "ask again in a second\n"},
              request.head_only);
      }
    }
    switch (request.page) {
      case HttpPage::kMetrics:
        return metrics_answer(request);
      case HttpPage::kHealthz:
        return probe_answer(health().live, health().live ? "ok" : health().reason, request.head_only);
      case HttpPage::kReadyz:
        return probe_answer(health().ready, to_text(health()), request.head_only);
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

 private:
  [[nodiscard]] bool has_page() const { return options_.page != nullptr && options_.page->is_on(); }

  // A name that is not the loopback address's can be one that a web site has made point there, so that its visitor's browser
  // reads for it what is meant for this machine. Without the field it is no browser. Probes tell nobody anything.
  [[nodiscard]] bool is_misdirected(const HttpRequest& request) const {
    return control::is_loopback(options_.listen.address) && !is_probe(request) && !request.host.empty() &&
           !http_host_is_loopback(request.host);
  }

  static bool is_probe(const HttpRequest& request) {
    return request.page == HttpPage::kHealthz || request.page == HttpPage::kReadyz;
  }

  // A browser asks without a password first, to learn that one is wanted: that is no news.
  static HttpReply password_answer(const HttpRequest& request, int fd) {
    if (!request.authorization.empty()) {
      log_warning("metrics: {} gave a wrong user name or password", control::to_string(peer_of(fd)));
    }
    return http_answer({.status = HttpStatus::kUnauthorized,
                        .content_type = kPlainText,
                        .body = "a user name and a password are wanted, of basic_auth_users in the web configuration file\n"},
                       request.head_only);
  }

  static HttpReply index_answer(const HttpRequest& request) {
    const std::string text = index_text("off; [metrics] page = true in the configuration turns it on");
    return http_answer({.content_type = kPlainText, .body = text}, request.head_only);
  }

  static HttpReply refusal(HttpStatus status, bool head_only) {
    return http_answer({.status = status, .content_type = kPlainText, .body = "see /metrics\n"}, head_only);
  }

  static HttpReply probe_answer(bool fine, const std::string& text, bool head_only) {
    const HttpStatus status = fine ? HttpStatus::kOk : HttpStatus::kServiceUnavailable;
    return http_answer({.status = status, .content_type = kPlainText, .body = text + '\n'}, head_only);
  }

  const Health& health() {
    const Clock::time_point now = Clock::now();
    if (!health_at_ || now - *health_at_ > std::chrono::nanoseconds(MetricsServer::kCacheTime.to_ns())) {
      cached_health_ = health_.health();
      // Not `now`: cores may have taken kSnapshotTimeout to answer, which is most of kCacheTime.
      health_at_ = Clock::now();
    }
    return cached_health_;
  }

  HttpReply metrics_answer(const HttpRequest& request) {
    const Clock::time_point now = Clock::now();
    if (!cached_at_ || now - *cached_at_ > std::chrono::nanoseconds(MetricsServer::kCacheTime.to_ns())) {
      families_ = metrics_.Collect();
      cached_.fill({});
      cached_at_ = Clock::now();
    }
    Form& form = cached_[request.accepts_openmetrics ? 1 : 0];
    if (form.text.empty()) {
      form.text = request.accepts_openmetrics ? to_openmetrics(families_) : to_prometheus(families_);
    }
    if (request.accepts_gzip && form.packed.empty()) {
      form.packed = gzip_of(form.text);
    }
    return http_answer({.content_type = request.accepts_openmetrics ? kOpenMetrics : kMetricsText,
                        .body = request.accepts_gzip ? form.packed : form.text,
                        .gzip = request.accepts_gzip},
                       request.head_only);
  }

  const MetricsServer::Options& options_;
  const prometheus::Collectable& metrics_;
  const HealthSource& health_;
  std::unique_ptr<WebAccess> access_;  // null: HTTP, and everybody may ask
  // Of one scrape, made when somebody asks for them.
  struct Form {
    std::string text;
    std::string packed;
  };
  std::vector<prometheus::MetricFamily> families_;
  std::array<Form, 2> cached_;  // Prometheus' own, OpenMetrics
  std::optional<Clock::time_point> cached_at_;
  Health cached_health_;
  std::optional<Clock::time_point> health_at_;
};

// One request and its answer.
class HttpSession final : public StreamSession {
 public:
  HttpSession(UniqueFd client, Answers& answers)
      : StreamSession(std::move(client), answers.client_timeout()), answers_(answers), channel_(answers.channel_to(fd())) {}

  void on_ready() override {
    switch (phase_) {
      case Phase::kRequest:
        return take_request();
      case Phase::kAnswer:
        return go_on();
      case Phase::kLinger: {
        std::array<char, 4096> unread;
        const ssize_t got = recv(fd(), unread.data(), unread.size(), 0);
        phase_ = got > 0 || is_for_later(got) ? phase_ : Phase::kDone;
        return;
      }
      case Phase::kDone:
        break;
    }
  }

  [[nodiscard]] bool has_ended() const override { return phase_ == Phase::kDone; }
  [[nodiscard]] bool waits_to_write() const override {
    const TlsChannel::Waits waits = channel_ == nullptr ? TlsChannel::Waits::kNothing : channel_->waits_for();
    return phase_ != Phase::kLinger &&
           (waits == TlsChannel::Waits::kNothing ? is_answering() : waits == TlsChannel::Waits::kToWrite);
  }
  [[nodiscard]] bool is_asking() const { return phase_ == Phase::kRequest; }
  void on_deadline() override {
    const bool shakes_hands = channel_ != nullptr && !channel_->has_shaken_hands();
    switch (phase_) {
      case Phase::kRequest:
        return answers_.count(shakes_hands ? WebRefusal::kHandshakeTimeout : WebRefusal::kRequestTimeout);
      case Phase::kAnswer:
        return answers_.count(WebRefusal::kAnswerTimeout);
      case Phase::kLinger:  // it has its answer
      case Phase::kDone:
        break;
    }
  }
  // It is removed next, so that another one finds room.
  void give_way() {
    if (phase_ == Phase::kRequest || phase_ == Phase::kAnswer) {
      answers_.count(WebRefusal::kEvicted);
    }
  }

 protected:
  [[nodiscard]] ssize_t transmit(std::string_view bytes) override {
    return channel_ == nullptr ? StreamSession::transmit(bytes) : channel_->transmit(bytes);
  }

 private:
  enum class Phase : uint8_t {
    kRequest,  // reading the request
    kAnswer,   // sending
    kLinger,   // all sent; reading to the client's end, since closing on unread data would take the answer away from it
    kDone,
  };

  static bool is_for_later(ssize_t got) { return got < 0 && (errno == EAGAIN || errno == EINTR); }

  // All that has come: of a channel, what it has decrypted makes no socket readable.
  void take_request() {
    std::array<char, 4096> buffer;
    do {
      const ssize_t got = channel_ == nullptr ? recv(fd(), buffer.data(), buffer.size(), 0) : channel_->receive(buffer);
      if (got <= 0) {
        if (!is_for_later(got)) {
          end_without_request();
        }
        return;
      }
      in_.append(buffer.data(), static_cast<size_t>(got));
      if (http_is_complete(in_)) {
        answer_to(http_parse(in_));
      } else if (in_.size() > MetricsServer::kRequestBytesMax) {
        answer_to({HttpStatus::kRequestTooLong});
      }
    } while (channel_ != nullptr && phase_ == Phase::kRequest);
  }

  void end_without_request() {
    phase_ = Phase::kDone;
    if (channel_ == nullptr || channel_->problem().empty()) {
      return;
    }
    log_warning("metrics: no TLS with {}: {}", control::to_string(peer_of(fd())), channel_->problem());
    answers_.count(channel_->has_met_plain_http() ? WebRefusal::kPlainHttp : WebRefusal::kTls);
    if (channel_->has_met_plain_http()) {
      channel_.reset();
      answer(kHttpToTls);
    }
  }

  void answer_to(const HttpRequest& request) {
    HttpReply reply = answers_.answer_to(request, fd());
    if (const std::optional<WebRefusal> reason = refusal_of(reply.status, request)) {
      answers_.count(*reason);
    }
    answer(std::move(reply.bytes));
  }

  void answer(std::string text) {
    set_answer(std::move(text));
    phase_ = Phase::kAnswer;
    go_on();
  }

  void go_on() {
    const Sent sent = send_answer();
    if (sent == Sent::kBroken) {
      phase_ = Phase::kDone;
    } else if (sent == Sent::kAll) {
      if (channel_ != nullptr) {
        channel_->say_end();
      }
      shutdown(fd(), SHUT_WR);
      phase_ = Phase::kLinger;
    }
  }

  Answers& answers_;
  std::unique_ptr<TlsChannel> channel_;
  std::string in_;
  Phase phase_ = Phase::kRequest;
};

std::unique_ptr<StreamSession> admit(UniqueFd client, Answers& answers, StreamServer::Sessions& sessions) {
  if (sessions.size() >= MetricsServer::kClientsMax) {
    // The list is in order of arrival: whoever has taken longest to ask gives way, else the oldest of all.
    const auto asking =
        std::ranges::find_if(sessions, [](const auto& session) { return static_cast<const HttpSession&>(*session).is_asking(); });
    const auto leaving = asking == sessions.end() ? sessions.begin() : asking;
    static_cast<HttpSession&>(**leaving).give_way();
    sessions.erase(leaving);
  }
  return std::make_unique<HttpSession>(std::move(client), answers);
}

}  // namespace

class MetricsServer::Impl {
 public:
  Impl(const Options& options, const prometheus::Collectable& metrics, const HealthSource& health)
      : options_(options), answers_(options_, metrics, health) {}
  [[nodiscard]] bool prepare(std::string& problem) { return options_.web_config.empty() || answers_.read_web_config(problem); }
  [[nodiscard]] bool start(UniqueFd listener) {
    server_ = StreamServer::start(std::move(listener), [this](UniqueFd client, StreamServer::Sessions& sessions) {
      return admit(std::move(client), answers_, sessions);
    });
    return server_ != nullptr;
  }

  [[nodiscard]] SocketAddress address() const { return {options_.listen.address, bound_port(server_->listener())}; }

 private:
  Options options_;
  Answers answers_;
  std::unique_ptr<StreamServer> server_;  // last: it uses all of the above
};

MetricsServer::MetricsServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
MetricsServer::~MetricsServer() = default;
SocketAddress MetricsServer::address() const {
  return impl_->address();
}

std::unique_ptr<MetricsServer> MetricsServer::start(const Options& options, const prometheus::Collectable& metrics,
                                                    const HealthSource& health, std::string& problem) {
  auto impl = std::make_unique<Impl>(options, metrics, health);
  if (!impl->prepare(problem)) {
    problem = fmt::format("metrics.web_config: {}", problem);
    return nullptr;
  }
  KernelAddress kernel = to_kernel(options.listen);
  UniqueFd listener(socket(kernel.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int one = 1;
  if (!listener.valid() || setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
      bind(listener.get(), kernel.get(), kernel.size) != 0 || listen(listener.get(), static_cast<int>(kClientsMax)) != 0 ||
      !impl->start(std::move(listener))) {
    problem = fmt::format("metrics on {}: {}; set metrics.listen to a free address, or to \"off\"", to_string(options.listen),
                          std::strerror(errno));
    return nullptr;
  }
  return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(impl)));
}

}  // namespace cw::telemetry
