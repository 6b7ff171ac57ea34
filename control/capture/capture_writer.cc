#include "control/capture/capture_writer.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <utility>

#include "control/capture/pcapng.h"
#include "control/socket/unique_fd.h"

namespace cw::control::capture {
namespace {

constexpr auto kPause = std::chrono::milliseconds(2);
constexpr size_t kWriteBytes = 65'536;  // at once

int64_t unix_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// From what the kernel knows, without asking a file server.
bool is_regular(int file) {
  struct statx status {};
  return statx(file, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &status) == 0 && S_ISREG(status.stx_mode);
}

}  // namespace

// What the thread works with. Not stdio: the end of the process would wait for a stream that is being written.
class CaptureWriter::Job {
 public:
  Job(UniqueFd file, const CaptureLimits& limits, Rings rings, WriteFile write_file)
      : file_(std::move(file)), limits_(limits), rings_(std::move(rings)), write_file_(write_file) {}

  void run();
  [[nodiscard]] bool stop(std::chrono::milliseconds patience) {
    stop_.store(true);
    std::unique_lock lock(mutex_);
    return has_ended_.wait_for(lock, patience, [this] { return ended_; });
  }

  std::atomic<bool> done{false};
  std::atomic<bool> failed{false};
  std::atomic<uint64_t> packets{0};
  std::atomic<uint64_t> bytes{0};

 private:
  void drain();
  void complete();
  std::string packet_of(const CapturedFrame& frame, MutableBytes raw) const;
  void add(const std::string& raw);
  void flush();

  UniqueFd file_;
  CaptureLimits limits_;
  Rings rings_;
  WriteFile write_file_;
  std::atomic<bool> stop_{false};
  std::string unwritten_;
  int64_t clock_offset_ns_ = 0;  // of the wall clock to the poll cores', from the first frame on
  bool has_offset_ = false;
  std::mutex mutex_;
  std::condition_variable has_ended_;
  bool ended_ = false;
};

std::unique_ptr<CaptureWriter> CaptureWriter::start(int output, const CaptureLimits& limits, Rings rings, std::string& problem,
                                                    WriteFile write_file) {
  const int flags = fcntl(output, F_GETFL);
  if (flags < 0 || !is_regular(output) || (flags & O_ACCMODE) == O_RDONLY) {
    problem =
        "a capture wants a regular file, open for writing, sent along with the request; causewayctl capture start does that";
    return nullptr;
  }
  UniqueFd file(fcntl(output, F_DUPFD_CLOEXEC, 0));
  if (file.get() < 0) {
    problem = fmt::format("the capture's file: {}", std::strerror(errno));
    return nullptr;
  }
  auto job = std::make_shared<Job>(std::move(file), limits, std::move(rings), write_file == nullptr ? &write : write_file);
  return std::unique_ptr<CaptureWriter>(new CaptureWriter(std::move(job)));
}

CaptureWriter::CaptureWriter(std::shared_ptr<Job> job) : job_(std::move(job)), thread_([job = job_] { job->run(); }) {}

CaptureWriter::~CaptureWriter() {
  if (stop(waited_ ? std::chrono::milliseconds(0) : kStopPatience)) {
    thread_.join();
  } else {
    thread_.detach();  // it waits for the file; its share of the Job keeps alive what it works with
  }
}

bool CaptureWriter::stop(std::chrono::milliseconds patience) {
  waited_ = true;
  return job_->stop(patience);
}

bool CaptureWriter::is_done() const {
  return job_->done.load(std::memory_order_acquire);
}
uint64_t CaptureWriter::packets() const {
  return job_->packets.load(std::memory_order_relaxed);
}
uint64_t CaptureWriter::bytes() const {
  return job_->bytes.load(std::memory_order_relaxed);
}
bool CaptureWriter::failed() const {
  return job_->failed.load(std::memory_order_relaxed);
}

void CaptureWriter::Job::add(const std::string& raw) {
  unwritten_ += raw;
  bytes.fetch_add(raw.size(), std::memory_order_relaxed);
  if (unwritten_.size() >= kWriteBytes) {
    flush();
  }
}

void CaptureWriter::Job::flush() {
  for (size_t at = 0; at < unwritten_.size() && !failed.load();) {
    const ssize_t written = write_file_(file_.get(), unwritten_.data() + at, unwritten_.size() - at);
    if (written > 0) {
      at += static_cast<size_t>(written);
    } else if (written == 0 || errno != EINTR) {
      failed.store(true);
      complete();
    }
  }
  unwritten_.clear();
}

void CaptureWriter::Job::run() {
  (void)pthread_setname_np(pthread_self(), "cw-capture");
  add(pcapng_start("causewayd", limits_.with_payload ? limits_.snap_bytes : kSnapBytesMax));
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(limits_.seconds);
  while (!stop_.load() && !done.load()) {
    drain();
    flush();
    if (std::chrono::steady_clock::now() >= end) {
      complete();
    }
    std::this_thread::sleep_for(kPause);
  }
  if (stop_.load() && !done.load()) {
    drain();
  }
  flush();
  file_ = UniqueFd();  // closing may wait for the file as well
  const std::lock_guard lock(mutex_);
  ended_ = true;
  has_ended_.notify_all();
}

void CaptureWriter::Job::complete() {
  for (const auto& ring : rings_) {
    ring->close();
  }
  done.store(true, std::memory_order_release);
}

std::string CaptureWriter::Job::packet_of(const CapturedFrame& frame, MutableBytes raw) const {
  const auto at = static_cast<uint64_t>(frame.at_ns + clock_offset_ns_);
  const uint32_t shown = limits_.with_payload ? static_cast<uint32_t>(raw.size()) : redact(raw);
  const bool keeps_length = !limits_.with_payload && locate_roce(raw);
  const uint32_t stored = keeps_length ? std::clamp(frame.original_bytes, shown, std::max(shown, kSnapBytesMax)) : shown;
  return pcapng_packet(at, raw.first(shown), {.bytes = stored, .original_bytes = frame.original_bytes}, frame.received);
}

// No more than the rings hold at a time, so that it ends whatever the cores do.
void CaptureWriter::Job::drain() {
  for (const auto& ring : rings_) {
    CapturedFrame frame;
    MutableBytes raw;
    for (uint32_t i = 0; i < CaptureRing::kSlots && !done.load() && ring->front(frame, raw); ++i) {
      // Once: a wall clock that is set during the capture must not bend the time between frames.
      if (!has_offset_) {
        has_offset_ = true;
        clock_offset_ns_ = unix_now_ns() - frame.at_ns;
      }
      add(packet_of(frame, raw));
      ring->pop();
      if (packets.fetch_add(1, std::memory_order_relaxed) + 1 >= limits_.packets) {
        complete();
      }
    }
  }
}

}  // namespace cw::control::capture
