// Writes log lines to stderr without ever waiting for whoever reads it: the control thread logs, and it feeds the watchdog too.
// A line that finds no room (a full disk, a pipe that nobody reads or that is closed) is lost and counted, and the next one that
// finds room is preceded by a line that says how many and why.
#pragma once

#include <spdlog/sinks/base_sink.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string_view>

namespace cw::telemetry {

class StderrSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  // Any thread.
  [[nodiscard]] uint64_t lost() const { return lost_.load(std::memory_order_relaxed); }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override;
  void flush_() override {}
  // All of it, or false and errno.
  [[nodiscard]] bool write_whole(std::string_view text);

  std::atomic<uint64_t> lost_{0};
  uint64_t lost_said_ = 0;
  int lost_why_ = 0;          // errno
  bool within_line_ = false;  // the last line was cut
};

}  // namespace cw::telemetry
