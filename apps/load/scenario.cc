#include "apps/load/scenario.h"

#include <array>
#include <filesystem>

#include "control/config/config_file.h"
#include "control/config/section_parser.h"

namespace cw::load {
namespace {

using control::Choice;
using control::Key;
using control::Section;

constexpr std::array kArrivalNames = {"constant", "poisson"};
constexpr std::array kDirectionNames = {"both", "out", "in"};

constexpr uint32_t kPermilleMax = 1000;
constexpr uint32_t kFaultUsMax = 10'000'000;

// [scenario] and [load] go to the same struct.
const std::array<Key<LoadSettings>, 1> kScenarioKeys = {{
    {.name = "title", .member = &LoadSettings::title, .help = "What --list and the report call it."},
}};

const std::array<Key<LoadSettings>, 14> kLoadKeys = {{
    {.name = "mix",
     .member = &LoadSettings::mix,
     .help = "Kinds of call: kind[/bytes][:weight], ...",
     .example = "\"null:50, echo/512:50\""},
    {.name = "connections",
     .member = &LoadSettings::connections,
     .help = "How many, or a profile over time.",
     .example = "\"16\""},
    {.name = "window", .member = &LoadSettings::window, .help = "Calls in flight per connection.", .bounds = {1, 1024}},
    {.name = "rate",
     .member = &LoadSettings::rate,
     .help = "Calls per second, or a profile over time: an open loop. Without it each connection keeps its window full.",
     .example = "\"1k, 10s:20k\""},
    {.name = "arrivals",
     .member = Choice<LoadSettings>{kArrivalNames, [](const LoadSettings& s) { return static_cast<uint32_t>(s.arrivals); },
                                    [](LoadSettings& s, uint32_t i) { s.arrivals = static_cast<Arrivals>(i); }},
     .help = "How the calls of an open loop come."},
    {.name = "burst",
     .member = &LoadSettings::burst,
     .help = "Calls of an open loop that are due at once.",
     .bounds = {1, 100'000}},
    {.name = "queue", .member = &LoadSettings::queue, .help = "Calls of an open loop that may wait.", .bounds = {1, 16u << 20}},
    {.name = "churn",
     .member = &LoadSettings::churn,
     .help = "Connections per second that are closed and opened again.",
     .example = "\"50\""},
    {.name = "seconds", .member = &LoadSettings::seconds, .help = "To measure.", .bounds = {1, 604'800}},
    {.name = "warmup", .member = &LoadSettings::warmup_seconds, .help = "Seconds before.", .bounds = {0, 3600}},
    {.name = "inline", .member = &LoadSettings::inline_bytes, .help = "Inline size offered.", .bounds = {1024, 65536}},
    {.name = "verify_every",
     .member = &LoadSettings::verify_every,
     .help = "Check the data of each n-th answer in full, 0: of none.",
     .bounds = {0, 1u << 30}},
    {.name = "reconnect", .member = &LoadSettings::reconnect, .help = "Open lost connections again, send their calls again."},
    {.name = "spin", .member = &LoadSettings::spin, .help = "Never sleep when idle."},
}};

const std::array<Key<LinkFaultOptions>, 8> kFaultKeys = {{
    {.name = "loss", .member = &LinkFaultOptions::loss_permille, .help = "Frames lost, permille.", .bounds = {0, kPermilleMax}},
    {.name = "duplicate",
     .member = &LinkFaultOptions::duplicate_permille,
     .help = "Frames doubled, permille.",
     .bounds = {0, kPermilleMax}},
    {.name = "reorder",
     .member = &LinkFaultOptions::reorder_permille,
     .help = "Frames overtaken, permille.",
     .bounds = {0, kPermilleMax}},
    {.name = "reorder_us",
     .member = &LinkFaultOptions::reorder_us,
     .help = "By up to so many microseconds.",
     .bounds = {1, kFaultUsMax}},
    {.name = "corrupt",
     .member = &LinkFaultOptions::corrupt_permille,
     .help = "Frames with a bit flipped, permille.",
     .bounds = {0, kPermilleMax}},
    {.name = "delay_us", .member = &LinkFaultOptions::delay_us, .help = "A longer way for all.", .bounds = {0, kFaultUsMax}},
    {.name = "jitter_us",
     .member = &LinkFaultOptions::jitter_us,
     .help = "On top, at random, up to this.",
     .bounds = {0, kFaultUsMax}},
    {.name = "direction",
     .member =
         Choice<LinkFaultOptions>{kDirectionNames, [](const LinkFaultOptions& o) { return static_cast<uint32_t>(o.direction); },
                                  [](LinkFaultOptions& o, uint32_t i) { o.direction = static_cast<FaultDirection>(i); }},
     .help = "Which frames: out = what we send."},
}};

const std::array<Key<NfsSettings>, 4> kNfsKeys = {{
    {.name = "files", .member = &NfsSettings::files, .help = "Files that the load works on.", .bounds = {1, 4096}},
    {.name = "file_size", .member = &NfsSettings::file_size, .help = "Bytes of each.", .example = "\"16m\""},
    {.name = "sequential", .member = &NfsSettings::sequential, .help = "One block after the other, else anywhere."},
    {.name = "stable", .member = &NfsSettings::stable, .help = "WRITE with FILE_SYNC, else UNSTABLE."},
}};

const Section<LoadSettings> kScenario{{"scenario", "What it is."}, kScenarioKeys};
const Section<LoadSettings> kLoad{{"load", "Calls and connections."}, kLoadKeys};
const Section<LinkFaultOptions> kFaults{{"faults", "Of the link, on our side."}, kFaultKeys};
const Section<NfsSettings> kNfs{{"nfs", "For calls of NFS."}, kNfsKeys};

// The comment lines at the top, as one paragraph.
std::string leading_comment(std::string_view text) {
  std::string out;
  while (!text.empty() && text.front() == '#') {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(1, end - 1);
    while (!line.empty() && line.front() == ' ') {
      line.remove_prefix(1);
    }
    out += out.empty() || line.empty() ? "" : " ";
    out += line;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

template <typename S>
void describe_section(const Section<S>& section, std::string& out) {
  out += fmt::format("[{}]  {}\n", section.info.name, section.info.help);
  for (const Key<S>& key : section.keys) {
    const std::string range = key.bounds.max > 0       ? fmt::format(" ({} to {})", key.bounds.min, key.bounds.max)
                              : key.example != nullptr ? fmt::format(" (for example {})", key.example)
                                                       : std::string();
    out += fmt::format("  {:<14} {}{}\n", key.name, key.help, range);
  }
}

}  // namespace

Scenario parse_scenario(std::string_view text, const std::string& file) {
  Scenario out;
  control::ParsedFile parsed;
  parsed.file = file;
  out.description = leading_comment(text);
  control::parse_toml(text, parsed, [&](control::SectionParser& parser) {
    parser.section(kScenario, out.settings);
    parser.section(kLoad, out.settings);
    parser.section(kFaults, out.settings.faults);
    parser.section(kNfs, out.settings.nfs);
  });
  out.problems = std::move(parsed.problems);
  if (!out.ok()) {
    return out;
  }
  std::vector<SettingProblem> wrong;
  (void)plan_load(out.settings, wrong);
  for (SettingProblem& one : wrong) {
    const control::SourcePosition at = parsed.positions[one.key];
    out.problems.push_back({file, at.line, at.column, one.key, std::move(one.message), {}});
  }
  return out;
}

Scenario load_scenario(const std::string& path) {
  Scenario out;
  const std::string text = control::read_config_text(path, out.problems);
  if (!out.problems.empty()) {
    out.problems.front().suggestion = "name a file, or one of the scenarios that --list shows";
    return out;
  }
  return parse_scenario(text, path);
}

std::vector<std::string> scenario_files(const std::string& directory) {
  std::vector<std::string> out;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (entry.path().extension() == ".toml") {
      out.push_back(entry.path().string());
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string scenario_reference() {
  std::string out;
  describe_section(kScenario, out);
  describe_section(kLoad, out);
  describe_section(kFaults, out);
  describe_section(kNfs, out);
  return out;
}

}  // namespace cw::load
