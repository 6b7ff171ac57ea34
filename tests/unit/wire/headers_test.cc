// Every header codec: golden bytes at compile time, round trip, and refusal at every shorter length.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <vector>

#include "rocev2/wire/aeth.h"
#include "rocev2/wire/atomic_eth.h"
#include "rocev2/wire/bth.h"
#include "rocev2/wire/cnp.h"
#include "rocev2/wire/deth.h"
#include "rocev2/wire/ethernet.h"
#include "rocev2/wire/ieth.h"
#include "rocev2/wire/immdt.h"
#include "rocev2/wire/ipv4.h"
#include "rocev2/wire/ipv6.h"
#include "rocev2/wire/reth.h"
#include "rocev2/wire/udp.h"

namespace cw::wire {
namespace {

template <typename Header>
constexpr std::array<uint8_t, Header::kSize> written(const Header& header) {
  std::array<uint8_t, Header::kSize> out{};
  out.fill(0xa5);  // what write() does not touch would show
  header.write(out);
  return out;
}

template <typename Header, size_t N>
constexpr bool is_golden(const Header& header, const std::array<uint8_t, N>& raw) {
  static_assert(N == Header::kSize);
  return written(header) == raw && Header::parse(raw).ok() && *Header::parse(raw) == header;
}

constexpr Bth kBth{.opcode = Opcode::kRcSendOnlyInvalidate,
                   .solicited = true,
                   .migration_request = false,
                   .pad_count = 3,
                   .transport_version = 0,
                   .pkey = 0x8001,
                   .fecn = true,
                   .becn = true,
                   .destination = verbs::Qpn(0x123456),
                   .ack_request = true,
                   .psn = Psn(0xfedcba)};
static_assert(is_golden(kBth, std::array<uint8_t, 12>{0x17, 0xb0, 0x80, 0x01, 0xc0, 0x12, 0x34, 0x56, 0x80, 0xfe, 0xdc, 0xba}));
static_assert(is_golden(Reth{0x0102030405060708, verbs::Rkey(0x090a0b0c), 0x0d0e0f10},
                        std::array<uint8_t, 16>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}));
static_assert(is_golden(Aeth::nak(NakCode::kRemoteAccessError, 0x010203), std::array<uint8_t, 4>{0x62, 1, 2, 3}));
static_assert(is_golden(Aeth::rnr_nak(14, 0x010203), std::array<uint8_t, 4>{0x2e, 1, 2, 3}));
static_assert(is_golden(Aeth::ack(0x010203), std::array<uint8_t, 4>{0x1f, 1, 2, 3}));
static_assert(is_golden(AtomicEth{0x0102030405060708, verbs::Rkey(0x090a0b0c), 0x0d0e0f1011121314, 0x15161718191a1b1c},
                        std::array<uint8_t, 28>{1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14,
                                                15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28}));
static_assert(is_golden(AtomicAckEth{0x0102030405060708}, std::array<uint8_t, 8>{1, 2, 3, 4, 5, 6, 7, 8}));
static_assert(is_golden(ImmDt{0x01020304}, std::array<uint8_t, 4>{1, 2, 3, 4}));
static_assert(is_golden(Ieth{verbs::Rkey(0x01020304)}, std::array<uint8_t, 4>{1, 2, 3, 4}));
static_assert(is_golden(Deth{kGsiQkey, verbs::Qpn(1)}, std::array<uint8_t, 8>{0x80, 1, 0, 0, 0, 0, 0, 1}));
static_assert(is_golden(Ethernet{MacAddress{{1, 2, 3, 4, 5, 6}}, MacAddress{{7, 8, 9, 10, 11, 12}}, kEtherTypeIpv4},
                        std::array<uint8_t, 14>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x08, 0x00}));
static_assert(is_golden(VlanTag{5, true, 0xabc, kEtherTypeIpv6}, std::array<uint8_t, 4>{0xba, 0xbc, 0x86, 0xdd}));
static_assert(is_golden(Ipv4{0xfe, 60, 0x0102, Ipv4::kDontFragment, 64, kIpProtocolUdp, 0xbeef, 0x0a090001, 0x0a090002},
                        std::array<uint8_t, 20>{0x45, 0xfe, 0,    60,   1, 2, 0x40, 0, 64, 17,
                                                0xbe, 0xef, 0x0a, 0x09, 0, 1, 0x0a, 9, 0,  2}));
static_assert(is_golden(Ipv6{0x12, 0x34567, 0x0102, kIpProtocolUdp, 64, {0xfd, 9}, {0xfd, 8}},
                        std::array<uint8_t, 40>{0x61, 0x23, 0x45, 0x67, 1, 2, 17, 64, 0xfd, 9, 0, 0,    0,
                                                0,    0,    0,    0,    0, 0, 0,  0,  0,    0, 0, 0xfd, 8}));
static_assert(is_golden(Udp{0xc001, kRoceUdpPort, 0x0102, 0x0304}, std::array<uint8_t, 8>{0xc0, 1, 0x12, 0xb7, 1, 2, 3, 4}));

// Layout surprises would show here: decoded headers are plain values.
static_assert(std::is_trivially_copyable_v<Bth> && std::is_trivially_copyable_v<Reth> && std::is_trivially_copyable_v<Aeth> &&
              std::is_trivially_copyable_v<AtomicEth> && std::is_trivially_copyable_v<Deth>);

static_assert(cnp_bth(verbs::Qpn(7)).becn && cnp_bth(verbs::Qpn(7)).opcode == Opcode::kCnp &&
              cnp_bth(verbs::Qpn(7)).psn == Psn(0));

template <typename Header>
class HeaderTest : public ::testing::Test {};
using Headers = ::testing::Types<Bth, Reth, Aeth, AtomicEth, AtomicAckEth, ImmDt, Ieth, Deth, Ethernet, VlanTag, Ipv4, Ipv6, Udp>;

class HeaderNames {
 public:
  template <typename Header>
  static std::string GetName(int index) {
    constexpr std::array kNames = {"Bth",  "Reth",     "Aeth",    "AtomicEth", "AtomicAckEth", "ImmDt", "Ieth",
                                   "Deth", "Ethernet", "VlanTag", "Ipv4",      "Ipv6",         "Udp"};
    return kNames[static_cast<size_t>(index)];
  }
};
TYPED_TEST_SUITE(HeaderTest, Headers, HeaderNames);

// The fixed part of the version field, without which the IP codecs refuse.
template <typename Header>
void make_acceptable(std::vector<uint8_t>& raw) {
  if constexpr (std::is_same_v<Header, Ipv4>) {
    raw[0] = 0x45;
  } else if constexpr (std::is_same_v<Header, Ipv6>) {
    raw[0] = static_cast<uint8_t>(0x60 | (raw[0] & 0xf));
  }
}

TYPED_TEST(HeaderTest, RefusesEveryShorterLength) {
  const std::vector<uint8_t> raw(TypeParam::kSize, 0x45);
  for (size_t size = 0; size < raw.size(); ++size) {
    // In a block of exactly that size, so that a read behind its end is seen by the sanitizer.
    const std::vector<uint8_t> cut(raw.begin(), raw.begin() + static_cast<ptrdiff_t>(size));
    const Result<TypeParam> header = TypeParam::parse(cut);
    ASSERT_FALSE(header.ok()) << size;
    EXPECT_EQ(header.error(), Error::kTruncated) << size;
  }
}

TYPED_TEST(HeaderTest, WhatIsParsedIsWrittenAndParsedAgainTheSame) {
  EXPECT_TRUE(rc::check([] {
    auto raw = *rc::gen::container<std::vector<uint8_t>>(TypeParam::kSize, rc::gen::arbitrary<uint8_t>());
    make_acceptable<TypeParam>(raw);
    const Result<TypeParam> header = TypeParam::parse(raw);
    RC_ASSERT(header.ok());
    const auto again = written(*header);
    RC_ASSERT(TypeParam::parse(again).ok());
    RC_ASSERT(*TypeParam::parse(again) == *header);
    // And from then on nothing changes any more: the reserved bits are zero.
    RC_ASSERT(written(*TypeParam::parse(again)) == again);
  }));
}

TEST(Bth, WritesReservedBitsAsZero) {
  std::array<uint8_t, Bth::kSize> ones;
  ones.fill(0xff);
  const auto raw = written(*Bth::parse(ones));
  EXPECT_EQ(raw[4], 0xc0);  // FECN, BECN
  EXPECT_EQ(raw[8], 0x80);  // AckReq
}

TEST(Deth, IgnoresTheReservedByte) {
  const std::array<uint8_t, 8> raw = {0, 0, 0, 9, 0xff, 0, 0, 1};
  EXPECT_EQ(*Deth::parse(raw), (Deth{9, verbs::Qpn(1)}));
}

TEST(Ipv4, RefusesOtherVersionsAndOptions) {
  for (const int first : {0x00, 0x44, 0x46, 0x4f, 0x55, 0x65, 0xf5}) {
    std::array<uint8_t, Ipv4::kSize> raw{};
    raw[0] = static_cast<uint8_t>(first);
    ASSERT_FALSE(Ipv4::parse(raw).ok());
    EXPECT_EQ(Ipv4::parse(raw).error(), Error::kUnsupported);
  }
}

TEST(Ipv4, KnowsAFragmentByEitherFlagOrOffset) {
  EXPECT_FALSE(Ipv4{}.is_fragment());
  EXPECT_TRUE(Ipv4{.flags_and_offset = 0x2000}.is_fragment());
  EXPECT_TRUE(Ipv4{.flags_and_offset = 0x0001}.is_fragment());
  EXPECT_FALSE(Ipv4{.flags_and_offset = 0x8000}.is_fragment());  // the reserved bit is not ours to judge
}

TEST(Aeth, KindFollowsTheTopThreeBits) {
  EXPECT_EQ(Aeth::ack(1).kind(), AethKind::kAck);
  EXPECT_EQ(Aeth::rnr_nak(3, 1).kind(), AethKind::kRnrNak);
  EXPECT_EQ(Aeth::nak(NakCode::kInvalidRequest, 1).kind(), AethKind::kNak);
  for (const int top : {2, 4, 5, 6, 7}) {
    EXPECT_EQ((Aeth{static_cast<uint8_t>(top << 5), 0}).kind(), AethKind::kReserved);
  }
}

TEST(Aeth, NakCodesHaveNames) {
  EXPECT_STREQ(to_string(NakCode::kPsnSequenceError), "PSN sequence error");
  EXPECT_STREQ(to_string(NakCode::kInvalidRequest), "invalid request");
  EXPECT_STREQ(to_string(NakCode::kRemoteAccessError), "remote access error");
  EXPECT_STREQ(to_string(NakCode::kRemoteOperationalError), "remote operational error");
  EXPECT_STREQ(to_string(NakCode::kInvalidRdRequest), "invalid RD request");
  EXPECT_STREQ(to_string(static_cast<NakCode>(31)), "reserved NAK code");
}

TEST(RnrTimer, FollowsTheTable) {
  EXPECT_EQ(rnr_timer(0), Duration::us(655'360));
  EXPECT_EQ(rnr_timer(1), Duration::us(10));
  EXPECT_EQ(rnr_timer(12), Duration::us(640));
  EXPECT_EQ(rnr_timer(14), Duration::us(1'280));
  EXPECT_EQ(rnr_timer(31), Duration::us(491'520));
  EXPECT_EQ(rnr_timer(0x3f), rnr_timer(31));
}

TEST(RnrTimer, CodeIsTheInverseAndRoundsUp) {
  for (uint8_t code = 0; code < 32; ++code) {
    EXPECT_EQ(rnr_timer_code(rnr_timer(code)), code);
  }
  EXPECT_EQ(rnr_timer_code(Duration::ns(0)), 1);
  EXPECT_EQ(rnr_timer_code(Duration::us(10) + Duration::ns(1)), 2);
  EXPECT_EQ(rnr_timer_code(Duration::us(641)), 13);
  EXPECT_EQ(rnr_timer_code(Duration::us(491'521)), 0);
  EXPECT_EQ(rnr_timer_code(Duration::seconds(5)), 0);
}

}  // namespace
}  // namespace cw::wire
