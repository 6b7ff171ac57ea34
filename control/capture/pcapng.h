// pcapng (draft-ietf-opsawg-pcapng): one section, one Ethernet interface with nanoseconds, packets with their direction.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"

namespace cw::control::capture {

// Section header and interface description.
[[nodiscard]] std::string pcapng_start(const std::string& program, uint32_t snap_bytes);
struct PacketLengths {
  uint32_t bytes = 0;  // in the file; zeros follow the frame up to it
  uint32_t original_bytes = 0;
};
// An enhanced packet block. frame.size() <= `lengths.bytes` <= `lengths.original_bytes`.
[[nodiscard]] std::string pcapng_packet(uint64_t unix_ns, Bytes frame, PacketLengths lengths, bool received);

}  // namespace cw::control::capture
