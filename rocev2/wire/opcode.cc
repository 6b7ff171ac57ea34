#include "rocev2/wire/opcode.h"

#include "rocev2/wire/aeth.h"
#include "rocev2/wire/atomic_eth.h"
#include "rocev2/wire/deth.h"
#include "rocev2/wire/ieth.h"
#include "rocev2/wire/immdt.h"
#include "rocev2/wire/reth.h"

namespace cw::wire {
namespace {

enum class Extension : uint8_t { kReth, kAeth, kAtomicEth, kAtomicAckEth, kImmDt, kIeth, kDeth };

constexpr void append(OpcodeTraits& traits, Extension extension) {
  const auto place = [&traits](uint8_t& offset, size_t size) {
    offset = traits.extension_bytes;
    traits.extension_bytes = static_cast<uint8_t>(traits.extension_bytes + size);
  };
  switch (extension) {
    case Extension::kReth:
      return place(traits.reth, Reth::kSize);
    case Extension::kAeth:
      return place(traits.aeth, Aeth::kSize);
    case Extension::kAtomicEth:
      return place(traits.atomic_eth, AtomicEth::kSize);
    case Extension::kAtomicAckEth:
      return place(traits.atomic_ack_eth, AtomicAckEth::kSize);
    case Extension::kImmDt:
      return place(traits.immdt, ImmDt::kSize);
    case Extension::kIeth:
      return place(traits.ieth, Ieth::kSize);
    case Extension::kDeth:
      return place(traits.deth, Deth::kSize);
  }
}

// Extension headers in wire order.
template <typename... Extensions>
constexpr OpcodeTraits describe(const char* name, OpcodeKind kind, Place place, Extensions... extensions) {
  OpcodeTraits traits;
  traits.name = name;
  traits.kind = kind;
  traits.place = place;
  traits.is_request = kind == OpcodeKind::kSend || kind == OpcodeKind::kWrite || kind == OpcodeKind::kReadRequest ||
                      kind == OpcodeKind::kAtomic || kind == OpcodeKind::kDatagram;
  traits.may_carry_payload = kind == OpcodeKind::kSend || kind == OpcodeKind::kWrite || kind == OpcodeKind::kReadResponse ||
                             kind == OpcodeKind::kDatagram || kind == OpcodeKind::kCongestion || kind == OpcodeKind::kGapReport;
  (append(traits, extensions), ...);
  return traits;
}

constexpr std::array<OpcodeTraits, 256> make_table() {
  using enum Opcode;
  using enum OpcodeKind;
  using enum Place;
  using enum Extension;
  std::array<OpcodeTraits, 256> table{};
  const auto set = [&table](Opcode opcode, const OpcodeTraits& traits) { table[static_cast<uint8_t>(opcode)] = traits; };
  set(kRcSendFirst, describe("RC SEND First", kSend, kFirst));
  set(kRcSendMiddle, describe("RC SEND Middle", kSend, kMiddle));
  set(kRcSendLast, describe("RC SEND Last", kSend, kLast));
  set(kRcSendLastImmediate, describe("RC SEND Last with Immediate", kSend, kLast, kImmDt));
  set(kRcSendOnly, describe("RC SEND Only", kSend, kOnly));
  set(kRcSendOnlyImmediate, describe("RC SEND Only with Immediate", kSend, kOnly, kImmDt));
  set(kRcWriteFirst, describe("RC RDMA WRITE First", kWrite, kFirst, kReth));
  set(kRcWriteMiddle, describe("RC RDMA WRITE Middle", kWrite, kMiddle));
  set(kRcWriteLast, describe("RC RDMA WRITE Last", kWrite, kLast));
  set(kRcWriteLastImmediate, describe("RC RDMA WRITE Last with Immediate", kWrite, kLast, kImmDt));
  set(kRcWriteOnly, describe("RC RDMA WRITE Only", kWrite, kOnly, kReth));
  set(kRcWriteOnlyImmediate, describe("RC RDMA WRITE Only with Immediate", kWrite, kOnly, kReth, kImmDt));
  set(kRcReadRequest, describe("RC RDMA READ Request", kReadRequest, kOnly, kReth));
  set(kRcReadResponseFirst, describe("RC RDMA READ Response First", kReadResponse, kFirst, kAeth));
  set(kRcReadResponseMiddle, describe("RC RDMA READ Response Middle", kReadResponse, kMiddle));
  set(kRcReadResponseLast, describe("RC RDMA READ Response Last", kReadResponse, kLast, kAeth));
  set(kRcReadResponseOnly, describe("RC RDMA READ Response Only", kReadResponse, kOnly, kAeth));
  set(kRcAcknowledge, describe("RC Acknowledge", kAcknowledge, kOnly, kAeth));
  set(kRcAtomicAcknowledge, describe("RC ATOMIC Acknowledge", kAtomicAcknowledge, kOnly, kAeth, kAtomicAckEth));
  set(kRcCompareSwap, describe("RC CompareSwap", kAtomic, kOnly, kAtomicEth));
  set(kRcFetchAdd, describe("RC FetchAdd", kAtomic, kOnly, kAtomicEth));
  set(kRcSendLastInvalidate, describe("RC SEND Last with Invalidate", kSend, kLast, kIeth));
  set(kRcSendOnlyInvalidate, describe("RC SEND Only with Invalidate", kSend, kOnly, kIeth));
  set(kUdSendOnly, describe("UD SEND Only", kDatagram, kOnly, kDeth));
  set(kUdSendOnlyImmediate, describe("UD SEND Only with Immediate", kDatagram, kOnly, kDeth, kImmDt));
  set(kCnp, describe("CNP", kCongestion, kOnly));
  set(kRcGapReport, describe("RC Gap Report", kGapReport, kOnly, kAeth));
  return table;
}

}  // namespace

constexpr std::array<OpcodeTraits, 256> kOpcodeTable = make_table();

static_assert(kOpcodeTable[0x0b].reth == 0 && kOpcodeTable[0x0b].immdt == 16 && kOpcodeTable[0x0b].extension_bytes == 20);
static_assert(kOpcodeTable[0x12].aeth == 0 && kOpcodeTable[0x12].atomic_ack_eth == 4 && kOpcodeTable[0x12].extension_bytes == 12);
static_assert(kOpcodeTable[0x65].deth == 0 && kOpcodeTable[0x65].immdt == 8 && kOpcodeTable[0x65].extension_bytes == 12);
static_assert(kOpcodeTable[0x15].kind == OpcodeKind::kReserved && kOpcodeTable[0xff].kind == OpcodeKind::kReserved);

}  // namespace cw::wire
