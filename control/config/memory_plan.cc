#include "control/config/memory_plan.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "base/buffer.h"
#include "control/config/buffer_plan.h"

namespace cw::control {
namespace {

constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;
constexpr uint32_t kLineBytes = 64;
constexpr uint32_t kMemoryChannels = 4;  // that DPDK spreads objects over when nobody tells it of others
constexpr uint64_t kCachesBytes =
    uint64_t{128} * (8192 + 64);       // a cache for each CPU that DPDK knows, with room for 1024 pointers
constexpr uint64_t kPoolBytes = 8192;  // the pool's own

uint64_t round_up(uint64_t value, uint64_t to) {
  return (value + to - 1) / to * to;
}

// An odd number of cache lines, so that neighbours begin in other memory channels.
uint64_t object_bytes(uint32_t data_bytes) {
  uint64_t lines = round_up(kObjectHeaderBytes + kMbufBytes + round_up(sizeof(Buffer), 8) + data_bytes, kLineBytes) / kLineBytes;
  while (std::gcd(lines, uint64_t{kMemoryChannels}) != 1) {
    ++lines;
  }
  return lines * kLineBytes;
}

// As DPDK reckons (rte_mempool_op_calc_mem_size_helper): no object crosses a page, and memory that begins within a page costs up
// to one object more.
uint64_t objects_bytes(uint64_t count, uint64_t each, uint64_t page) {
  const uint64_t per_page = page / each;
  if (per_page == 0) {
    return count * round_up(each, page);
  }
  const uint64_t in_last = (count - 1) % per_page + 1;
  return (count - in_last) / per_page * page + (in_last + 1) * each;
}

uint64_t pool_of(uint64_t count, uint64_t each, uint64_t page) {
  const uint64_t links = count * 2 * sizeof(void*);  // of the free ones, to the next and to what it is
  return objects_bytes(count, each, page) + links + kCachesBytes + kPoolBytes;
}

// Bytes that a device wants besides the frame: the kernel's, of each AF_XDP frame; and what drivers of NICs add to the MTU before
// they compare it with a buffer. net_virtio's own header is the longest, and it refuses a buffer that is shorter; others count a
// CRC and a second VLAN tag.
uint32_t device_bytes(const std::string& device) {
  constexpr uint32_t kXdpPacketHeadroom = 256;
  constexpr uint32_t kNicBytes = 12;
  const bool is_nic = !device.starts_with("net_") && !device.starts_with("eth_");
  return is_af_xdp(device) ? kXdpPacketHeadroom : is_nic ? kNicBytes : 0;
}

// A frame size that the device demands of every mbuf (net_af_packet copies whole ring slots).
uint32_t slot_bytes(const std::string& device) {
  const auto size = device.starts_with("net_af_packet") ? device_argument(device, "framesz") : std::nullopt;
  return size ? static_cast<uint32_t>(std::strtoul(size->c_str(), nullptr, 10)) : 0;
}

// DPDK itself, and rings of 1024 descriptors each way with what drivers note of each.
constexpr uint64_t kDevicesBytes = 4u << 20;
constexpr uint64_t kQueuesBytes = 512u << 10;

}  // namespace

std::optional<std::string> device_argument(const std::string& device, const std::string& key) {
  const std::string words = device + ",";
  const size_t at = words.find("," + key + "=");
  if (at == std::string::npos) {
    return std::nullopt;
  }
  const size_t begin = at + key.size() + 2;
  return words.substr(begin, words.find(',', begin) - begin);
}

uint32_t packet_data_bytes(const std::string& device, uint32_t mtu) {
  constexpr uint32_t kLinkBytes = 14 + 4;  // Ethernet and one VLAN tag
  constexpr uint32_t kFrameBytesMin = 2048;
  const uint32_t frame = std::max({mtu + kLinkBytes + device_bytes(device), slot_bytes(device), kFrameBytesMin});
  return static_cast<uint32_t>(kHeadroomBytes + round_up(frame, kLineBytes));
}

uint64_t large_buffers_min(const Config& config) {
  // A buffer that a record fills may keep a 64th of it unused (rpcrdma::RecordReader).
  constexpr uint64_t kFilledBytes = kLargeBufferBytes - kLargeBufferBytes / 64;
  const uint64_t one_reply = (config.limits.reply_bytes_max + kFilledBytes - 1) / kFilledBytes + 1;
  // Each worker keeps some back for small replies, has one open, and for each backend one reply that has begun and waits.
  const uint64_t of_worker = kReservedLargeBuffers + 1 + config.backends.size();
  const uint64_t threads = uint64_t{poll_core_count(config)} + config.dataplane.workers + 1;
  const uint64_t needed = one_reply + config.dataplane.workers * of_worker;
  // The caches of threads are a 32nd of the pool each, and hold half as many again; too many threads for that: their largest.
  const uint64_t cached = threads * 3 < 64 ? needed * threads * 3 / (64 - threads * 3) : threads * kPoolCacheMax * 3 / 2;
  return needed + std::min(cached + threads, threads * kPoolCacheMax * 3 / 2);
}

PoolSizes pool_sizes(const Config& config) {
  PoolSizes sizes;
  const BufferPlan plan = plan_buffers(config);
  sizes.packet_buffers = plan.packets;
  sizes.packets_low = plan.low;
  sizes.packet_data_bytes = 0;
  for (const PortConfig& port : config.ports) {
    sizes.packet_data_bytes = std::max(sizes.packet_data_bytes, packet_data_bytes(port.device, port.mtu));
    sizes.a_page_each |= is_af_xdp(port.device);
  }
  // Replies of backends get what the packets leave of a fair share: an eighth of the memory, and no less than it takes for the
  // longest reply to come when nothing else does.
  const uint64_t large_bytes = (uint64_t{config.dataplane.memory_mb} << 20) / 8;
  sizes.large_buffers = static_cast<uint32_t>(std::max(large_buffers_min(config), large_bytes / (kLargeBufferBytes + 512)));
  sizes.views = 2 * config.dataplane.rx_buffers;
  return sizes;
}

uint64_t pool_bytes(const PoolSizes& sizes, bool hugepages) {
  const uint64_t page = hugepages ? kHugePageBytes : kPageBytes;
  const uint64_t packet = sizes.a_page_each ? kPageBytes : object_bytes(sizes.packet_data_bytes);
  return pool_of(sizes.packet_buffers, packet, page) +
         pool_of(sizes.large_buffers, object_bytes(kLargeBufferBytes + kHeadroomBytes), page) +
         pool_of(sizes.views, object_bytes(0), page) + pool_of(kTrailers, object_bytes(kTrailerDataBytes), page);
}

uint64_t memory_bytes(const Config& config) {
  const uint64_t queues = config.ports.size() * std::max<size_t>(1, config.dataplane.poll_lcores.size());
  return pool_bytes(pool_sizes(config), config.dataplane.hugepages) + kDevicesBytes + queues * kQueuesBytes;
}

uint64_t registered_bytes(const Config& config) {
  const PoolSizes sizes = pool_sizes(config);
  if (!needs_dpdk(config)) {
    return sizes.packet_buffers * uint64_t{Buffer::kHeadroomBytes + kHeapPacketBytes} +
           sizes.large_buffers * uint64_t{Buffer::kHeadroomBytes + kLargeBufferBytes};
  }
  const uint64_t page = config.dataplane.hugepages ? kHugePageBytes : kPageBytes;
  const uint64_t packet = sizes.a_page_each ? kPageBytes : object_bytes(sizes.packet_data_bytes);
  return objects_bytes(sizes.packet_buffers, packet, page) +
         objects_bytes(sizes.large_buffers, object_bytes(kLargeBufferBytes + kHeadroomBytes), page);
}

}  // namespace cw::control
