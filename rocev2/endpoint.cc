#include "rocev2/endpoint.h"

#include <algorithm>
#include <bit>

namespace cw {
namespace {

constexpr uint32_t kQpMax = 1u << 20;

// Twice as many slots as queue pairs, so that each QPN rests while at least qp_max others are used.
uint32_t slot_bits(uint32_t qp_max) {
  return static_cast<uint32_t>(std::bit_width(qp_max * 2 - 1));
}

// Its buffer is kept; those of all else are free again at once. The beginning of a message is the queue pair's to refuse.
bool would_be_held(const wire::OpcodeTraits& traits) {
  return (traits.kind == wire::OpcodeKind::kSend && !traits.starts_message()) || traits.kind == wire::OpcodeKind::kReadResponse;
}

}  // namespace

Endpoint::Endpoint(const EndpointOptions& options, RandomSource& random, verbs::MemoryTable* memory)
    : options_(options),
      core_(options.qp_max, options.send_work_max, options.receive_work_max, options.read_replay_max, options.recovery,
            options.rate_limits_max, options.log_events, memory),
      codec_(options.qpn_key != 0 ? options.qpn_key : random.next_u64(), options.core.bits(), slot_bits(options.qp_max)),
      qps_(options.qp_max),
      table_(std::bit_ceil(options.qp_max * 2)),
      table_mask_(static_cast<uint32_t>(table_.size()) - 1),
      resting_(options.qp_max * 2) {
  CW_ASSERT(options.qp_max >= 1 && options.qp_max <= kQpMax && options.core.is_valid());
  CW_ASSERT(options.turn_packets > 0);
  core_.ack_delay = options.ack_delay;
  core_.express = options.express;
  for (uint32_t i = 0; i < options.qp_max * 2; ++i) {
    CW_ASSERT(resting_.push(Slot{i, random.next_u32()}));
  }
  core_.held_budget.set_key(random.next_u64());
}

Endpoint::~Endpoint() {
  for (TableEntry& entry : table_) {
    if (entry.qp != nullptr) {
      RcQp* qp = entry.qp;
      entry.qp = nullptr;
      qp->release_everything();
      if (qp->replay() != nullptr) {
        core_.replays.destroy(qp->replay());
      }
      qps_.destroy(qp);
    }
  }
  while (RcQp* parting = core_.ack_due.pop_front()) {
    retire(*parting);
  }
  core_.released.clear();
}

Result<rc::RcQp*> Endpoint::create_qp(const rc::RcOptions& options) {
  return create(options, [this] { return take_qpn(); });
}

Result<rc::RcQp*> Endpoint::create_qp(const rc::RcOptions& options, verbs::Qpn qpn) {
  return create(options, [&] { return take_qpn(qpn); });
}

template <typename Take>
Result<rc::RcQp*> Endpoint::create(const rc::RcOptions& options, Take&& take_number) {
  if (!rc::check(options).ok()) {
    return fail(Error::kBadValue);
  }
  const bool answers_reads = options.responder_resources_max > 0;
  const bool replays_left = core_.replays.in_use() < core_.replays.capacity();
  if (qps_.in_use() == qps_.capacity() || (answers_reads && !replays_left)) {
    return fail(Error::kNoResources);
  }
  const Result<verbs::Qpn> qpn = take_number();
  if (!qpn.ok()) {
    return fail(qpn.error());
  }
  rc::ReadReplay* replay = answers_reads ? core_.replays.create() : nullptr;
  RcQp* qp = qps_.create(core_, *qpn, options, replay);
  CW_ASSERT(qp != nullptr);
  insert(qpn->value(), qp);
  ++core_.stats.qps_created;
  core_.log.note(*qpn, rc::TransportEventKind::kCreated, wire::Psn());
  return qp;
}

Status Endpoint::to_rtr(RcQp& qp, const rc::RcConnect& connect) {
  return qp.to_rtr(connect);
}

Status Endpoint::to_rts(RcQp& qp) {
  return qp.to_rts();
}

Status Endpoint::connect_qp(RcQp& qp, const rc::RcConnect& connect) {
  const Status receiving = qp.to_rtr(connect);
  return receiving.ok() ? qp.to_rts() : receiving;
}

void Endpoint::destroy_qp(RcQp& qp) {
  core_.log.note(qp.local_qpn(), rc::TransportEventKind::kDestroyed, wire::Psn());
  const bool refuses = qp.owes_refusal();
  qp.release_everything();
  erase(qp.local_qpn().value());
  if (refuses) {
    core_.ack_due.push_back(qp);  // parting: nobody finds it any more, and it is gone with its NAK
  } else {
    retire(qp);
  }
}

void Endpoint::retire(RcQp& qp) {
  const rc::QpnParts parts = codec_.decode(qp.local_qpn());
  if (qp.replay() != nullptr) {
    core_.replays.destroy(qp.replay());
  }
  qps_.destroy(&qp);
  CW_ASSERT(resting_.push(Slot{parts.slot, parts.generation + 1}));
  ++core_.stats.qps_destroyed;
}

bool Endpoint::on_packet(Instant now, const wire::PacketView& view, Buffer* frame, uint16_t port) {
  core_.log.set_now(now);
  RcQp* qp = lookup(view.bth.destination.value());
  if (qp == nullptr) {
    const bool datagram = view.traits->kind == wire::OpcodeKind::kDatagram;
    const wire::DropReason reason = datagram ? wire::DropReason::kNotDatagram : wire::DropReason::kUnknownQp;
    ++core_.stats.discards[static_cast<size_t>(reason)];
    return false;
  }
  if (core_.watermark == BufferWatermark::kLast && would_be_held(*view.traits)) [[unlikely]] {
    ++core_.stats.discards[static_cast<size_t>(wire::DropReason::kNoBuffer)];
    return false;
  }
  return qp->on_packet(now, view, frame, port);
}

void Endpoint::poll_transmit(Instant now, wire::TxBatch& batch) {
  core_.log.set_now(now);
  core_.released.clear();
  while (!batch.full() && has_work()) {
    const bool pool_is_empty = !core_.ack_due.empty() ? !send_acknowledgement(batch) : !send_turn(now, batch);
    if (pool_is_empty) {
      core_.stats.no_header_buffer += batch.full() ? 0 : 1;  // the turn comes back with the next burst
      return;
    }
  }
}

bool Endpoint::send_acknowledgement(wire::TxBatch& batch) {
  RcQp* qp = core_.ack_due.pop_front();
  const bool still_due = qp->transmit_acknowledgement(batch);
  if (still_due) {
    core_.ack_due.push_back(*qp);
  } else if (qp->state() == rc::QpState::kReset) {
    retire(*qp);
  }
  return !still_due;
}

bool Endpoint::send_turn(Instant now, wire::TxBatch& batch) {
  RcQp* qp = core_.active.pop_front();
  const uint32_t before = batch.size();
  const bool more = qp->transmit(now, batch, options_.turn_packets);
  if (more) {
    core_.active.push_back(*qp);
  }
  return !more || batch.size() > before;
}

Instant Endpoint::next_deadline() const {
  const RcQp* held = core_.ack_held.front();
  const Instant next = core_.timers.next_deadline();
  return held == nullptr ? next : earlier(held->ack_by(), next);
}

void Endpoint::flush_acknowledgements() {
  while (RcQp* qp = core_.ack_held.front()) {
    qp->flush_acknowledgement();
  }
}

void Endpoint::on_deadline(Instant now) {
  core_.log.set_now(now);
  for (RcQp* qp = core_.ack_held.front(); qp != nullptr && qp->ack_by() <= now; qp = core_.ack_held.front()) {
    qp->flush_acknowledgement();
  }
  while (TimerNode* node = core_.timers.pop_expired(now)) {
    static_cast<RcQp*>(node)->on_deadline(now);
  }
}

rc::RcQp* Endpoint::lookup(uint32_t qpn) const {
  for (uint32_t at = qpn & table_mask_; table_[at].qp != nullptr; at = (at + 1) & table_mask_) {
    if (table_[at].qpn == qpn) {
      return table_[at].qp;
    }
  }
  return nullptr;
}

Result<verbs::Qpn> Endpoint::take_qpn() {
  if (resting_.empty()) {
    return fail(Error::kNoResources);
  }
  const Slot slot = resting_.pop();
  // At most three numbers of the space are reserved, so the third generation at the latest is free.
  for (uint32_t step = 0; step < 4; ++step) {
    const auto qpn = codec_.encode({.core = options_.core.index, .slot = slot.index, .generation = slot.generation + step});
    if (qpn.has_value()) {
      return *qpn;
    }
  }
  CW_ASSERT(resting_.push(Slot{slot.index, slot.generation}));
  return fail(Error::kNoResources);
}

// All slots go once through the ring, but for the one that is taken.
Result<verbs::Qpn> Endpoint::take_qpn(verbs::Qpn wanted) {
  const rc::QpnParts parts = codec_.decode(wanted);
  bool found = false;
  for (uint32_t left = resting_.size(); left > 0; --left) {
    const Slot slot = resting_.pop();
    if (slot.index == parts.slot && parts.core == options_.core.index && codec_.encode(parts) == wanted) {
      found = true;
    } else {
      CW_ASSERT(resting_.push(Slot{slot.index, slot.generation}));
    }
  }
  return found ? Result<verbs::Qpn>(wanted) : fail(Error::kNoResources);
}

void Endpoint::insert(uint32_t qpn, RcQp* qp) {
  uint32_t at = qpn & table_mask_;
  while (table_[at].qp != nullptr) {
    at = (at + 1) & table_mask_;
  }
  table_[at] = TableEntry{qp, qpn};
}

// Closes the hole by moving up what would no longer be found across it.
void Endpoint::erase(uint32_t qpn) {
  uint32_t hole = qpn & table_mask_;
  while (table_[hole].qpn != qpn || table_[hole].qp == nullptr) {
    hole = (hole + 1) & table_mask_;
  }
  for (uint32_t at = (hole + 1) & table_mask_; table_[at].qp != nullptr; at = (at + 1) & table_mask_) {
    const uint32_t home = table_[at].qpn & table_mask_;
    const uint32_t from_home = (at - home) & table_mask_;
    const uint32_t from_hole = (at - hole) & table_mask_;
    if (from_home >= from_hole) {
      table_[hole] = table_[at];
      hole = at;
    }
  }
  table_[hole] = TableEntry{};
}

}  // namespace cw
