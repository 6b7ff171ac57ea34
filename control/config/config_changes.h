// Configurations as lists of settings, and what differs between two of them, by the names that an operator wrote.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "control/config/config.h"

namespace cw::control {

// One setting, as it would be written in the file.
struct SettingText {
  std::string key;    // "log.level", "listener[0].credits"
  std::string value;  // empty: not set
};

struct SettingChange {
  std::string key;     // "dataplane.memory_mb", "port[1].mtu" (from 0); "listener[2]": a section that only one of the two has
  std::string before;  // empty: not set, or of a whole section
  std::string after;
};

// All of them, in order of the reference.
[[nodiscard]] std::vector<SettingText> settings_of(const Config& config);
// In order of the reference.
[[nodiscard]] std::vector<SettingChange> config_changes(const Config& before, const Config& after);
// The keys of these alone.
[[nodiscard]] std::vector<std::string> changed_keys(const Config& before, const Config& after);
// A change of this key takes effect when the file is read again; of others with a restart.
[[nodiscard]] bool takes_effect_at_once(std::string_view key);

}  // namespace cw::control
