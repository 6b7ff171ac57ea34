// "1 port", "2 ports": a number and what it counts, for people. Not for the per-packet path.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cw {

// `thing`: one of them, a noun whose plural ends in "s".
[[nodiscard]] inline std::string counted(uint64_t number, std::string_view thing) {
  return std::to_string(number) + ' ' + std::string(thing) + (number == 1 ? "" : "s");
}

}  // namespace cw
