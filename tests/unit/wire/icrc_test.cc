#include "rocev2/wire/icrc.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <vector>

#include "rocev2/wire/packet_view.h"
#include "tests/unit/wire/frames.h"

namespace cw::wire {
namespace {

// The definition, bit by bit and without a library: what the fast one must equal.
uint32_t slow_crc(const std::vector<uint8_t>& raw) {
  uint32_t crc = 0xffff'ffff;
  for (const uint8_t byte : raw) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb8'8320u : 0u);
    }
  }
  return ~crc;
}

uint32_t slow_icrc(const std::vector<uint8_t>& from_ip) {
  std::vector<uint8_t> covered(8, 0xff);
  covered.insert(covered.end(), from_ip.begin(), from_ip.end());
  uint8_t* ip = covered.data() + 8;
  const bool ipv6 = ip[0] >> 4 == 6;
  for (const size_t at : ipv6 ? std::vector<size_t>{1, 2, 3, 7} : std::vector<size_t>{1, 8, 10, 11}) {
    ip[at] = 0xff;
  }
  if (ipv6) {
    ip[0] |= 0x0f;
  }
  uint8_t* udp = ip + (ipv6 ? 40 : 20);
  udp[6] = udp[7] = udp[8 + 4] = 0xff;
  return slow_crc(covered);
}

TEST(Icrc, SlowCrcKnowsTheCheckValueOfCrc32) {
  EXPECT_EQ(slow_crc({'1', '2', '3', '4', '5', '6', '7', '8', '9'}), 0xcbf43926u);
}

std::vector<uint8_t> arbitrary_packet() {
  const bool ipv6 = *rc::gen::arbitrary<bool>();
  const size_t header_bytes = (ipv6 ? 40u : 20u) + 8 + 12;
  const size_t size = header_bytes + *rc::gen::weightedOneOf<size_t>(
                                         {{4, rc::gen::inRange<size_t>(0, 200)}, {1, rc::gen::inRange<size_t>(0, 5000)}});
  auto raw = *rc::gen::container<std::vector<uint8_t>>(size, rc::gen::arbitrary<uint8_t>());
  raw[0] = static_cast<uint8_t>(ipv6 ? 0x60 | (raw[0] & 0xf) : 0x45);
  return raw;
}

TEST(Icrc, EqualsTheDefinition) {
  EXPECT_TRUE(rc::check([] {
    const std::vector<uint8_t> packet = arbitrary_packet();
    RC_ASSERT(Icrc(packet).value() == slow_icrc(packet));
  }));
}

TEST(Icrc, DoesNotDependOnWhereThePiecesAreCut) {
  EXPECT_TRUE(rc::check([] {
    const std::vector<uint8_t> packet = arbitrary_packet();
    const size_t header_bytes = packet[0] >> 4 == 6 ? 60 : 40;
    size_t at = *rc::gen::inRange<size_t>(header_bytes, packet.size() + 1);
    Icrc icrc(Bytes(packet).first(at));
    while (at < packet.size()) {
      const size_t piece = *rc::gen::inRange<size_t>(0, packet.size() - at + 1);
      icrc.update(Bytes(packet).subspan(at, piece));
      at += piece;
      if (piece == 0) {
        icrc.update(Bytes(packet).subspan(at));
        at = packet.size();
      }
    }
    RC_ASSERT(icrc.value() == slow_icrc(packet));
  }));
}

TEST(Icrc, EqualsTheDefinitionAtEverySmallLength) {
  for (const uint8_t version : {uint8_t{0x45}, uint8_t{0x60}}) {
    const size_t header_bytes = version == 0x60 ? 60 : 40;
    for (size_t size = header_bytes; size < 300; ++size) {
      std::vector<uint8_t> packet(size);
      for (size_t i = 0; i < size; ++i) {
        packet[i] = static_cast<uint8_t>(i * 13 + size);
      }
      packet[0] = version;
      ASSERT_EQ(Icrc(packet).value(), slow_icrc(packet)) << size;
    }
  }
}

// F3 of tests/requirements/hostile.md: a router may change these, and the packet must still pass.
TEST(Icrc, IgnoresWhatRoutersMayChange) {
  const std::vector<uint8_t> v4 = test::build_frame(test::v4_path(), Opcode::kRcSendOnly, 100);
  const std::vector<uint8_t> v6 = test::build_frame(test::v6_path(), Opcode::kRcSendOnly, 100);
  const auto icrc_of = [](std::vector<uint8_t> frame, size_t flipped) {
    frame[flipped] ^= 0xff;
    if (flipped == 14 && frame[12] == 0x86) {
      frame[14] ^= 0xf0;  // keep the version
    }
    return Icrc(Bytes(frame).subspan(14, frame.size() - 18)).value();
  };
  const uint32_t v4_icrc = load_le32(v4.data() + v4.size() - 4);
  const uint32_t v6_icrc = load_le32(v6.data() + v6.size() - 4);
  for (const size_t at : {14u + 1, 14u + 8, 14u + 10, 14u + 11, 14u + 20 + 6, 14u + 20 + 7, 14u + 28 + 4}) {
    EXPECT_EQ(icrc_of(v4, at), v4_icrc) << at;
  }
  for (const size_t at : {14u, 14u + 1, 14u + 2, 14u + 3, 14u + 7, 14u + 40 + 6, 14u + 40 + 7, 14u + 48 + 4}) {
    EXPECT_EQ(icrc_of(v6, at), v6_icrc) << at;
  }
}

TEST(Icrc, NoticesEveryOtherByte) {
  for (const bool ipv6 : {false, true}) {
    const std::vector<uint8_t> frame = test::build_frame(ipv6 ? test::v6_path() : test::v4_path(), Opcode::kRcSendOnly, 100);
    const uint32_t icrc = load_le32(frame.data() + frame.size() - 4);
    const size_t udp = 14 + (ipv6 ? 40u : 20u);
    for (size_t at = 14; at < frame.size() - 4; ++at) {
      const bool masked_ip = ipv6 ? (at <= 14 + 3 || at == 14 + 7) : (at == 15 || at == 22 || at == 24 || at == 25);
      if (at == 14 || masked_ip || at == udp + 6 || at == udp + 7 || at == udp + 12) {
        continue;
      }
      std::vector<uint8_t> bent = frame;
      bent[at] ^= 0x01;
      EXPECT_NE(Icrc(Bytes(bent).subspan(14, bent.size() - 18)).value(), icrc) << at;
    }
  }
}

TEST(Icrc, DoesNotCoverEthernetAndVlan) {
  const auto untagged = test::build_frame(test::v4_path(), Opcode::kRcSendOnly, 33);
  const auto tagged = test::build_frame(test::v4_path(7), Opcode::kRcSendOnly, 33);
  EXPECT_TRUE(std::equal(untagged.end() - 40, untagged.end(), tagged.end() - 40));
  EXPECT_EQ(tagged.size(), untagged.size() + 4);
}

}  // namespace
}  // namespace cw::wire
