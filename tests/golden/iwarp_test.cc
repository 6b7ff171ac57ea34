// What Linux's siw sends: set-up frames, FPDUs and DDP headers are read as they are meant, and written again byte for byte.
// The formats are those of RFC 5040, sections 4.1 to 4.8, and of RFC 5041, section 4.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "iwarp/mpa/setup.h"
#include "iwarp/wire/ddp_header.h"
#include "iwarp/wire/fpdu.h"
#include "iwarp/wire/read_request.h"
#include "rpcrdma/wire/private_data.h"
#include "tests/support/pcap_reader.h"

namespace cw::iwarp {
namespace {

constexpr uint8_t kSiwsOwnBit = 0x08;  // of DDP's reserved bits, for its own segmentation

std::vector<uint8_t> stream(const std::string& name) {
  std::ifstream file(test::golden_packets_dir() / name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

struct Side {
  std::map<Opcode, uint32_t> opcodes;
  std::map<uint32_t, uint32_t> next_message;  // by queue
};

// Reads the whole FPDUs behind the set-up frame.
void read_fpdus(Bytes bytes, Side& side) {
  uint64_t next_tagged = 0;
  while (bytes.size() >= kFpduLengthBytes) {
    const uint32_t ulpdu = load_be16(bytes.data());
    if (bytes.size() < fpdu_bytes(ulpdu)) {
      return;
    }
    const Bytes segment = bytes.subspan(kFpduLengthBytes, ulpdu);
    const auto header = parse_segment_header(segment);
    ASSERT_TRUE(header.ok());
    EXPECT_EQ(header->control.ddp_version, kDdpVersion);
    EXPECT_EQ(header->control.rdmap_version, kRdmapVersion);
    std::vector<uint8_t> again(header->bytes());
    if (header->control.tagged) {
      write(TaggedHeader{header->control, header->stag, header->tagged_offset}, again);
      EXPECT_TRUE(next_tagged == 0 || header->tagged_offset == next_tagged);
      next_tagged = header->control.last ? 0 : header->tagged_offset + ulpdu - header->bytes();
    } else {
      write(UntaggedHeader{header->control, header->invalidate_stag, static_cast<QueueNumber>(header->queue), header->message,
                           header->message_offset},
            again);
      uint32_t& expected = side.next_message.emplace(header->queue, 1).first->second;
      EXPECT_EQ(header->message, expected);
      expected += header->control.last ? 1 : 0;
    }
    again[0] = static_cast<uint8_t>(again[0] | (segment[0] & kSiwsOwnBit));
    EXPECT_TRUE(std::equal(again.begin(), again.end(), segment.begin()));
    if (header->control.opcode == Opcode::kReadRequest) {
      const Bytes raw = segment.subspan(header->bytes());
      ASSERT_EQ(raw.size(), kReadRequestBytes);
      std::vector<uint8_t> request(kReadRequestBytes);
      write(parse_read_request(raw), request);
      EXPECT_TRUE(std::equal(request.begin(), request.end(), raw.begin()));
    }
    // CRC off: the place is there, and zero.
    EXPECT_EQ(load_fpdu_crc(bytes.data() + fpdu_bytes(ulpdu) - kFpduCrcBytes), 0u);
    ++side.opcodes[header->control.opcode];
    bytes = bytes.subspan(fpdu_bytes(ulpdu));
  }
}

// Proves CMPD-1-4: over MPA what tests/unit/cm/capture_test.cc shows of the CM.
// Proves RDMAP-1.3-1, RDMAP-3.1-8, RDMAP-4-1, RDMAP-4.1-1, RDMAP-4.1-2, RDMAP-4.1-8, RDMAP-A.4-1
TEST(GoldenIwarp, AConnectionOfLinuxsNfsClientIsReadAndWrittenAgain) {
  const std::vector<uint8_t> client = stream("iwarp-nfs-linux61-client.bin");
  const std::vector<uint8_t> server = stream("iwarp-nfs-linux61-server.bin");
  MpaResponder responder;
  uint32_t used = 0;
  // The client sends nothing behind its Request until the Reply is there; here everything is.
  ASSERT_EQ(responder.take(Bytes(client).first(32), used), MpaProgress::kComplete);
  EXPECT_EQ(responder.ird_ord().ird, 128);
  EXPECT_EQ(responder.ird_ord().ord, 0);
  ASSERT_EQ(responder.private_data().size(), 8u);
  EXPECT_EQ(rpcrdma::PrivateData::of_peer(responder.private_data()), (rpcrdma::PrivateData{4096, 4096, true}));
  std::vector<uint8_t> request(kMpaFrameBytesMax);
  MpaInitiator initiator;
  request.resize(initiator.request({.crc = false, .ird = 128, .ord = 0, .private_data = responder.private_data()}, request));
  EXPECT_EQ(request, std::vector<uint8_t>(client.begin(), client.begin() + 32));
  ASSERT_EQ(initiator.take(server, used), MpaProgress::kComplete);
  EXPECT_EQ(used, 32u);
  EXPECT_FALSE(initiator.session().crc);
  std::vector<uint8_t> reply(kMpaFrameBytesMax);
  reply.resize(responder.accept({.crc = false, .ird = 0, .ord = 128, .private_data = initiator.private_data()}, reply));
  EXPECT_EQ(reply, std::vector<uint8_t>(server.begin(), server.begin() + 32));
  Side from_client;
  Side from_server;
  read_fpdus(Bytes(client).subspan(32), from_client);
  read_fpdus(Bytes(server).subspan(32), from_server);
  EXPECT_GT(from_client.opcodes[Opcode::kSend], 10u);
  EXPECT_GT(from_server.opcodes[Opcode::kSend] + from_server.opcodes[Opcode::kSendInvalidate], 10u);
}

// Proves RDMAP-4.1-6, RDMAP-4.1-7, RDMAP-4.2-1, RDMAP-4.4-1, RDMAP-5.2.1-1, RDMAP-5.2.1-6, RDMAP-5.2.2-2, RDMAP-A.1-1,
// RDMAP-A.2-1, RDMAP-A.3-1
TEST(GoldenIwarp, AnRpingIsReadAndWrittenAgain) {
  Side client;
  Side server;
  for (auto [name, side] : {std::pair{"iwarp-rping-linux61-client.bin", &client}, {"iwarp-rping-linux61-server.bin", &server}}) {
    const std::vector<uint8_t> bytes = stream(name);
    ASSERT_GE(bytes.size(), kMpaHeaderBytes);
    const MpaFrameKind kind = side == &client ? MpaFrameKind::kRequest : MpaFrameKind::kReply;
    const ParsedMpaHeader parsed = parse_mpa_header(bytes, kind);
    ASSERT_EQ(parsed.error, MpaError::kNone);
    read_fpdus(Bytes(bytes).subspan(kMpaHeaderBytes + parsed.header.private_data_bytes), *side);
  }
  EXPECT_GT(client.opcodes[Opcode::kSend], 0u);
  EXPECT_GT(client.opcodes[Opcode::kReadResponse], 0u);
  EXPECT_GT(server.opcodes[Opcode::kReadRequest], 0u);
  EXPECT_GT(server.opcodes[Opcode::kWrite], 0u);
}

}  // namespace
}  // namespace cw::iwarp
