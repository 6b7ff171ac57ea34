// What perftest's two sides say to each other over the control connection when it was asked for RDMA CM (-R), as of version 4.5,
// protocol version "6.06". Every message is one SEND; the client speaks first, the server answers with its own of the same kind.
//
//   version   16 bytes of text, zero-padded
//   number    4 bytes: the cycle buffer, later the cache line
//   MTU       2 bytes of text: the digit of IBA's path MTU code, a zero
//   key       56 bytes, PerftestKey: a queue pair and its memory; the same message serves as mere synchronisation
//   report    five messages of 8 bytes: size, iterations, then three IEEE 754 doubles
//
// Numbers are big-endian, as on any host that perftest was built on with <endian.h>.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/result.h"
#include "verbs/ids.h"

namespace cw::peers {

inline constexpr uint16_t kPerftestPort = 18515;
inline constexpr uint32_t kPerftestCycleBytes = 4096;  // small messages go round in so much memory
inline constexpr uint32_t kPerftestCacheLineBytes = 64;
inline constexpr uint32_t kPerftestReportFields = 5;
inline constexpr size_t kPerftestMessageMax = 56;
// Of send_bw over iWARP: so many receives are posted, fewer if there are fewer messages. After each third of them their count is
// written into the sender's memory, four bytes in the order of the receiver's CPU.
inline constexpr uint32_t kPerftestReceiveDepth = 512;
inline constexpr uint32_t kPerftestCreditBytes = 4;

//    0  LID   4  reads outstanding   8  QPN   12  PSN   16  rkey   20  unused   24  address (8)   32  GID (16)   48  SRQN
//   52  index of the GID
struct PerftestKey {
  static constexpr size_t kSize = 56;
  uint32_t lid = 0;
  uint32_t reads_outstanding = 0;
  uint32_t qpn = 0;
  uint32_t psn = 0;
  verbs::Rkey rkey;
  uint64_t address = 0;
  std::array<uint8_t, 16> gid{};
  uint32_t srqn = 0;
  uint32_t gid_index = 0;

  [[nodiscard]] static Result<PerftestKey> parse(Bytes bytes);
  void write(std::span<uint8_t, kSize> out) const;
};

struct PerftestVersion {
  static constexpr size_t kSize = 16;
  std::array<char, kSize> text{};  // ends with a zero

  [[nodiscard]] static PerftestVersion ours();
  // kBadValue: not 16 bytes with a zero among them. kUnsupported: before 5.70, which has other messages.
  [[nodiscard]] static Result<PerftestVersion> parse(Bytes bytes);
  void write(std::span<uint8_t, kSize> out) const;
};

}  // namespace cw::peers
