#include "apps/load/scenario_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <vector>

#include "apps/load/scenario.h"

namespace cw::load {
namespace {

constexpr size_t kColumns = 100;

// Lines of at most kColumns, each indented and ended.
std::string wrapped(std::string_view text) {
  constexpr std::string_view kIndent = "    ";
  std::string out;
  while (!text.empty()) {
    size_t end = text.size();
    if (kIndent.size() + end > kColumns) {
      end = text.rfind(' ', kColumns - kIndent.size());
      end = end == std::string_view::npos ? std::min(text.find(' '), text.size()) : end;
    }
    out += fmt::format("{}{}\n", kIndent, text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

// Where scenarios are looked for by name: here, beside an installed program, beside a build directory.
std::vector<std::string> scenario_directories() {
  std::vector<std::string> out = {"deploy/load"};
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) {
    const std::filesystem::path directory = self.parent_path();
    out.push_back((directory / "../share/causeway/load").lexically_normal().string());
    out.push_back((directory / "../../../deploy/load").lexically_normal().string());
  }
  return out;
}

}  // namespace

std::string scenario_path(const std::string& name) {
  const bool is_path = name.find('/') != std::string::npos || name.ends_with(".toml");
  if (is_path) {
    return name;
  }
  for (const std::string& directory : scenario_directories()) {
    std::string path = fmt::format("{}/{}.toml", directory, name);
    if (std::filesystem::exists(path)) {
      return path;
    }
  }
  return name;
}

int list_scenarios() {
  for (const std::string& directory : scenario_directories()) {
    const std::vector<std::string> files = scenario_files(directory);
    if (files.empty()) {
      continue;
    }
    fmt::print("scenarios in {}:\n", directory);
    for (const std::string& file : files) {
      const Scenario scenario = load_scenario(file);
      fmt::print("\n  {}\n", std::filesystem::path(file).stem().string());
      fmt::print("{}", wrapped(scenario.ok() ? scenario.description : control::to_string(scenario.problems.front())));
      fmt::print("    mix {}, connections {}{}\n", scenario.settings.mix, scenario.settings.connections,
                 scenario.settings.rate.empty() ? ", closed loop" : fmt::format(", rate {}", scenario.settings.rate));
    }
    fmt::print("\nRun one with --scenario NAME; options override it. A scenario file may set:\n\n{}", scenario_reference());
    return 0;
  }
  fmt::print(stderr, "causeway-load: no scenarios found; name a file with --scenario FILE\n");
  return 1;
}

}  // namespace cw::load
