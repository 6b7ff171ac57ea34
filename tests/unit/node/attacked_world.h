// A gateway under load and an attacker beside its client: frames are put into the gateway's node between two steps of the world,
// and what each of them changed is compared at once.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "rocev2/wire/icrc.h"
#include "rocev2/wire/ipv4.h"
#include "tests/unit/gateway/world_checks.h"
#include "tests/unit/wire/frames.h"

namespace cw::node::test {

using ByteVector = std::vector<uint8_t>;
using wire::DropReason;

inline constexpr size_t kIpOffset = 14;  // of the IP header in an untagged frame

// Everything that a refused frame must not change, and the sum of what must go up by one.
struct Observation {
  uint64_t discards = 0;  // of port, QP1, queue pairs and connection manager
  uint64_t station_other = 0;
  uint64_t cm_sent = 0;
  uint64_t cm_received = 0;
  uint32_t packets_in_use = 0;
  uint32_t large_in_use = 0;
  uint32_t qp_count = 0;
  uint32_t cm_live = 0;
  uint64_t connections_open = 0;
  std::array<uint64_t, wire::kDropReasonCount> by_reason{};  // of port, QP1 and queue pairs together
  std::vector<rc::RcQpInfo> queue_pairs;
};

template <typename Array>
uint64_t sum_of(const Array& counts) {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

// Same state and same place in both PSN spaces.
inline bool is_untouched(const rc::RcQpInfo& a, const rc::RcQpInfo& b) {
  return a.local_qpn == b.local_qpn && a.state == b.state && a.error == b.error && a.path == b.path && a.una == b.una &&
         a.next_psn == b.next_psn && a.expected_psn == b.expected_psn && a.packets_in_flight == b.packets_in_flight &&
         a.works_queued == b.works_queued && a.reads_outstanding == b.reads_outstanding &&
         a.receives_posted == b.receives_posted && a.retries == b.retries;
}

class AttackedWorld {
 public:
  static sim::WorldOptions options(bool ipv6 = false, uint16_t vlan = 0) {
    sim::WorldOptions out;
    out.ipv6 = ipv6;
    out.vlan = vlan;
    out.load.operation = load::BenchProcedure::kEcho;
    out.load.bytes = 6000;  // by chunks: SENDs, READs and WRITEs all happen
    out.load.connections = 2;
    out.load.window = 4;
    out.load.reconnect = true;
    out.path_mtu = 1024;
    return out;
  }

  explicit AttackedWorld(const sim::WorldOptions& world_options = options()) : world(world_options) {
    world.link.tap = &AttackedWorld::on_link;
    world.link.tap_context = this;
    world.start();
    CW_ASSERT(world.run_calls(20));
  }

  Observation observe() {
    sim::GatewayHost& host = *world.server;
    Observation out;
    const auto& port = host.node.port_stats(0).discards;
    const auto& gsi = host.node.gsi_stats().discards;
    const auto& rc = host.node.endpoint().stats().discards;
    for (size_t i = 0; i < wire::kDropReasonCount; ++i) {
      out.by_reason[i] = port[i] + gsi[i] + rc[i];
    }
    const cm::CmStats& cm = host.node.cm().stats();
    out.discards = sum_of(out.by_reason) + sum_of(cm.drops);
    out.station_other = host.node.station(0).stats().other_in;
    out.cm_sent = sum_of(cm.sent);
    out.cm_received = sum_of(cm.received);
    out.packets_in_use = host.packets.in_use();
    out.large_in_use = host.large.in_use();
    out.qp_count = host.node.endpoint().qp_count();
    out.cm_live = host.node.cm().live_count();
    out.connections_open = host.gateway.stats().connections_open;
    host.node.endpoint().for_each_qp([&](rc::RcQp& qp) { out.queue_pairs.push_back(qp.info()); });
    return out;
  }

  // One frame from nowhere into the gateway's port. Its memory ends where it ends, so that ASan sees what reads beyond. True when
  // the gateway kept it.
  bool inject(const ByteVector& frame) {
    const auto bytes = static_cast<uint32_t>(frame.size());
    auto pool = std::make_unique<HeapBufferPool>(1, bytes, 64);
    Buffer* buffer = pool->allocate_one();
    CW_ASSERT(buffer->append(frame) == bytes);
    if (!world.server->node.on_frame(world.now, buffer, 0)) {
      release_buffers(buffer);
      return false;
    }
    kept_.push_back(std::move(pool));
    return true;
  }

  // The frame is refused: one reason goes up by one, nothing else changes.
  void expect_refused(const ByteVector& frame, const std::string& what) {
    const Observation before = observe();
    EXPECT_FALSE(inject(frame)) << what;
    const Observation after = observe();
    EXPECT_EQ(after.discards, before.discards + 1) << what;
    EXPECT_EQ(after.cm_sent, before.cm_sent) << what;
    // What the station did not want either is the same frame, seen by its other counter.
    EXPECT_LE(after.station_other, before.station_other + 1) << what;
    expect_same(before, after, what);
  }
  void expect_refused(const ByteVector& frame, DropReason reason, const std::string& what) {
    const auto index = static_cast<size_t>(reason);
    const uint64_t before = observe().by_reason[index];
    expect_refused(frame, what);
    EXPECT_EQ(observe().by_reason[index], before + 1) << what << " should be " << to_string(reason);
  }
  void expect_same(const Observation& before, const Observation& after, const std::string& what) {
    EXPECT_EQ(after.packets_in_use, before.packets_in_use) << what;
    EXPECT_EQ(after.large_in_use, before.large_in_use) << what;
    EXPECT_EQ(after.qp_count, before.qp_count) << what;
    EXPECT_EQ(after.cm_live, before.cm_live) << what;
    EXPECT_EQ(after.connections_open, before.connections_open) << what;
    ASSERT_EQ(after.queue_pairs.size(), before.queue_pairs.size()) << what;
    for (size_t i = 0; i < after.queue_pairs.size(); ++i) {
      EXPECT_TRUE(is_untouched(before.queue_pairs[i], after.queue_pairs[i])) << what;
    }
  }
  void expect_consistent(const std::string& what) {
    EXPECT_TRUE(world.server->node.cm().is_consistent()) << what;
    world.server->node.endpoint().for_each_qp([&](rc::RcQp& qp) { EXPECT_TRUE(qp.is_consistent()) << what; });
  }

  // The load has lost nothing, ends well, and nobody owns anything afterwards.
  void expect_unharmed() {
    EXPECT_TRUE(world.run_calls(100));
    EXPECT_EQ(world.peer->driver.stats().lost, 0u);
    expect_ends_well();
    EXPECT_EQ(sum_of(world.peer->driver.stats().failed), 0u);
  }
  void expect_ends_well() {
    EXPECT_TRUE(world.finish());
    EXPECT_EQ(world.peer->driver.stats().wrong, 0u);
    sim::expect_nothing_left(world, Duration::seconds(60));
  }

  // Of the i-th connection, as the gateway sees it.
  gateway::ConnectionInfo connection(uint32_t index) {
    std::array<gateway::ConnectionInfo, 8> all;
    const uint32_t count = world.server->gateway.describe(world.now, all);
    CW_ASSERT(index < count);
    return all[index];
  }
  // How the peer of this queue pair sends.
  static wire::Path towards_us(const rc::RcQpInfo& qp) {
    wire::Path path = qp.path;
    std::swap(path.local_mac, path.remote_mac);
    std::swap(path.local, path.remote);
    return path;
  }
  static wire::Bth header(const rc::RcQpInfo& qp, wire::Opcode opcode, wire::Psn psn) {
    wire::Bth bth;
    bth.opcode = opcode;
    bth.destination = qp.local_qpn;
    bth.psn = psn;
    bth.ack_request = true;
    return bth;
  }
  static ByteVector frame(const rc::RcQpInfo& qp, wire::Opcode opcode, wire::Psn psn, size_t payload_bytes = 0,
                          const wire::Extensions& extensions = {}) {
    return wire::test::build_frame(towards_us(qp), header(qp, opcode, psn), extensions, ByteVector(payload_bytes, 0x5a));
  }
  // A datagram to QP1 that is right in every respect.
  ByteVector datagram(Bytes mad, const IpAddress& source) const {
    const bool ipv6 = !source.is_v4();
    wire::Path path;
    path.local_mac = sim::sim_mac(66);
    path.remote_mac = sim::sim_mac(1);
    path.local = source;
    path.remote = sim::sim_ip(ipv6, 1);
    path.udp_source_port = 0xc001;
    return wire::test::build_frame(path, datagram_header(), datagram_extensions(), mad);
  }
  static wire::Bth datagram_header() {
    wire::Bth bth;
    bth.opcode = wire::Opcode::kUdSendOnly;
    bth.destination = verbs::Qpn(1);
    return bth;
  }
  static wire::Extensions datagram_extensions() {
    wire::Extensions extensions;
    extensions.deth = {.qkey = wire::kGsiQkey, .source = verbs::Qpn(1)};
    return extensions;
  }

  // Injected frames that became part of a message; outlives the world.
 private:
  std::vector<std::unique_ptr<HeapBufferPool>> kept_;

 public:
  sim::World world;
  std::vector<ByteVector> heard;  // the last frames of the client towards the gateway
  uint64_t naks_to_client = 0;

 private:
  static constexpr size_t kHeardMax = 64;
  static bool on_link(void* context, Instant, uint32_t to, const ByteVector& raw) {
    auto& self = *static_cast<AttackedWorld*>(context);
    if (to == 0) {
      if (self.heard.size() == kHeardMax) {
        self.heard.erase(self.heard.begin());
      }
      self.heard.push_back(raw);
      return true;
    }
    const auto view = wire::PacketView::parse(raw);
    if (view.ok() && view->traits->kind == wire::OpcodeKind::kAcknowledge && view->aeth().kind() == wire::AethKind::kNak) {
      ++self.naks_to_client;
    }
    return true;
  }
};

inline void fix_ipv4_checksum(ByteVector& frame, size_t ip) {
  store_be16(&frame[ip + 10], 0);
  const uint64_t sum = wire::ipv4_sum(std::span<const uint8_t, 20>(&frame[ip], 20));
  store_be16(&frame[ip + 10], static_cast<uint16_t>(~wire::fold_ones_complement(sum)));
}
inline void fix_icrc(ByteVector& frame, size_t ip) {
  const size_t end = frame.size() - 4;
  store_le32(&frame[end], wire::Icrc(Bytes(frame).subspan(ip, end - ip)).value());
}

}  // namespace cw::node::test
