#include "rnic/rnic_fields.h"

#include <array>
#include <string>

namespace cw::rnic {
namespace {

using Info = verbs::QueuePairInfo;
using Value = verbs::QueuePairValue;

RnicDetail of(const Info& info) {
  return info.detail<RnicDetail>();
}

Value text(std::string_view words) {
  return Value(std::string(words));
}

// Of what the device says; null when it says nothing.
template <typename Read>
Value told(const Info& info, Read read) {
  const RnicDetail detail = of(info);
  return detail.has_state ? Value(uint64_t{read(detail.state)}) : Value();
}

constexpr std::array<verbs::QueuePairField, 19> kFields = {{
    {"state", "of the device: RESET, INIT, RTR, RTS, SQD, SQE or ERROR; null = it does not say",
     [](const Info& i) { return of(i).has_state ? text(of(i).state.state) : Value(); }},
    {"device", "RDMA device", [](const Info& i) { return text(of(i).device); }},
    {"exposure", "whether the client may reach memory of ours, as the device says: none, exposed or unknown",
     [](const Info& i) { return text(to_string(of(i).exposure)); }},
    {"access_flags", "of the queue pair, as the device says (ibv_access_flags)",
     [](const Info& i) { return told(i, [](const QueuePairState& s) { return s.access_flags; }); }},
    {"path_mtu", "agreed path MTU, bytes",
     [](const Info& i) { return told(i, [](const QueuePairState& s) { return s.path_mtu; }); }},
    {"next_psn", "of the next packet that the device sends",
     [](const Info& i) { return told(i, [](const QueuePairState& s) { return s.send_psn; }); }},
    {"expected_psn", "of the next packet that the device takes",
     [](const Info& i) { return told(i, [](const QueuePairState& s) { return s.receive_psn; }); }},
    {"reads_max", "RDMA Read requests outstanding at most; what is beyond waits in the device",
     [](const Info& i) { return Value(uint64_t{of(i).reads_max}); }},
    {"ack_timeout_exponent", "the device sends again after 4.096 us x 2^n; 0 = never",
     [](const Info& i) { return told(i, [](const QueuePairState& s) { return s.timeout; }); }},
    {"retries_max", "times that it does so",
     [](const Info& i) { return told(i, [](const QueuePairState& s) { return s.retries_max; }); }},
    {"rnr_retries_max", "the same for a client that is not ready; 7 = without end",
     [](const Info& i) { return told(i, [](const QueuePairState& s) { return s.rnr_retries_max; }); }},
    {"works_queued", "work requests posted and not completed", [](const Info& i) { return Value(uint64_t{of(i).works_queued}); }},
    {"requests_out", "of their parts, those that the device has",
     [](const Info& i) { return Value(uint64_t{of(i).requests_out}); }},
    {"reads_outstanding", "RDMA Read requests sent and not completed",
     [](const Info& i) { return Value(uint64_t{of(i).reads_outstanding}); }},
    {"receives_posted", "messages of the client that have a receive",
     [](const Info& i) { return Value(uint64_t{of(i).receives_posted}); }},
    {"receives_owed", "receives that wait for buffers, or for room in the device's queue",
     [](const Info& i) { return Value(uint64_t{of(i).receives_owed}); }},
    {"send_pieces_max", "pieces of memory that one SEND or WRITE request takes",
     [](const Info& i) { return Value(uint64_t{of(i).send_pieces}); }},
    {"read_pieces_max", "the same of a READ request", [](const Info& i) { return Value(uint64_t{of(i).read_pieces}); }},
    {"inline_bytes_max", "bytes that travel inside the request",
     [](const Info& i) { return Value(uint64_t{of(i).inline_bytes}); }},
}};

}  // namespace

std::span<const verbs::QueuePairField> queue_pair_fields() {
  return kFields;
}

}  // namespace cw::rnic
