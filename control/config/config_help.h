// The table of keys as rows of text: what the manual page of the file is made from.
#pragma once

#include <string>
#include <vector>

namespace cw::control {

struct KeyHelp {
  std::string name;
  std::string help;
  std::string range;     // empty: any
  std::string fallback;  // the default as it would be written; empty: none
  std::string example;   // empty: none
  bool required = false;
};

struct SectionHelp {
  std::string header;  // "[gateway]", "[[port]]"
  std::string help;
  std::vector<KeyHelp> keys;
};

// In order of the reference.
[[nodiscard]] std::vector<SectionHelp> config_help();

}  // namespace cw::control
