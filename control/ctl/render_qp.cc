// A queue pair for people: what an expert looks at when a connection is slow or stuck.
#include <fmt/core.h>

#include "control/ctl/json_text.h"
#include "control/ctl/render.h"
#include "control/ctl/table.h"

namespace cw::control {

using Json = nlohmann::ordered_json;

namespace {

std::string of_max(const Json& qp, const char* value, const char* max) {
  return text_of(qp, value) + " of " + text_of(qp, max);
}

// What keeps it from sending, in words.
std::string condition(const Json& qp) {
  std::string text = flag_of(qp, "recovering") ? ", recovering from a loss" : "";
  text += flag_of(qp, "waiting_rnr") ? ", waiting: the client had no receive" : "";
  text += flag_of(qp, "gap") ? ", a packet of the client is missing" : "";
  return text;
}

// Whose it is, and how it is.
std::string head(const Json& qp, const std::string& ends, const std::string& more) {
  const std::string error = text_of(qp, "error");
  return fmt::format("{}: {}{}, listener {}, connection {}, CPU {}, {}\n", ends, text_of(qp, "state"),
                     error == "-" ? condition(qp) : " (" + error + ")", text_of(qp, "listener"), text_of(qp, "connection"),
                     text_of(qp, "lcore"), more);
}

std::string traffic(const Json& qp, const char* in, const char* out, const char* unit) {
  return fmt::format("  traffic    in {} {}, {}; out {} {}, {}\n", text_of(qp, in), unit,
                     bytes_text(number_of(qp, "payload_bytes_in")), text_of(qp, out), unit,
                     bytes_text(number_of(qp, "payload_bytes_out")));
}

std::string roce_block(const Json& qp) {
  std::string text =
      head(qp, fmt::format("{} -> {} {}", qpn_text(qp, "local_qpn"), text_of(qp, "peer_address"), qpn_text(qp, "remote_qpn")),
           "path MTU " + text_of(qp, "path_mtu"));
  text += fmt::format("  sending    una {}, next {}, limit {}; {} packets in flight; {} works queued; {} READs\n",
                      text_of(qp, "una_psn"), text_of(qp, "next_psn"), text_of(qp, "limit_psn"),
                      of_max(qp, "packets_in_flight", "window_packets"), text_of(qp, "works_queued"),
                      of_max(qp, "reads_outstanding", "reads_max"));
  text += fmt::format("  receiving  expected {}, MSN {}; {} receives posted; credits left {}\n", text_of(qp, "expected_psn"),
                      text_of(qp, "msn"), text_of(qp, "receives_posted"), text_of(qp, "credits_left"));
  text += fmt::format("  timers     round trip {}, ACK timeout {}; {} retries, {} RNR retries\n",
                      short_time_text(number_of(qp, "round_trip_seconds")), short_time_text(number_of(qp, "ack_timeout_seconds")),
                      of_max(qp, "retries", "retries_max"), of_max(qp, "rnr_retries", "rnr_retries_max"));
  text += traffic(qp, "packets_in", "packets_out", "packets");
  text += fmt::format("  losses     {} sent again, {} ACK timeouts, NAKs {} in {} out, {} duplicates, {} discards, recovery {}\n",
                      text_of(qp, "retransmits"), text_of(qp, "ack_timeouts"), text_of(qp, "naks_in"), text_of(qp, "naks_out"),
                      text_of(qp, "duplicate_requests"), text_of(qp, "discards"),
                      flag_of(qp, "selective_recovery") ? "selective" : "go-back-N");
  const double rate = number_of(qp, "rate_bytes_per_second");
  text += fmt::format("  congestion {}, CNPs {} in {} out\n", rate > 0 ? "limited to " + bytes_text(rate) + "/s" : "no limit",
                      text_of(qp, "cnps_in"), text_of(qp, "cnps_out"));
  return text;
}

std::string iwarp_block(const Json& qp) {
  std::string text = head(qp, "iWARP -> " + text_of(qp, "peer_address"), flag_of(qp, "crc") ? "with CRC" : "without CRC");
  text += fmt::format("  sending    {} works queued; {} READs; {} not taken by TCP; ULPDUs up to {} B\n",
                      text_of(qp, "works_queued"), of_max(qp, "reads_outstanding", "reads_max"),
                      bytes_text(number_of(qp, "unsent_bytes")), text_of(qp, "ulpdu_bytes_max"));
  text +=
      fmt::format("  receiving  {} receives posted; {} of the client's READs; {} of an FPDU that is not complete\n",
                  text_of(qp, "receives_posted"), of_max(qp, "reads_answering", "ird"), bytes_text(number_of(qp, "input_bytes")));
  text += traffic(qp, "fpdus_in", "fpdus_out", "FPDUs");
  text += fmt::format("  TCP        round trip {}, {} segments sent again; {} not acknowledged, congestion window {}, MSS {} B\n",
                      short_time_text(number_of(qp, "round_trip_seconds")), text_of(qp, "retransmits"),
                      bytes_text(number_of(qp, "tcp_unacknowledged_bytes")),
                      bytes_text(number_of(qp, "tcp_congestion_window_bytes")), text_of(qp, "tcp_mss_bytes"));
  return text;
}

std::string verbs_block(const Json& qp) {
  const std::string ends = fmt::format("{} {} -> {} {}", text_of(qp, "device"), qpn_text(qp, "local_qpn"),
                                       text_of(qp, "peer_address"), qpn_text(qp, "remote_qpn"));
  std::string text = head(qp, ends, "path MTU " + text_of(qp, "path_mtu"));
  text +=
      fmt::format("  sending    {} works queued, {} requests at the device; {} READs; {} B inline\n", text_of(qp, "works_queued"),
                  text_of(qp, "requests_out"), of_max(qp, "reads_outstanding", "reads_max"), text_of(qp, "inline_bytes_max"));
  text += fmt::format("  receiving  {} receives posted, {} wait; memory that the client may reach: {}\n",
                      text_of(qp, "receives_posted"), text_of(qp, "receives_owed"), text_of(qp, "exposure"));
  text += fmt::format("  traffic    in {}; out {}\n", bytes_text(number_of(qp, "payload_bytes_in")),
                      bytes_text(number_of(qp, "payload_bytes_out")));
  return text;
}

std::string block(const Json& qp) {
  const std::string wire = text_of(qp, "wire");
  return wire == "iWARP" ? iwarp_block(qp) : wire == "verbs" ? verbs_block(qp) : roce_block(qp);
}

}  // namespace

std::string render_transport_events(const Json& answer, Detail) {
  Table table({">AGO", "QPN OR PEER", "EVENT", "REASON", ">PSN", ">COUNT", ">SINCE"});
  for (const Json& event : list_of(answer, "events")) {
    const double count = number_of(event, "count");
    const std::string reason = text_of(event, "reason");
    table.add({short_time_text(number_of(event, "ago_seconds")),
               number_of(event, "local_qpn") == 0 ? text_of(event, "peer") : qpn_text(event, "local_qpn"),
               text_of(event, "event"), reason, text_of(event, "psn"), text_of(event, "count"),
               count > 1 ? short_time_text(number_of(event, "first_ago_seconds")) : "-"});
  }
  if (table.empty()) {
    return "nothing out of the ordinary is remembered\n";
  }
  const double left_out = number_of(answer, "left_out");
  return table.text(0) + (left_out > 0 ? fmt::format("{} older ones are left out; ask for more with last\n", left_out) : "");
}

std::string render_queue_pairs(const Json& answer, Detail) {
  std::string text;
  for (const Json& qp : list_of(answer, "queue_pairs")) {
    text += (text.empty() ? "" : "\n") + block(qp);
  }
  return text.empty() ? "no such queue pairs\n" : text;
}

}  // namespace cw::control
