// What an operator wants captured, and how it goes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "control/capture/capture_writer.h"
#include "control/config/ip_text.h"

namespace cw::control::capture {

struct CaptureOrder {
  std::string file;
  std::optional<IpPrefix> client;
  std::optional<uint32_t> local_qpn;
  CaptureLimits limits;
};

struct CaptureStatus {
  std::string state = "none";  // "none", "running", "complete" (a limit was reached), "failed" (the disk), "stopped"
  std::string file;
  uint64_t packets = 0;
  uint64_t bytes = 0;    // of the file
  uint64_t dropped = 0;  // frames that the writer was too slow for
  bool with_payload = false;
};

}  // namespace cw::control::capture
