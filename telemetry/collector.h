// Folds the cores' counters into Prometheus families at scrape time. The hot path pays an add per event; names, labels and sums
// happen here, on the thread that asks.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/time.h"
#include "control/admin/gateway_view.h"
#include "control/admin/server_checks.h"
#include "telemetry/core_snapshot.h"
#include "telemetry/health.h"
#include "telemetry/process_metrics.h"
#include "telemetry/rdma_port_metrics.h"
#include "telemetry/snapshot.h"
#include "telemetry/web_refusals.h"

namespace cw::telemetry {

// Constant labels of causeway_build_info.
struct BuildInfo {
  std::string version;
  std::string revision;
  std::string dpdk;
  std::string compiler;
};

// Facts of the process that no core counts. Written by the control thread, read by scrapes.
struct GatewayFlags {
  std::atomic<bool> listening{false};
  std::atomic<bool> draining{false};
  std::atomic<bool> config_last_reload_successful{true};
  std::atomic<int64_t> config_last_reload_unix_s{0};
  std::atomic<uint64_t> hugepage_bytes{0};
};

struct CoreSource {
  uint32_t lcore = 0;                           // label
  std::string role;                             // label: "poll", "worker", "control"
  Published<CoreSnapshot>* snapshot = nullptr;  // outlives the collector
};

// Labels of causeway_port_info.
struct PortInfo {
  std::string device;  // DPDK's name of it: "net_memif0" or a PCI address; no arguments
  std::string driver;
  std::string mac;
  std::string steering;  // how packets reach their core: "flow", "rss", "software", or "none" where there is one core
};

// Per second; 0: none.
struct RateLimits {
  uint64_t calls = 0;
  uint64_t bytes = 0;
};

struct ListenerLimits {
  std::string name;  // label
  uint32_t connections_max = 0;
  uint32_t credits = 0;  // of each connection
  RateLimits rates{};
  bool needs_link = true;  // of a port; false: clients come through the kernel
  // Of transport = "verbs": whose ports are told of. Empty: those of all that there are.
  std::optional<std::string> rdma_device;
  uint16_t port = 0;
  std::string address;  // of such a listener; empty: every address
};

struct ClientLimits {
  std::string name;                  // label
  uint32_t connections_max = 0;      // 0: none of its own
  uint64_t bytes_in_flight_max = 0;  // 0: none
  RateLimits rates{};
};

// Where calls of a program, or of all others, go that come in by a listener.
struct RouteSource {
  std::string listener;                // label
  std::optional<uint32_t> program;     // label, "other" when absent: all programs without a route of their own
  std::optional<std::string> backend;  // label, "none" when absent: calls are answered with PROG_UNAVAIL
  uint32_t number = 0;                 // gateway::RouteIds
  bool removed = false;                // by a reload: only connections from before go this way
};
// Of all cores, by their newest copies.
[[nodiscard]] uint64_t calls_of(const RouteSource& route, std::span<const CoreSource> cores);

// Bounds of the configuration, for those who watch how near a gateway is to them.
struct Limits {
  uint32_t connections_max = 0;
  uint32_t half_open_max = 0;
  uint32_t calls_in_flight_max = 0;
  std::vector<ListenerLimits> listeners;
  std::vector<ClientLimits> clients;
};

// Something that the configuration names, by its number (gateway::StableIds).
struct NamedSource {
  std::string name;      // label
  bool removed = false;  // by a reload: its counters stay, and its gauges while there is something to tell
};

struct MetricSources {
  BuildInfo build;
  std::string instance;
  std::vector<CoreSource> cores;
  std::vector<PortInfo> ports;         // in order of CoreSnapshot::ports; label `port` is the index
  std::vector<NamedSource> backends;   // label `backend`, in order of CoreSnapshot::backends
  std::vector<NamedSource> listeners;  // label `listener`, in order of GatewayStats::listeners
  std::vector<NamedSource> clients;    // label `client`, in order of GatewayStats::clients
  std::vector<RouteSource> routes;
  std::vector<std::string> pools;  // label `pool`, in order of CoreSnapshot::pools
  Limits limits;
  std::string rdma_folder = kRdmaFolder;          // where the kernel has RDMA devices
  const GatewayFlags* flags = nullptr;            // outlives the collector; null: all false
  const control::ServerChecks* checks = nullptr;  // outlives the collector; null: no servers
  const WebRefusals* web_refusals = nullptr;      // outlives the collector; null: all 0
};

class Collector final : public prometheus::Collectable, public HealthSource {
 public:
  static constexpr Duration kSnapshotTimeout = Duration::ms(200);

  explicit Collector(MetricSources sources);

  // Any thread; callers take turns. Asks all cores at once and waits at most kSnapshotTimeout for all together.
  [[nodiscard]] std::vector<prometheus::MetricFamily> Collect() const override;
  // The same, flat: histograms as _count and _sum. For GatewayView::stats().
  [[nodiscard]] std::vector<control::NamedValue> named_values() const;
  // Any thread; asks the cores as Collect() does.
  [[nodiscard]] Health health() const override;
  // Any thread: the ports of the RDMA devices that verbs listeners use, as the kernel has them now.
  [[nodiscard]] std::vector<RdmaPortState> rdma_ports() const;
  // Any thread; asks the cores as Collect() does, and lets `reader` look at their newest copies, which change after it returns.
  void read(const std::function<void(const MetricSources& sources)>& reader) const;
  // Before others use it: also what the busiest client addresses do, so many at most. The view outlives the collector.
  void tell_addresses(control::GatewayView& view, uint32_t addresses_max) {
    view_ = &view;
    addresses_max_ = addresses_max;
  }
  // Any thread: what a reload has changed of the listeners' and clients' limits. Those of the gateway as a whole stay.
  void set_limits(Limits limits);
  // Any thread: which backends, listeners and [[client]] sections there are since a reload, and have been.
  void set_backends(std::vector<NamedSource> backends);
  void set_listeners(std::vector<NamedSource> listeners);
  void set_clients(std::vector<NamedSource> clients);
  // Any thread: where calls go since a reload. Those that went stay, removed: counters do not vanish.
  void set_routes(std::vector<RouteSource> routes);
  // What does not change: cores, ports, limits of the gateway as a whole. Not for the copies of the cores.
  [[nodiscard]] const MetricSources& sources() const { return sources_; }

 private:
  // Of the listeners that there are now; an empty name stands for all.
  [[nodiscard]] std::vector<std::string> rdma_devices() const;
  // Index of a core that did not answer in time, else the number of cores.
  size_t refresh() const;
  // `silent`: what refresh() said. `ports` were read before the lock: a device that is slow to answer its driver keeps nobody
  // else waiting.
  [[nodiscard]] Health judge(size_t silent, std::span<const RdmaPortState> ports) const;

  MetricSources sources_;
  control::GatewayView* view_ = nullptr;
  uint32_t addresses_max_ = 0;
  mutable std::mutex mutex_;  // one reader at a time on the snapshots
  ProcessMetrics process_;
  mutable std::vector<uint64_t> timeouts_;  // per core: scrapes that it did not answer in time; under mutex_
};

// 'name{label="value",...}' and value per series; a histogram gives its _count and _sum.
[[nodiscard]] std::vector<control::NamedValue> flatten(const std::vector<prometheus::MetricFamily>& families);

// Name, kind, unit and help of each family. For GatewayView::stat_schema().
[[nodiscard]] std::vector<control::StatInfo> describe(const std::vector<prometheus::MetricFamily>& families);

}  // namespace cw::telemetry
