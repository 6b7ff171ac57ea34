// One poll core of the gateway with everything that is its own: queues, protocol stack, gateway, loop. Built by the main thread,
// then run by an lcore; what others may ask of it goes through app().
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/core_share.h"
#include "control/config/config.h"
#include "dataplane/core_exchange.h"
#include "dataplane/core_loop.h"
#include "dataplane/dpdk/mbuf_pool.h"
#include "dataplane/dpdk/port.h"
#include "dataplane/dpdk/port_queue.h"
#include "dataplane/entropy.h"
#include "dataplane/gateway_app.h"
#include "dataplane/rnic/rdma_host.h"
#include "dataplane/sockets/tcp_streams.h"
#include "dataplane/tsc_clock.h"
#include "dataplane/wakeup.h"
#include "dataplane/worker_pool.h"
#include "gateway/config_ids.h"
#include "gateway/connection_quota.h"
#include "iwarp/transport.h"
#include "rnic/transport.h"

namespace cw::dataplane {

// What the cores of a process have in common. What it refers to outlives them; it itself is read by the constructor alone.
struct PollShared {
  const control::Config& config;
  std::span<const std::unique_ptr<Port>> ports;
  BufferPools& pools;
  MbufPools* mbufs = nullptr;  // the same, where there are ports
  WorkerPool& workers;
  rpcrdma::ProgramRegistry& programs;
  gateway::ConnectionQuota& quota;
  gateway::ConnectionQuota& client_quota;
  const gateway::Rates& rates;
  const gateway::ConfigIds& numbers;
  CoreExchange* exchange = nullptr;        // nullptr: there is one core
  RequestDealer* rdma_requests = nullptr;  // likewise
  uint64_t qpn_key = 0;
};

class PollCore {
 public:
  // `wakeup` is the one by which workers and other cores wake this core.
  PollCore(const PollShared& shared, const CoreShare& share, Wakeup& wakeup);

  // Listeners::start().
  [[nodiscard]] Status listen() { return gateway_.start(); }
  // Says on all ports where this gateway's addresses are. Core 0 only: it has the stations that answer.
  void announce();
  // On the core's own lcore, until `stop`.
  void run(const std::atomic<bool>& stop) { loop_.run(stop); }
  // Any thread: frames are offered to the ring, too; nullptr ends it. The ring lives until the core has turned after that.
  void set_tap(control::capture::CaptureRing* tap) { loop_.set_tap(tap); }
  [[nodiscard]] GatewayApp& app() { return app_; }
  [[nodiscard]] uint32_t lcore() const { return lcore_; }
  [[nodiscard]] Instant now() const { return clock_.now(); }

 private:
  [[nodiscard]] static std::vector<std::unique_ptr<PortQueue>> open_queues(const PollShared& shared, const CoreShare& share);

  uint32_t lcore_;
  TscClock clock_;
  Entropy entropy_;
  std::vector<std::unique_ptr<PortQueue>> queues_;
  node::Node node_;
  node::RoceTransport transport_;
  TcpStreams tcp_;
  iwarp::IwarpTransport iwarp_;
  RdmaHost rdma_;
  rnic::RnicTransport rnic_;
  gateway::Gateway gateway_;
  GatewayApp app_;
  CoreLoop loop_;
};

}  // namespace cw::dataplane
