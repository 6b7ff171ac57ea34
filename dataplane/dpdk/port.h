// One DPDK ethdev with one receive and one transmit queue per poll core: frames in as mbufs, TxBatches out.
//
// Ownership: rx() hands mbufs to the caller. tx() takes every head of the batch; attached pieces get references of their own,
// so that the queue pair may free its payload upon the peer's ACK while the device still reads. A device that takes no more
// keeps up to one burst waiting in this object; what does not fit behind it is dropped and counted: RoCE repairs it.
#pragma once

#include <rte_ethdev.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "dataplane/dpdk/device_lease.h"
#include "dataplane/dpdk/mbuf_pool.h"
#include "dataplane/dpdk/memif_relay.h"
#include "rocev2/base/time.h"
#include "rocev2/wire/mac_address.h"
#include "rocev2/wire/tx_batch.h"

namespace cw::dataplane {

struct PortStats {
  uint64_t rx_packets = 0;
  uint64_t rx_bytes = 0;
  uint64_t tx_packets = 0;
  uint64_t tx_bytes = 0;
  uint64_t rx_oversize = 0;  // more than one segment: longer than the buffers made for this MTU
  uint64_t tx_dropped = 0;   // the device took no more
  uint64_t tx_no_view = 0;   // no indirect mbuf or trailer left
};

struct PortSettings {
  std::string device;  // "net_vhost0,iface=..." (created here) or a PCI address or the name of an existing device
  uint32_t mtu = 1500;
  uint16_t queues = 1;
  uint16_t descriptors = 1024;
};

enum class LinkEvent : uint8_t { kNone, kLost, kRestored };

class Port {
 public:
  static constexpr uint16_t kBurst = 32;
  // Creates the device where needed, configures and starts it.
  [[nodiscard]] static std::unique_ptr<Port> open(const PortSettings& settings, MbufPools& pools, std::string& error);
  ~Port();
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  // Octets that one packet mbuf needs for frames of this MTU on this device, headroom included.
  [[nodiscard]] static uint32_t packet_data_bytes(const PortSettings& settings);

  [[nodiscard]] uint16_t rx(std::array<rte_mbuf*, kBurst>& mbufs);
  void tx(Instant now, std::span<wire::TxPacket> packets);
  // Offers what is waiting again. A device that takes nothing for kStuckMax, such as a link whose other end is gone, costs what
  // waits for it: else retries would never run out, dead connections never end, and other ports would wait as well.
  void flush(Instant now);
  [[nodiscard]] bool is_congested() const { return pending_count_ > 0; }

  // A memif link has lost its other end, and has one again. Each change once. Other devices tell nothing.
  [[nodiscard]] LinkEvent poll_link_event() {
    const bool here = lease_.is_cores();
    if (here == was_here_) [[likely]] {
      return LinkEvent::kNone;
    }
    was_here_ = here;
    return here ? LinkEvent::kRestored : LinkEvent::kLost;
  }

  [[nodiscard]] wire::MacAddress mac() const { return mac_; }
  // DPDK's names: "net_memif0" or a PCI address, and "net_memif".
  [[nodiscard]] std::string device() const;
  [[nodiscard]] const std::string& driver() const { return driver_; }
  [[nodiscard]] bool link_up() const;
  [[nodiscard]] uint64_t rx_missed() const;  // by the device: imissed
  [[nodiscard]] uint64_t rx_no_mbuf() const;
  [[nodiscard]] uint64_t rx_errors() const;  // broken on the wire: ierrors
  [[nodiscard]] const PortStats& stats() const { return stats_; }
  [[nodiscard]] const PortSettings& settings() const { return settings_; }

 private:
  Port(const PortSettings& settings, MbufPools& pools) : settings_(settings), pools_(pools) {}
  [[nodiscard]] rte_mbuf* assemble(wire::TxPacket& packet);
  void drop_pending();
  void wait_for_link();
  // By the relay's thread, while the lease is the keeper's.
  [[nodiscard]] bool restart();
  static constexpr uint32_t kPendingMax = 2 * wire::TxBatch::kCapacity;
  static constexpr Duration kStuckMax = Duration::ms(10);

  PortSettings settings_;
  MbufPools& pools_;
  uint16_t id_ = RTE_MAX_ETHPORTS;
  bool started_ = false;
  wire::MacAddress mac_;
  std::string driver_;
  PortStats stats_;
  std::array<rte_mbuf*, kPendingMax> pending_{};
  uint32_t pending_count_ = 0;
  DeviceLease lease_;                       // the relay's while the link is down; else the core's
  std::unique_ptr<MemifRelay> relay_;       // memif only
  bool was_here_ = true;                    // at the last poll_link_event()
  Instant stuck_since_ = Instant::never();  // the first refusal since the device last took a packet
};

}  // namespace cw::dataplane
