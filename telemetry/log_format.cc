#include "telemetry/log_format.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "control/recorder/last_words.h"

namespace cw::telemetry {
namespace {

using control::LogLevel;
using control::LogLineFormat;
using control::recorder::time_text;

int priority_of(LogLevel level) {
  switch (level) {
    case LogLevel::kTrace:
    case LogLevel::kDebug:
      return 7;
    case LogLevel::kInfo:
      return 6;
    case LogLevel::kWarning:
      return 4;
    case LogLevel::kError:
      return 3;
  }
  return 6;
}

std::string json_line(const std::string& instance, const LogLine& line) {
  const nlohmann::ordered_json object = {
      {"time", time_text(line.unix_ms)}, {"level", to_string(line.level)}, {"instance", instance}, {"message", line.text}};
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

bool goes_to_journald() {
  const char* stream = std::getenv("JOURNAL_STREAM");  // "DEVICE:INODE"
  struct stat file {};
  return stream != nullptr && fstat(STDERR_FILENO, &file) == 0 && fmt::format("{}:{}", file.st_dev, file.st_ino) == stream;
}

}  // namespace

LogLineFormat line_format(LogLineFormat wanted) {
  return wanted != LogLineFormat::kAuto ? wanted : goes_to_journald() ? LogLineFormat::kJournal : LogLineFormat::kText;
}

std::string format_line(LogLineFormat format, const std::string& instance, const LogLine& line) {
  switch (format) {
    case LogLineFormat::kJson:
      return json_line(instance, line);
    case LogLineFormat::kJournal:
      return fmt::format("<{}>{}\n", priority_of(line.level), line.text);
    case LogLineFormat::kAuto:
    case LogLineFormat::kText:
      break;
  }
  return fmt::format("{} {} {}\n", time_text(line.unix_ms), to_string(line.level), line.text);
}

}  // namespace cw::telemetry
