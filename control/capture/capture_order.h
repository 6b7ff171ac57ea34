// What an operator wants captured, and how it goes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "control/capture/capture_writer.h"
#include "control/config/ip_text.h"

namespace cw::control::capture {

struct CaptureOrder {
  std::string file;  // its name, to be shown
  // Where it goes: a regular file, open for writing, of whoever asks. The gateway itself opens no file that somebody names: it
  // may have more rights than he. Borrowed: a capture works with a duplicate. -1: none.
  int output = -1;
  std::optional<IpPrefix> client;
  std::optional<uint32_t> local_qpn;
  CaptureLimits limits;
};

struct CaptureStatus {
  // "none", "running", "complete" (a limit was reached), "failed" (the disk), "stopped", "stuck" (stopped, and its file does not
  // answer)
  std::string state = "none";
  std::string file;
  uint64_t packets = 0;
  uint64_t bytes = 0;    // of the file
  uint64_t dropped = 0;  // frames that the writer was too slow for
  bool with_payload = false;
};

}  // namespace cw::control::capture
