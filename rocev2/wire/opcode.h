// BTH opcodes and the one table that says what each of them is and carries (IBA 9.2, table 38). Nothing else in the tree
// switches on opcodes to find header lengths or positions.
#pragma once

#include <array>
#include <cstdint>

namespace cw::wire {

enum class Opcode : uint8_t {
  kRcSendFirst = 0x00,
  kRcSendMiddle = 0x01,
  kRcSendLast = 0x02,
  kRcSendLastImmediate = 0x03,
  kRcSendOnly = 0x04,
  kRcSendOnlyImmediate = 0x05,
  kRcWriteFirst = 0x06,
  kRcWriteMiddle = 0x07,
  kRcWriteLast = 0x08,
  kRcWriteLastImmediate = 0x09,
  kRcWriteOnly = 0x0a,
  kRcWriteOnlyImmediate = 0x0b,
  kRcReadRequest = 0x0c,
  kRcReadResponseFirst = 0x0d,
  kRcReadResponseMiddle = 0x0e,
  kRcReadResponseLast = 0x0f,
  kRcReadResponseOnly = 0x10,
  kRcAcknowledge = 0x11,
  kRcAtomicAcknowledge = 0x12,
  kRcCompareSwap = 0x13,
  kRcFetchAdd = 0x14,
  kRcSendLastInvalidate = 0x16,
  kRcSendOnlyInvalidate = 0x17,
  kUdSendOnly = 0x64,
  kUdSendOnlyImmediate = 0x65,
  kCnp = 0x81,
  kRcGapReport = 0xd1,  // Causeway's own, from the manufacturer's range: only between peers that agreed on it
};

enum class OpcodeKind : uint8_t {
  kReserved,  // not an opcode that we know: dropped, counted
  kSend,
  kWrite,
  kReadRequest,
  kReadResponse,
  kAcknowledge,
  kAtomicAcknowledge,
  kAtomic,
  kDatagram,    // UD
  kCongestion,  // CNP
  kGapReport,   // NAK that says what is held behind the gap
};

// Place of the packet in its message. "Only" is both first and last.
enum class Place : uint8_t { kFirst, kMiddle, kLast, kOnly };

// Offsets count from the end of the BTH; kAbsent when the opcode does not carry the header.
struct OpcodeTraits {
  static constexpr uint8_t kAbsent = 0xff;
  const char* name = "reserved";
  OpcodeKind kind = OpcodeKind::kReserved;
  Place place = Place::kOnly;
  bool is_request = false;  // travels requester -> responder
  bool may_carry_payload = false;
  uint8_t reth = kAbsent;
  uint8_t aeth = kAbsent;
  uint8_t atomic_eth = kAbsent;
  uint8_t atomic_ack_eth = kAbsent;
  uint8_t immdt = kAbsent;
  uint8_t ieth = kAbsent;
  uint8_t deth = kAbsent;
  uint8_t extension_bytes = 0;  // all headers between BTH and payload

  [[nodiscard]] constexpr bool starts_message() const { return place == Place::kFirst || place == Place::kOnly; }
  [[nodiscard]] constexpr bool ends_message() const { return place == Place::kLast || place == Place::kOnly; }
};

// One row per value of the byte; see opcode.cc.
extern const std::array<OpcodeTraits, 256> kOpcodeTable;

[[nodiscard]] inline const OpcodeTraits& traits_of(Opcode opcode) noexcept {
  return kOpcodeTable[static_cast<uint8_t>(opcode)];
}

}  // namespace cw::wire
