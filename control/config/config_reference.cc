// Writes the table of keys as a commented configuration file.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <type_traits>

#include "control/config/config_help.h"
#include "control/config/config_keys.h"
#include "control/config/config_parse.h"
#include "control/config/setting_text.h"

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

template <typename S>
std::string default_text(const Key<S>& key) {
  if (key.required) {
    return {};
  }
  static const S kDefaults{};
  return setting_text(key, kDefaults);
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
std::string key_text(const Key<S>& key, bool commented) {
  const std::string range = range_text(key);
  const std::string fallback = default_text(key);
  const char* presence = key.required ? " Required." : "";
  const char* live = key.live ? " Applied by a reload." : "";
  std::string text = comment(fmt::format("{}{}{}{}", key.help, range.empty() ? "" : fmt::format(" ({})", range), presence, live));
  const std::string value = fallback.empty() ? std::string(key.example) : fallback;
  return text + fmt::format("{}{} = {}\n", !commented && (key.required || key.shown) ? "" : "#", key.name, value);
}

}  // namespace

std::string config_reference() {
  std::string text = comment(
      "Causeway configuration: every key with its meaning. "
      "A key that is commented out shows its default, or an example where there is none. "
      "Unknown keys are errors. `causewayd --check-config FILE` says what is wrong with a file.");
  for_each_section([&](const auto& section, auto) {
    const bool repeated = section.info.count_max > 0;
    const std::string header = fmt::format(repeated ? fmt::runtime("[[{}]]") : fmt::runtime("[{}]"), section.info.name);
    text += '\n' + comment(section.info.help) + (section.info.optional ? "#" : "") + header + '\n';
    for (const auto& key : section.keys) {
      text += key_text(key, section.info.optional);
    }
  });
  return text;
}

std::vector<SectionHelp> config_help() {
  std::vector<SectionHelp> sections;
  for_each_section([&](const auto& section, auto) {
    const bool repeated = section.info.count_max > 0;
    SectionHelp& help = sections.emplace_back();
    help.header = fmt::format(repeated ? fmt::runtime("[[{}]]") : fmt::runtime("[{}]"), section.info.name);
    help.help = section.info.help;
    for (const auto& key : section.keys) {
      help.keys.push_back({.name = key.name,
                           .help = key.help,
                           .range = range_text(key),
                           .fallback = default_text(key),
                           .example = key.example == nullptr ? "" : key.example,
                           .required = key.required});
    }
  });
  return sections;
}

}  // namespace cw::control
