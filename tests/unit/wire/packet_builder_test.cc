#include "rocev2/wire/packet_builder.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "rocev2/wire/packet_view.h"
#include "tests/unit/wire/frames.h"

namespace cw::wire {
namespace {

using test::v4_path;
using test::v6_path;

Bth send_only() {
  Bth bth;
  bth.opcode = Opcode::kRcSendOnly;
  bth.destination = verbs::Qpn(0x17);
  bth.psn = Psn(0xabcdef);
  return bth;
}

std::vector<uint8_t> counting(size_t count) {
  std::vector<uint8_t> raw(count);
  std::iota(raw.begin(), raw.end(), uint8_t{1});
  return raw;
}

// The packet that a peer at the other end of `path` sends.
std::vector<uint8_t> answer_over(Path path) {
  std::swap(path.local_mac, path.remote_mac);
  std::swap(path.local, path.remote);
  return test::build_frame(path, send_only(), Extensions{}, counting(8), 77);
}

TEST(PathHeader, IsAnsweredByItsMirrorOnly) {
  for (const Path& path : {v4_path(), v6_path()}) {
    const PathHeader header(path);
    const auto is_answered = [&](const Path& from, uint16_t port) {
      const std::vector<uint8_t> frame = answer_over(from);
      const auto view = PacketView::parse(frame);
      EXPECT_TRUE(view.ok());
      return view.ok() && header.is_answered_by(*view, port);
    };
    EXPECT_TRUE(is_answered(path, path.port));
    EXPECT_FALSE(is_answered(path, static_cast<uint16_t>(path.port + 1)));
    for (IpAddress Path::*address : {&Path::local, &Path::remote}) {
      Path other = path;
      (other.*address).raw[15] ^= 1;
      EXPECT_FALSE(is_answered(other, path.port));
      other = path;
      (other.*address).raw[12] ^= 0x80;
      EXPECT_FALSE(is_answered(other, path.port));
    }
    Path other = path;
    other.vlan = path.vlan == 0 ? 7 : 0;
    EXPECT_FALSE(is_answered(other, path.port));
    EXPECT_FALSE(is_answered(path.remote.is_v4() ? v6_path() : v4_path(), path.port)) << "the other family";
    other = path;
    std::swap(other.local, other.remote);
    EXPECT_FALSE(is_answered(other, path.port)) << "one of our own";
  }
}

class PacketBuilderTest : public ::testing::Test {
 protected:
  // Builds from a chain of Buffers of the given sizes and says how it came out.
  TxPacket& build(const std::vector<uint32_t>& sizes, uint32_t offset, uint32_t size, const Path& path = v4_path()) {
    chain.clear();
    uint8_t next = 1;
    for (const uint32_t buffer_bytes : sizes) {
      Buffer* buffer = pool.allocate_one();
      EXPECT_LE(buffer_bytes, buffer->capacity_bytes);
      for (uint32_t i = 0; i < std::min(buffer_bytes, buffer->capacity_bytes); ++i) {
        buffer->data[i] = next++;
      }
      buffer->size = buffer_bytes;
      chain.push_back(buffer);
    }
    batch.clear();
    TxPacket& packet = *batch.add();
    build_packet(packet, PathHeader(path), 77, send_only(), Extensions{}, PayloadCursor{chain.head(), offset, size});
    return packet;
  }
  std::vector<uint8_t> payload_bytes(uint32_t offset, uint32_t size) {
    std::vector<uint8_t> raw(size);
    if (size > 0) {
      chain.copy_to(offset, raw);
    }
    return raw;
  }
  std::vector<uint8_t> from_memory(const std::vector<uint8_t>& payload, const Path& path = v4_path()) {
    return test::build_frame(path, send_only(), Extensions{}, payload, 77);
  }

  HeapBufferPool pool{64, 5000, 16};
  Chain chain;
  TxBatch batch{pool};
};

TEST_F(PacketBuilderTest, CopiesSmallPayload) {
  TxPacket& packet = build({600}, 3, kAttachThresholdBytes - 1);
  EXPECT_EQ(packet.piece_count, 0u);
  EXPECT_EQ(packet.trailer_bytes, 0u);
  EXPECT_EQ(packet.raw(), from_memory(payload_bytes(3, kAttachThresholdBytes - 1)));
}

TEST_F(PacketBuilderTest, AttachesLargePayload) {
  TxPacket& packet = build({4096}, 5, 1021);
  ASSERT_EQ(packet.piece_count, 1u);
  EXPECT_EQ(packet.pieces[0].owner, chain.head());
  EXPECT_EQ(packet.pieces[0].data, chain.head()->data + 5);
  EXPECT_EQ(packet.pieces[0].size, 1021u);
  EXPECT_EQ(packet.trailer_bytes, 3u + 4);
  EXPECT_EQ(packet.head->size, 14u + 20 + 8 + 12);
  EXPECT_EQ(packet.frame_bytes(), 54u + 1021 + 7);
  EXPECT_EQ(packet.raw(), from_memory(payload_bytes(5, 1021)));
}

TEST_F(PacketBuilderTest, AttachesUpToFourRunsAndSkipsEmptyBuffers) {
  TxPacket& packet = build({100, 0, 300, 300, 0, 300}, 90, 800);
  ASSERT_EQ(packet.piece_count, 4u);
  EXPECT_EQ(packet.pieces[0].size, 10u);
  EXPECT_EQ(packet.pieces[3].size, 190u);
  EXPECT_EQ(packet.raw(), from_memory(payload_bytes(90, 800)));
}

TEST_F(PacketBuilderTest, CopiesWhenThereAreTooManyRuns) {
  TxPacket& packet = build({200, 200, 200, 200, 200}, 0, 1000);
  EXPECT_EQ(packet.piece_count, 0u);
  EXPECT_EQ(packet.raw(), from_memory(payload_bytes(0, 1000)));
}

TEST_F(PacketBuilderTest, OffsetMayLieBeyondTheFirstBuffer) {
  TxPacket& packet = build({100, 1000}, 150, 700);
  ASSERT_EQ(packet.piece_count, 1u);
  EXPECT_EQ(packet.raw(), from_memory(payload_bytes(150, 700)));
}

// All lengths of padding, over both families, and with a header more.
TEST_F(PacketBuilderTest, BuildsInPlaceWhatItBuildsElsewhere) {
  for (const Path& path : {v4_path(), v4_path(3), v6_path(), v6_path(3)}) {
    for (uint32_t bytes = 0; bytes < 9; ++bytes) {
      for (const Opcode opcode : {Opcode::kRcSendOnly, Opcode::kRcSendOnlyInvalidate, Opcode::kRcWriteOnlyImmediate}) {
        (void)build({bytes}, 0, bytes);
        batch.clear();
        Bth bth = send_only();
        bth.opcode = opcode;
        Extensions extensions;
        extensions.invalidate = verbs::Rkey(0x1234);
        extensions.reth = Reth{0x1122334455667788, verbs::Rkey(5), bytes};
        const std::vector<uint8_t> payload = payload_bytes(0, bytes);
        ASSERT_TRUE(has_room_for_frame(PathHeader(path), opcode, *chain.head()));
        TxPacket& packet = *batch.add_in_place();
        build_in_place(packet, PathHeader(path), 77, bth, extensions, *chain.head());
        EXPECT_TRUE(packet.is_in_place());
        EXPECT_EQ(packet.pieces[0].owner, chain.head());
        EXPECT_EQ(packet.port, path.port);
        EXPECT_EQ(packet.raw(), test::build_frame(path, bth, extensions, payload, 77));
        EXPECT_EQ(payload_bytes(0, bytes), payload) << "the message is what it was";
        EXPECT_EQ(chain.head()->size, bytes);
      }
    }
  }
}

TEST_F(PacketBuilderTest, AFrameInPlaceWantsRoomOnBothSides) {
  (void)build({4997}, 0, 0);
  const auto has_room = [&](const Path& path) {
    return has_room_for_frame(PathHeader(path), Opcode::kRcSendOnly, *chain.head());
  };
  EXPECT_FALSE(has_room(v4_path())) << "three bytes of padding, four of iCRC";
  (void)build({4992}, 0, 0);
  EXPECT_TRUE(has_room(v4_path()));
  (void)chain.extend_front(Buffer::kHeadroomBytes - 54);
  EXPECT_TRUE(has_room(v4_path())) << "Ethernet, IPv4, UDP, BTH";
  EXPECT_FALSE(has_room(v6_path()));
  EXPECT_FALSE(has_room_for_frame(PathHeader(v4_path()), Opcode::kRcSendOnlyInvalidate, *chain.head()));
  (void)chain.extend_front(1);
  EXPECT_FALSE(has_room(v4_path()));
}

TEST_F(PacketBuilderTest, EmptyPayloadNeedsNoBuffer) {
  TxPacket& packet = build({}, 0, 0);
  EXPECT_EQ(packet.head->size, 54u + 4);
  EXPECT_EQ(packet.raw(), from_memory({}));
}

TEST_F(PacketBuilderTest, FullMtuFromMemoryIsCopied) {
  TxPacket& packet = *batch.add();
  const std::vector<uint8_t> payload = counting(4096);
  build_packet(packet, PathHeader(v6_path(3)), 0, send_only(), Extensions{}, Bytes(payload));
  EXPECT_EQ(packet.piece_count, 0u);
  const auto frame = packet.raw();
  const auto view = PacketView::parse(frame);
  ASSERT_TRUE(view.ok());
  EXPECT_TRUE(verify_icrc(*view));
  EXPECT_EQ(std::vector<uint8_t>(view->payload.begin(), view->payload.end()), payload);
}

TEST_F(PacketBuilderTest, HeadersAreAsPeersWriteThem) {
  Path path = v4_path();
  path.ecn_capable = false;
  path.port = 3;
  TxPacket& packet = *batch.add();
  build_packet(packet, PathHeader(path), 0x1234, send_only(), Extensions{}, Bytes());
  EXPECT_EQ(packet.port, 3);
  // Ethernet, IPv4 (TOS 0, DF, TTL 64), UDP (checksum 0), BTH (MigReq).
  const std::vector<uint8_t> expected = {0x52, 0x54, 0,    0,    0,    2,    0x52, 0x54, 0,  0,    0,    1,    0x08, 0x00,  //
                                         0x45, 0,    0,    44,   0x12, 0x34, 0x40, 0,    64, 17,   0x14, 0x79,              //
                                         10,   9,    0,    1,    10,   9,    0,    2,                                       //
                                         0xc1, 0x23, 0x12, 0xb7, 0,    24,   0,    0,                                       //
                                         0x04, 0x40, 0xff, 0xff, 0,    0,    0,    0x17, 0,  0xab, 0xcd, 0xef};
  auto frame = packet.raw();
  frame.resize(frame.size() - 4);
  EXPECT_EQ(frame, expected);
}

TEST_F(PacketBuilderTest, OverwritesWhatLayInTheHeadBefore) {
  const auto clean = from_memory(counting(5));
  TxPacket& packet = *batch.add();
  std::fill(packet.head->data, packet.head->data + 200, uint8_t{0xff});
  const auto payload = counting(5);
  build_packet(packet, PathHeader(v4_path()), 77, send_only(), Extensions{}, Bytes(payload));
  EXPECT_EQ(packet.raw(), clean);
}

TEST_F(PacketBuilderTest, Ipv4ChecksumIsRightForEveryIdentificationAndLength) {
  EXPECT_TRUE(rc::check([this](uint16_t identification, uint32_t local, uint32_t remote, uint8_t dscp, uint8_t hop_limit) {
    Path path = v4_path();
    path.local = IpAddress::v4(local);
    path.remote = IpAddress::v4(remote & 0x7fff'ffff);
    path.dscp = dscp & 0x3f;
    path.hop_limit = hop_limit;
    batch.clear();
    TxPacket& packet = *batch.add();
    const auto payload = counting(*rc::gen::inRange<size_t>(0, 4097));
    build_packet(packet, PathHeader(path), identification, send_only(), Extensions{}, Bytes(payload));
    const auto frame = packet.raw();
    const auto view = PacketView::parse(frame);
    RC_ASSERT(view.ok());
    RC_ASSERT(verify_icrc(*view));
    RC_ASSERT(view->ttl == hop_limit);
    RC_ASSERT(load_be16(&frame[14 + 10]) != 0xffff);
  }));
}

TEST_F(PacketBuilderTest, WhatIsBuiltIsParsedTheSameForEveryPathOpcodeAndPayload) {
  EXPECT_TRUE(rc::check([this] {
    const uint16_t vlan = *rc::gen::element<uint16_t>(0, 1, 4094);
    const Path path = *rc::gen::arbitrary<bool>() ? v6_path(vlan) : v4_path(vlan);
    Bth bth;
    bth.opcode = *rc::gen::suchThat(rc::gen::map(rc::gen::arbitrary<uint8_t>(), [](uint8_t v) { return static_cast<Opcode>(v); }),
                                    [](Opcode o) { return traits_of(o).kind != OpcodeKind::kReserved; });
    bth.destination = verbs::Qpn(*rc::gen::inRange<uint32_t>(0, 1u << 24));
    bth.psn = Psn(*rc::gen::arbitrary<uint32_t>());
    bth.solicited = *rc::gen::arbitrary<bool>();
    bth.ack_request = *rc::gen::arbitrary<bool>();
    const size_t size = traits_of(bth.opcode).may_carry_payload ? *rc::gen::inRange<size_t>(0, 1200) : 0;
    const auto payload = counting(size);
    chain.clear();
    const size_t first = *rc::gen::inRange<size_t>(0, size + 1);
    Buffer* one = pool.allocate_one();
    Buffer* two = pool.allocate_one();
    one->append(Bytes(payload).first(first));
    two->append(Bytes(payload).subspan(first));
    chain.push_back(one);
    chain.push_back(two);
    batch.clear();
    TxPacket& packet = *batch.add();
    build_packet(packet, PathHeader(path), 9, bth, Extensions{}, PayloadCursor{chain.head(), 0, static_cast<uint32_t>(size)});
    const auto frame = packet.raw();
    RC_ASSERT(frame.size() == packet.frame_bytes());
    const auto view = PacketView::parse(frame);
    RC_ASSERT(view.ok());
    RC_ASSERT(verify_icrc(*view));
    bth.pad_count = static_cast<uint8_t>((4 - size % 4) % 4);
    RC_ASSERT(view->bth == bth);
    RC_ASSERT(view->vlan == vlan);
    RC_ASSERT(view->source() == path.local && view->destination() == path.remote);
    RC_ASSERT(std::vector<uint8_t>(view->payload.begin(), view->payload.end()) == payload);
  }));
}

TEST_F(PacketBuilderTest, AHeadThatIsTooSmallIsOurOwnMistake) {
  HeapBufferPool small(1, 100, 0);
  Buffer* head = small.allocate_one();
  TxPacket packet;
  packet.head = head;
  const auto payload = counting(100);
  EXPECT_DEATH(build_packet(packet, PathHeader(v4_path()), 1, send_only(), Extensions{}, Bytes(payload)), "capacity_bytes");
  small.release(head);
}

// A run of packets must be, byte for byte, what building them one by one gives.
TEST_F(PacketBuilderTest, RunIsWhatSinglePacketsAre) {
  Path tagged = v6_path();
  tagged.vlan = 12;
  uint32_t seed = 1;
  for (const Path& path : {v4_path(), v6_path(), tagged}) {
    const PathHeader header(path);
    for (const uint32_t bytes : {512u, 1024u, 4096u}) {
      Bth bth = send_only();
      bth.opcode = Opcode::kRcWriteMiddle;
      const PacketRun run(header, bth, bytes);
      for (const uint32_t offset : {0u, 3u, 4900u}) {  // the last one runs on into the next Buffer
        static_cast<void>(build({5000, 5000}, 0, 1));
        for (int i = 0; i < 20; ++i) {
          seed = seed * 1'664'525 + 1'013'904'223;
          const auto identification = static_cast<uint16_t>(seed >> 8);
          bth.psn = Psn((seed >> 4) & 0xff'ffff);
          bth.ack_request = (seed >> 30) % 2 != 0;
          batch.clear();
          TxPacket& single = *batch.add();
          build_packet(single, header, identification, bth, Extensions{}, PayloadCursor{chain.head(), offset, bytes});
          const PacketRun::Row row{1, bth.ack_request ? 0u : 1u, identification, bth.psn};
          ASSERT_EQ(run.build(batch, row, chain.head(), offset), 1u);
          const TxPacket& of_run = batch.packets()[1];
          ASSERT_EQ(of_run.raw(), single.raw()) << bytes << " bytes from " << offset;
          EXPECT_EQ(of_run.piece_count, single.piece_count);
          EXPECT_EQ(of_run.port, single.port);
        }
      }
    }
  }
}

// Several at once: PSN and identification count on, over the end of their range, one of them asks, and the payload runs through
// short, long and empty Buffers.
TEST_F(PacketBuilderTest, RowIsWhatSinglePacketsAre) {
  constexpr uint32_t kBytes = 1024;
  const PathHeader header(v4_path());
  Bth bth = send_only();
  bth.opcode = Opcode::kRcWriteMiddle;
  const PacketRun run(header, bth, kBytes);
  static_cast<void>(build({1024, 3000, 0, 2000, 100, 5000, 5000, 260}, 0, 1));
  const PacketRun::Row row{.count = 16, .quiet = 9, .ip_identification = 0xfffa, .psn = Psn(0xff'fffc)};
  batch.clear();
  ASSERT_EQ(run.build(batch, row, chain.head(), 0), row.count);
  std::vector<std::vector<uint8_t>> of_run;
  for (const TxPacket& packet : batch.packets()) {
    of_run.push_back(packet.raw());
  }
  for (uint32_t i = 0; i < row.count; ++i) {
    batch.clear();
    bth.psn = row.psn.plus(i);
    bth.ack_request = i == row.quiet;
    TxPacket& single = *batch.add();
    build_packet(single, header, static_cast<uint16_t>(row.ip_identification + i), bth, Extensions{},
                 PayloadCursor{chain.head(), i * kBytes, kBytes});
    EXPECT_EQ(of_run[i], single.raw()) << i;
  }
}

// As many as there are room and heads for.
TEST_F(PacketBuilderTest, RowEndsWithTheBatchOrTheHeads) {
  Bth bth = send_only();
  bth.opcode = Opcode::kRcWriteMiddle;
  const PathHeader header(v4_path());
  const PacketRun run(header, bth, 512);
  static_cast<void>(build(std::vector<uint32_t>(9, 4096), 0, 1));
  batch.clear();
  static_cast<void>(batch.add());
  const uint32_t built = run.build(batch, {.count = 70}, chain.head(), 0);
  EXPECT_EQ(built, batch.size() - 1);
  EXPECT_TRUE(batch.full() || pool.allocate_one() == nullptr) << built;
  EXPECT_EQ(run.build(batch, {.count = 1}, chain.head(), 0), 0u);
}

}  // namespace
}  // namespace cw::wire
