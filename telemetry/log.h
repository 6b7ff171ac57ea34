// Log lines on stderr (log_format.h says how they look). Never called per packet, never from a poll core's fast path: the owner
// of a core hands facts over as values, and the control thread writes them.
//
// Every call site is limited: kLogBurst lines at once, then one per kLogRefill; what was held back is counted and said with the
// site's next line. So a peer that causes a line per connection cannot flood the log, and no line is lost without a trace. And
// nobody waits for stderr: see stderr_sink.h.
//
//   log_warning("backend {}: {}; retrying in {} s", name, reason, seconds);
//   log_warning({{LogFieldName::kBackend, name}}, "backend {}: {}", name, reason);    with fields for programs (log_fields.h)
#pragma once

#include <fmt/core.h>

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/time.h"
#include "control/config/config.h"
#include "telemetry/log_fields.h"

namespace cw::telemetry {

inline constexpr uint32_t kLogBurst = 20;
inline constexpr Duration kLogRefill = Duration::seconds(1);
inline constexpr size_t kLogLineBytesMax = 1024;  // longer lines are cut
inline constexpr uint32_t kLogRecentMax = 64;     // lines that log_recent() has

// Call once at start, before other threads log. Without it, lines from kInfo on go to stderr as text.
void log_start(const control::LogConfig& config, const std::string& instance);
// Any time, any thread: how lines look from now on.
void log_set_format(control::LogLineFormat format, const std::string& instance);
// Any time, any thread.
void log_set_level(control::LogLevel level);
[[nodiscard]] bool log_enabled(control::LogLevel level);

struct LogLine {
  int64_t unix_ms = 0;
  control::LogLevel level = control::LogLevel::kInfo;
  std::string text;
};
// Any thread. The last lines that were written, the oldest first.
[[nodiscard]] std::vector<LogLine> log_recent();
// Any thread. Lines that stderr did not take; log_recent() has the last of them all the same.
[[nodiscard]] uint64_t log_lost();

// Where a line is written. std::source_location without its column and function, and with compilers that lack it.
struct LogSite {
  const char* file = "";
  uint32_t line = 0;
  [[nodiscard]] static constexpr LogSite current(const char* in = __builtin_FILE(), uint32_t at = __builtin_LINE()) {
    return {in, at};
  }
};

// A format string that knows where it stands; made implicitly from the literal.
template <typename... Args>
struct LogFormat {
  template <std::convertible_to<fmt::string_view> Text>
  consteval LogFormat(const Text& text, LogSite where = LogSite::current())  // NOLINT: implicit
      : format(text), site(where) {}
  fmt::format_string<Args...> format;
  LogSite site;
};

// `text` as it is written: cut, and without control characters.
[[nodiscard]] std::string log_clean(std::string_view text);
// Any thread. `text` is one line; line ends and other control characters in it are replaced, since it may quote a peer.
void log_write(control::LogLevel level, const LogSite& site, std::string_view text, LogFields fields = {});
// False when the site has used up its lines: the text need not be made.
[[nodiscard]] bool log_admit(control::LogLevel level, const LogSite& site);

template <typename... Args>
void log_at(control::LogLevel level, LogFields fields, const LogFormat<std::type_identity_t<Args>...>& message, Args&&... args) {
  if (log_admit(level, message.site)) {
    log_write(level, message.site, fmt::format(message.format, static_cast<Args&&>(args)...), std::move(fields));
  }
}
template <typename... Args>
void log_debug(const LogFormat<std::type_identity_t<Args>...>& message, Args&&... args) {
  log_at<Args...>(control::LogLevel::kDebug, {}, message, static_cast<Args&&>(args)...);
}
template <typename... Args>
void log_info(const LogFormat<std::type_identity_t<Args>...>& message, Args&&... args) {
  log_at<Args...>(control::LogLevel::kInfo, {}, message, static_cast<Args&&>(args)...);
}
template <typename... Args>
void log_warning(const LogFormat<std::type_identity_t<Args>...>& message, Args&&... args) {
  log_at<Args...>(control::LogLevel::kWarning, {}, message, static_cast<Args&&>(args)...);
}
template <typename... Args>
void log_error(const LogFormat<std::type_identity_t<Args>...>& message, Args&&... args) {
  log_at<Args...>(control::LogLevel::kError, {}, message, static_cast<Args&&>(args)...);
}
template <typename... Args>
void log_info(LogFields fields, const LogFormat<std::type_identity_t<Args>...>& message, Args&&... args) {
  log_at<Args...>(control::LogLevel::kInfo, std::move(fields), message, static_cast<Args&&>(args)...);
}
template <typename... Args>
void log_warning(LogFields fields, const LogFormat<std::type_identity_t<Args>...>& message, Args&&... args) {
  log_at<Args...>(control::LogLevel::kWarning, std::move(fields), message, static_cast<Args&&>(args)...);
}
template <typename... Args>
void log_error(LogFields fields, const LogFormat<std::type_identity_t<Args>...>& message, Args&&... args) {
  log_at<Args...>(control::LogLevel::kError, std::move(fields), message, static_cast<Args&&>(args)...);
}

}  // namespace cw::telemetry
