#include "telemetry/history_columns.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "base/assert.h"
#include "telemetry/metric_table.h"

namespace cw::telemetry {
namespace {

using Core = CoreSnapshot;

enum class Over : uint8_t {
  kGateway,  // one column
  kLabel,    // one per label
  kBackend,
  kClient,
  kLcore,  // one per core, of that core only
};

struct Row {
  const char* name;
  bool is_counter;
  uint64_t (*get)(const Core& core, uint32_t index);
  Over over = Over::kGateway;
  uint32_t label_count = 0;
  std::string (*label)(uint32_t index) = nullptr;
  Fold fold = Fold::kSum;
};

template <typename Array>
uint64_t sum(const Array& values) {
  return std::accumulate(values.begin(), values.end(), uint64_t{0});
}

uint64_t sum_ports(const Core& core, uint64_t PortStats::*member) {
  uint64_t total = 0;
  for (const PortStats& port : core.ports) {
    total += port.*member;
  }
  return total;
}

uint64_t discards(const Core& core, uint32_t reason) {
  uint64_t total = core.rc.discards[reason] + core.gsi.discards[reason];
  for (const PortStats& port : core.ports) {
    total += port.discards[reason];
  }
  return total;
}

uint64_t closed(const Core& core, gateway::ConnectionResult how) {
  return core.gateway.connections[static_cast<size_t>(how)];
}

// How connections ended that ought to have gone on.
uint64_t failed(const Core& core, uint32_t) {
  using Result = gateway::ConnectionResult;
  return closed(core, Result::kFailedTransport) + closed(core, Result::kFailedProtocol) + closed(core, Result::kFailedBackend) +
         closed(core, Result::kFailedBackendTimeout) + closed(core, Result::kFailedReadTimeout) +
         closed(core, Result::kFailedSlowReads) + closed(core, Result::kFailedReplyTimeout) +
         closed(core, Result::kFailedStarved) + closed(core, Result::kFailedHandshake);
}
uint64_t refused(const Core& core, uint32_t) {
  using Result = gateway::ConnectionResult;
  return closed(core, Result::kRefusedAcl) + closed(core, Result::kRefusedLimit) + closed(core, Result::kRefusedClientDenied) +
         closed(core, Result::kRefusedClientLimit) + closed(core, Result::kRefusedBackend) +
         closed(core, Result::kRefusedResources) + closed(core, Result::kRefusedDraining);
}

std::string drop_reason(uint32_t index) {
  return to_string(static_cast<wire::DropReason>(index));
}
std::string procedure(uint32_t index) {
  const rpcrdma::ProcedureName& name = rpcrdma::procedure_name(index);
  return fmt::format("{}/{}", name.program, name.procedure);
}
std::string name_of_chunk_list(uint32_t index) {
  constexpr std::array kNames = {"read", "write", "reply"};
  return kNames[index];
}
constexpr uint32_t kChunkListCount = static_cast<uint32_t>(rpcrdma::ChunkKind::kCount);

const gateway::BackendStats& backend(const Core& core, uint32_t index) {
  return core.gateway.backends[index];
}

const gateway::ClientClassStats& client(const Core& core, uint32_t index) {
  return core.gateway.clients[index];
}

constexpr bool kCounter = true;
constexpr bool kGauge = false;

const Row kColumnRows[] = {
    // Calls
    {"calls", kCounter, [](const Core& c, uint32_t i) { return c.durations.calls[i].count(); }, Over::kLabel,
     rpcrdma::kProcedureRows, procedure},
    {"call_ns", kCounter, [](const Core& c, uint32_t i) { return c.durations.calls[i].sum_ns(); }, Over::kLabel,
     rpcrdma::kProcedureRows, procedure},
    {"messages_rx", kCounter, [](const Core& c, uint32_t) { return sum(c.rpcrdma.messages_in); }},
    {"messages_tx", kCounter, [](const Core& c, uint32_t) { return sum(c.rpcrdma.messages_out); }},
    // Bytes and packets
    {"payload_bytes_rx", kCounter, [](const Core& c, uint32_t) { return c.rc.payload_bytes_in; }},
    {"payload_bytes_tx", kCounter, [](const Core& c, uint32_t) { return c.rc.payload_bytes_out; }},
    {"roce_bytes_rx", kCounter, [](const Core& c, uint32_t) { return sum_ports(c, &PortStats::roce_rx_bytes); }},
    {"roce_bytes_tx", kCounter, [](const Core& c, uint32_t) { return sum_ports(c, &PortStats::roce_tx_bytes); }},
    {"roce_packets_rx", kCounter, [](const Core& c, uint32_t) { return sum_ports(c, &PortStats::roce_rx_packets); }},
    {"roce_packets_tx", kCounter, [](const Core& c, uint32_t) { return sum_ports(c, &PortStats::roce_tx_packets); }},
    {"chunk_bytes", kCounter, [](const Core& c, uint32_t i) { return c.rpcrdma.chunks[i].bytes; }, Over::kLabel, kChunkListCount,
     name_of_chunk_list},
    {"chunks", kCounter, [](const Core& c, uint32_t i) { return c.rpcrdma.chunks[i].chunks; }, Over::kLabel, kChunkListCount,
     name_of_chunk_list},
    // Connections and credits
    {"connections", kGauge, [](const Core& c, uint32_t) { return c.gateway.connections_open; }},
    {"connections_half_open", kGauge, [](const Core& c, uint32_t) { return c.connections.half_open; }},
    {"connections_established", kCounter, [](const Core& c, uint32_t) { return c.cm.established; }},
    {"connections_refused", kCounter, refused},
    {"connections_failed", kCounter, failed},
    {"credits_granted", kGauge, [](const Core& c, uint32_t) { return c.rpcrdma.credits_granted; }},
    {"credits_in_use", kGauge, [](const Core& c, uint32_t) { return c.rpcrdma.credits_in_use; }},
    {"read_stalls", kCounter, [](const Core& c, uint32_t) { return c.rpcrdma.read_stalls; }},
    {"credit_violations", kCounter, [](const Core& c, uint32_t) { return c.rpcrdma.credit_violations; }},
    {"grants_lowered", kCounter, [](const Core& c, uint32_t) { return c.gateway.grants_lowered; }},
    // Transport
    {"retransmitted_packets", kCounter, [](const Core& c, uint32_t) { return c.rc.packets_retransmitted; }},
    {"ack_timeouts", kCounter, [](const Core& c, uint32_t) { return c.rc.ack_timeouts; }},
    {"naks_rx", kCounter, [](const Core& c, uint32_t) { return sum(c.rc.naks_received); }},
    {"naks_tx", kCounter, [](const Core& c, uint32_t) { return sum(c.rc.naks_sent); }},
    {"rnr_naks_rx", kCounter, [](const Core& c, uint32_t) { return c.rc.rnr_naks_received; }},
    {"rnr_naks_tx", kCounter, [](const Core& c, uint32_t) { return c.rc.rnr_naks_sent; }},
    {"cnps_rx", kCounter, [](const Core& c, uint32_t) { return c.rc.cnps_received; }},
    {"cnps_tx", kCounter, [](const Core& c, uint32_t) { return c.rc.cnps_sent; }},
    {"ecn_marked_packets", kCounter, [](const Core& c, uint32_t) { return c.rc.ecn_marked; }},
    {"out_of_sequence", kCounter, [](const Core& c, uint32_t) { return c.rc.out_of_sequence; }},
    {"duplicate_requests", kCounter, [](const Core& c, uint32_t) { return c.rc.duplicate_requests; }},
    {"rates_limited", kGauge, [](const Core& c, uint32_t) { return c.rc.rates_limited; }},
    // What was not taken
    {"discards", kCounter, discards, Over::kLabel, wire::kDropReasonCount, drop_reason},
    {"port_rx_missed", kCounter, [](const Core& c, uint32_t) { return sum_ports(c, &PortStats::rx_missed); }},
    {"port_rx_no_mbuf", kCounter, [](const Core& c, uint32_t) { return sum_ports(c, &PortStats::rx_no_mbuf); }},
    {"port_rx_errors", kCounter, [](const Core& c, uint32_t) { return sum_ports(c, &PortStats::rx_errors); }},
    {"port_tx_dropped", kCounter, [](const Core& c, uint32_t) { return sum_ports(c, &PortStats::tx_dropped); }},
    {"frames_not_handed", kCounter, [](const Core& c, uint32_t) { return c.loop.frames_not_handed; }},
    // Backends
    {"backend_state", kGauge,
     [](const Core& c, uint32_t i) {
       const BackendState down = backend(c, i).is_judged() ? BackendState::kDown : BackendState::kUnknown;
       return static_cast<uint64_t>(backend(c, i).up > 0 ? BackendState::kUp : down);
     },
     Over::kBackend, 0, nullptr, Fold::kMax},
    {"backend_links", kGauge, [](const Core& c, uint32_t i) { return backend(c, i).links; }, Over::kBackend},
    {"backend_in_flight", kGauge, [](const Core& c, uint32_t i) { return backend(c, i).calls_in_flight; }, Over::kBackend},
    {"backend_calls", kCounter, [](const Core& c, uint32_t i) { return backend(c, i).calls; }, Over::kBackend},
    {"backend_timeouts", kCounter, [](const Core& c, uint32_t i) { return backend(c, i).call_timeouts; }, Over::kBackend},
    {"backend_lost", kCounter, [](const Core& c, uint32_t i) { return backend(c, i).closes; }, Over::kBackend},
    {"backend_failures", kCounter, [](const Core& c, uint32_t i) { return backend(c, i).open_failures; }, Over::kBackend},
    // Sections of clients
    {"client_connections", kGauge, [](const Core& c, uint32_t i) { return client(c, i).connections; }, Over::kClient},
    {"client_denied", kCounter, [](const Core& c, uint32_t i) { return client(c, i).refused_denied; }, Over::kClient},
    {"client_refused", kCounter, [](const Core& c, uint32_t i) { return client(c, i).refused_limit; }, Over::kClient},
    {"client_postponed", kCounter, [](const Core& c, uint32_t i) { return client(c, i).calls_postponed; }, Over::kClient},
    {"client_credits", kGauge, [](const Core& c, uint32_t i) { return client(c, i).credits_in_use; }, Over::kClient},
    // Cores
    {"lcore_busy_ns", kCounter, [](const Core& c, uint32_t) { return c.loop.busy_ns; }, Over::kLcore},
    {"lcore_idle_ns", kCounter, [](const Core& c, uint32_t) { return c.loop.idle_ns; }, Over::kLcore},
    {"lcore_connections", kGauge, [](const Core& c, uint32_t) { return c.gateway.connections_open; }, Over::kLcore},
};

uint32_t count_of(const Row& row, const MetricSources& sources) {
  switch (row.over) {
    case Over::kGateway:
      return 1;
    case Over::kLabel:
      return row.label_count;
    case Over::kBackend:
      return static_cast<uint32_t>(std::min<size_t>(sources.backends.size(), gateway::kBackendIdsMax));
    case Over::kClient:
      return static_cast<uint32_t>(std::min<size_t>(sources.clients.size(), gateway::kClientIdsMax));
    case Over::kLcore:
      return static_cast<uint32_t>(sources.cores.size());
  }
  return 0;
}

std::string label_of(const Row& row, uint32_t index, const MetricSources& sources) {
  switch (row.over) {
    case Over::kGateway:
      return "";
    case Over::kLabel:
      return "." + row.label(index);
    case Over::kBackend:
      return "." + sources.backends[index].name;
    case Over::kClient:
      return "." + sources.clients[index].name;
    case Over::kLcore:
      return fmt::format(".{}", index);
  }
  return "";
}

}  // namespace

HistoryColumns::HistoryColumns(const MetricSources& sources) : of_row_(std::size(kColumnRows)) {
  (void)extend(sources);
}

bool HistoryColumns::extend(const MetricSources& sources) {
  const size_t before = columns_.size();
  for (uint32_t row = 0; row < std::size(kColumnRows); ++row) {
    for (uint32_t& i = of_row_[row]; i < count_of(kColumnRows[row], sources); ++i) {
      columns_.push_back({kColumnRows[row].name + label_of(kColumnRows[row], i, sources), kColumnRows[row].is_counter, row, i});
    }
  }
  return columns_.size() > before;
}

void HistoryColumns::read(const MetricSources& sources, std::span<uint64_t> out) const {
  CW_ASSERT(out.size() == columns_.size());
  for (size_t at = 0; at < columns_.size(); ++at) {
    const Column& column = columns_[at];
    const Row& row = kColumnRows[column.row];
    out[at] = 0;
    if (row.over == Over::kLcore) {
      out[at] = row.get(sources.cores[column.index].snapshot->last(), column.index);
      continue;
    }
    for (const CoreSource& core : sources.cores) {
      const uint64_t value = row.get(core.snapshot->last(), column.index);
      out[at] = row.fold == Fold::kMax ? std::max(out[at], value) : out[at] + value;
    }
  }
}

Histogram merged_calls(const MetricSources& sources, AnsweredBy who) {
  Histogram merged;
  for (uint32_t row = 0; row < rpcrdma::kProcedureRows; ++row) {
    const bool is_builtin = std::string_view(rpcrdma::procedure_name(row).program) == "bench";
    for (const CoreSource& core : sources.cores) {
      if (is_builtin == (who == AnsweredBy::kBuiltin)) {
        merged.merge(core.snapshot->last().durations.calls[row]);
      }
    }
  }
  return merged;
}

Histogram merged_stage(const MetricSources& sources, rpcrdma::Stage stage) {
  Histogram merged;
  for (const CoreSource& core : sources.cores) {
    merged.merge(core.snapshot->last().durations.stages.stages[static_cast<size_t>(stage)]);
  }
  return merged;
}

}  // namespace cw::telemetry
