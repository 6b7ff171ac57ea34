#include "dataplane/health_checks.h"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>
#include <utility>

#include "dataplane/monotonic_clock.h"
#include "gateway/backend_ping.h"
#include "rpcrdma/rpc/rpc_message.h"
#include "rpcrdma/ulb/binding.h"
#include "telemetry/log.h"

namespace cw::dataplane {
namespace {

constexpr uint32_t kBuffers = 256;  // a reply takes one or two, and so many servers there are at most
constexpr uint32_t kBufferBytes = 4096;
constexpr rpcrdma::RecordLimits kLimits{.message_bytes_max = 4096};
constexpr uint32_t kXid = 0x6368'6563;
constexpr Duration kPutOff = Duration::seconds(1);
constexpr int kWaitMs = 500;
constexpr int kUntoldWaitMs = 10;

// Of this process or this host: it says nothing about the server.
bool is_own_lack(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

std::string text_of(int error) {
  return error == 0 ? std::string("it closed the connection") : std::string(std::strerror(error));
}

}  // namespace

CheckPlan check_plan(const control::BackendConfig& backend) {
  return {
      .checked = backend.check != control::CheckKind::kOff,
      .calls = backend.check == control::CheckKind::kRpc,
      .timeout = Duration::ms(backend.check_timeout_ms),
      .health = {.interval = Duration::ms(backend.check_interval_ms), .fall = backend.check_fall, .rise = backend.check_rise}};
}

HealthChecks::HealthChecks(const std::vector<control::BackendConfig>& backends, const gateway::ConfigIds& numbers, uint32_t cores,
                           Tell tell)
    : cores_(cores), tell_(std::move(tell)), pool_(kBuffers, kBufferBytes, kBuffers) {
  become(monotonic_now(), wanted(backends, numbers));
}

std::vector<HealthChecks::Wanted> HealthChecks::wanted(const std::vector<control::BackendConfig>& backends,
                                                       const gateway::ConfigIds& numbers) {
  std::vector<Wanted> list;
  for (const control::BackendConfig& config : backends) {
    const uint32_t backend = numbers.of(config);
    const std::vector<control::SocketAddress> addresses = control::servers_of(config);
    const CheckPlan plan = check_plan(config);
    for (uint32_t i = 0; i < addresses.size(); ++i) {
      Wanted& server = list.emplace_back();
      server.row.backend = backend;
      server.row.server = numbers.of_server(backend, addresses[i]);
      server.row.rank = i;
      server.row.backend_name = config.name;
      server.row.address = control::to_string(addresses[i]);
      server.row.checked = plan.checked;
      server.address = {addresses[i].address, addresses[i].port};
      server.calls = plan.calls;
      server.timeout = plan.timeout;
      server.health = plan.health;
    }
  }
  return list;
}

void HealthChecks::become(Instant now, const std::vector<Wanted>& list) {
  const std::lock_guard lock(mutex_);
  for (Server& server : servers_) {
    server.row.removed = true;
  }
  for (const Wanted& each : list) {
    auto found = std::ranges::find_if(servers_, [&](const Server& server) {
      return server.row.backend == each.row.backend && server.row.server == each.row.server;
    });
    if (found == servers_.end()) {
      Server fresh{.row = each.row, .health = control::ServerHealth({}, Instant::never()), .address = each.address};
      fresh.row.checked = false;
      fresh.told.resize(cores_, control::ServerState::kUnknown);
      servers_.push_back(std::move(fresh));
      found = servers_.end() - 1;
    }
    become(now, each, *found);
  }
  for (Server& server : servers_) {
    if (server.row.removed && server.row.checked) {
      Wanted none;
      none.row.backend = server.row.backend;
      none.row.server = server.row.server;
      none.row.backend_name = server.row.backend_name;
      none.row.address = server.row.address;
      none.row.removed = true;
      become(now, none, server);
    }
  }
  std::ranges::stable_sort(
      servers_, {}, [](const Server& server) { return std::tuple(server.row.removed, server.row.backend, server.row.rank); });
}

// One whose checks begin or end is a server of which nothing is known.
void HealthChecks::become(Instant now, const Wanted& wanted, Server& server) const {
  server.row.removed = wanted.row.removed;
  server.row.rank = wanted.row.rank;
  server.timeout = wanted.timeout;
  if (server.row.checked != wanted.row.checked) {
    server.stream.reset();
    server.health = control::ServerHealth(wanted.health, wanted.row.checked ? now : Instant::never());
    server.row = wanted.row;
  } else if (server.row.checked) {
    server.health.reconfigure(wanted.health);
    if (server.calls != wanted.calls && server.stream != nullptr) {
      server.stream.reset();
      server.health.repeat(now);  // the one under way was of the other kind
    }
  }
  server.calls = wanted.calls;
}

void HealthChecks::take_wanted(Instant now) {
  std::optional<std::vector<Wanted>> list;
  {
    const std::lock_guard lock(mutex_);
    list = std::exchange(reloaded_, std::nullopt);
  }
  if (list) {
    become(now, *list);
  }
}

void HealthChecks::reconfigure(const std::vector<control::BackendConfig>& backends, const gateway::ConfigIds& numbers) {
  const std::lock_guard starting(starting_);
  {
    const std::lock_guard lock(mutex_);
    reloaded_ = wanted(backends, numbers);
  }
  if (thread_.joinable()) {
    (void)eventfd_write(wakeup_, 1);
    return;
  }
  take_wanted(monotonic_now());
  start_thread();
}

HealthChecks::~HealthChecks() {
  stop();
}

void HealthChecks::start() {
  const std::lock_guard lock(starting_);
  start_thread();
}

void HealthChecks::start_thread() {
  if (thread_.joinable() || stop_.load() ||
      std::ranges::none_of(servers_, [](const Server& server) { return server.row.checked; })) {
    return;
  }
  wakeup_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  thread_ = std::thread([this] { run(); });
}

void HealthChecks::stop() {
  const std::lock_guard lock(starting_);
  stop_.store(true);
  if (!thread_.joinable()) {
    return;
  }
  (void)eventfd_write(wakeup_, 1);
  thread_.join();
  close(wakeup_);
}

std::vector<control::ServerCheck> HealthChecks::server_checks() const {
  const std::lock_guard lock(mutex_);
  std::vector<control::ServerCheck> rows;
  std::ranges::transform(servers_, std::back_inserter(rows), &Server::row);
  return rows;
}

void HealthChecks::run() {
  (void)pthread_setname_np(pthread_self(), "cw-checks");
  while (!stop_.load()) {
    const Instant now = monotonic_now();
    take_wanted(now);
    for (Server& server : servers_) {
      if (server.health.next_deadline() <= now) {
        begin(now, server);
      } else if (server.stream != nullptr) {
        advance(now, server);
      }
    }
    tell_cores();
    wait(now);
  }
  for (Server& server : servers_) {
    server.stream.reset();
  }
}

void HealthChecks::begin(Instant now, Server& server) {
  server.health.begin(now);
  server.begun = now;
  server.stream = std::make_unique<BackendStream>(server.address, IpAddress{}, admission_, kLimits, 0, 0, 0,
                                                  BackendStream::Descriptors::kReservedToo);
  if (server.calls) {
    const auto raw = gateway::null_call(kXid, rpcrdma::kNfsProgram, rpcrdma::kNfs4Version);
    Chain message;
    if (!message.append_copy(pool_, raw)) {
      put_off(now, server, ENOMEM);
      return;
    }
    server.stream->queue(std::move(message));
  }
  advance(now, server);
}

void HealthChecks::advance(Instant now, Server& server) {
  BackendStream& stream = *server.stream;
  if (stream.state() == BackendStream::State::kConnecting) {
    pollfd writable{stream.fd(), POLLOUT, 0};
    if (poll(&writable, 1, 0) == 1) {
      stream.finish_connect();
    }
  }
  if (stream.state() == BackendStream::State::kOpen) {
    if (!server.calls) {
      end(now, server, {});
      return;
    }
    stream.flush();
    (void)stream.read();
    Chain reply;
    if (stream.poll_message(reply)) {
      const auto header = rpcrdma::parse_rpc_reply(reply);
      end(now, server, header.ok() && header->xid == kXid ? "" : "its answer is no reply to the NULL call");
      return;
    }
  }
  if (stream.state() == BackendStream::State::kFailed && is_own_lack(stream.failure())) {
    put_off(now, server, stream.failure());
  } else if (stream.state() == BackendStream::State::kFailed) {
    end(now, server, text_of(stream.failure()));
  } else if (now - server.begun >= server.timeout) {
    const bool connected = stream.state() == BackendStream::State::kOpen;
    end(now, server,
        fmt::format("{} within {:.1f} s", connected ? "no reply to a NULL call" : "no answer", server.timeout.to_seconds()));
  }
}

void HealthChecks::put_off(Instant now, Server& server, int lack) {
  server.stream.reset();
  server.health.repeat(now + kPutOff);
  const std::lock_guard lock(mutex_);
  server.row.last_error = fmt::format("not checked, for a lack of this host: {}", text_of(lack));
}

void HealthChecks::end(Instant now, Server& server, std::string error) {
  server.stream.reset();
  const bool changed = server.health.on_result(now, error.empty());
  {
    const std::lock_guard lock(mutex_);
    server.row.state = server.health.state();
    server.row.checks = server.health.checks();
    server.row.failures = server.health.failures();
    server.row.last_ended = monotonic_now();  // a refusal comes in the turn that began the check
    server.row.last_duration = server.row.last_ended - server.begun;
    server.row.last_error = std::move(error);
  }
  if (changed) {
    log_change(server);
  }
}

void HealthChecks::log_change(const Server& server) const {
  const control::ServerCheck& row = server.row;
  using enum telemetry::LogFieldName;
  telemetry::LogFields fields = {{kBackend, row.backend_name}, {kServer, row.address}};
  if (row.state == control::ServerState::kUp) {
    fields.emplace_back(kState, "up");
    telemetry::log_info(fields, "backend {}: server {} is up", row.backend_name, row.address);
    return;
  }
  const auto next = std::ranges::find_if(servers_, [&](const Server& other) {
    return other.row.backend == row.backend && !other.row.removed && other.row.state != control::ServerState::kDown;
  });
  fields.emplace_back(kState, "down");
  fields.emplace_back(kError, row.last_error);
  telemetry::log_warning(fields, "backend {}: server {} is down: {}; {}", row.backend_name, row.address, row.last_error,
                         next == servers_.end() ? std::string("no server of it is up: clients are refused")
                                                : "new connections go to " + next->row.address);
}

void HealthChecks::tell_cores() {
  for (Server& server : servers_) {
    const control::ServerState state = server.health.state();
    for (uint32_t core = 0; core < cores_; ++core) {
      if (server.told[core] != state && tell_(core, {.kind = gateway::CoreMessage::Kind::kServerState,
                                                     .index = server.row.backend,
                                                     .value = static_cast<uint32_t>(state),
                                                     .server = server.row.server})) {
        server.told[core] = state;
      }
    }
  }
}

void HealthChecks::wait(Instant now) {
  std::vector<pollfd> waiters{{wakeup_, POLLIN, 0}};
  int64_t wait_ms = kWaitMs;
  for (const Server& server : servers_) {
    Instant next = server.health.next_deadline();
    if (server.stream != nullptr) {
      next = server.begun + server.timeout;
      const bool wants_write = server.stream->wants_write();
      waiters.push_back({server.stream->fd(), static_cast<short>(wants_write ? POLLIN | POLLOUT : POLLIN), 0});
    }
    if (next != Instant::never()) {
      wait_ms = std::clamp((next - now).to_ns() / 1'000'000 + 1, int64_t{0}, wait_ms);
    }
    const bool all_told =
        std::ranges::all_of(server.told, [&](control::ServerState told) { return told == server.health.state(); });
    wait_ms = all_told ? wait_ms : std::min<int64_t>(wait_ms, kUntoldWaitMs);
  }
  (void)poll(waiters.data(), waiters.size(), static_cast<int>(wait_ms));
  eventfd_t woken = 0;
  (void)eventfd_read(wakeup_, &woken);
}

}  // namespace cw::dataplane
