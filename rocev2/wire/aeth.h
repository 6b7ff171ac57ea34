// ACK Extended Transport Header (IBA 9.3.5): syndrome (8 bits) and MSN (24 bits).
//
//   syndrome  0 00 CCCCC  ACK, C = encoded credit count, 31 = credits not used
//             0 01 TTTTT  RNR NAK, T = timer code (IBA table 45)
//             0 11 NNNNN  NAK, N = code (IBA table 46)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"

namespace cw::wire {

enum class AethKind : uint8_t { kAck, kRnrNak, kNak, kReserved };

enum class NakCode : uint8_t {
  kPsnSequenceError = 0,
  kInvalidRequest = 1,
  kRemoteAccessError = 2,
  kRemoteOperationalError = 3,
  kInvalidRdRequest = 4,
};
[[nodiscard]] const char* to_string(NakCode code) noexcept;

struct Aeth {
  static constexpr size_t kSize = 4;
  static constexpr uint8_t kCreditsInvalid = 31;
  uint8_t syndrome = kCreditsInvalid;
  uint32_t msn = 0;  // 24 bits

  [[nodiscard]] static constexpr Aeth ack(uint32_t msn, uint8_t credits = kCreditsInvalid) {
    return Aeth{static_cast<uint8_t>(credits & 0x1f), msn & 0xff'ffff};
  }
  [[nodiscard]] static constexpr Aeth nak(NakCode code, uint32_t msn) {
    return Aeth{static_cast<uint8_t>(0x60 | static_cast<uint8_t>(code)), msn & 0xff'ffff};
  }
  [[nodiscard]] static constexpr Aeth rnr_nak(uint8_t timer_code, uint32_t msn) {
    return Aeth{static_cast<uint8_t>(0x20 | (timer_code & 0x1f)), msn & 0xff'ffff};
  }
  [[nodiscard]] constexpr AethKind kind() const {
    switch (syndrome >> 5) {
      case 0:
        return AethKind::kAck;
      case 1:
        return AethKind::kRnrNak;
      case 3:
        return AethKind::kNak;
      default:
        return AethKind::kReserved;
    }
  }
  // Low five bits: credit code, RNR timer code or NAK code by kind().
  [[nodiscard]] constexpr uint8_t code() const { return syndrome & 0x1f; }

  [[nodiscard]] static constexpr Result<Aeth> parse(Bytes bytes) {
    const auto reader = FixedReader<kSize>::from(bytes);
    if (!reader) {
      return fail(Error::kTruncated);
    }
    return Aeth{reader->u8<0>(), reader->be24<1>()};
  }
  constexpr void write(std::span<uint8_t, kSize> out) const {
    FixedWriter<kSize> writer(out);
    writer.u8<0>(syndrome);
    writer.be24<1>(msn);
  }
  friend constexpr bool operator==(const Aeth&, const Aeth&) = default;
};

// End-to-end flow control (IBA 9.7.7.2): messages that a credit code stands for, 0..32768. Precondition: code < 31.
[[nodiscard]] uint32_t credit_count(uint8_t code);
// The code of the largest count that is at most `messages`.
[[nodiscard]] uint8_t credit_code(uint32_t messages);

// IBA table 45: code 0 is the longest, 655.36 ms. Only the low five bits of `code` count.
[[nodiscard]] Duration rnr_timer(uint8_t code);
// The code of the shortest table entry that is at least `wait`; the longest entry when none is.
[[nodiscard]] uint8_t rnr_timer_code(Duration wait);

}  // namespace cw::wire
