// /causeway/... at DPDK's telemetry socket, for collectors that read it anyway (telegraf's dpdk plugin, dpdk-telemetry.py): the
// numbers of /metrics, flat. They are made on a thread of DPDK, by the same copies of the cores' counters that a scrape takes.
//
//   /causeway/info  stats[,PREFIX]  ports[,INDEX]  connections  backends[,NAME]  routes[,LISTENER]  clients[,NAME]
//   lcores[,LCORE]  pools[,NAME]  rpcs
#pragma once

#include <string>

#include "telemetry/collector.h"

namespace cw::dataplane {

class TelemetryCommands {
 public:
  // One at a time. `collector` outlives this. Registers the commands; afterwards they answer with nothing: DPDK has no way to
  // take them back.
  TelemetryCommands(const telemetry::Collector& collector, std::string version);
  ~TelemetryCommands();
  TelemetryCommands(const TelemetryCommands&) = delete;
  TelemetryCommands& operator=(const TelemetryCommands&) = delete;
};

}  // namespace cw::dataplane
