// All queue pairs of one core: finds the queue pair of a packet, lets the queue pairs with something to send share the burst, and
// keeps their deadlines. Sans-I/O: the shell feeds parsed packets and drains TxBatches.
//
//   rx burst: parse, verify_icrc, on_packet ...   ->   poll_ready ... (completions to the layers above, which post)
//   ->   on_deadline when next_deadline() <= now   ->   poll_transmit until the batch stays empty   ->   tx burst
//
// Ownership: on_packet takes the frame only when it returns true. Pieces of packets in a TxBatch point into payload that stays
// owned by its queue pair until acknowledged: the shell takes its own references (or copies) before it calls anything else of
// this object. Bounds: everything is allocated at construction from EndpointOptions; a full table or slab is an answer
// (kNoResources, RNR NAK). Thread: one core owns an Endpoint and all its queue pairs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/core_share.h"
#include "base/prefetch.h"
#include "base/random.h"
#include "base/result.h"
#include "base/ring.h"
#include "base/slab.h"
#include "base/table_memory.h"
#include "base/time.h"
#include "rocev2/rc/qp.h"
#include "rocev2/rc/qpn_codec.h"
#include "rocev2/rc/rc_core.h"
#include "rocev2/rc/rc_options.h"
#include "rocev2/rc/rc_stats.h"
#include "rocev2/wire/packet_view.h"
#include "rocev2/wire/tx_batch.h"
#include "verbs/memory_region.h"

namespace cw {

struct EndpointOptions {
  // Queue pairs at once, 1..2^20. Each takes under 1 KiB when idle.
  uint32_t qp_max = 1024;
  // Works posted and not yet polled over all queue pairs. 64 per active queue pair is plenty; about 100 bytes each.
  uint32_t send_work_max = 16384;
  // Messages arriving or waiting to be polled over all queue pairs; none left = RNR NAK. Should cover the sum of posted receives.
  uint32_t receive_work_max = 16384;
  // Queue pairs that answer inbound READs (RcOptions::responder_resources_max > 0). 0 on a server; about 1 KiB each.
  uint32_t read_replay_max = 0;
  // Gaps of all queue pairs that are recovered selectively at once, 8 KiB each (beyond, it is go-back-N); queue pairs that may
  // hold what came behind a gap or a SEND behind a repeated READ, 6 KiB each; and received packets that may be held: well below
  // the shell's pool, because they are its buffers. READ responses that come early are not counted: they take no more than the
  // READs that the owner posted.
  rc::RecoveryLimits recovery{.gaps_max = 64, .holds_max = 64, .held_packets_max = 2048};
  // Queue pairs whose rate is limited at once because of congestion; the notifications of others are counted and ignored.
  uint32_t rate_limits_max = 256;
  // QPNs tell the core.
  CoreShare core;
  // Key of the QPN permutation, from a CSPRNG, the same on all cores of a process. 0 = drawn from the RandomSource.
  uint64_t qpn_key = 0;
  // Entries of the log of what went wrong (rc/transport_log.h), 40 bytes each, allocated at construction.
  uint32_t log_events = 4096;
  // How long the acknowledgement of a SEND may wait for those of the SENDs behind it; 0: it goes with the next poll_transmit. See
  // rc/ack_policy.h.
  Duration ack_delay;
  // Frames are compared with what their queue pair expects before they are parsed (rc/header_prediction.h), and small SENDs get
  // headers that were made ready. Without, every outcome is the same: for tests.
  bool express = true;
  // Request packets that one queue pair may send before the next has its turn.
  uint32_t turn_packets = 16;
};

class Endpoint {
 public:
  using RcQp = rc::RcQp;

  // `random` and `memory` (nullptr on a server: no memory is exposed) must outlive the endpoint.
  Endpoint(const EndpointOptions& options, RandomSource& random, verbs::MemoryTable* memory);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  // A new queue pair in INIT; receives may be posted. kNoResources when qp_max are in use, kBadValue for options out of range.
  // The pointer is valid until destroy_qp.
  [[nodiscard]] Result<RcQp*> create_qp(const rc::RcOptions& options);
  // The same with a number that an endpoint with the same key, core and qp_max has given in another process. kNoResources also
  // when it is no such number, or in use.
  [[nodiscard]] Result<RcQp*> create_qp(const rc::RcOptions& options, verbs::Qpn qpn);
  // INIT -> RTR: requests of the peer are executed from now on. kBadState, or kBadValue when the peer's values are out of range.
  [[nodiscard]] Status to_rtr(RcQp& qp, const rc::RcConnect& connect);
  // RTR -> RTS: work may be posted.
  [[nodiscard]] Status to_rts(RcQp& qp);
  // Both.
  [[nodiscard]] Status connect_qp(RcQp& qp, const rc::RcConnect& connect);
  // Ends the queue pair: nothing is flushed to the owner any more, every work and buffer is given back, timers are cancelled. Its
  // QPN rests until at least qp_max other queue pairs have been created, and the generation in it has come round. A NAK that it
  // owes is still sent, with the next poll_transmit.
  void destroy_qp(RcQp& qp);
  // nullptr when there is none.
  [[nodiscard]] RcQp* find(verbs::Qpn qpn) { return lookup(qpn.value()); }

  // One packet, parsed and with a verified iCRC; `port` is where it came in and `frame` the Buffer that view.frame lies in. True
  // = took ownership of `frame`. UD packets to QP1 are the GsiQp's and are counted here as kNotDatagram.
  [[nodiscard]] bool on_packet(Instant now, const wire::PacketView& view, Buffer* frame, uint16_t port);
  // The queue pair that has predicted this frame, or nullptr: then it is parsed, verified and given to on_packet(). The same
  // comes of both, but for the time that they take. `port`: where it came in.
  [[nodiscard]] RcQp* predicting(Bytes frame, uint16_t port) const {
    if (!rc::HeaderPrediction::may_match(frame)) {
      return nullptr;
    }
    RcQp* qp = lookup(rc::HeaderPrediction::destination(frame).value());
    return qp != nullptr && qp->predicts(frame, port) ? qp : nullptr;
  }
  // Takes the first of `frames`, which `qp` has predicted, and those right behind it that it predicts as well: all came in one
  // burst, by one port. Says how many.
  [[nodiscard]] uint32_t take_predicted(Instant now, RcQp& qp, std::span<Buffer* const> frames) {
    core_.log.set_now(now);
    return qp.take_predicted(now, frames);
  }
  // From the next packet on.
  void set_watermark(BufferWatermark watermark) { core_.watermark = watermark; }
  // Hints for a burst that is about to come, each over the whole of it before the next: where the queue pairs lie, then the queue
  // pairs themselves. Unknown QPNs are ignored.
  void prefetch_entry(verbs::Qpn qpn) const { __builtin_prefetch(&table_[qpn.value() & table_mask_]); }
  void prefetch_qp(verbs::Qpn qpn) const {
    if (const RcQp* qp = lookup(qpn.value())) {
      qp->prefetch();
    }
  }
  // Fills the batch: acknowledgements of all queue pairs first, then requests, round robin. Call again while the batch comes back
  // full.
  void poll_transmit(Instant now, wire::TxBatch& batch);
  // Something could be sent now.
  [[nodiscard]] bool has_work() const { return !core_.ack_due.empty() || !core_.active.empty(); }
  [[nodiscard]] Instant next_deadline() const;
  void on_deadline(Instant now);
  // Nothing more has come: acknowledgements that wait for company (EndpointOptions::ack_delay) go with the next poll_transmit.
  void flush_acknowledgements();
  // A queue pair with completions or a state change for its owner, or nullptr. Each is given once; it comes again after the next
  // news. Poll its completions until there are none.
  [[nodiscard]] RcQp* poll_ready() { return core_.ready.pop_front(); }
  // Calls visit(const RcQp&) for those that poll_ready() is going to give, in that order.
  template <typename Visit>
  void for_each_ready(Visit&& visit) const {
    for (const RcQp* qp = core_.ready.front(); qp != nullptr; qp = core_.ready.next(*qp)) {
      visit(*qp);
    }
  }

  [[nodiscard]] const rc::RcStats& stats() const { return core_.stats; }
  [[nodiscard]] const rc::TransportLog& log() const { return core_.log; }
  [[nodiscard]] uint32_t qp_count() const { return qps_.in_use(); }
  [[nodiscard]] const rc::QpnCodec& qpn_codec() const { return codec_; }
  // Calls visit(RcQp&) for every queue pair, in no particular order: status listings, draining. visit must not create or destroy.
  template <typename Visit>
  void for_each_qp(Visit&& visit) {
    for (const TableEntry& entry : table_) {
      if (entry.qp != nullptr) {
        visit(*entry.qp);
      }
    }
  }

 private:
  // Open addressing by the low bits of the QPN, which are as good as random; at most half full.
  struct TableEntry {
    RcQp* qp = nullptr;
    uint32_t qpn = 0;
  };
  struct Slot {
    uint32_t index = 0;
    uint32_t generation = 0;
  };

  [[nodiscard]] RcQp* lookup(uint32_t qpn) const;
  [[nodiscard]] Result<verbs::Qpn> take_qpn();
  [[nodiscard]] Result<verbs::Qpn> take_qpn(verbs::Qpn wanted);
  template <typename Take>
  [[nodiscard]] Result<RcQp*> create(const rc::RcOptions& options, Take&& take_number);
  // One queue pair's acknowledgement, and one queue pair's turn. False when there was no header buffer.
  [[nodiscard]] bool send_acknowledgement(wire::TxBatch& batch);
  [[nodiscard]] bool send_turn(Instant now, wire::TxBatch& batch);
  // The second half of destroy_qp: slab and QPN.
  void retire(RcQp& qp);
  void insert(uint32_t qpn, RcQp* qp);
  void erase(uint32_t qpn);

  EndpointOptions options_;
  rc::RcCore core_;
  rc::QpnCodec codec_;
  Slab<RcQp> qps_;
  std::vector<TableEntry, TableAllocator<TableEntry>> table_;
  uint32_t table_mask_;
  Ring<Slot> resting_;  // slots that no queue pair uses, longest unused first
};

}  // namespace cw
