// The terminal's side of a load: waits for connections, warms up, measures, shows progress, stops, writes what came of it.
#pragma once

#include <atomic>
#include <string>

#include "apps/client/client_wire.h"
#include "apps/load/load_group.h"
#include "apps/load/load_settings.h"
#include "apps/load/report/report.h"

namespace cw::load {

struct OutputSettings {
  std::string json;  // a file, or "-" for stdout; empty: none
  std::string csv;
  std::string html;
  uint32_t interval_ms = 1000;
  bool plain = false;  // lines, though stdout is a terminal
};

struct TerminalSettings {
  LoadSettings load;
  LoadPlan plan;
  OutputSettings output;
  std::string title;
  std::string description;
  std::string server;
  uint16_t service_port = 20049;
  client::Wire wire = client::Wire::kRoce;
  uint32_t threads = 1;
};

// Known before the run, so that it is not in vain: empty, or which file cannot be written, and why.
[[nodiscard]] std::string unwritable_output(const OutputSettings& output);
// Blocks until the load has ended or `interrupted`. Returns the exit status.
[[nodiscard]] int conduct(const TerminalSettings& settings, LoadGroup& load, const std::atomic<bool>& interrupted);

}  // namespace cw::load
