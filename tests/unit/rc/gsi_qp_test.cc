#include "rocev2/gsi/gsi_qp.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "apps/sim/faulty_link.h"
#include "apps/sim/rc_pair.h"
#include "base/heap_buffer_pool.h"

namespace cw::gsi {
namespace {

using wire::DropReason;

struct Datagram {
  wire::Opcode opcode = wire::Opcode::kUdSendOnly;
  uint32_t destination = 1;
  uint16_t pkey = 0xffff;
  uint32_t qkey = wire::kGsiQkey;
  uint32_t source = 1;
  size_t bytes = kMadBytes;
};

class GsiQpTest : public ::testing::Test {
 protected:
  std::vector<uint8_t> frame_of(const Datagram& datagram) {
    wire::TxBatch batch(pool);
    wire::TxPacket* packet = batch.add();
    wire::Bth bth;
    bth.opcode = datagram.opcode;
    bth.destination = verbs::Qpn(datagram.destination);
    bth.pkey = datagram.pkey;
    wire::Extensions extensions;
    extensions.deth.qkey = datagram.qkey;
    extensions.deth.source = verbs::Qpn(datagram.source);
    const bool carries = wire::traits_of(datagram.opcode).may_carry_payload;
    const auto raw = sim::random_bytes(7, carries ? datagram.bytes : 0);
    wire::build_packet(*packet, wire::PathHeader(sim::RcPair::path(1)), 1, bth, extensions, Bytes(raw));
    return packet->raw();
  }

  HeapBufferPool pool{32, 4096, 0};
  GsiQp gsi;
};

TEST_F(GsiQpTest, GivesTheMadAndTheWayBack) {
  const auto frame = frame_of({});
  const auto view = wire::PacketView::parse(frame);
  const auto datagram = gsi.on_packet(*view, 3);
  ASSERT_TRUE(datagram.ok());
  EXPECT_EQ(std::vector<uint8_t>(datagram->mad.begin(), datagram->mad.end()), sim::random_bytes(7, kMadBytes));
  wire::Path expected = sim::RcPair::path(0);
  expected.udp_source_port = 0;
  expected.port = 3;
  EXPECT_EQ(datagram->reply_path, expected);
  EXPECT_EQ(datagram->source_qpn, verbs::Qpn(1));
  EXPECT_EQ(datagram->pkey, 0xffff);
  EXPECT_EQ(gsi.stats().datagrams_in, 1u);
}

TEST_F(GsiQpTest, DropsWhatIsNotManagementForUsUnderOneReasonEach) {
  struct Case {
    const char* what;
    Datagram datagram;
    DropReason reason;
  };
  const Case cases[] = {
      {"connected opcode", {.opcode = wire::Opcode::kRcSendOnly}, DropReason::kNotDatagram},
      {"other queue pair", {.destination = 2}, DropReason::kUnknownQp},
      {"other partition", {.pkey = 0x8001}, DropReason::kPkey},
      {"wrong Q_Key", {.qkey = 0x80010001}, DropReason::kQkey},
      {"from another queue pair", {.source = 5}, DropReason::kMalformedMad},
      {"immediate data", {.opcode = wire::Opcode::kUdSendOnlyImmediate}, DropReason::kMalformedMad},
      {"empty", {.bytes = 0}, DropReason::kMalformedMad},
      {"one short", {.bytes = kMadBytes - 1}, DropReason::kMalformedMad},
      {"one long", {.bytes = kMadBytes + 1}, DropReason::kMalformedMad},
      {"oversize", {.bytes = 2048}, DropReason::kMalformedMad},  // CVE-2024-40992
  };
  for (const Case& one : cases) {
    GsiQp fresh;
    const auto frame = frame_of(one.datagram);
    const auto view = wire::PacketView::parse(frame);
    ASSERT_TRUE(view.ok()) << one.what;
    const auto datagram = fresh.on_packet(*view, 0);
    ASSERT_FALSE(datagram.ok()) << one.what;
    EXPECT_EQ(datagram.error(), one.reason) << one.what;
    EXPECT_EQ(fresh.stats().discards[static_cast<size_t>(one.reason)], 1u) << one.what;
    EXPECT_EQ(fresh.stats().datagrams_in, 0u) << one.what;
  }
}

TEST_F(GsiQpTest, HearsLimitedMembersOfItsPartition) {
  const auto frame = frame_of({.pkey = 0x7fff});
  const auto view = wire::PacketView::parse(frame);
  EXPECT_TRUE(gsi.on_packet(*view, 0).ok());
}

TEST_F(GsiQpTest, BuildsWhatAnotherGsiQpAccepts) {
  const auto mad = sim::random_bytes(9, kMadBytes);
  for (uint32_t psn = 0; psn < 3; ++psn) {
    wire::TxBatch batch(pool);
    wire::TxPacket* packet = batch.add();
    gsi.build(*packet, sim::RcPair::path(0), verbs::Qpn(kGsiQpn), mad);
    const auto frame = packet->raw();
    const auto view = wire::PacketView::parse(frame);
    ASSERT_TRUE(view.ok() && wire::verify_icrc(*view));
    EXPECT_EQ(view->bth.psn, wire::Psn(psn));
    EXPECT_EQ(frame.size(), 322u);  // as captured from Linux
    GsiQp peer;
    const auto datagram = peer.on_packet(*view, 0);
    ASSERT_TRUE(datagram.ok());
    EXPECT_TRUE(std::ranges::equal(datagram->mad, mad));
  }
  EXPECT_EQ(gsi.stats().datagrams_out, 3u);
}

}  // namespace
}  // namespace cw::gsi
