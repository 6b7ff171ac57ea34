// Packet buffers: how many there are, and who may hold how many of them at once.
//
// A call holds the buffers of its SEND until it is answered, and those of what it has pulled by RDMA Read. If both together could
// take the last buffer, nothing would be left to receive the Read responses and acknowledgements by which any of them comes back:
// the gateway would stand still for good. So the shares below add up to what the pool has, with some for sending besides.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "control/config/config.h"

namespace cw::control {

struct BufferPlan {
  uint64_t reserved = 0;  // for the messages of all clients' credits
  // The rest are for all cores together.
  uint32_t pulled_max = 0;  // data of calls, from the first RDMA Read until the answer; one call of any size fits
  uint32_t pulled_min = 0;  // of these: one call of any size for each core
  uint32_t held_max = 0;    // packets that arrived behind a gap
  uint64_t shared = 0;      // what these shares divide: at least rx_buffers
  // With fewer of them free no new message is taken, with half as many nothing that is kept. Credits of clients whose path MTU is
  // smaller than the ports' are fewer, so that what is reserved does for them too (Gateway::backed_credits).
  uint32_t low = 0;
  // Buffers in the pool: `shared`, and what sending, the rings of NICs and the caches of threads take.
  uint32_t packets = 0;
};

// Threads keep up to half as many again at hand, which others cannot have.
inline constexpr uint32_t kPoolCacheMax = 256;
[[nodiscard]] constexpr uint32_t pool_cache(uint32_t buffers) {
  return buffers / 32 < kPoolCacheMax ? buffers / 32 : kPoolCacheMax;
}

[[nodiscard]] BufferPlan plan_buffers(const Config& config);

// A packet buffer of a gateway without ports, which reads TCP's bytes into it.
inline constexpr uint32_t kHeapPacketBytes = 2048;

// Smallest over all ports; without ports what a packet buffer holds.
[[nodiscard]] uint32_t smallest_path_mtu(const Config& config);

// What a listener's connections may have reserved.
struct BufferDemand {
  std::string listener;
  uint64_t buffers_each = 0;
  uint32_t connections_max = 0;
};
// By listener.
[[nodiscard]] std::vector<BufferDemand> buffer_demands(const Config& config);
// Of so many connections over all listeners, when the dearest are full.
[[nodiscard]] uint64_t reserved_buffers(std::vector<BufferDemand> demands, uint32_t connections_max);
// Receive buffers that the credits of all possible connections reserve. config_check compares it with dataplane.rx_buffers.
[[nodiscard]] uint64_t reserved_buffers(const Config& config);

}  // namespace cw::control
