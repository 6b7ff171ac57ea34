// The codecs: golden messages of real peers, round trips, truncation.
#include <gtest/gtest.h>

#include "base/random.h"
#include "control/cm/ip_cm.h"
#include "control/cm/timeout_code.h"
#include "control/cm/wire/apr.h"
#include "control/cm/wire/drep.h"
#include "control/cm/wire/dreq.h"
#include "control/cm/wire/lap.h"
#include "control/cm/wire/mra.h"
#include "control/cm/wire/rej.h"
#include "control/cm/wire/rep.h"
#include "control/cm/wire/req.h"
#include "control/cm/wire/rtu.h"
#include "control/cm/wire/sidr.h"
#include "tests/unit/cm/golden_mads.h"

namespace cw::cm {
namespace {

template <typename Message>
constexpr bool survives(const Mad& golden) {
  const MadHeader header = MadHeader::parse(golden).value();
  Mad again{};
  again.fill(0xee);
  write_mad(again, header.transaction_id, Message::parse(message_of(golden)).value());
  return again == golden && header.attribute_id == attribute_id_of(Message::kType);
}

static_assert(survives<Req>(golden::kReqIpv4));
static_assert(survives<Req>(golden::kReqIpv6));
static_assert(survives<Rep>(golden::kRepKnfsd));
static_assert(survives<Rtu>(golden::kRtu));
static_assert(survives<Dreq>(golden::kDreq));
static_assert(survives<Drep>(golden::kDrep));
static_assert(survives<Rej>(golden::kRejNoListener));

TEST(CmMessages, ReadsTheLinuxReq) {
  const Req req = Req::parse(message_of(golden::kReqIpv4)).value();
  EXPECT_EQ(req.local_comm_id, 0xde31b408u);
  EXPECT_EQ(req.service, ip_service_id(20049));
  EXPECT_EQ(req.local_ca_guid, 0x505400fffe000002u);
  EXPECT_EQ(req.local_qpn, verbs::Qpn(0x11));
  EXPECT_EQ(req.responder_resources, 0x80);
  EXPECT_EQ(req.initiator_depth, 0);
  EXPECT_EQ(req.remote_response_code, 20);
  EXPECT_EQ(req.local_response_code, 20);
  EXPECT_EQ(req.transport, TransportService::kReliableConnected);
  EXPECT_EQ(req.starting_psn, wire::Psn(0x4fca72));
  EXPECT_EQ(req.retry_count, 6);
  EXPECT_EQ(req.pkey, 0xffff);
  EXPECT_EQ(req.path_mtu, PathMtu::k4096);
  EXPECT_EQ(req.rnr_retry_count, 0);
  EXPECT_EQ(req.max_cm_retries, 15);
  EXPECT_FALSE(req.shared_receive_queue);
  EXPECT_EQ(req.primary.local_lid, 0xffff);
  EXPECT_EQ(req.primary.local_gid, IpAddress::v4(0x0a090002));
  EXPECT_EQ(req.primary.remote_gid, IpAddress::v4(0x0a090001));
  EXPECT_EQ(req.primary.flow_label, 0x34ea7u);
  EXPECT_EQ(req.primary.packet_rate, 0);
  EXPECT_EQ(req.primary.hop_limit, 64);
  EXPECT_EQ(req.primary.ack_timeout_code, 19);
  EXPECT_FALSE(req.has_alternate());
}

TEST(CmMessages, ReadsTheIpCmHeaderOfBothFamilies) {
  const Req four = Req::parse(message_of(golden::kReqIpv4)).value();
  const auto header = IpCmHeader::parse(four.private_data);
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header->source_port, 0x9cea);
  EXPECT_EQ(header->source, IpAddress::v4(0x0a090002));
  EXPECT_EQ(header->destination, IpAddress::v4(0x0a090001));

  const Req six = Req::parse(message_of(golden::kReqIpv6)).value();
  const auto header6 = IpCmHeader::parse(six.private_data);
  ASSERT_TRUE(header6.ok());
  EXPECT_FALSE(header6->source.is_v4());
  EXPECT_EQ(header6->source, six.primary.local_gid);
  EXPECT_EQ(header6->destination, six.primary.remote_gid);

  for (const auto& original : {four.private_data, six.private_data}) {
    std::array<uint8_t, IpCmHeader::kSize> again{};
    again.fill(0xee);
    IpCmHeader::parse(original)->write(again);
    EXPECT_TRUE(std::equal(again.begin(), again.end(), original.begin()));
  }
}

TEST(CmMessages, RefusesIpCmHeadersOfOtherVersionsAndFamilies) {
  std::array<uint8_t, IpCmHeader::kSize> raw{};
  for (int version = 0; version < 16; ++version) {
    raw[1] = static_cast<uint8_t>(version << 4);
    EXPECT_EQ(IpCmHeader::parse(raw).ok(), version == 4 || version == 6);
  }
  raw = {0x10, 0x40};
  EXPECT_EQ(IpCmHeader::parse(raw).error(), Error::kUnsupported);
  raw = {0x0f, 0x4f};  // minor version and reserved bits do not matter
  EXPECT_TRUE(IpCmHeader::parse(raw).ok());
  for (size_t size = 0; size < IpCmHeader::kSize; ++size) {
    EXPECT_EQ(IpCmHeader::parse(Bytes(raw).first(size)).error(), Error::kTruncated);
  }
}

TEST(CmMessages, ReadsTheKnfsdRep) {
  const Rep rep = Rep::parse(message_of(golden::kRepKnfsd)).value();
  EXPECT_EQ(rep.local_comm_id, 0x38000948u);
  EXPECT_EQ(rep.remote_comm_id, 0xde31b408u);
  EXPECT_EQ(rep.local_qpn, verbs::Qpn(0x11));
  EXPECT_EQ(rep.starting_psn, wire::Psn(0xa95359));
  EXPECT_EQ(rep.responder_resources, 0);
  EXPECT_EQ(rep.initiator_depth, 0x80);
  EXPECT_EQ(rep.target_ack_delay_code, 15);
  EXPECT_EQ(rep.failover, Failover::kAccepted);
  EXPECT_EQ(rep.rnr_retry_count, 0);
  EXPECT_EQ(rep.local_ca_guid, 0x505400fffe000001u);
}

TEST(CmMessages, ReadsTheRejOfAPortWithoutListener) {
  const Rej rej = Rej::parse(message_of(golden::kRejNoListener)).value();
  EXPECT_EQ(rej.local_comm_id, 0u);
  EXPECT_EQ(rej.remote_comm_id, 0xdd31b408u);
  EXPECT_EQ(rej.rejected, AboutMessage::kReq);
  EXPECT_EQ(rej.reason, RejectReason::kInvalidServiceId);
}

template <typename Message>
void expect_codec_holds() {
  SeededRandom random(7);
  for (int round = 0; round < 500; ++round) {
    std::array<uint8_t, kMessageSize> raw{};
    for (uint8_t& byte : raw) {
      byte = static_cast<uint8_t>(random.next_u32());
    }
    for (size_t size = 0; round == 0 && size < raw.size(); ++size) {
      EXPECT_EQ(Message::parse(Bytes(raw).first(size)).error(), Error::kTruncated);
    }
    // What is read is written; what was not read (reserved bits) is zero.
    const Message message = Message::parse(raw).value();
    std::array<uint8_t, kMessageSize> written{};
    written.fill(0xee);
    message.write(written);
    EXPECT_EQ(Message::parse(written).value(), message);
    for (size_t i = 0; i < raw.size(); ++i) {
      EXPECT_EQ(written[i] & ~raw[i], 0) << "byte " << i << " of " << to_string(Message::kType);
    }
  }
}

TEST(CmMessages, EveryCodecWritesWhatItReadsAndZeroesWhatIsReserved) {
  expect_codec_holds<Req>();
  expect_codec_holds<Mra>();
  expect_codec_holds<Rej>();
  expect_codec_holds<Rep>();
  expect_codec_holds<Rtu>();
  expect_codec_holds<Dreq>();
  expect_codec_holds<Drep>();
  expect_codec_holds<SidrReq>();
  expect_codec_holds<SidrRep>();
  expect_codec_holds<Lap>();
  expect_codec_holds<Apr>();
}

// Which bits a message of all ones leaves out: exactly the reserved ones.
template <typename Message>
uint32_t reserved_bits() {
  std::array<uint8_t, kMessageSize> ones{};
  ones.fill(0xff);
  std::array<uint8_t, kMessageSize> written{};
  Message::parse(ones)->write(written);
  uint32_t zeros = 0;
  for (const uint8_t byte : written) {
    zeros += static_cast<uint32_t>(8 - std::popcount(byte));
  }
  return zeros;
}

TEST(CmMessages, ReservedBitsAreThoseOfTheStandard) {
  EXPECT_EQ(reserved_bits<Req>(), 32u + 32u + (6u + 3u + 3u) + (6u + 3u + 2u));
  EXPECT_EQ(reserved_bits<Mra>(), 6u + 3u);
  EXPECT_EQ(reserved_bits<Rej>(), 6u + 1u);
  EXPECT_EQ(reserved_bits<Rep>(), 8u * 3 + 4u);
  EXPECT_EQ(reserved_bits<Rtu>(), 0u);
  EXPECT_EQ(reserved_bits<Dreq>(), 8u);
  EXPECT_EQ(reserved_bits<Drep>(), 0u);
  EXPECT_EQ(reserved_bits<SidrReq>(), 16u);
  EXPECT_EQ(reserved_bits<SidrRep>(), 16u + 8u);
  EXPECT_EQ(reserved_bits<Lap>(), 32u + 3u + 32u + 4u + 2u + 3u + 3u);
  EXPECT_EQ(reserved_bits<Apr>(), 16u);
}

TEST(CmMessages, TimeoutCodesRoundUpAndEndAt31) {
  EXPECT_EQ(timeout_of(0).to_ns(), 4096);
  EXPECT_EQ(timeout_code_for(Duration::ns(4097)), 1);
  EXPECT_EQ(timeout_code_for(Duration::seconds(1'000'000)), 31);
  for (uint8_t code = 0; code < 32; ++code) {
    EXPECT_EQ(timeout_code_for(timeout_of(code)), code);
  }
}

TEST(CmMessages, EveryAttributeIdHasItsMessage) {
  for (uint32_t id = 0; id < 0x10000; ++id) {
    const auto type = message_type_of(static_cast<uint16_t>(id));
    EXPECT_EQ(type.has_value(), id >= 0x10 && id <= 0x1a);
    if (type) {
      EXPECT_EQ(attribute_id_of(*type), id);
    }
  }
}

}  // namespace
}  // namespace cw::cm
