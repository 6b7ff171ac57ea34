// Two managers back to back: whatever the link does, every connection ends once on each side, and nothing is left behind.
#include <gtest/gtest.h>

#include "tests/unit/cm/two_hosts.h"

namespace cw::cm {
namespace {

using test::LinkFaults;
using test::TwoHosts;

// Phase one: connections come and go while the link misbehaves. Phase two: it behaves, all hang up, everything has to be over in
// a bounded time.
void expect_clean_life(uint64_t seed, const LinkFaults& faults, bool crashes) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  TwoHosts net(seed);
  net.faults = faults;
  for (int i = 0; i < 60; ++i) {
    net.connect(static_cast<int>(net.random.next_below(2)));
    net.run_for(Duration::ms(net.random.next_below(400)));
    if (crashes && net.random.next_below(12) == 0) {
      net.crash(static_cast<int>(net.random.next_below(2)));
    }
  }
  net.faults = {};
  net.fickle = false;
  net.run_for(Duration::seconds(5));
  net.disconnect_all();
  net.run_for(Duration::seconds(90));
  EXPECT_TRUE(net.is_quiet());
}

TEST(CmTwoHosts, EverythingEndsOverAPerfectLink) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    expect_clean_life(seed, {}, false);
  }
}

TEST(CmTwoHosts, EverythingEndsOverALinkThatLosesDuplicatesAndReorders) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    expect_clean_life(seed, {.loss_percent = 20, .duplicate_percent = 20, .delay_max = Duration::ms(300)}, false);
  }
}

TEST(CmTwoHosts, EverythingEndsWhenMostIsLost) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    expect_clean_life(seed, {.loss_percent = 80, .duplicate_percent = 10, .delay_max = Duration::seconds(2)}, false);
  }
}

TEST(CmTwoHosts, EverythingEndsWhenHostsCrashAndComeBack) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    expect_clean_life(seed, {.loss_percent = 10, .duplicate_percent = 10, .delay_max = Duration::ms(50)}, true);
  }
}

TEST(CmTwoHosts, ModerateLossCostsTimeAndNoConnection) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    TwoHosts net(seed);
    net.fickle = false;
    net.faults = {.loss_percent = 15, .duplicate_percent = 5, .delay_max = Duration::ms(2)};
    for (int i = 0; i < 50; ++i) {
      net.connect(1);
    }
    net.run_for(Duration::seconds(5));
    net.talk(1);  // an RTU that was lost as often as a REP is repeated
    net.run_for(Duration::seconds(24));
    EXPECT_EQ(net.hosts[0].stats.established, 50u) << "seed " << seed;
    EXPECT_EQ(net.hosts[1].stats.established, 50u) << "seed " << seed;
    net.disconnect_all();
    net.run_for(Duration::seconds(60));
    EXPECT_TRUE(net.is_quiet());
  }
}

TEST(CmTwoHosts, ACrashedClientIsBackWithinARoundTrip) {
  TwoHosts net(1);
  net.fickle = false;
  net.connect(1);
  net.run_for(Duration::ms(100));
  ASSERT_EQ(net.hosts[0].stats.established, 1u);
  net.crash(1);
  net.connect(1);  // the same first QPN as before
  net.run_for(Duration::ms(100));
  EXPECT_EQ(net.hosts[0].stats.established, 2u);
  EXPECT_EQ(net.hosts[0].stats.ended, 1u);
  EXPECT_EQ(net.hosts[0].manager->stats().ended(CmOutcome::kSuperseded), 1u);
  EXPECT_EQ(net.hosts[0].open.size(), 1u);
}

TEST(CmTwoHosts, ARestartedGatewayLetsItsClientsHangUpAtOnce) {
  TwoHosts net(2);
  net.fickle = false;
  for (int i = 0; i < 20; ++i) {
    net.connect(1);
  }
  net.run_for(Duration::ms(500));
  ASSERT_EQ(net.hosts[1].stats.established, 20u);
  net.crash(0);
  net.disconnect_all();
  net.run_for(Duration::ms(10));
  EXPECT_EQ(net.hosts[1].stats.ended, 20u);
  EXPECT_EQ(net.hosts[1].manager->stats().ended(CmOutcome::kLocalDisconnect), 20u);
  for (int i = 0; i < 20; ++i) {
    net.connect(1);
  }
  net.run_for(Duration::ms(500));
  EXPECT_EQ(net.hosts[1].stats.established, 40u);
}

TEST(CmTwoHosts, TwentyThousandConnectionsComeAndGo) {
  CmOptions options;
  options.connection_max = 16;
  options.timewait_max = 64;
  TwoHosts net(3, options);
  net.fickle = false;
  constexpr uint32_t kCycles = 20'000;
  for (uint32_t i = 0; i < kCycles; ++i) {
    net.connect(1);
    net.run_for(Duration::ms(15));
    net.disconnect_all();
    net.run_for(Duration::ms(2));
  }
  for (const TwoHosts::Host& host : net.hosts) {
    EXPECT_EQ(host.stats.established, kCycles);
    EXPECT_EQ(host.stats.ended, kCycles);
    EXPECT_EQ(host.manager->live_count(), 0u);
    EXPECT_LE(host.manager->timewait_count(), 80u);
  }
  net.run_for(Duration::seconds(30));
  EXPECT_TRUE(net.is_quiet());
}

}  // namespace
}  // namespace cw::cm
