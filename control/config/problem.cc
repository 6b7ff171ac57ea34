#include "control/config/problem.h"

#include <fmt/core.h>

#include <algorithm>

namespace cw::control {

std::string to_string(const Problem& problem) {
  std::string text = problem.file;
  if (problem.line > 0) {
    text += fmt::format(":{}:{}", problem.line, problem.column);
  }
  text += problem.severity == Severity::kWarning ? ": warning: " : ": ";
  if (!problem.key.empty()) {
    text += problem.key + ": ";
  }
  text += problem.message;
  if (!problem.suggestion.empty()) {
    text += "; " + problem.suggestion;
  }
  return text;
}

bool has_errors(const std::vector<Problem>& problems) {
  return std::ranges::any_of(problems, [](const Problem& problem) { return problem.severity == Severity::kError; });
}

}  // namespace cw::control
