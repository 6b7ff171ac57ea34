// Messages of a memif handshake, as a client makes them.
#pragma once

#include <array>
#include <cstdint>

#include "base/bytes.h"
#include "dataplane/dpdk/memif_handshake.h"

namespace cw::dataplane::memif {

using Message = std::array<uint8_t, MemifHandshake::kMessageBytes>;

inline constexpr uint64_t kRegionBytes = 1 << 20;
inline constexpr uint8_t kLog2Ring = 10;
inline constexpr uint32_t kRingBytes = 128 + (16u << kLog2Ring);

inline Message message_of(uint16_t type) {
  Message message{};
  store_native(message.data(), type);
  return message;
}

inline Message add_region(uint16_t index, uint64_t bytes = kRegionBytes) {
  Message message = message_of(MemifHandshake::kAddRegion);
  store_native(message.data() + 2, index);
  store_native(message.data() + 4, bytes);
  return message;
}

struct Ring {
  bool client_to_server = true;
  uint16_t index = 0;
  uint16_t region = 0;
  uint32_t offset = 0;
  uint8_t log2 = kLog2Ring;
};

inline Message add_ring(const Ring& ring) {
  Message message = message_of(MemifHandshake::kAddRing);
  store_native<uint16_t>(message.data() + 2, ring.client_to_server ? 1 : 0);
  store_native(message.data() + 4, ring.index);
  store_native(message.data() + 6, ring.region);
  store_native(message.data() + 8, ring.offset);
  message[12] = ring.log2;
  return message;
}

}  // namespace cw::dataplane::memif
