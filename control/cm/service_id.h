// Service ids (IBA 12.7): what a REQ asks for. The RDMA IP CM service (IBA annex A11) maps ports of IP protocols onto them:
//
//   00 00 00 00 01 | protocol (1) | port (2)        NFS/RDMA: protocol 6 (the TCP port space), port 20049
#pragma once

#include <cstdint>

#include "base/strong_id.h"

namespace cw::cm {

struct ServiceIdTag {};
using ServiceId = StrongId<ServiceIdTag, uint64_t>;

inline constexpr uint8_t kTcpPortSpace = 6;

[[nodiscard]] constexpr ServiceId ip_service_id(uint16_t port, uint8_t protocol = kTcpPortSpace) {
  return ServiceId(0x0000'0000'0100'0000ULL | (uint64_t{protocol} << 16) | port);
}
[[nodiscard]] constexpr bool is_ip_service(ServiceId service) {
  return (service.value() >> 24) == 1;
}
[[nodiscard]] constexpr uint8_t ip_protocol_of(ServiceId service) {
  return static_cast<uint8_t>(service.value() >> 16);
}
[[nodiscard]] constexpr uint16_t ip_port_of(ServiceId service) {
  return static_cast<uint16_t>(service.value());
}

static_assert(ip_service_id(20049).value() == 0x0000'0000'0106'4e51ULL);
static_assert(is_ip_service(ip_service_id(1)) && !is_ip_service(ServiceId(0x1000'0000'0106'4e51ULL)));

}  // namespace cw::cm
