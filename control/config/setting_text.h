// The value of a setting as it would be written in the file.
#pragma once

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "control/config/key.h"

namespace cw::control {

inline std::string toml_text(bool value) {
  return value ? "true" : "false";
}
template <typename Number>
requires std::is_unsigned_v<Number> std::string toml_text(Number value) {
  return std::to_string(value);
}
inline std::string toml_text(const std::string& value) {
  return value.empty() ? std::string() : fmt::format("\"{}\"", value);
}
inline std::string toml_text(const IpPrefix& value) {
  return fmt::format("\"{}\"", to_string(value));
}
inline std::string toml_text(const SocketAddress& value) {
  return fmt::format("\"{}\"", to_string(value));
}
template <typename T>
std::string toml_text(const std::optional<T>& value) {
  return value ? fmt::format("\"{}\"", to_string(*value)) : std::string();
}
template <typename T>
std::string toml_text(const std::vector<T>& values) {
  std::vector<std::string> texts;
  texts.reserve(values.size());
  for (const T& value : values) {
    texts.push_back(toml_text(value));
  }
  return texts.empty() ? std::string() : fmt::format("[{}]", fmt::join(texts, ", "));
}

// Empty: nothing is set.
template <typename S>
[[nodiscard]] std::string setting_text(const Key<S>& key, const S& settings) {
  return std::visit(
      [&settings](const auto& member) {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(member)>, Choice<S>>) {
          const char* name = member.names[member.get(settings)];
          const bool is_number = *name >= '0' && *name <= '9';
          return is_number ? std::string(name) : fmt::format("\"{}\"", name);
        } else {
          return toml_text(settings.*member);
        }
      },
      key.member);
}

}  // namespace cw::control
