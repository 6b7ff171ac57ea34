#include "telemetry/stderr_sink.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "telemetry/log_format.h"

namespace cw::telemetry {
namespace {

// As write(), and EAGAIN instead of waiting. A pipe that can be written to has room for PIPE_BUF bytes, more than a line.
ssize_t write_now(std::string_view text) {
  const ssize_t sent = send(STDERR_FILENO, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent >= 0 || errno != ENOTSOCK) {
    return sent;
  }
  pollfd writable{STDERR_FILENO, POLLOUT, 0};
  if (poll(&writable, 1, 0) == 0) {
    errno = EAGAIN;
    return -1;
  }
  return write(STDERR_FILENO, text.data(), text.size());
}

const char* cause_of(int error) {
  return error == EAGAIN ? "whoever reads them does not keep up" : std::strerror(error);
}

}  // namespace

bool StderrSink::write_whole(std::string_view text) {
  std::string line = within_line_ ? "\n" : "";
  line += text;
  const ssize_t written = write_now(line);
  if (written == static_cast<ssize_t>(line.size())) {
    within_line_ = false;
    return true;
  }
  within_line_ = within_line_ || written > 0;
  lost_why_ = written < 0 ? errno : ENOSPC;  // of a part that was written: most likely a full disk
  return false;
}

void StderrSink::set_format(control::LogLineFormat format, const std::string& instance) {
  const std::lock_guard lock(mutex_);
  format_ = line_format(format);
  instance_ = instance;
}

void StderrSink::write(const LogLine& line) {
  const std::lock_guard lock(mutex_);
  if (const uint64_t lost = lost_.load(std::memory_order_relaxed); lost > lost_said_) {
    const std::string text = fmt::format("{} log lines were lost: {}", lost - lost_said_, cause_of(lost_why_));
    if (!write_whole(format_line(format_, instance_, {line.unix_ms, control::LogLevel::kWarning, text}))) {
      lost_.store(lost + 1, std::memory_order_relaxed);
      return;
    }
    lost_said_ = lost;
  }
  if (!write_whole(format_line(format_, instance_, line))) {
    lost_.fetch_add(1, std::memory_order_relaxed);
  }
}

}  // namespace cw::telemetry
