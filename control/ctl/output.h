// What causewayctl prints, and the exit status that goes with it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace cw::control {

// Why there is no answer. Kinds: "usage", "unreachable", "refused", "failed"; stable, for scripts.
struct Refusal {
  std::string kind;
  std::string text;  // one sentence for the user, with what to do next
};

// To stdout. A closed pipe or a full disk is an error that a script has to see: kExitFailed.
[[nodiscard]] int print(const std::string& text);
[[nodiscard]] int print_json(const nlohmann::ordered_json& json, bool one_line);
// To stderr as text, with `hint` on a line of its own; with `json` to stdout as {"error": text, "kind": kind} besides. Returns
// the exit status of the kind.
[[nodiscard]] int print_error(const Refusal& refusal, bool json, const std::string& hint = {});

}  // namespace cw::control
