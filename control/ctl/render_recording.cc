#include "control/ctl/render_recording.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "control/config/config.h"
#include "control/ctl/render.h"
#include "control/recorder/last_words.h"

namespace cw::control {

using Json = nlohmann::ordered_json;

namespace {

using recorder::Area;
using recorder::Entry;
using recorder::Recording;

// What nests deeper is none of ours, and is left out: to print it takes a stack frame for each of its levels.
constexpr int kNestingMax = 16;

Json json_of(std::string_view text) {
  return Json::parse(
      text, [](int depth, Json::parse_event_t, Json&) { return depth < kNestingMax; }, false);
}

// As recorder::printable(), and lines stay lines.
std::string printable_lines(std::string_view text) {
  std::string clean(text);
  std::ranges::replace_if(
      clean, [](unsigned char c) { return (c < 0x20 && c != '\n') || c == 0x7f; }, '?');
  return clean;
}

std::string level_name(uint32_t tag) {
  return tag <= static_cast<uint32_t>(LogLevel::kError) ? to_string(static_cast<LogLevel>(tag)) : "?";
}

std::string log_text(const Recording& recording) {
  std::string text;
  uint64_t next = 0;
  for (const Entry& line : recording.entries(Area::kLines)) {
    text += next != 0 && line.number > next ? fmt::format("({} lines are missing)\n", line.number - next) : "";
    text += fmt::format("{} {} {}\n", recorder::time_text(line.unix_ms), level_name(line.tag), recorder::printable(line.text));
    next = line.number + 1;
  }
  return text.empty() ? "no line was written\n" : text;
}

// Ages are those at the time that stands in the head.
std::string events_text(const Recording& recording) {
  Json events = Json::array();
  std::istringstream lines{std::string(recording.text(Area::kEvents))};
  for (std::string line; std::getline(lines, line);) {
    Json event = json_of(line);
    if (event.is_object()) {
      events.push_back(std::move(event));
    }
  }
  return render_transport_events(Json{{"events", events}});
}

std::string status_text(const Recording& recording) {
  const Json status = json_of(recording.text(Area::kStatus));
  return status.is_object() ? render_status(status) : std::string(recording.text(Area::kStatus)) + "\n";
}

std::string as_of(const Recording& recording, Area area, const std::string& text) {
  const Entry* entry = recording.newest(area);
  if (entry == nullptr) {
    return "nothing was recorded: the process did not get that far\n";
  }
  return fmt::format("As of {}.{}\n\n{}", recorder::time_text(entry->unix_ms),
                     entry->left_out_bytes == 0 ? "" : fmt::format(" {} more bytes had no room.", entry->left_out_bytes),
                     printable_lines(text));
}

std::string plain(const Recording& recording, Area area) {
  return as_of(recording, area, std::string(recording.text(area)));
}

std::string summary_text(const Recording& recording, bool runs) {
  const recorder::Head head = recorder::head_of(recording);
  std::string text = summary_of(recording, runs) + "\n\n";
  text += fmt::format("version   {}\ninstance  {}\nprocess   {}\nprogram   {}\nconfig    {}\n", head.version, head.instance,
                      head.pid, head.program, head.config_path);
  const std::string trail = recorder::trail_text(recording);
  if (!trail.empty()) {
    text += fmt::format(
        "\nThe instruction that the thread was at, and the functions, innermost first, of which the first note the signal.\n"
        "With the program of this build id, `addr2line -Cfipe causewayd ADDRESS` names function and line, "
        "ADDRESS what stands behind the plus.\n\n{}",
        trail);
  }
  return text;
}

constexpr std::array kParts = {
    RecordingPart{"summary.txt", "which process it was, how it ended, and where", summary_text},
    RecordingPart{"log.txt", "the last lines of its log", [](const Recording& recording, bool) { return log_text(recording); }},
    RecordingPart{"events.txt", "what happened to queue pairs last",
                  [](const Recording& recording, bool) { return as_of(recording, Area::kEvents, events_text(recording)); }},
    RecordingPart{"status.txt", "its state, ten seconds before at most",
                  [](const Recording& recording, bool) { return as_of(recording, Area::kStatus, status_text(recording)); }},
    RecordingPart{"counters.txt", "its metrics that were not zero, a second before at most",
                  [](const Recording& recording, bool) { return plain(recording, Area::kCounters); }},
    RecordingPart{"config.txt", "the settings that it ran with",
                  [](const Recording& recording, bool) { return plain(recording, Area::kConfig); }},
    RecordingPart{"modules.txt", "where program and libraries lay in memory",
                  [](const Recording& recording, bool) { return plain(recording, Area::kModules); }},
};

}  // namespace

std::string summary_of(const Recording& recording, bool runs) {
  const recorder::Head head = recorder::head_of(recording);
  const Entry* begun = recording.newest(Area::kHead);
  return fmt::format("process {} (Causeway {}, begun at {}) {}", head.pid, head.version,
                     begun == nullptr ? "?" : recorder::time_text(begun->unix_ms),
                     runs ? "runs" : recorder::how_it_ended(recording));
}

std::span<const RecordingPart> recording_parts() {
  return kParts;
}

}  // namespace cw::control
