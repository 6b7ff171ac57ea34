#include "control/config/config_changes.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>

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

// Entries of these are who their names say, wherever in the file they stand. Others are known by their places.
template <typename S>
constexpr bool kIsByName = requires(const S& entry) {
  entry.name;
};

SettingChange change_of(const SectionInfo& section, std::string key, std::string before, std::string after, bool live) {
  return {std::move(key), std::move(before), std::move(after), live, live ? "" : section.waits};
}

// Where each entry of `after` stands in `before`; nothing: it is new.
template <typename S>
std::vector<std::optional<size_t>> pair_up(const std::vector<S>& before, const std::vector<S>& after) {
  std::vector<std::optional<size_t>> pairs(after.size());
  std::vector<bool> is_taken(before.size());
  for (size_t i = 0; i < after.size(); ++i) {
    for (size_t j = 0; j < before.size() && !pairs[i]; ++j) {
      bool is_same = i == j;
      if constexpr (kIsByName<S>) {
        is_same = before[j].name == after[i].name;
      }
      if (is_same && !is_taken[j]) {
        pairs[i] = j;
        is_taken[j] = true;
      }
    }
  }
  return pairs;
}

// A section as a value: its name.
template <typename S>
std::string whole(const S& entry) {
  if constexpr (requires { entry.name; }) {
    return entry.name.empty() ? "present" : fmt::format("\"{}\"", entry.name);
  } else {
    return "present";
  }
}

template <typename S>
void compare(const Section<S>& section, const std::string& name, const S& before, const S& after,
             std::vector<SettingChange>& out) {
  for (const Key<S>& key : section.keys) {
    if (differs(key, before, after)) {
      out.push_back(change_of(section.info, fmt::format("{}.{}", name, key.name), setting_text(key, before),
                              setting_text(key, after), key.live));
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

// Keys have the places of `after`; those of entries that went, the places of `before`.
template <typename S>
void compare(const Section<S>& section, const std::string& name, const std::vector<S>& before, const std::vector<S>& after,
             std::vector<SettingChange>& out) {
  const std::vector<std::optional<size_t>> pairs = pair_up(before, after);
  const auto add = [&](size_t place, std::string old_value, std::string new_value) {
    out.push_back(change_of(section.info, fmt::format("{}[{}]", name, place), std::move(old_value), std::move(new_value),
                            section.info.live));
  };
  for (size_t i = 0; i < after.size(); ++i) {
    if (pairs[i]) {
      compare(section, fmt::format("{}[{}]", name, i), before[*pairs[i]], after[i], out);
    } else {
      add(i, "", whole(after[i]));
    }
  }
  for (size_t j = 0; j < before.size(); ++j) {
    if (std::ranges::find(pairs, std::optional(j)) == pairs.end()) {
      add(j, whole(before[j]), "");
    }
  }
}

// What of entries a reload leads to.
template <typename S>
std::vector<S> with_live_entries(const Section<S>& section, const std::vector<S>& before, const std::vector<S>& after) {
  const std::vector<std::optional<size_t>> pairs = pair_up(before, after);
  std::vector<S> out = section.info.live ? after : before;
  for (size_t i = 0; i < after.size(); ++i) {
    if (!pairs[i]) {
      continue;
    }
    if (section.info.live) {
      // An entry that stays keeps its values of before, save for the keys that a reload can apply.
      out[i] = before[*pairs[i]];
    }
    take_live(section, after[i], out[section.info.live ? i : *pairs[i]]);
  }
  return out;
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
  for_each_section(
      [&](const auto& section, auto member) { compare(section, section.info.name, before.*member, after.*member, out); });
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
  for_each_section([&](const auto& section, auto member) {
    auto& into = out.*member;
    const auto& from = after.*member;
    if constexpr (requires { into.resize(1); }) {
      into = with_live_entries(section, into, from);
    } else {
      take_live(section, from, into);
    }
  });
  return out;
}

}  // namespace cw::control
