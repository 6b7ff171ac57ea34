// What dataplane.memory_mb has to hold: the pools of buffers, how large they are, and what DPDK makes of that. The start makes
// the pools of these sizes, and the check of a configuration compares the same sum with memory_mb.
//
// What the driver of a device takes for its rings the file does not tell: there is an allowance for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "control/config/config.h"

namespace cw::control {

struct PoolSizes {
  uint32_t packet_buffers = 16384;
  uint32_t packet_data_bytes = 4736;  // largest frame plus headroom
  uint32_t packets_low = 0;  // with fewer of them free no new message is received, with half as many nothing that is kept
  // Packet buffers of one page each, for AF_XDP: DPDK 22.11's driver tells the kernel of a memory as long as the buffers would be
  // without the gaps by which they keep within pages, and those at its end would be nobody's.
  bool a_page_each = false;
  uint32_t large_buffers = 2048;
  uint32_t views = 32768;
};

// dataplane/ holds these against DPDK's own at compile time.
inline constexpr uint32_t kPageBytes = 4096;
inline constexpr uint32_t kObjectHeaderBytes = 64;  // of an object in a pool
inline constexpr uint32_t kMbufBytes = 128;
inline constexpr uint32_t kHeadroomBytes = 128;
inline constexpr uint32_t kLargeBufferBytes = 32 * 1024;
inline constexpr uint32_t kReservedLargeBuffers = 4;  // that each worker keeps back for small replies: 128 KiB
inline constexpr uint32_t kTrailers = 4096;
inline constexpr uint32_t kTrailerDataBytes = kHeadroomBytes + 16;

[[nodiscard]] PoolSizes pool_sizes(const Config& config);
// So many large buffers, at least, that a reply of limits.reply_bytes_max is sure to come. Replies in fragments, which do not say
// how long they become, leave so many to it (rpcrdma::RecordBudget).
[[nodiscard]] uint64_t large_buffers_min(const Config& config);
// That the pools take of memory_mb. Without hugepages memory comes in pages of 4 KiB, and an object longer than one begins a new
// one; a shorter one lies in one whole.
[[nodiscard]] uint64_t pool_bytes(const PoolSizes& sizes, bool hugepages);
// The same with what devices may take besides: what memory_mb has to be.
[[nodiscard]] uint64_t memory_bytes(const Config& config);

// That each RDMA device of transport = "verbs" has registered, and the kernel so keeps in memory: what the buffers lie in.
[[nodiscard]] uint64_t registered_bytes(const Config& config);

// Data room of the packet buffers that a port of the device needs: a frame, what the device wants besides, the headroom.
[[nodiscard]] uint32_t packet_data_bytes(const std::string& device, uint32_t mtu);
// What the arguments of a device say under a key; nothing when it is not among them.
[[nodiscard]] std::optional<std::string> device_argument(const std::string& device, const std::string& key);

}  // namespace cw::control
