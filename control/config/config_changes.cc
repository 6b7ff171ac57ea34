#include "control/config/config_changes.h"

#include <fmt/core.h>

#include <algorithm>
#include <type_traits>

#include "control/config/config_keys.h"

namespace cw::control {
namespace {

template <typename S>
bool differs(const Key<S>& key, const S& before, const S& after) {
  return std::visit(
      [&](const auto& member) {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(member)>, Choice<S>>) {
          return member.get(before) != member.get(after);
        } else {
          return before.*member != after.*member;
        }
      },
      key.member);
}

template <typename S>
void compare(const Section<S>& section, const std::string& name, const S& before, const S& after, std::vector<std::string>& out) {
  for (const Key<S>& key : section.keys) {
    if (differs(key, before, after)) {
      out.push_back(fmt::format("{}.{}", name, key.name));
    }
  }
}

template <typename S>
void compare(const Section<S>& section, const std::string& name, const std::vector<S>& before, const std::vector<S>& after,
             std::vector<std::string>& out) {
  for (size_t i = 0; i < std::max(before.size(), after.size()); ++i) {
    const std::string entry = fmt::format("{}[{}]", name, i);
    if (i < before.size() && i < after.size()) {
      compare(section, entry, before[i], after[i], out);
    } else {
      out.push_back(entry);
    }
  }
}

}  // namespace

std::vector<std::string> changed_keys(const Config& before, const Config& after) {
  std::vector<std::string> out;
  for_each_section(
      [&](const auto& section, auto member) { compare(section, section.info.name, before.*member, after.*member, out); });
  return out;
}

}  // namespace cw::control
