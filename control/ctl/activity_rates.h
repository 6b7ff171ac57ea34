// From what clients have done by two moments, what they did in between: per second, and how long their calls took. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "control/ctl/table.h"

namespace cw::control {

// `before` and `after`: answers to the request "activity", `seconds` apart. Rows of clients, or of sections with `by` "section",
// those first that come first by `sort`: "calls", "bytes", "time" or "errors". At most `last` of them. A client that was not
// there before, or began anew, counts from zero.
[[nodiscard]] nlohmann::ordered_json activity_rates(const nlohmann::ordered_json& before, const nlohmann::ordered_json& after,
                                                    double seconds, std::string_view by, std::string_view sort, uint32_t last);
// As text; `rates` is what activity_rates() made.
[[nodiscard]] std::string render_rates(const nlohmann::ordered_json& rates, Detail detail);

}  // namespace cw::control
