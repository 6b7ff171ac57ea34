// Configurations as lists of settings, and what differs between two of them, by the names that an operator wrote.
#pragma once

#include <string>
#include <vector>

#include "control/config/config.h"

namespace cw::control {

// One setting, as it would be written in the file.
struct SettingText {
  std::string key;    // "log.level", "listener[0].credits"
  std::string value;  // empty: not set
};

struct SettingChange {
  // "dataplane.memory_mb", "port[1].mtu" (from 0); "listener[2]": a section that only one of the two has. Its value is its name,
  // or "present".
  std::string key;
  std::string before;  // empty: not set
  std::string after;
  bool live = false;   // a reload applies it; else it waits for a restart
  std::string reason;  // that it waits; empty when live
};

// All of them, in order of the reference.
[[nodiscard]] std::vector<SettingText> settings_of(const Config& config);
// In order of the reference.
[[nodiscard]] std::vector<SettingChange> config_changes(const Config& before, const Config& after);
// The keys of these alone.
[[nodiscard]] std::vector<std::string> changed_keys(const Config& before, const Config& after);
// `before` with those changes to `after` that a reload applies. Listeners, backends and clients are who their names say,
// wherever they stand.
[[nodiscard]] Config with_live_changes(const Config& before, const Config& after);

}  // namespace cw::control
