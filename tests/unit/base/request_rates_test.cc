#include "base/request_rates.h"

#include <gtest/gtest.h>

namespace cw {
namespace {

constexpr RateLimit kAll{.per_second = 1000, .burst = 500};
constexpr RateLimit kOfOneNetwork{.per_second = 750, .burst = 375};

struct Door {
  SeededRandom random{7};
  PrefixTable prefixes{PrefixLimits{.request_rate = kOfOneNetwork}, random};
  RequestRates rates{kAll, random};
  Instant now;

  RequestVerdict ask(const IpAddress& client) { return rates.take(now, client, prefixes, prefixes.find(now, client)); }
  // How many of `count` requests of one client are taken.
  uint32_t taken(const IpAddress& client, uint32_t count) {
    uint32_t out = 0;
    for (uint32_t i = 0; i < count; ++i) {
      out += ask(client) == RequestVerdict::kTaken ? 1 : 0;
    }
    return out;
  }
  // Two thousand networks ask once each.
  void flood() {
    for (uint32_t i = 0; i < 2000; ++i) {
      (void)ask(IpAddress::v4(0x0c00'0000 + i * 256));
    }
  }
};

const IpAddress kClient = IpAddress::v4(0x0a00'0005);
const IpAddress kNeighbour = IpAddress::v4(0x0a00'0006);

TEST(RequestRates, AFloodFromManyNetworksKeepsStrangersOutAndNobodyWhoHadAConnection) {
  Door door;
  door.rates.know(door.now, kClient);
  door.flood();
  EXPECT_EQ(door.ask(kNeighbour), RequestVerdict::kRate);
  EXPECT_EQ(door.taken(kClient, 100), RequestRates::kKnownAddress.burst);
  door.now = door.now + Duration::ms(100);
  EXPECT_EQ(door.taken(kClient, 100), 100u);  // what all may ask has come back
}

TEST(RequestRates, AFloodOfANetworkKeepsNobodyOutWhoHadAConnection) {
  Door door;
  door.rates.know(door.now, kClient);
  EXPECT_EQ(door.taken(kNeighbour, 1000), kOfOneNetwork.burst);
  EXPECT_EQ(door.ask(kNeighbour), RequestVerdict::kPrefixRate);
  EXPECT_EQ(door.taken(kClient, 100), RequestRates::kKnownAddress.burst);
}

// A crowd that has had connections comes on top of what all may ask, by a little and no more.
TEST(RequestRates, KnownAddressesTogetherHaveABound) {
  Door door;
  constexpr uint32_t kCrowd = 200;
  for (uint32_t i = 0; i < kCrowd; ++i) {
    door.rates.know(door.now, IpAddress::v4(0x0d00'0000 + i * 256));
  }
  uint32_t taken = 0;
  for (uint32_t i = 0; i < kCrowd; ++i) {
    taken += door.taken(IpAddress::v4(0x0d00'0000 + i * 256), 20);
  }
  EXPECT_EQ(taken, kAll.burst + RequestRates::kKnownBurst);
  door.now = door.now + Duration::seconds(1);
  door.flood();
  EXPECT_EQ(door.taken(IpAddress::v4(0x0d00'0000), 20), RequestRates::kKnownAddress.burst);
}

TEST(RequestRates, TheOneHeardOfTheLongestAgoMakesRoom) {
  Door door;
  door.rates.know(door.now, kClient);
  for (uint32_t i = 0; i < 100 * RequestRates::kKnownMax; ++i) {
    door.now = door.now + Duration::us(1);
    door.rates.know(door.now, IpAddress::v4(0x0e00'0000 + i));
    if (i % 64 == 0) {
      door.rates.know(door.now, kClient);  // and it comes and goes
    }
  }
  door.flood();
  EXPECT_EQ(door.ask(kClient), RequestVerdict::kTaken);
  EXPECT_EQ(door.ask(IpAddress::v4(0x0e00'0000)), RequestVerdict::kRate);
  EXPECT_EQ(door.ask(IpAddress::v4(0x0e00'0000 + 100 * RequestRates::kKnownMax - 1)), RequestVerdict::kTaken);
}

// Whoever has a /64 has all its addresses. What is known of it is one client.
TEST(RequestRates, ConnectionsFromAllOfAnIpv6NetworkPushNobodyOut) {
  const IpAddress honest = parse_ip("2001:db8:1::5").value();
  Door door;
  door.rates.know(door.now, honest);
  IpAddress other = parse_ip("2001:db8:2::").value();
  for (uint32_t i = 1; i < 100 * RequestRates::kKnownMax; ++i) {
    store_be32(other.raw.data() + 12, i);
    door.rates.know(door.now + Duration::us(i), other);
  }
  door.flood();
  EXPECT_EQ(door.taken(other, 100), RequestRates::kKnownAddress.burst);
  store_be32(other.raw.data() + 12, 1);
  EXPECT_EQ(door.taken(other, 100), 0u);
  EXPECT_EQ(door.taken(honest, 100), RequestRates::kKnownAddress.burst);
}

// What was known of an address does not pass to the one that takes its place.
TEST(RequestRates, WhoIsKnownAnewHasAWholeAllowance) {
  Door door;
  door.rates.know(door.now, kClient);
  door.flood();
  EXPECT_EQ(door.taken(kClient, 100), RequestRates::kKnownAddress.burst);
  door.rates.know(door.now, kClient);
  EXPECT_EQ(door.taken(kClient, 100), 0u);
  door.rates.know(door.now, kNeighbour);
  EXPECT_EQ(door.taken(kNeighbour, 100), RequestRates::kKnownAddress.burst);
}

}  // namespace
}  // namespace cw
