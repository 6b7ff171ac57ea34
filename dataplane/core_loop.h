// One poll core: receive a burst, let the protocol stack and what sits on it act, transmit. Run to completion, nothing shared.
//
//   rx burst -> Node::on_frame ...   CoreApp::turn   deadlines   Node::poll_transmit -> tx burst
//
// The clock is read once per turn. When nothing happens for a while the core sleeps for some microseconds at a time (idle mode
// "sleep"), woken early by its Wakeup; in idle mode "spin" it never does.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "control/node/node.h"
#include "dataplane/dpdk/mbuf_pool.h"
#include "dataplane/dpdk/port.h"
#include "dataplane/tsc_clock.h"
#include "dataplane/wakeup.h"
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

class CoreLoop {
 public:
  CoreLoop(node::Node& node, std::span<const std::unique_ptr<Port>> ports, MbufPools& pools, const TscClock& clock, CoreApp& app,
           Wakeup& wakeup, bool spin);

  // Until `stop`.
  void run(const std::atomic<bool>& stop);
  // One turn; true when something was done. For benches and tests.
  bool turn(Instant now);
  [[nodiscard]] const telemetry::CoreLoopStats& stats() const { return stats_; }

 private:
  bool receive(Instant now);
  void on_link_event(uint16_t port, LinkEvent event);
  bool transmit(Instant now);
  void sleep(Instant now);

  node::Node& node_;
  std::span<const std::unique_ptr<Port>> ports_;
  const TscClock& clock_;
  CoreApp& app_;
  Wakeup& wakeup_;
  bool spin_;
  wire::TxBatch batch_;
  telemetry::CoreLoopStats stats_;
};

}  // namespace cw::dataplane
