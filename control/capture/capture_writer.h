// The thread that writes captured frames to a file, until it is stopped or a limit is reached.
//
// A regular file may never answer: on a file server that is gone, or behind a FUSE daemon that hangs. Nobody waits for it without
// limit. The thread owns all that it uses, so that it can be left behind; it ends when the file answers.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "control/capture/capture_ring.h"

namespace cw::control::capture {

// Of a frame. The least holds all headers of a RoCEv2 packet, and so what redact() shows of it. The default holds a whole
// datagram of the connection manager behind any headers (346 bytes), the most a jumbo frame.
inline constexpr uint32_t kSnapBytesMin = 128;
inline constexpr uint32_t kSnapBytes = 384;
inline constexpr uint32_t kSnapBytesMax = 9216;

struct CaptureLimits {
  uint32_t snap_bytes = kSnapBytes;  // kSnapBytesMin..kSnapBytesMax
  uint64_t packets = 10'000;         // 42 MB of full frames
  double seconds = 60;
  // Else redact(), and zeros in place of the rest of a RoCEv2 frame: tshark takes a frame that is shorter than its UDP header
  // says for malformed.
  bool with_payload = false;
};

class CaptureWriter {
 public:
  using Rings = std::vector<std::shared_ptr<CaptureRing>>;
  using WriteFile = ssize_t (*)(int file, const void* raw, size_t size);
  // For what is in the rings and for what the system has not written yet: a disk that lives needs no longer.
  static constexpr auto kStopPatience = std::chrono::milliseconds(1'000);

  // output: a regular file, open for writing; the writer has a duplicate of its own. Null, and one sentence in `problem`, when it
  // is none (a pipe or a socket could keep the writer waiting for ever). `write_file`: write(2), or what a test has in its place.
  [[nodiscard]] static std::unique_ptr<CaptureWriter> start(int output, const CaptureLimits& limits, Rings rings,
                                                            std::string& problem, WriteFile write_file = nullptr);
  // As stop(), without patience when that has been in vain before.
  ~CaptureWriter();
  CaptureWriter(const CaptureWriter&) = delete;
  CaptureWriter& operator=(const CaptureWriter&) = delete;

  // Has the thread write what is in the rings, and end. False: it has not ended within `patience`: the file does not answer.
  bool stop(std::chrono::milliseconds patience = kStopPatience);

  // A limit was reached, or the disk is full: no more is written, and the rings take no more frames.
  [[nodiscard]] bool is_done() const;
  [[nodiscard]] uint64_t packets() const;
  [[nodiscard]] uint64_t bytes() const;
  [[nodiscard]] bool failed() const;

 private:
  class Job;
  explicit CaptureWriter(std::shared_ptr<Job> job);

  std::shared_ptr<Job> job_;  // the thread's too
  bool waited_ = false;
  std::thread thread_;
};

}  // namespace cw::control::capture
