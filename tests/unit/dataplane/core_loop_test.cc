// In which portions a poll core serves what it has received: a device of DPDK's that is a ring, whose other end we are.
#include "dataplane/core_loop.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "rocev2/base/random.h"

namespace cw::dataplane {
namespace {

constexpr PortSettings kOwnRing{.device = "net_ring1", .mtu = 1500};

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
  station.mtu = kOwnRing.mtu;
  return options;
}

class CoreLoopTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string error;
    pools = MbufPools::create({.packet_buffers = 1023,
                               .packet_data_bytes = control::packet_data_bytes(kOwnRing.device, kOwnRing.mtu),
                               .large_buffers = 31,
                               .views = 511},
                              error);
    ASSERT_NE(pools, nullptr) << error;
    port = Port::open(kOwnRing, *pools, error);
    ASSERT_NE(port, nullptr) << error;
    queues.push_back(std::make_unique<PortQueue>(*port, uint16_t{0}, 0u, *pools, nullptr));
  }
  // Frames that are nobody's.
  void arrive(uint32_t count) {
    wire::TxBatch batch(pools->packets());
    for (uint32_t i = 0; i < count; ++i) {
      wire::TxPacket* packet = batch.add();
      ASSERT_NE(packet, nullptr);
      packet->head->size = 64;
      std::memset(packet->head->data, 0, packet->head->size);
    }
    queues[0]->tx(now, batch.packets());
    batch.reset();
    queues[0]->flush(now);
  }

  std::unique_ptr<MbufPools> pools;
  std::unique_ptr<Port> port;
  std::vector<std::unique_ptr<PortQueue>> queues;
  Instant now = Instant() + Duration::ms(1000);
};

TEST_F(CoreLoopTest, ABurstAfterAPauseIsServedInTwoHalvesAndThoseBehindItWhole) {
  SeededRandom random(1);
  node::Node node(options_of(*port), random, nullptr);
  Watcher watcher(node);
  const TscClock clock;
  Wakeup wakeup;
  CoreLoop loop(node, queues, *pools, clock, watcher, wakeup, {});
  const auto turn = [&] {
    now = now + Duration::us(1);
    watcher.seen.clear();
    (void)loop.turn(now);
    return watcher.seen;
  };
  using Seen = std::vector<uint64_t>;
  EXPECT_EQ(turn(), (Seen{0}));
  arrive(9);
  EXPECT_EQ(turn(), (Seen{5, 9}));
  arrive(9);
  EXPECT_EQ(turn(), (Seen{18})) << "the loop is busy";
  arrive(PortQueue::kBurst);
  EXPECT_EQ(turn(), (Seen{50}));
  EXPECT_EQ(turn(), (Seen{50}));
  arrive(PortQueue::kBurst);
  EXPECT_EQ(turn(), (Seen{66, 82}));
  EXPECT_EQ(turn(), (Seen{82}));
  arrive(1);
  EXPECT_EQ(turn(), (Seen{83})) << "one frame has no halves";
}

}  // namespace
}  // namespace cw::dataplane
