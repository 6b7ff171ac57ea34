// Bounds that goodput under loss keeps, relative to the same stream without loss (targets in tests/bench/README.md). How much
// each combination achieves is in the golden table.
#include "apps/sim/goodput.h"

#include <gtest/gtest.h>

namespace cw::sim {
namespace {

// Relative to the same without loss, which repeats nothing; recovery never waits for a timeout, and no more than
// `repeated_max` of the bytes go over the link again.
double relative(GoodputCase one, double repeated_max = 100) {
  const GoodputRow lossy = measure_goodput(one);
  one.loss_permille = 0;
  const GoodputRow clean = measure_goodput(one);
  EXPECT_EQ(clean.packets_repeated, 0u);
  EXPECT_EQ(lossy.ack_timeouts, 0u);
  EXPECT_GT(lossy.packets_repeated, 0u);
  EXPECT_LE(static_cast<double>(lossy.payload_bytes_sent), (1 + repeated_max) * static_cast<double>(clean.payload_bytes_sent));
  EXPECT_EQ(clean.buffers_left + lossy.buffers_left, 0u);
  return static_cast<double>(lossy.mbit_per_second) / static_cast<double>(clean.mbit_per_second);
}

// The bound of go-back-N is (1 - p) / (1 + p (W - 1)): 0.607 for 1 % and 64 packets.
TEST(Goodput, AStandardPeerLosesNoMoreThanGoBackNHasTo) {
  for (const StreamKind stream : {StreamKind::kSend, StreamKind::kWrite, StreamKind::kRead}) {
    EXPECT_GE(relative({.stream = stream, .loss_permille = 10}), 0.55) << to_string(stream);
  }
}

// A lost response costs the rest of its READ, not the READs behind it; with a Causeway peer itself only. The bound: a READ of n
// packets that lost one holds its place among the four of the initiator depth for a second round trip, 1 / (1 + n p): 0.862 for
// 1 % and 16 packets, 0.984 for 0.1 %. Four READs of 64 packets are more than fills the link, and do better.
TEST(Goodput, AReadRepeatsLittleMoreThanWasLost) {
  constexpr StreamKind kRead = StreamKind::kRead;
  EXPECT_GE(relative({.stream = kRead, .loss_permille = 10}, 0.12), 0.70);
  EXPECT_GE(relative({.stream = kRead, .peer = PeerKind::kCauseway, .loss_permille = 10}, 0.02), 0.83);
  EXPECT_GE(relative({.stream = kRead, .peer = PeerKind::kCauseway, .loss_permille = 1}, 0.003), 0.96);
}

TEST(Goodput, ACausewayPeerLosesLittleMoreThanTheLinkDoes) {
  for (const StreamKind stream : {StreamKind::kSend, StreamKind::kWrite}) {
    constexpr PeerKind kPeer = PeerKind::kCauseway;
    EXPECT_GE(relative({.stream = stream, .peer = kPeer, .loss_permille = 10}), 0.93) << to_string(stream);
    EXPECT_GE(relative({.stream = stream, .peer = kPeer, .loss_permille = 1}), 0.99) << to_string(stream);
  }
}

double relative_in_disorder(GoodputCase one) {
  one.packets = 8'000;
  const GoodputRow disordered = measure_goodput(one);
  one.disorder = one.disorder == Disorder::kJitter ? Disorder::kLongWay : Disorder::kNone;
  const GoodputRow in_order = measure_goodput(one);
  EXPECT_EQ(disordered.ack_timeouts, 0u);
  EXPECT_EQ(disordered.buffers_left + in_order.buffers_left, 0u);
  return static_cast<double>(disordered.mbit_per_second) / static_cast<double>(in_order.mbit_per_second);
}

// Nothing is lost: what overtakes is kept, and what is late is waited for.
TEST(Goodput, ACausewayPeerLosesLittleWhereATenthOfThePacketsComesBehind64Others) {
  for (const StreamKind stream : {StreamKind::kSend, StreamKind::kWrite, StreamKind::kRead, StreamKind::kCall}) {
    constexpr PeerKind kPeer = PeerKind::kCauseway;
    EXPECT_GE(
        relative_in_disorder({.stream = stream, .peer = kPeer, .window_packets = 256, .disorder = Disorder::kTenthBehind64}),
        0.90)
        << to_string(stream);
  }
}

TEST(Goodput, ReadsOfAStandardPeerLoseNoMoreThanAFifthThere) {
  EXPECT_GE(relative_in_disorder({.stream = StreamKind::kRead, .window_packets = 256, .disorder = Disorder::kTenthBehind64}),
            0.80);
}

// Where each packet takes 100 us to 500 us (kJitter). A Causeway peer keeps the SENDs and WRITEs that overtake, so that the
// stream loses nothing. A READ waits for its slowest response: 200 us + 200 us + 400 us n / (n + 1) instead of 600 us for n
// responses, so that four READs of 16 at once keep 0.77. The bounds of window 64 are a little less. Those of window 256 are no
// model's: they lie below what was measured, 0.49 and 0.41, and only catch what makes it worse.
TEST(Goodput, ACausewayPeerKeepsMostOfItsGoodputWhereEachPacketTakesItsOwnTime) {
  const auto jitter = [](StreamKind stream, uint32_t window) {
    return relative_in_disorder(
        {.stream = stream, .peer = PeerKind::kCauseway, .window_packets = window, .disorder = Disorder::kJitter});
  };
  for (const uint32_t window : {64u, 256u}) {
    EXPECT_GE(jitter(StreamKind::kSend, window), 1.0) << window;
    EXPECT_GE(jitter(StreamKind::kWrite, window), 1.0) << window;
  }
  EXPECT_GE(jitter(StreamKind::kRead, 64), 0.70);
  EXPECT_GE(jitter(StreamKind::kCall, 64), 0.65);
  EXPECT_GE(jitter(StreamKind::kRead, 256), 0.45);
  EXPECT_GE(jitter(StreamKind::kCall, 256), 0.37);
}

// A standard peer drops what overtakes: of packets that left together and arrive in a random order it takes e - 1 = 1.7 on
// average. With one such burst in a round trip of 800 us that is 17 Mb/s of SENDs of 1024 bytes, and 139 Mb/s of calls, which
// are two packets each. The bounds lie below what was measured, SENDs 10 and 17, READs 164 and 1265, calls 126, and only catch
// what makes it worse. Calls with a window of 256 have none: they achieve 27, far below the model.
TEST(Goodput, AStandardPeerMovesOnByARequestInARoundTripWhereEachPacketTakesItsOwnTime) {
  const auto jitter = [](StreamKind stream, uint32_t window) {
    return measure_goodput({.stream = stream, .window_packets = window, .disorder = Disorder::kJitter, .packets = 8'000})
        .mbit_per_second;
  };
  for (const uint32_t window : {64u, 256u}) {
    EXPECT_GE(jitter(StreamKind::kSend, window), 9u) << window;
    EXPECT_GE(jitter(StreamKind::kWrite, window), 9u) << window;
  }
  EXPECT_GE(jitter(StreamKind::kRead, 64), 150u);
  EXPECT_GE(jitter(StreamKind::kRead, 256), 1'100u);
  EXPECT_GE(jitter(StreamKind::kCall, 64), 110u);
}

// A standard peer ends the connection when a READ request comes under a dead key.
TEST(Goodput, NoCallBreaksTheConnectionOfAStandardPeerWhereverPacketsOvertakeEachOther) {
  for (const Disorder disorder : {Disorder::kTenthBehind64, Disorder::kPercentBehind8, Disorder::kJitter}) {
    for (const uint32_t window : {64u, 256u}) {
      const GoodputRow row =
          measure_goodput({.stream = StreamKind::kCall, .window_packets = window, .disorder = disorder, .packets = 8'000});
      EXPECT_GT(row.mbit_per_second, 0u) << to_string(disorder) << " " << window;
    }
  }
}

TEST(Goodput, TheTableSurvivesBeingWrittenAndRead) {
  const std::vector<GoodputRow> table{{.key = {.stream = StreamKind::kRead, .window_packets = 16}, .mbit_per_second = 7},
                                      {.key = {.peer = PeerKind::kCauseway, .loss_permille = 3}, .mbit_per_second = 900}};
  EXPECT_EQ(parse_goodput(to_string(table)).size(), 2u);
  EXPECT_TRUE(compare_goodput(table, parse_goodput(to_string(table))).empty());
  std::vector<GoodputRow> slower = table;
  slower[1].mbit_per_second = 800;
  EXPECT_EQ(compare_goodput(table, slower).size(), 1u);
  slower.pop_back();
  EXPECT_EQ(compare_goodput(table, slower).size(), 1u);
}

}  // namespace
}  // namespace cw::sim
