// Writes log lines to stderr without ever waiting for whoever reads it: the control thread logs, and it feeds the watchdog too.
// A line that finds no room (a full disk, a pipe that nobody reads or that is closed) is lost and counted, and the next one that
// finds room is preceded by a line that says how many and why.
//
// When journald reads stderr, a line goes to journald's own socket instead, with its fields, by the same rules. When that socket
// takes no line from us (it may be out of reach, as in a container), the line goes to stderr with its priority.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "control/config/config.h"
#include "telemetry/journal_socket.h"
#include "telemetry/log_format.h"

namespace cw::telemetry {

// Any thread.
class StderrSink {
 public:
  explicit StderrSink(std::string journal_socket = kJournalSocket) : journal_(std::move(journal_socket)) {}

  void set_format(control::LogLineFormat format, const std::string& instance);
  void write(const LogEntry& entry);
  [[nodiscard]] uint64_t lost() const { return lost_.load(std::memory_order_relaxed); }

 private:
  // False: it is lost, and lost_why_ says why.
  [[nodiscard]] bool deliver(const LogEntry& entry);
  // To stderr; false as above, also when it is cut.
  [[nodiscard]] bool write_whole(std::string_view text);

  std::mutex mutex_;
  control::LogLineFormat format_ = control::LogLineFormat::kText;
  std::string instance_;
  bool to_journald_ = false;  // to its own socket first
  JournalSocket journal_;
  std::atomic<uint64_t> lost_{0};
  uint64_t lost_said_ = 0;
  int lost_why_ = 0;          // errno
  bool within_line_ = false;  // the last line was cut
};

}  // namespace cw::telemetry
