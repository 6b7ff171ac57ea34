// Writes the table of keys as a commented configuration file.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <type_traits>

#include "control/config/config_keys.h"
#include "control/config/config_parse.h"

namespace cw::control {
namespace {

constexpr size_t kColumns = 110;

std::string comment(const std::string& text) {
  std::string result = "#";
  size_t column = 1;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    if (column + 1 + (end - at) > kColumns) {
      result += "\n#";
      column = 1;
    }
    result += ' ' + text.substr(at, end - at);
    column += 1 + (end - at);
    at = end + 1;
  }
  return result + '\n';
}

std::string value_text(bool value) {
  return value ? "true" : "false";
}
std::string value_text(const std::string& value) {
  return value.empty() ? std::string() : fmt::format("\"{}\"", value);
}
template <typename Number>
requires std::is_unsigned_v<Number> std::string value_text(Number value) {
  return std::to_string(value);
}
std::string value_text(const std::vector<uint32_t>& value) {
  return fmt::format("[{}]", fmt::join(value, ", "));
}
// Lists and addresses without a default are shown by their example.
std::string value_text(const std::vector<std::string>&) {
  return {};
}
std::string value_text(const std::vector<IpPrefix>&) {
  return {};
}
std::string value_text(const std::optional<wire::IpAddress>&) {
  return {};
}
std::string value_text(const std::optional<SocketAddress>& value) {
  return value ? fmt::format("\"{}\"", to_string(*value)) : std::string();
}
template <typename S>
std::string value_text(const Choice<S>& choice) {
  const S defaults{};
  const char* name = choice.names[choice.get(defaults)];
  const bool is_number = *name >= '0' && *name <= '9';
  return is_number ? std::string(name) : fmt::format("\"{}\"", name);
}

template <typename S>
std::string default_text(const Key<S>& key) {
  const S defaults{};
  return std::visit(
      [&defaults](const auto& member) {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(member)>, Choice<S>>) {
          return value_text(member);
        } else {
          return value_text(defaults.*member);
        }
      },
      key.member);
}

template <typename S>
std::string range_text(const Key<S>& key) {
  std::string text;
  if (const auto* choice = std::get_if<Choice<S>>(&key.member)) {
    text = fmt::format("one of {}", fmt::join(choice->names, ", "));
  } else if (key.bounds.max > 0) {
    text = fmt::format("{} to {}", key.bounds.min, key.bounds.max);
  }
  if (key.bounds.multiple > 1) {
    text += fmt::format(", a multiple of {}", key.bounds.multiple);
  }
  if (key.bounds.count_max > 0) {
    text += fmt::format("{}at most {} entries", text.empty() ? "" : ", ", key.bounds.count_max);
  }
  return text;
}

template <typename S>
std::string key_text(const Key<S>& key) {
  const std::string range = range_text(key);
  const std::string fallback = default_text(key);
  const char* presence = key.required ? " Required." : "";
  std::string text = comment(fmt::format("{}{}{}", key.help, range.empty() ? "" : fmt::format(" ({})", range), presence));
  const std::string value = fallback.empty() ? std::string(key.example) : fallback;
  return text + fmt::format("{}{} = {}\n", key.required || key.shown ? "" : "#", key.name, value);
}

}  // namespace

std::string config_reference() {
  std::string text = comment(
      "Causeway configuration: every key with its meaning. A key that is commented out shows its default, or an example"
      " where there is none. Unknown keys are errors. `causewayd --check-config FILE` says what is wrong with a file.");
  for_each_section([&](const auto& section, auto) {
    const bool repeated = section.info.count_max > 0;
    const std::string header = fmt::format(repeated ? fmt::runtime("[[{}]]") : fmt::runtime("[{}]"), section.info.name);
    text += '\n' + comment(section.info.help) + header + '\n';
    for (const auto& key : section.keys) {
      text += key_text(key);
    }
  });
  return text;
}

}  // namespace cw::control
