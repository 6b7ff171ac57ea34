// Header prediction (V. Jacobson): the next packet most often looks like the last one.
//
// The headers of a SEND Only that the general path has executed are kept, Ethernet to BTH. A frame with the same bytes in all
// places but those that differ from packet to packet would pass every check that its predecessor has passed. What is left to look
// at are those places: both lengths, the IPv4 checksum, the PSN, and the iCRC over everything. So there is no rule here that the
// general path does not have, and nothing has been changed when a frame is given to it because it is another one.
//
// What lies in the middle of a response to a READ has the same headers but for the opcode, where the peer asks and answers from
// one UDP source port. So it is predicted by the same headers.
//
// Only what is common is learned: IPv4, untagged, without padding, not marked by the network. All else never matches.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "rocev2/wire/icrc.h"
#include "rocev2/wire/packet_view.h"
#include "rocev2/wire/psn.h"
#include "verbs/ids.h"

namespace cw::rc {

class HeaderPrediction {
 public:
  // Untagged Ethernet, IPv4 without options, UDP, BTH: where the payload begins.
  static constexpr uint32_t kHeaderBytes = 54;
  // All of what is compared lies in the frame.
  static constexpr uint32_t kFrameBytesMin = kHeaderBytes + 4 + wire::kIcrcBytes;

  // Whether it is worth looking for the queue pair of this frame, and the QPN that it then names, if the frame is what it seems.
  [[nodiscard]] static bool may_match(Bytes frame) { return is_of<wire::Opcode::kRcSendOnly>(frame) || is_middle(frame); }
  [[nodiscard]] static bool is_send(Bytes frame) { return is_of<wire::Opcode::kRcSendOnly>(frame); }
  [[nodiscard]] static bool is_middle(Bytes frame) { return is_of<wire::Opcode::kRcReadResponseMiddle>(frame); }
  // Which of the two. Precondition: may_match().
  [[nodiscard]] static bool is_response(const uint8_t* frame) {
    return frame[kOpcode] == static_cast<uint8_t>(wire::Opcode::kRcReadResponseMiddle);
  }
  [[nodiscard]] static verbs::Qpn destination(Bytes frame) { return verbs::Qpn(load_be24(frame.data() + kDestination)); }

  // The general path has executed this packet: a SEND Only, of whose kind packets may have so much payload.
  void learn(const wire::PacketView& view, uint32_t payload_bytes_max);
  // Nothing matches until something has been learned again.
  void forget() { frame_bytes_max_ = 0; }

  // Something of which there are frames of this length.
  [[nodiscard]] bool has_learned(size_t frame_bytes) const { return frame_bytes <= frame_bytes_max_; }
  [[nodiscard]] bool has_learned() const { return frame_bytes_max_ > 0; }
  // The frame is a whole SEND like the one learned, with this PSN, and intact. Preconditions: is_send(), has_learned() of its
  // length.
  [[nodiscard]] bool matches(Bytes frame, wire::Psn expected) const;
  // The frame is a READ Response Middle with headers like the one learned, with this PSN, and intact. Preconditions: is_middle(),
  // has_learned().
  [[nodiscard]] bool matches_middle(Bytes frame, wire::Psn expected) const;

  // Of a frame that matches.
  [[nodiscard]] static uint16_t source_port(const uint8_t* frame) { return load_be16(frame + kUdp); }
  [[nodiscard]] static bool is_solicited(const uint8_t* frame) { return (frame[kOpcode + 1] & 0x80) != 0; }
  [[nodiscard]] static bool asks_for_acknowledgement(const uint8_t* frame) { return (frame[kPsnWord] & 0x80) != 0; }

 private:
  static constexpr uint32_t kIp = 14;
  static constexpr uint32_t kUdp = kIp + 20;
  static constexpr uint32_t kOpcode = kUdp + 8;
  static constexpr uint32_t kDestination = kOpcode + 5;
  static constexpr uint32_t kPsnWord = kOpcode + 8;
  static constexpr size_t kWords = kHeaderBytes / 8 + 1;
  static_assert(kWords * 8 <= kFrameBytesMin);

  template <wire::Opcode kWhich>
  [[nodiscard]] static bool is_of(Bytes frame) {
    return frame.size() >= kFrameBytesMin && frame[kOpcode] == static_cast<uint8_t>(kWhich);
  }
  template <wire::Opcode kWhich>
  [[nodiscard]] bool matches_as(Bytes frame, wire::Psn expected) const;

  std::array<uint64_t, kWords> headers_{};  // as they lie in memory; zero where packets differ
  wire::IcrcAlike icrc_;
  uint16_t ip_sum_ = 0;           // of the IPv4 header's words where packets do not differ, in our own byte order, folded
  uint16_t frame_bytes_max_ = 0;  // 0: nothing has been learned
};

static_assert(sizeof(HeaderPrediction) == 64);  // a cache line of each queue pair

}  // namespace cw::rc
