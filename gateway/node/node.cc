#include "gateway/node/node.h"

#include <algorithm>
#include <array>

#include "base/prefetch.h"
#include "control/cm/timeout_code.h"

namespace cw::node {
namespace {

// 1 ms to the peer and back. What we wait for an ACK at least is dozens of times that, so that only a peer that sits on its ACKs
// for longer makes us slower to notice that it is gone.
constexpr uint8_t kPathTimeCode = 8;

}  // namespace

NodeOptions without_ports() {
  NodeOptions options;
  options.endpoint.qp_max = 1;
  options.endpoint.send_work_max = 1;
  options.endpoint.receive_work_max = 1;
  options.endpoint.recovery = {.gaps_max = 1, .holds_max = 1, .held_packets_max = 1};
  options.endpoint.rate_limits_max = 1;
  options.endpoint.log_events = 1;
  options.cm.connection_max = 1;
  options.cm.half_open_max = 1;
  options.cm.handshakes_at_once_max = 1;
  options.cm.prefix.prefix_max = 1;
  return options;
}

Node::Node(const NodeOptions& options, RandomSource& random, verbs::MemoryTable* memory)
    : cm_(options.cm, random), endpoint_(options.endpoint, random, memory), port_stats_(options.ports.size()) {
  stations_.reserve(options.ports.size());
  for (const link::StationOptions& port : options.ports) {
    stations_.emplace_back(port);
  }
}

// The queue pairs of a burst, which are fetched some frames ahead of the one that is served. All of them at once would be more
// lines than the processor fetches at a time, and it would wait for them with nothing to do.
class Node::Ahead {
 public:
  Ahead(const Endpoint& endpoint, std::span<Buffer* const> frames)
      : endpoint_(endpoint), count_(endpoint.qp_count() >= kPrefetchFrom ? std::min(frames.size(), kFramesMax) : 0) {
    for (size_t i = 0; i < count_; ++i) {
      const verbs::Qpn qpn = wire::peek_destination(frames[i]->bytes()).value_or(verbs::Qpn());
      endpoint_.prefetch_entry(qpn);
      qpns_[i] = qpn.value();
    }
  }
  // The frame at `at` is served next.
  void reach(size_t at) {
    for (; next_ < std::min(count_, at + kFetchAhead); ++next_) {
      endpoint_.prefetch_qp(verbs::Qpn(qpns_[next_]));
    }
  }

 private:
  static constexpr size_t kFramesMax = 64;
  const Endpoint& endpoint_;
  size_t count_;
  size_t next_ = 0;
  std::array<uint32_t, kFramesMax> qpns_;  // the first count_ of them; the others are not even cleared, which each turn would pay
};

size_t Node::on_frames(Instant now, std::span<Buffer*> frames, uint16_t port) {
  Ahead ahead(endpoint_, frames);
  size_t left = 0;
  for (size_t at = 0; at < frames.size();) {
    ahead.reach(at);
    if (rc::RcQp* qp = endpoint_.predicting(frames[at]->bytes(), port)) {
      const uint64_t before = endpoint_.stats().payload_bytes_in;
      const uint32_t taken = endpoint_.take_predicted(now, *qp, frames.subspan(at));
      const uint64_t payload = endpoint_.stats().payload_bytes_in - before;
      count_received(port, taken, payload + uint64_t{taken} * (rc::HeaderPrediction::kHeaderBytes + wire::kIcrcBytes));
      at += taken;
      continue;
    }
    Buffer* frame = frames[at++];
    if (!take(now, frame, port)) {
      frames[left++] = frame;
    }
  }
  return left;
}

// One that nobody has predicted.
bool Node::take(Instant now, Buffer* frame, uint16_t port) {
  const auto view = wire::PacketView::parse(frame->bytes());
  if (!view.ok()) [[unlikely]] {
    const bool for_station = view.error() == wire::DropReason::kNotRoce || view.error() == wire::DropReason::kMulticast;
    if (!for_station || !stations_[port].on_frame(now, frame->bytes())) {
      discard(port, view.error());
    }
    return false;
  }
  count_received(port, 1, view->frame.size());
  if (!wire::verify_icrc(*view)) [[unlikely]] {
    discard(port, wire::DropReason::kIcrc);
    return false;
  }
  if (view->bth.destination == verbs::Qpn(gsi::kGsiQpn)) [[unlikely]] {
    on_datagram(now, *view, port);
    return false;
  }
  return endpoint_.on_packet(now, *view, frame, port);
}

void Node::on_datagram(Instant now, const wire::PacketView& view, uint16_t port) {
  // A queue pair's packets are held against its path; QP1 has none, so the address has to be ours.
  if (!is_own({.local = view.destination(), .vlan = view.vlan, .port = port})) {
    discard(port, wire::DropReason::kPathMismatch);
    return;
  }
  const auto datagram = gsi_.on_packet(view, port);
  if (!datagram.ok()) {
    return;  // counted there
  }
  const cm::CmAddress from{.local = datagram->reply_path.local,
                           .remote = datagram->reply_path.remote,
                           .remote_mac = datagram->reply_path.remote_mac,
                           .vlan = datagram->reply_path.vlan,
                           .port = port,
                           .remote_qpn = datagram->source_qpn};
  cm_.on_mad(now, from, datagram->mad.first<cm::kMadSize>());
}

wire::Path Node::path_for(const cm::CmAddress& address, verbs::Qpn local, verbs::Qpn remote) const {
  wire::Path path;
  path.local_mac = stations_[address.port].options().mac;
  path.remote_mac = address.remote_mac;
  path.local = address.local;
  path.remote = address.remote;
  path.vlan = address.vlan;
  path.port = address.port;
  // Entropy for ECMP and RSS from the pair of queue pairs, as IBA's annex for RoCEv2 recommends for the flow label.
  const uint64_t pair = uint64_t{local.value()} * remote.value();
  path.udp_source_port = static_cast<uint16_t>(kFirstSourcePort | ((pair ^ (pair >> 20) ^ (pair >> 40)) & (kSourcePorts - 1)));
  return path;
}

rc::RcConnect Node::connect_values(const cm::CmAddress& address, const rc::RcQp& qp, wire::Psn first_receive_psn,
                                   const cm::ConnectRequest& request, const ReadDepths& ours) const {
  rc::RcConnect connect;
  connect.path = path_for(address, qp.local_qpn(), request.remote_qpn);
  connect.remote_qpn = request.remote_qpn;
  connect.remote_first_psn = first_receive_psn;
  connect.local_first_psn = request.first_send_psn;
  connect.pkey = request.pkey;
  connect.path_mtu_bytes = cm::to_bytes(request.path_mtu);
  connect.initiator_depth = std::min(request.peer_responder_resources, ours.initiator);
  connect.responder_resources = std::min(request.peer_initiator_depth, ours.responder);
  connect.retry_count = request.retry_count;
  connect.rnr_retry = request.rnr_retry_count;
  connect.ack_timeout = request.ack_timeout_code;
  return connect;
}

rc::RcConnect Node::connect_values(const cm::CmAddress& address, const rc::RcQp& qp, wire::Psn first_receive_psn,
                                   const cm::ConnectReply& reply, const ReadDepths& ours, uint8_t ack_timeout_code) const {
  rc::RcConnect connect;
  connect.path = path_for(address, qp.local_qpn(), reply.remote_qpn);
  connect.remote_qpn = reply.remote_qpn;
  connect.remote_first_psn = first_receive_psn;
  connect.local_first_psn = reply.first_send_psn;
  connect.initiator_depth = std::min(reply.peer_responder_resources, ours.initiator);
  connect.responder_resources = std::min(reply.peer_initiator_depth, ours.responder);
  connect.rnr_retry = reply.rnr_retry_count;
  connect.ack_timeout = std::max(ack_timeout_code, cm::ack_timeout_towards(kPathTimeCode, reply.target_ack_delay_code));
  return connect;
}

void Node::transmit_datagrams(wire::TxBatch& batch) {
  while (datagram_waits_ || cm_.poll_transmit(datagram_)) {
    datagram_waits_ = true;
    wire::TxPacket* packet = batch.add();
    if (packet == nullptr) {
      return;
    }
    gsi_.build(*packet, path_for(datagram_.to, verbs::Qpn(gsi::kGsiQpn), datagram_.to.remote_qpn), datagram_.to.remote_qpn,
               datagram_.mad);
    datagram_waits_ = false;
  }
}

void Node::poll_transmit(Instant now, wire::TxBatch& batch) {
  for (link::Station& station : stations_) {
    if (station.has_output()) {
      station.poll_transmit(batch);
    }
  }
  const uint32_t first_roce = batch.size();
  transmit_datagrams(batch);
  endpoint_.poll_transmit(now, batch);
  count_sent(batch.packets().subspan(first_roce));
}

// Run by run of one port: sums in memory would be a chain through every packet.
void Node::count_sent(std::span<const wire::TxPacket> packets) {
  for (size_t i = 0; i < packets.size();) {
    const uint16_t port = packets[i].port;
    uint64_t count = 0;
    uint64_t bytes = 0;
    for (; i < packets.size() && packets[i].port == port; ++i) {
      ++count;
      bytes += packets[i].frame_bytes();
    }
    port_stats_[port].roce_out += count;
    port_stats_[port].roce_bytes_out += bytes;
  }
}

void Node::on_deadline(Instant now) {
  cm_.on_deadline(now);
  endpoint_.on_deadline(now);
}

}  // namespace cw::node
