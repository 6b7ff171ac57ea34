#include "control/admin/answer_fields.h"

#include <array>
#include <type_traits>
#include <variant>

#include "iwarp/stream_fields.h"
#include "rnic/rnic_fields.h"
#include "rocev2/rc/qp_fields.h"

namespace cw::control {
namespace {

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

// What clients and their sections have asked for and got.
template <typename T>
constexpr AnswerField<T> kCallsPerSecondMax = {"calls_per_second_max", "calls per second at most; null = no limit",
                                               [](const T& r) { return or_null(r.rates_max.calls_per_second); }};
template <typename T>
constexpr AnswerField<T> kBytesPerSecondMax = {"bytes_per_second_max",
                                               "bytes per second at most, of calls and replies; null = no limit",
                                               [](const T& r) { return or_null(r.rates_max.bytes_per_second); }};
template <typename T>
constexpr AnswerField<T> kCalls = {"calls", "calls taken", [](const T& r) { return Json(r.use.calls); }};
template <typename T>
constexpr AnswerField<T> kReplies = {"replies", "replies to them", [](const T& r) { return Json(r.use.replies); }};
template <typename T>
constexpr AnswerField<T> kErrors = {"errors", "replies that refuse the call, and calls that were lost with their connection",
                                    [](const T& r) { return Json(r.use.errors); }};
template <typename T>
constexpr AnswerField<T> kCallBytes = {"call_bytes", "bytes of the calls, chunks included",
                                       [](const T& r) { return Json(r.use.call_bytes); }};
template <typename T>
constexpr AnswerField<T> kReplyBytes = {"reply_bytes", "bytes of the replies, chunks included",
                                        [](const T& r) { return Json(r.use.reply_bytes); }};

constexpr std::array<AnswerField<PortStatus>, 10> kPortStatus = {{
    {"device", "DPDK device, as configured", [](const PortStatus& r) { return Json(r.device); }},
    {"mac", "Ethernet address", [](const PortStatus& r) { return Json(r.mac); }},
    {"addresses", "own addresses with prefix length", [](const PortStatus& r) { return Json(r.addresses); }},
    {"mtu", "Ethernet MTU, bytes", [](const PortStatus& r) { return Json(r.mtu); }},
    {"path_mtu", "largest RoCE path MTU that fits, bytes", [](const PortStatus& r) { return Json(r.path_mtu); }},
    {"link_up", "the link is up", [](const PortStatus& r) { return Json(r.link_up); }},
    {"link_mbps", "speed, Mbit/s; 0 = unknown", [](const PortStatus& r) { return Json(r.link_mbps); }},
    {"driver", "DPDK's driver", [](const PortStatus& r) { return Json(r.driver); }},
    {"queues", "receive and transmit queues", [](const PortStatus& r) { return Json(r.queues); }},
    {"steering", "how packets reach their core: flow (rules of the NIC), rss, software (handed over), none (one core)",
     [](const PortStatus& r) { return Json(r.steering); }},
}};

constexpr std::array<AnswerField<RdmaPortStatus>, 4> kRdmaPortStatus = {{
    {"device", "RDMA device, as the kernel names it", [](const RdmaPortStatus& r) { return Json(r.device); }},
    {"port", "number of its port; null = the device is not there", [](const RdmaPortStatus& r) { return or_null(r.port); }},
    {"state", "what the kernel says of it: ACTIVE, DOWN, INIT, ARMED; absent",
     [](const RdmaPortStatus& r) { return Json(r.state); }},
    {"active", "it carries data", [](const RdmaPortStatus& r) { return Json(r.active); }},
}};

constexpr std::array<AnswerField<ListenerStatus>, 19> kListenerStatus = {{
    {"name", "name of the listener", [](const ListenerStatus& r) { return Json(r.name); }},
    {"port", "RDMA port that clients connect to", [](const ListenerStatus& r) { return Json(r.port); }},
    {"transport", "roce, iwarp or verbs; empty = removed", [](const ListenerStatus& r) { return Json(r.transport); }},
    {"device", "RDMA device of a verbs listener; empty = whatever device a client comes by",
     [](const ListenerStatus& r) { return Json(r.device); }},
    {"cut_off", "why no client can reach it, by what its RDMA device is; empty = nothing is known against it",
     [](const ListenerStatus& r) { return Json(r.cut_off); }},
    {"backend", "name of its backend", [](const ListenerStatus& r) { return Json(r.backend); }},
    {"credits", "calls in flight that a connection is granted at most; null = removed",
     [](const ListenerStatus& r) { return or_null(r.credits); }},
    {"inline_bytes", "largest message without chunks, bytes; null = removed",
     [](const ListenerStatus& r) { return or_null(r.inline_bytes); }},
    {"connections", "connections now", [](const ListenerStatus& r) { return Json(r.connections); }},
    {"connections_max", "connections at most; null = removed",
     [](const ListenerStatus& r) { return or_null(r.connections_max); }},
    kCallsPerSecondMax<ListenerStatus>,
    kBytesPerSecondMax<ListenerStatus>,
    {"calls_postponed", "calls that waited for these, or for what their [[client]] section may have",
     [](const ListenerStatus& r) { return Json(r.calls_postponed); }},
    kCalls<ListenerStatus>,
    kReplies<ListenerStatus>,
    kErrors<ListenerStatus>,
    kCallBytes<ListenerStatus>,
    kReplyBytes<ListenerStatus>,
    {"removed", "a reload has taken it away: nobody can connect to it, and it is listed until its last connection has ended",
     [](const ListenerStatus& r) { return Json(r.removed); }},
}};

constexpr std::array<AnswerField<BackendStatus>, 7> kBackendStatus = {{
    {"name", "name of the backend", [](const BackendStatus& r) { return Json(r.name); }},
    {"type", "tcp or builtin", [](const BackendStatus& r) { return Json(r.type); }},
    {"address", "address and port; empty for builtin", [](const BackendStatus& r) { return Json(r.address); }},
    {"up", "a server of it is up; without checks: the last attempt to reach it succeeded; null = not known yet",
     [](const BackendStatus& r) { return or_null(r.up); }},
    {"calls_in_flight", "calls that it has not answered", [](const BackendStatus& r) { return Json(r.calls_in_flight); }},
    {"reconnects", "connections to it made again", [](const BackendStatus& r) { return Json(r.reconnects); }},
    {"call_timeouts", "connections given up because it kept a call too long",
     [](const BackendStatus& r) { return Json(r.call_timeouts); }},
}};

constexpr std::array<AnswerField<ServerStatus>, 13> kServerStatus = {{
    {"backend", "name of its backend", [](const ServerStatus& r) { return Json(r.backend); }},
    {"address", "address and port", [](const ServerStatus& r) { return Json(r.address); }},
    {"role", "primary, backup, or removed (by a reload; its connections end by themselves)",
     [](const ServerStatus& r) { return Json(r.role); }},
    {"up", "its checks say that it is up; null = they are off, or none has ended yet",
     [](const ServerStatus& r) { return or_null(r.up); }},
    {"checked", "its checks are on", [](const ServerStatus& r) { return Json(r.checked); }},
    {"preferred", "new connections go to it: of its backend, the first that is not known to be down",
     [](const ServerStatus& r) { return Json(r.preferred); }},
    {"connections", "connections to it now", [](const ServerStatus& r) { return Json(r.connections); }},
    {"calls_in_flight", "calls that it has not answered", [](const ServerStatus& r) { return Json(r.calls_in_flight); }},
    {"checks", "checks that have ended", [](const ServerStatus& r) { return Json(r.checks); }},
    {"check_failures", "of these, how many failed", [](const ServerStatus& r) { return Json(r.check_failures); }},
    {"check_age_seconds", "time since the last check ended; null = none has",
     [](const ServerStatus& r) { return r.check_age ? Json(r.check_age->to_seconds()) : Json(); }},
    {"check_seconds", "how long the last check took", [](const ServerStatus& r) { return Json(r.check_duration.to_seconds()); }},
    {"check_error", "why the last check failed; empty = it did not", [](const ServerStatus& r) { return Json(r.check_error); }},
}};

constexpr std::array<AnswerField<RouteStatus>, 4> kRouteStatus = {{
    {"listener", "name of the listener that calls come in by", [](const RouteStatus& r) { return Json(r.listener); }},
    {"program", "number of the RPC program; null = all that have no route of their own",
     [](const RouteStatus& r) { return or_null(r.program); }},
    {"backend", "name of the backend that takes the calls; empty = they are answered with PROG_UNAVAIL",
     [](const RouteStatus& r) { return Json(r.backend); }},
    {"calls", "calls that went this way", [](const RouteStatus& r) { return Json(r.calls); }},
}};

constexpr std::array<AnswerField<ClientStatus>, 21> kClientStatus = {{
    {"name", "name of the section", [](const ClientStatus& r) { return Json(r.name); }},
    {"prefixes",
     "networks of its clients; an address belongs to the section with the longest that it is in. "
     "None: a reload has removed the section, and connections from before still count in it",
     [](const ClientStatus& r) { return Json(r.prefixes); }},
    {"allow", "they may connect", [](const ClientStatus& r) { return Json(r.allow); }},
    {"connections", "connections of all of them now", [](const ClientStatus& r) { return Json(r.connections); }},
    {"connections_max", "connections of all of them at most; null = as listeners and limits say",
     [](const ClientStatus& r) { return or_null(r.connections_max); }},
    {"credits_max", "calls in flight that each connection is granted at most; null = as the listener says",
     [](const ClientStatus& r) { return or_null(r.credits_max); }},
    {"credits_granted", "credits granted to all of their connections together",
     [](const ClientStatus& r) { return Json(r.credits_granted); }},
    {"credits_in_use", "calls of all of them that are not answered yet",
     [](const ClientStatus& r) { return Json(r.credits_in_use); }},
    {"bytes_in_flight", "bytes of the chunks of their calls in flight",
     [](const ClientStatus& r) { return Json(r.bytes_in_flight); }},
    {"bytes_in_flight_max", "such bytes at most; null = no limit",
     [](const ClientStatus& r) { return or_null(r.bytes_in_flight_max); }},
    kCallsPerSecondMax<ClientStatus>,
    kBytesPerSecondMax<ClientStatus>,
    {"weight", "its share where a listener's rate does not do for all: so many times what a section of weight 1 gets",
     [](const ClientStatus& r) { return Json(r.weight); }},
    {"calls_postponed", "calls that waited for these limits, or for the rates of their listener",
     [](const ClientStatus& r) { return Json(r.calls_postponed); }},
    {"refused_denied", "connection requests refused because of allow = false",
     [](const ClientStatus& r) { return Json(r.refused_denied); }},
    {"refused_limit", "connection requests refused because of connections_max",
     [](const ClientStatus& r) { return Json(r.refused_limit); }},
    kCalls<ClientStatus>,
    kReplies<ClientStatus>,
    kErrors<ClientStatus>,
    kCallBytes<ClientStatus>,
    kReplyBytes<ClientStatus>,
}};

Json json_of(const verbs::QueuePairValue& value) {
  return std::visit(
      [](const auto& held) {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, std::monostate>) {
          return Json();
        } else if constexpr (std::is_same_v<Held, Duration>) {
          return Json(held.to_seconds());
        } else {
          return Json(held);
        }
      },
      value);
}

Json number_or_null(verbs::Qpn qpn) {
  return qpn.value() == 0 ? Json() : Json(qpn.value());
}

// Facts of a queue pair that a connection's row tells as well. Some have another name there: names that went out stay.
const verbs::QueuePairInfo& info_of(const ConnectionStatus& row) {
  return row.qp;
}
const verbs::QueuePairInfo& info_of(const QueuePairStatus& row) {
  return row.info;
}
template <typename Row>
constexpr AnswerField<Row> kWire = {"wire", "RoCE, iWARP or verbs", [](const Row& r) { return Json(info_of(r).wire); }};
template <typename Row>
constexpr AnswerField<Row> kLocalQpn = {"local_qpn", "our queue pair number; null = iWARP has none",
                                        [](const Row& r) { return number_or_null(info_of(r).local_qpn); }};
template <typename Row>
constexpr AnswerField<Row> kRemoteQpn = {"remote_qpn", "the client's queue pair number; null = iWARP has none",
                                         [](const Row& r) { return number_or_null(info_of(r).remote_qpn); }};
template <typename Row>
constexpr AnswerField<Row> payload_in(const char* name) {
  return {name, "payload bytes received", [](const Row& r) { return Json(info_of(r).traffic.payload_bytes_in); }};
}
template <typename Row>
constexpr AnswerField<Row> payload_out(const char* name) {
  return {name, "payload bytes sent", [](const Row& r) { return Json(info_of(r).traffic.payload_bytes_out); }};
}
template <typename Row>
constexpr AnswerField<Row> kRetransmits = {"retransmits", "packets, of iWARP TCP segments, sent again",
                                           [](const Row& r) { return Json(info_of(r).traffic.retransmits); }};
template <typename Row>
constexpr AnswerField<Row> kRoundTrip = {"round_trip_seconds", "smoothed round trip on the wire; 0 = not measured yet",
                                         [](const Row& r) { return Json(info_of(r).traffic.round_trip.to_seconds()); }};
template <typename Row>
constexpr AnswerField<Row> why_failed(const char* name) {
  return {name, "why the queue pair is in ERROR; empty = it is not",
          [](const Row& r) { return Json(to_text(info_of(r).error)); }};
}

constexpr std::array<AnswerField<ConnectionStatus>, 28> kConnectionStatus = {{
    {"id", "number of the connection, unique over the life of the process", [](const ConnectionStatus& r) { return Json(r.id); }},
    {"listener", "name of the listener", [](const ConnectionStatus& r) { return Json(r.listener); }},
    kWire<ConnectionStatus>,
    {"peer_address", "address of the client", [](const ConnectionStatus& r) { return Json(r.peer_address); }},
    {"peer_port", "port that the client chose: of the RDMA IP CM header, or of TCP",
     [](const ConnectionStatus& r) { return Json(r.peer_port); }},
    {"section", "[[client]] section whose budget it counts in; empty = none",
     [](const ConnectionStatus& r) { return Json(r.section); }},
    kLocalQpn<ConnectionStatus>,
    kRemoteQpn<ConnectionStatus>,
    {"state", "opening-backend, accepting or established", [](const ConnectionStatus& r) { return Json(r.state); }},
    {"lcore", "CPU of its poll core", [](const ConnectionStatus& r) { return Json(r.lcore); }},
    {"path_mtu", "agreed path MTU of RoCE, bytes; else null",
     [](const ConnectionStatus& r) { return json_of(r.qp.value("path_mtu")); }},
    {"inline_send_bytes", "largest inline message that we send",
     [](const ConnectionStatus& r) { return Json(r.inline_send_bytes); }},
    {"inline_receive_bytes", "largest inline message that we take",
     [](const ConnectionStatus& r) { return Json(r.inline_receive_bytes); }},
    {"remote_invalidate", "replies may invalidate the client's memory handle",
     [](const ConnectionStatus& r) { return Json(r.remote_invalidate); }},
    {"credits_granted", "calls that the client may have in flight",
     [](const ConnectionStatus& r) { return Json(r.credits_granted); }},
    {"calls_in_flight", "calls received and not yet answered", [](const ConnectionStatus& r) { return Json(r.calls_in_flight); }},
    {"reverse_credits_granted", "calls that the client takes from the backend; 0 = none",
     [](const ConnectionStatus& r) { return Json(r.reverse_credits_granted); }},
    {"reverse_calls_in_flight", "calls of the backend that the client has not answered",
     [](const ConnectionStatus& r) { return Json(r.reverse_calls_in_flight); }},
    payload_in<ConnectionStatus>("bytes_in"),
    payload_out<ConnectionStatus>("bytes_out"),
    {"rpcs", "calls answered", [](const ConnectionStatus& r) { return Json(r.rpcs); }},
    kRetransmits<ConnectionStatus>,
    kRoundTrip<ConnectionStatus>,
    {"selective_recovery", "only lost packets are sent again, as agreed with the peer; null = TCP decides",
     [](const ConnectionStatus& r) { return json_of(r.qp.value("selective_recovery")); }},
    {"cnps_received", "congestion notifications received; null = RoCE only",
     [](const ConnectionStatus& r) { return json_of(r.qp.value("cnps_in")); }},
    {"rate_bytes_per_second", "limit of the sending rate because of congestion; 0 = none, null = RoCE only",
     [](const ConnectionStatus& r) { return json_of(r.qp.value("rate_bytes_per_second")); }},
    {"age_seconds", "time since the connection request", [](const ConnectionStatus& r) { return Json(r.age.to_seconds()); }},
    why_failed<ConnectionStatus>("last_error"),
}};

// What every transport has; its own fields follow (verbs::QueuePairField).
constexpr std::array<AnswerField<QueuePairStatus>, 12> kQueuePairStatus = {{
    kWire<QueuePairStatus>,
    kLocalQpn<QueuePairStatus>,
    kRemoteQpn<QueuePairStatus>,
    {"connection", "id of the connection that it belongs to", [](const QueuePairStatus& r) { return Json(r.connection); }},
    {"listener", "name of the listener", [](const QueuePairStatus& r) { return Json(r.listener); }},
    {"peer_address", "address of the client", [](const QueuePairStatus& r) { return Json(r.peer_address); }},
    {"lcore", "CPU of its poll core", [](const QueuePairStatus& r) { return Json(r.lcore); }},
    why_failed<QueuePairStatus>("error"),
    payload_in<QueuePairStatus>("payload_bytes_in"),
    payload_out<QueuePairStatus>("payload_bytes_out"),
    kRetransmits<QueuePairStatus>,
    kRoundTrip<QueuePairStatus>,
}};

constexpr std::array<AnswerField<ActivityStatus>, 9> kActivityStatus = {{
    {"client", "address of the client", [](const ActivityStatus& r) { return Json(r.client); }},
    {"section", "[[client]] section whose budget it counts in; empty = none",
     [](const ActivityStatus& r) { return Json(r.section); }},
    {"connections", "its connections now; 0 = it is gone", [](const ActivityStatus& r) { return Json(r.connections); }},
    kCalls<ActivityStatus>,
    kReplies<ActivityStatus>,
    kErrors<ActivityStatus>,
    kCallBytes<ActivityStatus>,
    kReplyBytes<ActivityStatus>,
    {"procedures",
     "what it called: program, procedure (of NFSv4 the operation that a COMPOUND was about), calls that were answered, "
     "and the seconds that these took together, from the SEND of the call to that of the reply",
     [](const ActivityStatus& r) {
       Json list = Json::array();
       for (const ProcedureStatus& each : r.procedures) {
         list.push_back({{"program", each.program},
                         {"procedure", each.procedure},
                         {"calls", each.calls},
                         {"seconds", each.spent.to_seconds()}});
       }
       return list;
     }},
}};

constexpr std::array<AnswerField<CoreStatus>, 8> kCoreStatus = {{
    {"lcore", "CPU", [](const CoreStatus& r) { return Json(r.lcore); }},
    {"role", "poll", [](const CoreStatus& r) { return Json(r.role); }},
    {"connections", "connections of this core", [](const CoreStatus& r) { return Json(r.connections); }},
    {"busy_seconds", "time in loop turns that found work", [](const CoreStatus& r) { return Json(r.busy_seconds); }},
    {"idle_seconds", "time in others, sleep included", [](const CoreStatus& r) { return Json(r.idle_seconds); }},
    {"polls_busy", "loop turns that found work", [](const CoreStatus& r) { return Json(r.polls_busy); }},
    {"polls_idle", "loop turns that found none", [](const CoreStatus& r) { return Json(r.polls_idle); }},
    {"sleeps", "idle turns that ended in a sleep", [](const CoreStatus& r) { return Json(r.sleeps); }},
}};

constexpr std::array<AnswerField<TransportEventStatus>, 9> kTransportEventStatus = {{
    {"ago_seconds", "how long ago it happened, for the last time",
     [](const TransportEventStatus& r) { return Json(r.ago.to_seconds()); }},
    {"first_ago_seconds", "how long ago it happened for the first time, of an entry that counts several",
     [](const TransportEventStatus& r) { return Json(r.first_ago.to_seconds()); }},
    {"lcore", "CPU of its poll core", [](const TransportEventStatus& r) { return Json(r.lcore); }},
    {"local_qpn", "our queue pair number; the queue pair may be gone; null = iWARP has none",
     [](const TransportEventStatus& r) { return number_or_null(verbs::Qpn(r.local_qpn)); }},
    {"peer", "address and port of a client of iWARP or verbs; else empty",
     [](const TransportEventStatus& r) { return Json(r.peer); }},
    {"event", "what happened: ack_timeout, nak_received, discarded, terminate_sent ...",
     [](const TransportEventStatus& r) { return Json(r.event); }},
    {"reason", "why, in words; empty = the event says it all", [](const TransportEventStatus& r) { return Json(r.reason); }},
    {"psn", "sequence number that it was about, of the last of them; of iWARP, the message's",
     [](const TransportEventStatus& r) { return Json(r.sequence); }},
    {"count", "how often, with nothing else in between", [](const TransportEventStatus& r) { return Json(r.count); }},
}};

constexpr std::array<AnswerField<StatInfo>, 4> kStatInfo = {{
    {"name", "name of the family, as in /metrics", [](const StatInfo& r) { return Json(r.name); }},
    {"kind", "counter, gauge or histogram", [](const StatInfo& r) { return Json(r.kind); }},
    {"unit", "seconds, bytes, or empty: things are counted", [](const StatInfo& r) { return Json(r.unit); }},
    {"help", "what it counts", [](const StatInfo& r) { return Json(r.help); }},
}};

}  // namespace

std::span<const std::span<const verbs::QueuePairField>> transport_fields() {
  static const std::array kTables = {rc::qp_fields(), iwarp::stream_fields(), rnic::queue_pair_fields()};
  return kTables;
}

template <>
Json to_row(const QueuePairStatus& row) {
  Json json = Json::object();
  for (const AnswerField<QueuePairStatus>& field : kQueuePairStatus) {
    json[field.name] = field.get(row);
  }
  for (const verbs::QueuePairField& field : row.info.fields()) {
    json[field.name] = json_of(field.read(row.info));
  }
  return json;
}

std::span<const AnswerField<PortStatus>> answer_fields(const PortStatus*) {
  return kPortStatus;
}
std::span<const AnswerField<RdmaPortStatus>> answer_fields(const RdmaPortStatus*) {
  return kRdmaPortStatus;
}
std::span<const AnswerField<ListenerStatus>> answer_fields(const ListenerStatus*) {
  return kListenerStatus;
}
std::span<const AnswerField<BackendStatus>> answer_fields(const BackendStatus*) {
  return kBackendStatus;
}
std::span<const AnswerField<ServerStatus>> answer_fields(const ServerStatus*) {
  return kServerStatus;
}
std::span<const AnswerField<RouteStatus>> answer_fields(const RouteStatus*) {
  return kRouteStatus;
}
std::span<const AnswerField<ClientStatus>> answer_fields(const ClientStatus*) {
  return kClientStatus;
}
std::span<const AnswerField<ConnectionStatus>> answer_fields(const ConnectionStatus*) {
  return kConnectionStatus;
}
std::span<const AnswerField<QueuePairStatus>> answer_fields(const QueuePairStatus*) {
  return kQueuePairStatus;
}
std::span<const AnswerField<ActivityStatus>> answer_fields(const ActivityStatus*) {
  return kActivityStatus;
}
std::span<const AnswerField<CoreStatus>> answer_fields(const CoreStatus*) {
  return kCoreStatus;
}
std::span<const AnswerField<TransportEventStatus>> answer_fields(const TransportEventStatus*) {
  return kTransportEventStatus;
}
std::span<const AnswerField<StatInfo>> answer_fields(const StatInfo*) {
  return kStatInfo;
}

}  // namespace cw::control
