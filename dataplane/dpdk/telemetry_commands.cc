#include "dataplane/dpdk/telemetry_commands.h"

#include <rte_telemetry.h>

#include <array>
#include <chrono>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "telemetry/flat_fields.h"

namespace cw::dataplane {
namespace {

using telemetry::FlatQuery;

// DPDK calls back with no pointer of ours.
struct Source {
  std::mutex mutex;  // DPDK has a thread per client
  const telemetry::Collector* collector = nullptr;
  std::string version;
  std::chrono::steady_clock::time_point started;
};
Source& the_source() {
  static Source source;
  return source;
}

struct Command {
  const char* name;
  const char* help;
  std::vector<std::string> prefixes;
  const char* label;  // that the parameter chooses by; empty: the parameter is a prefix
};

const std::array<Command, 10>& commands() {
  static const std::array<Command, 10> kCommands = {{
      {"/causeway/info", "Version, uptime, readiness. Takes no parameters", {"ready", "draining", "config_last"}, ""},
      {"/causeway/stats", "Sums of all metrics; with PREFIX, each series whose name begins so. Parameters: PREFIX", {}, ""},
      {"/causeway/ports", "Traffic of ports. Parameters: index of a port", {"port_", "roce_packets", "roce_bytes"}, "port"},
      {"/causeway/connections", "Connections and credits", {"connections", "rpcrdma_credit", "listener_"}, ""},
      {"/causeway/backends", "Backends. Parameters: name of a backend", {"backend_"}, "backend"},
      {"/causeway/routes", "Calls by listener, program and backend. Parameters: name of a listener", {"route_"}, "listener"},
      {"/causeway/clients", "[[client]] sections and their budgets. Parameters: name of a section", {"client_"}, "client"},
      {"/causeway/lcores", "Poll cores. Parameters: CPU", {"lcore_"}, "lcore"},
      {"/causeway/pools", "Buffer pools. Parameters: name of a pool", {"mempool_"}, "pool"},
      {"/causeway/rpcs", "Calls answered, and their time by stage", {"rpc_"}, ""},
  }};
  return kCommands;
}

FlatQuery query_of(const Command& command, const std::string& parameter) {
  const bool is_stats = command.prefixes.empty();
  FlatQuery query;
  query.prefixes = command.prefixes;
  query.summed = is_stats && parameter.empty();
  if (!parameter.empty() && is_stats) {
    query.prefixes = {parameter};
  } else if (!parameter.empty() && command.label[0] != '\0') {
    query.label = command.label;
    query.value = parameter;
  }
  return query;
}

int answer(const char* name, const char* parameters, rte_tel_data* out) {
  Source& source = the_source();
  const std::lock_guard lock(source.mutex);
  rte_tel_data_start_dict(out);
  if (source.collector == nullptr) {
    return 0;
  }
  for (const Command& command : commands()) {
    if (std::strcmp(command.name, name) != 0) {
      continue;
    }
    if (&command == commands().data()) {
      rte_tel_data_add_dict_string(out, "version", source.version.c_str());
      rte_tel_data_add_dict_string(out, "instance", source.collector->sources().instance.c_str());
      const auto up = std::chrono::steady_clock::now() - source.started;
      rte_tel_data_add_dict_u64(out, "uptime_seconds",
                                static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(up).count()));
    }
    const FlatQuery query = query_of(command, parameters == nullptr ? "" : parameters);
    for (const telemetry::FlatField& field : flat_fields(source.collector->Collect(), query)) {
      rte_tel_data_add_dict_u64(out, field.name.c_str(), field.value);
    }
  }
  return 0;
}

}  // namespace

TelemetryCommands::TelemetryCommands(const telemetry::Collector& collector, std::string version) {
  Source& source = the_source();
  {
    const std::lock_guard lock(source.mutex);
    source.collector = &collector;
    source.version = std::move(version);
    source.started = std::chrono::steady_clock::now();
  }
  for (const Command& command : commands()) {
    (void)rte_telemetry_register_cmd(command.name, answer, command.help);
  }
}

TelemetryCommands::~TelemetryCommands() {
  Source& source = the_source();
  const std::lock_guard lock(source.mutex);
  source.collector = nullptr;
}

}  // namespace cw::dataplane
