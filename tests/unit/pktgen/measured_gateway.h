// A gateway with one established connection at rest, whose client is gone, and its counters under the names of /metrics.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/load/pktgen/profile.h"
#include "apps/sim/world.h"
#include "rocev2/wire/tx_batch.h"
#include "telemetry/metric_table.h"

namespace cw::pktgen::test {

struct Shape {
  bool ipv6 = false;
  uint16_t vlan = 0;
};

// Counters by name and labels, those of ports and backends added up.
struct Sample {
  std::string metric;
  std::map<std::string, std::string> labels;
  double value = 0;
};

class MeasuredGateway {
 public:
  explicit MeasuredGateway(const Shape& shape = {}) : world(options(shape)) {
    world.link.tap = &MeasuredGateway::on_link;
    world.link.tap_context = this;
    world.start();
    CW_ASSERT(world.run_calls(10) && world.finish());
    const auto at_rest = [this](sim::World&) { return connection().packets_in_flight == 0 && connection().works_queued == 0; };
    CW_ASSERT(world.run_until(Duration::seconds(1), at_rest));
    cut_ = true;
  }

  // What aims at the connection, from its client.
  [[nodiscard]] Target target() {
    Target out;
    out.path = connection().path;
    std::swap(out.path.local, out.path.remote);
    std::swap(out.path.local_mac, out.path.remote_mac);
    out.path_mtu_bytes = connection().path_mtu_bytes;
    out.service_port = sim::GatewayHost::kPort;
    return out;
  }
  [[nodiscard]] QueuePairTarget qp() { return {.qpn = connection().local_qpn, .first_psn = connection().expected_psn}; }

  // As a port would hand them over: bursts of 32, a turn of the core behind each.
  void play(const Profile& profile) {
    for (size_t i = 0; i < profile.frames.size(); ++i) {
      play(profile.frames[i].raw);
      if (i % 32 == 31 || i + 1 == profile.frames.size()) {
        turn();
      }
    }
  }
  void play(const ByteVector& frame) {
    ++frames_;
    world.deliver(world.server->node, world.server->packets, frame);
  }
  // The core's turn behind a burst; what it sends is lost, and no time passes but this.
  void turn() {
    world.now = world.now + Duration::us(10);
    wire::TxBatch batch(world.server->packets);
    do {
      batch.clear();
      world.server->turn(world.now);
      world.server->node.poll_transmit(world.now, batch);
    } while (!batch.empty());
  }

  [[nodiscard]] std::vector<Sample> samples() const {
    const auto core = std::make_unique<telemetry::CoreSnapshot>(snapshot());
    std::vector<Sample> out;
    for (const telemetry::MetricRow& row : telemetry::metric_rows()) {
      if (row.type != prometheus::MetricType::Counter || row.scope == telemetry::Scope::kPool) {
        continue;
      }
      for (uint32_t i = 0; i < std::max(row.indexed.count, 1u); ++i) {
        Sample sample{.metric = row.name, .labels = {}, .value = row.get(*core, {.scope = 0, .label = i})};
        if (row.fixed.name != nullptr) {
          sample.labels[row.fixed.name] = row.fixed.value;
        }
        const char* value = row.indexed.count > 0 ? row.indexed.value_of(i) : nullptr;
        if (value != nullptr) {
          sample.labels[row.indexed.name] = value;
        }
        out.push_back(sample);
      }
    }
    return out;
  }

  sim::World world;

 private:
  static sim::WorldOptions options(const Shape& shape) {
    sim::WorldOptions out;
    out.ipv6 = shape.ipv6;
    out.vlan = shape.vlan;
    out.path_mtu = 1024;
    out.load.connections = 1;
    out.load.window = 4;
    out.client_recovers_selectively = false;
    return out;
  }
  // From the cut on the client hears nothing, so that it stays silent too.
  static bool on_link(void* context, Instant, uint32_t to, const ByteVector&) {
    return !static_cast<MeasuredGateway*>(context)->cut_ || to == 0;
  }
  [[nodiscard]] rc::RcQpInfo connection() {
    rc::RcQpInfo info{};
    world.server->node.endpoint().for_each_qp([&](rc::RcQp& qp) { info = qp.info(); });
    return info;
  }
  [[nodiscard]] telemetry::CoreSnapshot snapshot() const {
    sim::GatewayHost& host = *world.server;
    telemetry::CoreSnapshot core;
    core.rc = host.node.endpoint().stats();
    core.gsi = host.node.gsi_stats();
    core.cm = host.node.cm().stats();
    core.rpcrdma = host.gateway.rpcrdma_stats();
    core.gateway = host.gateway.stats();
    const link::StationStats& station = host.node.station(0).stats();
    telemetry::PortStats& port = core.ports[0];
    port.rx_packets = frames_;
    port.roce_rx_packets = host.node.port_stats(0).roce_in;
    port.roce_tx_packets = host.node.port_stats(0).roce_out;
    port.discards = host.node.port_stats(0).discards;
    port.arp_rx = station.arp_in;
    port.arp_tx = station.arp_out;
    port.nd_rx = station.nd_in;
    port.nd_tx = station.nd_out;
    port.icmp_rx = station.echo_in;
    port.icmp_tx = station.echo_out;
    port.other_rx = station.other_in;
    return core;
  }

  bool cut_ = false;
  uint64_t frames_ = 0;
};

}  // namespace cw::pktgen::test
