#include "telemetry/log.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "telemetry/log_format.h"
#include "telemetry/log_record.h"
#include "telemetry/stderr_sink.h"

namespace cw::telemetry {
namespace {

using Clock = std::chrono::steady_clock;

// Lines to spare per call site. Sites are places in the source, so the map is bounded by the program's size.
class SiteLimiter {
 public:
  [[nodiscard]] bool admit(const LogSite& site) {
    const std::lock_guard lock(mutex_);
    const Clock::time_point now = Clock::now();
    Site& entry = sites_.try_emplace({site.file, site.line}, Site{kLogBurst, now, 0}).first->second;
    const auto refills = (now - entry.refilled) / std::chrono::nanoseconds(kLogRefill.to_ns());
    if (refills > 0) {
      entry.lines_left = static_cast<uint32_t>(std::min<int64_t>(kLogBurst, entry.lines_left + refills));
      entry.refilled = now;
    }
    if (entry.lines_left == 0) {
      ++entry.held_back;
      return false;
    }
    --entry.lines_left;
    return true;
  }

  // Lines held back since the last one that was written.
  [[nodiscard]] uint64_t take_held_back(const LogSite& site) {
    const std::lock_guard lock(mutex_);
    const auto entry = sites_.find({site.file, site.line});
    return entry == sites_.end() ? 0 : std::exchange(entry->second.held_back, 0);
  }

 private:
  struct Site {
    uint32_t lines_left;
    Clock::time_point refilled;
    uint64_t held_back;
  };
  std::mutex mutex_;
  // The pointer is the key, not the text: a call site always passes the same literal.
  std::map<std::pair<const char*, uint32_t>, Site> sites_;
};

// The newest lines, for those who look at the gateway and not at its stderr.
class RecentLines {
 public:
  void add(LogLine line) {
    const std::lock_guard lock(mutex_);
    if (lines_.size() == kLogRecentMax) {
      lines_.pop_front();
    }
    lines_.push_back(std::move(line));
  }
  [[nodiscard]] std::vector<LogLine> all() {
    const std::lock_guard lock(mutex_);
    return {lines_.begin(), lines_.end()};
  }

 private:
  std::mutex mutex_;
  std::deque<LogLine> lines_;
};

struct Log {
  StderrSink sink;
  std::atomic<control::LogLevel> level{control::LogLevel::kInfo};
  SiteLimiter limiter;
  RecentLines recent;
  std::atomic<control::recorder::Recorder*> recorder{nullptr};
};

// The process has one stderr; it is the one thing here that is global.
Log& the_log() {
  static Log log;
  return log;
}

int64_t unix_now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

void log_start(const control::LogConfig& config, const std::string& instance) {
  log_set_level(config.level);
  log_set_format(config.format, instance);
}

void log_set_format(control::LogLineFormat format, const std::string& instance) {
  the_log().sink.set_format(format, instance);
}

void log_set_level(control::LogLevel level) {
  the_log().level = level;
}

bool log_enabled(control::LogLevel level) {
  return level >= the_log().level;
}

bool log_admit(control::LogLevel level, const LogSite& site) {
  return log_enabled(level) && the_log().limiter.admit(site);
}

std::string log_clean(std::string_view text) {
  std::string line(text.substr(0, kLogLineBytesMax));
  for (char& c : line) {
    c = static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  }
  return line;
}

void log_write(control::LogLevel level, const LogSite& site, std::string_view text, LogFields fields) {
  std::ranges::stable_sort(fields, {}, &LogField::name);
  LogEntry entry{{unix_now_ms(), level, log_clean(text)}, site, std::move(fields)};
  LogLine& line = entry.line;
  if (const uint64_t held_back = the_log().limiter.take_held_back(site); held_back > 0) {
    line.text += fmt::format(" ({} similar lines were held back)", held_back);
  }
  the_log().sink.write(entry);
  if (control::recorder::Recorder* recorder = the_log().recorder) {
    recorder->add_line(level, line.text);
  }
  the_log().recent.add(std::move(line));
}

void log_record_in(control::recorder::Recorder* recorder) {
  if (recorder != nullptr) {
    for (const LogLine& line : log_recent()) {
      recorder->add_line(line.level, line.text);
    }
  }
  the_log().recorder = recorder;
}

uint64_t log_lost() {
  return the_log().sink.lost();
}

std::vector<LogLine> log_recent() {
  return the_log().recent.all();
}

}  // namespace cw::telemetry
