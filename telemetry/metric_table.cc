#include "telemetry/metric_table.h"

#include <algorithm>
#include <array>
#include <string>

#include "control/cm/reject_reason.h"
#include "control/cm/wire/mad_header.h"
#include "rpcrdma/wire/transport_header.h"

namespace cw::telemetry {
namespace {

using prometheus::MetricType;
using At = MetricIndex;
using Core = CoreSnapshot;

constexpr FixedLabel kRx{"direction", "rx"};
constexpr FixedLabel kTx{"direction", "tx"};
constexpr FixedLabel kToKernel{"direction", "to_kernel"};
constexpr FixedLabel kFromKernel{"direction", "from_kernel"};

constexpr double number(uint64_t value) {
  return static_cast<double>(value);
}
constexpr double seconds(uint64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

template <typename E>
const char* enum_name(uint32_t index) {
  return to_string(static_cast<E>(index));
}

// wire::NakCode in order, and everything else.
const char* nak_code(uint32_t index) {
  constexpr std::array kNames = {"psn_sequence",       "invalid_request",    "remote_access",
                                 "remote_operational", "invalid_rd_request", "other"};
  static_assert(kNames.size() == rc::kNakCodeCount);
  return kNames[index];
}

// Code 34 does not exist in the standard; what a peer sends under it is added to "unknown", index 0.
constexpr uint32_t kUnassignedReason = 34;
const char* reject_reason(uint32_t index) {
  return index == kUnassignedReason ? nullptr : to_string(static_cast<cm::RejectReason>(index));
}
uint64_t reject_count(const std::array<uint64_t, cm::kRejectReasonCount>& counts, uint32_t index) {
  return counts[index] + (index == 0 ? counts[kUnassignedReason] : 0);
}

const char* message_kind(uint32_t index) {
  constexpr std::array kNames = {"rdma_msg", "rdma_nomsg", "rdma_error", "other"};
  static_assert(kNames.size() == static_cast<size_t>(rpcrdma::MessageKind::kCount));
  return kNames[index];
}

const char* chunk_list(uint32_t index) {
  constexpr std::array kNames = {"read", "write", "reply"};
  static_assert(kNames.size() == static_cast<size_t>(rpcrdma::ChunkKind::kCount));
  return kNames[index];
}

uint64_t frames_received(const Core& core) {
  uint64_t frames = 0;
  for (const PortStats& port : core.ports) {
    frames += port.rx_packets;
  }
  return frames;
}

double backend_up(const gateway::BackendStats& backend) {
  return backend.is_judged() ? number(backend.up) : kNotKnown;
}

// How attempts to connect ended.
constexpr std::array<cm::CmOutcome, 5> kFailedAttempts = {cm::CmOutcome::kRejectedByUs, cm::CmOutcome::kRejectedByPeer,
                                                          cm::CmOutcome::kNoAnswer, cm::CmOutcome::kNoDecision,
                                                          cm::CmOutcome::kEvicted};
const char* attempt_result(uint32_t index) {
  return index == 0 ? "established" : to_string(kFailedAttempts[index - 1]);
}
// How connections ended that had carried calls.
using Ending = gateway::ConnectionResult;
constexpr std::array<Ending, 12> kEndings = {Ending::kClosedByPeer,    Ending::kClosedByUs,           Ending::kDrained,
                                             Ending::kHandedOver,      Ending::kFailedTransport,      Ending::kFailedProtocol,
                                             Ending::kFailedBackend,   Ending::kFailedBackendTimeout, Ending::kFailedReadTimeout,
                                             Ending::kFailedSlowReads, Ending::kFailedReplyTimeout,   Ending::kFailedStarved};
uint64_t connections(const Core& core, Ending how) {
  return core.gateway.connections[static_cast<size_t>(how)];
}
const char* ending(uint32_t index) {
  return to_string(kEndings[index]);
}
// How they ended on the wire.
constexpr std::array<cm::CmOutcome, 5> kCmEndings = {cm::CmOutcome::kRemoteDisconnect, cm::CmOutcome::kLocalDisconnect,
                                                     cm::CmOutcome::kUnanswered, cm::CmOutcome::kSuperseded,
                                                     cm::CmOutcome::kRejectedLate};
const char* cm_ending(uint32_t index) {
  return to_string(kCmEndings[index]);
}

const char* iwarp_setup_failure(uint32_t index) {
  return iwarp::to_string(static_cast<iwarp::IwarpDrop>(index)).data();
}
// Without the first, "none".
const char* mpa_error(uint32_t index) {
  return iwarp::to_string(static_cast<iwarp::MpaError>(index + 1)).data();
}
const char* stream_end(uint32_t index) {
  return iwarp::to_string(static_cast<iwarp::StreamErrorCause>(index + 1)).data();
}

constexpr IndexedLabel kNfs4OperationNames{"operation", rpcrdma::kNfs4Operations, rpcrdma::nfs4_operation_name};
constexpr IndexedLabel kIwarpSetupFailures{"reason", iwarp::kIwarpDropCount, iwarp_setup_failure};
constexpr IndexedLabel kMpaErrors{"reason", iwarp::kMpaErrorCount - 1, mpa_error};
const char* terminate_cause(uint32_t index) {
  return index < iwarp::kTerminateCauses.size() ? iwarp::to_string(iwarp::kTerminateCauses[index]).data() : "other";
}
constexpr IndexedLabel kTerminates{"cause", iwarp::kTerminateCauseCount, terminate_cause};
constexpr IndexedLabel kStreamEnds{"cause", iwarp::kStreamErrorCauseCount - 1, stream_end};
const char* verbs_setup_failure(uint32_t index) {
  return rnic::to_string(static_cast<rnic::RnicDrop>(index)).data();
}
const char* verbs_end(uint32_t index) {
  return rnic::to_string(static_cast<rnic::RnicErrorCause>(index + 1)).data();
}
const char* device_event(uint32_t index) {
  return rnic::to_string(static_cast<rnic::DeviceEvent>(index)).data();
}
// As labels are written.
const char* completion_status(uint32_t index) {
  static const auto kNames = [] {
    std::array<std::string, verbs::kWcStatusCount> names;
    for (uint32_t i = 0; i < names.size(); ++i) {
      names[i] = to_string(static_cast<verbs::WcStatus>(i));
      std::ranges::replace(names[i], ' ', '_');
    }
    return names;
  }();
  return kNames[index].c_str();
}
constexpr IndexedLabel kVerbsSetupFailures{"reason", rnic::kRnicDropCount, verbs_setup_failure};
constexpr IndexedLabel kVerbsEnds{"cause", rnic::kRnicErrorCauseCount - 1, verbs_end};
constexpr IndexedLabel kDeviceEvents{"event", rnic::kDeviceEventCount, device_event};
constexpr IndexedLabel kCompletionStatuses{"status", verbs::kWcStatusCount, completion_status};
constexpr IndexedLabel kDropReasons{"reason", wire::kDropReasonCount, enum_name<wire::DropReason>};
constexpr IndexedLabel kNakCodes{"code", rc::kNakCodeCount, nak_code};
constexpr IndexedLabel kMessageTypes{"type", static_cast<uint32_t>(cm::MessageType::kCount), enum_name<cm::MessageType>};
constexpr IndexedLabel kRejectReasons{"reason", cm::kRejectReasonCount, reject_reason};
constexpr IndexedLabel kCmDrops{"reason", static_cast<uint32_t>(cm::CmDrop::kCount), enum_name<cm::CmDrop>};
constexpr IndexedLabel kAttempts{"result", 1 + kFailedAttempts.size(), attempt_result};
constexpr IndexedLabel kEndingReasons{"reason", kEndings.size(), ending};
constexpr IndexedLabel kCmEndingOutcomes{"outcome", kCmEndings.size(), cm_ending};
constexpr IndexedLabel kMessageKinds{"procedure", static_cast<uint32_t>(rpcrdma::MessageKind::kCount), message_kind};
constexpr IndexedLabel kChunkLists{"list", static_cast<uint32_t>(rpcrdma::ChunkKind::kCount), chunk_list};
constexpr IndexedLabel kHeaderErrors{"reason", static_cast<uint32_t>(rpcrdma::HeaderError::kCount),
                                     enum_name<rpcrdma::HeaderError>};

constexpr IndexedLabel kReverseDrops{"reason", static_cast<uint32_t>(gateway::ReverseDrop::kCount),
                                     enum_name<gateway::ReverseDrop>};

constexpr auto kAll = Scope::kGateway;

using Get = double (*)(const Core&, At);
constexpr MetricRow counter(const char* name, const char* help, Scope scope, FixedLabel fixed, IndexedLabel indexed, Get get) {
  return {name, help, MetricType::Counter, scope, fixed, indexed, get, Fold::kSum};
}
constexpr MetricRow gauge(const char* name, const char* help, Scope scope, FixedLabel fixed, IndexedLabel indexed, Get get,
                          Fold fold = Fold::kSum) {
  return {name, help, MetricType::Gauge, scope, fixed, indexed, get, fold};
}

// Help texts stand in the first row of a family only.
const MetricRow kRows[] = {
    // RoCEv2 packets, by port
    counter("causeway_roce_packets_total", "RoCEv2 packets; received ones before any is discarded.", Scope::kPort, kRx, {},
            [](const Core& c, At i) { return number(c.ports[i.scope].roce_rx_packets); }),
    counter("causeway_roce_packets_total", "", Scope::kPort, kTx, {},
            [](const Core& c, At i) { return number(c.ports[i.scope].roce_tx_packets); }),
    counter("causeway_roce_bytes_total", "Bytes of RoCEv2 packets, Ethernet header to iCRC.", Scope::kPort, kRx, {},
            [](const Core& c, At i) { return number(c.ports[i.scope].roce_rx_bytes); }),
    counter("causeway_roce_bytes_total", "", Scope::kPort, kTx, {},
            [](const Core& c, At i) { return number(c.ports[i.scope].roce_tx_bytes); }),
    counter("causeway_roce_discards_total",
            "Received packets not acted upon, each under one reason; port any: decided at a queue pair.", Scope::kPort, {},
            kDropReasons, [](const Core& c, At i) { return number(c.ports[i.scope].discards[i.label]); }),
    counter("causeway_roce_discards_total", "", kAll, {"port", "any"}, kDropReasons,
            [](const Core& c, At i) { return number(c.rc.discards[i.label] + c.gsi.discards[i.label]); }),

    // Reliable connections
    counter("causeway_roce_payload_bytes_total", "Payload bytes through queue pairs, repeated ones included.", kAll, kRx, {},
            [](const Core& c, At) { return number(c.rc.payload_bytes_in); }),
    counter("causeway_roce_payload_bytes_total", "", kAll, kTx, {},
            [](const Core& c, At) { return number(c.rc.payload_bytes_out); }),
    counter("causeway_roce_duplicate_requests_total", "Requests received again and answered from state.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rc.duplicate_requests); }),
    counter("causeway_roce_out_of_sequence_total",
            "Requests received ahead of the expected packet: something before them was lost.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rc.out_of_sequence); }),
    counter("causeway_roce_ack_timeouts_total", "Times that nothing was acknowledged within the ACK timeout.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rc.ack_timeouts); }),
    counter("causeway_roce_retransmitted_packets_total",
            "Packets sent again because they were lost; tail probes are not among them.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rc.packets_retransmitted); }),
    counter("causeway_roce_rnr_naks_total", "Receiver-not-ready answers: a message met no posted receive buffer.", kAll, kRx, {},
            [](const Core& c, At) { return number(c.rc.rnr_naks_received); }),
    counter("causeway_roce_rnr_naks_total", "", kAll, kTx, {}, [](const Core& c, At) { return number(c.rc.rnr_naks_sent); }),
    counter("causeway_roce_naks_total", "Negative acknowledgements, by code.", kAll, kRx, kNakCodes,
            [](const Core& c, At i) { return number(c.rc.naks_received[i.label]); }),
    counter("causeway_roce_naks_total", "", kAll, kTx, kNakCodes,
            [](const Core& c, At i) { return number(c.rc.naks_sent[i.label]); }),
    counter(
        "causeway_roce_retries_exhausted_total",
        "Connections given up after the last retry: no progress (transport), no receive (rnr), or idle and silent (keepalive).",
        kAll, {"kind", "transport"}, {}, [](const Core& c, At) { return number(c.rc.retries_exhausted); }),
    counter("causeway_roce_retries_exhausted_total", "", kAll, {"kind", "rnr"}, {},
            [](const Core& c, At) { return number(c.rc.rnr_retries_exhausted); }),
    counter("causeway_roce_retries_exhausted_total", "", kAll, {"kind", "keepalive"}, {},
            [](const Core& c, At) { return number(c.rc.keepalives_exhausted); }),
    counter("causeway_roce_keepalives_total", "Times that an idle peer was asked whether it is there.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rc.keepalives_sent); }),
    counter("causeway_roce_cnps_total", "Congestion notification packets.", kAll, kRx, {},
            [](const Core& c, At) { return number(c.rc.cnps_received); }),
    counter("causeway_roce_cnps_total", "", kAll, kTx, {}, [](const Core& c, At) { return number(c.rc.cnps_sent); }),
    counter(
        "causeway_roce_cnps_ignored_total",
        "Congestion notifications that lowered no rate: too soon after the last, nothing under way, no room, or switched off.",
        kAll, {}, {}, [](const Core& c, At) { return number(c.rc.cnps_ignored); }),
    counter("causeway_roce_rate_cuts_total", "Congestion notifications that lowered the rate of a queue pair.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rc.rate_cuts); }),
    gauge("causeway_roce_rate_limited_queue_pairs", "Queue pairs whose rate is limited because of congestion.", kAll, {}, {},
          [](const Core& c, At) { return number(c.rc.rates_limited); }),
    counter("causeway_roce_paced_turns_total", "Times that data waited for the rate of its queue pair.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rc.paced_turns); }),
    counter("causeway_roce_ecn_marked_packets_total", "Packets that arrived marked Congestion Experienced.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rc.ecn_marked); }),
    counter("causeway_roce_acks_total", "Acknowledgements: received ones that told something new, and sent ones.", kAll, kRx, {},
            [](const Core& c, At) { return number(c.rc.acks_received); }),
    counter("causeway_roce_acks_total", "", kAll, kTx, {}, [](const Core& c, At) { return number(c.rc.acks_sent); }),
    counter("causeway_roce_replayed_reads_total", "RDMA Reads of a peer answered again.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rc.reads_replayed); }),
    counter("causeway_roce_replayed_atomics_total", "Atomic operations of a peer answered again.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rc.atomics_replayed); }),
    counter("causeway_roce_implied_naks_total", "READ responses found missing when something later was answered.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rc.implied_naks); }),
    counter("causeway_roce_early_responses_total",
            "READ responses and atomic answers kept although others before them were missing.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rc.responses_early); }),
    counter("causeway_roce_tail_probes_total",
            "Packets sent again to ask a peer that was silent for some round trips, before the ACK timeout.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rc.tail_probes); }),
    counter("causeway_roce_late_packets_total", "Packets found late, not lost: what was sent later came first.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rc.packets_late); }),
    counter("causeway_roce_spurious_retransmissions_total", "Repetitions of packets that were late, not lost.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rc.repetitions_spurious); }),
    counter("causeway_roce_sends_behind_reads_total",
            "Times that a SEND waited for a repeated READ request to leave the network.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rc.sends_behind_reads); }),
    counter("causeway_roce_reads_unfenced_total",
            "READ requests repeated without SENDs waiting for them: all fences were in use.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rc.reads_unfenced); }),
    counter("causeway_roce_gap_reports_total", "Sequence NAKs that say what is held behind the gap, between Causeway peers.",
            kAll, kRx, {}, [](const Core& c, At) { return number(c.rc.gap_reports_received); }),
    counter("causeway_roce_gap_reports_total", "", kAll, kTx, {},
            [](const Core& c, At) { return number(c.rc.gap_reports_sent); }),
    counter("causeway_roce_held_packets_total", "Packets that arrived behind a gap and were kept.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rc.packets_held); }),
    counter("causeway_roce_holds_refused_total", "Packets that arrived behind a gap and were dropped for want of room.", kAll, {},
            {}, [](const Core& c, At) { return number(c.rc.holds_refused); }),
    counter("causeway_roce_holds_expired_total",
            "Packets that were kept behind a gap and given up: what was missing did not come in time.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rc.holds_expired); }),
    counter("causeway_roce_bad_responses_total", "READ responses that do not fit their request.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rc.bad_responses); }),
    counter("causeway_roce_window_stalls_total", "Times that data waited for the send window.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rc.window_stalls); }),
    counter("causeway_roce_header_buffer_stalls_total",
            "Times that a packet waited because the pool of header buffers was empty.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rc.no_header_buffer); }),
    counter("causeway_roce_queue_pairs_created_total", "Queue pairs created.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rc.qps_created); }),
    counter("causeway_roce_queue_pairs_destroyed_total", "Queue pairs destroyed.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rc.qps_destroyed); }),
    counter("causeway_roce_queue_pairs_failed_total", "Queue pairs that went to Error for any reason but our own close.", kAll,
            {}, {}, [](const Core& c, At) { return number(c.rc.qps_failed); }),

    // Connection management
    gauge("causeway_connections", "Established connections.", kAll, {}, {},
          [](const Core& c, At) { return number(c.gateway.connections_open); }),
    // Our own RoCE's are the rest.
    gauge("causeway_iwarp_connections", "Of causeway_connections, those over iWARP.", kAll, {}, {},
          [](const Core& c, At) { return number(c.iwarp.connections); }),
    gauge("causeway_verbs_connections", "Of causeway_connections, those over rdma-core; the others are over RoCE.", kAll, {}, {},
          [](const Core& c, At) { return number(c.rnic.connections); }),
    gauge("causeway_verbs_exposed_connections",
          "Of these, those of which the device does not say that the client may reach no memory.", kAll, {}, {},
          [](const Core& c, At) { return number(c.rnic.exposed); }),
    counter("causeway_listener_calls_total", "Calls that came in by a listener.", Scope::kListener, {}, {},
            [](const Core& c, At i) { return number(c.gateway.listeners[i.scope].use.calls); }),
    counter("causeway_listener_replies_total", "Replies to calls that came in by a listener.", Scope::kListener, {}, {},
            [](const Core& c, At i) { return number(c.gateway.listeners[i.scope].use.replies); }),
    counter("causeway_listener_errors_total",
            "Of a listener: replies that refuse the call, and calls that were lost with a connection.", Scope::kListener, {}, {},
            [](const Core& c, At i) { return number(c.gateway.listeners[i.scope].use.errors); }),
    counter("causeway_listener_bytes_total", "Bytes of calls (rx) that came in by a listener, and of replies (tx) to them.",
            Scope::kListener, kRx, {}, [](const Core& c, At i) { return number(c.gateway.listeners[i.scope].use.call_bytes); }),
    counter("causeway_listener_bytes_total", "", Scope::kListener, kTx, {},
            [](const Core& c, At i) { return number(c.gateway.listeners[i.scope].use.reply_bytes); }),
    counter("causeway_listener_calls_postponed_total",
            "Calls that waited for the rates of their listener, or for what their [[client]] section may have.", Scope::kListener,
            {}, {}, [](const Core& c, At i) { return number(c.gateway.listeners[i.scope].calls_postponed); }),
    gauge("causeway_client_connections", "Connections of a [[client]] section's clients.", Scope::kClient, {}, {},
          [](const Core& c, At i) { return number(c.gateway.clients[i.scope].connections); }),
    counter("causeway_client_connections_refused_total", "Connection requests refused by their [[client]] section, by reason.",
            Scope::kClient, {"reason", "denied"}, {},
            [](const Core& c, At i) { return number(c.gateway.clients[i.scope].refused_denied); }),
    counter("causeway_client_connections_refused_total", "", Scope::kClient, {"reason", "limit"}, {},
            [](const Core& c, At i) { return number(c.gateway.clients[i.scope].refused_limit); }),
    gauge("causeway_client_bytes_in_flight", "Bytes of chunks in flight of a [[client]] section's clients.", Scope::kClient, {},
          {}, [](const Core& c, At i) { return number(c.gateway.clients[i.scope].bytes_in_flight); }),
    gauge("causeway_client_credits_granted", "Credits granted to a [[client]] section's clients.", Scope::kClient, {}, {},
          [](const Core& c, At i) { return number(c.gateway.clients[i.scope].credits_granted); }),
    gauge("causeway_client_credits_in_use", "Calls of a [[client]] section's clients that are not answered yet.", Scope::kClient,
          {}, {}, [](const Core& c, At i) { return number(c.gateway.clients[i.scope].credits_in_use); }),
    counter("causeway_client_calls_total", "Calls of a [[client]] section's clients.", Scope::kClient, {}, {},
            [](const Core& c, At i) { return number(c.gateway.clients[i.scope].use.calls); }),
    counter("causeway_client_replies_total", "Replies to a [[client]] section's clients.", Scope::kClient, {}, {},
            [](const Core& c, At i) { return number(c.gateway.clients[i.scope].use.replies); }),
    counter("causeway_client_errors_total",
            "Replies to a [[client]] section's clients that refuse the call, and their calls that were lost with a connection.",
            Scope::kClient, {}, {}, [](const Core& c, At i) { return number(c.gateway.clients[i.scope].use.errors); }),
    counter("causeway_client_bytes_total", "Bytes of calls from (rx) and replies to (tx) a [[client]] section's clients.",
            Scope::kClient, kRx, {}, [](const Core& c, At i) { return number(c.gateway.clients[i.scope].use.call_bytes); }),
    counter("causeway_client_bytes_total", "", Scope::kClient, kTx, {},
            [](const Core& c, At i) { return number(c.gateway.clients[i.scope].use.reply_bytes); }),
    counter("causeway_client_calls_postponed_total",
            "Calls that waited for their [[client]] section's bytes_in_flight_max, for its rates or for those of their listener.",
            Scope::kClient, {}, {}, [](const Core& c, At i) { return number(c.gateway.clients[i.scope].calls_postponed); }),
    gauge("causeway_connections_half_open", "Connection attempts under way.", kAll, {}, {},
          [](const Core& c, At) { return number(c.connections.half_open); }),
    gauge("causeway_connections_timewait", "Ended connections that are still remembered.", kAll, {}, {},
          [](const Core& c, At) { return number(c.connections.timewait); }),
    counter("causeway_connections_total", "Connection attempts by result.", kAll, {}, kAttempts,
            [](const Core& c, At i) {
              return number(i.label == 0 ? c.cm.established + c.iwarp.established + c.rnic.established
                                         : c.cm.ended(kFailedAttempts[i.label - 1]));
            }),
    counter("causeway_connections_closed_total", "Established connections that ended, by reason.", kAll, {}, kEndingReasons,
            [](const Core& c, At i) { return number(connections(c, kEndings[i.label])); }),
    counter("causeway_connections_taken_over_total",
            "Connections that went on when this process followed another one (causewayctl restart).", kAll, {}, {},
            [](const Core& c, At) { return number(connections(c, Ending::kTakenOver)); }),
    counter("causeway_connections_refused_total", "Connection requests that this gateway refused, by reason.", kAll,
            {"reason", "acl"}, {}, [](const Core& c, At) { return number(connections(c, Ending::kRefusedAcl)); }),
    counter("causeway_connections_refused_total", "", kAll, {"reason", "limit"}, {},
            [](const Core& c, At) {
              return number(connections(c, Ending::kRefusedLimit) + connections(c, Ending::kRefusedResources));
            }),
    counter("causeway_connections_refused_total", "", kAll, {"reason", "client_denied"}, {},
            [](const Core& c, At) { return number(connections(c, Ending::kRefusedClientDenied)); }),
    counter("causeway_connections_refused_total", "", kAll, {"reason", "client_limit"}, {},
            [](const Core& c, At) { return number(connections(c, Ending::kRefusedClientLimit)); }),
    counter("causeway_connections_refused_total", "", kAll, {"reason", "backend"}, {},
            [](const Core& c, At) { return number(connections(c, Ending::kRefusedBackend)); }),
    counter("causeway_connections_refused_total", "", kAll, {"reason", "draining"}, {},
            [](const Core& c, At) { return number(connections(c, Ending::kRefusedDraining)); }),
    counter("causeway_connections_handshake_failures_total",
            "Connections that the gateway would have taken and whose client did not finish the handshake.", kAll, {}, {},
            [](const Core& c, At) { return number(connections(c, Ending::kFailedHandshake)); }),
    counter("causeway_iwarp_fpdus_total", "FPDUs of iWARP.", kAll, kRx, {},
            [](const Core& c, At) { return number(c.iwarp_streams.fpdus_received); }),
    counter("causeway_iwarp_fpdus_total", "", kAll, kTx, {},
            [](const Core& c, At) { return number(c.iwarp_streams.fpdus_sent); }),
    counter("causeway_iwarp_bytes_total", "Bytes of these FPDUs, headers and CRCs included.", kAll, kRx, {},
            [](const Core& c, At) { return number(c.iwarp_streams.bytes_received); }),
    counter("causeway_iwarp_bytes_total", "", kAll, kTx, {},
            [](const Core& c, At) { return number(c.iwarp_streams.bytes_sent); }),
    counter("causeway_iwarp_crc_errors_total", "FPDUs whose CRC was wrong; each ends its connection.", kAll, {}, {},
            [](const Core& c, At) { return number(c.iwarp_streams.crc_errors); }),
    counter("causeway_iwarp_terminates_total", "Terminate messages, each the last of its connection, by what it says.", kAll, kRx,
            kTerminates, [](const Core& c, At i) { return number(c.iwarp_streams.terminates_received[i.label]); }),
    counter("causeway_iwarp_terminates_total", "", kAll, kTx, kTerminates,
            [](const Core& c, At i) { return number(c.iwarp_streams.terminates_sent[i.label]); }),
    counter("causeway_iwarp_out_of_buffers_total", "Times that a connection waited because no packet buffer was free.", kAll, {},
            {}, [](const Core& c, At) { return number(c.iwarp_streams.out_of_buffers); }),
    counter("causeway_iwarp_input_waits_total", "Long FPDUs that waited until others had ended.", kAll, {}, {},
            [](const Core& c, At) { return number(c.iwarp.input_waits); }),
    counter("causeway_iwarp_tcp_retransmits_total",
            "TCP segments sent again; a live connection counts up to when it was last looked at.", kAll, {}, {},
            [](const Core& c, At) { return number(c.iwarp_tcp.retransmits); }),
    counter("causeway_iwarp_tcp_blocked_writes_total", "Times that a TCP socket's send buffer was full.", kAll, {}, {},
            [](const Core& c, At) { return number(c.iwarp_tcp.blocked_writes); }),
    counter("causeway_iwarp_tcp_accept_failures_total", "Times that no descriptor or memory was left for a TCP connection.", kAll,
            {}, {}, [](const Core& c, At) { return number(c.iwarp_tcp.accept_failures); }),
    counter("causeway_iwarp_tcp_listen_failures_total", "Addresses of a listener that could not be taken.", kAll, {}, {},
            [](const Core& c, At) { return number(c.iwarp_tcp.listen_failures); }),
    counter("causeway_iwarp_setup_failures_total", "TCP connections that did not become iWARP connections, by reason.", kAll, {},
            kIwarpSetupFailures, [](const Core& c, At i) { return number(c.iwarp.drops[i.label]); }),
    counter("causeway_iwarp_bad_setup_total", "Of these, those with reason bad_setup: what was wrong with the MPA frame.", kAll,
            {}, kMpaErrors, [](const Core& c, At i) { return number(c.iwarp.mpa_errors[i.label + 1]); }),
    counter("causeway_iwarp_streams_ended_total", "iWARP connections that ended, by cause.", kAll, {}, kStreamEnds,
            [](const Core& c, At i) { return number(c.iwarp.stream_errors[i.label + 1]); }),
    counter("causeway_verbs_completions_total", "Work completions of RDMA devices, by status.", kAll, {}, kCompletionStatuses,
            [](const Core& c, At i) { return number(c.rnic_works.completions[i.label]); }),
    counter("causeway_verbs_device_events_total", "Events of RDMA devices, their ports and queue pairs.", kAll, {}, kDeviceEvents,
            [](const Core& c, At i) { return number(c.rnic.device_events[i.label]); }),
    counter("causeway_verbs_work_requests_total", "Work requests given to RDMA devices, receives not included.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rnic_works.work_requests); }),
    counter("causeway_verbs_posts_total", "Calls that gave them, each a chain.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rnic_works.posts); }),
    counter("causeway_verbs_out_of_buffers_total", "Times that a queue pair waited because no packet buffer was free.", kAll, {},
            {}, [](const Core& c, At) { return number(c.rnic_works.out_of_buffers); }),
    counter("causeway_verbs_setup_failures_total", "Connection requests over rdma-core that came to nothing, by reason.", kAll,
            {}, kVerbsSetupFailures, [](const Core& c, At i) { return number(c.rnic.drops[i.label]); }),
    counter("causeway_verbs_queue_pairs_ended_total", "Queue pairs of RDMA devices that ended, by cause.", kAll, {}, kVerbsEnds,
            [](const Core& c, At i) { return number(c.rnic.errors[i.label + 1]); }),
    counter("causeway_cm_messages_total", "Connection management messages.", kAll, kRx, kMessageTypes,
            [](const Core& c, At i) { return number(c.cm.received[i.label]); }),
    counter("causeway_cm_messages_total", "", kAll, kTx, kMessageTypes,
            [](const Core& c, At i) { return number(c.cm.sent[i.label]); }),
    counter("causeway_cm_rejects_total", "REJ messages by reason.", kAll, kRx, kRejectReasons,
            [](const Core& c, At i) { return number(reject_count(c.cm.rejects_received, i.label)); }),
    counter("causeway_cm_rejects_total", "", kAll, kTx, kRejectReasons,
            [](const Core& c, At i) { return number(reject_count(c.cm.rejects_sent, i.label)); }),
    counter("causeway_cm_discards_total", "Management datagrams not acted upon, each under one reason.", kAll, {}, kCmDrops,
            [](const Core& c, At i) { return number(c.cm.drops[i.label]); }),
    counter("causeway_cm_connections_ended_total", "Established connections that ended, as the connection manager saw it.", kAll,
            {}, kCmEndingOutcomes, [](const Core& c, At i) { return number(c.cm.ended(kCmEndings[i.label])); }),
    counter("causeway_cm_duplicates_total", "Management messages recognised as repeated.", kAll, {}, kMessageTypes,
            [](const Core& c, At i) { return number(c.cm.duplicates[i.label]); }),
    counter("causeway_cm_retransmissions_total", "Management messages sent again for want of an answer.", kAll, {}, kMessageTypes,
            [](const Core& c, At i) { return number(c.cm.repeated[i.label]); }),
    counter("causeway_cm_established_by_data_total", "Connections whose RTU was lost and whose first data stood in for it.", kAll,
            {}, {}, [](const Core& c, At) { return number(c.cm.established_by_data); }),
    counter("causeway_cm_delays_received_total", "MRA messages that extended a wait.", kAll, {}, {},
            [](const Core& c, At) { return number(c.cm.delays_received); }),
    counter("causeway_cm_timewaits_cut_short_total", "Ended connections forgotten early to make room.", kAll, {}, {},
            [](const Core& c, At) { return number(c.cm.timewaits_cut_short); }),
    counter("causeway_cm_disconnects_cut_short_total", "DREQs whose answer was not waited for any longer, to make room.", kAll,
            {}, {}, [](const Core& c, At) { return number(c.cm.disconnects_cut_short); }),
    counter("causeway_cm_transmit_queue_full_total", "Management datagrams lost for want of room.", kAll, {}, {},
            [](const Core& c, At) { return number(c.cm.transmit_queue_full); }),

    // RPC-over-RDMA
    gauge("causeway_rpcrdma_credits_granted", "Credits granted, all connections together.", kAll, {}, {},
          [](const Core& c, At) { return number(c.rpcrdma.credits_granted); }),
    gauge("causeway_rpcrdma_credits_in_use", "Calls received and not yet answered.", kAll, {}, {},
          [](const Core& c, At) { return number(c.rpcrdma.credits_in_use); }),
    gauge("causeway_rpcrdma_reverse_credits_granted", "Credits that clients grant for calls to them (RFC 8167).", kAll, {}, {},
          [](const Core& c, At) { return number(c.rpcrdma.reverse_credits_granted); }),
    gauge("causeway_rpcrdma_reverse_credits_in_use", "Calls sent to clients and not yet answered.", kAll, {}, {},
          [](const Core& c, At) { return number(c.rpcrdma.reverse_credits_in_use); }),
    counter("causeway_rpcrdma_credit_violations_total", "Calls beyond the credits granted.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rpcrdma.credit_violations); }),
    counter("causeway_rpcrdma_credit_stalls_total", "Calls that waited for a credit of the peer.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rpcrdma.credit_stalls); }),
    counter("causeway_rpcrdma_messages_total", "RPC-over-RDMA messages.", kAll, kRx, kMessageKinds,
            [](const Core& c, At i) { return number(c.rpcrdma.messages_in[i.label]); }),
    counter("causeway_rpcrdma_messages_total", "", kAll, kTx, kMessageKinds,
            [](const Core& c, At i) { return number(c.rpcrdma.messages_out[i.label]); }),
    counter("causeway_rpcrdma_chunks_total", "Chunks used.", kAll, {}, kChunkLists,
            [](const Core& c, At i) { return number(c.rpcrdma.chunks[i.label].chunks); }),
    counter("causeway_rpcrdma_chunk_segments_total", "Segments of the chunks used.", kAll, {}, kChunkLists,
            [](const Core& c, At i) { return number(c.rpcrdma.chunks[i.label].segments); }),
    counter("causeway_rpcrdma_chunk_bytes_total", "Bytes moved by RDMA Read and RDMA Write.", kAll, {}, kChunkLists,
            [](const Core& c, At i) { return number(c.rpcrdma.chunks[i.label].bytes); }),
    counter("causeway_rpcrdma_errors_total", "RDMA_ERROR messages.", kAll, kRx,
            {"code", 2, [](uint32_t i) { return i == 0 ? "vers" : "chunk"; }},
            [](const Core& c, At i) { return number(i.label == 0 ? c.rpcrdma.errors_in_version : c.rpcrdma.errors_in_chunk); }),
    counter("causeway_rpcrdma_errors_total", "", kAll, kTx, {"code", 2, [](uint32_t i) { return i == 0 ? "vers" : "chunk"; }},
            [](const Core& c, At i) { return number(i.label == 0 ? c.rpcrdma.errors_out_version : c.rpcrdma.errors_out_chunk); }),
    counter("causeway_rpcrdma_malformed_headers_total", "Transport headers refused, by reason.", kAll, {}, kHeaderErrors,
            [](const Core& c, At i) { return number(c.rpcrdma.malformed[i.label]); }),
    counter("causeway_rpcrdma_short_messages_total", "Messages shorter than the fixed header.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rpcrdma.short_messages); }),
    counter("causeway_rpcrdma_unknown_xids_total", "Replies that nobody waits for.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rpcrdma.unknown_xid); }),
    counter("causeway_rpcrdma_xid_mismatches_total", "Messages whose header and RPC message have different XIDs.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rpcrdma.xid_mismatch); }),
    counter("causeway_rpcrdma_duplicate_xids_total", "Calls with an XID that their connection had in flight already.", kAll, {},
            {}, [](const Core& c, At) { return number(c.gateway.duplicate_xids); }),
    counter("causeway_calls_unrouted_total", "Calls of programs that their listener has no backend for.", kAll, {}, {},
            [](const Core& c, At) { return number(c.gateway.calls_unrouted); }),
    counter("causeway_route_connect_failures_total", "Backends of routes that could not be reached when a call wanted one.", kAll,
            {}, {}, [](const Core& c, At) { return number(c.gateway.lane_failures); }),
    counter("causeway_backend_orphaned_calls_total", "Calls that were at the backend when their client's connection ended.", kAll,
            {}, {}, [](const Core& c, At) { return number(c.gateway.orphaned_calls); }),
    counter("causeway_backend_orphaned_calls_expired_total", "Orphaned calls that the backend did not answer in time.", kAll, {},
            {}, [](const Core& c, At) { return number(c.gateway.orphaned_expired); }),
    gauge("causeway_backend_orphans", "Backend connections kept until their orphaned calls are answered.", kAll, {}, {},
          [](const Core& c, At) { return number(c.gateway.orphans); }),
    counter("causeway_connections_held_total", "Connections whose calls waited for those of the client's connections before.",
            kAll, {}, {}, [](const Core& c, At) { return number(c.gateway.connections_held); }),
    counter("causeway_rpcrdma_read_stalls_total",
            "Times that a call waited before its RDMA Reads because too much was being read.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rpcrdma.read_stalls); }),
    counter("causeway_rpcrdma_bad_replies_total", "Replies with a faulty header or with chunks that were not offered.", kAll, {},
            {}, [](const Core& c, At) { return number(c.rpcrdma.bad_replies); }),
    counter("causeway_rpcrdma_repeated_faults_total", "Calls that broke their client's last connection, refused on the next one.",
            kAll, {}, {}, [](const Core& c, At) { return number(c.rpcrdma.refused_again); }),
    counter("causeway_rpcrdma_grants_lowered_total", "Times that clients were granted fewer credits for want of call slots.",
            kAll, {}, {}, [](const Core& c, At) { return number(c.gateway.grants_lowered); }),
    counter("causeway_rpcrdma_late_replies_total", "Answers to calls that were gone.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rpcrdma.late_replies); }),
    counter("causeway_rpcrdma_ddp_violations_total",
            "Calls and replies that reduced what is not eligible, or did not reduce what has to be (RFC 8166 6.1).", kAll, {}, {},
            [](const Core& c, At) { return number(c.rpcrdma.ddp_violations); }),
    counter("causeway_rpcrdma_reverse_dropped_total", "Messages of the reverse direction that nobody is there for.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rpcrdma.reverse_dropped); }),
    counter("causeway_rpcrdma_remote_invalidations_total", "Replies sent with Invalidate.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rpcrdma.remote_invalidations); }),
    counter("causeway_rpcrdma_pullups_total", "Small copies made to keep the pieces of a message few.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rpcrdma.pullups); }),
    counter("causeway_rpcrdma_no_buffer_total", "Messages that could not be built because a pool was empty.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rpcrdma.no_buffer); }),
    counter("causeway_rpcrdma_no_send_work_total",
            "Times that a message waited because all work requests of its core were in use.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rpcrdma.no_send_work); }),
    counter("causeway_rpcrdma_call_timeouts_total", "Calls that were not answered in time.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rpcrdma.call_timeouts); }),
    counter("causeway_rpcrdma_read_timeouts_total", "Connections that ended because the client answered no RDMA Read.", kAll, {},
            {}, [](const Core& c, At) { return number(c.rpcrdma.read_timeouts); }),
    counter("causeway_rpcrdma_slow_reads_total",
            "Connections that ended because their RDMA Reads were slow and others waited for the buffers that they held.", kAll,
            {}, {}, [](const Core& c, At) { return number(c.rpcrdma.slow_reads); }),
    counter("causeway_rpcrdma_reply_timeouts_total", "Connections that ended because the client did not acknowledge a reply.",
            kAll, {}, {}, [](const Core& c, At) { return number(c.rpcrdma.reply_timeouts); }),
    counter("causeway_rpcrdma_reply_stalls_total",
            "Times that a call waited because its client had too many replies to acknowledge.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rpcrdma.reply_stalls); }),
    counter("causeway_rpcrdma_gss_window_stalls_total",
            "Times that a call waited because an unanswered one was a whole RPCSEC_GSS sequence window older.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rpcrdma.gss_window_stalls); }),
    counter("causeway_rpcrdma_wait_timeouts_total",
            "Connections that ended because a call waited too long for slots, buffers or its turn.", kAll, {}, {},
            [](const Core& c, At) { return number(c.rpcrdma.wait_timeouts); }),

    // Backends
    gauge(
        "causeway_backend_up",
        "1 when a server of the backend is up; without checks, when it accepted the last connection. No sample before the first.",
        Scope::kBackend, {}, {}, [](const Core& c, At i) { return backend_up(c.gateway.backends[i.scope]); }, Fold::kMax),
    gauge("causeway_backend_connections", "Connections to the backend.", Scope::kBackend, {}, {},
          [](const Core& c, At i) { return number(c.gateway.backends[i.scope].links); }),
    gauge("causeway_backend_inflight_calls", "Calls that the backend has not answered yet.", Scope::kBackend, {}, {},
          [](const Core& c, At i) { return number(c.gateway.backends[i.scope].calls_in_flight); }),
    counter("causeway_backend_calls_total", "Calls handed to the backend.", Scope::kBackend, {}, {},
            [](const Core& c, At i) { return number(c.gateway.backends[i.scope].calls); }),
    counter("causeway_backend_replies_total", "Replies of the backend to calls that were still waited for.", Scope::kBackend, {},
            {}, [](const Core& c, At i) { return number(c.gateway.backends[i.scope].replies); }),
    counter("causeway_backend_connects_total", "Connections made to the backend.", Scope::kBackend, {}, {},
            [](const Core& c, At i) { return number(c.gateway.backends[i.scope].opens); }),
    counter("causeway_backend_reconnects_total", "Backend connections lost while their client was there.", Scope::kBackend, {},
            {}, [](const Core& c, At i) { return number(c.gateway.backends[i.scope].closes); }),
    counter("causeway_backend_connect_failures_total", "Attempts to connect to the backend that failed.", Scope::kBackend, {}, {},
            [](const Core& c, At i) { return number(c.gateway.backends[i.scope].open_failures); }),
    counter("causeway_backend_call_timeouts_total", "Calls that the backend did not answer in time.", Scope::kBackend, {}, {},
            [](const Core& c, At i) { return number(c.gateway.backends[i.scope].call_timeouts); }),
    counter("causeway_backend_bytes_total", "Bytes to (tx) and from (rx) the backend.", Scope::kBackend, kRx, {},
            [](const Core& c, At i) { return number(c.gateway.backends[i.scope].bytes_in); }),
    counter("causeway_backend_bytes_total", "", Scope::kBackend, kTx, {},
            [](const Core& c, At i) { return number(c.gateway.backends[i.scope].bytes_out); }),
    counter("causeway_backend_error_replies_total", "Replies of the backend that refuse the call (RFC 5531 9).", Scope::kBackend,
            {}, {}, [](const Core& c, At i) { return number(c.gateway.backends[i.scope].errors); }),
    counter("causeway_backend_call_seconds_total", "Time that the replies of a TCP backend took, by all of them together.",
            Scope::kBackend, {}, {}, [](const Core& c, At i) { return seconds(c.gateway.backends[i.scope].call_ns); }),
    counter("causeway_backend_unmatched_replies_total", "Replies of backends that nobody waits for.", kAll, {}, {},
            [](const Core& c, At) { return number(c.gateway.replies_unmatched); }),
    counter("causeway_backend_malformed_messages_total", "Messages of backends too short to be RPC.", kAll, {}, {},
            [](const Core& c, At) { return number(c.gateway.messages_malformed); }),
    counter("causeway_backend_reverse_calls_total", "Calls of backends to clients (RFC 8167).", kAll, {}, {},
            [](const Core& c, At) { return number(c.gateway.reverse_calls); }),
    counter("causeway_backend_reverse_replies_total", "Replies of clients to calls of backends.", kAll, {}, {},
            [](const Core& c, At) { return number(c.gateway.reverse_replies); }),
    gauge("causeway_backend_replies_waiting", "Replies of backends that wait for memory (pool replies) before they are read.",
          kAll, {}, {}, [](const Core& c, At) { return number(c.workers.replies_waiting); }),
    counter("causeway_backend_replies_waited_total", "Replies of backends that had to wait for memory.", kAll, {}, {},
            [](const Core& c, At) { return number(c.workers.replies_waited); }),
    counter("causeway_backend_replies_stalled_total",
            "Replies that a backend began and did not go on with: the connection to it was closed.", kAll, {}, {},
            [](const Core& c, At) { return number(c.workers.replies_stalled); }),
    counter("causeway_backend_source_ports_missed_total",
            "Connections to backends that were not made from the port of the client's connection before, which stayed busy.",
            kAll, {}, {}, [](const Core& c, At) { return number(c.workers.other_ports); }),
    counter("causeway_backend_reverse_calls_dropped_total", "Calls of backends to clients that did not get there, by reason.",
            kAll, {}, kReverseDrops, [](const Core& c, At i) { return number(c.gateway.reverse_calls_dropped[i.label]); }),
    counter("causeway_log_notices_dropped_total", "Events that the log has no line of because they came too fast.", kAll, {}, {},
            [](const Core& c, At) { return number(c.gateway.notices_dropped); }),

    // Calls by what they ask for; how long they took stands in causeway_rpc_duration_seconds.
    counter("causeway_nfs4_operations_total", "Operations in NFSv4 COMPOUNDs of clients, the first 16 of each.", kAll, {},
            kNfs4OperationNames, [](const Core& c, At i) { return number(c.gateway.nfs4_operations[i.label]); }),

    // Cores
    counter("causeway_lcore_busy_seconds_total", "Time in loop turns that found work.", Scope::kLcore, {}, {},
            [](const Core& c, At) { return seconds(c.loop.busy_ns); }),
    counter("causeway_lcore_idle_seconds_total", "Time in loop turns that found none, sleep included.", Scope::kLcore, {}, {},
            [](const Core& c, At) { return seconds(c.loop.idle_ns); }),
    counter("causeway_lcore_polls_total", "Loop turns.", Scope::kLcore, {"result", "busy"}, {},
            [](const Core& c, At) { return number(c.loop.polls_busy); }),
    counter("causeway_lcore_polls_total", "", Scope::kLcore, {"result", "idle"}, {},
            [](const Core& c, At) { return number(c.loop.polls_idle); }),
    counter("causeway_lcore_sleeps_total", "Idle loop turns that ended in a sleep.", Scope::kLcore, {}, {},
            [](const Core& c, At) { return number(c.loop.sleeps); }),
    counter("causeway_lcore_frames_received_total", "Frames that this core took from its queues of the ports.", Scope::kLcore, {},
            {}, [](const Core& c, At) { return number(frames_received(c)); }),
    counter("causeway_lcore_frames_handed_total", "Frames that this core received and gave to the core that they are for.",
            Scope::kLcore, {}, {}, [](const Core& c, At) { return number(c.loop.frames_handed); }),
    counter("causeway_lcore_frames_not_handed_total", "Frames dropped because the core that they are for had too many waiting.",
            Scope::kLcore, {}, {}, [](const Core& c, At) { return number(c.loop.frames_not_handed); }),
    gauge("causeway_lcore_connections", "Connections of this core.", Scope::kLcore, {}, {},
          [](const Core& c, At) { return number(c.gateway.connections_open); }),

    // Ports and pools
    gauge(
        "causeway_port_up", "1 when the link is up.", Scope::kPort, {}, {},
        [](const Core& c, At i) { return number(c.ports[i.scope].link_up); }, Fold::kMax),
    counter("causeway_port_packets_total", "All frames.", Scope::kPort, kRx, {},
            [](const Core& c, At i) { return number(c.ports[i.scope].rx_packets); }),
    counter("causeway_port_packets_total", "", Scope::kPort, kTx, {},
            [](const Core& c, At i) { return number(c.ports[i.scope].tx_packets); }),
    counter("causeway_port_bytes_total", "Bytes of all frames.", Scope::kPort, kRx, {},
            [](const Core& c, At i) { return number(c.ports[i.scope].rx_bytes); }),
    counter("causeway_port_bytes_total", "", Scope::kPort, kTx, {},
            [](const Core& c, At i) { return number(c.ports[i.scope].tx_bytes); }),
    counter("causeway_port_rx_missed_total", "Frames lost because the NIC had no free descriptor: the core is too slow.",
            Scope::kPort, {}, {}, [](const Core& c, At i) { return number(c.ports[i.scope].rx_missed); }),
    counter("causeway_port_rx_no_mbuf_total", "Receive attempts without a packet buffer: the pool is too small.", Scope::kPort,
            {}, {}, [](const Core& c, At i) { return number(c.ports[i.scope].rx_no_mbuf); }),
    counter("causeway_port_rx_errors_total", "Frames broken on the wire or longer than the MTU allows.", Scope::kPort, {}, {},
            [](const Core& c, At i) { return number(c.ports[i.scope].rx_errors); }),
    counter("causeway_port_tx_dropped_total", "Frames that the NIC's queue had no room for.", Scope::kPort, {}, {},
            [](const Core& c, At i) { return number(c.ports[i.scope].tx_dropped); }),
    counter("causeway_port_arp_packets_total", "ARP frames.", Scope::kPort, kRx, {},
            [](const Core& c, At i) { return number(c.ports[i.scope].arp_rx); }),
    counter("causeway_port_arp_packets_total", "", Scope::kPort, kTx, {},
            [](const Core& c, At i) { return number(c.ports[i.scope].arp_tx); }),
    counter("causeway_port_nd_packets_total", "IPv6 neighbour discovery packets.", Scope::kPort, kRx, {},
            [](const Core& c, At i) { return number(c.ports[i.scope].nd_rx); }),
    counter("causeway_port_nd_packets_total", "", Scope::kPort, kTx, {},
            [](const Core& c, At i) { return number(c.ports[i.scope].nd_tx); }),
    counter("causeway_port_icmp_packets_total", "Echo requests and replies, both families.", Scope::kPort, kRx, {},
            [](const Core& c, At i) { return number(c.ports[i.scope].icmp_rx); }),
    counter("causeway_port_icmp_packets_total", "", Scope::kPort, kTx, {},
            [](const Core& c, At i) { return number(c.ports[i.scope].icmp_tx); }),
    counter("causeway_port_other_packets_total", "Received frames of no protocol of ours, ignored.", Scope::kPort, {}, {},
            [](const Core& c, At i) { return number(c.ports[i.scope].other_rx); }),
    counter("causeway_port_exception_packets_total", "Frames that are the kernel's, through the port's exception tap.",
            Scope::kPort, kToKernel, {}, [](const Core& c, At i) { return number(c.ports[i.scope].to_kernel); }),
    counter("causeway_port_exception_packets_total", "", Scope::kPort, kFromKernel, {},
            [](const Core& c, At i) { return number(c.ports[i.scope].from_kernel); }),
    counter("causeway_port_exception_dropped_total",
            "Frames lost on the exception path: the tap was behind or down, or the NIC's queue or the pool had no room.",
            Scope::kPort, kToKernel, {}, [](const Core& c, At i) { return number(c.ports[i.scope].to_kernel_dropped); }),
    counter("causeway_port_exception_dropped_total", "", Scope::kPort, kFromKernel, {},
            [](const Core& c, At i) { return number(c.ports[i.scope].from_kernel_dropped); }),
    counter("causeway_port_links_refused_total",
            "Other ends of a memif link that were sent away before it was up: a handshake out of order or too slow, a stranger.",
            Scope::kPort, {}, {}, [](const Core& c, At i) { return number(c.ports[i.scope].links_refused); }),
    gauge("causeway_mempool_objects", "Packet buffers in the pool.", Scope::kPool, {}, {},
          [](const Core& c, At i) { return number(c.pools[i.scope].objects); }),
    gauge("causeway_mempool_available_objects", "Packet buffers free in the pool.", Scope::kPool, {}, {},
          [](const Core& c, At i) { return number(c.pools[i.scope].available); }),
    counter("causeway_mempool_exhausted_total",
            "Allocations that the pool had too little for, and bursts received while it had so little that not all was taken.",
            Scope::kPool, {}, {}, [](const Core& c, At i) { return number(c.pools[i.scope].empty); }),
};

}  // namespace

std::span<const MetricRow> metric_rows() {
  return kRows;
}

}  // namespace cw::telemetry
