// Congestion Notification Packet (IBA annex A17.9.3): what the receiver of a congestion-marked packet sends back.
//
// A BTH with opcode 0x81, BECN set and PSN 0, then 16 reserved bytes, padding-free, then the iCRC. It is unreliable, never
// acknowledged and takes no part in the PSN order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "rocev2/wire/bth.h"
#include "rocev2/wire/opcode.h"
#include "verbs/ids.h"

namespace cw::wire {

inline constexpr size_t kCnpReservedBytes = 16;
inline constexpr std::array<uint8_t, kCnpReservedBytes> kCnpReserved{};

// The BTH of a CNP towards `destination`; its payload is kCnpReserved.
[[nodiscard]] constexpr Bth cnp_bth(verbs::Qpn destination) {
  Bth bth;
  bth.opcode = Opcode::kCnp;
  bth.becn = true;
  bth.destination = destination;
  return bth;
}

}  // namespace cw::wire
