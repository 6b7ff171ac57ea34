#include "apps/sim/link/damage.h"

#include "base/bytes.h"
#include "rocev2/wire/ipv4.h"

namespace cw::sim {
namespace {

constexpr size_t kEthertypeAt = 12;
constexpr size_t kTagBytes = 4;
constexpr size_t kEthernetBytes = 14;
constexpr uint16_t kVlanType = 0x8100;
constexpr uint16_t kIpv4Type = 0x0800;
constexpr uint16_t kIpv6Type = 0x86dd;
constexpr size_t kIpv6Bytes = 40;
constexpr uint8_t kUdp = 17;

bool mark_ipv4(uint8_t* ip) {
  if ((ip[1] & 3) == 0) {
    return false;
  }
  ip[1] |= 3;
  store_be16(ip + 10, 0);
  const uint64_t sum = wire::ipv4_sum(std::span<const uint8_t, 20>(ip, 20));
  store_be16(ip + 10, static_cast<uint16_t>(~wire::fold_ones_complement(sum)));
  return true;
}

// The traffic class lies across the first two bytes; ECN is its low end.
bool mark_ipv6(uint8_t* ip) {
  if ((ip[1] & 0x30) == 0) {
    return false;
  }
  ip[1] |= 0x30;
  return true;
}

struct Place {
  uint16_t type = 0;  // Ethertype behind a tag
  size_t ip = 0;      // offset of what follows it
};

Place place_of(const std::vector<uint8_t>& frame) {
  Place place;
  if (frame.size() >= kEthernetBytes + kTagBytes + kIpv6Bytes) {
    place = {load_be16(frame.data() + kEthertypeAt), kEthernetBytes};
    if (place.type == kVlanType) {
      place = {load_be16(frame.data() + kEthertypeAt + kTagBytes), kEthernetBytes + kTagBytes};
    }
  }
  return place;
}

bool is_udp(const std::vector<uint8_t>& frame, const Place& place) {
  return (place.type == kIpv4Type && frame[place.ip + 9] == kUdp) || (place.type == kIpv6Type && frame[place.ip + 6] == kUdp);
}

}  // namespace

bool mark_congestion(std::vector<uint8_t>& frame) {
  const Place place = place_of(frame);
  if (place.type == kIpv4Type) {
    return mark_ipv4(frame.data() + place.ip);
  }
  return place.type == kIpv6Type && mark_ipv6(frame.data() + place.ip);
}

void Corrupt::act(Instant now, Transit&& frame) {
  if (!chance(permille_)) {
    pass(now, std::move(frame));
    return;
  }
  hit();
  const Place place = place_of(frame.raw);
  if (!is_udp(frame.raw, place)) {
    return;
  }
  const auto room = static_cast<uint32_t>(frame.raw.size() - place.ip);
  frame.raw[place.ip + random().next_below(room)] ^= static_cast<uint8_t>(1u << random().next_below(8));
  pass(now, std::move(frame));
}

void Truncate::act(Instant now, Transit&& frame) {
  if (chance(permille_) && !frame.raw.empty()) {
    hit();
    frame.raw.resize(random().next_below(static_cast<uint32_t>(frame.raw.size())));
  }
  pass(now, std::move(frame));
}

void EcnMark::act(Instant now, Transit&& frame) {
  if (chance(permille_) && mark_congestion(frame.raw)) {
    hit();
  }
  pass(now, std::move(frame));
}

}  // namespace cw::sim
