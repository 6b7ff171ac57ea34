// Scenario files: the settings of a load with a name, in TOML (deploy/load). Strict, as the gateway's configuration is: an
// unknown key is a problem with line and suggestion.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/load/load_settings.h"
#include "control/config/problem.h"

namespace cw::load {

struct Scenario {
  LoadSettings settings;
  std::string description;  // the comment that the file begins with
  std::vector<control::Problem> problems;
  [[nodiscard]] bool ok() const { return !control::has_errors(problems); }
};

// `file` is only quoted in problems.
[[nodiscard]] Scenario parse_scenario(std::string_view text, const std::string& file);
// Reads, parses and checks a file.
[[nodiscard]] Scenario load_scenario(const std::string& path);
// The .toml files of a directory, sorted; empty when there is none.
[[nodiscard]] std::vector<std::string> scenario_files(const std::string& directory);
// Every key with its range and meaning, for --help of scenario files.
[[nodiscard]] std::string scenario_reference();

}  // namespace cw::load
