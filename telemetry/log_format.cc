#include "telemetry/log_format.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "control/recorder/last_words.h"
#include "telemetry/journal_socket.h"

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

std::string json_line(const std::string& instance, const LogEntry& entry) {
  nlohmann::ordered_json object = {{"time", time_text(entry.line.unix_ms)},
                                   {"level", to_string(entry.line.level)},
                                   {"instance", instance},
                                   {"message", entry.line.text}};
  for (const LogField& field : entry.fields) {
    nlohmann::ordered_json& member = object[std::string(to_string(field.name))];
    if (field.number) {
      member = *field.number;
    } else {
      member = field.text;
    }
  }
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string journal_key(LogFieldName name) {
  std::string key = "CAUSEWAY_";
  for (const char c : to_string(name)) {
    key += c == '_' ? c : static_cast<char>(c - 'a' + 'A');
  }
  return key;
}

}  // namespace

bool stderr_goes_to_journald() {
  const char* stream = std::getenv("JOURNAL_STREAM");  // "DEVICE:INODE"
  struct stat file {};
  return stream != nullptr && fstat(STDERR_FILENO, &file) == 0 && fmt::format("{}:{}", file.st_dev, file.st_ino) == stream;
}

LogLineFormat line_format(LogLineFormat wanted) {
  return wanted != LogLineFormat::kAuto ? wanted : stderr_goes_to_journald() ? LogLineFormat::kJournal : LogLineFormat::kText;
}

std::string format_line(LogLineFormat format, const std::string& instance, const LogEntry& entry) {
  const LogLine& line = entry.line;
  switch (format) {
    case LogLineFormat::kJson:
      return json_line(instance, entry);
    case LogLineFormat::kJournal:
      return fmt::format("<{}>{}\n", priority_of(line.level), line.text);
    case LogLineFormat::kAuto:
    case LogLineFormat::kText:
      break;
  }
  return fmt::format("{} {} {}\n", time_text(line.unix_ms), to_string(line.level), line.text);
}

std::string journal_entry(const std::string& instance, const LogEntry& entry) {
  std::string text;
  append_journal_field(text, "MESSAGE", entry.line.text);
  append_journal_field(text, "PRIORITY", std::to_string(priority_of(entry.line.level)));
  append_journal_field(text, "SYSLOG_IDENTIFIER", "causewayd");
  append_journal_field(text, "CODE_FILE", entry.site.file);
  append_journal_field(text, "CODE_LINE", std::to_string(entry.site.line));
  append_journal_field(text, "CAUSEWAY_INSTANCE", instance);
  for (const LogField& field : entry.fields) {
    append_journal_field(text, journal_key(field.name), field.number ? std::to_string(*field.number) : field.text);
  }
  return text;
}

}  // namespace cw::telemetry
