// TOML text to Config. Strict: an unknown key is an error, since a setting that is silently ignored is worse than none.
//
// Pure: text in, values out. Every problem of the file is collected; only a syntax error ends at the first one. What was wrong
// keeps its default, so that the check over sections can still say something about the rest.
#pragma once

#include <string>
#include <string_view>

#include "control/config/config.h"
#include "control/config/parsed_file.h"

namespace cw::control {

struct ParsedConfig : ParsedFile {
  Config config;
};

// `file` is only quoted in problems.
[[nodiscard]] ParsedConfig config_parse(std::string_view text, std::string_view file);

// The commented reference configuration: every key with its meaning, range and default, made from the same table that drives
// parsing. It parses and checks clean; deploy/config/causeway.toml is this text.
[[nodiscard]] std::string config_reference();

}  // namespace cw::control
