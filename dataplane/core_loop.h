// One poll core: receive a burst, let the protocol stack and what sits on it act, transmit. Run to completion, nothing shared.
//
//   rx burst -> Node::on_frame ...   CoreApp::turn   deadlines   Node::poll_transmit -> tx burst
//
// Where there are several cores, a frame that Steering gives to another one goes there before anything else is done with it, and
// the frames of others come in behind the own burst.
//
// The clock is read once per turn. When nothing happens for a while the core sleeps for some microseconds at a time (idle mode
// "sleep"), woken early by its Wakeup; in idle mode "spin" it never does.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "control/capture/capture_ring.h"
#include "dataplane/core_exchange.h"
#include "dataplane/dpdk/mbuf_pool.h"
#include "dataplane/dpdk/port_queue.h"
#include "dataplane/tsc_clock.h"
#include "dataplane/wakeup.h"
#include "gateway/node/node.h"
#include "gateway/node/steering.h"
#include "rocev2/wire/tx_batch.h"
#include "telemetry/core_snapshot.h"

namespace cw::dataplane {

// What sits on the stack of a core: the gateway, or the load generator. One virtual call per turn.
class CoreApp {
 public:
  virtual ~CoreApp() = default;
  // Acts on what the node has and on the app's own rings. True when there was something to do.
  virtual bool turn(Instant now) = 0;
  // The app has input that arrived meanwhile: do not sleep.
  [[nodiscard]] virtual bool has_input() const = 0;
  [[nodiscard]] virtual Instant next_deadline() const = 0;
};

// What a core does with a turn in which nothing happened.
struct IdlePolicy {
  bool spins = false;   // never sleeps
  bool yields = false;  // workers have its CPU too, and what it waits for may wait for the CPU
};

class CoreLoop {
 public:
  CoreLoop(node::Node& node, std::span<const std::unique_ptr<PortQueue>> queues, MbufPools& pools, const TscClock& clock,
           CoreApp& app, Wakeup& wakeup, const IdlePolicy& idle);
  // This core is one of several: `share` says which, and `exchange` leads to the others and outlives the loop.
  void share_with(const CoreShare& share, CoreExchange& exchange);

  // Any thread: see PollCore.
  void set_tap(control::capture::CaptureRing* tap) { tap_.store(tap, std::memory_order_release); }

  // Until `stop`.
  void run(const std::atomic<bool>& stop);
  // One turn; true when something was done. For benches and tests.
  bool turn(Instant now);
  [[nodiscard]] const telemetry::CoreLoopStats& stats() const { return stats_; }

 private:
  bool receive(Instant now);
  void take(Instant now, uint16_t port, std::span<rte_mbuf* const> mbufs);
  bool serve(Instant now);
  void watch_watermark(bool received);
  void prefetch(std::span<rte_mbuf* const> mbufs);
  bool receive_handed(Instant now);
  [[nodiscard]] bool is_others(rte_mbuf* mbuf, uint16_t port);
  bool carry_for_others(Instant now);
  // Offers the devices what waits for them; false when one of them does not take it all.
  bool flush(Instant now);
  static void capture_received(Instant now, std::span<rte_mbuf* const> mbufs, control::capture::CaptureRing& tap);
  static void capture_sent(Instant now, std::span<const wire::TxPacket> packets, control::capture::CaptureRing& tap);
  void on_link_event(uint16_t port, LinkEvent event);
  bool transmit(Instant now);
  void sleep(Instant now);

  node::Node& node_;
  std::span<const std::unique_ptr<PortQueue>> queues_;
  MbufPools& pools_;
  const TscClock& clock_;
  CoreApp& app_;
  Wakeup& wakeup_;
  IdlePolicy idle_;
  CoreExchange* exchange_ = nullptr;                          // nullptr: the only core
  std::atomic<control::capture::CaptureRing*> tap_{nullptr};  // nullptr: nothing is captured
  node::Steering steering_;
  uint32_t next_carried_ = 0;  // the core whose packets go first
  bool received_ = false;      // packets, in the last turn
  BufferWatermark watermark_ = BufferWatermark::kPlenty;
  wire::TxBatch batch_;
  telemetry::CoreLoopStats stats_;
};

}  // namespace cw::dataplane
