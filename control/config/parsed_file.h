// What is known of a TOML file beside its values: where they stand, and what is wrong with them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "control/config/problem.h"

namespace cw::control {

struct SourcePosition {
  uint32_t line = 0;
  uint32_t column = 0;
};

struct ParsedFile {
  std::vector<Problem> problems;
  std::string file;
  // Where each value stands, by path: "dataplane.rx_buffers", "listener[0].credits", "listener[0]" for the section itself. A key
  // that is absent here has its default.
  std::map<std::string, SourcePosition> positions;
};

}  // namespace cw::control
