#include "iwarp/stream_fields.h"

#include <array>
#include <string>

namespace cw::iwarp {
namespace {

using Info = verbs::QueuePairInfo;
using Value = verbs::QueuePairValue;

IwarpDetail of(const Info& info) {
  return info.detail<IwarpDetail>();
}

// The states of a queue pair, as far as a stream has them.
Value state(const Info& info) {
  const IwarpDetail detail = of(info);
  return std::string(detail.error.any() ? "ERROR" : detail.is_established ? "RTS" : "RTR");
}

constexpr std::array<verbs::QueuePairField, 17> kFields = {{
    {"state", "RTR (the client has not spoken), RTS or ERROR", state},
    {"crc", "FPDUs carry a CRC that is looked at", [](const Info& i) { return Value(of(i).crc); }},
    {"ird", "RDMA Reads of the client that are answered at a time", [](const Info& i) { return Value(uint64_t{of(i).ird}); }},
    {"reads_max", "RDMA Read requests outstanding at most (ORD)", [](const Info& i) { return Value(uint64_t{of(i).ord}); }},
    {"ulpdu_bytes_max", "longest ULPDU that we send", [](const Info& i) { return Value(uint64_t{of(i).ulpdu_bytes_max}); }},
    {"works_queued", "work requests posted and not completed", [](const Info& i) { return Value(uint64_t{of(i).works_queued}); }},
    {"reads_outstanding", "RDMA Read requests sent and not completed",
     [](const Info& i) { return Value(uint64_t{of(i).reads_outstanding}); }},
    {"reads_answering", "RDMA Reads of the client that are being answered",
     [](const Info& i) { return Value(uint64_t{of(i).reads_answering}); }},
    {"receives_posted", "messages of the client that have a receive",
     [](const Info& i) { return Value(uint64_t{of(i).receives_posted}); }},
    {"unsent_bytes", "made into FPDUs, and not taken by TCP yet", [](const Info& i) { return Value(of(i).unsent_bytes); }},
    {"input_bytes", "received of an FPDU that is not complete", [](const Info& i) { return Value(of(i).input_bytes); }},
    {"fpdus_in", "FPDUs received", [](const Info& i) { return Value(of(i).counters.fpdus_in); }},
    {"fpdus_out", "FPDUs sent", [](const Info& i) { return Value(of(i).counters.fpdus_out); }},
    {"terminate", "what the Terminate of either side said; empty = there was none",
     [](const Info& i) {
       const TerminateCause cause = of(i).error.terminate;
       return Value(cause == TerminateCause::kNone ? std::string() : std::string(to_string(cause)));
     }},
    {"tcp_mss_bytes", "largest TCP segment", [](const Info& i) { return Value(uint64_t{of(i).path.mss_bytes}); }},
    {"tcp_unacknowledged_bytes", "given to TCP, and not acknowledged by the client's",
     [](const Info& i) { return Value(of(i).path.unacknowledged_bytes); }},
    {"tcp_congestion_window_bytes", "what TCP may have in flight",
     [](const Info& i) { return Value(of(i).path.congestion_window_bytes); }},
}};

}  // namespace

std::span<const verbs::QueuePairField> stream_fields() {
  return kFields;
}

}  // namespace cw::iwarp
