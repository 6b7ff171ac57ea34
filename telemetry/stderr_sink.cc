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

bool StderrSink::deliver(const LogEntry& entry) {
  if (to_journald_) {
    switch (journal_.send(journal_entry(instance_, entry))) {
      case JournalSocket::Sent::kTaken:
        return true;
      case JournalSocket::Sent::kNoRoom:
        lost_why_ = EAGAIN;
        return false;
      case JournalSocket::Sent::kRefused:
        break;
    }
  }
  return write_whole(format_line(format_, instance_, entry));
}

void StderrSink::set_format(control::LogLineFormat format, const std::string& instance) {
  const std::lock_guard lock(mutex_);
  format_ = line_format(format);
  to_journald_ = format_ == control::LogLineFormat::kJournal && stderr_goes_to_journald();
  instance_ = instance;
}

void StderrSink::write(const LogEntry& entry) {
  const std::lock_guard lock(mutex_);
  if (const uint64_t lost = lost_.load(std::memory_order_relaxed); lost > lost_said_) {
    const std::string text = fmt::format("{} log lines were lost: {}", lost - lost_said_, cause_of(lost_why_));
    if (!deliver({{entry.line.unix_ms, control::LogLevel::kWarning, text}, LogSite::current(), {}})) {
      lost_.store(lost + 1, std::memory_order_relaxed);
      return;
    }
    lost_said_ = lost;
  }
  if (!deliver(entry)) {
    lost_.fetch_add(1, std::memory_order_relaxed);
  }
}

}  // namespace cw::telemetry
