// Writes log lines to stderr without ever waiting for whoever reads it: the control thread logs, and it feeds the watchdog too.
// A line that finds no room (a full disk, a pipe that nobody reads or that is closed) is lost and counted, and the next one that
// finds room is preceded by a line that says how many and why.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "control/config/config.h"
#include "telemetry/log.h"

namespace cw::telemetry {

// Any thread.
class StderrSink {
 public:
  void set_format(control::LogLineFormat format, const std::string& instance);
  void write(const LogLine& line);
  [[nodiscard]] uint64_t lost() const { return lost_.load(std::memory_order_relaxed); }

 private:
  // All of it, or false and why not.
  [[nodiscard]] bool write_whole(std::string_view text);

  std::mutex mutex_;
  control::LogLineFormat format_ = control::LogLineFormat::kText;
  std::string instance_;
  std::atomic<uint64_t> lost_{0};
  uint64_t lost_said_ = 0;
  int lost_why_ = 0;          // errno
  bool within_line_ = false;  // the last line was cut
};

}  // namespace cw::telemetry
