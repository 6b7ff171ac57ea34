// One poll core: receive a burst, let the protocol stack and what sits on it act, transmit. Run to completion, nothing shared.
//
//   rx burst -> CaptureTap -> BurstSplit -> CoreHandover -> Node::on_frame ... WatermarkWatch
//   CoreApp::turn   deadlines   Node::poll_transmit -> CaptureTap -> tx burst
//
// The clock is read once per turn. When nothing happens for a while the core sleeps for microseconds at a time, and when nothing
// happens for long, for milliseconds (idle mode "sleep"), woken early by its Wakeup; in idle mode "spin" it never does.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/assert.h"
#include "dataplane/buffer_pools.h"
#include "dataplane/burst_split.h"
#include "dataplane/capture_tap.h"
#include "dataplane/core_handover.h"
#include "dataplane/dpdk/port_queue.h"
#include "dataplane/tsc_clock.h"
#include "dataplane/wakeup.h"
#include "dataplane/watermark_watch.h"
#include "dataplane/wire_shell.h"
#include "gateway/node/node.h"
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
  CoreLoop(node::Node& node, std::span<const std::unique_ptr<PortQueue>> queues, BufferPools& pools, const TscClock& clock,
           CoreApp& app, Wakeup& wakeup, const IdlePolicy& idle);
  // This core is one of several: `share` says which. The first `roce_cores` of them take RoCE clients. `exchange` leads to the
  // others and outlives the loop.
  void share_with(const CoreShare& share, uint32_t roce_cores, CoreExchange& exchange) {
    handover_.share_with(share, roce_cores, exchange);
  }

  // The core has this wire, too. It outlives the loop.
  void add_wire(WireShell& wire) {
    CW_ASSERT(wires_.size() < kWiresMax);
    wires_.push_back({.shell = &wire});
  }

  // Any thread: see PollCore.
  void set_tap(control::capture::CaptureRing* tap) { tap_.set(tap); }

  // Until `stop`.
  void run(const std::atomic<bool>& stop);
  // One turn; true when something was done. For benches and tests.
  bool turn(Instant now);
  [[nodiscard]] const telemetry::CoreLoopStats& stats() const { return stats_; }

 private:
  // The stages of a turn; each is true when there was something to do.
  bool receive(Instant now);
  bool serve(Instant now);
  bool transmit(Instant now);

  bool receive_port(Instant now, uint16_t port);
  void take(Instant now, uint16_t port, std::span<rte_mbuf* const> mbufs);
  void on_link_event(uint16_t port, LinkEvent event);
  // Offers the devices what waits for them; false when one of them does not take it all.
  bool flush(Instant now);
  void send(Instant now, std::span<wire::TxPacket> packets);
  void sleep(Instant now, Duration quiet);
  [[nodiscard]] bool receive_wires(Instant now);

  node::Node& node_;
  std::span<const std::unique_ptr<PortQueue>> queues_;
  const TscClock& clock_;
  CoreApp& app_;
  Wakeup& wakeup_;
  IdlePolicy idle_;
  bool polls_ports_;  // has a queue of its own at one of them
  static constexpr size_t kWiresMax = 4;
  struct Wire {
    WireShell* shell = nullptr;
    Instant after;  // when it is looked at next, while it is quiet
  };
  std::vector<Wire> wires_;
  BurstSplit split_;
  telemetry::CoreLoopStats stats_;
  CaptureTap tap_;
  CoreHandover handover_;
  WatermarkWatch watermark_;
  wire::TxBatch batch_;
};

}  // namespace cw::dataplane
