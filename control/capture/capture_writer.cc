#include "control/capture/capture_writer.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "control/capture/pcapng.h"

namespace cw::control::capture {
namespace {

constexpr auto kPause = std::chrono::milliseconds(2);

int64_t unix_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

std::unique_ptr<CaptureWriter> CaptureWriter::start(int output, const CaptureLimits& limits, std::vector<CaptureRing*> rings,
                                                    std::string& problem) {
  struct stat status {};
  const int flags = fcntl(output, F_GETFL);
  if (flags < 0 || fstat(output, &status) != 0 || !S_ISREG(status.st_mode) || (flags & O_ACCMODE) == O_RDONLY) {
    problem =
        "a capture wants a regular file, open for writing, sent along with the request; causewayctl capture start does that";
    return nullptr;
  }
  const int fd = fcntl(output, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) {
    problem = fmt::format("the capture's file: {}", std::strerror(errno));
    return nullptr;
  }
  return std::unique_ptr<CaptureWriter>(new CaptureWriter(fdopen(fd, "w"), limits, std::move(rings)));
}

CaptureWriter::CaptureWriter(std::FILE* file, const CaptureLimits& limits, std::vector<CaptureRing*> rings)
    : file_(file), limits_(limits), rings_(std::move(rings)), thread_([this] { run(); }) {}

CaptureWriter::~CaptureWriter() {
  stop_.store(true);
  thread_.join();
  std::fclose(file_);
}

void CaptureWriter::write(const std::string& octets) {
  if (std::fwrite(octets.data(), 1, octets.size(), file_) != octets.size()) {
    failed_.store(true);
    done_.store(true, std::memory_order_release);
  }
  bytes_.fetch_add(octets.size(), std::memory_order_relaxed);
}

void CaptureWriter::run() {
  write(pcapng_start("causewayd", limits_.snap_bytes));
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(limits_.seconds);
  while (!stop_.load() && !is_done()) {
    drain();
    std::fflush(file_);
    if (std::chrono::steady_clock::now() >= end) {
      done_.store(true, std::memory_order_release);
    }
    std::this_thread::sleep_for(kPause);
  }
  if (stop_.load() && !is_done()) {
    drain();
  }
  std::fflush(file_);
}

// No more than the rings hold at a time, so that it ends whatever the cores do.
void CaptureWriter::drain() {
  for (CaptureRing* ring : rings_) {
    CapturedFrame frame;
    MutableBytes octets;
    for (uint32_t i = 0; i < CaptureRing::kSlots && !is_done() && ring->front(frame, octets); ++i) {
      if (!has_offset_) {
        has_offset_ = true;
        clock_offset_ns_ = unix_now_ns() - frame.at_ns;
      }
      const uint32_t shown = limits_.with_payload ? static_cast<uint32_t>(octets.size()) : redact(octets);
      const auto at = static_cast<uint64_t>(frame.at_ns + clock_offset_ns_);
      write(pcapng_packet(at, octets.first(shown), frame.original_bytes, frame.received));
      ring->pop();
      if (packets_.fetch_add(1, std::memory_order_relaxed) + 1 >= limits_.packets) {
        done_.store(true, std::memory_order_release);
      }
    }
  }
}

}  // namespace cw::control::capture
