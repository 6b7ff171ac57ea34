// Answers of commands that change something as text for people. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "control/ctl/table.h"

namespace cw::control {

// One line.
[[nodiscard]] std::string render_drain(const nlohmann::ordered_json& answer, Detail detail = Detail::kNarrow);
// What a reload changes, as a diff.
[[nodiscard]] std::string render_reload(const nlohmann::ordered_json& answer, Detail detail = Detail::kNarrow);
[[nodiscard]] std::string render_capture(const nlohmann::ordered_json& answer, Detail detail = Detail::kNarrow);
[[nodiscard]] std::string render_settings(const nlohmann::ordered_json& answer, Detail detail = Detail::kNarrow);

}  // namespace cw::control
