// The exception path of a port that DPDK has whole: a TAP interface by which the kernel has the port's addresses. Frames that are
// no RoCE packets of ours go to it, and what the kernel sends leaves by the port.
//
//   poll cores:  divert() ──> ring ──> thread ──> write(tap)         system calls are the thread's, so that a flood of other
//   poll core 0: from_kernel() <── ring <── thread <── read(tap)        people's frames costs a core a ring operation each
//
// Both rings are bounded. When the first is full, frames are dropped and counted; when the second is, the thread reads no more
// and the kernel's queue of the interface fills. A core polls an empty ring when the port has nothing to say: two loads.
#pragma once

#include <rte_mbuf.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>

#include "control/socket/unique_fd.h"
#include "dataplane/dpdk/mbuf_pool.h"
#include "dataplane/value_ring.h"
#include "dataplane/wakeup.h"
#include "gateway/node/address_filter.h"
#include "rocev2/wire/mac_address.h"

namespace cw::dataplane {

struct ExceptionSettings {
  std::string tap;  // interface; made when it is not there, and then it ends with the process
  wire::MacAddress mac;
  uint32_t mtu = 1500;
  std::vector<IpAddress> addresses;
  uint16_t vlan = 0;
};

class ExceptionPath {
 public:
  // nullptr with one sentence that says what is missing and what to do. The interface gets the MAC address and the MTU, and is
  // up.
  [[nodiscard]] static std::unique_ptr<ExceptionPath> open(const ExceptionSettings& settings, MbufPools& pools,
                                                           std::string& error);
  ~ExceptionPath();
  ExceptionPath(const ExceptionPath&) = delete;
  ExceptionPath& operator=(const ExceptionPath&) = delete;

  // Any poll core. Takes the kernel's frames out of `mbufs`, which then holds the others in their order; the number of those.
  // Adds to `given` and `dropped`.
  [[nodiscard]] uint16_t divert(std::span<rte_mbuf*> mbufs, uint64_t& given, uint64_t& dropped);
  // One poll core. Frames of the kernel's to be sent, up to out.size().
  [[nodiscard]] uint32_t from_kernel(std::span<rte_mbuf*> out) { return out_ring_.pop(out); }

  // Any thread. Frames that the interface did not take since it is down, and frames of the kernel's without a packet buffer.
  [[nodiscard]] uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }
  [[nodiscard]] uint64_t no_buffer() const { return no_buffer_.load(std::memory_order_relaxed); }

 private:
  ExceptionPath(const ExceptionSettings& settings, MbufPools& pools);
  [[nodiscard]] bool set_up(std::string& error);
  void run();
  [[nodiscard]] bool write_frames();
  [[nodiscard]] bool read_frames();
  void wait(bool may_read);

  static constexpr uint32_t kFrames = 255;

  ExceptionSettings settings_;
  MbufPools& pools_;
  node::AddressFilter filter_;
  control::UniqueFd tap_;
  ValueRing<rte_mbuf*> in_ring_;   // towards the kernel
  ValueRing<rte_mbuf*> out_ring_;  // towards the port
  Wakeup wakeup_;                  // of the thread
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> refused_{0};
  std::atomic<uint64_t> no_buffer_{0};
  std::thread thread_;
};

}  // namespace cw::dataplane
