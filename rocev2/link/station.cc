#include "rocev2/link/station.h"

#include <algorithm>
#include <cstring>

namespace cw::link {
namespace {

using wire::MacAddress;

constexpr uint16_t kEtherIpv4 = 0x0800;
constexpr uint16_t kEtherArp = 0x0806;
constexpr uint16_t kEtherVlan = 0x8100;
constexpr uint16_t kEtherIpv6 = 0x86dd;
constexpr MacAddress kBroadcast{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};
constexpr uint16_t kArpRequest = 1;
constexpr uint16_t kArpReply = 2;
constexpr uint32_t kArpBytes = 28;
constexpr uint8_t kProtocolIcmp = 1;
constexpr uint8_t kProtocolIcmp6 = 58;
constexpr uint8_t kEchoRequest = 8;
constexpr uint8_t kEchoReply = 0;
constexpr uint8_t kEchoRequest6 = 128;
constexpr uint8_t kEchoReply6 = 129;
constexpr uint8_t kNeighbourSolicitation = 135;
constexpr uint8_t kNeighbourAdvertisement = 136;
constexpr uint32_t kSolicited = 0x4000'0000;
constexpr uint32_t kOverride = 0x2000'0000;

// RFC 1071. `sum` carries a pseudo header's part in.
uint16_t checksum(Bytes raw, uint32_t sum = 0) {
  size_t i = 0;
  for (; i + 1 < raw.size(); i += 2) {
    sum += load_be16(raw.data() + i);
  }
  if (i < raw.size()) {
    sum += uint32_t{raw[i]} << 8;
  }
  while ((sum >> 16) != 0) {
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return static_cast<uint16_t>(~sum);
}

// RFC 8200 8.1: addresses, length, next header.
uint32_t pseudo_header_sum(const uint8_t* ipv6, uint32_t length) {
  uint32_t sum = length + kProtocolIcmp6;
  for (uint32_t i = 8; i < 40; i += 2) {
    sum += load_be16(ipv6 + i);
  }
  return sum;
}

MacAddress mac_at(const uint8_t* p) {
  MacAddress mac;
  std::memcpy(mac.raw.data(), p, mac.raw.size());
  return mac;
}

IpAddress v6_at(const uint8_t* p) {
  return IpAddress::v6(std::span<const uint8_t, 16>(p, 16));
}

// An answer goes to one station, never to a group: else a forged source would make us an amplifier.
bool may_be_answered(Bytes frame, const IpAddress& source) {
  return !mac_at(frame.data() + 6).is_multicast() && !source.is_multicast() && source != IpAddress{} &&
         source != IpAddress::v4(0);
}

bool same_network(const IpAddress& a, const IpAddress& b, uint8_t prefix_bits) {
  const uint32_t bits = a.is_v4() ? prefix_bits + 96u : prefix_bits;
  const uint32_t whole = bits / 8;
  if (std::memcmp(a.raw.data(), b.raw.data(), whole) != 0) {
    return false;
  }
  const uint32_t rest = bits % 8;
  return rest == 0 || ((a.raw[whole] ^ b.raw[whole]) >> (8 - rest)) == 0;
}

// RFC 4291 2.7.1, RFC 2464 7.
IpAddress solicited_node(const IpAddress& target) {
  IpAddress group;
  group.raw = {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, target.raw[13], target.raw[14], target.raw[15]};
  return group;
}
MacAddress multicast_mac(const IpAddress& group) {
  return MacAddress{{0x33, 0x33, group.raw[12], group.raw[13], group.raw[14], group.raw[15]}};
}
IpAddress all_nodes() {
  IpAddress group;
  group.raw = {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return group;
}

}  // namespace

Station::Station(const StationOptions& options) : options_(options), free_(kOutputFrames), output_(kOutputFrames) {
  neighbours_.reserve(options_.neighbour_max);
  for (uint32_t i = 0; i < kOutputFrames; ++i) {
    frames_[i].resize(kOutputFrameBytes);
    (void)free_.push(uint32_t{i});
  }
}

bool Station::owns(const IpAddress& address) const {
  return std::any_of(options_.addresses.begin(), options_.addresses.end(),
                     [&](const StationAddress& own) { return own.address == address; });
}

std::optional<IpAddress> Station::source_for(const IpAddress& destination) const {
  std::optional<IpAddress> any;
  for (const StationAddress& own : options_.addresses) {
    if (own.address.is_v4() != destination.is_v4()) {
      continue;
    }
    if (same_network(own.address, destination, own.prefix_bits)) {
      return own.address;
    }
    if (!any) {
      any = own.address;
    }
  }
  return any;
}

IpAddress Station::next_hop(const IpAddress& destination) const {
  for (const StationAddress& own : options_.addresses) {
    if (own.address.is_v4() == destination.is_v4() && same_network(own.address, destination, own.prefix_bits)) {
      return destination;
    }
  }
  const auto& gateway = destination.is_v4() ? options_.gateway4 : options_.gateway6;
  return gateway.value_or(destination);
}

bool Station::on_frame(Instant now, Bytes frame) {
  const uint64_t before = stats_.other_in;
  dispatch(now, frame);
  return stats_.other_in == before;
}

void Station::dispatch(Instant now, Bytes frame) {
  if (options_.is_silent || frame.size() < 14) {
    ++stats_.other_in;
    return;
  }
  uint32_t l3 = 14;
  uint16_t ethertype = load_be16(frame.data() + 12);
  uint16_t vlan = 0;
  if (ethertype == kEtherVlan && frame.size() >= 18) {
    vlan = load_be16(frame.data() + 14) & 0xfff;
    ethertype = load_be16(frame.data() + 16);
    l3 = 18;
  }
  if (vlan != options_.vlan) {
    ++stats_.other_in;
    return;
  }
  switch (ethertype) {
    case kEtherArp:
      on_arp(now, frame, l3);
      return;
    case kEtherIpv4:
      on_ipv4(frame, l3);
      return;
    case kEtherIpv6:
      on_ipv6(now, frame, l3);
      return;
    default:
      ++stats_.other_in;
  }
}

void Station::on_arp(Instant now, Bytes frame, uint32_t l3) {
  // RFC 826 for Ethernet and IPv4: types 1 and 0x0800, lengths 6 and 4.
  if (frame.size() < l3 + kArpBytes || load_be32(frame.data() + l3) != 0x0001'0800 ||
      load_be16(frame.data() + l3 + 4) != 0x0604) {
    ++stats_.other_in;
    return;
  }
  ++stats_.arp_in;
  const uint8_t* arp = frame.data() + l3;
  const uint16_t operation = load_be16(arp + 6);
  const MacAddress sender_mac = mac_at(arp + 8);
  const IpAddress sender = IpAddress::v4(load_be32(arp + 14));
  const IpAddress target = IpAddress::v4(load_be32(arp + 24));
  if (sender_mac.is_multicast()) {
    return;
  }
  if (!owns(target)) {
    refresh(now, sender, sender_mac);  // RFC 826: a neighbour that announces a new MAC
    return;
  }
  learn(now, sender, sender_mac);
  if (operation == kArpRequest) {
    send_arp(kArpReply, sender_mac, target, sender_mac, sender);
  }
}

void Station::on_ipv4(Bytes frame, uint32_t l3) {
  if (frame.size() < l3 + 20 + 8) {
    ++stats_.other_in;
    return;
  }
  const uint8_t* ip = frame.data() + l3;
  const uint32_t total = load_be16(ip + 2);
  const bool plain = ip[0] == 0x45 && (load_be16(ip + 6) & 0x3fff) == 0 && total >= 28 && total <= frame.size() - l3;
  if (!plain || ip[9] != kProtocolIcmp || ip[20] != kEchoRequest || !owns(IpAddress::v4(load_be32(ip + 16))) ||
      !may_be_answered(frame, IpAddress::v4(load_be32(ip + 12)))) {
    ++stats_.other_in;
    return;
  }
  const Bytes icmp(ip + 20, total - 20);
  if (checksum({ip, 20}) != 0 || checksum(icmp) != 0 || total > options_.mtu) {
    ++stats_.other_in;
    return;
  }
  ++stats_.echo_in;
  uint8_t* out = begin_frame(mac_at(frame.data() + 6), kEtherIpv4, total);
  if (out == nullptr) {
    return;
  }
  std::memcpy(out, ip, total);
  std::memcpy(out + 12, ip + 16, 4);
  std::memcpy(out + 16, ip + 12, 4);
  out[8] = 64;
  store_be16(out + 10, 0);
  store_be16(out + 10, checksum({out, 20}));
  out[20] = kEchoReply;
  store_be16(out + 22, 0);
  store_be16(out + 22, checksum({out + 20, icmp.size()}));
  ++stats_.echo_out;
}

void Station::on_ipv6(Instant now, Bytes frame, uint32_t l3) {
  if (frame.size() < l3 + 40 + 8) {
    ++stats_.other_in;
    return;
  }
  const uint8_t* ip = frame.data() + l3;
  const uint32_t length = load_be16(ip + 4);
  if ((ip[0] >> 4) != 6 || ip[6] != kProtocolIcmp6 || length < 8 || length > frame.size() - l3 - 40 ||
      checksum({ip + 40, length}, pseudo_header_sum(ip, length)) != 0) {
    ++stats_.other_in;
    return;
  }
  const Bytes icmp(ip + 40, length);
  if (icmp[0] == kNeighbourSolicitation || icmp[0] == kNeighbourAdvertisement) {
    on_neighbour_message(now, frame, l3, icmp);
    return;
  }
  if (icmp[0] != kEchoRequest6 || !owns(v6_at(ip + 24)) || length + 40 > options_.mtu || !may_be_answered(frame, v6_at(ip + 8))) {
    ++stats_.other_in;
    return;
  }
  ++stats_.echo_in;
  uint8_t* out = begin_frame(mac_at(frame.data() + 6), kEtherIpv6, length + 40);
  if (out == nullptr) {
    return;
  }
  std::memcpy(out, ip, length + 40);
  std::memcpy(out + 8, ip + 24, 16);
  std::memcpy(out + 24, ip + 8, 16);
  out[7] = 64;
  out[40] = kEchoReply6;
  store_be16(out + 42, 0);
  store_be16(out + 42, checksum({out + 40, length}, pseudo_header_sum(out, length)));
  ++stats_.echo_out;
}

void Station::on_neighbour_message(Instant now, Bytes frame, uint32_t l3, Bytes icmp) {
  const uint8_t* ip = frame.data() + l3;
  // RFC 4861 7.1: hop limit 255 proves that no router forwarded it; code 0; a target follows.
  if (ip[7] != 255 || icmp[1] != 0 || icmp.size() < 24) {
    ++stats_.other_in;
    return;
  }
  ++stats_.nd_in;
  const IpAddress target = v6_at(icmp.data() + 8);
  const uint8_t wanted_option = icmp[0] == kNeighbourSolicitation ? 1 : 2;
  MacAddress told = mac_at(frame.data() + 6);
  for (size_t at = 24; at + 8 <= icmp.size();) {
    const size_t option_bytes = size_t{icmp[at + 1]} * 8;
    if (option_bytes == 0) {
      return;  // RFC 4861 4.6: discard
    }
    if (icmp[at] == wanted_option && option_bytes == 8) {
      told = mac_at(icmp.data() + at + 2);
    }
    at += option_bytes;
  }
  if (told.is_multicast()) {
    return;
  }
  if (icmp[0] == kNeighbourAdvertisement) {
    refresh(now, target, told);
    return;
  }
  if (!owns(target)) {
    return;
  }
  const IpAddress source = v6_at(ip + 8);
  if (source == IpAddress{}) {
    // Somebody checks whether the address is free (RFC 4862): tell everybody that it is not.
    send_neighbour_message(kNeighbourAdvertisement, multicast_mac(all_nodes()), target, all_nodes(), target, kOverride);
    return;
  }
  learn(now, source, told);
  send_neighbour_message(kNeighbourAdvertisement, told, target, source, target, kSolicited | kOverride);
}

// What was not asked for is believed only of neighbours that somebody asked about before.
void Station::refresh(Instant now, const IpAddress& address, const MacAddress& mac) {
  const auto same = [&](const Neighbour& neighbour) { return neighbour.address == address; };
  if (std::any_of(neighbours_.begin(), neighbours_.end(), same)) {
    learn(now, address, mac);
  }
}

void Station::learn(Instant now, const IpAddress& address, const MacAddress& mac) {
  if (address.is_multicast() || address == IpAddress{} || address == IpAddress::v4(0)) {
    return;
  }
  Neighbour& neighbour = entry(now, address);
  neighbour.mac = mac;
  neighbour.known = true;
}

Station::Neighbour& Station::entry(Instant now, const IpAddress& address) {
  for (Neighbour& neighbour : neighbours_) {
    if (neighbour.address == address) {
      neighbour.used = now;
      return neighbour;
    }
  }
  if (neighbours_.size() < options_.neighbour_max) {
    return neighbours_.emplace_back(Neighbour{address, {}, false, Instant::from_ns(-2'000'000'000), now});
  }
  Neighbour& oldest = *std::min_element(neighbours_.begin(), neighbours_.end(),
                                        [](const Neighbour& a, const Neighbour& b) { return a.used < b.used; });
  oldest = Neighbour{address, {}, false, Instant::from_ns(-2'000'000'000), now};
  return oldest;
}

std::optional<MacAddress> Station::resolve(Instant now, const IpAddress& destination) {
  if (options_.is_silent) {
    return std::nullopt;
  }
  const IpAddress hop = next_hop(destination);
  Neighbour& neighbour = entry(now, hop);
  if (neighbour.known) {
    return neighbour.mac;
  }
  if (now - neighbour.asked >= Duration::seconds(1)) {
    neighbour.asked = now;
    ask(hop);
  }
  return std::nullopt;
}

void Station::ask(const IpAddress& address) {
  const auto source = source_for(address);
  if (!source) {
    return;
  }
  if (address.is_v4()) {
    send_arp(kArpRequest, kBroadcast, *source, MacAddress{}, address);
  } else {
    const IpAddress group = solicited_node(address);
    send_neighbour_message(kNeighbourSolicitation, multicast_mac(group), *source, group, address, 0);
  }
}

void Station::announce() {
  if (options_.is_silent) {
    return;
  }
  for (const StationAddress& own : options_.addresses) {
    if (own.address.is_v4()) {
      send_arp(kArpRequest, kBroadcast, own.address, MacAddress{}, own.address);
    } else {
      send_neighbour_message(kNeighbourAdvertisement, multicast_mac(all_nodes()), own.address, all_nodes(), own.address,
                             kOverride);
    }
  }
}

void Station::send_arp(uint16_t operation, const MacAddress& to, const IpAddress& sender, const MacAddress& target_mac,
                       const IpAddress& target) {
  uint8_t* arp = begin_frame(to, kEtherArp, kArpBytes);
  if (arp == nullptr) {
    return;
  }
  store_be32(arp, 0x0001'0800);
  store_be16(arp + 4, 0x0604);
  store_be16(arp + 6, operation);
  std::memcpy(arp + 8, options_.mac.raw.data(), 6);
  store_be32(arp + 14, sender.to_v4());
  std::memcpy(arp + 18, target_mac.raw.data(), 6);
  store_be32(arp + 24, target.to_v4());
  ++stats_.arp_out;
}

void Station::send_neighbour_message(uint8_t type, const MacAddress& to, const IpAddress& source, const IpAddress& destination,
                                     const IpAddress& target, uint32_t flags) {
  constexpr uint32_t kIcmpBytes = 24 + 8;
  uint8_t* ip = begin_frame(to, kEtherIpv6, 40 + kIcmpBytes);
  if (ip == nullptr) {
    return;
  }
  ip[0] = 0x60;
  store_be16(ip + 4, kIcmpBytes);
  ip[6] = kProtocolIcmp6;
  ip[7] = 255;
  std::memcpy(ip + 8, source.raw.data(), 16);
  std::memcpy(ip + 24, destination.raw.data(), 16);
  uint8_t* icmp = ip + 40;
  icmp[0] = type;
  store_be32(icmp + 4, flags);
  std::memcpy(icmp + 8, target.raw.data(), 16);
  icmp[24] = type == kNeighbourSolicitation ? 1 : 2;
  icmp[25] = 1;
  std::memcpy(icmp + 26, options_.mac.raw.data(), 6);
  store_be16(icmp + 2, checksum({icmp, kIcmpBytes}, pseudo_header_sum(ip, kIcmpBytes)));
  ++stats_.nd_out;
}

uint8_t* Station::begin_frame(const MacAddress& to, uint16_t ethertype, uint32_t l3_bytes) {
  const uint32_t link_bytes = options_.vlan != 0 ? 18 : 14;
  if (free_.empty() || link_bytes + l3_bytes > kOutputFrameBytes) {
    ++stats_.reply_dropped;
    return nullptr;
  }
  const uint32_t index = free_.pop();
  uint8_t* frame = frames_[index].data();
  std::memset(frame, 0, link_bytes + l3_bytes);
  std::memcpy(frame, to.raw.data(), 6);
  std::memcpy(frame + 6, options_.mac.raw.data(), 6);
  if (options_.vlan != 0) {
    store_be16(frame + 12, kEtherVlan);
    store_be16(frame + 14, options_.vlan);
  }
  store_be16(frame + link_bytes - 2, ethertype);
  frame_bytes_[index] = link_bytes + l3_bytes;
  (void)output_.push(uint32_t{index});
  return frame + link_bytes;
}

void Station::poll_transmit(wire::TxBatch& batch) {
  while (!output_.empty()) {
    wire::TxPacket* packet = batch.add();
    if (packet == nullptr) {
      return;
    }
    const uint32_t index = output_.pop();
    // A frame longer than a head is cut by append(): cannot happen while heads hold an MTU, but must not be sent.
    if (packet->head->append({frames_[index].data(), frame_bytes_[index]}) != frame_bytes_[index]) {
      batch.drop_last();
      ++stats_.reply_dropped;
    } else {
      packet->port = options_.port;
    }
    (void)free_.push(uint32_t{index});
  }
}

}  // namespace cw::link
