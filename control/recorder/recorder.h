// The recorder of a running gateway: a file of fixed size beside the admin socket, mapped into memory. The pages are the
// kernel's, so what was written is there when the process ends in the next instant, by whatever signal. It is not there after
// the host lost its power or was restarted, since the directory is in memory.
//
// The file belongs to one process at a time, which holds a lock on it. When the process before did not end as it should, its
// recording is kept beside this one, in place of the one that was kept before: PATH.crashed.
//
// The directory should be in memory (/run is): a disk that hangs would hang who writes a line of the log. And nobody may make
// the file shorter while it is mapped: the next line would end the process. It is its owner's, whom nobody else is.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "control/config/config.h"
#include "control/recorder/last_words.h"
#include "control/recorder/recording.h"
#include "control/socket/unique_fd.h"

namespace cw::control::recorder {

// Beside the socket: /run/causeway/default.sock has /run/causeway/default.recorder.
[[nodiscard]] std::string recorder_path(const std::string& admin_socket);
[[nodiscard]] std::string crashed_path(const std::string& recorder_path);

// Who made it and what of it is known, from outside.
struct RecordingFile {
  std::optional<Recording> recording;  // nothing: `problem` says why
  std::string problem;
  bool runs = false;  // the process that writes it is there
  uint64_t pid = 0;   // its number here; 0: it is gone, or another container's
};
[[nodiscard]] RecordingFile read_recording(const std::string& path);

class Recorder {
 public:
  // nullptr, and one sentence in `problem`: nothing can be recorded. `before`: what became of the process before, when that did
  // not end as it should; else empty.
  [[nodiscard]] static std::unique_ptr<Recorder> open(const std::string& path, const Head& head, std::string& before,
                                                      std::string& problem);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Any thread. A line of the log.
  void add_line(LogLevel level, std::string_view line);
  // Any thread.
  void put(Area area, std::string_view text, uint32_t tag = 0);
  void end(End how, std::string_view why) { put(Area::kEnd, why, static_cast<uint32_t>(how)); }
  // Says which files lie where in memory. Again when more have been loaded.
  void put_modules();
  // From now on a signal that ends the process is noted first, with the functions that the thread was in. What the signal does
  // and the exit status that others see stay as they are. A handler that is there already, as a sanitizer's, stays. Once.
  void note_fatal_signals();

 private:
  Recorder(UniqueFd file, std::span<uint8_t> bytes);

  UniqueFd file_;  // holds the lock
  std::span<uint8_t> bytes_;
  std::mutex mutex_;
  RecordingWriter writer_;  // under mutex_, but for what the handler of signals writes
};

// A stack for the handler, of the thread that makes it: one whose own stack is full can say so, too.
class SignalStack {
 public:
  SignalStack();
  ~SignalStack();
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  std::unique_ptr<uint8_t[]> memory_;
};

}  // namespace cw::control::recorder
