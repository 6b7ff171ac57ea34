// The set-up of an MPA connection (RFC 5044 7.1, RFC 6581), both sides: bytes in, a frame out, and in the end what the two sides
// have settled. Revisions 1 and 2, CRC by either side's wish, no markers.
//
// The peer's frame is kept here, so that what it says in private data is there until the connection is decided.
#pragma once

#include <array>
#include <cstdint>

#include "base/bytes.h"
#include "iwarp/mpa/mpa_frame.h"

namespace cw::iwarp {

// The empty message by which the initiator of a peer-to-peer connection says that it is ready.
enum class ReadyToReceive : uint8_t { kNone, kSend, kWrite, kRead };

// READs that we answer at a time, whatever the peer says that it will send.
inline constexpr uint16_t kIrdMax = 256;

// What both sides have settled.
struct MpaSession {
  bool crc = true;
  uint16_t ird = 0;  // READs of the peer that we answer at a time
  uint16_t ord = 0;  // READs of ours at a time
  ReadyToReceive ready = ReadyToReceive::kNone;
};

// What we want of a connection.
struct MpaWishes {
  bool crc = true;
  uint16_t ird = 0;
  uint16_t ord = 0;
  Bytes private_data;  // at most 508 bytes
};

enum class MpaProgress : uint8_t {
  kMore,      // the frame is not complete
  kComplete,  // passive: a Request that can be accepted. Active: the peer has accepted
  kRejected,  // active: the peer has refused
  kFailed,    // error() says why
};

// What both sides do: collect the peer's frame.
class MpaFrameReader {
 public:
  explicit MpaFrameReader(MpaFrameKind kind) : kind_(kind) {}

  // Takes bytes up to the end of the frame and never more; `used` says how many. kMore, kComplete or kFailed.
  [[nodiscard]] MpaProgress take(Bytes bytes, uint32_t& used);

  [[nodiscard]] const MpaHeader& header() const { return header_; }
  [[nodiscard]] MpaError error() const { return error_; }
  // Revision 2 with S.
  [[nodiscard]] bool has_ird_ord() const { return header_.enhanced && header_.revision >= 2; }
  [[nodiscard]] IrdOrd ird_ord() const { return parse_ird_ord(Bytes(raw_).subspan(kMpaHeaderBytes, IrdOrd::kBytes)); }
  // Behind the IRD/ORD word.
  [[nodiscard]] Bytes private_data() const;

 protected:
  MpaProgress fail(MpaError error) {
    error_ = error;
    return MpaProgress::kFailed;
  }

 private:
  MpaFrameKind kind_;
  MpaError error_ = MpaError::kNone;
  uint16_t size_ = 0;  // bytes that have come
  MpaHeader header_;
  std::array<uint8_t, kMpaFrameBytesMax> raw_{};
};

// Passive side.
class MpaResponder : public MpaFrameReader {
 public:
  MpaResponder() : MpaFrameReader(MpaFrameKind::kRequest) {}

  [[nodiscard]] MpaProgress take(Bytes bytes, uint32_t& used);
  // The Reply. Returns its size. Precondition: kComplete, and `out` has kMpaFrameBytesMax.
  [[nodiscard]] uint32_t accept(const MpaWishes& wishes, MutableBytes out);
  // The Reply that refuses, also when take() has failed, unless it was no MPA.
  [[nodiscard]] uint32_t reject(Bytes private_data, MutableBytes out) const;
  [[nodiscard]] const MpaSession& session() const { return session_; }

 private:
  MpaSession session_;
};

// Active side. RFC 6581's peer-to-peer mode is not asked for: our users speak first.
class MpaInitiator : public MpaFrameReader {
 public:
  MpaInitiator() : MpaFrameReader(MpaFrameKind::kReply) {}

  // The Request. Returns its size. Precondition: `out` has kMpaFrameBytesMax.
  [[nodiscard]] uint32_t request(const MpaWishes& wishes, MutableBytes out);
  [[nodiscard]] MpaProgress take(Bytes bytes, uint32_t& used);
  [[nodiscard]] const MpaSession& session() const { return session_; }

 private:
  bool crc_ = true;
  MpaSession session_;
};

}  // namespace cw::iwarp
