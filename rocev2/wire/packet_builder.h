// Builds RoCEv2 packets into TxPackets: path headers from a template, BTH, extension headers, payload, padding, iCRC.
//
// A PathHeader is made once per connection: Ethernet (with VLAN), IP and UDP, ready but for the lengths, the IPv4 identification
// and checksum.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>

#include "base/bytes.h"
#include "base/ip_address.h"
#include "rocev2/wire/aeth.h"
#include "rocev2/wire/atomic_eth.h"
#include "rocev2/wire/bth.h"
#include "rocev2/wire/deth.h"
#include "rocev2/wire/icrc.h"
#include "rocev2/wire/mac_address.h"
#include "rocev2/wire/packet_view.h"
#include "rocev2/wire/reth.h"
#include "rocev2/wire/tx_batch.h"

namespace cw::wire {

// Bytes of padding behind a payload (PadCnt of the BTH).
[[nodiscard]] constexpr uint8_t pad_count_for(size_t payload_bytes) {
  return static_cast<uint8_t>((4 - payload_bytes % 4) % 4);
}

// Where a queue pair's packets come from and go to. Both directions: inbound packets must show it mirrored.
struct Path {
  MacAddress local_mac;
  MacAddress remote_mac;
  IpAddress local;  // both of one family
  IpAddress remote;
  uint16_t vlan = 0;             // 0 = untagged
  uint16_t udp_source_port = 0;  // 49152..65535, entropy per queue pair
  uint8_t dscp = 0;
  uint8_t hop_limit = 64;
  bool ecn_capable = true;  // ECT(0)
  uint16_t port = 0;        // index of the local port
  friend bool operator==(const Path&, const Path&) = default;
};

class PathHeader {
 public:
  PathHeader() = default;
  explicit PathHeader(const Path& path);
  [[nodiscard]] uint32_t bytes() const { return bytes_; }          // Ethernet .. UDP
  [[nodiscard]] uint32_t ip_offset() const { return ip_offset_; }  // where the iCRC begins to cover
  [[nodiscard]] uint16_t port() const { return port_; }
  [[nodiscard]] bool has_identification() const { return !ipv6_; }
  // A packet that came in by `port` shows the path mirrored: VLAN and addresses.
  [[nodiscard]] bool is_answered_by(const PacketView& view, uint16_t port) const {
    const uint8_t* ours = template_.data() + ip_offset_;
    const uint8_t* theirs = view.frame.data() + view.ip_offset;
    const bool same_link = port == port_ && view.vlan == vlan_ && view.is_ipv6() == ipv6_;
    if (ipv6_) [[unlikely]] {
      return same_link && std::memcmp(theirs + 8, ours + 24, 16) == 0 && std::memcmp(theirs + 24, ours + 8, 16) == 0;
    }
    return same_link && load_native<uint32_t>(theirs + 12) == load_native<uint32_t>(ours + 16) &&
           load_native<uint32_t>(theirs + 16) == load_native<uint32_t>(ours + 12);
  }
  // Writes Ethernet .. UDP for a UDP payload of `udp_payload_bytes` (BTH .. iCRC).
  void write(uint8_t* out, uint32_t udp_payload_bytes, uint16_t ip_identification) const;
  // What all SENDs of one packet share is made ready behind the path's headers, where it fits: over IPv4.
  void prepare_sends(const Bth& bth);
  [[nodiscard]] bool has_sends_prepared() const { return prepared_bytes_ > 0; }
  // A SEND Only of this payload, of the BTH given to prepare_sends(), can be built in place.
  [[nodiscard]] bool has_room_for_send(const Buffer& payload) const {
    return has_sends_prepared() && payload.headroom_bytes >= prepared_bytes_ &&
           payload.capacity_bytes - payload.size >= pad_count_for(payload.size) + uint32_t{kIcrcBytes};
  }
  // What build_in_place() builds of that BTH with this PSN and acknowledge request. Precondition: has_room_for_send().
  void build_send_in_place(TxPacket& packet, uint16_t ip_identification, Psn psn, bool ack_request, const Buffer& payload) const;
  // Gives what write() wrote, with the same payload, another identification. Over IPv6 there is none.
  void identify(uint8_t* out, uint32_t udp_payload_bytes, uint16_t ip_identification) const;

 private:
  std::array<uint8_t, 14 + 4 + 40 + 8> template_{};
  uint8_t bytes_ = 0;
  uint8_t ip_offset_ = 0;
  uint16_t port_ = 0;
  uint16_t vlan_ = 0;
  uint16_t ipv4_sum_ = 0;  // ones' complement sum of the constant IPv4 words
  bool ipv6_ = false;
  uint8_t prepared_bytes_ = 0;  // with the BTH of SENDs; 0: there is none
  IcrcAlike send_icrc_;         // valid when there is one
};

// Extension headers that go between BTH and payload; the opcode's traits say which are read.
struct Extensions {
  Reth reth;
  Aeth aeth;
  AtomicEth atomic_eth;
  AtomicAckEth atomic_ack_eth;
  uint32_t immediate = 0;
  verbs::Rkey invalidate;
  Deth deth;
};

// Payload of one packet: a range of a Chain (attached when large, copied when small or in too many parts) or plain memory
// (copied).
struct PayloadCursor {
  const Buffer* buffer = nullptr;  // where the range starts
  uint32_t offset = 0;             // in that buffer
  uint32_t size = 0;               // bytes, may run on into following Buffers
};

// Each fills `packet` (an empty head from TxBatch::add) completely, iCRC included. bth.pad_count is not looked at: it follows
// from the payload. The head must have room for a frame of the path MTU: that it does not is our own mistake, and asserted.
void build_packet(TxPacket& packet, const PathHeader& path, uint16_t ip_identification, const Bth& bth,
                  const Extensions& extensions, const PayloadCursor& payload);
void build_packet(TxPacket& packet, const PathHeader& path, uint16_t ip_identification, const Bth& bth,
                  const Extensions& extensions, Bytes payload);

// A frame in place, around all of `payload`'s valid bytes, in its headroom and tailroom. Once for each payload: what is sent
// again goes by build_packet, since the shell may still refer to the first.
[[nodiscard]] bool has_room_for_frame(const PathHeader& path, Opcode opcode, const Buffer& payload);
// Preconditions: has_room_for_frame(); `packet` is from TxBatch::add_in_place().
void build_in_place(TxPacket& packet, const PathHeader& path, uint16_t ip_identification, const Bth& bth,
                    const Extensions& extensions, const Buffer& payload);

// Bytes of payload from which build_packet attaches instead of copying.
inline constexpr uint32_t kAttachThresholdBytes = 512;

// Packets that follow each other on one path, the middles of a message: alike but for identification, PSN, acknowledge request
// and payload. Their headers are made and summed once. What it builds is what build_packet builds.
class PacketRun {
 public:
  // Some that leave together.
  struct Row {
    uint32_t count = 0;
    uint32_t quiet = UINT32_MAX;     // the one before which so many have left asks for an acknowledgement
    uint16_t ip_identification = 0;  // of the first; the others count on
    Psn psn;                         // the same
  };

  // Preconditions: the opcode has no extension headers; payload_bytes is that of every packet, at least kAttachThresholdBytes and
  // a multiple of 4. `path` outlives the run.
  PacketRun(const PathHeader& path, const Bth& bth, uint32_t payload_bytes);
  // Adds so many packets to the batch, or fewer where it has no room or heads for more, and says how many. The payload is that of
  // all of them.
  [[nodiscard]] uint32_t build(TxBatch& batch, const Row& row, const Buffer* payload, uint32_t offset) const;

 private:
  static constexpr uint32_t kHeaderMax = 14 + 4 + 40 + 8 + Bth::kSize;
  using Header = std::array<uint8_t, kHeaderMax + 2>;
  const PathHeader& path_;
  const Bth bth_;
  const uint32_t payload_bytes_;
  Header header_{};  // identification, checksum and the last word of the BTH are the first packet's
  uint32_t header_bytes_;
  IcrcRun icrc_;
};

}  // namespace cw::wire
