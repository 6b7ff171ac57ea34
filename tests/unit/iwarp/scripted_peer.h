// A peer that is played byte by byte: MPA frames and FPDUs as a test wants them, right or wrong.
#pragma once

#include <string_view>

#include "base/crc32c.h"
#include "iwarp/wire/fpdu.h"
#include "iwarp/wire/read_request.h"
#include "iwarp/wire/terminate.h"
#include "tests/unit/iwarp/two_ends.h"

namespace cw::iwarp::test {

using ByteVector = std::vector<uint8_t>;

inline const ByteVector kPayload = pattern(16);

inline ByteVector joined(std::initializer_list<ByteVector> parts) {
  ByteVector all;
  for (const ByteVector& part : parts) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

inline ByteVector be32(uint32_t value) {
  ByteVector bytes(4);
  store_be32(bytes.data(), value);
  return bytes;
}
inline ByteVector be64(uint64_t value) {
  ByteVector bytes(8);
  store_be64(bytes.data(), value);
  return bytes;
}

// flags: M 0x80, C 0x40, R 0x20, S 0x10.
inline ByteVector mpa_frame(std::string_view key, uint8_t flags, uint8_t revision, const ByteVector& private_data) {
  ByteVector frame(key.begin(), key.end());
  frame.push_back(flags);
  frame.push_back(revision);
  frame.push_back(static_cast<uint8_t>(private_data.size() >> 8));
  frame.push_back(static_cast<uint8_t>(private_data.size()));
  frame.insert(frame.end(), private_data.begin(), private_data.end());
  return frame;
}
inline constexpr std::string_view kRequestKey = "MPA ID Req Frame";
inline constexpr std::string_view kReplyKey = "MPA ID Rep Frame";

// What Linux's siw sends for an NFS client: IRD 128, ORD 0, and the RFC 8797 message behind.
inline ByteVector siw_request(uint8_t flags = 0x10) {
  return mpa_frame(kRequestKey, flags, 2, {0x00, 0x80, 0x00, 0x00, 0xf6, 0xab, 0x0e, 0x18, 0x01, 0x00, 0x03, 0x03});
}

inline ByteVector fpdu(const ByteVector& ulpdu, bool crc = true) {
  ByteVector bytes{static_cast<uint8_t>(ulpdu.size() >> 8), static_cast<uint8_t>(ulpdu.size())};
  bytes.insert(bytes.end(), ulpdu.begin(), ulpdu.end());
  bytes.resize(bytes.size() + fpdu_pad_bytes(static_cast<uint32_t>(ulpdu.size())));
  Crc32c sum;
  sum.add(bytes);
  bytes.resize(bytes.size() + 4);
  store_fpdu_crc(bytes.data() + bytes.size() - 4, crc ? sum.value() : 0);
  return bytes;
}
inline ByteVector untagged(uint8_t ddp, uint8_t rdmap, uint32_t stag, uint32_t queue, uint32_t message, uint32_t offset,
                           const ByteVector& payload) {
  ByteVector segment(kUntaggedHeaderBytes);
  segment[0] = ddp;
  segment[1] = rdmap;
  store_be32(segment.data() + 2, stag);
  store_be32(segment.data() + 6, queue);
  store_be32(segment.data() + 10, message);
  store_be32(segment.data() + 14, offset);
  segment.insert(segment.end(), payload.begin(), payload.end());
  return segment;
}
inline ByteVector tagged(uint8_t ddp, uint8_t rdmap, uint32_t stag, uint64_t offset, const ByteVector& payload) {
  ByteVector segment(kTaggedHeaderBytes);
  segment[0] = ddp;
  segment[1] = rdmap;
  store_be32(segment.data() + 2, stag);
  store_be64(segment.data() + 6, offset);
  segment.insert(segment.end(), payload.begin(), payload.end());
  return segment;
}
inline ByteVector send_segment(uint32_t message, const ByteVector& payload, uint32_t offset = 0, bool last = true) {
  return untagged(last ? 0x41 : 0x01, 0x43, 0, 0, message, offset, payload);
}
inline ByteVector read_request_segment(uint32_t message, const ReadRequestHeader& request) {
  ByteVector payload(kReadRequestBytes);
  write(request, payload);
  return untagged(0x41, 0x41, 0, 1, message, 0, payload);
}

// The transport under test is the server; the peer is a TCP connection to it.
struct ScriptedPeer {
  explicit ScriptedPeer(const IwarpOptions& options = {}) : server(net, kServerAddress, options, false) {
    EXPECT_TRUE(server.transport.listen(kPort).ok());
  }
  StreamNet::Connection& call(uint32_t from = kClientAddress) { return net.call(server.host, kPort, from); }
  void run() {
    for (uint32_t idle = 0; idle < 2;) {
      const bool moved = net.turn();
      server.turn(net.now);
      idle = moved ? 0 : idle + 1;
    }
  }
  void advance(Duration time) {
    net.advance(time);
    run();
  }
  // Sends, and returns what the server has said since.
  ByteVector say(StreamNet::Connection& connection, const ByteVector& bytes) {
    net.write(connection, bytes);
    run();
    return net.read(connection);
  }
  // A connection that is ready for FPDUs. The peer has sent nothing yet.
  StreamNet::Connection& ready() {
    StreamNet::Connection& connection = call();
    const ByteVector reply = say(connection, siw_request());
    EXPECT_GE(reply.size(), 24u);
    return connection;
  }
  // The cause and the Terminate Control of the Terminate that the server has sent, which is all that it has.
  static TerminateCause terminate_in(const ByteVector& bytes, uint32_t* control = nullptr) {
    if (bytes.size() < 2 + kUntaggedHeaderBytes + 4) {
      return TerminateCause::kNone;
    }
    EXPECT_EQ(fpdu_bytes(load_be16(bytes.data())), bytes.size());
    const auto header = parse_segment_header(Bytes(bytes).subspan(2));
    EXPECT_EQ(header->control.opcode, Opcode::kTerminate);
    EXPECT_EQ(header->queue, 2u);
    EXPECT_EQ(header->message, 1u);
    EXPECT_EQ(header->message_offset, 0u);
    EXPECT_TRUE(header->control.last);
    const Bytes payload = Bytes(bytes).subspan(2 + kUntaggedHeaderBytes, load_be16(bytes.data()) - kUntaggedHeaderBytes);
    if (control != nullptr) {
      *control = load_be32(payload.data());
    }
    return parse_terminate(payload).cause;
  }

  StreamNet net;
  EndHost server;
};

}  // namespace cw::iwarp::test
