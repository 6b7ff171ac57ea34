#include "control/recorder/redact.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace cw::control::recorder {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"secret", "password", "passwd", "passphrase", "token"};
constexpr std::string_view kInstead = "(removed)";

bool is_same_letter(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

// Where a value begins, when the name of a secret ends at `at` with an "=" behind it; else 0.
size_t value_behind_name(std::string_view text, size_t at) {
  if (text[at] != '=' && text[at] != ' ' && text[at] != '\t') {
    return 0;
  }
  const std::string_view before = text.substr(0, at);
  const bool is_name = std::ranges::any_of(kNames, [before](std::string_view name) {
    return before.size() >= name.size() && std::ranges::equal(before.substr(before.size() - name.size()), name, is_same_letter);
  });
  if (!is_name) {
    return 0;
  }
  const auto skip_blanks = [text](size_t from) { return std::min(text.find_first_not_of(" \t", from), text.size()); };
  const size_t equals = skip_blanks(at);
  return equals < text.size() && text[equals] == '=' ? skip_blanks(equals + 1) : 0;
}

size_t end_of_value(std::string_view text, size_t begin) {
  if (begin < text.size() && (text[begin] == '"' || text[begin] == '\'')) {
    const size_t quote = text.find_first_of(std::string{text[begin], '\n'}, begin + 1);
    return quote == std::string_view::npos ? text.size() : quote + (text[quote] == '\n' ? 0 : 1);
  }
  return std::min(text.find_first_of(" \t\n,;\"'\\", begin), text.size());
}

}  // namespace

std::string without_secrets(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t begin = value_behind_name(text, at);
    if (begin > 0) {
      clean += text.substr(at, begin - at);
      clean += kInstead;
      at = end_of_value(text, begin);
    } else {
      clean += text[at++];
    }
  }
  return clean;
}

}  // namespace cw::control::recorder
