#include "dataplane/live_view.h"

#include <fmt/format.h>

#include <string>
#include <unordered_map>
#include <utility>

#include "rocev2/wire/ip_address.h"
#include "rocev2/wire/mac_address.h"

namespace cw::dataplane {
namespace {

std::string address_text(const wire::IpAddress& address) {
  return std::string(wire::to_text(address).data());
}

}  // namespace

LiveView::LiveView(const control::Config& config, const std::string& version, std::vector<GatewayApp*> apps,
                   const telemetry::Collector& collector, std::span<const std::unique_ptr<Port>> ports,
                   const telemetry::GatewayFlags& flags)
    : config_(config),
      version_(version),
      apps_(std::move(apps)),
      collector_(collector),
      ports_(ports),
      flags_(flags),
      started_(std::chrono::steady_clock::now()) {}

std::vector<LiveView::CoreConnection> LiveView::describe() const {
  std::vector<CoreConnection> all;
  for (size_t core = 0; core < apps_.size(); ++core) {
    std::vector<gateway::ConnectionInfo> own;
    (void)apps_[core]->describe(own, config_.limits.connections_max);
    for (const gateway::ConnectionInfo& info : own) {
      all.push_back({config_.dataplane.poll_lcores[core], info});
    }
  }
  return all;
}

std::string LiveView::listener_name(uint16_t port) const {
  for (const control::ListenerConfig& listener : config_.listeners) {
    if (listener.port == port) {
      return listener.name;
    }
  }
  return "?";
}

control::GatewayStatus LiveView::status() {
  control::GatewayStatus status;
  status.version = version_;
  status.instance = config_.gateway.instance;
  status.uptime =
      Duration::ns(std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - started_).count());
  status.ready = flags_.ready.load();
  status.draining = flags_.draining.load();
  const std::vector<CoreConnection> connections = describe();
  status.connections = static_cast<uint32_t>(connections.size());
  for (size_t i = 0; i < ports_.size(); ++i) {
    const control::PortConfig& config = config_.ports[i];
    control::PortStatus& port = status.ports.emplace_back();
    port.device = config.device;
    port.mac = std::string(wire::to_text(ports_[i]->mac()).data());
    for (const control::IpPrefix& prefix : config.addresses) {
      port.addresses.push_back(fmt::format("{}/{}", address_text(prefix.address), prefix.length_bits));
    }
    port.mtu = config.mtu;
    port.path_mtu = control::path_mtu_for(config.mtu, config_.roce.path_mtu_max);
    port.link_up = ports_[i]->link_up();
  }
  for (const control::ListenerConfig& config : config_.listeners) {
    control::ListenerStatus& listener = status.listeners.emplace_back();
    listener.name = config.name;
    listener.port = config.port;
    listener.backend = config.backend;
    listener.credits = config.credits;
    listener.inline_bytes = config.inline_bytes;
    listener.connections_max = control::connections_max_of(config, config_.limits);
    for (const CoreConnection& connection : connections) {
      listener.connections += connection.info.listener_port == config.port ? 1 : 0;
    }
  }
  std::unordered_map<std::string, double> values;  // by name with labels
  for (control::NamedValue& value : collector_.named_values()) {
    values.emplace(std::move(value.name), value.value);
  }
  for (const control::BackendConfig& config : config_.backends) {
    control::BackendStatus& backend = status.backends.emplace_back();
    backend.name = config.name;
    backend.type = config.type == control::BackendType::kTcp ? "tcp" : "builtin";
    if (config.address) {
      backend.address = fmt::format("{}:{}", address_text(config.address->address), config.address->port);
    }
    const auto value_of = [&](const char* metric) {
      const auto found = values.find(fmt::format("{}{{backend=\"{}\"}}", metric, config.name));
      return found == values.end() ? std::optional<uint64_t>() : static_cast<uint64_t>(found->second);
    };
    if (const std::optional<uint64_t> up = value_of("causeway_backend_up")) {
      backend.up = *up > 0;
    }
    backend.calls_in_flight = value_of("causeway_backend_inflight_calls").value_or(0);
    backend.reconnects = value_of("causeway_backend_reconnects_total").value_or(0);
    backend.call_timeouts = value_of("causeway_backend_call_timeouts_total").value_or(0);
  }
  return status;
}

std::vector<control::ConnectionStatus> LiveView::connections() {
  std::vector<control::ConnectionStatus> rows;
  for (const auto& [lcore, info] : describe()) {
    control::ConnectionStatus& row = rows.emplace_back();
    row.id = info.id;
    row.listener = listener_name(info.listener_port);
    row.peer_address = address_text(info.peer);
    row.peer_port = info.peer_port;
    row.local_qpn = info.qp.local_qpn.value();
    row.remote_qpn = info.qp.remote_qpn.value();
    row.state = gateway::to_string(info.state);
    row.lcore = lcore;
    row.path_mtu = info.qp.path_mtu_bytes;
    row.inline_send_bytes = info.thresholds.send_bytes;
    row.inline_receive_bytes = info.thresholds.receive_bytes;
    row.remote_invalidate = info.thresholds.remote_invalidation;
    row.credits_granted = info.credits_granted;
    row.calls_in_flight = info.calls_in_flight;
    row.reverse_credits_granted = info.reverse_credits_granted;
    row.reverse_calls_in_flight = info.reverse_calls_in_flight;
    row.bytes_in = info.qp.counters.payload_bytes_in;
    row.bytes_out = info.qp.counters.payload_bytes_out;
    row.rpcs = info.calls;
    row.retransmits = info.qp.counters.packets_retransmitted;
    row.round_trip = info.qp.round_trip;
    row.selective_recovery = info.qp.selective_recovery;
    row.cnps_received = info.qp.counters.cnps_received;
    row.rate_bytes_per_second = info.qp.rate_bytes_per_second;
    row.age = info.age;
    if (info.qp.error.cause != rc::QpErrorCause::kNone) {
      row.last_error = fmt::format("{} at PSN {}", rc::to_string(info.qp.error.cause), info.qp.error.psn.value());
    }
  }
  return rows;
}

std::vector<control::NamedValue> LiveView::stats() {
  return collector_.named_values();
}

}  // namespace cw::dataplane
