// The thread that writes captured frames to a file, until it is stopped or a limit is reached.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "control/capture/capture_ring.h"

namespace cw::control::capture {

struct CaptureLimits {
  uint32_t snap_bytes = 256;  // of a frame, 64..9216
  uint64_t packets = 100'000;
  double seconds = 60;
  bool with_payload = false;  // else redact()
};

class CaptureWriter {
 public:
  // output: a regular file, open for writing; the writer has a duplicate of its own. Null, and one sentence in `problem`, when it
  // is none (a pipe or a socket could keep the writer waiting for ever). `rings` outlive the writer.
  [[nodiscard]] static std::unique_ptr<CaptureWriter> start(int output, const CaptureLimits& limits,
                                                            std::vector<CaptureRing*> rings, std::string& problem);
  // Writes what is in the rings, and ends.
  ~CaptureWriter();
  CaptureWriter(const CaptureWriter&) = delete;
  CaptureWriter& operator=(const CaptureWriter&) = delete;

  // A limit was reached, or the disk is full: no more is written.
  [[nodiscard]] bool is_done() const { return done_.load(std::memory_order_acquire); }
  [[nodiscard]] uint64_t packets() const { return packets_.load(std::memory_order_relaxed); }
  [[nodiscard]] uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool failed() const { return failed_.load(std::memory_order_relaxed); }

 private:
  CaptureWriter(std::FILE* file, const CaptureLimits& limits, std::vector<CaptureRing*> rings);
  void run();
  void drain();
  void write(const std::string& octets);

  std::FILE* file_;
  CaptureLimits limits_;
  std::vector<CaptureRing*> rings_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> done_{false};
  std::atomic<bool> failed_{false};
  std::atomic<uint64_t> packets_{0};
  std::atomic<uint64_t> bytes_{0};
  int64_t clock_offset_ns_ = 0;  // of the wall clock to the poll cores', from the first frame on
  bool has_offset_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace cw::control::capture
