// Every exported number that is the gateway's own, one row each: the place for metric names, help texts and labels. The collector
// walks it; the reference of metrics is made from it. Rows of one name stand together and form one family. What the kernel counts
// is in rdma_port_metrics.cc and process_metrics.cc.
//
// Rules: prefix causeway_, base units (seconds, bytes), counters end in _total, sums over all labels make sense, every label is a
// closed set and every value of it is exported from the start as 0, so that rate() sees the first event. A gauge of which nothing
// is known yet is the exception: it has no sample.
#pragma once

#include <prometheus/metric_type.h>

#include <cstdint>
#include <limits>
#include <span>

#include "telemetry/core_snapshot.h"

namespace cw::telemetry {

// What a row has one series per, besides its own labels.
enum class Scope : uint8_t {
  kGateway,   // all cores together
  kPort,      // all cores together, label port
  kBackend,   // all cores together, label backend
  kPool,      // all cores together, label pool
  kListener,  // all cores together, label listener
  kClient,    // all cores together, label client
  kLcore,     // labels lcore, role
};

// How the cores' values become one.
enum class Fold : uint8_t {
  kSum,
  kMax,  // a state that several cores see: 1 when any does; cores that know nothing have no say
};

// What a core gives for a gauge that it knows nothing of. When all do, the series has no sample. Gauges of Fold::kMax only.
inline constexpr double kNotKnown = std::numeric_limits<double>::quiet_NaN();

// Which element of an array: of the scope (port, backend, pool) and of the row's own indexed label.
struct MetricIndex {
  uint32_t scope = 0;
  uint32_t label = 0;
};

struct FixedLabel {
  const char* name = nullptr;
  const char* value = nullptr;
};

// A label with one series per value. value_of(i) == nullptr: index i has no series.
struct IndexedLabel {
  const char* name = nullptr;
  uint32_t count = 0;
  const char* (*value_of)(uint32_t index) = nullptr;
};

struct MetricRow {
  const char* name;
  const char* help;
  prometheus::MetricType type;  // Counter or Gauge
  Scope scope;
  FixedLabel fixed;      // may be empty
  IndexedLabel indexed;  // may be empty
  double (*get)(const CoreSnapshot& core, MetricIndex at);
  Fold fold = Fold::kSum;
};

[[nodiscard]] std::span<const MetricRow> metric_rows();

// Families that are not a sum of one integer per core; the collector builds them.
struct MetricName {
  const char* name;
  const char* help;
};
inline constexpr MetricName kBuildInfo{"causeway_build_info", "Constant 1; the labels say what is running."};
inline constexpr MetricName kReady{
    "causeway_ready",
    "1 when clients can be served: it listens, does not drain, has a link, and no backend is down (as /readyz)."};
inline constexpr MetricName kDraining{"causeway_draining", "1 while new connections are refused and the others run down."};
inline constexpr MetricName kReloadSuccessful{"causeway_config_last_reload_successful",
                                              "1 when the last configuration read was valid."};
inline constexpr MetricName kReloadTimestamp{"causeway_config_last_reload_timestamp_seconds",
                                             "Time of the last valid configuration, seconds since 1970."};
inline constexpr MetricName kPortInfo{"causeway_port_info",
                                      "Constant 1; the labels say which device a port is, and how packets reach their core."};
inline constexpr MetricName kRdmaPortActive{"causeway_rdma_port_active",
                                            "1 when the port of an RDMA device that a verbs listener uses is ACTIVE."};
inline constexpr MetricName kConnectionsMax{"causeway_connections_max", "Connections that the gateway takes at most."};
inline constexpr MetricName kHalfOpenMax{"causeway_connections_half_open_max",
                                         "Connection attempts that may be under way at once."};
inline constexpr MetricName kCallsMax{"causeway_rpcrdma_calls_in_flight_max",
                                      "Calls received and not yet answered, at most, all connections together."};
inline constexpr MetricName kListenerConnectionsMax{"causeway_listener_connections_max",
                                                    "Connections that the listener takes at most."};
inline constexpr MetricName kListenerCredits{"causeway_listener_credits", "Credits that each connection is granted at most."};
inline constexpr MetricName kListenerCallsPerSecond{"causeway_listener_calls_per_second_max",
                                                    "Calls per second that the listener lets through, if it says."};
inline constexpr MetricName kListenerBytesPerSecond{
    "causeway_listener_bytes_per_second_max",
    "Bytes per second, of calls and replies, that the listener lets through, if it says."};
inline constexpr MetricName kClientCallsPerSecond{
    "causeway_client_calls_per_second_max",
    "Calls per second that a [[client]] section's clients may make together, if it says."};
inline constexpr MetricName kClientBytesPerSecond{
    "causeway_client_bytes_per_second_max",
    "Bytes per second, of calls and replies, that a [[client]] section's clients may have together, if it says."};
inline constexpr MetricName kClientConnectionsMax{
    "causeway_client_connections_max", "Connections that a [[client]] section's clients may have together, if it says."};
inline constexpr MetricName kClientBytesMax{"causeway_client_bytes_in_flight_max",
                                            "Bytes of chunks that a [[client]] section may have in flight, if it says."};
inline constexpr MetricName kRouteCalls{"causeway_route_calls_total",
                                        "Calls by the listener that they came in by, "
                                        "and by program where it has a [[route]] of its own; "
                                        "backend none: answered with PROG_UNAVAIL."};
inline constexpr MetricName kHugepageBytes{"causeway_hugepage_bytes", "Memory held in hugepages."};
inline constexpr MetricName kServerUp{"causeway_backend_server_up",
                                      "1 when the checks of the server say that it is up; no sample before the first."};
inline constexpr MetricName kServerConnections{"causeway_backend_server_connections", "Connections to the server."};
inline constexpr MetricName kServerCalls{"causeway_backend_server_inflight_calls", "Calls that the server has not answered yet."};
inline constexpr MetricName kServerChecks{"causeway_backend_server_checks_total", "Checks of the server that have ended."};
inline constexpr MetricName kServerCheckFailures{"causeway_backend_server_check_failures_total",
                                                 "Checks of the server that failed."};
inline constexpr MetricName kServerCheckDuration{"causeway_backend_server_check_duration_seconds",
                                                 "How long the last check of the server took."};
inline constexpr MetricName kLogLost{"causeway_log_lines_lost_total",
                                     "Log lines that stderr did not take: a full disk, or a reader that is gone or stuck."};
inline constexpr MetricName kWebRefused{
    "causeway_web_refused_total",
    "Connections to the metrics address that did not get what they asked for, each under one reason."};
inline constexpr MetricName kSnapshotTimeouts{
    "causeway_snapshot_timeouts_total",
    "Scrapes for which a core did not hand out its counters in time; its numbers are those of before."};
inline constexpr MetricName kRpcDuration{"causeway_rpc_duration_seconds",
                                         "Time from a call's first packet to its reply being sent, by program and procedure."};
inline constexpr MetricName kRpcStageDuration{
    "causeway_rpc_stage_duration_seconds",
    "Time that calls spent in each stage. "
    "rx: first packet until taken up, only of calls that came in several bursts or waited; rdma_read: pulling data; backend; "
    "reply until acknowledged (rdma_write: with data by chunk; reply_ack: others, every 16th)."};

}  // namespace cw::telemetry
