#include "dataplane/dpdk/port_queue.h"

#include <rte_ethdev.h>

#include <algorithm>
#include <cstring>

#include "base/assert.h"

namespace cw::dataplane {

PortQueue::PortQueue(Port& port, uint16_t index, uint32_t core, MbufPools& pools, CoreExchange* exchange)
    : port_(port),
      index_(index),
      core_(core),
      pools_(pools),
      exchange_(exchange),
      lease_(port.lease(core)),
      exception_(port.exception()),
      sends_one_segment_(port.sends_one_segment()),
      gives_mbufs_away_(port.gives_mbufs_away()),
      was_here_(lease_.is_cores()) {
  CW_ASSERT(core < port.queues() || exchange != nullptr);
}

PortQueue::~PortQueue() {
  rte_pktmbuf_free_bulk(pending_.data(), pending_count_);
}

uint16_t PortQueue::rx(Instant now, std::array<rte_mbuf*, kBurst>& mbufs) {
  if (!lease_.use() || !receives()) [[unlikely]] {
    return 0;
  }
  const uint16_t received = rte_eth_rx_burst(port_.id(), static_cast<uint16_t>(core_), mbufs.data(), kBurst);
  uint16_t kept = 0;
  for (uint16_t i = 0; i < received; ++i) {
    rte_mbuf* mbuf = mbufs[i];
    stats_.rx_bytes += rte_pktmbuf_pkt_len(mbuf);
    // Some NICs use a buffer up to a whole number of KiB, or a power of two, and continue in the next one: at an MTU of 4500,
    // ixgbe, igb and e1000e put the last bytes of a full RoCE packet there.
    if (mbuf->nb_segs != 1 && rte_pktmbuf_linearize(mbuf) != 0) [[unlikely]] {
      ++stats_.rx_oversize;
      rte_pktmbuf_free(mbuf);
      continue;
    }
    mbufs[kept++] = mbuf;
  }
  stats_.rx_packets += received;
  if (exception_ != nullptr) [[unlikely]] {
    kept = exception_->divert({mbufs.data(), kept}, stats_.to_kernel, stats_.to_kernel_dropped);
  }
  return filter_ == nullptr ? kept : filter_received(now, mbufs, kept);
}

uint16_t PortQueue::filter_received(Instant now, std::array<rte_mbuf*, kBurst>& mbufs, uint16_t count) {
  for (uint16_t i = 0; i < count; ++i) {
    filter_->received(now, mbufs[i]);
  }
  uint16_t out = 0;
  while (out < kBurst && (mbufs[out] = filter_->poll_received(now)) != nullptr) {
    ++out;
  }
  return out;
}

namespace {

// The mbuf is a frame of one segment, which lies in its storage.
void set_frame(rte_mbuf* mbuf, const uint8_t* data, uint32_t bytes) {
  mbuf->data_off = static_cast<uint16_t>(data - static_cast<const uint8_t*>(mbuf->buf_addr));
  mbuf->data_len = static_cast<uint16_t>(bytes);
  mbuf->pkt_len = bytes;
  mbuf->nb_segs = 1;
  mbuf->next = nullptr;
  mbuf->ol_flags &= RTE_MBUF_F_EXTERNAL;  // of one that came: some devices have buffers of their own behind it
}

}  // namespace

rte_mbuf* PortQueue::assemble(const wire::TxPacket& packet) {
  if (packet.is_in_place()) {
    return refer(packet);
  }
  rte_mbuf* head = mbuf_of(packet.head);
  set_frame(head, packet.head->data, packet.head->size);
  if (packet.piece_count == 0) {
    return head;
  }
  if (sends_one_segment_) [[unlikely]] {
    return copy_pieces(packet, head);
  }
  rte_mbuf* last = head;
  auto link = [&](rte_mbuf* segment) {
    last->next = segment;
    last = segment;
    ++head->nb_segs;
    head->pkt_len += segment->data_len;
  };
  for (uint32_t i = 0; i < packet.piece_count; ++i) {
    const wire::TxPiece& piece = packet.pieces[i];
    rte_mbuf* segment = pools_.attach(*piece.owner, piece.data, piece.size);
    if (segment == nullptr) [[unlikely]] {
      ++stats_.tx_no_view;
      rte_pktmbuf_free(head);
      return nullptr;
    }
    link(segment);
  }
  rte_mbuf* trailer = pools_.allocate_small();
  if (trailer == nullptr) [[unlikely]] {
    ++stats_.tx_no_view;
    rte_pktmbuf_free(head);
    return nullptr;
  }
  std::memcpy(rte_pktmbuf_mtod(trailer, uint8_t*), packet.trailer.data(), packet.trailer_bytes);
  trailer->data_len = static_cast<uint16_t>(packet.trailer_bytes);
  trailer->pkt_len = packet.trailer_bytes;
  link(trailer);
  return head;
}

// The device sends from the message's own mbuf, which neither it nor the queue pair frees before the other has let go. It may be
// one that came, with a reply in place of its call: no byte outside the frame that came has been written. A device that gives its
// mbufs to a reader in this process gets a copy: the reader would take the message for its own.
rte_mbuf* PortQueue::refer(const wire::TxPacket& packet) {
  const wire::TxPiece& frame = packet.pieces[0];
  if (gives_mbufs_away_) [[unlikely]] {
    Buffer* copy = pools_.packets().allocate_one();
    if (copy == nullptr || copy->append({frame.data, frame.size}) != frame.size) {
      ++stats_.tx_no_view;
      release_buffers(copy);
      return nullptr;
    }
    set_frame(mbuf_of(copy), copy->data, copy->size);
    return mbuf_of(copy);
  }
  rte_mbuf* mbuf = mbuf_of(frame.owner);
  CW_DASSERT(!RTE_MBUF_CLONED(mbuf));
  rte_mbuf_refcnt_update(mbuf, 1);
  set_frame(mbuf, frame.data, frame.size);
  return mbuf;
}

// Heads are as long as a frame of the port's MTU.
rte_mbuf* PortQueue::copy_pieces(const wire::TxPacket& packet, rte_mbuf* head) {
  const auto append = [head](const uint8_t* raw, uint32_t bytes) {
    char* place = rte_pktmbuf_append(head, static_cast<uint16_t>(bytes));
    if (place != nullptr) {
      std::memcpy(place, raw, bytes);
    }
    return place != nullptr;
  };
  bool fits = true;
  for (uint32_t i = 0; i < packet.piece_count; ++i) {
    fits = fits && append(packet.pieces[i].data, packet.pieces[i].size);
  }
  if (!fits || !append(packet.trailer.data(), packet.trailer_bytes)) [[unlikely]] {
    ++stats_.tx_no_view;
    rte_pktmbuf_free(head);
    return nullptr;
  }
  return head;
}

void PortQueue::tx(Instant now, std::span<wire::TxPacket> packets) {
  for (const wire::TxPacket& packet : packets) {
    rte_mbuf* mbuf = assemble(packet);
    if (mbuf == nullptr) {
      continue;
    }
    if (filter_ != nullptr) [[unlikely]] {
      filter_->sending(now, mbuf);
    } else {
      enqueue(now, mbuf);
    }
  }
  flush(now);
}

void PortQueue::enqueue(Instant now, rte_mbuf* mbuf) {
  if (pending_count_ == kPendingMax) {
    send_pending(now);
  }
  carry(mbuf);
}

void PortQueue::flush(Instant now) {
  if (filter_ != nullptr) [[unlikely]] {
    while (rte_mbuf* mbuf = filter_->poll_sending(now)) {
      enqueue(now, mbuf);
    }
  }
  send_pending(now);
  if (exception_ != nullptr && core_ == 0) [[unlikely]] {
    take_from_kernel(now);
  }
}

// A device that is busy with RoCE packets leaves the kernel's where they are.
void PortQueue::take_from_kernel(Instant now) {
  constexpr uint32_t kAtOnce = 16;
  if (is_congested()) {
    return;
  }
  std::array<rte_mbuf*, kAtOnce> mbufs;
  const uint32_t count = exception_->from_kernel(mbufs);
  if (count == 0) {
    return;
  }
  const uint64_t dropped_before = stats_.tx_dropped;
  for (uint32_t i = 0; i < count; ++i) {
    carry(mbufs[i]);
  }
  stats_.from_kernel += count;
  send_pending(now);
  stats_.from_kernel_dropped += stats_.tx_dropped - dropped_before;
}

void PortQueue::send_pending(Instant now) {
  if (pending_count_ == 0) {
    return;
  }
  if (!lease_.use()) [[unlikely]] {
    drop_pending();
    return;
  }
  const uint16_t sent = send({pending_.data(), pending_count_});
  std::copy(pending_.begin() + sent, pending_.begin() + pending_count_, pending_.begin());
  pending_count_ -= sent;
  if (sent > 0) {
    stuck_since_ = Instant::never();
  } else if (stuck_since_.is_never()) {
    stuck_since_ = now;
  } else if (now - stuck_since_ > kStuckMax) {
    drop_pending();
  }
}

uint16_t PortQueue::send(std::span<rte_mbuf*> mbufs) {
  const uint16_t count = static_cast<uint16_t>(mbufs.size());
  if (!receives()) {
    uint16_t given = 0;
    while (given < count && exchange_->give_to_send(core_, core_ % port_.queues(), {mbufs[given], index_, 0})) {
      ++given;
    }
    return given;
  }
  std::array<uint32_t, kPendingMax> sizes;
  for (uint16_t i = 0; i < count; ++i) {
    sizes[i] = rte_pktmbuf_pkt_len(mbufs[i]);
  }
  const uint16_t sent = rte_eth_tx_burst(port_.id(), static_cast<uint16_t>(core_), mbufs.data(), count);
  for (uint16_t i = 0; i < sent; ++i) {
    stats_.tx_bytes += sizes[i];
  }
  stats_.tx_packets += sent;
  return sent;
}

void PortQueue::carry(rte_mbuf* mbuf) {
  if (pending_count_ == kPendingMax) [[unlikely]] {
    ++stats_.tx_dropped;
    rte_pktmbuf_free(mbuf);
    return;
  }
  pending_[pending_count_++] = mbuf;
}

void PortQueue::drop_pending() {
  stats_.tx_dropped += pending_count_;
  rte_pktmbuf_free_bulk(pending_.data(), pending_count_);
  pending_count_ = 0;
}

}  // namespace cw::dataplane
