// What the other end of a memif link may say before the link is up: DPDK's driver would believe all of it.
#include "dataplane/dpdk/memif_handshake.h"

#include <gtest/gtest.h>

#include <optional>
#include <string_view>
#include <vector>

#include "tests/unit/dataplane/memif_messages.h"

namespace cw::dataplane {
namespace {

using memif::add_region;
using memif::add_ring;
using memif::kRegionBytes;
using memif::kRingBytes;
using memif::Message;
using memif::message_of;
using Handshake = MemifHandshake;

constexpr std::optional<uint64_t> kNoFile;
constexpr std::optional<uint64_t> kEvent = 0;  // an eventfd has no size

bool passes(Handshake& handshake, const Message& message, std::optional<uint64_t> file = kNoFile) {
  return handshake.from_peer(message, file) == nullptr;
}
std::string_view refusal(Handshake& handshake, const Message& message, std::optional<uint64_t> file = kNoFile) {
  const char* reason = handshake.from_peer(message, file);
  return reason == nullptr ? "passes" : reason;
}

// A server's link with one region of the client.
Handshake with_region() {
  Handshake handshake(true);
  EXPECT_TRUE(passes(handshake, message_of(Handshake::kInit)));
  EXPECT_TRUE(passes(handshake, add_region(0), kRegionBytes));
  return handshake;
}
Handshake with_rings() {
  Handshake handshake = with_region();
  EXPECT_TRUE(passes(handshake, add_ring({}), kEvent));
  EXPECT_TRUE(passes(handshake, add_ring({.client_to_server = false, .offset = kRingBytes}), kEvent));
  return handshake;
}

TEST(MemifHandshake, AClientsHandshakePassesAndTheServersConnectedEndsIt) {
  Handshake handshake = with_rings();
  EXPECT_TRUE(passes(handshake, message_of(Handshake::kConnect)));
  EXPECT_FALSE(handshake.is_complete());
  EXPECT_EQ(handshake.from_driver(message_of(Handshake::kConnected)), nullptr);
  EXPECT_TRUE(handshake.is_complete());
}

TEST(MemifHandshake, AServersHandshakePassesAndItsConnectedEndsIt) {
  Handshake handshake(false);
  EXPECT_TRUE(passes(handshake, message_of(Handshake::kHello)));
  for (const auto type : {Handshake::kInit, Handshake::kAddRegion, Handshake::kAddRing, Handshake::kConnect}) {
    EXPECT_EQ(handshake.from_driver(message_of(type)), nullptr);
    EXPECT_TRUE(passes(handshake, message_of(Handshake::kAck)));
  }
  EXPECT_TRUE(passes(handshake, message_of(Handshake::kConnected)));
  EXPECT_TRUE(handshake.is_complete());
}

TEST(MemifHandshake, ARegionIsTheNextAndNoLongerThanItsFile) {
  Handshake handshake = with_region();
  EXPECT_EQ(refusal(handshake, add_region(0), kRegionBytes), "a region's index that is not the next");
  EXPECT_EQ(refusal(handshake, add_region(2), kRegionBytes), "a region's index that is not the next");
  EXPECT_EQ(refusal(handshake, add_region(1), kRegionBytes - 1), "a region that is longer than its file");
  EXPECT_EQ(refusal(handshake, add_region(1, 0), kRegionBytes), "a region that is longer than its file");
  EXPECT_EQ(refusal(handshake, add_region(1, UINT64_MAX), kRegionBytes), "a region that is longer than its file");
  EXPECT_EQ(refusal(handshake, add_region(1)), "a descriptor is missing");
  EXPECT_TRUE(passes(handshake, add_region(1), kRegionBytes));
}

TEST(MemifHandshake, ThereAreAsManyRegionsAsTheDriversTableHolds) {
  Handshake handshake = with_region();
  for (uint16_t index = 1; index < 256; ++index) {
    ASSERT_TRUE(passes(handshake, add_region(index), kRegionBytes));
  }
  EXPECT_EQ(refusal(handshake, add_region(256), kRegionBytes), "a region's index that is not the next");
}

TEST(MemifHandshake, ARingLiesWithinARegionThatIsThere) {
  Handshake handshake = with_region();
  constexpr auto kLast = static_cast<uint32_t>(kRegionBytes - kRingBytes);
  EXPECT_EQ(refusal(handshake, add_ring({.region = 1}), kEvent), "a ring without region, or of too many descriptors");
  EXPECT_EQ(refusal(handshake, add_ring({.region = 0xffff}), kEvent), "a ring without region, or of too many descriptors");
  EXPECT_EQ(refusal(handshake, add_ring({.log2 = 15}), kEvent), "a ring without region, or of too many descriptors");
  EXPECT_EQ(refusal(handshake, add_ring({.log2 = 255}), kEvent), "a ring without region, or of too many descriptors");
  EXPECT_EQ(refusal(handshake, add_ring({.offset = kLast + 1}), kEvent), "a ring that does not fit into its region");
  EXPECT_EQ(refusal(handshake, add_ring({.offset = UINT32_MAX}), kEvent), "a ring that does not fit into its region");
  EXPECT_EQ(refusal(handshake, add_ring({})), "a descriptor is missing");
  EXPECT_TRUE(passes(handshake, add_ring({.offset = kLast}), kEvent));
}

// The driver counts the rings of the other end beside those that it has, and looks at as many.
TEST(MemifHandshake, RingsOfADirectionComeOneAfterAnother) {
  Handshake handshake = with_region();
  EXPECT_EQ(refusal(handshake, add_ring({.index = 1}), kEvent), "a ring's index that is not the next");
  EXPECT_TRUE(passes(handshake, add_ring({.index = 0}), kEvent));
  EXPECT_EQ(refusal(handshake, add_ring({.index = 0}), kEvent), "a ring's index that is not the next");
  EXPECT_TRUE(passes(handshake, add_ring({.index = 1}), kEvent));
}

TEST(MemifHandshake, NobodyConnectsWithoutARingInEachDirection) {
  Handshake handshake = with_region();
  EXPECT_EQ(refusal(handshake, message_of(Handshake::kConnect)), "CONNECT without a ring in each direction");
  EXPECT_TRUE(passes(handshake, add_ring({}), kEvent));
  EXPECT_EQ(refusal(handshake, message_of(Handshake::kConnect)), "CONNECT without a ring in each direction");
}

TEST(MemifHandshake, MessagesOutOfTurnAreRefused) {
  for (const auto type : {Handshake::kNone, Handshake::kAck, Handshake::kHello, Handshake::kConnect, Handshake::kConnected}) {
    Handshake fresh(true);
    EXPECT_FALSE(passes(fresh, message_of(type))) << type;
    Handshake greeted = with_region();
    EXPECT_FALSE(passes(greeted, message_of(type))) << type;
  }
  Handshake twice = with_region();
  EXPECT_EQ(refusal(twice, message_of(Handshake::kInit)), "a message out of turn");
  Handshake connecting = with_rings();
  EXPECT_TRUE(passes(connecting, message_of(Handshake::kConnect)));
  EXPECT_EQ(refusal(connecting, add_region(1), kRegionBytes), "a message out of turn");
  EXPECT_EQ(refusal(connecting, message_of(Handshake::kConnect)), "a message out of turn");
  EXPECT_TRUE(passes(connecting, message_of(Handshake::kDisconnect)));
}

TEST(MemifHandshake, AServerSaysHelloOnceAndConnectedWhenItWasAsked) {
  Handshake handshake(false);
  EXPECT_EQ(refusal(handshake, message_of(Handshake::kAck)), "a message out of turn");
  EXPECT_EQ(refusal(handshake, message_of(Handshake::kConnected)), "CONNECTED out of turn");
  EXPECT_TRUE(passes(handshake, message_of(Handshake::kHello)));
  EXPECT_EQ(refusal(handshake, message_of(Handshake::kHello)), "a second HELLO");
  EXPECT_EQ(refusal(handshake, message_of(Handshake::kInit)), "not a server's message");
  EXPECT_EQ(refusal(handshake, message_of(Handshake::kConnected)), "CONNECTED out of turn");
  EXPECT_FALSE(handshake.is_complete());
}

// The driver forgets descriptors that it does not expect, and they stay open.
TEST(MemifHandshake, DescriptorsComeWithRegionsAndRingsOnly) {
  Handshake server(true);
  EXPECT_EQ(refusal(server, message_of(Handshake::kInit), kEvent), "a descriptor where none belongs");
  EXPECT_EQ(refusal(server, message_of(Handshake::kDisconnect), kEvent), "a descriptor where none belongs");
  Handshake client(false);
  EXPECT_EQ(refusal(client, message_of(Handshake::kHello), kEvent), "a descriptor where none belongs");
}

TEST(MemifHandshake, AMessageHasItsSizeAndTheirNumberIsBounded) {
  Handshake handshake(false);
  const std::vector<uint8_t> longer(Handshake::kMessageBytes + 1);
  EXPECT_STREQ(handshake.from_peer(Bytes(longer), std::nullopt), "a message has 128 bytes");
  EXPECT_STREQ(handshake.from_peer(Bytes(longer).first(2), std::nullopt), "a message has 128 bytes");
  EXPECT_STREQ(handshake.from_driver(Bytes(longer)), "a message has 128 bytes");
  EXPECT_TRUE(passes(handshake, message_of(Handshake::kHello)));
  int acks = 0;
  while (acks < 2000 && passes(handshake, message_of(Handshake::kAck))) {
    ++acks;
  }
  EXPECT_EQ(acks, 1023);
}

TEST(MemifHandshake, ADisconnectSaysWhyWithinItsMessage) {
  const auto message = Handshake::disconnect("a region that is longer than its file");
  EXPECT_EQ(Handshake::type_of(message), Handshake::kDisconnect);
  EXPECT_STREQ(reinterpret_cast<const char*>(message.data()) + 6, "a region that is longer than its file");
  const auto longest = Handshake::disconnect(std::string(200, 'x').c_str());
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(longest.data()) + 6), std::string(95, 'x'));
}

}  // namespace
}  // namespace cw::dataplane
