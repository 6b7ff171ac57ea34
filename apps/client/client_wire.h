// The wire of one core with the client role: RoCEv2 on a DPDK port of its own; iWARP on the kernel's TCP, which takes neither
// DPDK nor a device; or rdma-core on an RDMA device of the host. It has what outlives connections; transports are made on it, one
// after the other.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "dataplane/buffer_pools.h"
#include "dataplane/core_loop.h"
#include "dataplane/dpdk/one_port.h"
#include "dataplane/entropy.h"
#include "dataplane/rnic/rdma_host.h"
#include "dataplane/sockets/tcp_streams.h"
#include "gateway/node/roce_transport.h"
#include "iwarp/transport.h"
#include "rnic/rnic_memory.h"
#include "rnic/transport.h"
#include "verbs/memory_region.h"

namespace cw::client {

enum class Wire : uint8_t { kRoce, kIwarp, kVerbs };
// As --transport has it.
[[nodiscard]] std::string_view to_string(Wire wire) noexcept;

struct IwarpClientOptions {
  uint32_t connections_max = 64;
  uint32_t calls_max = 1024;  // in flight, over all connections
  bool crc = true;            // asked for; the server may want it anyway
  uint16_t send_queue_depth = iwarp::IwarpOptions{}.send_queue_depth;
};

struct VerbsClientOptions {
  uint32_t connections_max = 64;
  uint32_t window = 16;  // calls in flight of one connection
  std::string device;    // empty: whichever has the way to the server
};

class ClientWire {
 public:
  // RoCE. `link` outlives it. `regions`: of memory that servers may touch at a time.
  ClientWire(dataplane::OnePort& link, const node::NodeOptions& options, uint32_t regions);
  // iWARP. `pools` outlive it.
  ClientWire(dataplane::BufferPools& pools, const IwarpClientOptions& options, uint32_t regions);
  // rdma-core. Likewise.
  ClientWire(dataplane::BufferPools& pools, const VerbsClientOptions& options, uint32_t regions);
  ClientWire(const ClientWire&) = delete;
  ClientWire& operator=(const ClientWire&) = delete;

  // There is one at a time. `roce`: for that wire; its connections_max counts for all.
  [[nodiscard]] std::unique_ptr<verbs::Transport> make_transport(const node::RoceOptions& roce);
  [[nodiscard]] std::unique_ptr<dataplane::CoreLoop> make_loop(const dataplane::TscClock& clock, dataplane::CoreApp& app,
                                                               dataplane::Wakeup& wakeup, const dataplane::IdlePolicy& idle);
  // Says on the link where we are; only RoCE has something to say.
  void announce();

  // How long a program waits behind a set-up before its first message, when it may talk to Linux's siw: that sends the Reply
  // before it listens for messages, and does not notice one that comes in between until another follows.
  [[nodiscard]] Duration settling_time() const { return tcp_ || rdma_ ? Duration::ms(50) : Duration(); }
  // Servers may invalidate what calls expose by SEND with Invalidate: not what a device has registered for itself
  // (rnic/README.md).
  [[nodiscard]] bool takes_invalidation() const { return !rdma_; }
  [[nodiscard]] BufferPool& packets() { return pools_.packets(); }
  // What calls expose, to the server alone.
  [[nodiscard]] verbs::MemoryRegistry& registry() {
    return device_memory_ ? static_cast<verbs::MemoryRegistry&>(*device_memory_) : memory_;
  }
  // Of RoCE and iWARP.
  [[nodiscard]] verbs::MemoryTable& memory() { return memory_; }
  [[nodiscard]] dataplane::Entropy& random() { return random_; }

 private:
  dataplane::BufferPools& pools_;
  std::span<const std::unique_ptr<dataplane::PortQueue>> queues_;  // none: iWARP
  dataplane::Entropy random_;
  verbs::MemoryTable memory_;
  node::Node node_;
  IwarpClientOptions iwarp_;
  std::optional<dataplane::TcpStreams> tcp_;  // iWARP
  VerbsClientOptions verbs_;
  std::optional<dataplane::RdmaHost> rdma_;        // rdma-core
  std::optional<rnic::RnicMemory> device_memory_;  // rdma-core
};

// What a refusal means for whoever runs the program, for the end of a sentence: empty when the word says it all.
[[nodiscard]] std::string advice_for(const verbs::Rejection& rejection, Wire wire);

}  // namespace cw::client
