#include "telemetry/collector.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <utility>

#include "telemetry/address_metrics.h"
#include "telemetry/cut_off.h"
#include "telemetry/log.h"
#include "telemetry/metric_sample.h"
#include "telemetry/metric_table.h"

namespace cw::telemetry {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

ClientMetric histogram_sample(Labels labels, const Histogram& histogram) {
  ClientMetric metric;
  metric.label = std::move(labels);
  metric.histogram.sample_count = histogram.count();
  metric.histogram.sample_sum = histogram.sum_seconds();
  // The serializer adds the bucket without a bound.
  for (const Duration bound : kExportedBounds) {
    metric.histogram.bucket.push_back({histogram.count_up_to(bound), bound.to_seconds()});
  }
  return metric;
}

MetricFamily single(const MetricName& name, double value, Labels labels = {}) {
  return {name.name, name.help, MetricType::Gauge, {sample(std::move(labels), value)}};
}

// One row of the table against all cores.
class RowFolder {
 public:
  RowFolder(const MetricSources& sources, const MetricRow& row, MetricFamily& family)
      : sources_(sources), row_(row), family_(family) {}

  void fold() {
    switch (row_.scope) {
      case Scope::kGateway:
        return add_values({}, 0, all_cores());
      case Scope::kPort:
        return add_ports();
      case Scope::kBackend:
        return add_scoped("backend", sources_.backends, gateway::kBackendIdsMax);
      case Scope::kListener:
        return add_scoped("listener", sources_.listeners, gateway::kListenerIdsMax);
      case Scope::kClient:
        return add_scoped("client", sources_.clients, gateway::kClientIdsMax);
      case Scope::kPool:
        for (uint32_t i = 0; i < sources_.pools.size() && i < kPoolsMax; ++i) {
          add_values({{"pool", sources_.pools[i]}}, i, all_cores());
        }
        return;
      case Scope::kLcore:
        for (const CoreSource& core : sources_.cores) {
          add_values({{"lcore", std::to_string(core.lcore)}, {"role", core.role}}, 0, {&core, 1});
        }
        return;
    }
  }

 private:
  [[nodiscard]] std::span<const CoreSource> all_cores() const { return sources_.cores; }

  void add_scoped(const char* label, const std::vector<NamedSource>& sources, uint32_t sources_max) {
    // Of one that a reload has removed, counters stay, so that sums over all do not fall; gauges go when they are 0.
    for (uint32_t i = 0; i < sources.size() && i < sources_max; ++i) {
      add_values({{label, sources[i].name}}, i, all_cores(), sources[i].removed && row_.type == MetricType::Gauge);
    }
  }

  void add_ports() {
    for (uint32_t i = 0; i < sources_.ports.size() && i < control::kPortsMax; ++i) {
      add_values({{"port", std::to_string(i)}}, i, all_cores());
    }
  }

  // NaN: none of them knows.
  [[nodiscard]] double fold_cores(std::span<const CoreSource> cores, MetricIndex at) const {
    if (row_.fold == Fold::kSum) {
      double total = 0;
      for (const CoreSource& core : cores) {
        total += row_.get(core.snapshot->last(), at);
      }
      return total;
    }
    double highest = kNotKnown;
    for (const CoreSource& core : cores) {
      highest = std::fmax(highest, row_.get(core.snapshot->last(), at));  // the one that is a number
    }
    return highest;
  }

  // `zero_is_nothing`: without a sample of what is 0.
  void add_values(Labels labels, uint32_t scope_index, std::span<const CoreSource> cores, bool zero_is_nothing = false) {
    if (row_.fixed.name != nullptr) {
      labels.push_back({row_.fixed.name, row_.fixed.value});
    }
    const uint32_t count = row_.indexed.name == nullptr ? 1 : row_.indexed.count;
    for (uint32_t i = 0; i < count; ++i) {
      Labels own = labels;
      if (row_.indexed.name != nullptr) {
        const char* value = row_.indexed.value_of(i);
        if (value == nullptr) {
          continue;
        }
        own.push_back({row_.indexed.name, value});
      }
      const double value = fold_cores(cores, {scope_index, i});
      if (!std::isnan(value) && !(zero_is_nothing && value == 0)) {
        family_.metric.push_back(sample(std::move(own), value));
      }
    }
  }

  const MetricSources& sources_;
  const MetricRow& row_;
  MetricFamily& family_;
};

void add_table(const MetricSources& sources, std::vector<MetricFamily>& families) {
  // Rows of one metric are neighbours in the table: Prometheus wants all samples of a family in one piece.
  for (const MetricRow& row : metric_rows()) {
    if (families.empty() || families.back().name != row.name) {
      families.push_back({row.name, row.help, row.type, {}});
    }
    RowFolder(sources, row, families.back()).fold();
  }
}

void add_durations(const MetricSources& sources, std::vector<MetricFamily>& families) {
  const auto merged = [&](auto&& pick) {
    Histogram histogram;
    for (const CoreSource& core : sources.cores) {
      histogram.merge(pick(core.snapshot->last().durations));
    }
    return histogram;
  };
  MetricFamily calls{kRpcDuration.name, kRpcDuration.help, MetricType::Histogram, {}};
  for (uint32_t row = 0; row < rpcrdma::kProcedureRows; ++row) {
    const rpcrdma::ProcedureName& names = rpcrdma::procedure_name(row);
    const Histogram histogram = merged([row](const RpcDurations& d) -> const Histogram& { return d.calls[row]; });
    calls.metric.push_back(histogram_sample({{"program", names.program}, {"procedure", names.procedure}}, histogram));
  }
  families.push_back(std::move(calls));
  MetricFamily stages{kRpcStageDuration.name, kRpcStageDuration.help, MetricType::Histogram, {}};
  for (uint32_t stage = 0; stage < rpcrdma::kStageCount; ++stage) {
    const Histogram histogram = merged([stage](const RpcDurations& d) -> const Histogram& { return d.stages.stages[stage]; });
    stages.metric.push_back(histogram_sample({{"stage", to_string(static_cast<rpcrdma::Stage>(stage))}}, histogram));
  }
  families.push_back(std::move(stages));
}

// Backends that have no server that is up, or refused the last connection. One that nobody has asked for yet is not down.
std::vector<std::string> backends_down(const MetricSources& sources) {
  std::vector<std::string> down;
  for (size_t i = 0; i < sources.backends.size() && i < gateway::kBackendIdsMax; ++i) {
    uint64_t up = 0;
    bool judged = false;
    for (const CoreSource& core : sources.cores) {
      const gateway::BackendStats& backend = core.snapshot->last().gateway.backends[i];
      up += backend.up;
      judged = judged || backend.is_judged();
    }
    if (up == 0 && judged && !sources.backends[i].removed) {
      down.push_back(sources.backends[i].name);
    }
  }
  return down;
}

// Of a backend that is down, it is no news.
std::vector<std::string> servers_down(const MetricSources& sources, const std::vector<std::string>& backends_down) {
  std::vector<std::string> down;
  if (sources.checks == nullptr) {
    return down;
  }
  for (const control::ServerCheck& server : sources.checks->server_checks()) {
    if (server.state == control::ServerState::kDown && !server.removed &&
        std::ranges::find(backends_down, server.backend_name) == backends_down.end()) {
      down.push_back(fmt::format("{} of backend {}", server.address, server.backend_name));
    }
  }
  return down;
}

void add_gateway(const MetricSources& sources, const Health& health, std::vector<MetricFamily>& families) {
  const BuildInfo& build = sources.build;
  families.push_back(single(kBuildInfo, 1,
                            {{"version", build.version},
                             {"revision", build.revision},
                             {"dpdk", build.dpdk},
                             {"compiler", build.compiler},
                             {"gateway", sources.instance}}));
  const GatewayFlags none;
  const GatewayFlags& flags = sources.flags == nullptr ? none : *sources.flags;
  families.push_back(single(kReady, health.ready ? 1 : 0));
  families.push_back(single(kDraining, flags.draining.load() ? 1 : 0));
  families.push_back(single(kReloadSuccessful, flags.config_last_reload_successful.load() ? 1 : 0));
  families.push_back(single(kReloadTimestamp, static_cast<double>(flags.config_last_reload_unix_s.load())));
  families.push_back(single(kHugepageBytes, static_cast<double>(flags.hugepage_bytes.load())));
  families.push_back({kLogLost.name, kLogLost.help, MetricType::Counter, {sample({}, static_cast<double>(log_lost()))}});
}

void add_web(const WebRefusals* refusals, std::vector<MetricFamily>& families) {
  MetricFamily refused{kWebRefused.name, kWebRefused.help, MetricType::Counter, {}};
  for (size_t i = 0; i < kWebRefusalCount; ++i) {
    const auto reason = static_cast<WebRefusal>(i);
    const uint64_t count = refusals == nullptr ? 0 : refusals->of(reason);
    refused.metric.push_back(sample({{"reason", to_string(reason)}}, static_cast<double>(count)));
  }
  families.push_back(std::move(refused));
}

void add_ports(const MetricSources& sources, std::vector<MetricFamily>& families) {
  MetricFamily ports{kPortInfo.name, kPortInfo.help, MetricType::Gauge, {}};
  for (size_t i = 0; i < sources.ports.size(); ++i) {
    const PortInfo& port = sources.ports[i];
    ports.metric.push_back(sample({{"port", std::to_string(i)},
                                   {"device", port.device},
                                   {"driver", port.driver},
                                   {"mac", port.mac},
                                   {"steering", port.steering}},
                                  1));
  }
  families.push_back(std::move(ports));
}

struct RateNames {
  const MetricName& calls;
  const MetricName& bytes;
};

// Of those that have any: 0 is no limit, and has no sample.
template <typename Limited>
void add_rates(const RateNames& names, const char* label, const std::vector<Limited>& limits,
               std::vector<MetricFamily>& families) {
  MetricFamily calls{names.calls.name, names.calls.help, MetricType::Gauge, {}};
  MetricFamily bytes{names.bytes.name, names.bytes.help, MetricType::Gauge, {}};
  for (const Limited& each : limits) {
    if (each.rates.calls > 0) {
      calls.metric.push_back(sample({{label, each.name}}, static_cast<double>(each.rates.calls)));
    }
    if (each.rates.bytes > 0) {
      bytes.metric.push_back(sample({{label, each.name}}, static_cast<double>(each.rates.bytes)));
    }
  }
  families.push_back(std::move(calls));
  families.push_back(std::move(bytes));
}

void add_limits(const Limits& limits, std::vector<MetricFamily>& families) {
  families.push_back(single(kConnectionsMax, limits.connections_max));
  families.push_back(single(kHalfOpenMax, limits.half_open_max));
  families.push_back(single(kCallsMax, limits.calls_in_flight_max));
  MetricFamily connections{kListenerConnectionsMax.name, kListenerConnectionsMax.help, MetricType::Gauge, {}};
  MetricFamily credits{kListenerCredits.name, kListenerCredits.help, MetricType::Gauge, {}};
  for (const ListenerLimits& listener : limits.listeners) {
    connections.metric.push_back(sample({{"listener", listener.name}}, listener.connections_max));
    credits.metric.push_back(sample({{"listener", listener.name}}, listener.credits));
  }
  families.push_back(std::move(connections));
  families.push_back(std::move(credits));
  add_rates({kListenerCallsPerSecond, kListenerBytesPerSecond}, "listener", limits.listeners, families);
  MetricFamily client_connections{kClientConnectionsMax.name, kClientConnectionsMax.help, MetricType::Gauge, {}};
  MetricFamily client_bytes{kClientBytesMax.name, kClientBytesMax.help, MetricType::Gauge, {}};
  // 0 is no limit, and has no sample: on a graph it would be one that lets nobody in.
  for (const ClientLimits& client : limits.clients) {
    if (client.connections_max > 0) {
      client_connections.metric.push_back(sample({{"client", client.name}}, client.connections_max));
    }
    if (client.bytes_in_flight_max > 0) {
      client_bytes.metric.push_back(sample({{"client", client.name}}, static_cast<double>(client.bytes_in_flight_max)));
    }
  }
  families.push_back(std::move(client_connections));
  families.push_back(std::move(client_bytes));
  add_rates({kClientCallsPerSecond, kClientBytesPerSecond}, "client", limits.clients, families);
}

void add_routes(const MetricSources& sources, std::vector<MetricFamily>& families) {
  MetricFamily calls{kRouteCalls.name, kRouteCalls.help, MetricType::Counter, {}};
  for (const RouteSource& route : sources.routes) {
    const std::string program = route.program ? std::to_string(*route.program) : "other";
    calls.metric.push_back(
        sample({{"listener", route.listener}, {"program", program}, {"backend", route.backend.value_or("none")}},
               static_cast<double>(calls_of(route, sources.cores))));
  }
  families.push_back(std::move(calls));
}

void add_servers(const MetricSources& sources, std::vector<MetricFamily>& families) {
  if (sources.checks == nullptr) {
    return;
  }
  MetricFamily up{kServerUp.name, kServerUp.help, MetricType::Gauge, {}};
  MetricFamily connections{kServerConnections.name, kServerConnections.help, MetricType::Gauge, {}};
  MetricFamily calls{kServerCalls.name, kServerCalls.help, MetricType::Gauge, {}};
  MetricFamily checks{kServerChecks.name, kServerChecks.help, MetricType::Counter, {}};
  MetricFamily failures{kServerCheckFailures.name, kServerCheckFailures.help, MetricType::Counter, {}};
  MetricFamily durations{kServerCheckDuration.name, kServerCheckDuration.help, MetricType::Gauge, {}};
  for (const control::ServerCheck& server : sources.checks->server_checks()) {
    const Labels labels = {{"backend", server.backend_name}, {"server", server.address}};
    uint64_t links = 0;
    uint64_t in_flight = 0;
    for (const CoreSource& core : sources.cores) {
      const gateway::BackendStats& backend = core.snapshot->last().gateway.backends[server.backend];
      links += backend.server_links[server.server];
      in_flight += backend.server_calls[server.server];
    }
    if (server.removed && links == 0) {
      continue;
    }
    connections.metric.push_back(sample(labels, static_cast<double>(links)));
    calls.metric.push_back(sample(labels, static_cast<double>(in_flight)));
    if (server.checks > 0) {
      up.metric.push_back(sample(labels, server.state == control::ServerState::kUp ? 1 : 0));
      checks.metric.push_back(sample(labels, static_cast<double>(server.checks)));
      failures.metric.push_back(sample(labels, static_cast<double>(server.failures)));
      durations.metric.push_back(sample(labels, server.last_duration.to_seconds()));
    }
  }
  for (MetricFamily* family : {&up, &connections, &calls, &checks, &failures, &durations}) {
    families.push_back(std::move(*family));
  }
}

}  // namespace

uint64_t calls_of(const RouteSource& route, std::span<const CoreSource> cores) {
  uint64_t calls = 0;
  for (const CoreSource& core : cores) {
    calls += core.snapshot->last().gateway.route_calls[route.number];
  }
  return calls;
}

Collector::Collector(MetricSources sources) : sources_(std::move(sources)), timeouts_(sources_.cores.size(), 0) {}

void Collector::set_limits(Limits limits) {
  const std::lock_guard lock(mutex_);
  sources_.limits.listeners = std::move(limits.listeners);
  sources_.limits.clients = std::move(limits.clients);
}

void Collector::set_backends(std::vector<NamedSource> backends) {
  const std::lock_guard lock(mutex_);
  sources_.backends = std::move(backends);
}

void Collector::set_listeners(std::vector<NamedSource> listeners) {
  const std::lock_guard lock(mutex_);
  sources_.listeners = std::move(listeners);
}

void Collector::set_clients(std::vector<NamedSource> clients) {
  const std::lock_guard lock(mutex_);
  sources_.clients = std::move(clients);
}

void Collector::set_routes(std::vector<RouteSource> routes) {
  const std::lock_guard lock(mutex_);
  sources_.routes = std::move(routes);
}

size_t Collector::refresh() const {
  for (const CoreSource& core : sources_.cores) {
    core.snapshot->request();
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kSnapshotTimeout.to_ns());
  size_t silent = sources_.cores.size();
  for (size_t i = 0; i < sources_.cores.size(); ++i) {
    if (!sources_.cores[i].snapshot->wait(deadline)) {
      ++timeouts_[i];
      silent = i;
    }
  }
  return silent;
}

std::vector<std::string> Collector::rdma_devices() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> devices;
  for (const ListenerLimits& listener : sources_.limits.listeners) {
    if (listener.rdma_device) {
      devices.push_back(*listener.rdma_device);
    }
  }
  return devices;
}

std::vector<RdmaPortState> Collector::rdma_ports() const {
  const std::vector<std::string> devices = rdma_devices();
  return devices.empty() ? std::vector<RdmaPortState>() : rdma_port_states(sources_.rdma_folder, devices);
}

std::vector<MetricFamily> Collector::Collect() const {
  // Before the lock: a device that is slow to answer its driver keeps no probe waiting.
  const std::vector<RdmaPortState> ports = rdma_ports();
  std::vector<MetricFamily> of_rdma_ports = rdma_port_metrics(sources_.rdma_folder, ports);
  std::vector<MetricFamily> of_addresses;
  if (addresses_max_ > 0) {
    of_addresses = address_metrics(view_->activity(), addresses_max_);
  }
  const std::lock_guard lock(mutex_);
  const Health health = judge(refresh(), ports);
  std::vector<MetricFamily> families;
  add_gateway(sources_, health, families);
  add_web(sources_.web_refusals, families);
  add_ports(sources_, families);
  std::ranges::move(of_rdma_ports, std::back_inserter(families));
  add_limits(sources_.limits, families);
  add_table(sources_, families);
  add_servers(sources_, families);
  add_routes(sources_, families);
  add_durations(sources_, families);
  std::ranges::move(of_addresses, std::back_inserter(families));
  MetricFamily late{kSnapshotTimeouts.name, kSnapshotTimeouts.help, MetricType::Counter, {}};
  for (size_t i = 0; i < sources_.cores.size(); ++i) {
    const CoreSource& core = sources_.cores[i];
    late.metric.push_back(
        sample({{"lcore", std::to_string(core.lcore)}, {"role", core.role}}, static_cast<double>(timeouts_[i])));
  }
  families.push_back(std::move(late));
  for (MetricFamily& family : process_.collect()) {
    families.push_back(std::move(family));
  }
  return families;
}

std::vector<control::NamedValue> Collector::named_values() const {
  return flatten(Collect());
}

void Collector::read(const std::function<void(const MetricSources& sources)>& reader) const {
  const std::lock_guard lock(mutex_);
  (void)refresh();
  reader(sources_);
}

Health Collector::health() const {
  const std::vector<RdmaPortState> ports = rdma_ports();
  const std::lock_guard lock(mutex_);
  return judge(refresh(), ports);
}

Health Collector::judge(size_t silent, std::span<const RdmaPortState> ports) const {
  HealthFacts facts;
  if (silent < sources_.cores.size()) {
    facts.silent_lcore = sources_.cores[silent].lcore;
  }
  if (sources_.flags != nullptr) {
    facts.started = sources_.flags->listening.load();
    facts.draining = sources_.flags->draining.load();
    facts.reload_failed = !sources_.flags->config_last_reload_successful.load();
  }
  facts.backends_down = backends_down(sources_);
  facts.servers_down = servers_down(sources_, facts.backends_down);
  facts.has_other_ways =
      std::ranges::any_of(sources_.limits.listeners, [](const ListenerLimits& listener) { return !listener.needs_link; });
  for (size_t i = 0; i < sources_.ports.size(); ++i) {
    const bool is_up =
        std::ranges::any_of(sources_.cores, [i](const CoreSource& core) { return core.snapshot->last().ports[i].link_up != 0; });
    facts.has_other_ways = facts.has_other_ways || is_up;
    if (!is_up) {
      facts.links_down.push_back(sources_.ports[i].device);
    }
  }
  std::vector<VerbsListener> known;  // one core listens for all
  for (const CoreSource& core : sources_.cores) {
    std::ranges::copy_if(core.snapshot->last().verbs_listeners, std::back_inserter(known),
                         [](const VerbsListener& listener) { return listener.port != 0; });
  }
  facts.cut_off = cut_off_listeners(sources_.limits.listeners, known, ports);
  return judge_health(facts);
}

std::vector<control::NamedValue> flatten(const std::vector<MetricFamily>& families) {
  std::vector<control::NamedValue> values;
  for (const MetricFamily& family : families) {
    for (const ClientMetric& metric : family.metric) {
      std::string labels;
      for (const ClientMetric::Label& label : metric.label) {
        labels += fmt::format("{}{}=\"{}\"", labels.empty() ? "" : ",", label.name, label.value);
      }
      labels = labels.empty() ? labels : fmt::format("{{{}}}", labels);
      if (family.type == MetricType::Histogram) {
        values.push_back({family.name + "_count" + labels, static_cast<double>(metric.histogram.sample_count)});
        values.push_back({family.name + "_sum" + labels, metric.histogram.sample_sum});
      } else {
        values.push_back({family.name + labels, metric.counter.value});
      }
    }
  }
  return values;
}

std::vector<control::StatInfo> describe(const std::vector<MetricFamily>& families) {
  std::vector<control::StatInfo> schema;
  for (const MetricFamily& family : families) {
    const char* kind = family.type == MetricType::Counter     ? "counter"
                       : family.type == MetricType::Histogram ? "histogram"
                                                              : "gauge";
    std::string base = family.name;
    if (base.ends_with("_total")) {
      base.erase(base.size() - std::string_view("_total").size());
    }
    // Names end in their unit, by Prometheus' rules.
    const char* unit = base.ends_with("_seconds") ? "seconds" : base.ends_with("_bytes") ? "bytes" : "";
    schema.push_back({family.name, kind, unit, family.help});
  }
  return schema;
}

}  // namespace cw::telemetry
