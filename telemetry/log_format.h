// What a log line looks like: for people, for programs that read JSON, or for journald.
#pragma once

#include <string>

#include "control/config/config.h"
#include "telemetry/log.h"

namespace cw::telemetry {

// A line before it has a form.
struct LogEntry {
  LogLine line;
  LogSite site;
  LogFields fields;  // in the order of their names
};

// journald says in JOURNAL_STREAM what it has given to a process as stderr (systemd.exec(5)).
[[nodiscard]] bool stderr_goes_to_journald();
// kAuto: kJournal when stderr goes to journald, else kText.
[[nodiscard]] control::LogLineFormat line_format(control::LogLineFormat wanted);

//   text     2026-01-31T12:00:00.123Z warning port 0: link is down
//   json     {"time":"2026-01-31T12:00:00.123Z","level":"warning","instance":"default","message":"port 0: link is down"}
//   journal  <4>port 0: link is down          the number is syslog's (sd-daemon(3)); journald has a time of its own
// With its line end. JSON has the fields behind the message; what is no UTF-8 is replaced there.
[[nodiscard]] std::string format_line(control::LogLineFormat format, const std::string& instance, const LogEntry& entry);
// For journald's own socket: the text, its priority, who wrote it and where, and the fields (systemd.journal-fields(7)).
[[nodiscard]] std::string journal_entry(const std::string& instance, const LogEntry& entry);

}  // namespace cw::telemetry
