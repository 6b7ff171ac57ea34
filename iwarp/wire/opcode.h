// RDMAP control field (RFC 5040 4.1): the byte of the DDP header that DDP leaves to RDMAP.
//
//   +----+----+--------+
//   | RV | 0  | opcode |   2, 2 and 4 bits; RV is 1
//   +----+----+--------+
#pragma once

#include <cstdint>

namespace cw::iwarp {

inline constexpr uint8_t kRdmapVersion = 1;

// 8..15 are reserved (RFC 7306 has used some): such values occur in what a peer sends.
enum class Opcode : uint8_t {
  kWrite = 0,
  kReadRequest = 1,
  kReadResponse = 2,
  kSend = 3,
  kSendInvalidate = 4,
  kSendSolicited = 5,
  kSendSolicitedInvalidate = 6,
  kTerminate = 7,
};

[[nodiscard]] constexpr bool is_send(Opcode opcode) {
  return opcode >= Opcode::kSend && opcode <= Opcode::kSendSolicitedInvalidate;
}
[[nodiscard]] constexpr bool invalidates(Opcode opcode) {
  return opcode == Opcode::kSendInvalidate || opcode == Opcode::kSendSolicitedInvalidate;
}
[[nodiscard]] constexpr bool is_solicited(Opcode opcode) {
  return opcode == Opcode::kSendSolicited || opcode == Opcode::kSendSolicitedInvalidate;
}

}  // namespace cw::iwarp
