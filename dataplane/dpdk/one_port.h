// DPDK's environment, its buffers and one port: what a program with a single poll core and a single link starts with. The load
// generator and the test peers do; causewayd, which has several of both, is assembled from its configuration. A program with
// several cores that share nothing but the buffers opens one for each.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dataplane/dpdk/mbuf_pool.h"
#include "dataplane/dpdk/port.h"
#include "dataplane/dpdk/port_queue.h"
#include "gateway/node/node.h"

namespace cw::dataplane {

struct OnePortSettings {
  std::string instance;  // file prefix of DPDK's run-time files; the process id is appended, so that several may run side by side
  std::string device;    // as in PortSettings
  uint32_t mtu = 1500;   // bytes of an IP packet on the link
  uint32_t lcore = 0;    // CPU of the poll core
  uint32_t memory_mb = 512;
  uint32_t packet_buffers = 32768;
  uint32_t large_buffers = 64;
  uint32_t views = MbufPoolSizes{}.views;
  bool verbose = false;
};

class OnePort {
 public:
  // Once per process. nullptr with one sentence that says what is missing and what to do.
  [[nodiscard]] static std::unique_ptr<OnePort> open(const OnePortSettings& settings, std::string& error);

  // Another port, for another core; of the settings the device and its MTU count. Its buffers are the first one's, which
  // therefore lives longer and is made with enough of them.
  [[nodiscard]] static std::unique_ptr<OnePort> open_beside(OnePort& first, const OnePortSettings& settings, std::string& error);

  [[nodiscard]] MbufPools& pools() { return *pools_; }
  // One for the CoreLoop.
  [[nodiscard]] std::span<const std::unique_ptr<PortQueue>> queues() const { return queues_; }
  // Options of a node on this port, with one address; the rest is the program's to say.
  [[nodiscard]] node::NodeOptions node_options(const IpAddress& address, uint8_t length_bits) const;

 private:
  OnePort() = default;
  [[nodiscard]] bool open_port(const PortSettings& settings, std::string& error);

  std::unique_ptr<MbufPools> own_pools_;  // of the first one
  MbufPools* pools_ = nullptr;
  std::unique_ptr<Port> port_;  // closed before the buffers go
  std::vector<std::unique_ptr<PortQueue>> queues_;
};

}  // namespace cw::dataplane
