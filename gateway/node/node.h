// The protocol stack of one core, without I/O: stations, QP1 with the connection manager, and all queue pairs.
//
//   frame -> PacketView -> not RoCEv2: station | iCRC | QP1: connection manager | queue pair
//
// The shell (a DPDK poll core, the simulation, a test) feeds frames and a time, drains TxBatches and asks for the next deadline.
// What sits on top (Gateway, Client) talks to cm() and endpoint() and is told nothing: it polls.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/random.h"
#include "base/time.h"
#include "control/cm/connection_manager.h"
#include "rocev2/endpoint.h"
#include "rocev2/gsi/gsi_qp.h"
#include "rocev2/link/station.h"
#include "rocev2/wire/tx_batch.h"

namespace cw::node {

struct NodeOptions {
  std::vector<link::StationOptions> ports;  // station i is port i
  EndpointOptions endpoint;
  cm::CmOptions cm;
};

// Of a node that nothing reaches: its tables are as small as they can be.
[[nodiscard]] NodeOptions without_ports();

// RoCEv2 as one port sees it.
struct NodePortStats {
  uint64_t roce_in = 0;        // frames to UDP 4791, discarded ones included
  uint64_t roce_bytes_in = 0;  // of whole frames
  uint64_t roce_out = 0;
  uint64_t roce_bytes_out = 0;
  // Frames that reached neither queue pair nor QP1 nor station, each under one reason.
  std::array<uint64_t, wire::kDropReasonCount> discards{};
};

// IANA's dynamic range, where every RoCEv2 peer seen puts its UDP source port.
inline constexpr uint16_t kFirstSourcePort = 0xc000;
inline constexpr uint16_t kSourcePorts = 0x4000;

// READs and atomics that we send, and answer, at a time.
struct ReadDepths {
  uint8_t initiator = 0;
  uint8_t responder = 0;
};

class Node {
 public:
  // `random` and `memory` (nullptr on a server) must outlive the node.
  Node(const NodeOptions& options, RandomSource& random, verbs::MemoryTable* memory);

  // Takes frames, each of which spans its Buffer, that came in one burst by `port`. Those that the node does not keep are still
  // the caller's: they stand at the front of `frames` afterwards, and it says how many.
  [[nodiscard]] size_t on_frames(Instant now, std::span<Buffer*> frames, uint16_t port);
  // One. True = the node keeps the Buffer.
  [[nodiscard]] bool on_frame(Instant now, Buffer* frame, uint16_t port) {
    return on_frames(now, std::span(&frame, 1), port) == 0;
  }
  // Everything that is to be sent, until the batch is full. Packets may point into payload of queue pairs: send before the
  // next call.
  void poll_transmit(Instant now, wire::TxBatch& batch);
  [[nodiscard]] Instant next_deadline() const { return earlier(endpoint_.next_deadline(), cm_.next_deadline()); }
  // Cheap when nothing is due: call once per turn.
  void on_deadline(Instant now);

  [[nodiscard]] cm::ConnectionManager& cm() { return cm_; }
  [[nodiscard]] Endpoint& endpoint() { return endpoint_; }
  [[nodiscard]] link::Station& station(uint16_t port) { return stations_[port]; }
  [[nodiscard]] uint16_t port_count() const { return static_cast<uint16_t>(stations_.size()); }
  // The address's own end is one of this node's. Precondition: the port is there.
  [[nodiscard]] bool is_own(const cm::CmAddress& address) const {
    const link::Station& station = stations_[address.port];
    return station.owns(address.local) && station.options().vlan == address.vlan;
  }
  // The path of a queue pair for a connection whose CM messages went over `address`.
  [[nodiscard]] wire::Path path_for(const cm::CmAddress& address, verbs::Qpn local, verbs::Qpn remote) const;
  // What `qp` is connected with as the peer's REQ asks; `ours` bounds the depths. `first_receive_psn` goes into our REP.
  [[nodiscard]] rc::RcConnect connect_values(const cm::CmAddress& address, const rc::RcQp& qp, wire::Psn first_receive_psn,
                                             const cm::ConnectRequest& request, const ReadDepths& ours) const;
  // Likewise as its REP answers. What a REP does not repeat of our REQ stays at its default: P_Key, path MTU, retry count.
  // The ACK timeout covers `ack_timeout_code` of our own, and the Target ACK Delay where that is longer.
  [[nodiscard]] rc::RcConnect connect_values(const cm::CmAddress& address, const rc::RcQp& qp, wire::Psn first_receive_psn,
                                             const cm::ConnectReply& reply, const ReadDepths& ours,
                                             uint8_t ack_timeout_code) const;

  [[nodiscard]] const NodePortStats& port_stats(uint16_t port) const { return port_stats_[port]; }
  [[nodiscard]] const gsi::GsiStats& gsi_stats() const { return gsi_.stats(); }

 private:
  class Ahead;
  void on_datagram(Instant now, const wire::PacketView& view, uint16_t port);
  void transmit_datagrams(wire::TxBatch& batch);
  void count_received(uint16_t port, uint64_t frames, uint64_t bytes) {
    port_stats_[port].roce_in += frames;
    port_stats_[port].roce_bytes_in += bytes;
  }
  [[nodiscard]] bool take(Instant now, Buffer* frame, uint16_t port);
  void count_sent(std::span<const wire::TxPacket> packets);
  void discard(uint16_t port, wire::DropReason reason) { ++port_stats_[port].discards[static_cast<size_t>(reason)]; }

  std::vector<link::Station> stations_;
  gsi::GsiQp gsi_;
  cm::ConnectionManager cm_;
  Endpoint endpoint_;
  std::vector<NodePortStats> port_stats_;
  cm::CmDatagram datagram_;  // the one that did not fit the last batch
  bool datagram_waits_ = false;
};

}  // namespace cw::node
