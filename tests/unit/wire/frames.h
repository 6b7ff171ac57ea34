// Frames for the tests of this group: built with the code under test, then bent by hand.
#pragma once

#include <cstdint>
#include <vector>

#include "base/heap_buffer_pool.h"
#include "rocev2/wire/packet_builder.h"

namespace cw::wire::test {

inline Path v4_path(uint16_t vlan = 0) {
  Path path;
  path.local_mac = MacAddress{{0x52, 0x54, 0, 0, 0, 1}};
  path.remote_mac = MacAddress{{0x52, 0x54, 0, 0, 0, 2}};
  path.local = IpAddress::v4(0x0a090001);
  path.remote = IpAddress::v4(0x0a090002);
  path.vlan = vlan;
  path.udp_source_port = 0xc123;
  return path;
}

inline Path v6_path(uint16_t vlan = 0) {
  Path path = v4_path(vlan);
  path.local.raw = {0xfd, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  path.remote.raw = {0xfd, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
  return path;
}

inline std::vector<uint8_t> build_frame(const Path& path, const Bth& bth, const Extensions& extensions, Bytes payload,
                                        uint16_t ip_identification = 1) {
  HeapBufferPool pool(1, 9216, 0);
  TxBatch batch(pool);
  TxPacket& packet = *batch.add();
  build_packet(packet, PathHeader(path), ip_identification, bth, extensions, payload);
  return packet.raw();
}

inline std::vector<uint8_t> build_frame(const Path& path, Opcode opcode, size_t payload_bytes) {
  Bth bth;
  bth.opcode = opcode;
  bth.destination = verbs::Qpn(0x11);
  bth.psn = Psn(0x222222);
  std::vector<uint8_t> payload(payload_bytes);
  for (size_t i = 0; i < payload_bytes; ++i) {
    payload[i] = static_cast<uint8_t>(i * 7 + 1);
  }
  return build_frame(path, bth, Extensions{}, payload);
}

}  // namespace cw::wire::test
