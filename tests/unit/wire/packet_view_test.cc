#include "rocev2/wire/packet_view.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "rocev2/wire/cnp.h"
#include "rocev2/wire/ethernet.h"
#include "rocev2/wire/frame_layout.h"
#include "rocev2/wire/icrc.h"
#include "rocev2/wire/ipv4.h"
#include "tests/unit/wire/frames.h"

namespace cw::wire {
namespace {

using test::build_frame;
using test::v4_path;
using test::v6_path;

constexpr size_t kIp = 14;
constexpr size_t kUdp4 = kIp + 20;
constexpr size_t kUdp6 = kIp + 40;
constexpr size_t kBth4 = kUdp4 + 8;
constexpr size_t kBth6 = kUdp6 + 8;

using Frame = std::vector<uint8_t>;

std::string verdict_of(const Frame& frame) {
  const Result<PacketView, DropReason> view = PacketView::parse(frame);
  if (!view) {
    return to_string(view.error());
  }
  return verify_icrc(*view) ? "ok" : "icrc";
}

void fix_ipv4_checksum(Frame& frame, size_t ip = kIp) {
  store_be16(&frame[ip + 10], 0);
  const uint64_t sum = ipv4_sum(std::span<const uint8_t, 20>(&frame[ip], 20));
  store_be16(&frame[ip + 10], static_cast<uint16_t>(~fold_ones_complement(sum)));
}

void fix_icrc(Frame& frame, size_t ip = kIp) {
  const size_t end = frame.size() - 4;
  store_le32(&frame[end], Icrc(Bytes(frame).subspan(ip, end - ip)).value());
}

Frame v4_send(size_t payload_bytes = 21) {
  return build_frame(v4_path(), Opcode::kRcSendOnly, payload_bytes);
}
Frame v6_send(size_t payload_bytes = 21) {
  return build_frame(v6_path(), Opcode::kRcSendOnly, payload_bytes);
}

// An IPv4 frame bent by `change`, its header checksum right again.
Frame bent_v4(const std::function<void(Frame&)>& change) {
  Frame frame = v4_send();
  change(frame);
  fix_ipv4_checksum(frame);
  return frame;
}
Frame bent_v6(const std::function<void(Frame&)>& change) {
  Frame frame = v6_send();
  change(frame);
  return frame;
}

TEST(PacketView, FindsEverythingInAnIpv4Frame) {
  Path path = v4_path();
  path.dscp = 26;
  path.hop_limit = 63;
  Bth bth;
  bth.opcode = Opcode::kRcWriteOnlyImmediate;
  bth.destination = verbs::Qpn(0x123456);
  bth.psn = Psn(0xffffff);
  bth.ack_request = true;
  Extensions extensions;
  extensions.reth = Reth{0x1122334455667788, verbs::Rkey(0x99aabbcc), 3};
  extensions.immediate = 0xdeadbeef;
  const Frame payload = {1, 2, 3};
  const Frame frame = build_frame(path, bth, extensions, payload);
  const Result<PacketView, DropReason> view = PacketView::parse(frame);
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(view->frame.size(), frame.size());
  EXPECT_EQ(view->traits, &traits_of(Opcode::kRcWriteOnlyImmediate));
  bth.pad_count = 1;
  EXPECT_EQ(view->bth, bth);
  EXPECT_EQ(view->source_mac(), path.local_mac);
  EXPECT_EQ(view->destination_mac(), path.remote_mac);
  EXPECT_EQ(view->vlan, 0);
  EXPECT_EQ(view->source(), path.local);
  EXPECT_EQ(view->destination(), path.remote);
  EXPECT_EQ(view->source_port, path.udp_source_port);
  EXPECT_EQ(view->ecn, 2);
  EXPECT_EQ(view->ttl, 63);
  EXPECT_EQ(view->ip_offset, kIp);
  EXPECT_EQ(view->bth_offset, kBth4);
  EXPECT_EQ(Frame(view->payload.begin(), view->payload.end()), payload);
  EXPECT_EQ(view->reth(), extensions.reth);
  EXPECT_EQ(view->immediate(), 0xdeadbeefu);
  EXPECT_TRUE(verify_icrc(*view));
}

TEST(PacketView, FindsEverythingInATaggedIpv6Frame) {
  const Path path = v6_path(0xfff);
  const Frame frame = build_frame(path, Opcode::kRcSendOnly, 5);
  const Result<PacketView, DropReason> view = PacketView::parse(frame);
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(view->vlan, 0xfff);
  EXPECT_EQ(view->source(), path.local);
  EXPECT_EQ(view->destination(), path.remote);
  EXPECT_EQ(view->ip_offset, kIp + 4);
  EXPECT_EQ(view->bth_offset, kBth6 + 4);
  EXPECT_EQ(view->ecn, 2);
  EXPECT_EQ(view->ttl, 64);
  EXPECT_EQ(view->payload.size(), 5u);
  EXPECT_TRUE(verify_icrc(*view));
}

TEST(PeekDestination, NamesTheQueuePairOfEveryKindOfFrame) {
  Bth bth;
  bth.opcode = Opcode::kRcSendOnly;
  bth.destination = verbs::Qpn(0x123456);
  for (const Path& path : {v4_path(), v6_path(0), v6_path(7)}) {
    const Frame frame = build_frame(path, bth, {}, Frame(5));
    EXPECT_EQ(peek_destination(frame), verbs::Qpn(0x123456));
  }
}

TEST(PeekDestination, ReadsNothingBehindTheEndOfAFrame) {
  const Frame whole = build_frame(v6_path(7), Opcode::kRcSendOnly, 5);
  for (size_t size = 0; size < whole.size(); ++size) {
    const Frame cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));  // the sanitizers watch its end
    const bool has_bth = size >= kBth6 + 4 + Bth::kSize;
    EXPECT_EQ(peek_destination(cut).has_value(), has_bth) << size << " bytes";
  }
}

TEST(FrameLayout, WalksOptionsAndKnowsTheMiddleOfADatagram) {
  const Frame plain = build_frame(v4_path(), Opcode::kRcSendOnly, 5);
  Frame with_options = plain;
  with_options[kIp] = 0x46;
  const std::array<uint8_t, 4> router_alert = {0x94, 4, 0, 0};
  with_options.insert(with_options.begin() + kIp + Ipv4::kSize, router_alert.begin(), router_alert.end());
  ASSERT_TRUE(find_roce(plain));
  ASSERT_TRUE(find_roce(with_options));
  EXPECT_EQ(find_roce(with_options)->bth, find_roce(plain)->bth + 4);

  Frame later_fragment = plain;
  later_fragment[kIp + 7] = 1;
  EXPECT_FALSE(find_roce(later_fragment)) << "its ports are somebody's data";
  ASSERT_TRUE(find_ip(later_fragment));
  EXPECT_TRUE(find_ip(later_fragment)->is_later_fragment());

  Frame short_header = plain;
  short_header[kIp] = 0x44;
  EXPECT_FALSE(find_ip(short_header));
  Frame other_version = plain;
  other_version[kIp] = 0x65;
  EXPECT_FALSE(find_ip(other_version));
}

TEST(PacketView, GivesTheExtensionHeadersOfEveryOpcode) {
  Extensions sent;
  sent.reth = Reth{1, verbs::Rkey(2), 3};
  sent.aeth = Aeth::nak(NakCode::kInvalidRequest, 4);
  sent.atomic_eth = AtomicEth{5, verbs::Rkey(6), 7, 8};
  sent.atomic_ack_eth = AtomicAckEth{9};
  sent.immediate = 10;
  sent.invalidate = verbs::Rkey(11);
  sent.deth = Deth{12, verbs::Qpn(13)};
  for (int value = 0; value < 256; ++value) {
    Bth bth;
    bth.opcode = static_cast<Opcode>(value);
    const OpcodeTraits& traits = traits_of(bth.opcode);
    if (traits.kind == OpcodeKind::kReserved) {
      continue;
    }
    const Frame payload(traits.may_carry_payload ? 8 : 0);
    const Frame frame = build_frame(v4_path(), bth, sent, payload);
    const Result<PacketView, DropReason> view = PacketView::parse(frame);
    ASSERT_TRUE(view.ok()) << traits.name;
    EXPECT_TRUE(verify_icrc(*view)) << traits.name;
    EXPECT_EQ(view->payload.size(), payload.size()) << traits.name;
    EXPECT_TRUE(traits.reth == OpcodeTraits::kAbsent || view->reth() == sent.reth) << traits.name;
    EXPECT_TRUE(traits.aeth == OpcodeTraits::kAbsent || view->aeth() == sent.aeth) << traits.name;
    EXPECT_TRUE(traits.atomic_eth == OpcodeTraits::kAbsent || view->atomic_eth() == sent.atomic_eth) << traits.name;
    EXPECT_TRUE(traits.atomic_ack_eth == OpcodeTraits::kAbsent || view->atomic_ack_eth() == sent.atomic_ack_eth) << traits.name;
    EXPECT_TRUE(traits.immdt == OpcodeTraits::kAbsent || view->immediate() == sent.immediate) << traits.name;
    EXPECT_TRUE(traits.ieth == OpcodeTraits::kAbsent || view->invalidate_rkey() == sent.invalidate) << traits.name;
    EXPECT_TRUE(traits.deth == OpcodeTraits::kAbsent || view->deth() == sent.deth) << traits.name;
  }
}

TEST(PacketView, CutsEthernetPaddingOff) {
  Frame frame = build_frame(v4_path(), Opcode::kRcAcknowledge, 0);
  const size_t real_bytes = frame.size();
  frame.resize(real_bytes + 18, 0xee);
  const Result<PacketView, DropReason> view = PacketView::parse(frame);
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(view->frame.size(), real_bytes);
  EXPECT_TRUE(verify_icrc(*view));
}

TEST(PacketView, ReadsCongestionNotifications) {
  const Frame frame = build_frame(v4_path(), cnp_bth(verbs::Qpn(5)), Extensions{}, kCnpReserved);
  const Result<PacketView, DropReason> view = PacketView::parse(frame);
  ASSERT_TRUE(view.ok());
  EXPECT_TRUE(view->bth.becn);
  EXPECT_EQ(view->traits->kind, OpcodeKind::kCongestion);
  EXPECT_EQ(view->payload.size(), kCnpReservedBytes);
}

// F1 of tests/requirements/hostile.md.
TEST(PacketView, RefusesEveryTruncation) {
  for (const Frame& frame : {v4_send(), v6_send(), build_frame(v4_path(9), Opcode::kRcReadRequest, 0),
                             build_frame(v6_path(9), Opcode::kUdSendOnly, 256)}) {
    for (size_t size = 0; size < frame.size(); ++size) {
      const Frame cut(frame.begin(), frame.begin() + static_cast<ptrdiff_t>(size));
      ASSERT_EQ(verdict_of(cut), "runt") << size;
    }
  }
}

// The same with lengths that agree with the cut: each layer must notice for itself.
TEST(PacketView, RefusesEveryTruncationThatIpAndUdpAgreeWith) {
  for (const Opcode opcode : {Opcode::kRcSendOnly, Opcode::kRcReadRequest, Opcode::kRcFetchAdd, Opcode::kRcAtomicAcknowledge}) {
    const bool payload = traits_of(opcode).may_carry_payload;
    const Frame frame = build_frame(v4_path(), opcode, payload ? 21 : 0);
    for (size_t size = kUdp4; size < frame.size(); ++size) {
      Frame cut(frame.begin(), frame.begin() + static_cast<ptrdiff_t>(size));
      store_be16(&cut[kIp + 2], static_cast<uint16_t>(size - kIp));
      if (size >= kBth4) {
        store_be16(&cut[kUdp4 + 4], static_cast<uint16_t>(size - kUdp4));
      }
      fix_ipv4_checksum(cut);
      const size_t needed = kBth4 + Bth::kSize + traits_of(opcode).extension_bytes + kIcrcBytes;
      const std::string verdict = verdict_of(cut);
      if (size < kBth4) {
        EXPECT_EQ(verdict, "ip_header") << size;
      } else if (size < needed) {
        EXPECT_EQ(verdict, "runt") << size;
      } else if (size <= needed + 3) {
        EXPECT_EQ(verdict, "pad_count") << size;  // 21 bytes of payload had three of padding
      } else {
        EXPECT_EQ(verdict, "icrc") << size;
      }
    }
  }
}

TEST(PacketView, RefusesOtherProtocolsAsNotRoce) {
  EXPECT_EQ(verdict_of(bent_v4([](Frame& f) { store_be16(&f[12], 0x0806); })), "not_roce");  // ARP
  EXPECT_EQ(verdict_of(bent_v4([](Frame& f) { store_be16(&f[12], 100); })), "not_roce");     // 802.3 length
  EXPECT_EQ(verdict_of(bent_v4([](Frame& f) { f[kIp + 9] = 6; })), "not_roce");
  EXPECT_EQ(verdict_of(bent_v6([](Frame& f) { f[kIp + 6] = 58; })), "not_roce");
  EXPECT_EQ(verdict_of(bent_v6([](Frame& f) { f[kIp + 6] = 59; })), "not_roce");
  EXPECT_EQ(verdict_of(bent_v4([](Frame& f) { store_be16(&f[kUdp4 + 2], 4790); })), "not_roce");
  EXPECT_EQ(verdict_of(bent_v6([](Frame& f) { store_be16(&f[kUdp6 + 2], 0); })), "not_roce");
}

// IGMP carries a router alert, multicast listener discovery a hop-by-hop header; neither is a bad header.
TEST(PacketView, TakesGroupManagementForNotRoce) {
  EXPECT_EQ(verdict_of(bent_v4([](Frame& f) {
              f[kIp] = 0x46;
              f[kIp + 9] = 2;
            })),
            "not_roce");
  for (const uint8_t extension : {uint8_t{0}, uint8_t{60}}) {
    EXPECT_EQ(verdict_of(bent_v6([extension](Frame& f) {
                f[kIp + 6] = extension;
                f[kIp + 24] = 0xff;
                f[kIp + 25] = 2;
              })),
              "not_roce");
  }
}

TEST(PacketView, RefusesASecondVlanTag) {
  Frame frame = build_frame(v4_path(5), Opcode::kRcSendOnly, 8);
  const uint8_t tag[] = {0x81, 0x00, 0x00, 0x06};
  frame.insert(frame.begin() + 12, tag, tag + 4);
  EXPECT_EQ(verdict_of(frame), "not_roce");
  frame[12] = 0x88;  // 802.1ad outside
  frame[13] = 0xa8;
  EXPECT_EQ(verdict_of(frame), "not_roce");
}

// F4 of tests/requirements/hostile.md.
TEST(PacketView, RefusesBadIpv4Headers) {
  EXPECT_EQ(verdict_of(bent_v4([](Frame& f) { f[kIp] = 0x46; })), "ip_header");  // options
  EXPECT_EQ(verdict_of(bent_v4([](Frame& f) { f[kIp] = 0x4f; })), "ip_header");
  EXPECT_EQ(verdict_of(bent_v4([](Frame& f) { f[kIp] = 0x44; })), "ip_header");
  EXPECT_EQ(verdict_of(bent_v4([](Frame& f) { f[kIp] = 0x65; })), "ip_header");  // version 6 behind EtherType 0x0800
  EXPECT_EQ(verdict_of(bent_v4([](Frame& f) { store_be16(&f[kIp + 2], 27); })), "ip_header");
  EXPECT_EQ(verdict_of(bent_v4([](Frame& f) { store_be16(&f[kIp + 2], 0); })), "ip_header");
  EXPECT_EQ(verdict_of(bent_v4([](Frame& f) { store_be16(&f[kIp + 2], 0xffff); })), "runt");
  EXPECT_EQ(verdict_of(bent_v4([](Frame& f) { store_be16(&f[kIp + 2], static_cast<uint16_t>(load_be16(&f[kIp + 2]) + 1)); })),
            "runt");
  Frame wrong_checksum = v4_send();
  wrong_checksum[kIp + 8] -= 1;  // TTL without its checksum
  EXPECT_EQ(verdict_of(wrong_checksum), "ip_header");
}

TEST(PacketView, RefusesBadIpv6Headers) {
  EXPECT_EQ(verdict_of(bent_v6([](Frame& f) { f[kIp] = 0x45; })), "ip_header");
  for (const int extension : {0, 43, 51, 60, 135, 139, 140}) {
    EXPECT_EQ(verdict_of(bent_v6([extension](Frame& f) { f[kIp + 6] = static_cast<uint8_t>(extension); })), "ip_header")
        << extension;
  }
  EXPECT_EQ(verdict_of(bent_v6([](Frame& f) { store_be16(&f[kIp + 4], 0); })), "ip_header");  // jumbogram
  EXPECT_EQ(verdict_of(bent_v6([](Frame& f) { store_be16(&f[kIp + 4], 7); })), "ip_header");
  EXPECT_EQ(verdict_of(bent_v6([](Frame& f) { store_be16(&f[kIp + 4], 0xffff); })), "runt");
}

TEST(PacketView, RefusesMappedAddressesInIpv6) {
  const IpAddress mapped = IpAddress::v4(0x0a090001);
  for (const size_t at : {kIp + 8, kIp + 24}) {
    EXPECT_EQ(verdict_of(bent_v6(
                  [&](Frame& f) { std::copy(mapped.raw.begin(), mapped.raw.end(), f.begin() + static_cast<ptrdiff_t>(at)); })),
              "ip_header");
  }
}

TEST(PacketView, RefusesFragments) {
  EXPECT_EQ(verdict_of(bent_v4([](Frame& f) { store_be16(&f[kIp + 6], 0x2000); })), "fragment");
  EXPECT_EQ(verdict_of(bent_v4([](Frame& f) { store_be16(&f[kIp + 6], 0x0001); })), "fragment");
  EXPECT_EQ(verdict_of(bent_v4([](Frame& f) { store_be16(&f[kIp + 6], 0x6001); })), "fragment");
  EXPECT_EQ(verdict_of(bent_v6([](Frame& f) { f[kIp + 6] = 44; })), "fragment");
}

TEST(PacketView, RefusesUdpLengthsThatDisagreeWithIp) {
  for (const int delta : {-1, 1, 4, -30}) {
    EXPECT_EQ(verdict_of(bent_v4(
                  [delta](Frame& f) { store_be16(&f[kUdp4 + 4], static_cast<uint16_t>(load_be16(&f[kUdp4 + 4]) + delta)); })),
              "udp_length");
    EXPECT_EQ(verdict_of(bent_v6(
                  [delta](Frame& f) { store_be16(&f[kUdp6 + 4], static_cast<uint16_t>(load_be16(&f[kUdp6 + 4]) + delta)); })),
              "udp_length");
  }
  EXPECT_EQ(verdict_of(bent_v4([](Frame& f) { store_be16(&f[kUdp4 + 4], 0); })), "udp_length");
}

TEST(PacketView, AcceptsAnyUdpChecksum) {
  EXPECT_EQ(verdict_of(bent_v4([](Frame& f) { store_be16(&f[kUdp4 + 6], 0x1234); })), "ok");
  EXPECT_EQ(verdict_of(bent_v6([](Frame& f) { store_be16(&f[kUdp6 + 6], 0x1234); })), "ok");
}

TEST(PacketView, AcceptsFramesThatARouterHasMarked) {
  EXPECT_EQ(verdict_of(bent_v4([](Frame& f) {
              f[kIp + 1] |= 3;
              f[kIp + 8] -= 5;
            })),
            "ok");
  EXPECT_EQ(verdict_of(bent_v6([](Frame& f) {
              f[kIp + 1] |= 0x30;
              f[kIp + 7] -= 5;
            })),
            "ok");
}

TEST(PacketView, RefusesOtherTransportVersionsAndReservedOpcodes) {
  for (uint8_t version = 1; version < 16; ++version) {
    EXPECT_EQ(verdict_of(bent_v4([version](Frame& f) { f[kBth4 + 1] = static_cast<uint8_t>((f[kBth4 + 1] & 0xf0) | version); })),
              "transport_version");
  }
  for (int value = 0; value < 256; ++value) {
    if (traits_of(static_cast<Opcode>(value)).kind == OpcodeKind::kReserved) {
      EXPECT_EQ(verdict_of(bent_v4([value](Frame& f) { f[kBth4] = static_cast<uint8_t>(value); })), "opcode") << value;
    }
  }
}

// F2 of tests/requirements/hostile.md.
TEST(PacketView, RefusesPaddingWithoutPayload) {
  for (size_t payload_bytes : {0u, 4u}) {
    for (uint8_t pad_count = 1; pad_count < 4; ++pad_count) {
      Frame frame = build_frame(v4_path(), Opcode::kRcSendOnly, payload_bytes);
      frame[kBth4 + 1] = static_cast<uint8_t>((frame[kBth4 + 1] & ~0x30) | (pad_count << 4));
      fix_icrc(frame);
      EXPECT_EQ(verdict_of(frame), payload_bytes == 0 ? "pad_count" : "ok") << payload_bytes << " " << int{pad_count};
    }
  }
  Frame ack = build_frame(v4_path(), Opcode::kRcAcknowledge, 0);
  ack[kBth4 + 1] |= 0x10;
  EXPECT_EQ(verdict_of(ack), "pad_count");
}

TEST(PacketView, RefusesPaddingThatIsAllOfThePayload) {
  Frame frame = build_frame(v4_path(), Opcode::kRcSendOnly, 4);
  frame.erase(frame.begin() + kBth4 + 12);  // three bytes, all padding
  store_be16(&frame[kIp + 2], static_cast<uint16_t>(frame.size() - kIp));
  store_be16(&frame[kUdp4 + 4], static_cast<uint16_t>(frame.size() - kUdp4));
  frame[kBth4 + 1] |= 0x30;
  fix_ipv4_checksum(frame);
  EXPECT_EQ(verdict_of(frame), "pad_count");
}

TEST(PacketView, RefusesMulticastOfEitherLayer) {
  EXPECT_EQ(verdict_of(bent_v4([](Frame& f) { f[0] = 0x01; })), "multicast");
  EXPECT_EQ(verdict_of(bent_v4([](Frame& f) { std::fill(f.begin(), f.begin() + 6, uint8_t{0xff}); })), "multicast");
  EXPECT_EQ(verdict_of(bent_v4([](Frame& f) { store_be32(&f[kIp + 16], 0xe0000001); })), "multicast");
  EXPECT_EQ(verdict_of(bent_v4([](Frame& f) { store_be32(&f[kIp + 16], 0xffffffff); })), "multicast");
  EXPECT_EQ(verdict_of(bent_v6([](Frame& f) { f[kIp + 24] = 0xff; })), "multicast");
}

TEST(PacketView, ABroadcastOfAnotherProtocolIsNotRoce) {
  Frame frame = v4_send();
  std::fill(frame.begin(), frame.begin() + 6, uint8_t{0xff});
  store_be16(&frame[12], 0x0806);
  EXPECT_EQ(verdict_of(frame), "not_roce");
}

TEST(PacketView, FindsWrongIcrc) {
  Frame frame = v4_send();
  frame.back() ^= 1;
  EXPECT_EQ(verdict_of(frame), "icrc");
  frame = v6_send();
  frame[kBth6 + 12] ^= 1;
  EXPECT_EQ(verdict_of(frame), "icrc");
}

TEST(PacketView, ArbitraryBytesNeverReadOutOfBounds) {
  EXPECT_TRUE(rc::check([] {
    // A frame whose first layers are right as often as not, so that the later ones are reached.
    Frame frame = *rc::gen::arbitrary<bool>() ? v4_send(40) : v6_send(40);
    const size_t flips = *rc::gen::inRange<size_t>(0, 6);
    for (size_t i = 0; i < flips; ++i) {
      frame[*rc::gen::inRange<size_t>(0, frame.size())] = *rc::gen::arbitrary<uint8_t>();
    }
    frame.resize(*rc::gen::inRange<size_t>(0, frame.size() + 8));
    if (frame.size() > kUdp4 && frame[12] == 0x08 && *rc::gen::arbitrary<bool>()) {
      fix_ipv4_checksum(frame);
    }
    const Frame exact(frame);
    const Result<PacketView, DropReason> view = PacketView::parse(exact);
    if (view) {
      RC_ASSERT(view->payload.empty() ||
                (view->payload.data() >= exact.data() &&
                 view->payload.data() + view->payload.size() + kIcrcBytes <= exact.data() + exact.size()));
      (void)verify_icrc(*view);
    } else {
      RC_ASSERT(static_cast<uint32_t>(view.error()) <= static_cast<uint32_t>(DropReason::kMulticast));
    }
  }));
}

}  // namespace
}  // namespace cw::wire
