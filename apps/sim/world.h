// A gateway host and a client host on one simulated link: the real stacks, the real gateway and load driver, a simulated
// backend and a simulated clock. Everything follows from the seed.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "apps/sim/faulty_link.h"
#include "apps/sim/hosts.h"

namespace cw::sim {

class World {
 public:
  explicit World(const WorldOptions& options);

  // Opens the connections of the load.
  void start() { peer->driver.start(now); }

  // Runs until `done(world)` or the time is over; true when done.
  template <typename Done>
  bool run_until(Duration limit, Done&& done) {
    const Instant end = now + limit;
    while (!done(*this)) {
      if (now >= end) {
        return false;
      }
      step();
    }
    return true;
  }
  void run_for(Duration time) {
    const Instant end = now + time;
    (void)run_until(time + Duration::seconds(1), [&](World&) { return now >= end; });
  }
  bool run_calls(uint64_t calls, Duration limit = Duration::seconds(60));
  // Stops the load and waits for what is in flight.
  bool finish(Duration limit = Duration::seconds(60));

  // One event: everything that is due at the next instant at which anything is.
  void step();

  // The gateway's process dies without a word and starts again, the second time with another inline size.
  void restart_gateway();
  // It hands its connections over, for `patience` at most, and is gone. What it has written down.
  [[nodiscard]] std::vector<std::vector<uint8_t>> end_handing_over(Duration patience);
  // The same, and the next one is there after `away`. Says how many connections went on.
  uint32_t hand_over_gateway(Duration patience, Duration away);
  void restart_gateway_saying(uint32_t inline_bytes) {
    options_.gateway_inline_bytes = inline_bytes;
    restart_gateway();
  }

  // What the next gateway is made of.
  [[nodiscard]] WorldOptions& options() { return options_; }

  void deliver(node::Node& node, BufferPool& pool, const std::vector<uint8_t>& raw);

  Instant now = Instant::from_ns(1'000'000'000);
  FaultyLink link;
  std::unique_ptr<GatewayHost> server;  // nullptr while it is away
  std::unique_ptr<ClientHost> peer;
  uint64_t undeliverable = 0;  // no buffer, or longer than one

 private:
  void transmit(node::Node& node, BufferPool& pool, uint32_t to);

  WorldOptions options_;
  uint64_t generation_ = 0;
};

}  // namespace cw::sim
