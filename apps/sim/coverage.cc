#include "apps/sim/coverage.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "control/cm/cm_stats.h"
#include "gateway/gateway_stats.h"
#include "iwarp/transport.h"
#include "rocev2/rc/rc_stats.h"

namespace cw::sim {
namespace {

// What the layers counted, as they count it. One of each in the order of the walk below.
struct Sums {
  rc::RcStats rc;
  std::array<uint64_t, wire::kDropReasonCount> discards{};
  cm::CmStats cm;
  rpcrdma::RpcRdmaStats rpc;
  gateway::GatewayStats gateway;
  CallerStats caller;
  link::StationStats station;
  std::array<uint64_t, kFaultKindCount> faults{};
  std::array<uint64_t, 6> outcomes{};
  uint64_t undelivered = 0;
  uint64_t left_over = 0;
  uint64_t reads_refused = 0;
  uint64_t standard_clients = 0;
  uint64_t causeway_clients = 0;
  uint64_t iwarp_clients = 0;
  uint64_t segments = 0;
  iwarp::IwarpStats iwarp;
  iwarp::StreamStats stream;
  iwarp::TcpStats tcp;
};

constexpr std::array<const char*, rc::kNakCodeCount> kNakNames = {"psn_sequence",       "invalid_request",    "remote_access",
                                                                  "remote_operational", "invalid_rd_request", "other"};
// By rc::QpErrorCause: what the client of an honest gateway can meet. Its responder refuses nothing but memory that is gone.
// What ends connections between honest peers.
constexpr std::array<std::pair<rc::QpErrorCause, const char*>, 5> kLostCauses = {{
    {rc::QpErrorCause::kNone, "no_cause"},
    {rc::QpErrorCause::kRetryExceeded, "retry_exceeded"},
    {rc::QpErrorCause::kPeerSilent, "peer_silent"},
    {rc::QpErrorCause::kMemoryAccess, "memory_access"},
    {rc::QpErrorCause::kMemoryGone, "memory_gone"},
}};
constexpr std::array<const char*, 6> kOutcomeNames = {"none", "answered", "refused", "lost", "timeout", "unknown"};
constexpr std::array<const char*, 4> kMessageNames = {"msg", "nomsg", "error", "other"};
constexpr std::array<const char*, 3> kChunkNames = {"read", "write", "reply"};

// Calls visit(prefix, name, value) for every event there is, in a fixed order: what makes the names and what adds the counts.
template <typename Visit>
void walk_rc(const rc::RcStats& rc, Visit&& visit) {
  for (uint32_t i = 0; i < rc::kNakCodeCount; ++i) {
    visit("rc.nak_received.", kNakNames[i], rc.naks_received[i]);
    visit("rc.nak_sent.", kNakNames[i], rc.naks_sent[i]);
  }
  visit("rc.", "rnr_nak_received", rc.rnr_naks_received);
  visit("rc.", "rnr_nak_sent", rc.rnr_naks_sent);
  visit("rc.", "ack_timeout", rc.ack_timeouts);
  visit("rc.", "packet_retransmitted", rc.packets_retransmitted);
  visit("rc.", "implied_nak", rc.implied_naks);
  visit("rc.", "response_early", rc.responses_early);
  visit("rc.", "packet_late", rc.packets_late);
  visit("rc.", "repetition_spurious", rc.repetitions_spurious);
  visit("rc.", "send_behind_reads", rc.sends_behind_reads);
  visit("rc.", "read_unfenced", rc.reads_unfenced);
  visit("rc.", "tail_probe", rc.tail_probes);
  visit("rc.", "retries_exhausted", rc.retries_exhausted);
  visit("rc.", "rnr_retries_exhausted", rc.rnr_retries_exhausted);
  visit("rc.", "keepalive_sent", rc.keepalives_sent);
  visit("rc.", "keepalives_exhausted", rc.keepalives_exhausted);
  visit("rc.", "bad_response", rc.bad_responses);
  visit("rc.", "window_stall", rc.window_stalls);
  visit("rc.", "duplicate_request", rc.duplicate_requests);
  visit("rc.", "out_of_sequence", rc.out_of_sequence);
  visit("rc.", "read_replayed", rc.reads_replayed);
  visit("rc.", "gap_report_sent", rc.gap_reports_sent);
  visit("rc.", "gap_report_received", rc.gap_reports_received);
  visit("rc.", "packet_held", rc.packets_held);
  visit("rc.", "hold_refused", rc.holds_refused);
  visit("rc.", "cnp_received", rc.cnps_received);
  visit("rc.", "ecn_marked", rc.ecn_marked);
  visit("rc.", "qp_failed", rc.qps_failed);
  visit("rc.", "no_header_buffer", rc.no_header_buffer);
}

template <typename Visit>
void walk_cm(const cm::CmStats& cm, Visit&& visit) {
  for (size_t i = 0; i < static_cast<size_t>(cm::MessageType::kCount); ++i) {
    const char* name = to_string(static_cast<cm::MessageType>(i));
    visit("cm.received.", name, cm.received[i]);
    visit("cm.sent.", name, cm.sent[i]);
    visit("cm.duplicate.", name, cm.duplicates[i]);
  }
  for (const cm::MessageType type : {cm::MessageType::kReq, cm::MessageType::kRep, cm::MessageType::kDreq}) {
    visit("cm.repeated.", to_string(type), cm.repeated[static_cast<size_t>(type)]);
  }
  for (size_t i = 0; i < static_cast<size_t>(cm::CmDrop::kCount); ++i) {
    visit("cm.drop.", to_string(static_cast<cm::CmDrop>(i)), cm.drops[i]);
  }
  for (size_t i = 0; i < static_cast<size_t>(cm::CmOutcome::kCount); ++i) {
    visit("cm.outcome.", to_string(static_cast<cm::CmOutcome>(i)), cm.outcomes[i]);
  }
  for (const cm::RejectReason reason :
       {cm::RejectReason::kNoResources, cm::RejectReason::kTimeout, cm::RejectReason::kInvalidCommId,
        cm::RejectReason::kInvalidServiceId, cm::RejectReason::kStaleConnection, cm::RejectReason::kConsumerDefined}) {
    visit("cm.rejected.", to_string(reason), cm.rejects_received[static_cast<size_t>(reason)]);
  }
  visit("cm.", "established_by_data", cm.established_by_data);
  visit("cm.", "delay_received", cm.delays_received);
  visit("cm.", "timewait_cut_short", cm.timewaits_cut_short);
  visit("cm.", "disconnect_cut_short", cm.disconnects_cut_short);
  visit("cm.", "transmit_queue_full", cm.transmit_queue_full);
}

template <typename Visit>
void walk_rpc(const rpcrdma::RpcRdmaStats& rpc, Visit&& visit) {
  for (size_t i = 0; i < kMessageNames.size(); ++i) {
    visit("rpc.message.", kMessageNames[i], rpc.messages_in[i]);
  }
  for (size_t i = 0; i < kChunkNames.size(); ++i) {
    visit("rpc.chunk.", kChunkNames[i], rpc.chunks[i].chunks);
  }
  for (size_t i = 0; i < static_cast<size_t>(rpcrdma::HeaderError::kCount); ++i) {
    visit("rpc.malformed.", to_string(static_cast<rpcrdma::HeaderError>(i)), rpc.malformed[i]);
  }
  visit("rpc.", "error_version", rpc.errors_out_version);
  visit("rpc.", "error_chunk", rpc.errors_out_chunk);
  visit("rpc.", "short_message", rpc.short_messages);
  visit("rpc.", "unknown_xid", rpc.unknown_xid);
  visit("rpc.", "xid_mismatch", rpc.xid_mismatch);
  visit("rpc.", "credit_violation", rpc.credit_violations);
  visit("rpc.", "credit_stall", rpc.credit_stalls);
  visit("rpc.", "read_stall", rpc.read_stalls);
  visit("rpc.", "remote_invalidation", rpc.remote_invalidations);
  visit("rpc.", "pullup", rpc.pullups);
  visit("rpc.", "no_buffer", rpc.no_buffer);
  visit("rpc.", "no_send_work", rpc.no_send_work);
  visit("rpc.", "call_timeout", rpc.call_timeouts);
  visit("rpc.", "read_timeout", rpc.read_timeouts);
  visit("rpc.", "slow_reads", rpc.slow_reads);
  visit("rpc.", "reply_timeout", rpc.reply_timeouts);
  visit("rpc.", "reply_stall", rpc.reply_stalls);
  visit("rpc.", "gss_window_stall", rpc.gss_window_stalls);
  visit("rpc.", "wait_timeout", rpc.wait_timeouts);
  visit("rpc.", "bad_reply", rpc.bad_replies);
  visit("rpc.", "late_reply", rpc.late_replies);
}

template <typename Visit>
void walk_gateway(const gateway::GatewayStats& gateway, Visit&& visit) {
  for (size_t i = 0; i < static_cast<size_t>(gateway::ConnectionResult::kCount); ++i) {
    visit("gateway.connection.", to_string(static_cast<gateway::ConnectionResult>(i)), gateway.connections[i]);
  }
  const gateway::BackendStats& backend = gateway.backends[0];
  visit("gateway.backend.", "open", backend.opens);
  visit("gateway.backend.", "open_failure", backend.open_failures);
  visit("gateway.backend.", "close", backend.closes);
  visit("gateway.backend.", "call_timeout", backend.call_timeouts);
  visit("gateway.", "reply_unmatched", gateway.replies_unmatched);
  visit("gateway.", "reverse_call", gateway.reverse_calls);
  visit("gateway.", "reverse_reply", gateway.reverse_replies);
  for (size_t i = 0; i < static_cast<size_t>(gateway::ReverseDrop::kCount); ++i) {
    visit("gateway.reverse_dropped.", to_string(static_cast<gateway::ReverseDrop>(i)), gateway.reverse_calls_dropped[i]);
  }
  visit("gateway.", "message_malformed", gateway.messages_malformed);
  visit("gateway.", "duplicate_xid", gateway.duplicate_xids);
}

// All of its names begin with "iwarp.", for is_of_iwarp().
template <typename Visit>
void walk_iwarp(const Sums& sums, Visit&& visit) {
  visit("iwarp.", "client", sums.iwarp_clients);
  visit("iwarp.", "segment", sums.segments);
  visit("iwarp.", "accepted", sums.iwarp.accepted);
  visit("iwarp.", "established", sums.iwarp.established);
  visit("iwarp.", "input_wait", sums.iwarp.input_waits);
  visit("iwarp.", "fpdu_received", sums.stream.fpdus_received);
  visit("iwarp.", "segment_copied", sums.stream.payload_bytes_copied);
  visit("iwarp.", "out_of_buffers", sums.stream.out_of_buffers);
  visit("iwarp.", "crc_error", sums.stream.crc_errors);
  visit("iwarp.", "blocked_write", sums.tcp.blocked_writes);
  for (uint32_t i = 0; i < iwarp::kIwarpDropCount; ++i) {
    visit("iwarp.drop.", std::string(to_string(static_cast<iwarp::IwarpDrop>(i))).c_str(), sums.iwarp.drops[i]);
  }
  for (uint32_t i = 1; i < iwarp::kStreamErrorCauseCount; ++i) {
    visit("iwarp.end.", std::string(to_string(static_cast<iwarp::StreamErrorCause>(i))).c_str(), sums.iwarp.stream_errors[i]);
  }
  const auto sum = [](const auto& counts) { return std::accumulate(counts.begin(), counts.end(), uint64_t{0}); };
  visit("iwarp.", "terminate_sent", sum(sums.stream.terminates_sent));
  visit("iwarp.", "terminate_received", sum(sums.stream.terminates_received));
}

bool is_of_iwarp(std::string_view name) {
  return name.starts_with("iwarp.") || name.starts_with("fault.stream_") || name.starts_with("fault.connect_");
}

template <typename Visit>
void walk(const Sums& sums, Visit&& visit) {
  walk_rc(sums.rc, visit);
  for (size_t i = 0; i < wire::kDropReasonCount; ++i) {
    visit("discard.", to_string(static_cast<wire::DropReason>(i)), sums.discards[i]);
  }
  walk_cm(sums.cm, visit);
  walk_rpc(sums.rpc, visit);
  walk_gateway(sums.gateway, visit);
  for (size_t i = 0; i < sums.caller.statuses.size(); ++i) {
    visit("call.", to_string(static_cast<rpcrdma::CallStatus>(i)), sums.caller.statuses[i]);
  }
  for (size_t i = 0; i < sums.caller.shapes.size(); ++i) {
    visit("call.shape.", to_string(static_cast<CallShape>(i)), sums.caller.shapes[i]);
  }
  for (const auto& [cause, name] : kLostCauses) {
    visit("lost.", name, sums.caller.lost_causes[static_cast<size_t>(cause)]);
  }
  visit("client.", "refused", sums.caller.refused);
  visit("client.", "disconnect", sums.caller.disconnects);
  visit("station.", "arp", sums.station.arp_in);
  visit("station.", "neighbour_discovery", sums.station.nd_in);
  visit("station.", "ignored", sums.station.other_in);
  for (size_t i = 1; i < sums.outcomes.size(); ++i) {
    visit("attempt.", kOutcomeNames[i], sums.outcomes[i]);
  }
  visit("host.", "frame_without_buffer", sums.undelivered);
  visit("host.", "connection_outlived_its_client", sums.left_over);
  visit("peer.", "standard", sums.standard_clients);
  visit("peer.", "causeway", sums.causeway_clients);
  visit("peer.", "dead_read_refused", sums.reads_refused);
  for (size_t i = 0; i < sums.faults.size(); ++i) {
    visit("fault.", to_string(static_cast<FaultKind>(i)), sums.faults[i]);
  }
  walk_iwarp(sums, visit);
}

size_t event_count() {
  size_t count = 0;
  walk(Sums{}, [&](const char*, const char*, uint64_t) { ++count; });
  return count;
}

// What no fault of wire, process or backend can bring about, since both ends are honest and an iCRC guards what they say. The
// hostile suites (unit/node, unit/cm, fuzz) are for these.
constexpr std::string_view kWrongPeer[] = {"rc.nak_received.invalid_request",
                                           "rc.nak_sent.invalid_request",
                                           "rc.nak_received.remote_operational",
                                           "rc.nak_sent.remote_operational",
                                           "rc.nak_received.invalid_rd_request",
                                           "rc.nak_sent.invalid_rd_request",
                                           "rc.nak_received.other",
                                           "rc.nak_sent.other",
                                           "rc.rnr_nak_received",
                                           "rc.rnr_nak_sent",
                                           "rc.rnr_retries_exhausted",
                                           "rc.bad_response",
                                           "discard.transport_version",
                                           "discard.pkey",
                                           "discard.qkey",
                                           "discard.not_datagram",
                                           "discard.malformed_mad",
                                           "discard.rate_limited",
                                           "discard.multicast",
                                           "discard.path_mismatch",
                                           "discard.no_buffer",
                                           "cm.received.lap",
                                           "cm.sent.lap",
                                           "cm.duplicate.lap",
                                           "cm.received.apr",
                                           "cm.sent.apr",
                                           "cm.duplicate.apr",
                                           "cm.received.sidr_req",
                                           "cm.sent.sidr_req",
                                           "cm.duplicate.sidr_req",
                                           "cm.received.sidr_rep",
                                           "cm.sent.sidr_rep",
                                           "cm.duplicate.sidr_rep",
                                           "cm.drop.header",
                                           "cm.drop.class_version",
                                           "cm.drop.attribute",
                                           "cm.drop.source",
                                           "cm.drop.malformed",
                                           "cm.drop.qpn_mismatch",
                                           "cm.drop.request_rate",
                                           "cm.drop.answer_rate",
                                           "rpc.message.other",
                                           "rpc.error_version",
                                           "rpc.short_message",
                                           "rpc.xid_mismatch",
                                           "rpc.credit_violation",
                                           "rpc.bad_reply",
                                           "gateway.duplicate_xid",
                                           "gateway.reverse_dropped.duplicate_xid",
                                           "gateway.reverse_dropped.refused",
                                           "gateway.connection.refused_acl",
                                           "call.ERR_VERS",
                                           "call.bad reply",
                                           "iwarp.crc_error",
                                           "iwarp.drop.bad_setup",
                                           "iwarp.drop.no_listener",
                                           "iwarp.drop.request_rate",
                                           "iwarp.drop.prefix_request_rate",
                                           "iwarp.end.no_resources",
                                           "fault.unknown"};

bool needs_wrong_peer(std::string_view name) {
  return name.starts_with("rpc.malformed.") ||
         std::find(std::begin(kWrongPeer), std::end(kWrongPeer), name) != std::end(kWrongPeer);
}

}  // namespace

Coverage::Coverage() : counts_(event_count()) {}

namespace {

void add_sums(const Sums& sums, std::vector<uint64_t>& counts) {
  size_t at = 0;
  walk(sums, [&](const char*, const char*, uint64_t value) { counts[at++] += value; });
}

void take_node(node::Node& node, Sums& sums) {
  sums.rc = node.endpoint().stats();
  sums.cm = node.cm().stats();
  sums.station = node.station(0).stats();
  for (size_t i = 0; i < wire::kDropReasonCount; ++i) {
    sums.discards[i] = sums.rc.discards[i] + node.port_stats(0).discards[i] + node.gsi_stats().discards[i];
  }
}

void take_iwarp(const iwarp::IwarpTransport* iwarp, Sums& sums) {
  if (iwarp != nullptr) {
    sums.iwarp = iwarp->stats();
    sums.stream = iwarp->stream_stats();
    sums.tcp = iwarp->tcp_stats();
  }
}

}  // namespace

void Coverage::add(const Scenario& scenario) {
  Sums sums;
  for (const Fault& fault : scenario.faults) {
    ++sums.faults[static_cast<size_t>(fault.kind)];
  }
  for (const ClientPlan& client : scenario.clients) {
    ++(client.iwarp ? sums.iwarp_clients : client.standard ? sums.standard_clients : sums.causeway_clients);
  }
  add_sums(sums, counts_);
}

void Coverage::add(GatewayHost& host) {
  Sums sums;
  take_node(host.node, sums);
  take_iwarp(host.iwarp.get(), sums);
  sums.rpc = host.gateway.rpcrdma_stats();
  sums.gateway = host.gateway.stats();
  add_sums(sums, counts_);
}

void Coverage::add(ClientStack& host) {
  Sums sums;
  take_node(host.node, sums);
  take_iwarp(host.iwarp.get(), sums);
  sums.rpc = host.client.rpcrdma_stats();
  add_sums(sums, counts_);
}

void Coverage::add(const CallerStats& stats) {
  Sums sums;
  sums.caller = stats;
  add_sums(sums, counts_);
}

void Coverage::add_fabric(uint64_t undelivered, uint64_t left_over, uint64_t reads_refused, uint64_t segments,
                          const Ledger& ledger) {
  Sums sums;
  sums.segments = segments;
  sums.undelivered = undelivered;
  sums.left_over = left_over;
  sums.reads_refused = reads_refused;
  sums.outcomes = ledger.outcomes();
  add_sums(sums, counts_);
}

void Coverage::add(const Coverage& other) {
  for (size_t i = 0; i < counts_.size(); ++i) {
    counts_[i] += other.counts_[i];
  }
}

std::vector<Coverage::Event> Coverage::events() const {
  std::vector<Event> out;
  out.reserve(counts_.size());
  bool has_iwarp = false;
  size_t place = 0;
  walk(Sums{}, [&](const char* prefix, const char* name, uint64_t) {
    has_iwarp = has_iwarp || (counts_[place++] > 0 && std::string_view(prefix) == "iwarp." && std::string_view(name) == "client");
  });
  walk(Sums{}, [&](const char* prefix, const char* name, uint64_t) {
    std::string full = std::string(prefix) + name;
    const bool hostile = needs_wrong_peer(full) || (is_of_iwarp(full) && !has_iwarp);
    out.push_back(Event{std::move(full), counts_[out.size()], hostile});
  });
  return out;
}

uint64_t Coverage::count_of(std::string_view name) const {
  for (const Event& event : events()) {
    if (event.name == name) {
      return event.count;
    }
  }
  return 0;
}

}  // namespace cw::sim
