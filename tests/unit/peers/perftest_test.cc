#include "tests/peers/perftest_peer.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/unit/peers/peer_world.h"

namespace cw::peers {
namespace {

using enum PerftestOperation;

constexpr PerftestOperation kOperations[] = {kSendBw, kSendLat, kWriteBw, kWriteLat, kReadBw, kReadLat};

constexpr uint32_t kManyBuffers = 12000;  // for messages of 8 MiB

struct PerftestRun {
  PerftestOptions options;
  PeerWorldOptions world;
  sim::LinkFaults faults;
};

std::unique_ptr<PerftestPeer> make_peer(PerftestOptions options, PerftestRole role, PeerWorldHost& host, uint32_t path_mtu) {
  options.role = role;
  options.verify = true;
  return std::make_unique<PerftestPeer>(options, path_mtu, verbs::ProtectionDomain(1), host.memory, host.packets, host.packets);
}

void serve(PeerWorld& world, const PerftestOptions& options) {
  const Status listening = world.server().host.serve(
      kPerftestPort, 1, [&world, options] { return make_peer(options, PerftestRole::kServer, world.server(), world.path_mtu); });
  ASSERT_TRUE(listening.ok());
}

void open(PeerWorld& world, const PerftestOptions& options) {
  world.client().host.open(world.now, PeerWorldHost::address(1), kPerftestPort,
                           make_peer(options, PerftestRole::kClient, world.client(), world.path_mtu));
}

void run_perftest(const PerftestRun& run) {
  SCOPED_TRACE(std::string(to_string(run.options.operation)) + ", up to " + std::to_string(run.options.bytes_max()) +
               " bytes, MTU " + std::to_string(run.world.path_mtu) + ", seed " + std::to_string(run.world.seed));
  PeerWorld world(run.world);
  world.link.faults = run.faults;
  serve(world, run.options);
  open(world, run.options);
  ASSERT_TRUE(world.run());
  Peer& client = world.client().host.peer(0);
  Peer& server = world.server().host.peer(0);
  EXPECT_EQ(client.outcome(), Outcome::kDone) << client.failure();
  EXPECT_EQ(server.outcome(), Outcome::kDone) << server.failure();
  EXPECT_EQ(dynamic_cast<PerftestPeer&>(client).results().size(), run.options.sizes.size());
}

TEST(Perftest, CarriesEverySizeUnchanged) {
  for (const PerftestOperation operation : kOperations) {
    std::vector<uint64_t> sizes{1, 2, 3, 511, 1023, 1024, 1025, 4095, 4096, 4097, 12288, 65536};
    run_perftest({.options = {.operation = operation, .sizes = sizes, .iterations = 20}});
    run_perftest({.options = {.operation = operation, .sizes = sizes, .iterations = 20}, .world = {.path_mtu = 1024}});
    run_perftest({.options = {.operation = operation, .sizes = sizes, .iterations = 20}, .world = {.path_mtu = 256}});
  }
}

TEST(Perftest, CarriesNothing) {
  for (const PerftestOperation operation : {kSendBw, kSendLat, kWriteBw, kReadBw, kReadLat}) {
    run_perftest({.options = {.operation = operation, .sizes = {0}, .iterations = 50}});
  }
}

TEST(Perftest, CarriesEightMebibytesUnchanged) {
  for (const PerftestOperation operation : kOperations) {
    run_perftest(
        {.options = {.operation = operation, .sizes = {8u << 20}, .iterations = 2}, .world = {.packet_buffers = kManyBuffers}});
  }
}

TEST(Perftest, CarriesEightMebibytesOverABadLink) {
  for (const PerftestOperation operation : kOperations) {
    run_perftest({.options = {.operation = operation, .sizes = {8u << 20}, .iterations = 1},
                  .world = {.packet_buffers = kManyBuffers},
                  .faults = {.loss = 5, .duplicate = 5, .reorder = 5}});
  }
}

TEST(Perftest, UsesManyQueuePairsAtOnceOverABadLink) {
  for (const PerftestOperation operation : {kSendBw, kWriteBw, kReadBw}) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      run_perftest({.options = {.operation = operation, .sizes = {10000}, .iterations = 50, .qps = 16},
                    .world = {.seed = seed, .path_mtu = 1024},
                    .faults = {.loss = 10, .duplicate = 10, .reorder = 10}});
    }
  }
}

TEST(Perftest, SurvivesLossInEveryTest) {
  for (const PerftestOperation operation : kOperations) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      run_perftest({.options = {.operation = operation, .sizes = {1, 3000, 9000}, .iterations = 100},
                    .world = {.seed = seed},
                    .faults = {.loss = 10, .duplicate = 10, .reorder = 10, .corrupt = 3}});
    }
  }
}

TEST(Perftest, GoesThroughAllSizesOfPerftest) {
  for (const PerftestOperation operation : {kSendBw, kWriteBw}) {
    run_perftest({.options = {.operation = operation, .sizes = perftest_all_sizes(operation), .iterations = 5},
                  .world = {.packet_buffers = kManyBuffers}});
  }
}

TEST(Perftest, SendersOverIwarpWaitForCredits) {
  for (const uint64_t few : {1u, 2u, 5u, 50u}) {
    run_perftest({.options = {.operation = kSendBw, .sizes = {1, 100}, .iterations = few, .credits = true}});
  }
  for (const uint32_t qps : {1u, 3u}) {
    run_perftest({.options = {.operation = kSendBw, .sizes = {1, 100}, .iterations = 2000, .qps = qps, .credits = true}});
  }
  run_perftest({.options = {.operation = kSendBw, .sizes = {100}, .iterations = 3000, .credits = true},
                .faults = {.loss = 10, .duplicate = 10, .reorder = 10}});
}

// Nobody grants any: what the receiver began with is all that is sent.
TEST(Perftest, WithoutCreditsASenderStops) {
  PeerWorld world(PeerWorldOptions{});
  const PerftestOptions options{.operation = kSendBw, .sizes = {100}, .iterations = 2000};
  serve(world, options);
  PerftestOptions waits = options;
  waits.credits = true;
  open(world, waits);
  EXPECT_FALSE(world.run(Duration::seconds(5)));
  EXPECT_EQ(world.client().host.peer(0).outcome(), Outcome::kRunning);
}

TEST(Perftest, AddsEachTimeExactlyOnce) {
  for (const PerftestOperation operation : {kAtomicBw, kAtomicLat}) {
    run_perftest({.options = {.operation = operation, .sizes = {8}, .iterations = 1000}});
  }
}

TEST(Perftest, AddsEachTimeExactlyOnceOverABadLink) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const sim::LinkFaults faults{.loss = 20, .duplicate = 20, .reorder = 20, .corrupt = 5};
    run_perftest(
        {.options = {.operation = kAtomicLat, .sizes = {8}, .iterations = 300}, .world = {.seed = seed}, .faults = faults});
    run_perftest({.options = {.operation = kAtomicBw, .sizes = {8}, .iterations = 300, .qps = 8},
                  .world = {.seed = seed},
                  .faults = faults});
  }
}

TEST(Perftest, FailsOnBothSidesWhenTheNumbersOfMessagesDiffer) {
  PeerWorld world({});
  PerftestOptions options{.operation = kSendBw, .sizes = {100}, .iterations = 10};
  serve(world, options);
  options.iterations = 11;
  open(world, options);
  EXPECT_FALSE(world.run(Duration::seconds(2)));  // the server has no receive for the last message
  world.client().host.give_up("the test is over");
  EXPECT_TRUE(world.run());
  EXPECT_EQ(world.server().host.peer(0).outcome(), Outcome::kFailed);
}

TEST(Perftest, DoesNotGoBackWhileTheOtherSideMaySitOnItsAcknowledgement) {
  PeerWorld world({});
  world.link.faults.delay = Duration::ms(80);  // there and back: more than the path's share of 67 ms, less than the sum of 201 ms
  const PerftestOptions options{.operation = kWriteBw, .sizes = {9000}, .iterations = 200, .qps = 2};
  serve(world, options);
  open(world, options);
  ASSERT_TRUE(world.run());
  EXPECT_EQ(world.client().host.peer(0).outcome(), Outcome::kDone) << world.client().host.peer(0).failure();
  EXPECT_EQ(world.client().node.endpoint().stats().ack_timeouts, 0u);
  EXPECT_EQ(world.server().node.endpoint().stats().ack_timeouts, 0u);
}

TEST(Perftest, LeavesNoQueuePairAndNoMemoryBehind) {
  PeerWorld world({});
  const PerftestOptions options{.operation = kWriteBw, .sizes = {5000}, .iterations = 10, .qps = 4};
  serve(world, options);
  open(world, options);
  ASSERT_TRUE(world.run());
  EXPECT_EQ(world.client().host.peer(0).outcome(), Outcome::kDone);
  EXPECT_EQ(world.server().node.endpoint().qp_count(), 0u);
  EXPECT_EQ(world.client().node.endpoint().qp_count(), 0u);
}

}  // namespace
}  // namespace cw::peers
