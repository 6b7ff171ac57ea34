// What a log line looks like: for people, for programs that read JSON, or for journald.
#pragma once

#include <string>

#include "control/config/config.h"
#include "telemetry/log.h"

namespace cw::telemetry {

// kAuto: kJournal when stderr goes to journald, which says so in JOURNAL_STREAM (systemd.exec(5)), else kText.
[[nodiscard]] control::LogLineFormat line_format(control::LogLineFormat wanted);

//   text     2026-01-31T12:00:00.123Z warning port 0: link is down
//   json     {"time":"2026-01-31T12:00:00.123Z","level":"warning","instance":"default","message":"port 0: link is down"}
//   journal  <4>port 0: link is down          the number is syslog's (sd-daemon(3)); journald has a time of its own
// With its line end. What is no UTF-8 is replaced in JSON.
[[nodiscard]] std::string format_line(control::LogLineFormat format, const std::string& instance, const LogLine& line);

}  // namespace cw::telemetry
