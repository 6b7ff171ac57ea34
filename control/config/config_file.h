// Reads, parses and checks a configuration file: the one call that main() needs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "control/config/config.h"
#include "control/config/parsed_file.h"
#include "control/config/problem.h"

namespace cw::control {

struct LoadedConfig {
  Config config;
  std::vector<Problem> problems;  // in order of their lines
  std::map<std::string, SourcePosition> positions;
  [[nodiscard]] bool ok() const { return !has_errors(problems); }
};

// The file's text, at most 1 MiB, or nothing and one problem. Blocks on the file system.
[[nodiscard]] std::string read_config_text(const std::string& path, std::vector<Problem>& problems);

// A file that cannot be read is one problem. Start-up and reload only; blocks on the file system.
[[nodiscard]] LoadedConfig load_config(const std::string& path);

}  // namespace cw::control
