// One station on an Ethernet: its addresses, its neighbours, and the few protocols without which nobody can reach it.
//
// Answers ARP requests, IPv6 neighbour solicitations and ICMP/ICMPv6 echo for its own addresses, learns neighbours from what
// it is asked and told, and resolves addresses for the active side. Everything else on the wire is none of its business and is
// counted.
//
// Bounded: the neighbour table and the queue of frames to send are fixed; when the table is full the oldest entry goes, when the
// queue is full the frame is not sent (peers ask again). A host that asks costs itself one reply per frame received.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/ip_address.h"
#include "base/ring.h"
#include "base/time.h"
#include "rocev2/wire/mac_address.h"
#include "rocev2/wire/tx_batch.h"

namespace cw::link {

struct StationAddress {
  IpAddress address;
  uint8_t prefix_bits = 0;  // 0..32 for IPv4, 0..128 for IPv6
};

struct StationOptions {
  wire::MacAddress mac;
  uint16_t port = 0;    // index of the port, copied into every TxPacket
  uint16_t vlan = 0;    // 802.1Q id of the network, 0 = untagged
  uint32_t mtu = 1500;  // largest IP packet
  std::vector<StationAddress> addresses;
  std::optional<IpAddress> gateway4;
  std::optional<IpAddress> gateway6;
  uint32_t neighbour_max = 256;
  // Somebody else answers for the addresses, the kernel for example: this station says nothing and learns nothing.
  bool is_silent = false;
};

struct StationStats {
  uint64_t arp_in = 0;
  uint64_t arp_out = 0;
  uint64_t nd_in = 0;
  uint64_t nd_out = 0;
  uint64_t echo_in = 0;
  uint64_t echo_out = 0;
  uint64_t other_in = 0;       // not for this station's protocols: ignored
  uint64_t reply_dropped = 0;  // send queue full
};

class Station {
 public:
  explicit Station(const StationOptions& options);

  // Any frame that is not RoCEv2. Reads it, may queue an answer. Never keeps the frame. False: nothing that a station answers to.
  bool on_frame(Instant now, Bytes frame);
  // Announces our addresses (gratuitous ARP, unsolicited neighbour advertisement): after start and link-up.
  void announce();
  // The link is gone: whoever answers on it next may have another MAC.
  void forget_neighbours() { neighbours_.clear(); }
  // The neighbour's MAC when known; never when silent. Otherwise starts or continues asking (at most once a second); ask again
  // later.
  [[nodiscard]] std::optional<wire::MacAddress> resolve(Instant now, const IpAddress& destination);
  // Moves queued frames into `batch` while there is room.
  void poll_transmit(wire::TxBatch& batch);
  [[nodiscard]] bool has_output() const { return !output_.empty(); }

  [[nodiscard]] bool owns(const IpAddress& address) const;
  // The own address to use towards `destination`: one on its network, else any of the family.
  [[nodiscard]] std::optional<IpAddress> source_for(const IpAddress& destination) const;
  [[nodiscard]] const StationOptions& options() const { return options_; }
  [[nodiscard]] const StationStats& stats() const { return stats_; }

 private:
  static constexpr uint32_t kOutputFrames = 32;
  static constexpr uint32_t kOutputFrameBytes = 9216;  // an echo reply may be as large as the MTU

  struct Frame {
    std::vector<uint8_t> raw;  // capacity reserved once
  };
  struct Neighbour {
    IpAddress address;
    wire::MacAddress mac;
    bool known = false;
    Instant asked;
    Instant used;
  };

  void dispatch(Instant now, Bytes frame);
  void on_arp(Instant now, Bytes frame, uint32_t l3);
  void on_ipv4(Bytes frame, uint32_t l3);
  void on_ipv6(Instant now, Bytes frame, uint32_t l3);
  void on_neighbour_message(Instant now, Bytes frame, uint32_t l3, Bytes icmp);
  void refresh(Instant now, const IpAddress& address, const wire::MacAddress& mac);
  void learn(Instant now, const IpAddress& address, const wire::MacAddress& mac);
  void ask(const IpAddress& address);
  void send_arp(uint16_t operation, const wire::MacAddress& to, const IpAddress& sender, const wire::MacAddress& target_mac,
                const IpAddress& target);
  void send_neighbour_message(uint8_t type, const wire::MacAddress& to, const IpAddress& source, const IpAddress& destination,
                              const IpAddress& target, uint32_t flags);
  [[nodiscard]] Neighbour& entry(Instant now, const IpAddress& address);
  [[nodiscard]] IpAddress next_hop(const IpAddress& destination) const;
  // A zeroed frame with the link header written, or nullptr when the queue is full.
  [[nodiscard]] uint8_t* begin_frame(const wire::MacAddress& to, uint16_t ethertype, uint32_t l3_bytes);

  StationOptions options_;
  StationStats stats_;
  std::vector<Neighbour> neighbours_;
  std::array<std::vector<uint8_t>, kOutputFrames> frames_;
  std::array<uint32_t, kOutputFrames> frame_bytes_{};
  Ring<uint32_t> free_;
  Ring<uint32_t> output_;
};

}  // namespace cw::link
