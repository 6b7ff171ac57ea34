// A station against raw frames: what it answers, what it learns, what it ignores, and that it counts each frame once.
#include "rocev2/link/station.h"

#include <gtest/gtest.h>

#include "base/heap_buffer_pool.h"
#include "base/random.h"
#include "tests/unit/link/raw_frames.h"

namespace cw::link {
namespace {

using test::append;
using test::ByteVector;
using wire::MacAddress;

constexpr MacAddress kOurMac{{2, 0, 0, 0, 0, 1}};
constexpr MacAddress kPeerMac{{2, 0, 0, 0, 0, 2}};
constexpr MacAddress kOtherMac{{2, 0, 0, 0, 0, 3}};
constexpr MacAddress kGroupMac{{3, 0, 0, 0, 0, 3}};
constexpr uint32_t kOur4 = 0x0a090001;
constexpr uint32_t kPeer4 = 0x0a090002;
constexpr uint32_t kGateway4 = 0x0a0900fe;

IpAddress v6(uint16_t last, uint8_t network = 9) {
  std::array<uint8_t, 16> raw{0xfd, network};
  store_be16(raw.data() + 14, last);
  return IpAddress::v6(raw);
}
IpAddress solicited(uint16_t last) {
  std::array<uint8_t, 16> raw{0xff, 2};
  raw[11] = 1;
  raw[12] = 0xff;
  store_be16(raw.data() + 14, last);
  return IpAddress::v6(raw);
}
const IpAddress kOur6 = v6(1);
const IpAddress kPeer6 = v6(2);
const ByteVector kPeerOption = test::link_address(1, kPeerMac);

StationOptions options_with(uint16_t vlan = 0) {
  StationOptions options;
  options.mac = kOurMac;
  options.port = 3;
  options.vlan = vlan;
  options.addresses = {{IpAddress::v4(kOur4), 24}, {kOur6, 64}};
  options.gateway4 = IpAddress::v4(kGateway4);
  options.gateway6 = v6(0xfe);
  options.neighbour_max = 8;
  return options;
}

uint64_t sum(const StationStats& stats) {
  return stats.arp_in + stats.nd_in + stats.echo_in + stats.other_in;
}

class StationTest : public ::testing::Test {
 protected:
  explicit StationTest(const StationOptions& options = options_with()) : station(options) {}

  bool give(const ByteVector& frame) { return station.on_frame(now, frame); }
  std::vector<ByteVector> sent() {
    std::vector<ByteVector> out;
    wire::TxBatch batch(pool);
    station.poll_transmit(batch);
    for (const wire::TxPacket& packet : batch.packets()) {
      EXPECT_EQ(packet.port, 3);
      out.emplace_back(packet.head->data, packet.head->data + packet.head->size);
    }
    return out;
  }
  ByteVector only_sent() {
    std::vector<ByteVector> out = sent();
    EXPECT_EQ(out.size(), 1u);
    return out.empty() ? ByteVector(64) : out.front();
  }
  // Neither answered nor learnt nor counted as anything but other.
  void expect_ignored(const ByteVector& frame) {
    const uint64_t other = station.stats().other_in;
    const uint64_t all = sum(station.stats());
    EXPECT_FALSE(give(frame));
    EXPECT_EQ(station.stats().other_in, other + 1);
    EXPECT_EQ(sum(station.stats()), all + 1);
    EXPECT_FALSE(station.has_output());
  }
  ByteVector arp_request(uint32_t target = kOur4, const MacAddress& from = kPeerMac, uint32_t sender = kPeer4) {
    return test::ethernet(test::kBroadcastMac, from, 0x0806, test::arp(1, from, sender, MacAddress{}, target));
  }
  ByteVector solicitation(const ByteVector& option = kPeerOption, const IpAddress& source = kPeer6, uint8_t hop_limit = 255) {
    return test::ethernet(kOurMac, kPeerMac, 0x86dd,
                          test::icmp6_packet(source, solicited(1), test::neighbour(135, kOur6, option), hop_limit));
  }
  ByteVector advertisement(const IpAddress& target, const MacAddress& mac) {
    return test::ethernet(kOurMac, mac, 0x86dd,
                          test::icmp6_packet(target, kOur6, test::neighbour(136, target, test::link_address(2, mac), 0x60)));
  }
  ByteVector ping4(size_t bytes, uint8_t type = 8) {
    return test::ethernet(kOurMac, kPeerMac, 0x0800, test::icmp4_packet(kPeer4, kOur4, test::echo(type, bytes)));
  }
  ByteVector ping6(size_t bytes) {
    return test::ethernet(kOurMac, kPeerMac, 0x86dd, test::icmp6_packet(kPeer6, kOur6, test::echo(128, bytes), 64));
  }

  Instant now = Instant::from_ns(5'000'000'000);
  HeapBufferPool pool{256, 9300, 0};
  Station station;
};

StationOptions silent_options() {
  StationOptions options = options_with();
  options.is_silent = true;
  return options;
}

// The kernel has its addresses and answers.
class SilentStationTest : public StationTest {
 protected:
  SilentStationTest() : StationTest(silent_options()) {}
};

TEST_F(SilentStationTest, AnswersNobodyAnnouncesNothingAndAsksNobody) {
  station.announce();
  EXPECT_FALSE(station.has_output());
  for (const ByteVector& frame : {arp_request(), solicitation(), advertisement(kPeer6, kPeerMac), ping4(8), ping6(8)}) {
    expect_ignored(frame);
  }
  EXPECT_EQ(station.resolve(now, IpAddress::v4(kPeer4)), std::nullopt);
  EXPECT_FALSE(station.has_output());
  EXPECT_TRUE(station.owns(IpAddress::v4(kOur4)));
}

class TaggedStationTest : public StationTest {
 protected:
  TaggedStationTest() : StationTest(options_with(42)) {}
};

TEST_F(StationTest, AnswersAnArpRequestToItsSenderAndLearnsIt) {
  EXPECT_TRUE(give(arp_request()));
  EXPECT_EQ(only_sent(), test::ethernet(kPeerMac, kOurMac, 0x0806, test::arp(2, kOurMac, kOur4, kPeerMac, kPeer4)));
  EXPECT_EQ(station.stats().arp_in, 1u);
  EXPECT_EQ(station.stats().arp_out, 1u);
  EXPECT_EQ(station.resolve(now, IpAddress::v4(kPeer4)), kPeerMac);
  EXPECT_FALSE(station.has_output());
}

TEST_F(StationTest, AnswersAnArpProbeWithoutLearningTheEmptyAddress) {
  EXPECT_TRUE(give(arp_request(kOur4, kPeerMac, 0)));
  EXPECT_EQ(only_sent(), test::ethernet(kPeerMac, kOurMac, 0x0806, test::arp(2, kOurMac, kOur4, kPeerMac, 0)));
  EXPECT_EQ(station.resolve(now, IpAddress::v4(0)), std::nullopt);
}

TEST_F(StationTest, LeavesArpForOthersAloneButBelievesANeighbourThatMoves) {
  EXPECT_TRUE(give(arp_request(kPeer4, kOtherMac, kPeer4)));  // gratuitous, of a stranger
  EXPECT_FALSE(station.has_output());
  EXPECT_EQ(station.resolve(now, IpAddress::v4(kPeer4)), std::nullopt);
  (void)sent();
  EXPECT_TRUE(give(test::ethernet(kOurMac, kPeerMac, 0x0806, test::arp(2, kPeerMac, kPeer4, kOurMac, kOur4))));
  EXPECT_EQ(station.resolve(now, IpAddress::v4(kPeer4)), kPeerMac);
  EXPECT_TRUE(give(arp_request(kPeer4, kOtherMac, kPeer4)));  // gratuitous, of a neighbour
  EXPECT_EQ(station.resolve(now, IpAddress::v4(kPeer4)), kOtherMac);
  EXPECT_FALSE(station.has_output());
}

TEST_F(StationTest, NeverLearnsAGroupAddress) {
  EXPECT_TRUE(give(arp_request(kOur4, kGroupMac)));
  EXPECT_FALSE(station.has_output());
  EXPECT_EQ(station.resolve(now, IpAddress::v4(kPeer4)), std::nullopt);
  (void)sent();
  EXPECT_TRUE(give(solicitation(test::link_address(1, kGroupMac))));
  EXPECT_FALSE(station.has_output());
  EXPECT_EQ(station.resolve(now, kPeer6), std::nullopt);
  (void)sent();
  EXPECT_TRUE(give(advertisement(kPeer6, kGroupMac)));
  EXPECT_EQ(station.resolve(now, kPeer6), std::nullopt);
}

TEST_F(StationTest, IgnoresArpOfAnotherKind) {
  for (const size_t at : {0u, 1u, 2u, 3u, 4u, 5u}) {  // hardware type, protocol type, lengths
    ByteVector frame = arp_request();
    frame[14 + at] ^= 0x40;
    expect_ignored(frame);
  }
}

TEST_F(StationTest, AnswersASolicitationForItsAddressOnly) {
  EXPECT_TRUE(give(solicitation()));
  const ByteVector answer = only_sent();
  ByteVector expected = test::icmp6_packet(kOur6, kPeer6, test::neighbour(136, kOur6, test::link_address(2, kOurMac), 0x60));
  EXPECT_EQ(answer, test::ethernet(kPeerMac, kOurMac, 0x86dd, expected));
  EXPECT_EQ(test::icmp6_checksum(Bytes(answer).subspan(14)), 0);
  EXPECT_EQ(station.resolve(now, kPeer6), kPeerMac);
  EXPECT_TRUE(give(test::ethernet(kOurMac, kPeerMac, 0x86dd,
                                  test::icmp6_packet(kPeer6, solicited(5), test::neighbour(135, v6(5), kPeerOption)))));
  EXPECT_FALSE(station.has_output());
  EXPECT_EQ(station.stats().nd_in, 2u);
  EXPECT_EQ(station.stats().nd_out, 1u);
}

TEST_F(StationTest, DefendsItsAddressAgainstDuplicateDetection) {
  EXPECT_TRUE(give(solicitation({}, IpAddress{})));
  const ByteVector answer = only_sent();
  std::array<uint8_t, 16> all{0xff, 2};
  all[15] = 1;
  const ByteVector expected =
      test::icmp6_packet(kOur6, IpAddress::v6(all), test::neighbour(136, kOur6, test::link_address(2, kOurMac), 0x20));
  EXPECT_EQ(answer, test::ethernet(MacAddress{{0x33, 0x33, 0, 0, 0, 1}}, kOurMac, 0x86dd, expected));
}

TEST_F(StationTest, BelievesAnAdvertisementOnlyWhenItAsked) {
  EXPECT_TRUE(give(advertisement(kPeer6, kPeerMac)));
  EXPECT_EQ(station.resolve(now, kPeer6), std::nullopt);  // asks
  const ByteVector question = only_sent();
  EXPECT_EQ(question, test::ethernet(
                          MacAddress{{0x33, 0x33, 0xff, 0, 0, 2}}, kOurMac, 0x86dd,
                          test::icmp6_packet(kOur6, solicited(2), test::neighbour(135, kPeer6, test::link_address(1, kOurMac)))));
  EXPECT_TRUE(give(advertisement(kPeer6, kPeerMac)));
  EXPECT_EQ(station.resolve(now, kPeer6), kPeerMac);
}

TEST_F(StationTest, IgnoresNeighbourMessagesThatARouterForwarded) {
  expect_ignored(solicitation(kPeerOption, kPeer6, 254));
  expect_ignored(solicitation(kPeerOption, kPeer6, 0));
  expect_ignored(test::ethernet(kOurMac, kPeerMac, 0x86dd,
                                test::icmp6_packet(kPeer6, kOur6, test::neighbour(136, kPeer6, kPeerOption), 64)));
  ByteVector with_code = test::neighbour(135, kOur6, kPeerOption);
  with_code[1] = 1;
  expect_ignored(test::ethernet(kOurMac, kPeerMac, 0x86dd, test::icmp6_packet(kPeer6, solicited(1), with_code)));
}

TEST_F(StationTest, DiscardsNeighbourMessagesWithAnEmptyOption) {
  ByteVector first_empty(8);
  append(first_empty, kPeerOption);
  ByteVector second_empty = kPeerOption;
  append(second_empty, ByteVector(8));
  for (const ByteVector& option : {first_empty, second_empty}) {
    EXPECT_TRUE(give(solicitation(option)));
    EXPECT_FALSE(station.has_output());
    EXPECT_EQ(station.resolve(now, kPeer6), std::nullopt);
    (void)sent();
    now = now + Duration::ms(1);
  }
  EXPECT_EQ(station.stats().nd_in, 2u);
}

TEST_F(StationTest, SkipsUnknownOptionsAndOnesThatEndBeyondTheMessage) {
  ByteVector nonce_first{14, 1, 1, 2, 3, 4, 5, 6};
  append(nonce_first, kPeerOption);
  EXPECT_TRUE(give(solicitation(nonce_first)));
  EXPECT_EQ(station.resolve(now, kPeer6), kPeerMac);
  (void)sent();
  ByteVector too_long{1, 200, 9, 9, 9, 9, 9, 9};
  EXPECT_TRUE(give(solicitation(too_long)));
  EXPECT_EQ(station.resolve(now, kPeer6), kPeerMac);  // by the frame's source
}

TEST_F(StationTest, IgnoresWrongChecksums) {
  for (const ByteVector& frame : {ping4(10), ping6(10), solicitation(), advertisement(kPeer6, kPeerMac)}) {
    const bool v4 = frame[12] == 0x08;
    for (size_t at = v4 ? 14 : 22; at < frame.size(); ++at) {
      if (!v4 && at == 14 + 7) {
        continue;  // the hop limit is not covered
      }
      ByteVector bad = frame;
      bad[at] ^= 0x10;
      expect_ignored(bad);
    }
  }
}

TEST_F(StationTest, EchoesEverySizeThatFitsTheMtu) {
  for (const size_t bytes : {0u, 1u, 2u, 7u, 56u, 57u, 1399u, 1452u}) {
    EXPECT_TRUE(give(ping4(bytes)));
    ByteVector answer = only_sent();
    ByteVector expected = test::icmp4_packet(kOur4, kPeer4, test::echo(0, bytes));
    expected[8] = 64;
    store_be16(expected.data() + 10, 0);
    store_be16(expected.data() + 10, test::internet_checksum(Bytes(expected).first(20)));
    EXPECT_EQ(answer, test::ethernet(kPeerMac, kOurMac, 0x0800, expected));

    EXPECT_TRUE(give(ping6(bytes)));
    answer = only_sent();
    EXPECT_EQ(answer, test::ethernet(kPeerMac, kOurMac, 0x86dd, test::icmp6_packet(kOur6, kPeer6, test::echo(129, bytes), 64)));
  }
  EXPECT_EQ(station.stats().echo_in, 16u);
  EXPECT_EQ(station.stats().echo_out, 16u);
  expect_ignored(ping4(1473));
  expect_ignored(ping6(1453));
  expect_ignored(ping4(60'000));
}

TEST_F(StationTest, EchoIgnoresEthernetPadding) {
  ByteVector frame = ping4(1);
  frame.resize(60, 0xee);
  EXPECT_TRUE(give(frame));
  EXPECT_EQ(only_sent().size(), 14u + 20 + 8 + 1);
  frame = ping6(1);
  frame.resize(90, 0xee);
  EXPECT_TRUE(give(frame));
  EXPECT_EQ(only_sent().size(), 14u + 40 + 8 + 1);
}

TEST_F(StationTest, NeverEchoesToAGroupOrToNobody) {
  const ByteVector request = test::echo(8, 8);
  for (const uint32_t source : {0u, 0xffff'ffffu, 0xe000'0001u}) {
    expect_ignored(test::ethernet(kOurMac, kPeerMac, 0x0800, test::icmp4_packet(source, kOur4, request)));
  }
  expect_ignored(test::ethernet(kOurMac, test::kBroadcastMac, 0x0800, test::icmp4_packet(kPeer4, kOur4, request)));
  for (const IpAddress& source : {IpAddress{}, solicited(1)}) {
    expect_ignored(test::ethernet(kOurMac, kPeerMac, 0x86dd, test::icmp6_packet(source, kOur6, test::echo(128, 8))));
  }
  expect_ignored(test::ethernet(kOurMac, kGroupMac, 0x86dd, test::icmp6_packet(kPeer6, kOur6, test::echo(128, 8))));
}

TEST_F(StationTest, IgnoresEchoThatIsNotForIt) {
  expect_ignored(test::ethernet(kOurMac, kPeerMac, 0x0800, test::icmp4_packet(kPeer4, kOur4 + 9, test::echo(8, 8))));
  expect_ignored(test::ethernet(kOurMac, kPeerMac, 0x86dd, test::icmp6_packet(kPeer6, v6(9), test::echo(128, 8))));
  expect_ignored(ping4(8, 0));  // replies, ours or not
  expect_ignored(ping4(8, 13));
  ByteVector fragment = ping4(8);
  fragment[14 + 6] = 0x20;
  expect_ignored(fragment);
  ByteVector with_options = ping4(8);
  with_options[14] = 0x46;
  expect_ignored(with_options);
}

TEST_F(TaggedStationTest, AnswersOnItsVlanOnly) {
  const ByteVector request = test::arp(1, kPeerMac, kPeer4, MacAddress{}, kOur4);
  expect_ignored(test::ethernet(test::kBroadcastMac, kPeerMac, 0x0806, request));
  expect_ignored(test::ethernet(test::kBroadcastMac, kPeerMac, 0x0806, request, 43));
  ByteVector double_tagged = test::ethernet(test::kBroadcastMac, kPeerMac, 0x8100, request, 42);
  expect_ignored(double_tagged);
  const ByteVector tagged = test::ethernet(test::kBroadcastMac, kPeerMac, 0x0806, request, 0x6000 | 42);  // priority 3
  EXPECT_TRUE(give(tagged));
  EXPECT_EQ(only_sent(), test::ethernet(kPeerMac, kOurMac, 0x0806, test::arp(2, kOurMac, kOur4, kPeerMac, kPeer4), 42));
  const ByteVector ping = test::ethernet(kOurMac, kPeerMac, 0x0800, test::icmp4_packet(kPeer4, kOur4, test::echo(8, 8)), 42);
  EXPECT_TRUE(give(ping));
  EXPECT_EQ(load_be16(only_sent().data() + 14), 42);
}

TEST_F(StationTest, TakesPriorityTagsOfVlanZeroAndNoOther) {
  const ByteVector request = test::arp(1, kPeerMac, kPeer4, MacAddress{}, kOur4);
  EXPECT_TRUE(give(test::ethernet(test::kBroadcastMac, kPeerMac, 0x0806, request, 0x6000)));
  EXPECT_EQ(sent().size(), 1u);
  expect_ignored(test::ethernet(test::kBroadcastMac, kPeerMac, 0x0806, request, 42));
}

TEST_F(StationTest, AnnouncesEachOfItsAddresses) {
  station.announce();
  const std::vector<ByteVector> out = sent();
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0], test::ethernet(test::kBroadcastMac, kOurMac, 0x0806, test::arp(1, kOurMac, kOur4, MacAddress{}, kOur4)));
  EXPECT_EQ(out[1][14 + 40], 136);
  EXPECT_EQ(test::icmp6_checksum(Bytes(out[1]).subspan(14)), 0);
}

TEST_F(StationTest, AsksTheGatewayForWhatIsNotOnItsNetwork) {
  EXPECT_EQ(station.resolve(now, IpAddress::v4(0xc0a80101)), std::nullopt);
  EXPECT_EQ(load_be32(only_sent().data() + 14 + 24), kGateway4);
  EXPECT_EQ(station.resolve(now, v6(7, 8)), std::nullopt);
  const ByteVector question = only_sent();
  EXPECT_EQ(IpAddress::v6(std::span(question).subspan(14 + 40 + 8).first<16>()), v6(0xfe));
  EXPECT_TRUE(give(test::ethernet(kOurMac, kOtherMac, 0x0806, test::arp(2, kOtherMac, kGateway4, kOurMac, kOur4))));
  EXPECT_EQ(station.resolve(now, IpAddress::v4(0xc0a80101)), kOtherMac);
  EXPECT_EQ(station.resolve(now, IpAddress::v4(0x08080808)), kOtherMac);
  EXPECT_EQ(station.source_for(IpAddress::v4(0x08080808)), IpAddress::v4(kOur4));
  EXPECT_EQ(station.source_for(v6(7, 8)), kOur6);
}

TEST_F(StationTest, AsksAnewWhenTheLinkHasGone) {
  EXPECT_TRUE(give(arp_request()));
  (void)sent();
  EXPECT_EQ(station.resolve(now, IpAddress::v4(kPeer4)), kPeerMac);
  station.forget_neighbours();
  EXPECT_EQ(station.resolve(now, IpAddress::v4(kPeer4)), std::nullopt);
  EXPECT_EQ(load_be32(only_sent().data() + 14 + 24), kPeer4);
}

TEST_F(StationTest, AsksOncePerSecondUntilAnswered) {
  const IpAddress peer = IpAddress::v4(kPeer4);
  for (int second = 0; second < 3; ++second) {
    EXPECT_EQ(station.resolve(now, peer), std::nullopt);
    EXPECT_EQ(sent().size(), 1u);
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(station.resolve(now + Duration::ms(99 * (i + 1)), peer), std::nullopt);
    }
    EXPECT_FALSE(station.has_output());
    now = now + Duration::seconds(1);
  }
  EXPECT_EQ(station.stats().arp_out, 3u);
}

TEST_F(StationTest, GoesOnWorkingWhenTheNeighbourTableOverflows) {
  for (uint32_t i = 0; i < 100; ++i) {
    now = now + Duration::us(1);
    EXPECT_TRUE(give(arp_request(kOur4, kPeerMac, 0x0a090010 + i)));
    EXPECT_EQ(sent().size(), 1u);
  }
  now = now + Duration::us(1);
  EXPECT_EQ(station.resolve(now, IpAddress::v4(0x0a090010 + 99)), kPeerMac);  // the newest is there
  EXPECT_EQ(station.resolve(now, IpAddress::v4(0x0a090010)), std::nullopt);   // the oldest is asked for again
  EXPECT_EQ(sent().size(), 1u);
  EXPECT_TRUE(give(test::ethernet(kOurMac, kOtherMac, 0x0806, test::arp(2, kOtherMac, 0x0a090010, kOurMac, kOur4))));
  EXPECT_EQ(station.resolve(now, IpAddress::v4(0x0a090010)), kOtherMac);
}

TEST_F(StationTest, CountsWhatItsOutputQueueCannotTakeAndRecovers) {
  for (uint32_t i = 0; i < 40; ++i) {
    EXPECT_TRUE(give(ping4(1000)));
  }
  EXPECT_EQ(station.stats().echo_in, 40u);
  EXPECT_EQ(station.stats().echo_out, 32u);
  EXPECT_EQ(station.stats().reply_dropped, 8u);
  EXPECT_TRUE(give(arp_request()));
  EXPECT_TRUE(give(solicitation()));
  EXPECT_EQ(station.stats().reply_dropped, 10u);
  EXPECT_EQ(station.stats().arp_out + station.stats().nd_out, 0u);
  EXPECT_EQ(sent().size(), 32u);
  EXPECT_TRUE(give(ping4(1000)));
  EXPECT_EQ(sent().size(), 1u);
  EXPECT_EQ(pool.in_use(), 0u);
}

TEST_F(StationTest, KeepsWhatABatchCannotTakeForTheNext) {
  for (uint32_t i = 0; i < 5; ++i) {
    EXPECT_TRUE(give(ping4(10)));
  }
  HeapBufferPool two(2, 2048, 0);
  wire::TxBatch batch(two);
  station.poll_transmit(batch);
  EXPECT_EQ(batch.size(), 2u);
  EXPECT_TRUE(station.has_output());
  EXPECT_EQ(sent().size(), 3u);
}

TEST_F(StationTest, DropsAFrameThatNoHeadCanHold) {
  EXPECT_TRUE(give(ping4(1000)));
  EXPECT_TRUE(give(ping4(10)));
  HeapBufferPool small(4, 512, 0);
  wire::TxBatch batch(small);
  station.poll_transmit(batch);
  EXPECT_EQ(batch.size(), 1u);
  EXPECT_EQ(station.stats().reply_dropped, 1u);
}

// Cut anywhere, a message is ignored and counted once; on the heap, so that a read behind its end is seen.
TEST_F(StationTest, IgnoresEveryTruncationOfEveryMessage) {
  const std::vector<ByteVector> frames = {arp_request(), solicitation(), advertisement(kPeer6, kPeerMac), ping4(33), ping6(33)};
  for (const ByteVector& frame : frames) {
    for (size_t size = 0; size < frame.size(); ++size) {
      ByteVector cut(frame.begin(), frame.begin() + static_cast<ptrdiff_t>(size));
      cut.shrink_to_fit();
      expect_ignored(cut);
    }
    EXPECT_TRUE(give(frame));
    (void)sent();
  }
}

// Whole garbage, and real messages with some bytes bent and the checksum put right.
TEST_F(StationTest, SurvivesRandomFramesAndCountsEachOnce) {
  SeededRandom random(7);
  const std::vector<ByteVector> frames = {arp_request(), solicitation(), advertisement(kPeer6, kPeerMac), ping4(33), ping6(33)};
  for (uint32_t i = 0; i < 200'000; ++i) {
    ByteVector frame;
    if (random.next_below(4) == 0) {
      frame.resize(random.next_below(200));
      for (uint8_t& byte : frame) {
        byte = static_cast<uint8_t>(random.next_u32());
      }
    } else {
      frame = frames[random.next_below(static_cast<uint32_t>(frames.size()))];
      for (uint32_t bends = random.next_below(4); bends > 0; --bends) {
        frame[random.next_below(static_cast<uint32_t>(frame.size()))] = static_cast<uint8_t>(random.next_u32());
      }
      if (frame[12] == 0x86 && frame.size() > 58) {
        store_be16(frame.data() + 56, 0);
        store_be16(frame.data() + 56, test::icmp6_checksum(Bytes(frame).subspan(14)));
      }
    }
    frame.shrink_to_fit();
    const StationStats before = station.stats();
    (void)give(frame);
    const StationStats& after = station.stats();
    ASSERT_EQ(sum(after), sum(before) + 1);
    ASSERT_LE(sent().size(), 1u);
    now = now + Duration::us(1);
  }
  EXPECT_GT(station.stats().nd_out, 1000u);
  EXPECT_GT(station.stats().arp_out, 1000u);
  EXPECT_GT(station.stats().echo_out, 1000u);
}

}  // namespace
}  // namespace cw::link
