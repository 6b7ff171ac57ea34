#include "dataplane/live_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <span>
#include <string>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "base/ip_address.h"
#include "dataplane/assemble.h"
#include "dataplane/monotonic_clock.h"
#include "gateway/connection_slots.h"
#include "gateway/server_choice.h"
#include "rocev2/wire/mac_address.h"
#include "rpcrdma/ulb/binding.h"

namespace cw::dataplane {
namespace {

std::string address_text(const IpAddress& address) {
  return std::string(to_text(address).data());
}

using ValuesByName = std::unordered_map<std::string, double>;  // names with their labels

ValuesByName by_name(std::vector<control::NamedValue>&& named) {
  ValuesByName values;
  for (control::NamedValue& value : named) {
    values.emplace(std::move(value.name), value.value);
  }
  return values;
}

void add_to(gateway::ClientUse& sum, const gateway::ClientUse& use) {
  sum.calls += use.calls;
  sum.replies += use.replies;
  sum.errors += use.errors;
  sum.call_bytes += use.call_bytes;
  sum.reply_bytes += use.reply_bytes;
}

control::UseStatus use_of(const gateway::ClientUse& use) {
  return {.calls = use.calls,
          .replies = use.replies,
          .errors = use.errors,
          .call_bytes = use.call_bytes,
          .reply_bytes = use.reply_bytes};
}

template <typename T>
std::optional<T> unless_zero(T value) {
  return value == 0 ? std::optional<T>() : value;
}

// Of a [[listener]] or [[client]] section.
template <typename Section>
control::RateStatus rates_max_of(const Section& section) {
  return {.calls_per_second = unless_zero(section.calls_per_second), .bytes_per_second = unless_zero(section.bytes_per_second)};
}

void add_use(const telemetry::MetricSources& sources, const gateway::ConfigIds& numbers,
             std::vector<control::ListenerStatus>& listeners) {
  const std::span<const gateway::ListenerIdentity> known = numbers.listeners.values();
  for (control::ListenerStatus& listener : listeners) {
    const auto number = std::ranges::find(known, listener.name, &gateway::ListenerIdentity::name) - known.begin();
    gateway::ClientUse use;
    for (const telemetry::CoreSource& core : sources.cores) {
      const gateway::ListenerStats& stats = core.snapshot->last().gateway.listeners[static_cast<size_t>(number)];
      listener.calls_postponed += stats.calls_postponed;
      add_to(use, stats.use);
    }
    listener.use = use_of(use);
  }
}

// As the poll cores choose, which hear of a change a moment later.
uint32_t preferred_server(std::span<const control::ServerCheck> checks, uint32_t backend) {
  const auto is_listed = [&](const control::ServerCheck& check) { return check.backend == backend && !check.removed; };
  std::vector<uint32_t> numbers;  // in order of preference, as the checks are
  for (const control::ServerCheck& check : checks) {
    if (is_listed(check)) {
      numbers.push_back(check.server);
    }
  }
  gateway::ServerChoice choice(std::move(numbers));
  for (const control::ServerCheck& check : checks) {
    if (is_listed(check)) {
      choice.set(check.server, check.state);
    }
  }
  return choice.pick();
}

std::vector<control::RouteStatus> routes(const telemetry::MetricSources& sources) {
  std::vector<control::RouteStatus> rows;
  for (const telemetry::RouteSource& source : sources.routes) {
    if (!source.removed) {
      rows.push_back({.listener = source.listener,
                      .program = source.program,
                      .backend = source.backend.value_or(""),
                      .calls = telemetry::calls_of(source, sources.cores)});
    }
  }
  return rows;
}

}  // namespace

LiveView::LiveView(const control::Config& config, const std::string& version, std::vector<GatewayApp*> apps,
                   const telemetry::Collector& collector, std::span<const std::unique_ptr<Port>> ports,
                   const telemetry::GatewayFlags& flags, const control::ServerChecks& checks, const gateway::ConfigIds& numbers)
    : config_(config),
      current_{config, numbers},
      version_(version),
      apps_(std::move(apps)),
      collector_(collector),
      ports_(ports),
      flags_(flags),
      checks_(checks),
      started_(std::chrono::steady_clock::now()) {}

void LiveView::reconfigure(const control::Config& changed, const gateway::ConfigIds& numbers) {
  const std::lock_guard lock(mutex_);
  current_ = {changed, numbers};
}

LiveView::Current LiveView::current() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

std::vector<LiveView::CoreConnection> LiveView::describe() const {
  std::vector<CoreConnection> all;
  const std::vector<uint32_t> cpus = control::poll_cpus(config_);
  for (size_t core = 0; core < apps_.size(); ++core) {
    std::vector<gateway::ConnectionInfo> own;
    const control::LimitsConfig& limits = config_.limits;
    (void)apps_[core]->describe(own, gateway::connection_slots(limits.connections_max, limits.half_open_max, kTransportKinds));
    for (const gateway::ConnectionInfo& info : own) {
      all.push_back({cpus[core], info});
    }
  }
  return all;
}

control::GatewayStatus LiveView::status() {
  control::GatewayStatus status;
  status.version = version_;
  status.instance = config_.gateway.instance;
  status.uptime =
      Duration::ns(std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - started_).count());
  const telemetry::Health health = collector_.health();
  status.ready = health.ready;
  status.reason = health.reason;
  status.warnings = health.warnings;
  status.draining = flags_.draining.load();
  const std::vector<CoreConnection> connections = describe();
  status.connections = static_cast<uint32_t>(connections.size());
  for (size_t i = 0; i < ports_.size(); ++i) {
    const control::PortConfig& config = config_.ports[i];
    control::PortStatus& port = status.ports.emplace_back();
    port.device = config.device;
    port.mac = std::string(to_text(ports_[i]->mac()).data());
    for (const control::IpPrefix& prefix : config.addresses) {
      port.addresses.push_back(fmt::format("{}/{}", address_text(prefix.address), prefix.length_bits));
    }
    port.mtu = config.mtu;
    port.path_mtu = control::path_mtu_for(config.mtu, config_.roce.path_mtu_max);
    port.link_up = ports_[i]->link_up();
    port.link_mbps = ports_[i]->link_mbps();
    port.driver = ports_[i]->driver();
    port.queues = ports_[i]->queues();
    port.steering = to_string(ports_[i]->steering());
  }
  for (const telemetry::RdmaPortState& state : collector_.rdma_ports()) {
    control::RdmaPortStatus& port = status.rdma_ports.emplace_back();
    port.device = state.device;
    port.state = state.state;
    port.active = state.is_active();
    uint32_t number = 0;
    const char* const end = state.port.data() + state.port.size();
    if (std::from_chars(state.port.data(), end, number).ec == std::errc()) {
      port.port = number;
    }
  }
  const auto [current, numbers] = this->current();
  std::array<uint32_t, gateway::kListenerIdsMax> connections_of{};  // of those that are not listed yet
  for (const CoreConnection& connection : connections) {
    ++connections_of[connection.info.listener];
  }
  for (const control::ListenerConfig& config : current.listeners) {
    control::ListenerStatus& listener = status.listeners.emplace_back();
    listener.name = config.name;
    listener.port = config.port;
    listener.transport = to_string(config.transport);
    listener.device = config.device;
    const auto cut_off = std::ranges::find(health.cut_off, config.name, &telemetry::CutOff::listener);
    listener.cut_off = cut_off == health.cut_off.end() ? "" : cut_off->why;
    listener.backend = config.backend;
    listener.credits = config.credits;
    listener.inline_bytes = config.inline_bytes;
    listener.connections_max = control::connections_max_of(config, current.limits);
    listener.rates_max = rates_max_of(config);
    listener.connections = std::exchange(connections_of[numbers.of(config)], 0);
  }
  const std::span<const gateway::ListenerIdentity> known = numbers.listeners.values();
  for (size_t number = 0; number < known.size(); ++number) {
    if (connections_of[number] > 0) {
      status.listeners.push_back(
          {.name = known[number].name, .port = known[number].port, .connections = connections_of[number], .removed = true});
    }
  }
  collector_.read(
      [&ids = numbers, &status](const telemetry::MetricSources& sources) { add_use(sources, ids, status.listeners); });
  const ValuesByName values = by_name(collector_.named_values());
  for (const control::BackendConfig& config : current.backends) {
    control::BackendStatus& backend = status.backends.emplace_back();
    backend.name = config.name;
    backend.type = config.type == control::BackendType::kTcp ? "tcp" : "builtin";
    if (config.address) {
      backend.address = fmt::format("{}:{}", address_text(config.address->address), config.address->port);
    }
    const auto value_of = [&](const char* metric) {
      const auto found = values.find(fmt::format("{}{{backend=\"{}\"}}", metric, config.name));
      return found == values.end() ? std::optional<uint64_t>() : static_cast<uint64_t>(found->second);
    };
    if (const std::optional<uint64_t> up = value_of("causeway_backend_up")) {
      backend.up = *up > 0;
    }
    backend.calls_in_flight = value_of("causeway_backend_inflight_calls").value_or(0);
    backend.reconnects = value_of("causeway_backend_reconnects_total").value_or(0);
    backend.call_timeouts = value_of("causeway_backend_call_timeouts_total").value_or(0);
  }
  status.policy = policy();
  return status;
}

control::PolicyStatus LiveView::policy() {
  control::PolicyStatus policy;
  collector_.read([&](const telemetry::MetricSources& sources) {
    policy.servers = servers(sources);
    policy.routes = routes(sources);
    policy.clients = clients(sources);
  });
  return policy;
}

std::vector<control::ServerStatus> LiveView::servers(const telemetry::MetricSources& sources) const {
  const Instant now = monotonic_now();
  std::vector<control::ServerStatus> rows;
  const std::vector<control::ServerCheck> checks = checks_.server_checks();
  for (const control::ServerCheck& check : checks) {
    control::ServerStatus row;
    for (const telemetry::CoreSource& core : sources.cores) {
      const gateway::BackendStats& stats = core.snapshot->last().gateway.backends[check.backend];
      row.connections += stats.server_links[check.server];
      row.calls_in_flight += stats.server_calls[check.server];
    }
    if (check.removed && row.connections == 0) {
      continue;  // its last connection has ended
    }
    row.backend = check.backend_name;
    row.address = check.address;
    row.role = check.removed ? "removed" : check.rank == 0 ? "primary" : "backup";
    if (check.state != control::ServerState::kUnknown) {
      row.up = check.state == control::ServerState::kUp;
    }
    row.checked = check.checked;
    row.preferred = !check.removed && check.server == preferred_server(checks, check.backend);
    row.checks = check.checks;
    row.check_failures = check.failures;
    if (check.checks > 0) {
      row.check_age = now - check.last_ended;
    }
    row.check_duration = check.last_duration;
    row.check_error = check.last_error;
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<control::ClientStatus> LiveView::clients(const telemetry::MetricSources& sources) const {
  const Current current = this->current();
  const auto row_of = [&](const std::string& name) {
    control::ClientStatus row;
    row.name = name;
    gateway::ClientUse use;
    const uint32_t number = *current.numbers.clients.find(name);
    for (const telemetry::CoreSource& core : sources.cores) {
      const gateway::ClientClassStats& stats = core.snapshot->last().gateway.clients[number];
      row.connections += stats.connections;
      row.bytes_in_flight += stats.bytes_in_flight;
      row.calls_postponed += stats.calls_postponed;
      row.credits_granted += stats.credits_granted;
      row.credits_in_use += stats.credits_in_use;
      row.refused_denied += stats.refused_denied;
      row.refused_limit += stats.refused_limit;
      add_to(use, stats.use);
    }
    row.use = use_of(use);
    return row;
  };
  std::vector<control::ClientStatus> rows;
  for (const control::ClientConfig& section : current.config.clients) {
    control::ClientStatus& row = rows.emplace_back(row_of(section.name));
    for (const control::IpPrefix& prefix : section.prefixes) {
      row.prefixes.push_back(control::to_string(prefix));
    }
    row.allow = section.allow;
    row.connections_max = unless_zero(section.connections_max);
    row.credits_max = unless_zero(section.credits);
    row.bytes_in_flight_max = unless_zero(section.bytes_in_flight_max);
    row.rates_max = rates_max_of(section);
    row.weight = section.weight;
  }
  for (const std::string& name : current.numbers.clients.values()) {
    const bool removed =
        std::ranges::find(current.config.clients, name, &control::ClientConfig::name) == current.config.clients.end();
    if (control::ClientStatus row = row_of(name); removed && row.connections > 0) {
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::vector<control::ConnectionStatus> LiveView::connections() {
  std::vector<control::ConnectionStatus> rows;
  const std::vector<CoreConnection> connections = describe();
  const gateway::ConfigIds numbers = current().numbers;  // behind it: no connection has a number that these have not
  for (const auto& [lcore, info] : connections) {
    control::ConnectionStatus& row = rows.emplace_back();
    row.id = info.id;
    row.listener = numbers.listeners.values()[info.listener].name;
    row.peer_address = address_text(info.peer);
    row.peer_port = info.peer_port;
    row.section = info.client_class ? numbers.clients.values()[*info.client_class] : "";
    row.state = gateway::to_string(info.state);
    row.lcore = lcore;
    row.inline_send_bytes = info.thresholds.send_bytes;
    row.inline_receive_bytes = info.thresholds.receive_bytes;
    row.remote_invalidate = info.thresholds.remote_invalidation;
    row.credits_granted = info.credits_granted;
    row.calls_in_flight = info.calls_in_flight;
    row.reverse_credits_granted = info.reverse_credits_granted;
    row.reverse_calls_in_flight = info.reverse_calls_in_flight;
    row.rpcs = info.calls;
    row.age = info.age;
    row.qp = info.qp;
  }
  return rows;
}

std::vector<control::QueuePairStatus> LiveView::queue_pairs() {
  std::vector<control::QueuePairStatus> rows;
  const std::vector<CoreConnection> connections = describe();
  const gateway::ConfigIds numbers = current().numbers;
  for (const auto& [lcore, info] : connections) {
    if (info.qp.fields().empty()) {
      continue;
    }
    rows.push_back({.connection = info.id,
                    .listener = numbers.listeners.values()[info.listener].name,
                    .peer_address = address_text(info.peer),
                    .lcore = lcore,
                    .info = info.qp});
  }
  return rows;
}

std::vector<control::CoreStatus> LiveView::cores() {
  const ValuesByName values = by_name(collector_.named_values());
  std::vector<control::CoreStatus> rows;
  for (const uint32_t lcore : control::poll_cpus(config_)) {
    const auto value_of = [&](const char* metric, const char* more = "") {
      const auto found = values.find(fmt::format("causeway_lcore_{}{{lcore=\"{}\",role=\"poll\"{}}}", metric, lcore, more));
      return found == values.end() ? 0.0 : found->second;
    };
    const auto count_of = [&](const char* metric, const char* more = "") {
      return static_cast<uint64_t>(value_of(metric, more));
    };
    rows.push_back({.lcore = lcore,
                    .role = "poll",
                    .connections = count_of("connections"),
                    .busy_seconds = value_of("busy_seconds_total"),
                    .idle_seconds = value_of("idle_seconds_total"),
                    .polls_busy = count_of("polls_total", ",result=\"busy\""),
                    .polls_idle = count_of("polls_total", ",result=\"idle\""),
                    .sleeps = count_of("sleeps_total")});
  }
  return rows;
}

// A client's connections may lie on several cores. Where one of them does not answer nothing is said: sums without its part would
// look as if they had begun anew.
std::vector<control::ActivityStatus> LiveView::activity() {
  std::map<std::array<uint8_t, 16>, gateway::ClientInfo> sums;
  for (GatewayApp* app : apps_) {
    std::vector<gateway::ClientInfo> clients;
    if (!app->describe_clients(clients, config_.limits.connections_max)) {
      return {};
    }
    for (const gateway::ClientInfo& client : clients) {
      gateway::ClientInfo& sum = sums[client.address.raw];
      sum.address = client.address;
      sum.section = client.section ? client.section : sum.section;
      sum.connections += client.connections;
      add_to(sum.use, client.use);
      for (size_t row = 0; row < client.procedures.size(); ++row) {
        sum.procedures[row].calls += client.procedures[row].calls;
        sum.procedures[row].ns += client.procedures[row].ns;
      }
    }
  }
  const gateway::ConfigIds numbers = current().numbers;
  std::vector<control::ActivityStatus> rows;
  for (const auto& [raw, sum] : sums) {
    control::ActivityStatus& row = rows.emplace_back();
    row.client = address_text(sum.address);
    row.section = sum.section ? numbers.clients.values()[*sum.section] : "";
    row.connections = sum.connections;
    row.use = use_of(sum.use);
    for (uint32_t i = 0; i < sum.procedures.size(); ++i) {
      if (const gateway::ProcedureUse& use = sum.procedures[i]; use.calls > 0) {
        const rpcrdma::ProcedureName& name = rpcrdma::procedure_name(i);
        row.procedures.push_back({.program = name.program,
                                  .procedure = name.procedure,
                                  .calls = use.calls,
                                  .spent = Duration::ns(static_cast<int64_t>(use.ns))});
      }
    }
  }
  return rows;
}

std::vector<control::TransportEventStatus> LiveView::transport_events(uint32_t each_max) {
  std::vector<control::TransportEventStatus> rows;
  const std::vector<uint32_t> cpus = control::poll_cpus(config_);
  for (size_t core = 0; core < apps_.size(); ++core) {
    std::vector<verbs::TransportEvent> events;
    Instant now;
    (void)apps_[core]->copy_log(each_max, events, now);
    for (const verbs::TransportEvent& event : events) {
      rows.push_back({.ago = now - event.at,
                      .first_ago = now - event.first,
                      .lcore = cpus[core],
                      .local_qpn = event.local_qpn.value(),
                      .peer = event.peer_port == 0 ? "" : control::to_string(control::SocketAddress{event.peer, event.peer_port}),
                      .event = std::string(event.event),
                      .reason = std::string(event.reason),
                      .sequence = event.sequence,
                      .count = event.count});
    }
  }
  std::ranges::stable_sort(rows, std::ranges::greater{}, &control::TransportEventStatus::ago);
  return rows;
}

bool LiveView::start_ping(const std::string& backend, uint32_t program, uint32_t version, std::string& problem) {
  const Current current = this->current();
  const auto found = std::ranges::find(current.config.backends, backend, &control::BackendConfig::name);
  if (found == current.config.backends.end()) {
    problem = fmt::format("there is no backend '{}'; causewayctl backends names those there are", backend);
    return false;
  }
  gateway::PingOrder order;
  order.backend = current.numbers.of(*found);
  order.server = preferred_server(checks_.server_checks(), order.backend);
  order.builtin = found->type == control::BackendType::kBuiltin;
  // Nobody says what a server serves: NFS is the likeliest, and one that serves something else answers so.
  order.program = program != 0 ? program : order.builtin ? rpcrdma::kBenchProgram : rpcrdma::kNfsProgram;
  order.version = version != 0 ? version : order.builtin ? rpcrdma::kBenchVersion : rpcrdma::kNfs4Version;
  order.timeout = Duration::ms(found->connect_timeout_ms);
  if (!apps_.front()->start_ping(order)) {
    problem = "another ping is under way; try again";
    return false;
  }
  return true;
}

control::PingStatus LiveView::ping() {
  gateway::PingResult result;
  if (!apps_.front()->ping_result(result)) {
    return {};
  }
  return {true, is_alive(result.outcome), to_string(result.outcome), result.connect, result.call};
}

std::vector<control::NamedValue> LiveView::stats() {
  return collector_.named_values();
}

std::vector<control::StatInfo> LiveView::stat_schema() {
  return telemetry::describe(collector_.Collect());
}

}  // namespace cw::dataplane
