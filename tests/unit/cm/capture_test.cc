// Every management datagram of the captures, where they are at hand: parse, write again, compare.
#include <gtest/gtest.h>

#include <map>

#include "control/cm/ip_cm.h"
#include "control/cm/wire/drep.h"
#include "control/cm/wire/dreq.h"
#include "control/cm/wire/mad.h"
#include "control/cm/wire/mra.h"
#include "control/cm/wire/rej.h"
#include "control/cm/wire/rep.h"
#include "control/cm/wire/req.h"
#include "control/cm/wire/rtu.h"
#include "rpcrdma/wire/private_data.h"
#include "tests/support/pcap_reader.h"

namespace cw::cm {
namespace {

// The MAD of a UD SEND to QP 1 in an untagged frame, by fixed offsets, so that nothing of ours is needed to find it.
std::optional<Mad> mad_of(const cw::test::CapturedFrame& frame) {
  const Bytes raw = frame.bytes();
  const size_t ip_bytes = raw.size() > 14 && raw[12] == 0x86 ? 40 : 20;
  const size_t bth = 14 + ip_bytes + 8;
  if (!cw::test::is_roce_frame(frame) || raw.size() != bth + 12 + 8 + kMadSize + 4 || raw[bth] != 0x64) {
    return std::nullopt;
  }
  Mad mad;
  std::copy_n(raw.begin() + static_cast<ptrdiff_t>(bth + 20), kMadSize, mad.begin());
  return mad;
}

template <typename Message>
Mad rewrite(const Mad& mad) {
  Mad again;
  again.fill(0xee);
  write_mad(again, MadHeader::parse(mad)->transaction_id, Message::parse(message_of(mad)).value());
  return again;
}

Mad rewrite(const Mad& mad, MessageType type) {
  switch (type) {
    case MessageType::kReq:
      return rewrite<Req>(mad);
    case MessageType::kMra:
      return rewrite<Mra>(mad);
    case MessageType::kRej:
      return rewrite<Rej>(mad);
    case MessageType::kRep:
      return rewrite<Rep>(mad);
    case MessageType::kRtu:
      return rewrite<Rtu>(mad);
    case MessageType::kDreq:
      return rewrite<Dreq>(mad);
    case MessageType::kDrep:
      return rewrite<Drep>(mad);
    default:
      return {};
  }
}

TEST(CmCaptures, EveryMadComesOutAsItWentIn) {
  const auto directory = cw::test::full_captures_dir();
  if (!directory) {
    GTEST_SKIP() << "no captures here";
  }
  std::map<MessageType, int> seen;
  for (const char* name : {"nfs-rdma-linux61.pcap", "verbs-linux61.pcap", "verbs-loss3-linux61.pcap"}) {
    for (const auto& frame : cw::test::read_pcap(*directory / name)) {
      const auto mad = mad_of(frame);
      if (!mad) {
        continue;
      }
      const auto type = message_type_of(MadHeader::parse(*mad)->attribute_id);
      ASSERT_TRUE(type.has_value());
      ++seen[*type];
      EXPECT_EQ(rewrite(*mad, *type), *mad) << to_string(*type) << " in " << name;
      if (*type == MessageType::kReq) {
        const Req req = Req::parse(message_of(*mad)).value();
        const auto header = IpCmHeader::parse(req.private_data);
        ASSERT_TRUE(header.ok());
        EXPECT_EQ(header->source, req.primary.local_gid);
        EXPECT_EQ(header->destination, req.primary.remote_gid);
      }
    }
  }
  EXPECT_EQ(seen[MessageType::kReq], 27);
  EXPECT_EQ(seen[MessageType::kRep], 25);
  EXPECT_EQ(seen[MessageType::kRtu], 25);
  EXPECT_EQ(seen[MessageType::kRej], 2);
}

TEST(CmCaptures, NfsPeersSayTheirInlineSizes) {
  const auto directory = cw::test::full_captures_dir();
  if (!directory) {
    GTEST_SKIP() << "no captures here";
  }
  for (const auto& frame : cw::test::read_pcap(*directory / "nfs-rdma-linux61.pcap")) {
    const auto mad = mad_of(frame);
    if (mad && type_of(*mad) == MessageType::kReq) {
      const Req req = Req::parse(message_of(*mad)).value();
      EXPECT_EQ(rpcrdma::PrivateData::of_peer(Bytes(req.private_data).subspan(IpCmHeader::kSize)),
                (rpcrdma::PrivateData{4096, 4096, true}));
    }
    if (mad && type_of(*mad) == MessageType::kRep) {
      const Rep rep = Rep::parse(message_of(*mad)).value();
      EXPECT_EQ(rpcrdma::PrivateData::of_peer(rep.private_data), (rpcrdma::PrivateData{4096, 4096, false}));
    }
  }
}

}  // namespace
}  // namespace cw::cm
