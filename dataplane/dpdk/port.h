// One DPDK ethdev: opened, configured, started, with as many queues as it has and the poll cores can use. Frames go in and out by
// each core's PortQueue.
#pragma once

#include <rte_ethdev.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/ip_address.h"
#include "dataplane/dpdk/device_lease.h"
#include "dataplane/dpdk/exception_path.h"
#include "dataplane/dpdk/flow_rules.h"
#include "dataplane/dpdk/mbuf_pool.h"
#include "dataplane/dpdk/memif_relay.h"
#include "dataplane/xdp/xdp_filter.h"
#include "rocev2/wire/mac_address.h"

namespace cw::dataplane {

struct PortSettings {
  std::string device;  // "net_vhost0,iface=..." (created here) or a PCI address or the name of an existing device
  uint32_t mtu = 1500;
  uint32_t cores = 1;  // poll cores of the process
  // The last so many of them serve another wire: they take no queue.
  uint32_t cores_without_queue = 0;
  uint16_t descriptors = 1024;
  // The kernel keeps the interface, and RoCE packets to `taken` in `vlan` (0 = untagged) are all that comes here: by an XDP
  // program (net_af_xdp) or by rules of the driver (others).
  bool beside_kernel = false;
  std::vector<IpAddress> taken;
  uint16_t vlan = 0;
  std::string exception_tap;  // the same by way of a TAP interface, for other devices; empty: none
};

class Port {
 public:
  // Creates the device where needed, configures and starts it.
  [[nodiscard]] static std::unique_ptr<Port> open(const PortSettings& settings, MbufPools& pools, std::string& error);
  ~Port();
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  [[nodiscard]] uint16_t id() const { return id_; }
  // Receive and transmit queues: 1..cores. Core i has queue i; cores beyond receive nothing here and send by queue i % queues().
  [[nodiscard]] uint16_t queues() const { return queues_; }
  [[nodiscard]] DeviceLease& lease(uint32_t core) { return leases_.of(core); }
  [[nodiscard]] wire::MacAddress mac() const { return mac_; }
  // Where the kernel's frames go and come from; nullptr: no such path.
  [[nodiscard]] ExceptionPath* exception() const { return exception_.get(); }
  // How packets reach their core, and what the driver said to rules that it refused; empty: nothing, or they were not tried.
  [[nodiscard]] PortSteering steering() const { return steering_; }
  [[nodiscard]] const std::string& steering_refusal() const { return steering_refusal_; }
  // The driver sends one segment per packet and would lose the others.
  [[nodiscard]] bool sends_one_segment() const { return sends_one_segment_; }
  // What is sent is received as the same mbuf, within this process.
  [[nodiscard]] bool gives_mbufs_away() const { return driver_ == "net_ring"; }
  // DPDK's names: "net_memif0" or a PCI address, and "net_memif".
  [[nodiscard]] std::string device() const;
  [[nodiscard]] const std::string& driver() const { return driver_; }
  // The kernel's, of a port beside it; else empty.
  [[nodiscard]] std::string interface() const;
  // Asks the device for its link; one thread at a time, and no poll core. Two at once are told by the driver of e1000e that the
  // link is down, and it waits for the PHY.
  void look_at_link();
  // At the last look.
  [[nodiscard]] bool link_up() const { return link_up_.load(std::memory_order_relaxed); }
  // As the driver reports it; 0: it does not know.
  [[nodiscard]] uint32_t link_mbps() const { return link_mbps_.load(std::memory_order_relaxed); }
  [[nodiscard]] uint64_t rx_missed() const;  // by the device: imissed
  [[nodiscard]] uint64_t rx_no_mbuf() const;
  [[nodiscard]] uint64_t rx_errors() const;  // broken on the wire: ierrors
  // Other ends of a memif link that were sent away before it was up.
  [[nodiscard]] uint64_t links_refused() const;
  [[nodiscard]] const PortSettings& settings() const { return settings_; }

 private:
  explicit Port(const PortSettings& settings) : settings_(settings), leases_(settings.cores) {}
  [[nodiscard]] bool find_or_make(std::string& error);
  [[nodiscard]] bool configure(const rte_eth_dev_info& info, MbufPools& pools, std::string& error);
  void wait_for_link();
  [[nodiscard]] bool share_with_kernel(std::string& error);
  [[nodiscard]] bool leave_the_rest(std::string& error) const;
  [[nodiscard]] bool make_rules(const rte_eth_dev_info& info, std::string& error);
  [[nodiscard]] bool is_isolated() const { return settings_.beside_kernel && xdp_ == nullptr; }
  [[nodiscard]] bool failed(const char* step, int result, std::string& error) const;
  // By the relay's thread, while the leases are the keeper's.
  [[nodiscard]] bool restart();

  PortSettings settings_;
  uint16_t id_ = RTE_MAX_ETHPORTS;
  uint16_t queues_ = 1;
  bool started_ = false;
  bool sends_one_segment_ = false;
  wire::MacAddress mac_;
  std::atomic<bool> link_up_ = false;
  std::atomic<uint32_t> link_mbps_ = 0;
  std::string driver_;
  DeviceLeases leases_;                // the relay's while the link is down; else the cores'
  std::unique_ptr<NameClaim> claim_;   // vhost in the server role only
  std::unique_ptr<MemifRelay> relay_;  // memif only
  std::unique_ptr<XdpFilter> xdp_;     // net_af_xdp beside the kernel only
  std::unique_ptr<FlowRules> flows_;   // as long as the device is started; nullptr: there are none
  PortSteering steering_ = PortSteering::kNone;
  std::string steering_refusal_;
  std::unique_ptr<ExceptionPath> exception_;
};

}  // namespace cw::dataplane
