// pcapng (draft-ietf-opsawg-pcapng): one section, one Ethernet interface with nanoseconds, packets with their direction.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"

namespace cw::control::capture {

// Section header and interface description.
[[nodiscard]] std::string pcapng_start(const std::string& program, uint32_t snap_bytes);
// An enhanced packet block. `original_bytes` >= frame.size().
[[nodiscard]] std::string pcapng_packet(uint64_t unix_ns, Bytes frame, uint32_t original_bytes, bool received);

}  // namespace cw::control::capture
