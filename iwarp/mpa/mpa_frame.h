// MPA Request and Reply frames (RFC 5044 7.1.1, RFC 6581 9): what the two sides of a TCP connection say before RDMA begins.
//
//   | key, 16 | M C R S 0000 | revision | private data length, 2 | private data, up to 512 |
//
// M: wants markers. C: wants CRCs. R: the Reply is a refusal. S (revision 2): the private data begin with the IRD/ORD word.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace cw::iwarp {

inline constexpr uint32_t kMpaHeaderBytes = 20;
inline constexpr uint32_t kMpaPrivateDataBytesMax = 512;
inline constexpr uint32_t kMpaFrameBytesMax = kMpaHeaderBytes + kMpaPrivateDataBytesMax;
inline constexpr uint8_t kMpaRevisionMax = 2;

enum class MpaFrameKind : uint8_t { kRequest, kReply };

struct MpaHeader {
  MpaFrameKind kind = MpaFrameKind::kRequest;
  bool markers = false;
  bool crc = false;
  bool reject = false;
  bool enhanced = false;
  uint8_t revision = kMpaRevisionMax;
  uint16_t private_data_bytes = 0;
};

// Why a set-up failed.
enum class MpaError : uint8_t {
  kNone,
  kKey,              // not MPA at all
  kLength,           // more private data than there may be, or too few for the IRD/ORD word
  kRevision,         // neither 1 nor 2, or not ours in a Reply
  kMarkers,          // the peer insists on markers, which we do not send
  kReadyToReceive,   // the peer wants a sign of readiness and offers none that we know
  kInsufficientIrd,  // the peer takes fewer READs at a time than we need
  kEarlyData,        // bytes behind the Request: the peer did not wait for the Reply
  kCount
};
inline constexpr uint32_t kMpaErrorCount = static_cast<uint32_t>(MpaError::kCount);
// A metric label's word.
[[nodiscard]] std::string_view to_string(MpaError error) noexcept;

// What of the key is there already fits one of the two.
[[nodiscard]] bool could_be_mpa(Bytes begin, MpaFrameKind kind);
// Of kMpaHeaderBytes bytes. kNone and the header, or why not: kKey, kLength.
struct ParsedMpaHeader {
  MpaError error = MpaError::kNone;
  MpaHeader header;
};
[[nodiscard]] ParsedMpaHeader parse_mpa_header(Bytes raw, MpaFrameKind kind);
// Precondition: `out` has kMpaHeaderBytes.
void write(const MpaHeader& header, MutableBytes out);

// The IRD/ORD word (RFC 6581 9.1): what its sender offers, four flags and two depths of 14 bits.
//
//   | A | B | IRD, 14 | C | D | ORD, 14 |
//
// A: the connection is peer to peer: the initiator says that it is ready by one of three empty messages before the responder may
// send. B, C, D: that message may be, or is to be, a SEND, a WRITE, a READ.
struct IrdOrd {
  static constexpr uint32_t kBytes = 4;
  static constexpr uint16_t kMax = 0x3fff;  // as a depth: to be settled by the user of the connection

  bool peer_to_peer = false;
  bool send = false;
  bool write = false;
  bool read = false;
  uint16_t ird = 0;  // READs that its sender answers at a time
  uint16_t ord = 0;  // READs that its sender has under way at a time
};
[[nodiscard]] IrdOrd parse_ird_ord(Bytes raw);
void write(const IrdOrd& word, MutableBytes out);

}  // namespace cw::iwarp
