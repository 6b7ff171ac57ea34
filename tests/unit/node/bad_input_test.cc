// Bad input against a gateway that is at work: each frame that has no business here counts under one reason, once, and changes
// nothing else: no queue pair, no connection, no buffer; and the load goes on. Run under ASan and UBSan too.
#include <gtest/gtest.h>

#include <algorithm>

#include "rocev2/wire/ipv4.h"
#include "rocev2/wire/packet_view.h"
#include "tests/support/pcap_reader.h"
#include "tests/support/rc_info.h"
#include "tests/unit/node/attacked_world.h"

namespace cw::node::test {
namespace {

using wire::Opcode;

std::vector<ByteVector> golden_frames() {
  std::vector<ByteVector> out;
  for (const cw::test::CapturedFrame& frame : cw::test::read_pcap(cw::test::golden_packets_dir() / "roce-linux61.pcap")) {
    out.push_back(frame.raw);
  }
  return out;
}

ByteVector cut(const ByteVector& frame, size_t size) {
  return ByteVector(frame.begin(), frame.begin() + static_cast<ptrdiff_t>(size));
}

// A management datagram for the gateway itself: that one is acted upon.
bool is_datagram_for(const IpAddress& address, const ByteVector& frame) {
  const auto view = wire::PacketView::parse(frame);
  return view.ok() && view->bth.destination == verbs::Qpn(1) && view->destination() == address;
}

TEST(BadInput, EveryTruncationOfEveryCapturedFrameCountsOnce) {
  AttackedWorld attacked;
  for (const ByteVector& frame : golden_frames()) {
    // All of the headers, then in steps that hit every residue.
    for (size_t size = 0; size < frame.size(); size += size < 160 ? 1 : 37) {
      attacked.expect_refused(cut(frame, size), "truncated to " + std::to_string(size));
    }
    attacked.expect_refused(cut(frame, frame.size() - 1), "without its last byte");
    attacked.world.step();
    ASSERT_FALSE(::testing::Test::HasFailure());
  }
  attacked.expect_unharmed();
}

TEST(BadInput, EveryCapturedFrameOfOtherConnectionsCountsOnce) {
  for (const bool ipv6 : {false, true}) {
    AttackedWorld attacked(AttackedWorld::options(ipv6));
    uint32_t refused = 0;
    for (const ByteVector& frame : golden_frames()) {
      if (is_datagram_for(sim::sim_ip(ipv6, 1), frame)) {
        const Observation before = attacked.observe();
        (void)attacked.inject(frame);
        const Observation after = attacked.observe();
        EXPECT_EQ(after.cm_received, before.cm_received + 1);
        EXPECT_LE(after.discards, before.discards + 1);
      } else {
        attacked.expect_refused(frame, "captured frame");
        ++refused;
      }
      attacked.world.step();
      ASSERT_FALSE(::testing::Test::HasFailure());
    }
    EXPECT_GT(refused, 300u);
    attacked.expect_unharmed();
    EXPECT_EQ(attacked.world.server->gateway.stats().connections_open, 0u);  // what captured REQs opened has ended too
  }
}

TEST(BadInput, EveryTruncationOfALiveFrameCountsOnce) {
  for (const bool ipv6 : {false, true}) {
    AttackedWorld attacked(AttackedWorld::options(ipv6, ipv6 ? 7 : 0));
    for (uint32_t round = 0; round < 20; ++round) {
      attacked.world.step();
      const ByteVector frame = attacked.heard.back();
      for (size_t size = 0; size < frame.size(); ++size) {
        attacked.expect_refused(cut(frame, size), "live frame truncated to " + std::to_string(size));
      }
      ASSERT_FALSE(::testing::Test::HasFailure());
    }
    attacked.expect_unharmed();
  }
}

TEST(BadInput, RandomFramesCountOnce) {
  AttackedWorld attacked;
  SeededRandom random(3);
  for (uint32_t i = 0; i < 20'000; ++i) {
    ByteVector frame(random.next_below(1000));
    for (uint8_t& byte : frame) {
      byte = static_cast<uint8_t>(random.next_u32());
    }
    // Most of them get some way into the parser.
    if (frame.size() > 60) {
      const bool ipv6 = random.next_below(2) == 0;
      store_be16(&frame[12], ipv6 ? 0x86dd : 0x0800);
      frame[kIpOffset] = ipv6 ? 0x60 : 0x45;
      frame[ipv6 ? kIpOffset + 6 : kIpOffset + 9] = 17;
      if (!ipv6) {
        store_be16(&frame[kIpOffset + 2], static_cast<uint16_t>(frame.size() - kIpOffset));
        frame[kIpOffset + 6] = 0x40;
        frame[kIpOffset + 7] = 0;
        fix_ipv4_checksum(frame, kIpOffset);
      } else {
        store_be16(&frame[kIpOffset + 4], static_cast<uint16_t>(frame.size() - kIpOffset - 40));
      }
      const size_t udp = kIpOffset + (ipv6 ? 40 : 20);
      store_be16(&frame[udp + 2], 4791);
      store_be16(&frame[udp + 4], static_cast<uint16_t>(frame.size() - udp));
    }
    attacked.expect_refused(frame, "random frame " + std::to_string(i));
    if (i % 100 == 0) {
      attacked.world.step();
    }
    ASSERT_FALSE(::testing::Test::HasFailure());
  }
  attacked.expect_unharmed();
}

TEST(BadInput, EveryBitThatTheIcrcCoversCountsOnce) {
  AttackedWorld attacked;
  attacked.world.step();
  const ByteVector frame = attacked.heard.back();
  const auto view = wire::PacketView::parse(frame);
  ASSERT_TRUE(view.ok());
  for (size_t at = view->bth_offset; at < frame.size(); ++at) {
    if (at == view->bth_offset + 4u) {
      continue;  // FECN, BECN and reserved: switches may write there
    }
    for (uint32_t bit = 0; bit < 8; ++bit) {
      ByteVector bent = frame;
      bent[at] ^= static_cast<uint8_t>(1u << bit);
      attacked.expect_refused(bent, "bit " + std::to_string(bit) + " of byte " + std::to_string(at));
    }
  }
  ByteVector wrong = frame;
  wrong.back() ^= 0x80;
  attacked.expect_refused(wrong, DropReason::kIcrc, "wrong iCRC");
  attacked.expect_unharmed();
}

struct Bent {
  const char* what;
  DropReason reason;
  void (*bend)(ByteVector& frame);
};

// Bends a live IPv4 frame; checksum and iCRC are put right afterwards, so that only the one thing is wrong.
TEST(BadInput, WrongIpv4AndUdpHeadersCountUnderTheirNames) {
  const std::vector<Bent> cases = {
      {"more fragments", DropReason::kFragment, [](ByteVector& f) { f[kIpOffset + 6] = 0x20; }},
      {"fragment offset", DropReason::kFragment, [](ByteVector& f) { f[kIpOffset + 7] = 5; }},
      {"options", DropReason::kIpHeader, [](ByteVector& f) { f[kIpOffset] = 0x46; }},
      {"header length 4", DropReason::kIpHeader, [](ByteVector& f) { f[kIpOffset] = 0x44; }},
      {"version 6", DropReason::kIpHeader, [](ByteVector& f) { f[kIpOffset] = 0x65; }},
      {"no length", DropReason::kIpHeader, [](ByteVector& f) { store_be16(&f[kIpOffset + 2], 0); }},
      {"length beyond the frame", DropReason::kRunt, [](ByteVector& f) { store_be16(&f[kIpOffset + 2], 0xffff); }},
      {"length short by one", DropReason::kUdpLength,
       [](ByteVector& f) { store_be16(&f[kIpOffset + 2], static_cast<uint16_t>(load_be16(&f[kIpOffset + 2]) - 1)); }},
      {"TCP", DropReason::kNotRoce, [](ByteVector& f) { f[kIpOffset + 9] = 6; }},
      {"UDP length short", DropReason::kUdpLength, [](ByteVector& f) { store_be16(&f[kIpOffset + 24], 8); }},
      {"UDP length long", DropReason::kUdpLength, [](ByteVector& f) { store_be16(&f[kIpOffset + 24], 0xffff); }},
      {"another port", DropReason::kNotRoce, [](ByteVector& f) { store_be16(&f[kIpOffset + 22], 4790); }},
      {"multicast MAC", DropReason::kMulticast, [](ByteVector& f) { f[0] |= 1; }},
      {"multicast IP", DropReason::kMulticast, [](ByteVector& f) { f[kIpOffset + 16] = 224; }},
      {"broadcast IP", DropReason::kMulticast, [](ByteVector& f) { std::fill_n(&f[kIpOffset + 16], 4, uint8_t{0xff}); }},
      {"transport version", DropReason::kTransportVersion, [](ByteVector& f) { f[kIpOffset + 29] |= 1; }},
      {"reserved opcode", DropReason::kOpcode, [](ByteVector& f) { f[kIpOffset + 28] = 0x1f; }},
      {"another destination", DropReason::kPathMismatch, [](ByteVector& f) { f[kIpOffset + 19] ^= 0x40; }},
      {"another source", DropReason::kPathMismatch, [](ByteVector& f) { f[kIpOffset + 15] ^= 0x40; }},
      {"another P_Key", DropReason::kPkey, [](ByteVector& f) { f[kIpOffset + 31] ^= 1; }},
      {"no such queue pair", DropReason::kUnknownQp, [](ByteVector& f) { f[kIpOffset + 34] ^= 1; }},
  };
  AttackedWorld attacked;
  for (const Bent& bent : cases) {
    attacked.world.step();
    ByteVector frame = attacked.heard.back();
    bent.bend(frame);
    fix_ipv4_checksum(frame, kIpOffset);
    fix_icrc(frame, kIpOffset);
    attacked.expect_refused(frame, bent.reason, bent.what);
  }
  ByteVector frame = attacked.heard.back();
  frame[kIpOffset + 8] -= 1;
  attacked.expect_refused(frame, DropReason::kIpHeader, "IPv4 checksum");
  attacked.expect_unharmed();
}

TEST(BadInput, WrongIpv6HeadersCountUnderTheirNames) {
  const std::vector<Bent> cases = {
      {"hop-by-hop options", DropReason::kIpHeader, [](ByteVector& f) { f[kIpOffset + 6] = 0; }},
      {"routing", DropReason::kIpHeader, [](ByteVector& f) { f[kIpOffset + 6] = 43; }},
      {"fragment", DropReason::kFragment, [](ByteVector& f) { f[kIpOffset + 6] = 44; }},
      {"authentication", DropReason::kIpHeader, [](ByteVector& f) { f[kIpOffset + 6] = 51; }},
      {"destination options", DropReason::kIpHeader, [](ByteVector& f) { f[kIpOffset + 6] = 60; }},
      {"version 4", DropReason::kIpHeader, [](ByteVector& f) { f[kIpOffset] = 0x45; }},
      {"no length", DropReason::kIpHeader, [](ByteVector& f) { store_be16(&f[kIpOffset + 4], 0); }},
      {"length beyond the frame", DropReason::kRunt, [](ByteVector& f) { store_be16(&f[kIpOffset + 4], 0xffff); }},
      {"length short", DropReason::kUdpLength, [](ByteVector& f) { store_be16(&f[kIpOffset + 4], 30); }},
      {"multicast IP", DropReason::kMulticast, [](ByteVector& f) { f[kIpOffset + 24] = 0xff; }},
      {"another source", DropReason::kPathMismatch, [](ByteVector& f) { f[kIpOffset + 20] ^= 1; }},
  };
  AttackedWorld attacked(AttackedWorld::options(true));
  for (const Bent& bent : cases) {
    attacked.world.step();
    ByteVector frame = attacked.heard.back();
    bent.bend(frame);
    fix_icrc(frame, kIpOffset);
    attacked.expect_refused(frame, bent.reason, bent.what);
  }
  attacked.expect_unharmed();
}

TEST(BadInput, FramesOfAnotherVlanCountAsPathMismatch) {
  AttackedWorld attacked(AttackedWorld::options(false, 42));
  const rc::RcQpInfo qp = cw::test::rc_info(attacked.connection(0));
  for (const uint16_t vlan : std::initializer_list<uint16_t>{0, 41, 4095}) {
    wire::Path path = AttackedWorld::towards_us(qp);
    path.vlan = vlan;
    const ByteVector send =
        wire::test::build_frame(path, AttackedWorld::header(qp, Opcode::kRcSendOnly, qp.expected_psn), {}, ByteVector(64));
    attacked.expect_refused(send, DropReason::kPathMismatch, "queue pair, VLAN " + std::to_string(vlan));
    const ByteVector mad = wire::test::build_frame(path, AttackedWorld::datagram_header(), AttackedWorld::datagram_extensions(),
                                                   ByteVector(gsi::kMadBytes));
    attacked.expect_refused(mad, DropReason::kPathMismatch, "QP1, VLAN " + std::to_string(vlan));
  }
  attacked.expect_unharmed();
}

// The chatter of any LAN is not an attack: it counts as what it is, not RoCE.
TEST(BadInput, MulticastListenersAreNotAnAttack) {
  AttackedWorld attacked;
  ByteVector mld = {0x33, 0x33, 0, 0, 0, 0x16, 2, 0, 0, 0, 0, 9, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 36, 0, 1};
  mld.resize(14 + 40 + 36);
  mld[14 + 8] = 0xfe;
  mld[14 + 9] = 0x80;
  mld[14 + 24] = 0xff;
  mld[14 + 25] = 2;
  mld[14 + 39] = 0x16;
  mld[14 + 40] = 58;  // ICMPv6 behind the hop-by-hop header with its router alert
  mld[14 + 42] = 5;
  mld[14 + 43] = 2;
  attacked.expect_refused(mld, DropReason::kNotRoce, "MLD report");
  ByteVector igmp = {0x01, 0, 0x5e, 0, 0, 0x16, 2, 0, 0, 0, 0, 9, 0x08, 0, 0x46, 0xc0, 0, 40, 0, 0, 0x40, 0, 1, 2, 0, 0};
  igmp.resize(14 + 40);
  store_be32(&igmp[14 + 12], 0x0a090009);
  store_be32(&igmp[14 + 16], 0xe0000016);
  igmp[14 + 20] = 0x94;  // router alert
  igmp[14 + 21] = 4;
  attacked.expect_refused(igmp, DropReason::kNotRoce, "IGMP report");
  attacked.expect_unharmed();
}

// Right QPN, wrong everything else, as from a host that guesses.
TEST(BadInput, PacketsThatDoNotFitTheirQueuePairChangeNothing) {
  AttackedWorld attacked;
  SeededRandom random(11);
  const std::vector<Opcode> requests = {Opcode::kRcSendOnly,    Opcode::kRcSendFirst, Opcode::kRcSendMiddle,
                                        Opcode::kRcSendLast,    Opcode::kRcWriteOnly, Opcode::kRcWriteFirst,
                                        Opcode::kRcReadRequest, Opcode::kRcFetchAdd,  Opcode::kRcCompareSwap};
  const std::vector<Opcode> responses = {Opcode::kRcAcknowledge, Opcode::kRcReadResponseFirst, Opcode::kRcReadResponseMiddle,
                                         Opcode::kRcReadResponseLast, Opcode::kRcReadResponseOnly};
  for (uint32_t round = 0; round < 300; ++round) {
    attacked.world.step();
    const rc::RcQpInfo qp = cw::test::rc_info(attacked.connection(round % 2));
    for (const Opcode opcode : requests) {
      wire::Path elsewhere = AttackedWorld::towards_us(qp);
      elsewhere.local = IpAddress::v4(0x0a090000 + 3 + random.next_below(250));
      attacked.expect_refused(wire::test::build_frame(elsewhere, AttackedWorld::header(qp, opcode, qp.expected_psn), {}, {}),
                              DropReason::kPathMismatch, "from elsewhere");
      attacked.expect_refused(AttackedWorld::frame(qp, opcode, qp.expected_psn.plus((1u << 20) + 1 + random.next_below(1 << 22))),
                              DropReason::kPsnStale, "request outside the window");
    }
    for (const Opcode opcode : responses) {
      for (const uint8_t syndrome : std::initializer_list<uint8_t>{0x1f, 0x20, 0x60, 0x61, 0x62, 0x63, 0x64, 0x7f}) {
        wire::Extensions extensions;
        extensions.aeth.syndrome = syndrome;
        const bool future = random.next_below(2) == 0;
        const wire::Psn psn =
            future ? qp.next_psn.plus(4096 + random.next_below(1 << 20)) : qp.una.minus(1 + random.next_below(5000));
        attacked.expect_refused(AttackedWorld::frame(qp, opcode, psn, 0, extensions), "response that nobody waits for");
      }
    }
    attacked.expect_refused(AttackedWorld::frame(qp, Opcode::kRcAtomicAcknowledge, qp.una), "answer to no atomic");
    attacked.expect_refused(AttackedWorld::frame(qp, Opcode::kUdSendOnly, qp.expected_psn, 256), DropReason::kNotDatagram, "UD");
    attacked.expect_refused(AttackedWorld::frame(qp, Opcode::kRcReadRequest, qp.expected_psn.minus(1)), DropReason::kDuplicate,
                            "old READ");
    ASSERT_FALSE(::testing::Test::HasFailure());
  }
  attacked.expect_unharmed();
}

// A gap or a repetition on the right path is what a lossy network does: it costs a NAK, never an answer.
TEST(BadInput, GapsAndRepetitionsByAForgerCostNoCall) {
  AttackedWorld attacked;
  SeededRandom random(12);
  for (uint32_t round = 0; round < 300; ++round) {
    attacked.world.step();
    const rc::RcQpInfo qp = cw::test::rc_info(attacked.connection(round % 2));
    (void)attacked.inject(AttackedWorld::frame(qp, Opcode::kRcSendOnly, qp.expected_psn.plus(1 + random.next_below(1000)), 64));
    (void)attacked.inject(AttackedWorld::frame(qp, Opcode::kRcSendOnly, qp.expected_psn.minus(1 + random.next_below(1000)), 64));
    (void)attacked.inject(attacked.heard[random.next_below(static_cast<uint32_t>(attacked.heard.size()))]);
    attacked.expect_consistent("round " + std::to_string(round));
  }
  attacked.expect_unharmed();
}

// Proves RPCRDMA-8.1-1: the gateway exposes no memory: whoever asks for some loses the connection, and nobody else does.
TEST(BadInput, RequestsForMemoryAreRefusedByNakAndEndOnlyTheirConnection) {
  for (const Opcode opcode : {Opcode::kRcWriteOnly, Opcode::kRcWriteFirst, Opcode::kRcWriteOnlyImmediate, Opcode::kRcReadRequest,
                              Opcode::kRcFetchAdd, Opcode::kRcCompareSwap, Opcode::kRcSendOnlyInvalidate}) {
    SCOPED_TRACE(static_cast<int>(opcode));
    sim::WorldOptions options = AttackedWorld::options();
    options.backend = gateway::BackendKind::kTcp;
    AttackedWorld attacked(options);
    sim::GatewayHost& host = *attacked.world.server;
    host.backend.call_delay = Duration::ms(1);  // the client pauses for a second before it comes back
    // Between two messages, else the sequence of opcodes is what is wrong.
    const gateway::ConnectionInfo victim = attacked.connection(0);
    const gateway::ConnectionInfo witness = attacked.connection(1);
    wire::Extensions extensions;
    extensions.reth = {.address = 0x1000, .rkey = verbs::Rkey(0x1234), .length = 64};
    const bool carries = wire::traits_of(opcode).may_carry_payload;
    const size_t bytes = opcode == Opcode::kRcWriteFirst ? 1024 : carries ? 64 : 0;
    const uint64_t naks = sum_of(host.node.endpoint().stats().naks_sent);
    (void)attacked.inject(
        AttackedWorld::frame(cw::test::rc_info(victim), opcode, cw::test::rc_info(victim).expected_psn, bytes, extensions));
    EXPECT_TRUE(attacked.world.run_until(Duration::seconds(5), [](sim::World& w) { return w.peer->driver.stats().lost == 1; }));
    EXPECT_EQ(sum_of(host.node.endpoint().stats().naks_sent), naks + 1);
    EXPECT_EQ(attacked.naks_to_client, 1u);
    EXPECT_EQ(host.gateway.stats().connections[static_cast<size_t>(gateway::ConnectionResult::kFailedTransport)], 1u);
    // The client comes back; the other connection has not noticed.
    EXPECT_TRUE(attacked.world.run_until(Duration::seconds(20), [](sim::World& w) { return w.peer->driver.connected() == 2; }));
    EXPECT_TRUE(attacked.world.run_calls(100));
    bool lives_on = false;
    for (uint32_t i = 0; i < 2; ++i) {
      const gateway::ConnectionInfo info = attacked.connection(i);
      lives_on |= info.id == witness.id && info.calls > witness.calls && cw::test::rc_info(info).state == rc::QpState::kRts;
    }
    EXPECT_TRUE(lives_on);
    EXPECT_EQ(attacked.world.peer->driver.stats().lost, 1u);
    attacked.expect_ends_well();
  }
}

// Datagrams for QP1 that are not management datagrams.
TEST(BadInput, DatagramsThatAreNoMadsCountUnderTheirNames) {
  AttackedWorld attacked;
  const IpAddress source = sim::sim_ip(false, 2);
  wire::Path path;
  path.local_mac = sim::sim_mac(2);
  path.remote_mac = sim::sim_mac(1);
  path.local = source;
  path.remote = sim::sim_ip(false, 1);
  const auto build = [&](const wire::Bth& bth, const wire::Extensions& extensions, size_t bytes) {
    return wire::test::build_frame(path, bth, extensions, ByteVector(bytes, 1));
  };
  const wire::Bth bth = AttackedWorld::datagram_header();
  const wire::Extensions extensions = AttackedWorld::datagram_extensions();
  for (size_t bytes = 0; bytes <= 300; ++bytes) {
    if (bytes != gsi::kMadBytes) {
      attacked.expect_refused(build(bth, extensions, bytes), DropReason::kMalformedMad, "MAD of " + std::to_string(bytes));
    }
  }
  wire::Extensions other = extensions;
  other.deth.qkey ^= 1;
  attacked.expect_refused(build(bth, other, 256), DropReason::kQkey, "Q_Key");
  other = extensions;
  other.deth.source = verbs::Qpn(2);
  attacked.expect_refused(build(bth, other, 256), DropReason::kMalformedMad, "not from QP1");
  wire::Bth bent = bth;
  bent.pkey = 0x7ffe;
  attacked.expect_refused(build(bent, extensions, 256), DropReason::kPkey, "P_Key");
  bent = bth;
  bent.opcode = Opcode::kUdSendOnlyImmediate;
  attacked.expect_refused(build(bent, extensions, 256), DropReason::kMalformedMad, "immediate data");
  bent.opcode = Opcode::kRcSendOnly;
  attacked.expect_refused(build(bent, extensions, 256), DropReason::kNotDatagram, "connected opcode");
  for (const uint32_t qpn : {0u, 2u, 0xff'ffffu}) {
    bent = bth;
    bent.destination = verbs::Qpn(qpn);
    attacked.expect_refused(build(bent, extensions, 256), DropReason::kNotDatagram, "QPN " + std::to_string(qpn));
  }
  path.remote = sim::sim_ip(false, 9);
  attacked.expect_refused(build(bth, extensions, 256), DropReason::kPathMismatch, "not our address");
  attacked.expect_unharmed();
}

}  // namespace
}  // namespace cw::node::test
