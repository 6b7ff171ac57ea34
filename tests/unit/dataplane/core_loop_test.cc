// In which portions a poll core serves what it has received: a device of DPDK's that is a ring, whose other end we are.
#include "dataplane/core_loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <span>
#include <thread>
#include <vector>

#include "base/random.h"
#include "tests/unit/dataplane/ring_port.h"

namespace cw::dataplane {
namespace {

// Writes down at each of its turns how many frames the node has had by then.
class Watcher final : public CoreApp {
 public:
  explicit Watcher(const node::Node& node) : node_(node) {}
  bool turn(Instant /*now*/) override {
    const auto& discards = node_.port_stats(0).discards;
    seen.push_back(std::accumulate(discards.begin(), discards.end(), uint64_t{0}));
    return false;
  }
  [[nodiscard]] bool has_input() const override { return false; }
  [[nodiscard]] Instant next_deadline() const override { return Instant::never(); }

  std::vector<uint64_t> seen;

 private:
  const node::Node& node_;
};

node::NodeOptions options_of(const Port& port) {
  node::NodeOptions options;
  link::StationOptions& station = options.ports.emplace_back();
  station.mac = port.mac();
  station.mtu = port.settings().mtu;
  return options;
}

class CoreLoopTest : public test::RingPortTest {};

TEST_F(CoreLoopTest, ABurstAfterAPauseIsServedInTwoHalvesAndThoseBehindItWhole) {
  SeededRandom random(1);
  node::Node node(options_of(*port), random, nullptr);
  Watcher watcher(node);
  const TscClock clock;
  Wakeup wakeup;
  Instant now = Instant() + Duration::ms(1000);
  CoreLoop loop(node, queues, *pools, clock, watcher, wakeup, {});
  const auto turn = [&] {
    now = now + Duration::us(1);
    watcher.seen.clear();
    (void)loop.turn(now);
    return watcher.seen;
  };
  using Seen = std::vector<uint64_t>;
  EXPECT_EQ(turn(), (Seen{0}));
  send(now, 9);
  EXPECT_EQ(turn(), (Seen{5, 9}));
  send(now, 9);
  EXPECT_EQ(turn(), (Seen{18})) << "the loop is busy";
  send(now, PortQueue::kBurst);
  EXPECT_EQ(turn(), (Seen{50}));
  EXPECT_EQ(turn(), (Seen{50}));
  send(now, PortQueue::kBurst);
  EXPECT_EQ(turn(), (Seen{66, 82}));
  EXPECT_EQ(turn(), (Seen{82}));
  send(now, 1);
  EXPECT_EQ(turn(), (Seen{83})) << "one frame has no halves";
}

// How often a core sleeps within a time in which nothing happens.
uint64_t sleeps_in(std::chrono::milliseconds time, node::Node& node, std::span<const std::unique_ptr<PortQueue>> queues,
                   BufferPools& pools) {
  Watcher watcher(node);
  const TscClock clock;
  Wakeup wakeup;
  CoreLoop loop(node, queues, pools, clock, watcher, wakeup, {});
  std::atomic<bool> stop{false};
  std::thread core([&] { loop.run(stop); });
  std::this_thread::sleep_for(time);
  stop = true;
  wakeup.wake();
  core.join();
  return loop.stats().sleeps;
}

// A machine that is busy makes them fewer, never more.
TEST_F(CoreLoopTest, SleepsLongerTheLongerNothingHappens) {
  SeededRandom random(1);
  node::Node node(options_of(*port), random, nullptr);
  const uint64_t sleeps = sleeps_in(std::chrono::milliseconds(400), node, queues, *pools);
  EXPECT_GT(sleeps, 0u);
  EXPECT_LT(sleeps, 800u) << "naps of 50 us would be some thousands";
}

TEST_F(CoreLoopTest, WithoutAQueueItSleepsUntilSomebodyWakesIt) {
  SeededRandom random(1);
  node::Node node(options_of(*port), random, nullptr);
  const uint64_t sleeps = sleeps_in(std::chrono::milliseconds(400), node, {}, *pools);
  EXPECT_GT(sleeps, 0u);
  EXPECT_LT(sleeps, 20u);
}

}  // namespace
}  // namespace cw::dataplane
