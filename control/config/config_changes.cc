#include "control/config/config_changes.h"

#include <fmt/core.h>

#include <algorithm>
#include <type_traits>

#include "control/config/config_keys.h"
#include "control/config/setting_text.h"

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

// Listeners, backends and clients are the same ones, in the same order.
bool is_same_cast(const Config& before, const Config& after) {
  const auto same = [](const auto& a, const auto& b, auto member) { return std::ranges::equal(a, b, {}, member, member); };
  return same(before.listeners, after.listeners, &ListenerConfig::name) &&
         same(before.listeners, after.listeners, &ListenerConfig::port) &&
         same(before.backends, after.backends, &BackendConfig::name) && same(before.clients, after.clients, &ClientConfig::name);
}

// Of a cast that changed nothing is live.
constexpr const char* kOtherCast =
    "listeners, backends or clients came, went or changed names or places: what is whose is not clear";

SettingChange change_of(const SectionInfo& section, std::string key, std::string before, std::string after, bool live,
                        bool same_cast) {
  const bool is_live = live && same_cast;
  return {std::move(key), std::move(before), std::move(after), is_live, is_live ? "" : live ? kOtherCast : section.waits};
}

template <typename S>
void compare(const Section<S>& section, const std::string& name, const S& before, const S& after, bool same_cast,
             std::vector<SettingChange>& out) {
  for (const Key<S>& key : section.keys) {
    if (differs(key, before, after)) {
      out.push_back(change_of(section.info, fmt::format("{}.{}", name, key.name), setting_text(key, before),
                              setting_text(key, after), key.live, same_cast));
    }
  }
}

template <typename S>
void take_live(const Section<S>& section, const S& from, S& into) {
  for (const Key<S>& key : section.keys) {
    if (key.live) {
      std::visit(
          [&](const auto& member) {
            if constexpr (std::is_same_v<std::remove_cvref_t<decltype(member)>, Choice<S>>) {
              member.set(into, member.get(from));
            } else {
              into.*member = from.*member;
            }
          },
          key.member);
    }
  }
}

template <typename S>
void compare(const Section<S>& section, const std::string& name, const std::vector<S>& before, const std::vector<S>& after,
             bool same_cast, std::vector<SettingChange>& out) {
  for (size_t i = 0; i < std::max(before.size(), after.size()); ++i) {
    const std::string entry = fmt::format("{}[{}]", name, i);
    if (i < before.size() && i < after.size()) {
      compare(section, entry, before[i], after[i], same_cast, out);
    } else {
      out.push_back(change_of(section.info, entry, i < before.size() ? "present" : "", i < after.size() ? "present" : "",
                              section.info.live, same_cast));
    }
  }
}

template <typename S>
void list(const Section<S>& section, const std::string& name, const S& settings, std::vector<SettingText>& out) {
  for (const Key<S>& key : section.keys) {
    out.push_back({fmt::format("{}.{}", name, key.name), setting_text(key, settings)});
  }
}

template <typename S>
void list(const Section<S>& section, const std::string& name, const std::vector<S>& entries, std::vector<SettingText>& out) {
  for (size_t i = 0; i < entries.size(); ++i) {
    list(section, fmt::format("{}[{}]", name, i), entries[i], out);
  }
}

}  // namespace

std::vector<SettingText> settings_of(const Config& config) {
  std::vector<SettingText> out;
  for_each_section([&](const auto& section, auto member) { list(section, section.info.name, config.*member, out); });
  return out;
}

std::vector<SettingChange> config_changes(const Config& before, const Config& after) {
  std::vector<SettingChange> out;
  const bool same_cast = is_same_cast(before, after);
  for_each_section([&](const auto& section, auto member) {
    const bool applies = section.info.count_max == 0 || same_cast;
    compare(section, section.info.name, before.*member, after.*member, applies, out);
  });
  return out;
}

std::vector<std::string> changed_keys(const Config& before, const Config& after) {
  std::vector<std::string> out;
  for (SettingChange& change : config_changes(before, after)) {
    out.push_back(std::move(change.key));
  }
  return out;
}

Config with_live_changes(const Config& before, const Config& after) {
  Config out = before;
  const bool same_cast = is_same_cast(before, after);
  for_each_section([&](const auto& section, auto member) {
    auto& into = out.*member;
    const auto& from = after.*member;
    if constexpr (requires { into.resize(1); }) {
      if (section.info.live && same_cast) {
        into = from;
      }
      for (size_t i = 0; same_cast && i < std::min(into.size(), from.size()); ++i) {
        take_live(section, from[i], into[i]);
      }
    } else {
      take_live(section, from, into);
    }
  });
  return out;
}

}  // namespace cw::control
