#include "rocev2/rc/requester.h"

#include <algorithm>
#include <utility>

#include "rocev2/rc/retransmit.h"
#include "rocev2/rc/whole_sends.h"

namespace cw::rc {
namespace {

using wire::Opcode;

constexpr wire::Extensions kNoExtensions{};

// By first and last: middle, last, first, only.
constexpr uint32_t place_index(bool first, bool last) {
  return (first ? 2u : 0u) + (last ? 1u : 0u);
}

Opcode request_opcode(const Work& work, bool first, bool last) {
  static constexpr Opcode kSend[] = {Opcode::kRcSendMiddle, Opcode::kRcSendLast, Opcode::kRcSendFirst, Opcode::kRcSendOnly};
  static constexpr Opcode kWrite[] = {Opcode::kRcWriteMiddle, Opcode::kRcWriteLast, Opcode::kRcWriteFirst, Opcode::kRcWriteOnly};
  if (work.kind == WorkKind::kWrite) {
    if (last && work.has_immediate) {
      return first ? Opcode::kRcWriteOnlyImmediate : Opcode::kRcWriteLastImmediate;
    }
    return kWrite[place_index(first, last)];
  }
  if (last && work.has_immediate) {
    return first ? Opcode::kRcSendOnlyImmediate : Opcode::kRcSendLastImmediate;
  }
  if (last && work.has_invalidate) {
    return first ? Opcode::kRcSendOnlyInvalidate : Opcode::kRcSendLastInvalidate;
  }
  return kSend[place_index(first, last)];
}

// Bytes of payload in the packet under the cursor.
uint32_t payload_bytes_at(const QpContext& context, const SendCursor& cursor) {
  return std::min<uint32_t>(context.mtu_bytes, cursor.work->length - cursor.packet * context.mtu_bytes);
}

// PSNs that the packet under the cursor takes: one, but a READ request those of the responses that it asks for, up to the end of
// what is asked for together. So a repetition that begins within ends where the first transmission did, as the peer, which counts
// messages, has to see it.
uint32_t psns_at(const SendState& state, const SendCursor& cursor) {
  return cursor.work->kind != WorkKind::kRead
             ? 1
             : cursor.work->request_end(cursor.packet, state.read_window.request_packets()) - cursor.packet;
}

// Asks for `responses` responses of the READ, from number `index` on.
void build_read_request(QpContext& context, const Work& work, uint32_t index, uint32_t responses, wire::Psn psn,
                        wire::TxPacket& packet) {
  const uint32_t bytes_in = index * context.mtu_bytes;
  const uint32_t bytes = index + responses == work.packets ? work.length - bytes_in : responses * context.mtu_bytes;
  wire::Bth bth;
  bth.opcode = Opcode::kRcReadRequest;
  bth.pkey = context.pkey;
  bth.destination = context.remote;
  bth.ack_request = true;
  bth.psn = psn;
  wire::Extensions extensions;
  extensions.reth = wire::Reth{work.remote_address + bytes_in, work.rkey, bytes};
  wire::build_packet(packet, context.header, context.ip_identification++, bth, extensions, Bytes{});
}

void build_atomic_request(QpContext& context, const Work& work, wire::Psn psn, wire::TxPacket& packet) {
  wire::Bth bth;
  bth.opcode = work.kind == WorkKind::kCompareSwap ? Opcode::kRcCompareSwap : Opcode::kRcFetchAdd;
  bth.pkey = context.pkey;
  bth.destination = context.remote;
  bth.ack_request = true;
  bth.psn = psn;
  wire::Extensions extensions;
  extensions.atomic_eth = wire::AtomicEth{work.remote_address, work.rkey, work.operand, work.compare};
  wire::build_packet(packet, context.header, context.ip_identification++, bth, extensions, Bytes{});
}

void count_payload(QpContext& context, uint64_t bytes) {
  context.core.stats.payload_bytes_out += bytes;
  context.counters.payload_bytes_out += bytes;
}

void count_packets(QpContext& context, uint32_t packets, uint32_t again) {
  context.core.stats.packets_out += packets;
  context.counters.packets_out += packets;
  if (again > 0) {
    context.core.stats.packets_retransmitted += again;
    context.counters.packets_retransmitted += again;
  }
}

void count_packet(QpContext& context, bool again) {
  count_packets(context, 1, again ? 1 : 0);
}

void build_request(QpContext& context, const SendState& state, const SendCursor& cursor, wire::Psn psn, bool ack_request,
                   wire::TxPacket& packet) {
  const Work& work = *cursor.work;
  if (work.awaits_response()) {
    if (work.kind == WorkKind::kRead) {
      build_read_request(context, work, cursor.packet, psns_at(state, cursor), psn, packet);
    } else {
      build_atomic_request(context, work, psn, packet);
    }
    return;
  }
  const bool last = cursor.packet + 1 == work.packets;
  wire::Bth bth;
  bth.opcode = request_opcode(work, cursor.packet == 0, last);
  bth.solicited = last && work.solicited;
  bth.pkey = context.pkey;
  bth.destination = context.remote;
  bth.ack_request = ack_request;
  bth.psn = psn;
  const uint32_t bytes = payload_bytes_at(context, cursor);
  const auto build = [&](const wire::Extensions& extensions) {
    if (packet.is_in_place()) {
      wire::build_in_place(packet, context.header, context.ip_identification++, bth, extensions, *work.payload.head());
    } else {
      const wire::PayloadCursor payload{bytes > 0 ? cursor.buffer : nullptr, cursor.offset, bytes};
      wire::build_packet(packet, context.header, context.ip_identification++, bth, extensions, payload);
    }
  };
  if (wire::traits_of(bth.opcode).extension_bytes == 0) {
    build(kNoExtensions);
  } else {
    wire::Extensions extensions;
    extensions.reth = wire::Reth{work.remote_address, work.rkey, work.length};
    extensions.immediate = work.immediate;
    extensions.invalidate = work.rkey;
    build(extensions);
  }
  count_payload(context, bytes);
}

// The packet has been built: moves cursor, PSNs and what is outstanding over it.
void step_over(const QpContext& context, SendState& state) {
  const Work& work = *state.cursor.work;
  const uint32_t psns = psns_at(state, state.cursor);
  state.window.on_sent(psns, work.awaits_response());
  if (state.cursor.packet + psns == work.packets) {
    state.cursor = SendCursor::start_of(work.next);
  } else {
    state.cursor.step(psns, context.mtu_bytes);
  }
}

// The next packet is a message of its own, leaves for the first time, and its frame has room around it.
bool goes_in_place(const QpContext& context, const SendState& state) {
  const Work& work = *state.cursor.work;
  return work.packets == 1 && !work.awaits_response() && work.payload.buffer_count() == 1 &&
         state.window.next_psn() == state.window.limit_psn() &&
         wire::has_room_for_frame(context.header, request_opcode(work, true, true), *work.payload.head());
}

// So many packets may leave before one has to ask for an acknowledgement, as far as their number is concerned.
uint32_t packets_before_ack_request(const QpContext& context, const SendState& state) {
  // With a limited rate a quarter of the window may take longer than the patience with which an acknowledgement is awaited.
  constexpr uint32_t kSlowPackets = 4;
  const uint32_t packets_max = state.window.packets_max();
  const uint32_t row = context.rate == nullptr ? std::max(1u, packets_max / 4u) : kSlowPackets;
  const uint32_t since = state.since_ack_request + 1u;
  const uint32_t missing = state.packets_missing() + 1;
  return std::min(row - std::min(row, since), packets_max - std::min(packets_max, missing));
}

bool wants_acknowledgement(const QpContext& context, const SendState& state) {
  const Work& work = *state.cursor.work;
  return work.awaits_response() || state.recovery.timed_out() || state.cursor.packet + 1 == work.packets ||
         packets_before_ack_request(context, state) == 0;
}

void note_sent(SendState& state, Instant now, wire::Psn psn, bool is_read, bool ack_request, bool again) {
  state.since_ack_request = ack_request ? uint16_t{0} : static_cast<uint16_t>(state.since_ack_request + 1);
  if (ack_request && !again && !state.rtt.is_sampling()) {
    state.rtt.start_sample(psn, now, is_read, state.window.read_psns() == 0);
  }
}

void send_next(QpContext& context, SendState& state, Instant now, wire::TxPacket& packet) {
  const wire::Psn psn = state.window.next_psn();
  const bool again = psn != state.window.limit_psn();
  if (!state.cursor.work->begun) {
    state.cursor.work->begun = true;
    state.cursor.work->first_psn = psn;
  }
  if (!state.window.awaiting()) {
    state.progress_at = now;
  }
  const bool ack_request = wants_acknowledgement(context, state);
  build_request(context, state, state.cursor, psn, ack_request, packet);
  count_packet(context, again);
  if (again && state.cursor.work->kind == WorkKind::kRead) [[unlikely]] {
    note_read_repeated(context, state, now, psn, state.is_within_request(state.cursor.packet));
  }
  if (state.board != nullptr) {
    state.board->on_sent(psn, !state.cursor.work->awaits_response());
  }
  note_sent(state, now, psn, state.cursor.work->kind == WorkKind::kRead, ack_request, again);
  step_over(context, state);
}

// A whole SEND with nothing but payload, whose frame can be built around it.
bool is_plain(const QpContext& context, const Work& work) {
  return work.plain && work.packets == 1 && work.payload.buffer_count() == 1 &&
         context.header.has_room_for_send(*work.payload.head());
}

// While all is ordinary so many SENDs that are is_plain() may leave: send_stall() would let them go, and goes_in_place() too.
uint32_t room_for_plain_ones(const QpContext& context, const SendState& state) {
  const uint32_t packets = state.window.packets_in_flight();
  const uint32_t psns = state.window.psns_in_flight();
  return std::min(state.window.packets_max() - std::min<uint32_t>(state.window.packets_max(), packets),
                  context.psn_window_packets - std::min(context.psn_window_packets, psns));
}

// So many have been built, with PSNs from the next one on.
void note_plain_ones_sent(QpContext& context, SendState& state, Instant now, uint32_t packets, uint64_t bytes) {
  count_payload(context, bytes);
  count_packets(context, packets, 0);
  if (!state.window.awaiting()) {
    state.progress_at = now;
  }
  note_sent(state, now, state.window.next_psn(), false, true, false);
  state.window.on_sent(packets, false);
}

// Some of the next `wanted` packets, when they are plain: as many as there are in a row. What send_next() does for each, with
// what they share done once.
uint32_t send_plain_ones(QpContext& context, SendState& state, Instant now, wire::TxBatch& batch, uint32_t wanted) {
  Work* work = state.cursor.work;
  if (work == nullptr || !context.header.has_sends_prepared() || !is_plain(context, *work)) {
    return 0;
  }
  const uint32_t most = state.is_ordinary() ? std::min({room_for_plain_ones(context, state), wanted, batch.room()}) : 0;
  if (most == 0) {
    return 0;
  }
  wire::Psn psn = state.window.next_psn();
  uint32_t sent = 0;
  uint64_t bytes = 0;
  do {
    work->begun = true;
    work->first_psn = psn;
    context.header.build_send_in_place(*batch.add_in_place(), context.ip_identification++, psn, true, *work->payload.head());
    bytes += work->length;
    psn = psn.next();
    ++sent;
    work = work->next;
  } while (sent < most && work != nullptr && is_plain(context, *work));
  note_plain_ones_sent(context, state, now, sent, bytes);
  state.cursor = SendCursor::start_of(work);
  return sent;
}

// The same of SENDs without a Work, which are all that is to be sent. True when there are more that may leave.
// Precondition: state.is_ordinary().
bool send_whole_ones(QpContext& context, SendState& state, Instant now, wire::TxBatch& batch, uint32_t wanted) {
  const uint32_t unsent = state.whole_unsent;
  if (unsent == 0) {
    return false;
  }
  const uint32_t room = room_for_plain_ones(context, state);
  const uint32_t count = std::min({unsent, room, wanted, batch.room()});
  if (count > 0) [[likely]] {
    const wire::Psn first = state.window.next_psn();
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; ++i) {
      const Buffer& payload = *std::exchange(state.cursor.buffer, state.cursor.buffer->next);
      context.header.build_send_in_place(*batch.add_in_place(), context.ip_identification++, first.plus(i), true, payload);
      bytes += payload.size;
    }
    note_plain_ones_sent(context, state, now, count, bytes);
    state.whole_unsent = static_cast<uint16_t>(unsent - count);
  }
  const bool is_stalled = count < unsent && count == room;
  context.core.stats.window_stalls += is_stalled && count < wanted ? 1 : 0;
  return count < unsent && !is_stalled;
}

// What is not ordinary takes Works, which are made when it is to be sent.
[[gnu::noinline]] SendStall stall_of_whole_ones(const QpContext& context, const SendState& state) {
  return state.is_ordinary() && room_for_plain_ones(context, state) == 0 ? SendStall::kWindow : SendStall::kNone;
}

// Middle packets of a SEND or WRITE that may leave now, one after the other; not known to be fewer than `wanted`. 0 where
// something about them may differ from one to the next: the general way is for them.
uint32_t middles_to_send(const QpContext& context, const SendState& state, uint32_t wanted) {
  const Work& work = *state.cursor.work;
  const bool plain = !work.awaits_response() && state.cursor.packet > 0 && state.board == nullptr &&
                     !state.recovery.timed_out() && context.mtu_bytes >= wire::kAttachThresholdBytes;
  if (!plain) {
    return 0;
  }
  const uint32_t of_work = work.packets - 1 - state.cursor.packet;
  const uint32_t span = state.window.psns_in_flight();
  const uint32_t packets_max = state.window.packets_max();
  const uint32_t in_window = packets_max - std::min(packets_max, state.window.packets_in_flight());
  return std::min({wanted, of_work, in_window, context.psn_window_packets - std::min(context.psn_window_packets, span)});
}

// Builds `count` middles, or as many as there are heads for; the one before which `quiet` have left asks for an acknowledgement.
// Moves the cursor over them and counts them, but tells the window nothing.
uint32_t build_middles(QpContext& context, SendState& state, const wire::PacketRun& run, wire::TxBatch& batch, uint32_t count,
                       uint32_t quiet) {
  const wire::Psn first = state.window.next_psn();
  const wire::PacketRun::Row row{.count = count, .quiet = quiet, .ip_identification = context.ip_identification, .psn = first};
  const uint32_t built = run.build(batch, row, state.cursor.buffer, state.cursor.offset);
  context.ip_identification = static_cast<uint16_t>(context.ip_identification + built);
  state.cursor.step(built, context.mtu_bytes);
  const uint32_t again = std::min(built, static_cast<uint32_t>(first.distance_to(state.window.limit_psn())));
  count_packets(context, built, again);
  count_payload(context, uint64_t{built} * context.mtu_bytes);
  return built;
}

// What send_next() notes of each, for so many that have been built; only the last may ask for an acknowledgement.
// Precondition: packets > 0.
void note_middles_sent(SendState& state, Instant now, uint32_t packets, bool ack_request) {
  const wire::Psn last = state.window.next_psn().plus(packets - 1);
  if (!state.window.awaiting()) {
    state.progress_at = now;
  }
  state.since_ack_request = static_cast<uint16_t>(state.since_ack_request + packets - 1);
  note_sent(state, now, last, false, ack_request, last.distance_to(state.window.limit_psn()) > 0);
  state.window.on_sent(packets, false);
}

// Some of the next `wanted` packets, when they are middles: as many as there are in a row. What send_next() does for each, with
// what they share done once.
uint32_t send_middles(QpContext& context, SendState& state, Instant now, wire::TxBatch& batch, uint32_t wanted) {
  constexpr uint32_t kWorthIt = 3;
  const uint32_t count = middles_to_send(context, state, std::min(wanted, batch.room()));
  if (count < kWorthIt) {
    return 0;
  }
  wire::Bth bth;
  bth.opcode = request_opcode(*state.cursor.work, false, false);
  bth.pkey = context.pkey;
  bth.destination = context.remote;
  const wire::PacketRun run(context.header, bth, context.mtu_bytes);
  uint32_t sent = 0;
  while (sent < count) {
    // Up to the next one that asks for an acknowledgement.
    const uint32_t quiet = packets_before_ack_request(context, state);
    const uint32_t built = build_middles(context, state, run, batch, std::min(count - sent, quiet + 1), quiet);
    if (built == 0) {
      break;
    }
    note_middles_sent(state, now, built, built > quiet);
    sent += built;
  }
  return sent;
}

bool send_probe(QpContext& context, SendState& state, Instant now, wire::TxBatch& batch) {
  if (state.gaps != nullptr) {
    const ReadGaps::Hole& hole = *state.gaps->find(state.window.una());
    if (hole.lost || hole.overtaken_by > 0) {
      state.probe.unschedule();  // is asked for as a whole, at once or when it is overdue
      return true;
    }
  }
  wire::TxPacket* packet = batch.add();
  if (packet == nullptr) {
    return false;
  }
  const SendCursor cursor = cursor_at_una(state, context.mtu_bytes);
  if (state.partial_reads && state.oldest_read_is_executed()) {
    build_read_request(context, *cursor.work, cursor.packet, 1, state.window.una(), *packet);
  } else {
    build_request(context, state, cursor, state.window.una(), true, *packet);
  }
  if (cursor.work->kind == WorkKind::kRead) {
    note_read_repeated(context, state, now, state.window.una(), state.is_within_request(cursor.packet));
  }
  if (state.gaps != nullptr) {
    state.gaps->on_asked(*state.gaps->find(state.window.una()), state.window.limit_psn(), now);
  }
  // No retransmission: it asks a peer that is silent, which most often has lost nothing and slept.
  count_packet(context, false);
  ++context.core.stats.tail_probes;
  context.note(TransportEventKind::kTailProbe, state.window.una());
  // The scoreboard is not told: what is acknowledged next may be the first transmission.
  state.probe.on_sent(state.window.una(), now);
  state.rtt.cancel_sample();
  return true;
}

// A SEND with the PSN before the next: to the peer it is the repetition of something executed long ago, which it has to
// acknowledge and must not execute (IBA 9.7.5.1.1). It needs no receive, no rights and nothing of ours to repeat.
bool send_keepalive(QpContext& context, SendState& state, wire::TxBatch& batch) {
  wire::TxPacket* packet = batch.add();
  if (packet == nullptr) {
    return false;
  }
  wire::Bth bth;
  bth.opcode = Opcode::kRcSendOnly;
  bth.pkey = context.pkey;
  bth.destination = context.remote;
  bth.ack_request = true;
  bth.psn = state.window.una().minus(1);
  wire::build_packet(*packet, context.header, context.ip_identification++, bth, wire::Extensions{}, Bytes{});
  count_packet(context, false);
  ++context.core.stats.keepalives_sent;
  context.note(TransportEventKind::kKeepaliveSent, bth.psn);
  state.keepalive.clear_due();
  return true;
}

// Asks again for the responses that are known to be lost, oldest first. False when the batch or packets_max stopped it.
bool ask_for_missing(QpContext& context, SendState& state, Instant now, wire::TxBatch& batch, uint32_t& sent,
                     uint32_t packets_max) {
  while (ReadGaps::Hole* hole = state.gaps->next_lost()) {
    wire::TxPacket* packet = sent < packets_max ? batch.add() : nullptr;
    if (packet == nullptr) {
      return false;
    }
    const Work& work = *hole->work;
    const auto index = static_cast<uint32_t>(work.first_psn.distance_to(hole->first));
    if (work.kind == WorkKind::kRead) {
      build_read_request(context, work, index, state.gaps->responses_to_ask(*hole), hole->first, *packet);
      note_read_repeated(context, state, now, hole->first, state.is_within_request(index));
    } else {
      build_atomic_request(context, work, hole->first, *packet);
    }
    count_packet(context, true);
    ++context.core.stats.implied_naks;
    context.note(TransportEventKind::kResponseMissing, hole->first);
    if (const auto sampled = state.rtt.sampled_psn(); sampled.has_value() && state.gaps->find(*sampled) == hole) {
      state.rtt.cancel_sample();
    }
    state.gaps->on_asked(*hole, state.window.limit_psn(), now);
    ++sent;
  }
  return true;
}

// Sends what is known to be lost, oldest first; each asks for an acknowledgement, which says whether it was lost again.
bool send_repetitions(QpContext& context, SendState& state, Instant now, wire::TxBatch& batch, uint32_t& sent,
                      uint32_t packets_max) {
  while (owes_repetition(state)) {
    wire::TxPacket* packet = sent < packets_max ? batch.add() : nullptr;
    if (packet == nullptr) {
      return false;
    }
    const wire::Psn psn = *state.board->next_lost();
    build_request(context, state, cursor_at(state, psn, context.mtu_bytes), psn, true, *packet);
    count_packet(context, true);
    state.board->on_repeated(psn, now);
    if (state.rtt.sampled_psn() == psn) {
      state.rtt.cancel_sample();
    }
    ++sent;
  }
  return true;
}

// A message that has not been begun may have to wait although there is room. With nothing under way one may always go, whatever
// the peer has said about its receives: its answer brings the next count, and a wrong count cannot stop us for good.
SendStall stall_of_message(const SendState& state, const Work& work) {
  if (state.draining) {
    return SendStall::kDraining;
  }
  const bool takes_receive = work.kind == WorkKind::kSend || (work.kind == WorkKind::kWrite && work.has_immediate);
  const bool beyond_credits = state.credit_limit.has_value() && state.credit_limit->distance_to(work.ssn) > 0;
  if (takes_receive && beyond_credits && state.window.awaiting()) {
    return SendStall::kCredits;
  }
  const bool is_behind_read = state.repeats != nullptr && work.kind == WorkKind::kSend && state.repeats->holds(work.ssn);
  return is_behind_read ? SendStall::kRepeatedRead : SendStall::kNone;
}

// As many READ requests and atomics are outstanding as the peer takes. Those of which nothing is missing any more do not count
// with a Causeway peer, or a lost response would stop the READs behind it for a round trip: it remembers kHistory of them
// whatever the two agreed upon, so that all that may have to be repeated can be.
bool reads_fill_depth(const SendState& state) {
  if (state.window.reads_outstanding() < state.window.initiator_depth()) [[likely]] {
    return false;
  }
  return state.gaps == nullptr || !state.partial_reads || state.window.reads_outstanding() >= ReadReplay::kHistory ||
         state.window.reads_outstanding() - state.gaps->complete_count(state.oldest) >= state.window.initiator_depth();
}

}  // namespace

SendStall send_stall(const QpContext& context, const SendState& state) {
  const Work* work = state.cursor.work;
  if (work == nullptr) {
    return state.whole_unsent == 0 ? SendStall::kIdle : stall_of_whole_ones(context, state);
  }
  if (state.rnr.is_under_way()) {
    return SendStall::kRnr;
  }
  if (state.recovery.timed_out() && state.window.awaiting()) {
    return SendStall::kSilence;
  }
  if (work->fence && state.cursor.packet == 0 && state.window.reads_outstanding() > 0) {
    return SendStall::kFence;
  }
  if ((state.draining || state.credit_limit.has_value() || state.repeats != nullptr) && !work->begun) {
    const SendStall stall = stall_of_message(state, *work);
    if (stall != SendStall::kNone) {
      return stall;
    }
  }
  // Everything unacknowledged has to stay inside the PSN window, or the peer could not tell a repetition from nonsense.
  const uint32_t span = state.window.psns_in_flight();
  const uint32_t psns = psns_at(state, state.cursor);
  if (span + psns > context.psn_window_packets) {
    return SendStall::kWindow;
  }
  // Nor is there a way to say of packets further away that they have arrived.
  if (state.board != nullptr &&
      state.board->base().distance_to(state.window.next_psn()) + static_cast<int64_t>(psns) > context.hold_packets) {
    return SendStall::kWindow;
  }
  if (work->awaits_response()) {
    if (reads_fill_depth(state)) {
      return SendStall::kReadDepth;
    }
    return state.responses_awaited() + psns > state.read_window.packets() ? SendStall::kReadWindow : SendStall::kNone;
  }
  return state.packets_missing() >= state.window.packets_max() ? SendStall::kWindow : SendStall::kNone;
}

void enqueue_work(QpContext& context, SendState& state, Work* work) {
  make_works(context, state);
  if (state.oldest == nullptr) {
    state.oldest = work;
  } else {
    state.newest->next = work;
  }
  state.newest = work;
  const uint32_t requests =
      work->kind == WorkKind::kRead ? Work::requests_of(0, work->packets, state.read_window.request_packets()) : 1;
  state.last_ssn = state.last_ssn.plus(requests);
  work->ssn = state.last_ssn;
  ++state.queue_count;
  if (state.cursor.work == nullptr) {
    state.cursor = SendCursor::start_of(work);
  }
}

bool send_requests(QpContext& context, SendState& state, Instant now, wire::TxBatch& batch, uint32_t packets_max) {
  if (state.whole_count > 0) {
    if (state.is_ordinary() && !state.probe.is_due() && !state.keepalive.is_due()) [[likely]] {
      return send_whole_ones(context, state, now, batch, packets_max);
    }
    make_works(context, state);
  }
  if (state.probe.is_due() && state.window.awaiting() && !state.rnr.is_under_way() && !send_probe(context, state, now, batch)) {
    return true;
  }
  if (state.keepalive.is_due() && state.window.awaiting()) {
    state.keepalive.clear_due();  // what is awaited tells
  }
  if (state.keepalive.is_due() && !send_keepalive(context, state, batch)) {
    return true;
  }
  uint32_t sent = 0;
  if (state.is_disordered()) [[unlikely]] {
    note_overdue(state, now);
  }
  if (state.gaps != nullptr && !ask_for_missing(context, state, now, batch, sent, packets_max)) {
    return true;
  }
  if (state.board != nullptr && !send_repetitions(context, state, now, batch, sent, packets_max)) {
    return true;
  }
  while (sent < packets_max) {
    if (const uint32_t plain = send_plain_ones(context, state, now, batch, packets_max - sent); plain > 0) {
      sent += plain;
      if (state.cursor.work == nullptr && state.repeats == nullptr) [[likely]] {
        return false;  // idle
      }
      continue;
    }
    if (state.repeats != nullptr) [[unlikely]] {
      review_repeats(context, state, now);
    }
    const SendStall stall = send_stall(context, state);
    if (stall != SendStall::kNone) {
      context.core.stats.window_stalls += stall == SendStall::kWindow ? 1 : 0;
      return false;
    }
    if (const uint32_t middles = send_middles(context, state, now, batch, packets_max - sent); middles > 0) {
      sent += middles;
      continue;
    }
    if (batch.full()) {
      return true;
    }
    wire::TxPacket* packet = goes_in_place(context, state) ? batch.add_in_place() : batch.add();
    if (packet == nullptr) {
      return true;
    }
    send_next(context, state, now, *packet);
    ++sent;
  }
  return send_stall(context, state) == SendStall::kNone;
}

}  // namespace cw::rc
