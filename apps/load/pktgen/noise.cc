#include "apps/load/pktgen/noise.h"

#include <algorithm>
#include <array>
#include <utility>

#include "apps/load/pktgen/packets.h"
#include "base/random.h"
#include "rocev2/wire/drop_reason.h"
#include "rocev2/wire/ethernet.h"
#include "rocev2/wire/ipv4.h"
#include "rocev2/wire/ipv6.h"
#include "rocev2/wire/udp.h"

namespace cw::pktgen {
namespace {

using wire::DropReason;
using wire::MacAddress;

constexpr size_t kEthernetBytesMin = 60;
constexpr MacAddress kBroadcast{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};
constexpr MacAddress kLldpGroup{{0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e}};
constexpr uint16_t kEtherTypeArp = 0x0806;
constexpr uint16_t kEtherTypeLldp = 0x88cc;
constexpr uint8_t kTcp = 6;
constexpr uint8_t kIgmp = 2;
constexpr uint8_t kIcmp6 = 58;
constexpr uint16_t kMdnsPort = 5353;
constexpr uint16_t kDhcpServerPort = 67;
constexpr uint32_t kLinkLocal4 = 0xa9fe'0a02;  // 169.254.10.2: the sender, where the path is IPv6
constexpr uint32_t kAllHosts4 = 0xffff'ffff;
constexpr uint32_t kMdnsGroup4 = 0xe000'00fb;
constexpr uint32_t kIgmpGroup4 = 0xe000'0016;
constexpr uint32_t kElsewhere4 = 0xa9fe'0a63;

template <typename Header>
void append(ByteVector& frame, const Header& header) {
  const size_t at = frame.size();
  frame.resize(at + Header::kSize);
  header.write(std::span<uint8_t, Header::kSize>(&frame[at], Header::kSize));
}

uint16_t ones_complement(Bytes raw, uint32_t sum) {
  for (size_t i = 0; i + 1 < raw.size(); i += 2) {
    sum += load_be16(&raw[i]);
  }
  while (sum >> 16 != 0) {
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return static_cast<uint16_t>(~sum);
}

std::vector<Count> ignored(DropReason reason) {
  return {{"causeway_roce_discards_total", {{"reason", to_string(reason)}}}, {"causeway_port_other_packets_total", {}}};
}

class Noise {
 public:
  explicit Noise(const Target& target)
      : path_(target.path),
        random_(target.seed),
        source4_(path_.local.is_v4() ? path_.local.to_v4() : kLinkLocal4),
        elsewhere4_(path_.local.is_v4() ? path_.remote.to_v4() ^ 0x40 : kElsewhere4) {}

  void add_one(Profile& profile) {
    switch (random_.next_below(10)) {
      case 0:
        return add_frame(profile, "udp", udp_to_us(), ignored(DropReason::kNotRoce));
      case 1:
        return add_frame(profile, "tcp", tcp_to_us(), ignored(DropReason::kNotRoce));
      case 2:
        return add_frame(profile, "arp", arp(elsewhere4_), {{"causeway_port_arp_packets_total", {{"direction", "rx"}}}});
      case 3:
        return add_who_has_us(profile);
      case 4:
        return add_frame(profile, "dhcp_broadcast", ipv4_udp(kBroadcast, kAllHosts4, kDhcpServerPort),
                         ignored(DropReason::kNotRoce));
      case 5:
        return add_frame(profile, "mdns", ipv4_udp({{0x01, 0x00, 0x5e, 0x00, 0x00, 0xfb}}, kMdnsGroup4, kMdnsPort),
                         ignored(DropReason::kNotRoce));
      case 6:
        return add_frame(profile, "igmp", igmp(), ignored(DropReason::kNotRoce));
      case 7:
        return add_frame(profile, "lldp", lldp(), ignored(DropReason::kNotRoce));
      case 8:
        return add_frame(profile, "roce_broadcast", roce(kBroadcast), ignored(DropReason::kMulticast));
      default:
        return add_frame(profile, "roce_multicast", roce({{0x01, 0x00, 0x5e, 0x00, 0x00, 0x42}}),
                         ignored(DropReason::kMulticast));
    }
  }

 private:
  [[nodiscard]] ByteVector link(const MacAddress& to, uint16_t ether_type) const {
    ByteVector frame;
    append(frame, wire::Ethernet{to, path_.local_mac, path_.vlan != 0 ? wire::kEtherTypeVlan : ether_type});
    if (path_.vlan != 0) {
      append(frame, wire::VlanTag{0, false, path_.vlan, ether_type});
    }
    return frame;
  }
  [[nodiscard]] ByteVector content(size_t bytes) {
    ByteVector out(bytes);
    std::generate(out.begin(), out.end(), [this] { return static_cast<uint8_t>(random_.next_u32()); });
    return out;
  }
  static ByteVector finished(ByteVector frame) {
    frame.resize(std::max(frame.size(), kEthernetBytesMin));
    return frame;
  }

  ByteVector ipv4(const MacAddress& to, uint32_t destination, uint8_t protocol, const ByteVector& behind) {
    ByteVector frame = link(to, wire::kEtherTypeIpv4);
    const size_t ip = frame.size();
    wire::Ipv4 header;
    header.total_bytes = static_cast<uint16_t>(wire::Ipv4::kSize + behind.size());
    header.ttl = 1;
    header.protocol = protocol;
    header.source = source4_;
    header.destination = destination;
    append(frame, header);
    repair_ipv4_checksum(frame, ip);
    frame.insert(frame.end(), behind.begin(), behind.end());
    return finished(std::move(frame));
  }
  ByteVector ipv6(uint8_t next_header, uint8_t hop_limit, const ByteVector& behind) {
    ByteVector frame = link(path_.remote_mac, wire::kEtherTypeIpv6);
    append(frame,
           wire::Ipv6{0, 0, static_cast<uint16_t>(behind.size()), next_header, hop_limit, path_.local.raw, path_.remote.raw});
    frame.insert(frame.end(), behind.begin(), behind.end());
    return finished(std::move(frame));
  }
  ByteVector to_us(uint8_t protocol, const ByteVector& behind) {
    return path_.remote.is_v4() ? ipv4(path_.remote_mac, path_.remote.to_v4(), protocol, behind) : ipv6(protocol, 64, behind);
  }
  // No checksum: nobody reads that far.
  ByteVector udp(uint16_t port) {
    const ByteVector payload = content(8 + random_.next_below(400));
    ByteVector out;
    append(out, wire::Udp{static_cast<uint16_t>(1024 + random_.next_below(60000)), port,
                          static_cast<uint16_t>(wire::Udp::kSize + payload.size()), 0});
    out.insert(out.end(), payload.begin(), payload.end());
    return out;
  }
  ByteVector ipv4_udp(const MacAddress& to, uint32_t destination, uint16_t port) {
    return ipv4(to, destination, wire::kIpProtocolUdp, udp(port));
  }
  ByteVector udp_to_us() {
    constexpr std::array<uint16_t, 5> kPorts = {53, 111, 123, 2049, 4790};
    return to_us(wire::kIpProtocolUdp, udp(kPorts[random_.next_below(kPorts.size())]));
  }
  ByteVector tcp_to_us() {
    ByteVector header = content(20);
    store_be16(&header[2], 2049);
    header[12] = 0x50;
    header[13] = 0x02;  // SYN
    return to_us(kTcp, header);
  }
  // A membership report for one group (RFC 2236).
  ByteVector igmp() {
    ByteVector report = {0x16, 0, 0, 0, 0xe0, 0, 0, 0xfb};
    store_be16(&report[2], ones_complement(report, 0));
    return ipv4({{0x01, 0x00, 0x5e, 0x00, 0x00, 0x16}}, kIgmpGroup4, kIgmp, report);
  }
  ByteVector lldp() {
    ByteVector frame = link(kLldpGroup, kEtherTypeLldp);
    const ByteVector payload = content(46);
    frame.insert(frame.end(), payload.begin(), payload.end());
    return finished(std::move(frame));
  }
  ByteVector arp(uint32_t target) {
    ByteVector frame = link(kBroadcast, kEtherTypeArp);
    ByteVector request(28);
    store_be32(request.data(), 0x0001'0800);
    store_be32(&request[4], 0x0604'0001);
    std::copy(path_.local_mac.raw.begin(), path_.local_mac.raw.end(), request.begin() + 8);
    store_be32(&request[14], source4_);
    store_be32(&request[24], target);
    frame.insert(frame.end(), request.begin(), request.end());
    return finished(std::move(frame));
  }
  // Who asks for our address is answered: ARP, or neighbour discovery for an IPv6 address.
  void add_who_has_us(Profile& profile) {
    if (path_.remote.is_v4()) {
      add_frame(profile, "arp_for_us", arp(path_.remote.to_v4()),
                {{"causeway_port_arp_packets_total", {{"direction", "rx"}}},
                 {"causeway_port_arp_packets_total", {{"direction", "tx"}}}});
    } else {
      add_frame(
          profile, "nd_for_us", neighbour_solicitation(),
          {{"causeway_port_nd_packets_total", {{"direction", "rx"}}}, {"causeway_port_nd_packets_total", {{"direction", "tx"}}}});
    }
  }
  // RFC 4861 4.3, sent to the address itself as a probe for unreachability is.
  ByteVector neighbour_solicitation() {
    ByteVector message(32);
    message[0] = 135;
    std::copy(path_.remote.raw.begin(), path_.remote.raw.end(), message.begin() + 8);
    message[24] = 1;
    message[25] = 1;
    std::copy(path_.local_mac.raw.begin(), path_.local_mac.raw.end(), message.begin() + 26);
    ByteVector pseudo_header;
    pseudo_header.insert(pseudo_header.end(), path_.local.raw.begin(), path_.local.raw.end());
    pseudo_header.insert(pseudo_header.end(), path_.remote.raw.begin(), path_.remote.raw.end());
    pseudo_header.insert(pseudo_header.end(), message.begin(), message.end());
    store_be16(&message[2], ones_complement(pseudo_header, static_cast<uint32_t>(message.size()) + kIcmp6));
    return ipv6(kIcmp6, 255, message);
  }
  // Right in every respect but for whom it is sent to.
  ByteVector roce(const MacAddress& to) {
    wire::Path path = path_;
    path.remote_mac = to;
    return maker_.datagram(path, content(256));
  }

  wire::Path path_;
  SeededRandom random_;
  uint32_t source4_;
  uint32_t elsewhere4_;
  PacketMaker maker_;
};

}  // namespace

Profile make_noise(const Target& target, const NoiseOptions& options) {
  Profile profile{.name = "noise", .kinds = {}, .frames = {}, .further_pass = {}, .remarks = {}};
  Noise noise(target);
  for (uint32_t i = 0; i < options.count; ++i) {
    noise.add_one(profile);
  }
  profile.further_pass = first_pass(profile);
  profile.remarks = {
      "Every frame counts by itself: each pass over the file adds the same. "
      "ARP and neighbour discovery for causewayd's own address are answered.",
  };
  return profile;
}

}  // namespace cw::pktgen
