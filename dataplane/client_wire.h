// The wire of a client role on one core: RoCE on a DPDK port of its own, or iWARP on the kernel's TCP, which needs no DPDK. It
// has the transport, and what a CoreLoop carries it by.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/random.h"
#include "dataplane/buffer_pools.h"
#include "dataplane/core_loop.h"
#include "dataplane/dpdk/one_port.h"
#include "dataplane/sockets/tcp_streams.h"
#include "gateway/node/node.h"
#include "gateway/node/roce_transport.h"
#include "iwarp/transport.h"

namespace cw::dataplane {

class ClientWire {
 public:
  // RoCE. All references outlive the wire.
  ClientWire(OnePort& port, const node::NodeOptions& node, const node::RoceOptions& roce, verbs::MemoryTable& memory,
             RandomSource& random);
  // iWARP. `pools` may be shared with other cores.
  ClientWire(BufferPools& pools, const iwarp::IwarpOptions& options, verbs::MemoryTable& memory, RandomSource& random);
  ClientWire(const ClientWire&) = delete;
  ClientWire& operator=(const ClientWire&) = delete;

  [[nodiscard]] BufferPools& pools() { return pools_; }
  [[nodiscard]] verbs::Transport& transport();
  // Makes the loop that turns `app` on this wire. One at a time runs.
  void make_loop(std::optional<CoreLoop>& loop, const TscClock& clock, CoreApp& app, Wakeup& wakeup, const IdlePolicy& idle);
  // nullptr: the wire has no port.
  [[nodiscard]] OnePort* port() { return port_; }

 private:
  OnePort* port_ = nullptr;
  BufferPools& pools_;
  node::Node node_;  // of iWARP: without ports
  std::optional<node::RoceTransport> roce_;
  std::optional<TcpStreams> tcp_;
  std::optional<iwarp::IwarpTransport> iwarp_;
};

}  // namespace cw::dataplane
