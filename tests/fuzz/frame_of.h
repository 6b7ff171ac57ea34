// A frame that an input stands for: as it is, or a sound RoCEv2 frame that the input bends, which is nearer to what decides.
//
// Input: [shape]. 0: the frame follows. Else a frame is built: bit 0: IPv6; bit 1: a VLAN tag; bits 2 to 4: so many words of IPv4
// options; bit 5: 20 bytes behind the BTH instead of 64. Then [opcode], pairs [where][value] that overwrite a byte, and, if one
// byte is left, how many bytes are cut off at the end.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/bytes.h"

namespace cw::fuzz {

inline constexpr size_t kFrameBytesMax = 2048;

// The link and network addresses are those of an interface that has `vlan`, 10.9.0.2 and fd09::2.
inline void build_frame(uint8_t shape, uint8_t opcode, uint16_t vlan, std::vector<uint8_t>& frame) {
  const bool ipv6 = (shape & 1) != 0;
  const uint16_t behind_udp = static_cast<uint16_t>(12 + ((shape & 0x20) != 0 ? 20 : 64));
  const auto byte = [&](uint32_t value) { frame.push_back(static_cast<uint8_t>(value)); };
  const auto word = [&](uint32_t value) {
    byte(value >> 8);
    byte(value);
  };
  frame.assign({2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1});
  if ((shape & 2) != 0) {
    word(0x8100);
    word(vlan);
  }
  if (ipv6) {
    word(0x86dd);
    word(0x6000);
    word(0);
    word(8u + behind_udp);
    byte(17);
    byte(64);
    for (const uint8_t host : {uint8_t{1}, uint8_t{2}}) {
      word(0xfd09);
      frame.insert(frame.end(), 13, 0);
      byte(host);
    }
  } else {
    const uint32_t words = 5u + (shape >> 2 & 7);
    word(0x0800);
    word(0x4000 | words << 8);
    word(words * 4 + 8 + behind_udp);
    word(1);
    word(0);
    byte(64);
    byte(17);
    word(0);
    for (const uint8_t host : {uint8_t{1}, uint8_t{2}}) {
      word(0x0a09);
      word(host);
    }
    frame.insert(frame.end(), (words - 5) * 4, 1);  // no operation
  }
  word(0xc000);
  word(4791);
  word(8u + behind_udp);
  word(0);
  byte(opcode);
  for (uint32_t i = 1; i < behind_udp; ++i) {
    byte(i);
  }
}

// `frame` is used again, so that an input costs no memory.
inline void frame_of(Bytes input, uint16_t vlan, std::vector<uint8_t>& frame) {
  if (input.size() < 2 || input[0] == 0) {
    const Bytes raw = input.empty() ? input : input.subspan(1);
    frame.assign(raw.begin(), raw.begin() + static_cast<ptrdiff_t>(std::min(raw.size(), kFrameBytesMax)));
    return;
  }
  build_frame(input[0], input[1], vlan, frame);
  for (input = input.subspan(2); input.size() >= 2; input = input.subspan(2)) {
    if (input[0] < frame.size()) {
      frame[input[0]] = input[1];
    }
  }
  if (!input.empty()) {
    frame.resize(frame.size() - std::min<size_t>(frame.size(), input[0]));
  }
}

}  // namespace cw::fuzz
