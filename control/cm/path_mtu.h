// Path MTU codes (IBA 9.6.5): payload bytes of one packet.
#pragma once

#include <cstdint>

namespace cw::cm {

enum class PathMtu : uint8_t { k256 = 1, k512 = 2, k1024 = 3, k2048 = 4, k4096 = 5 };

[[nodiscard]] constexpr bool is_valid(PathMtu mtu) {
  return mtu >= PathMtu::k256 && mtu <= PathMtu::k4096;
}
// Precondition: is_valid(mtu).
[[nodiscard]] constexpr uint32_t to_bytes(PathMtu mtu) {
  return 128u << static_cast<uint32_t>(mtu);
}
// The largest code whose payload fits; k256 for anything smaller than 512.
[[nodiscard]] constexpr PathMtu path_mtu_for(uint32_t payload_bytes) {
  PathMtu mtu = PathMtu::k256;
  while (mtu < PathMtu::k4096 && to_bytes(mtu) * 2 <= payload_bytes) {
    mtu = static_cast<PathMtu>(static_cast<uint8_t>(mtu) + 1);
  }
  return mtu;
}

static_assert(to_bytes(PathMtu::k256) == 256 && to_bytes(PathMtu::k4096) == 4096);
static_assert(path_mtu_for(1500 - 82) == PathMtu::k1024 && path_mtu_for(9000) == PathMtu::k4096);

}  // namespace cw::cm
