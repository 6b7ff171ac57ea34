// One thing wrong with a configuration file, with the place and the next step. All problems of a file are reported together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cw::control {

enum class Severity : uint8_t {
  kError,    // the gateway does not start
  kWarning,  // it starts, and this is printed
};

struct Problem {
  std::string file;
  uint32_t line = 0;       // 1-based; 0 = the file as a whole
  uint32_t column = 0;     // 1-based
  std::string key;         // "listener.credits"; empty for syntax errors
  std::string message;     // what is wrong
  std::string suggestion;  // what to do; may be empty
  Severity severity = Severity::kError;
};

// "causeway.toml:12:3: listener.prot: unknown key; did you mean 'port'?"; warnings carry "warning: " behind the position.
[[nodiscard]] std::string to_string(const Problem& problem);

[[nodiscard]] bool has_errors(const std::vector<Problem>& problems);

}  // namespace cw::control
