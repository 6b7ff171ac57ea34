// The part of a queue pair that answers congestion: as notification point (annex A17.9.3: packets that came marked are answered
// by CNPs) and as reaction point (CNPs limit the rate). A queue pair that has met no congestion pays one branch per packet
// received and one per turn of sending.
#include <algorithm>

#include "rocev2/rc/qp.h"
#include "rocev2/rc/responder.h"
#include "rocev2/wire/cnp.h"

namespace cw::rc {
namespace {

// Bytes around the payload that take their time on the line too: link, IP, UDP, BTH, iCRC.
constexpr uint32_t kHeaderBytes = 14 + 20 + 8 + 12 + 4 + 24;

// Responses to READs are on their way, or were a moment ago, so that a notification may be about them. Nothing acknowledges
// them, so that a responder does not know when they have arrived.
bool answers_reads(const ReceiveState& receive, Instant now) {
  if (receive.reads == nullptr) {
    return false;
  }
  const Instant at = receive.reads->answered_at();
  return owes_read_responses(receive) || (at > Instant() && now - at < Dcqcn::kQuiet);
}

}  // namespace

void RcQp::on_congestion_mark(Instant now) {
  ++context_.core.stats.ecn_marked;
  if (!congestion_control_ || now < next_cnp_at_) {
    return;
  }
  next_cnp_at_ = now + Dcqcn::kCutInterval;
  cnp_due_ = true;
  join_ack_due();
}

bool RcQp::transmit_cnp(wire::TxBatch& batch) {
  wire::TxPacket* packet = batch.add();
  if (packet == nullptr) {
    return false;
  }
  wire::Bth bth = wire::cnp_bth(context_.remote);
  bth.pkey = context_.pkey;
  wire::build_packet(*packet, context_.header, context_.ip_identification++, bth, wire::Extensions{}, Bytes(wire::kCnpReserved));
  ++context_.core.stats.packets_out;
  ++context_.counters.packets_out;
  ++context_.core.stats.cnps_sent;
  ++context_.counters.cnps_sent;
  context_.note(TransportEventKind::kCnpSent, receive_.expected);
  cnp_due_ = false;
  return true;
}

void RcQp::on_cnp(Instant now) {
  RcStats& stats = context_.core.stats;
  ++stats.cnps_received;
  ++context_.counters.cnps_received;
  const bool sends = send_.window.awaiting() || send_.queue_count > 0 || answers_reads(receive_, now);
  if (context_.rate == nullptr && congestion_control_ && sends) {
    // No faster than the window makes it already: else the first cuts would cut nothing.
    DcqcnLimits limits = rate_limits_;
    if (send_.rtt.srtt() > Duration()) {
      const uint64_t window_bytes = uint64_t{send_.window.packets_max()} * (context_.mtu_bytes + kHeaderBytes);
      const uint64_t window_rate = window_bytes * 1'000'000'000 / static_cast<uint64_t>(send_.rtt.srtt().to_ns());
      limits.line_rate = std::clamp(window_rate, limits.floor_rate, limits.line_rate);
    }
    context_.rate = context_.core.rates.create(now, limits);
    stats.rates_limited = context_.core.rates.in_use();
  }
  const bool cut = context_.rate != nullptr && context_.rate->on_cnp(now, send_.rtt.srtt());
  ++(cut ? stats.rate_cuts : stats.cnps_ignored);
  context_.note(TransportEventKind::kCnpReceived, send_.window.una(), cut ? 1 : 0);
}

uint32_t RcQp::allowed_packets(Instant now, uint32_t packets_max) {
  rate_waits_ = false;
  if (context_.rate->is_over(now)) {
    lift_rate_limit();
    return packets_max;
  }
  if (now < context_.rate->next_send_at()) {
    rate_waits_ = true;
    ++context_.core.stats.paced_turns;
    return 0;
  }
  const uint64_t burst = context_.rate->burst_bytes() / (context_.mtu_bytes + kHeaderBytes);
  return static_cast<uint32_t>(std::clamp<uint64_t>(burst, 1, packets_max));
}

void RcQp::note_sent(Instant now, uint64_t payload_bytes, uint64_t packets, uint32_t replies) {
  if (context_.rate != nullptr && packets > 0) {
    context_.rate->on_sent(now, payload_bytes + packets * kHeaderBytes);
    // Whoever sends slowly is not waiting yet: no probe between two packets. What the peer asked for says nothing of our own.
    send_.progress_at = packets > replies ? now : send_.progress_at;
  }
}

void RcQp::lift_rate_limit() {
  rate_waits_ = false;
  if (context_.rate != nullptr) {
    context_.core.rates.destroy(context_.rate);
    context_.rate = nullptr;
    context_.core.stats.rates_limited = context_.core.rates.in_use();
  }
}

}  // namespace cw::rc
