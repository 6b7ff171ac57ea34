// Bad frames against a gateway that is at work: F1 to F4, F6, F7 and F12 of tests/requirements/hostile.md. Each counts under
// exactly the reason that its test names, and changes nothing: no queue pair, no connection, no buffer, no answer.
#include <gtest/gtest.h>

#include "base/crc32.h"
#include "rocev2/wire/opcode.h"
#include "tests/support/rc_info.h"
#include "tests/unit/node/attacked_world.h"

namespace cw::node::test {
namespace {

using wire::Opcode;
using wire::OpcodeTraits;

bool is_ipv6(const ByteVector& frame) {
  return frame[12] == 0x86;
}
size_t udp_of(const ByteVector& frame) {
  return kIpOffset + (is_ipv6(frame) ? 40 : 20);
}
size_t bth_of(const ByteVector& frame) {
  return udp_of(frame) + 8;
}

// IP and UDP say what the frame holds; checksum and iCRC are right. What is wrong is only what the test made wrong.
void repair(ByteVector& frame) {
  const size_t udp = udp_of(frame);
  store_be16(&frame[udp + 4], static_cast<uint16_t>(frame.size() - udp));
  if (is_ipv6(frame)) {
    store_be16(&frame[kIpOffset + 4], static_cast<uint16_t>(frame.size() - udp));
  } else {
    store_be16(&frame[kIpOffset + 2], static_cast<uint16_t>(frame.size() - kIpOffset));
    fix_ipv4_checksum(frame, kIpOffset);
  }
  if (frame.size() >= bth_of(frame) + wire::Bth::kSize + wire::kIcrcBytes) {
    fix_icrc(frame, kIpOffset);
  }
}

uint32_t plain_crc(Bytes raw) {
  return crc32(0, raw.data(), raw.size());
}

// What IP and UDP agree upon is shorter than the headers that the opcode promises, by every length there is.
TEST(HostileFrames, F1_RuntsOfEveryLengthCountAsRunt) {
  for (const bool ipv6 : {false, true}) {
    AttackedWorld attacked(AttackedWorld::options(ipv6));
    const rc::RcQpInfo qp = cw::test::rc_info(attacked.connection(0));
    for (uint32_t code = 0; code <= 0xff; ++code) {
      const auto opcode = static_cast<Opcode>(code);
      const OpcodeTraits& traits = wire::traits_of(opcode);
      if (traits.kind == wire::OpcodeKind::kReserved) {
        continue;
      }
      const ByteVector whole = AttackedWorld::frame(qp, opcode, qp.expected_psn);
      const size_t needed = bth_of(whole) + wire::Bth::kSize + traits.extension_bytes + wire::kIcrcBytes;
      for (size_t size = bth_of(whole); size < needed; ++size) {
        ByteVector runt = whole;
        runt.resize(size);
        repair(runt);
        attacked.expect_refused(runt, DropReason::kRunt, std::string(traits.name) + " of " + std::to_string(size));
      }
      ASSERT_FALSE(HasFailure());
    }
    // Without even the headers in front of it, the reason depends on how far the parser came.
    const ByteVector whole = AttackedWorld::frame(qp, Opcode::kRcSendOnly, qp.expected_psn);
    for (size_t size = 0; size < bth_of(whole); ++size) {
      attacked.expect_refused(ByteVector(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size)), std::to_string(size));
    }
    attacked.expect_unharmed();
  }
}

// PadCnt 1 to 3 on packets whose payload is nothing, or no longer than the padding.
TEST(HostileFrames, F2_PaddingThatIsNotThereCountsAsPadCount) {
  for (const bool ipv6 : {false, true}) {
    AttackedWorld attacked(AttackedWorld::options(ipv6));
    const rc::RcQpInfo qp = cw::test::rc_info(attacked.connection(0));
    for (const Opcode opcode : {Opcode::kRcSendOnly, Opcode::kRcSendMiddle, Opcode::kRcReadResponseOnly, Opcode::kRcAcknowledge,
                                Opcode::kRcReadRequest, Opcode::kRcWriteOnly, Opcode::kUdSendOnly}) {
      for (uint8_t pads = 1; pads <= 3; ++pads) {
        for (size_t padded = 0; padded <= pads; ++padded) {
          ByteVector frame = AttackedWorld::frame(qp, opcode, qp.expected_psn);
          frame.resize(frame.size() + padded);
          frame[bth_of(frame) + 1] = static_cast<uint8_t>(0x40 | (pads << 4));
          repair(frame);
          attacked.expect_refused(frame, DropReason::kPadCount,
                                  std::to_string(pads) + " of padding in " + std::to_string(padded));
        }
      }
      ASSERT_FALSE(HasFailure());
    }
    attacked.expect_unharmed();
  }
}

// The CRC over other bytes than the standard's: without the stand-in for the LRH, with fields that switches may change left
// unmasked, in the other byte order.
TEST(HostileFrames, F3_AnIcrcOverTheWrongFieldsCountsAsIcrc) {
  for (const bool ipv6 : {false, true}) {
    AttackedWorld attacked(AttackedWorld::options(ipv6));
    attacked.world.step();
    const ByteVector good = attacked.heard.back();
    const auto covered = [&](const ByteVector& frame) { return Bytes(frame).subspan(kIpOffset, frame.size() - kIpOffset - 4); };
    const auto with_crc = [&](uint32_t crc) {
      ByteVector frame = good;
      store_le32(&frame[frame.size() - 4], crc);
      return frame;
    };
    ByteVector unmasked(8, 0xff);
    unmasked.insert(unmasked.end(), covered(good).begin(), covered(good).end());
    const uint32_t right = load_le32(&good[good.size() - 4]);
    attacked.expect_refused(with_crc(plain_crc(unmasked)), DropReason::kIcrc, "nothing masked");
    attacked.expect_refused(with_crc(plain_crc(covered(good))), DropReason::kIcrc, "without the first eight bytes");
    attacked.expect_refused(with_crc(__builtin_bswap32(right)), DropReason::kIcrc, "big endian");
    attacked.expect_refused(with_crc(~right), DropReason::kIcrc, "not inverted");
    attacked.expect_refused(with_crc(0), DropReason::kIcrc, "zero");
    attacked.expect_unharmed();
  }
}

// A router may lower the TTL, set the traffic class and mark congestion; a switch may set the BTH's reserved byte. None of it is
// covered, and such frames are as good as they were.
TEST(HostileFrames, F3_FramesThatSwitchesAlteredOnTheWayStillPass) {
  for (const bool ipv6 : {false, true}) {
    AttackedWorld attacked(AttackedWorld::options(ipv6, ipv6 ? 0 : 9));
    const uint64_t icrc_before = attacked.observe().by_reason[static_cast<size_t>(DropReason::kIcrc)];
    const uint64_t heard_before = attacked.world.server->node.endpoint().stats().packets_in;
    const size_t tag = ipv6 ? 0 : 4;
    for (uint32_t round = 0; round < 50; ++round) {
      attacked.world.step();
      ByteVector frame = attacked.heard.back();
      if (ipv6) {
        frame[kIpOffset] = 0x6f;
        frame[kIpOffset + 1] = 0xf5;
        frame[kIpOffset + 7] -= 1;
      } else {
        frame[tag + kIpOffset + 1] = 0xff;
        frame[tag + kIpOffset + 8] -= 1;
        fix_ipv4_checksum(frame, tag + kIpOffset);
        frame[14] |= 0xe0;  // priority of the VLAN tag
      }
      frame[(ipv6 ? kIpOffset + 48 : tag + kIpOffset + 28) + 4] = 0xc0;  // FECN, BECN
      (void)attacked.inject(frame);
    }
    EXPECT_EQ(attacked.observe().by_reason[static_cast<size_t>(DropReason::kIcrc)], icrc_before);
    EXPECT_GE(attacked.world.server->node.endpoint().stats().packets_in, heard_before + 50);
    EXPECT_GE(attacked.world.server->node.endpoint().stats().ecn_marked, ipv6 ? 0u : 50u);
    attacked.expect_unharmed();
  }
}

// Fragments, options, extension headers and lengths that disagree: BadInput has the table of them on frames of the load. Here the
// ones that hide a faultless RoCE packet, the attack that reassembly would invite.
TEST(HostileFrames, F4_FragmentsOfAFaultlessPacketAreNeverPutTogether) {
  AttackedWorld attacked;
  const rc::RcQpInfo qp = cw::test::rc_info(attacked.connection(0));
  const ByteVector whole = AttackedWorld::frame(qp, Opcode::kRcSendMiddle, qp.expected_psn, 1024);  // would end the connection
  const size_t cut = kIpOffset + 20 + 512;
  ByteVector first(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(cut));
  ByteVector second(whole.begin(), whole.begin() + kIpOffset + 20);
  second.insert(second.end(), whole.begin() + static_cast<ptrdiff_t>(cut), whole.end());
  store_be16(&first[kIpOffset + 2], static_cast<uint16_t>(first.size() - kIpOffset));
  store_be16(&first[kIpOffset + 6], 0x2000);
  store_be16(&second[kIpOffset + 2], static_cast<uint16_t>(second.size() - kIpOffset));
  store_be16(&second[kIpOffset + 6], 512 / 8);
  for (ByteVector* fragment : {&first, &second}) {
    fix_ipv4_checksum(*fragment, kIpOffset);
    attacked.expect_refused(*fragment, DropReason::kFragment, "fragment");
  }
  ByteVector options = whole;
  options.insert(options.begin() + kIpOffset + 20, {1, 1, 1, 1});
  options[kIpOffset] = 0x46;
  store_be16(&options[kIpOffset + 2], static_cast<uint16_t>(options.size() - kIpOffset));
  fix_ipv4_checksum(options, kIpOffset);
  attacked.expect_refused(options, DropReason::kIpHeader, "options");
  // The UDP checksum is not looked at: zero and wrong are both fine, the iCRC covers what matters. This one is a duplicate.
  attacked.world.step();
  for (const uint16_t checksum : {uint16_t{0}, uint16_t{0x1234}}) {
    ByteVector heard = attacked.heard.back();
    store_be16(&heard[kIpOffset + 26], checksum);
    const uint64_t packets = attacked.world.server->node.endpoint().stats().packets_in;
    (void)attacked.inject(heard);
    EXPECT_EQ(attacked.world.server->node.endpoint().stats().packets_in, packets + 1);
  }
  attacked.expect_unharmed();
}

TEST(HostileFrames, F6_ReservedOpcodesVersionsAndPartitionsCountUnderTheirNames) {
  AttackedWorld attacked;
  const rc::RcQpInfo qp = cw::test::rc_info(attacked.connection(0));
  const ByteVector good = AttackedWorld::frame(qp, Opcode::kRcSendMiddle, qp.expected_psn, 64);  // would end the connection
  uint32_t reserved = 0;
  for (uint32_t code = 0; code <= 0xff; ++code) {
    if (wire::traits_of(static_cast<Opcode>(code)).kind == wire::OpcodeKind::kReserved) {
      ByteVector frame = good;
      frame[bth_of(frame)] = static_cast<uint8_t>(code);
      repair(frame);
      attacked.expect_refused(frame, DropReason::kOpcode, "opcode " + std::to_string(code));
      ++reserved;
    }
  }
  EXPECT_GT(reserved, 200u);
  for (uint8_t version = 1; version < 16; ++version) {
    ByteVector frame = good;
    frame[bth_of(frame) + 1] = static_cast<uint8_t>(0x40 | version);
    repair(frame);
    attacked.expect_refused(frame, DropReason::kTransportVersion, "TVer " + std::to_string(version));
  }
  for (const uint16_t pkey : std::initializer_list<uint16_t>{0x0000, 0x0001, 0x7ffe, 0x8000, 0x8001, 0xfffe}) {
    ByteVector frame = good;
    store_be16(&frame[bth_of(frame) + 2], pkey);
    repair(frame);
    attacked.expect_refused(frame, DropReason::kPkey, "P_Key " + std::to_string(pkey));
  }
  attacked.expect_unharmed();
}

// MigReq is 1 from RNICs and 0 from rxe: either way a packet is what it is.
TEST(HostileFrames, F6_TheMigrationBitMeansNothing) {
  AttackedWorld attacked;
  for (uint32_t round = 0; round < 20; ++round) {
    attacked.world.step();
    ByteVector frame = attacked.heard.back();
    frame[bth_of(frame) + 1] ^= 0x40;
    repair(frame);
    const Observation before = attacked.observe();
    const uint64_t packets = attacked.world.server->node.endpoint().stats().packets_in;
    (void)attacked.inject(frame);
    EXPECT_EQ(attacked.world.server->node.endpoint().stats().packets_in, packets + 1);
    const Observation after = attacked.observe();
    EXPECT_EQ(after.by_reason[static_cast<size_t>(DropReason::kOpcode)],
              before.by_reason[static_cast<size_t>(DropReason::kOpcode)]);
  }
  attacked.expect_unharmed();
}

// FLUSH (0x1c) and ATOMIC WRITE (0x1d) came with later standards: reserved opcodes here, with any extension and payload behind
// them.
TEST(HostileFrames, F7_FlushAndAtomicWriteAreOpcodesThatDoNotExist) {
  AttackedWorld attacked;
  const rc::RcQpInfo qp = cw::test::rc_info(attacked.connection(0));
  wire::Extensions extensions;
  extensions.reth = {.address = 0x1000, .rkey = verbs::Rkey(1), .length = 8};
  for (const uint8_t code : {uint8_t{0x1c}, uint8_t{0x1d}}) {
    for (const size_t bytes : {0u, 8u, 64u}) {
      ByteVector frame = AttackedWorld::frame(qp, Opcode::kRcWriteOnly, qp.expected_psn, bytes, extensions);
      frame[bth_of(frame)] = code;
      repair(frame);
      attacked.expect_refused(frame, DropReason::kOpcode, "opcode " + std::to_string(code));
    }
  }
  attacked.expect_unharmed();
}

// What asks for memory is refused whoever asks, when it does not come over the path: without even the NAK.
TEST(HostileFrames, F7_RequestsForMemoryFromElsewhereAreNotAnswered) {
  AttackedWorld attacked;
  for (const Opcode opcode : {Opcode::kRcWriteOnly, Opcode::kRcWriteFirst, Opcode::kRcReadRequest, Opcode::kRcFetchAdd,
                              Opcode::kRcCompareSwap, Opcode::kRcSendOnlyInvalidate}) {
    attacked.world.step();
    const rc::RcQpInfo qp = cw::test::rc_info(attacked.connection(1));
    wire::Path elsewhere = AttackedWorld::towards_us(qp);
    elsewhere.local = sim::sim_ip(false, 77);
    const ByteVector payload(wire::traits_of(opcode).may_carry_payload ? 16 : 0);
    attacked.expect_refused(wire::test::build_frame(elsewhere, AttackedWorld::header(qp, opcode, qp.expected_psn), {}, payload),
                            DropReason::kPathMismatch, "from elsewhere");
  }
  EXPECT_EQ(attacked.naks_to_client, 0u);
  attacked.expect_unharmed();
}

// CNPs for queue pairs that do not exist, from hosts that have none, in any number.
TEST(HostileFrames, F12_CnpsForNobodyCountAndSlowNothingDown) {
  AttackedWorld attacked;
  SeededRandom random(12);
  const rc::RcQpInfo qp = cw::test::rc_info(attacked.connection(0));
  for (uint32_t i = 0; i < 5'000; ++i) {
    wire::Bth bth = AttackedWorld::header(qp, Opcode::kCnp, wire::Psn(0));
    bth.becn = true;
    bth.destination = verbs::Qpn(qp.local_qpn.value() ^ (1 + random.next_below(0xffff)));
    const bool known = bth.destination == attacked.connection(1).qp.local_qpn;
    if (!known && bth.destination.value() > 1) {
      attacked.expect_refused(wire::test::build_frame(AttackedWorld::towards_us(qp), bth, {}, ByteVector(16)),
                              DropReason::kUnknownQp, "unknown");
    }
    bth.destination = qp.local_qpn;
    wire::Path elsewhere = AttackedWorld::towards_us(qp);
    elsewhere.local = IpAddress::v4(0x0a090000 + 3 + random.next_below(250));
    attacked.expect_refused(wire::test::build_frame(elsewhere, bth, {}, ByteVector(16)), DropReason::kPathMismatch, "elsewhere");
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_EQ(attacked.world.server->node.endpoint().stats().cnps_received, 0u);
  attacked.expect_unharmed();
}

}  // namespace
}  // namespace cw::node::test
