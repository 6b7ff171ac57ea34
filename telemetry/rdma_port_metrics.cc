#include "telemetry/rdma_port_metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "telemetry/metric_sample.h"
#include "telemetry/metric_table.h"

namespace cw::telemetry {
namespace {

namespace fs = std::filesystem;
using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

// What IBTA calls data counts in units of four bytes.
constexpr double kDataUnitBytes = 4;

constexpr const char* kPackets = "causeway_rdma_port_packets_total";
constexpr const char* kBytes = "causeway_rdma_port_bytes_total";
constexpr const char* kEvents = "causeway_rdma_port_events_total";

// Names of events are those of mlx5, which manuals explain; behind them those of rxe, and of bnxt_re or irdma.
constexpr std::array kCounters = {
    RdmaPortCounter{kPackets,
                    "Packets of the port of an RDMA device, those of other programs included.",
                    "direction",
                    "rx",
                    {{{"counters/port_rcv_packets"}, {"hw_counters/rcvd_pkts"}, {"hw_counters/rx_pkts"}}}},
    RdmaPortCounter{
        kPackets, "", "direction", "tx", {{{"counters/port_xmit_packets"}, {"hw_counters/sent_pkts"}, {"hw_counters/tx_pkts"}}}},
    RdmaPortCounter{kBytes,
                    "Bytes of these packets.",
                    "direction",
                    "rx",
                    {{{"counters/port_rcv_data", kDataUnitBytes}, {"hw_counters/rx_bytes"}}}},
    RdmaPortCounter{kBytes, "", "direction", "tx", {{{"counters/port_xmit_data", kDataUnitBytes}, {"hw_counters/tx_bytes"}}}},
    RdmaPortCounter{"causeway_rdma_port_receive_errors_total",
                    "Packets that arrived broken, or for which the port had no buffer.",
                    nullptr,
                    nullptr,
                    {{{"counters/port_rcv_errors"}}}},
    RdmaPortCounter{"causeway_rdma_port_transmit_discards_total",
                    "Packets that the port did not send: it is down or congested.",
                    nullptr,
                    nullptr,
                    {{{"counters/port_xmit_discards"}}}},
    RdmaPortCounter{"causeway_rdma_port_link_downed_total",
                    "Times that the link went down.",
                    nullptr,
                    nullptr,
                    {{{"counters/link_downed"}, {"hw_counters/link_downed"}}}},
    RdmaPortCounter{kEvents,
                    "What the device's driver counts of lost, repeated and marked packets; "
                    "drivers count a part of these, and those of other programs, too.",
                    "event",
                    "duplicate_request",
                    {{{"hw_counters/duplicate_request"}, {"hw_counters/dup_req"}}}},
    RdmaPortCounter{kEvents,
                    "",
                    "event",
                    "out_of_sequence",
                    {{{"hw_counters/out_of_sequence"}, {"hw_counters/out_of_seq_request"}, {"hw_counters/oos_drop_count"}}}},
    RdmaPortCounter{kEvents,
                    "",
                    "event",
                    "packet_seq_err",
                    {{{"hw_counters/packet_seq_err"}, {"hw_counters/rcvd_seq_err"}, {"hw_counters/seq_err_naks_rcvd"}}}},
    RdmaPortCounter{kEvents, "", "event", "implied_nak_seq_err", {{{"hw_counters/implied_nak_seq_err"}}}},
    RdmaPortCounter{kEvents,
                    "",
                    "event",
                    "rnr_nak_retry_err",
                    {{{"hw_counters/rnr_nak_retry_err"}, {"hw_counters/rcvd_rnr_err"}, {"hw_counters/rnr_naks_rcvd"}}}},
    RdmaPortCounter{kEvents, "", "event", "rnr_nak_sent", {{{"hw_counters/send_rnr_err"}}}},
    RdmaPortCounter{kEvents, "", "event", "out_of_buffer", {{{"hw_counters/out_of_buffer"}}}},
    RdmaPortCounter{
        kEvents, "", "event", "local_ack_timeout_err", {{{"hw_counters/local_ack_timeout_err"}, {"hw_counters/to_retransmits"}}}},
    RdmaPortCounter{kEvents,
                    "",
                    "event",
                    "retries_exceeded",
                    {{{"hw_counters/req_transport_retries_exceeded"},
                      {"hw_counters/retry_exceeded_err"},
                      {"hw_counters/max_retry_exceeded"}}}},
    RdmaPortCounter{kEvents,
                    "",
                    "event",
                    "rnr_retries_exceeded",
                    {{{"hw_counters/req_rnr_retries_exceeded"}, {"hw_counters/retry_rnr_exceeded_err"}}}},
    RdmaPortCounter{
        kEvents, "", "event", "icrc_errors", {{{"hw_counters/rx_icrc_encapsulated"}, {"hw_counters/rx_icrc_errors"}}}},
    RdmaPortCounter{
        kEvents,
        "",
        "event",
        "ecn_marked",
        {{{"hw_counters/np_ecn_marked_roce_packets"}, {"hw_counters/rx_ecn_marked_pkts"}, {"hw_counters/RxECNMrkd"}}}},
    RdmaPortCounter{
        kEvents, "", "event", "cnp_sent", {{{"hw_counters/np_cnp_sent"}, {"hw_counters/tx_cnp_pkts"}, {"hw_counters/cnpSent"}}}},
    RdmaPortCounter{kEvents,
                    "",
                    "event",
                    "cnp_handled",
                    {{{"hw_counters/rp_cnp_handled"}, {"hw_counters/rx_cnp_pkts"}, {"hw_counters/cnpHandled"}}}},
    RdmaPortCounter{kEvents, "", "event", "tcp_retransmits", {{{"hw_counters/tcpRetransSegs"}, {"hw_counters/RetransSegs"}}}},
};

std::string text_of(const fs::path& path) {
  std::array<char, 64> text{};
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const ssize_t size = fd < 0 ? -1 : read(fd, text.data(), text.size());
  if (fd >= 0) {
    close(fd);
  }
  return {text.data(), size > 0 ? static_cast<size_t>(size) : 0};
}

// "N/A (no PMA)" is none.
std::optional<double> number_of(const fs::path& path) {
  const std::string text = text_of(path);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_all = end == text.data() + text.size() || *end == '\n';
  return error == std::errc() && is_all ? std::optional(static_cast<double>(value)) : std::nullopt;
}

std::vector<std::string> names_in(const fs::path& folder, size_t names_max) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename());
  }
  std::ranges::sort(names);
  names.resize(std::min(names.size(), names_max));
  return names;
}

// "4: ACTIVE" -> "ACTIVE".
std::string state_of(const fs::path& port) {
  const std::string text = text_of(port / "state");
  const size_t begin = text.find(": ");
  return begin == std::string::npos ? std::string() : text.substr(begin + 2, text.find('\n') - begin - 2);
}

// Each once.
std::vector<std::string> resolve(const fs::path& folder, std::span<const std::string> devices) {
  if (std::ranges::find(devices, "") != devices.end()) {
    return names_in(folder, kRdmaDevicesMax);
  }
  std::vector<std::string> names(devices.begin(), devices.end());
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  names.resize(std::min(names.size(), kRdmaDevicesMax));
  return names;
}

ClientMetric sample_of(const RdmaPortState& port, const char* label, const char* label_value, double value) {
  Labels labels = {{"device", port.device}, {"port", port.port}};
  if (label != nullptr) {
    labels.push_back({label, label_value});
  }
  return sample(std::move(labels), value);
}

std::optional<double> value_of(const fs::path& port, const RdmaPortCounter& counter) {
  for (const RdmaPortCounter::Source& source : counter.sources) {
    const auto value = source.file == nullptr ? std::nullopt : number_of(port / source.file);
    if (value) {
      return *value * source.unit;
    }
  }
  return std::nullopt;
}

}  // namespace

std::span<const RdmaPortCounter> rdma_port_counters() {
  return kCounters;
}

std::vector<RdmaPortState> rdma_port_states(const fs::path& folder, std::span<const std::string> devices) {
  std::vector<RdmaPortState> states;
  for (const std::string& device : resolve(folder, devices)) {
    const size_t before = states.size();
    for (const std::string& number : names_in(folder / device / "ports", kRdmaPortsMax)) {
      states.push_back({device, number, state_of(folder / device / "ports" / number)});
    }
    if (states.size() == before) {
      states.push_back({device, {}, "absent"});
    }
  }
  return states;
}

std::vector<MetricFamily> rdma_port_metrics(const fs::path& folder, std::span<const RdmaPortState> ports) {
  std::vector<MetricFamily> families;
  MetricFamily active{kRdmaPortActive.name, kRdmaPortActive.help, MetricType::Gauge, {}};
  for (const RdmaPortState& port : ports) {
    if (port.is_there() && !port.state.empty()) {
      active.metric.push_back(sample_of(port, nullptr, nullptr, port.is_active() ? 1 : 0));
    }
  }
  families.push_back(std::move(active));
  for (const RdmaPortCounter& counter : kCounters) {
    if (families.back().name != counter.name) {
      families.push_back({counter.name, counter.help, MetricType::Counter, {}});
    }
    for (const RdmaPortState& port : ports) {
      const auto value = port.is_there() ? value_of(folder / port.device / "ports" / port.port, counter) : std::nullopt;
      if (value) {
        families.back().metric.push_back(sample_of(port, counter.label, counter.value, *value));
      }
    }
  }
  // Most gateways have no such device.
  std::erase_if(families, [](const MetricFamily& family) { return family.metric.empty(); });
  return families;
}

}  // namespace cw::telemetry
