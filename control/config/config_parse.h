// TOML text to Config. Strict: an unknown key is an error, since a setting that is silently ignored is worse than none.
//
// Pure: text in, values out. Every problem of the file is collected; only a syntax error ends at the first one. What was wrong
// keeps its default, so that the check over sections can still say something about the rest.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "control/config/config.h"
#include "control/config/problem.h"

namespace cw::control {

struct SourcePosition {
  uint32_t line = 0;
  uint32_t column = 0;
};

struct ParsedConfig {
  Config config;
  std::vector<Problem> problems;
  std::string file;
  // Where each value stands, by path: "dataplane.rx_buffers", "listener[0].credits", "listener[0]" for the section itself. A key
  // that is absent here has its default.
  std::map<std::string, SourcePosition> positions;
};

// `file` is only quoted in problems.
[[nodiscard]] ParsedConfig config_parse(std::string_view text, std::string_view file);

// The commented reference configuration: every key with its meaning, range and default, made from the same table that drives
// parsing. It parses and checks clean; deploy/config/causeway.toml is this text.
[[nodiscard]] std::string config_reference();

}  // namespace cw::control
