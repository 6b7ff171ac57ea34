#include "rocev2/rc/qp_fields.h"

#include <array>
#include <string>

#include "rocev2/rc/qp.h"
#include "rocev2/rc/rc_options.h"

namespace cw::rc {
namespace {

using Info = verbs::QueuePairInfo;
using Value = verbs::QueuePairValue;

RcQpInfo rc(const Info& info) {
  return info.detail<RcQpInfo>();
}

constexpr std::array<verbs::QueuePairField, 33> kFields = {{
    {"state", "RESET, INIT, RTR, RTS, SQD or ERROR", [](const Info& i) { return Value(std::string(to_string(rc(i).state))); }},
    {"path_mtu", "agreed path MTU, bytes", [](const Info& i) { return Value(uint64_t{rc(i).path_mtu_bytes}); }},
    {"una_psn", "oldest PSN that the client has not acknowledged",
     [](const Info& i) { return Value(uint64_t{rc(i).una.value()}); }},
    {"next_psn", "next PSN to send", [](const Info& i) { return Value(uint64_t{rc(i).next_psn.value()}); }},
    {"limit_psn", "one past the highest PSN ever sent; ahead of next_psn when packets are to be sent again",
     [](const Info& i) { return Value(uint64_t{rc(i).limit_psn.value()}); }},
    {"window_packets", "packets in flight at most", [](const Info& i) { return Value(uint64_t{rc(i).window_packets}); }},
    {"packets_in_flight", "packets sent and not acknowledged",
     [](const Info& i) { return Value(uint64_t{rc(i).packets_in_flight}); }},
    {"works_queued", "work requests posted and not completed", [](const Info& i) { return Value(uint64_t{rc(i).works_queued}); }},
    {"reads_outstanding", "RDMA Read requests sent and not completed",
     [](const Info& i) { return Value(uint64_t{rc(i).reads_outstanding}); }},
    {"reads_max", "RDMA Read requests outstanding at most", [](const Info& i) { return Value(uint64_t{rc(i).reads_max}); }},
    {"credits_left",
     "receives that the client has beyond what is posted (end-to-end credits); negative = so many messages wait; "
     "null = it does not count",
     [](const Info& i) { return rc(i).credit_limited ? Value(int64_t{rc(i).credits_left}) : Value(); }},
    {"recovering", "it went back to una_psn, and nothing new has been acknowledged since",
     [](const Info& i) { return Value(rc(i).recovering); }},
    {"waiting_rnr", "it is silent for a while, because the client had no receive posted",
     [](const Info& i) { return Value(rc(i).waiting_rnr); }},
    {"expected_psn", "next PSN expected from the client",
     [](const Info& i) { return Value(uint64_t{rc(i).expected_psn.value()}); }},
    {"msn", "messages of the client completed, 24 bits", [](const Info& i) { return Value(uint64_t{rc(i).msn}); }},
    {"receives_posted", "messages of the client that have a receive",
     [](const Info& i) { return Value(uint64_t{rc(i).receives_posted}); }},
    {"gap", "a packet of the client is missing, and a NAK for it has been sent", [](const Info& i) { return Value(rc(i).gap); }},
    {"ack_timeout_seconds", "ACK timeout as agreed", [](const Info& i) { return Value(ack_timeout(rc(i).ack_timeout)); }},
    {"retries", "repetitions since the last progress", [](const Info& i) { return Value(uint64_t{rc(i).retries}); }},
    {"retries_max", "repetitions before the connection is given up",
     [](const Info& i) { return Value(uint64_t{rc(i).retry_count}); }},
    {"rnr_retries", "repetitions after RNR NAKs since the last progress",
     [](const Info& i) { return Value(uint64_t{rc(i).rnr_retries}); }},
    {"rnr_retries_max", "such repetitions at most; 7 = without end",
     [](const Info& i) { return Value(uint64_t{rc(i).rnr_retry}); }},
    {"packets_in", "packets received", [](const Info& i) { return Value(uint64_t{rc(i).counters.packets_in}); }},
    {"packets_out", "packets sent", [](const Info& i) { return Value(uint64_t{rc(i).counters.packets_out}); }},
    {"ack_timeouts", "times that the ACK timer ran out",
     [](const Info& i) { return Value(uint64_t{rc(i).counters.ack_timeouts}); }},
    {"naks_in", "NAKs received, RNR included", [](const Info& i) { return Value(uint64_t{rc(i).counters.naks_received}); }},
    {"naks_out", "NAKs sent, RNR included", [](const Info& i) { return Value(uint64_t{rc(i).counters.naks_sent}); }},
    {"duplicate_requests", "requests that the client repeated without need",
     [](const Info& i) { return Value(uint64_t{rc(i).counters.duplicate_requests}); }},
    {"discards", "packets received and not acted upon", [](const Info& i) { return Value(uint64_t{rc(i).counters.discards}); }},
    {"selective_recovery", "only lost packets are sent again, as agreed with the client",
     [](const Info& i) { return Value(rc(i).selective_recovery); }},
    {"cnps_in", "congestion notifications received", [](const Info& i) { return Value(uint64_t{rc(i).counters.cnps_received}); }},
    {"cnps_out", "congestion notifications sent", [](const Info& i) { return Value(uint64_t{rc(i).counters.cnps_sent}); }},
    {"rate_bytes_per_second", "limit of the sending rate because of congestion; 0 = none",
     [](const Info& i) { return Value(uint64_t{rc(i).rate_bytes_per_second}); }},
}};

}  // namespace

std::span<const verbs::QueuePairField> qp_fields() {
  return kFields;
}

}  // namespace cw::rc
