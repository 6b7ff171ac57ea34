#include "telemetry/stderr_sink.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

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

void StderrSink::sink_it_(const spdlog::details::log_msg& message) {
  spdlog::memory_buf_t line;
  formatter_->format(message, line);
  if (const uint64_t lost = lost_.load(std::memory_order_relaxed); lost > lost_said_) {
    spdlog::details::log_msg notice = message;
    notice.level = spdlog::level::warn;
    const std::string text = fmt::format("{} log lines were lost: {}", lost - lost_said_, cause_of(lost_why_));
    notice.payload = text;
    spdlog::memory_buf_t said;
    formatter_->format(notice, said);
    if (!write_whole({said.data(), said.size()})) {
      lost_.store(lost + 1, std::memory_order_relaxed);
      return;
    }
    lost_said_ = lost;
  }
  if (!write_whole({line.data(), line.size()})) {
    lost_.fetch_add(1, std::memory_order_relaxed);
  }
}

}  // namespace cw::telemetry
