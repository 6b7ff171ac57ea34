#include "control/node/node.h"

namespace cw::node {
Node::Node(const NodeOptions& options, RandomSource& random, verbs::MemoryTable* memory)
    : cm_(options.cm, random), endpoint_(options.endpoint, random, memory), port_stats_(options.ports.size()) {
  stations_.reserve(options.ports.size());
  for (const link::StationOptions& port : options.ports) {
    stations_.emplace_back(port);
  }
}

bool Node::on_frame(Instant now, Buffer* frame, uint16_t port) {
  const auto view = wire::PacketView::parse(frame->bytes());
  if (!view.ok()) [[unlikely]] {
    const bool for_station = view.error() == wire::DropReason::kNotRoce || view.error() == wire::DropReason::kMulticast;
    if (!for_station || !stations_[port].on_frame(now, frame->bytes())) {
      discard(port, view.error());
    }
    return false;
  }
  NodePortStats& stats = port_stats_[port];
  ++stats.roce_in;
  stats.roce_bytes_in += view->frame.size();
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
  if (!stations_[port].owns(view.destination) || view.vlan != stations_[port].options().vlan) {
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
