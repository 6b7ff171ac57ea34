#include "rocev2/rc/responder_replies.h"

#include <algorithm>
#include <array>

#include "rocev2/rc/ack_policy.h"
#include "rocev2/rc/responder.h"

namespace cw::rc {
namespace {

using wire::NakCode;
using wire::Opcode;

wire::Bth reply_header(const QpContext& context, Opcode opcode, wire::Psn psn) {
  wire::Bth bth;
  bth.opcode = opcode;
  bth.pkey = context.pkey;
  bth.destination = context.remote;
  bth.psn = psn;
  return bth;
}

void count_reply(QpContext& context) {
  ++context.core.stats.packets_out;
  ++context.counters.packets_out;
}

Opcode response_opcode(bool first, bool last) {
  if (first) {
    return last ? Opcode::kRcReadResponseOnly : Opcode::kRcReadResponseFirst;
  }
  return last ? Opcode::kRcReadResponseLast : Opcode::kRcReadResponseMiddle;
}

// Credits "not used", unless the owner wants the peer to know how many receives there are.
wire::Aeth acknowledgement(const ReceiveState& state, uint32_t msn) {
  return state.advertises_credits ? wire::Aeth::ack(msn, wire::credit_code(state.receives)) : wire::Aeth::ack(msn);
}

// The next response packet of the current READ. False when its memory is gone.
bool send_read_response(QpContext& context, ReceiveState& state, wire::TxPacket& packet) {
  const AcceptedRead& read = state.reads->request();
  ReadJob& job = state.reads->current();
  const uint32_t bytes_left = job.bytes_end - job.bytes_in;
  const uint32_t bytes = std::min<uint32_t>(bytes_left, context.mtu_bytes);
  Bytes payload;
  if (bytes > 0) {
    const auto memory =
        context.core.memory->resolve(context.domain, read.rkey, read.address + job.bytes_in, bytes, verbs::RemoteAccess::kRead);
    if (!memory.ok()) {
      return false;
    }
    payload = memory.value();
  }
  const bool last = bytes == bytes_left;
  wire::Extensions extensions;
  extensions.aeth = acknowledgement(state, read.msn);
  wire::build_packet(packet, context.header, context.ip_identification++,
                     reply_header(context, response_opcode(!job.started, last), job.next_psn), extensions, payload);
  count_reply(context);
  context.core.stats.payload_bytes_out += bytes;
  context.counters.payload_bytes_out += bytes;
  job.started = true;
  job.next_psn = job.next_psn.next();
  job.bytes_in += bytes;
  if (last) {
    state.reads->finish_current();
  }
  return true;
}

void send_atomic_acknowledge(QpContext& context, ReceiveState& state, wire::TxPacket& packet) {
  const AcceptedRead& atomic = state.reads->request();
  wire::Extensions extensions;
  extensions.aeth = acknowledgement(state, atomic.msn);
  extensions.atomic_ack_eth = wire::AtomicAckEth{atomic.original};
  wire::build_packet(packet, context.header, context.ip_identification++,
                     reply_header(context, Opcode::kRcAtomicAcknowledge, atomic.first_psn), extensions, Bytes{});
  count_reply(context);
  state.reads->finish_current();
}

void send_aeth(QpContext& context, ReceiveState& state, wire::TxPacket& packet) {
  wire::Extensions extensions;
  wire::Psn psn = state.expected;
  RcStats& stats = context.core.stats;
  switch (state.reply) {
    case ReplyKind::kNone:
    case ReplyKind::kAckLater:
    case ReplyKind::kAck:
      extensions.aeth = acknowledgement(state, state.msn);
      psn = state.ack_psn;
      ++stats.acks_sent;
      break;
    case ReplyKind::kNak:
      extensions.aeth = wire::Aeth::nak(static_cast<NakCode>(state.nak_code), state.msn);
      ++stats.naks_sent[std::min<uint32_t>(state.nak_code, kNakCodeCount - 1)];
      ++context.counters.naks_sent;
      context.note(TransportEventKind::kNakSent, psn, state.nak_code);
      break;
    case ReplyKind::kRnrNak:
      extensions.aeth = wire::Aeth::rnr_nak(state.nak_code, state.msn);
      ++stats.rnr_naks_sent;
      ++context.counters.naks_sent;
      context.note(TransportEventKind::kRnrNakSent, psn, state.nak_code);
      break;
  }
  std::array<uint8_t, wire::GapReport::kSizeMax> raw;
  Bytes report;
  if (state.held != nullptr && context.hold_packets > 0 && state.reply == ReplyKind::kNak &&
      state.nak_code == static_cast<uint8_t>(NakCode::kPsnSequenceError)) {
    report = Bytes(raw).first(state.held->report(state.expected).write(raw));
    ++stats.gap_reports_sent;
    context.note(TransportEventKind::kGapReportSent, psn);
  }
  const Opcode opcode = report.empty() ? Opcode::kRcAcknowledge : Opcode::kRcGapReport;
  wire::build_packet(packet, context.header, context.ip_identification++, reply_header(context, opcode, psn), extensions, report);
  count_reply(context);
  state.reply = ReplyKind::kNone;
}

}  // namespace

ReplyResult send_replies(QpContext& context, ReceiveState& state, wire::TxBatch& batch, uint32_t packets_max) {
  ReplyResult result;
  while (result.packets < packets_max && owes_reply(state)) {
    wire::TxPacket* packet = batch.add();
    if (packet == nullptr) {
      return result;
    }
    if (!owes_read_responses(state)) {
      send_aeth(context, state, *packet);
    } else if (state.reads->request().kind != ReadJobKind::kRead) {
      send_atomic_acknowledge(context, state, *packet);
    } else if (!send_read_response(context, state, *packet)) {
      batch.drop_last();
      if (state.reads->current().repeated) {
        // The first answer was complete, else the memory would still be there for it: the request was repeated without need (or
        // duplicated on the way), and nobody waits for a second one.
        state.reads->finish_current();
        continue;
      }
      abandon_requests(context, state);
      if (state.reply == ReplyKind::kNak && state.nak_code != static_cast<uint8_t>(NakCode::kPsnSequenceError)) {
        continue;  // a later request was refused, which has ended the connection already
      }
      owe_nak(state, NakCode::kRemoteOperationalError);
      result.failure = QpErrorCause::kMemoryGone;
      return result;
    }
    ++result.packets;
  }
  return result;
}

}  // namespace cw::rc
