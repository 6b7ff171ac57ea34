// Where a connection management datagram came from, or goes to.
#pragma once

#include <array>
#include <cstdint>

#include "base/ip_address.h"
#include "rocev2/wire/mac_address.h"
#include "verbs/ids.h"

namespace cw::cm {

inline constexpr size_t kMadSize = 256;
inline constexpr verbs::Qpn kGsiQpn{1};

struct CmAddress {
  IpAddress local;
  IpAddress remote;
  wire::MacAddress remote_mac;
  uint16_t vlan = 0;                // 0 = untagged
  uint16_t port = 0;                // index of the local port
  verbs::Qpn remote_qpn = kGsiQpn;  // anything but the GSI is refused

  // The binding of a connection: every later message has to come over the same port and VLAN, between the same two addresses.
  // The station address is left out, since a routed path may change its next hop under a living connection.
  [[nodiscard]] constexpr bool is_same_path(const CmAddress& other) const {
    return local == other.local && remote == other.remote && vlan == other.vlan && port == other.port;
  }
  // The port with its VLAN, as one word.
  [[nodiscard]] constexpr uint32_t way() const { return uint32_t{port} << 16 | vlan; }
  friend constexpr bool operator==(const CmAddress&, const CmAddress&) = default;
};

struct CmDatagram {
  CmAddress to;
  std::array<uint8_t, kMadSize> mad{};
};

}  // namespace cw::cm
