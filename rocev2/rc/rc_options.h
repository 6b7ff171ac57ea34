// What a reliable connection is created and connected with. RcOptions are ours (configuration); RcConnect is what the connection
// manager agreed upon with the peer. Values of RcConnect came over the wire: to_rtr() checks or clamps every one of them.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/time.h"
#include "rocev2/rc/dcqcn.h"
#include "rocev2/wire/packet_builder.h"
#include "rocev2/wire/psn.h"
#include "verbs/ids.h"
#include "verbs/memory_region.h"

namespace cw::rc {

class ReceivePool;

// What EndpointOptions::ack_delay is for a poll core. A fraction of any acknowledgement timeout, and about what a call waits
// anyway when so much comes in that one is ever waited out.
constexpr Duration kAckDelay = Duration::us(20);

struct RcOptions {
  // Request packets sent and not yet acknowledged, 1..4096. 128 packets of 4096 bytes cover 40 us of 100 Gb/s; more only makes
  // each loss dearer, because a standard peer discards everything behind a gap.
  uint32_t send_window_packets = 128;
  // Work requests posted and not yet completed, 1..65535. An RPC uses one SEND and a READ or WRITE per segment.
  uint32_t send_queue_depth = 256;
  // Longest SEND message accepted, bytes, 0..2^31: the inline threshold. A longer one is a peer's error and ends the connection.
  uint32_t receive_bytes_max = 4096;
  // RNR timer code that we send when no receive is posted (IBA table 45, 1..31; 0 means 655 ms). 12 = 0.64 ms: a receive comes
  // back when a call is handed on, which takes microseconds.
  uint8_t min_rnr_timer = 12;
  // Inbound operations that are executed; anything else is refused with NAK Invalid Request. The server role allows none.
  verbs::RemoteAccess remote_access = verbs::RemoteAccess::kNone;
  // Inbound READs remembered for replay, 0..16; RcConnect may lower it. 0 on the server.
  uint8_t responder_resources_max = 0;
  // Outbound READ requests and atomics in flight, 0..16; RcConnect may lower it.
  uint8_t initiator_depth_max = 16;
  // READ responses that one READ request asks for, a power of two, 1..4096: a longer READ is asked for by several requests, each
  // of which counts as one READ in flight. It bounds what one lost response makes an ordinary peer answer again, and what a probe
  // calls for, and is the step by which the READ window changes: 32 of 4096 bytes are 10 us of 100 Gb/s. A peer that takes so
  // few READs at once that they would not fill read_window_packets is asked for more by each.
  uint32_t read_request_packets = 32;
  // READ responses asked for and not arrived at most, read_request_packets..32768: the longest burst that the peer can send us,
  // which the receive ring should be able to hold. As many are asked for as the way to the peer holds (read_window.h). What does
  // not fit costs the peer a repetition, and the READ little: see the ring test in read_requests_test.cc. 256 of 4096 bytes
  // cover 84 us of 100 Gb/s.
  uint32_t read_window_packets = 256;
  // Whose memory regions the peer may name.
  verbs::ProtectionDomain domain;
  // A PSN further than this from the expected one is neither a duplicate nor a plausible gap, and is ignored. 2^10..2^22 packets.
  // A READ uses one PSN per response packet, so this also bounds the longest READ: 2^20 packets of 256 bytes are 256 MiB.
  uint32_t psn_window_packets = 1u << 20;
  // Keep requests that arrive behind a gap. Towards a peer that offers it too, have only what is missing sent again; any other is
  // told of a gap only when what is missing has not come within a reordering window (responder_hold.h).
  bool selective_recovery = true;
  // Packets are sent ECN-capable, the peer is notified when its packets come marked (CNP), and its notifications limit our rate.
  bool congestion_control = true;
  // Where the limit begins, unless the window allows less, and below which no notification brings it.
  DcqcnLimits rate;
  // An idle connection's peer is asked whether it is there when nothing has come from it for so long, and the connection ends
  // when it does not answer. 0: never; else 10 ms..1 day.
  Duration keepalive;
  // Receives shared with other queue pairs of this core; must outlive the queue pair. nullptr: receives of its own. With a pool,
  // post_receives posts to it.
  ReceivePool* receive_pool = nullptr;
  // Tell the peer in each acknowledgement how many receives are posted (IBA 9.7.7.2), instead of "not used". Never with a pool,
  // whose receives are promised to nobody. Receive counts of a peer are obeyed in any case.
  bool advertise_credits = false;
  // The owner's word, given back by RcQp::user_data.
  uint64_t user_data = 0;
};

struct RcConnect {
  wire::Path path;             // where our packets go; the peer's must come from there
  verbs::Qpn remote_qpn;       // the peer's queue pair
  wire::Psn remote_first_psn;  // first PSN that we expect (ibv rq_psn)
  wire::Psn local_first_psn;   // first PSN that we send (ibv sq_psn); random
  uint16_t pkey = wire::kDefaultPkey;
  uint32_t path_mtu_bytes = 1024;   // payload bytes per packet: 256, 512, 1024, 2048 or 4096
  uint8_t initiator_depth = 1;      // outbound READs that the peer can take
  uint8_t responder_resources = 0;  // inbound READs that the peer will send at most; 0: none
  uint8_t retry_count = 7;          // 0..7 repetitions without progress before the connection fails
  uint8_t rnr_retry = 7;            // 0..6 waits for a receive; 7 = for ever
  // Local ACK timeout exponent: 4.096 us x 2^n, clamped to kAckTimeoutMin..kAckTimeoutMax; 0, "no timeout" in the standard, takes
  // the longest. 14 = 67 ms. Each timeout without progress doubles it, up to eight times.
  uint8_t ack_timeout = 14;
  // Packets behind a gap that the peer keeps and reports, as it has offered; 0: it is an ordinary peer.
  uint16_t peer_hold_packets = 0;
  // The connection has lived in another process (RcQp::connected()): the PSNs are those that follow, and the peer is told which
  // one is expected, as behind a gap, because what it sent meanwhile has got lost.
  bool resumes = false;
  uint32_t msn = 0;  // with `resumes`: messages of the peer completed, 24 bits
};

inline constexpr uint8_t kAckTimeoutMin = 8;                  // 1 ms: above any queueing in a data centre
inline constexpr uint8_t kAckTimeoutMax = 20;                 // 4.3 s
inline constexpr uint32_t kReadsMax = 16;                     // bound of responder_resources and initiator_depth
inline constexpr uint32_t kReadRequestPacketsMax = 1u << 12;  // bound of read_request_packets
inline constexpr uint32_t kReadWindowPacketsMax = 1u << 15;   // bound of read_window_packets
inline constexpr uint32_t kMessageBytesMax = 1u << 31;        // IBA 9.3.3.1

inline constexpr Duration kKeepaliveMin = Duration::ms(10);
inline constexpr Duration kKeepaliveMax = Duration::seconds(86'400);
inline constexpr uint64_t kRateMin = 125'000;          // 1 Mb/s
inline constexpr uint64_t kRateMax = 125'000'000'000;  // 1 Tb/s

[[nodiscard]] constexpr Duration ack_timeout(uint8_t exponent) {
  return Duration::ns(int64_t{4096} << exponent);
}

// Both say which rule is broken by kBadValue (a value outside its range).
[[nodiscard]] Status check(const RcOptions& options);
[[nodiscard]] Status check(const RcConnect& connect);

}  // namespace cw::rc
