// "Did you mean": the known word nearest to a mistyped one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cw::control {

// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other.
[[nodiscard]] size_t edit_distance(std::string_view a, std::string_view b);

// The nearest of `known` within distance 2 and nearer than half of the word, or nothing. The first of equals wins.
[[nodiscard]] std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace cw::control
