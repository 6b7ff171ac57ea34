// A stage of the poll loop, where there are several cores: a frame that Steering gives to another core goes there before anything
// else is done with it, what other cores have received for this one comes in behind the own burst, and packets of cores that have
// no queue of their own at a port leave through this one's.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/core_share.h"
#include "dataplane/core_exchange.h"
#include "dataplane/dpdk/port_queue.h"
#include "gateway/node/node.h"
#include "gateway/node/steering.h"
#include "telemetry/core_snapshot.h"

namespace cw::dataplane {

class CoreHandover {
 public:
  // All must outlive it.
  CoreHandover(node::Node& node, std::span<const std::unique_ptr<PortQueue>> queues, telemetry::CoreLoopStats& stats)
      : node_(node), queues_(queues), stats_(stats), steering_({}, 1, node.endpoint().qpn_codec()) {}

  // This core is one of several; else it is alone, and the stage does nothing.
  void share_with(const CoreShare& share, uint32_t roce_cores, CoreExchange& exchange);
  [[nodiscard]] uint32_t core() const { return steering_.core().index; }

  // True: the frame was another core's, and is gone.
  [[nodiscard]] bool give_away(rte_mbuf* mbuf, uint16_t port) { return exchange_ != nullptr && is_others(mbuf, port); }
  // What others have received for this core. True when there was something.
  [[nodiscard]] bool receive(Instant now) { return exchange_ != nullptr && receive_handed(now); }
  // A burst of each core in turn, so that none of them waits for another one's, as long as `flush()` says that the devices take
  // all of it. True when there was something.
  template <typename Flush>
  [[nodiscard]] bool carry(Flush&& flush) {
    bool worked = false;
    for (uint32_t i = 0; exchange_ != nullptr && i < exchange_->cores(); ++i) {
      worked |= carry_of(next_carried_++ % exchange_->cores());
      if (!flush()) {
        break;
      }
    }
    return worked;
  }
  // At the end of a turn: cores that sleep are woken for what they were given.
  void kick() {
    if (exchange_ != nullptr) {
      exchange_->kick(core());
    }
  }
  [[nodiscard]] bool has_input() const { return exchange_ != nullptr && exchange_->has_input(core()); }

 private:
  [[nodiscard]] bool is_others(rte_mbuf* mbuf, uint16_t port);
  [[nodiscard]] bool receive_handed(Instant now);
  [[nodiscard]] bool carry_of(uint32_t core);

  node::Node& node_;
  std::span<const std::unique_ptr<PortQueue>> queues_;
  telemetry::CoreLoopStats& stats_;
  CoreExchange* exchange_ = nullptr;
  node::Steering steering_;
  uint32_t next_carried_ = 0;  // the core whose packets go first
};

}  // namespace cw::dataplane
