#include "rocev2/rc/header_prediction.h"

#include <algorithm>
#include <bit>

#include "rocev2/wire/ethernet.h"
#include "rocev2/wire/ipv4.h"
#include "rocev2/wire/udp.h"

namespace cw::rc {
namespace {

constexpr uint32_t kPsnMask = 0x7fff'ffff;  // without the acknowledge request

// Ones where all packets are alike: not the total length, identification and checksum of IPv4, the length of UDP, and the last
// word of the BTH. What lies behind that is payload.
constexpr std::array<uint8_t, 56> kMaskBytes = [] {
  std::array<uint8_t, 56> mask{};
  for (size_t i = 0; i < HeaderPrediction::kHeaderBytes; ++i) {
    const bool differs = (i >= 16 && i < 20) || i == 24 || i == 25 || i == 38 || i == 39 || i >= 50;
    mask[i] = differs ? uint8_t{0} : uint8_t{0xff};
  }
  return mask;
}();

constexpr uint64_t mask_of(size_t word) {
  return load_native<uint64_t>(kMaskBytes.data() + 8 * word);
}

}  // namespace

void HeaderPrediction::learn(const wire::PacketView& view, uint32_t payload_bytes_max) {
  static_assert(kHeaderBytes == wire::Ethernet::kSize + wire::Ipv4::kSize + wire::Udp::kSize + wire::Bth::kSize);
  static_assert(kMaskBytes.size() == 8 * kWords);
  const bool is_common = view.frame.size() >= kFrameBytesMin && view.ip_offset == kIp && view.bth_offset == kOpcode &&
                         view.bth.opcode == wire::Opcode::kRcSendOnly && view.bth.pad_count == 0 && !view.is_marked();
  if (!is_common) {
    return;
  }
  const uint8_t* raw = view.frame.data();
  for (size_t i = 0; i < kWords; ++i) {
    headers_[i] = load_native<uint64_t>(raw + 8 * i) & mask_of(i);
  }
  uint32_t sum = 0;
  for (uint32_t i = 0; i < wire::Ipv4::kSize; i += 2) {
    const bool differs = i == 2 || i == 4 || i == 10;
    sum += differs ? 0u : load_native<uint16_t>(raw + kIp + i);
  }
  ip_sum_ = wire::fold_ones_complement(sum);
  icrc_ = wire::IcrcAlike(view.frame.subspan(kIp));
  frame_bytes_max_ = static_cast<uint16_t>(kHeaderBytes + (payload_bytes_max & ~3u) + wire::kIcrcBytes);
}

template <wire::Opcode kWhich>
bool HeaderPrediction::matches_as(Bytes frame, wire::Psn expected) const {
  // How the word with the opcode differs from the one learned.
  constexpr uint64_t kOther = [] {
    std::array<uint8_t, 8> word{};
    word[kOpcode % 8] = static_cast<uint8_t>(kWhich) ^ static_cast<uint8_t>(wire::Opcode::kRcSendOnly);
    return std::bit_cast<uint64_t>(word);
  }();
  const auto bytes = static_cast<uint32_t>(frame.size());
  const uint8_t* raw = frame.data();
  uint64_t differs = 0;
#pragma GCC unroll 8
  for (size_t i = 0; i < kWords; ++i) {
    const uint64_t as_learned = (load_native<uint64_t>(raw + 8 * i) & mask_of(i)) ^ headers_[i];
    differs |= i == kOpcode / 8 ? as_learned ^ kOther : as_learned;
  }
  const uint32_t ip_bytes = load_be16(raw + kIp + 2);
  differs |= ip_bytes ^ (bytes - kIp);
  differs |= load_be16(raw + kUdp + 4) ^ (bytes - kUdp);
  differs |= (load_be32(raw + kPsnWord) & kPsnMask) ^ expected.value();
  if (differs != 0) {
    return false;
  }
  // Length and identification lie together: one word of 32 bits is as good as two of 16 (RFC 1071 2.C).
  const uint64_t sum = uint64_t{ip_sum_} + load_native<uint32_t>(raw + kIp + 2) + load_native<uint16_t>(raw + kIp + 10);
  return sum % 0xffff == 0 && icrc_.is_right(frame.subspan(kIp));
}

bool HeaderPrediction::matches(Bytes frame, wire::Psn expected) const {
  return matches_as<wire::Opcode::kRcSendOnly>(frame, expected);
}

bool HeaderPrediction::matches_middle(Bytes frame, wire::Psn expected) const {
  return matches_as<wire::Opcode::kRcReadResponseMiddle>(frame, expected);
}

}  // namespace cw::rc
