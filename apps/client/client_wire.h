// The wire of one core with the client role: RoCEv2 on a DPDK port of its own, or iWARP on the kernel's TCP, which takes neither
// DPDK nor a device. It has what outlives connections; transports are made on it, one after the other.
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
#include "dataplane/sockets/tcp_streams.h"
#include "gateway/node/roce_transport.h"
#include "iwarp/transport.h"
#include "verbs/memory_region.h"

namespace cw::client {

struct IwarpClientOptions {
  uint32_t connections_max = 64;
  uint32_t calls_max = 1024;  // in flight, over all connections
  bool crc = true;            // asked for; the server may want it anyway
  uint16_t send_queue_depth = iwarp::IwarpOptions{}.send_queue_depth;
};

class ClientWire {
 public:
  // RoCE. `link` outlives it. `regions`: of memory that servers may touch at a time.
  ClientWire(dataplane::OnePort& link, const node::NodeOptions& options, uint32_t regions);
  // iWARP. `pools` outlive it.
  ClientWire(dataplane::BufferPools& pools, const IwarpClientOptions& options, uint32_t regions);
  ClientWire(const ClientWire&) = delete;
  ClientWire& operator=(const ClientWire&) = delete;

  // There is one at a time. `roce`: for that wire; its connections_max counts for both.
  [[nodiscard]] std::unique_ptr<verbs::Transport> make_transport(const node::RoceOptions& roce);
  [[nodiscard]] std::unique_ptr<dataplane::CoreLoop> make_loop(const dataplane::TscClock& clock, dataplane::CoreApp& app,
                                                               dataplane::Wakeup& wakeup, const dataplane::IdlePolicy& idle);
  // Says on the link where we are; iWARP has nothing to say.
  void announce();

  // How long a program waits behind a set-up before its first message, when it may talk to Linux's siw: that sends the Reply
  // before it listens for messages, and does not notice one that comes in between until another follows.
  [[nodiscard]] Duration settling_time() const { return tcp_ ? Duration::ms(50) : Duration(); }
  [[nodiscard]] BufferPool& packets() { return pools_.packets(); }
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
};

// What a refusal means for whoever runs the program, for the end of a sentence: empty when the word says it all.
[[nodiscard]] std::string advice_for(const verbs::Rejection& rejection, bool is_iwarp);

}  // namespace cw::client
