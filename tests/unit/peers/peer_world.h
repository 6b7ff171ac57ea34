// Two hosts with a test peer each, on a simulated link: the real stack and the real connection manager under both protocols.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "apps/sim/faulty_link.h"
#include "base/heap_buffer_pool.h"
#include "tests/peers/peer_host.h"
#include "tests/peers/perftest_peer.h"
#include "tests/peers/rping.h"

namespace cw::peers {

struct PeerWorldOptions {
  uint64_t seed = 1;
  uint32_t path_mtu = 4096;
  uint32_t packet_buffers = 4096;
};

class PeerWorldHost {
 public:
  PeerWorldHost(const PeerWorldOptions& options, uint8_t last)
      : random(options.seed * 16 + last),
        packets(options.packet_buffers, options.path_mtu + 160, 16384),
        memory(64, random),
        node(node_options(last), random, &memory),
        host(PeerHostOptions{.path_mtu_bytes = options.path_mtu}, node, random) {}

  static IpAddress address(uint8_t last) { return IpAddress::v4(0x0a09'0000u + last); }
  static node::NodeOptions node_options(uint8_t last) {
    node::NodeOptions options;
    link::StationOptions& station = options.ports.emplace_back();
    station.mac = wire::MacAddress{{2, 0, 0, 0, 0, last}};
    station.mtu = 9000;
    station.addresses.push_back({address(last), 24});
    options.endpoint.qp_max = 64;
    options.endpoint.read_replay_max = 64;
    options.cm.local_ca_guid = last;
    return options;
  }

  SeededRandom random;
  HeapBufferPool packets;
  verbs::MemoryTable memory;
  node::Node node;
  PeerHost host;
};

class PeerWorld {
 public:
  explicit PeerWorld(const PeerWorldOptions& options)
      : path_mtu(options.path_mtu),
        link(options.seed * 31 + 7),
        hosts{std::make_unique<PeerWorldHost>(options, uint8_t{1}), std::make_unique<PeerWorldHost>(options, uint8_t{2})} {}

  PeerWorldHost& server() { return *hosts[0]; }
  PeerWorldHost& client() { return *hosts[1]; }

  // Until both hosts are through with their sessions. False when the time is over first.
  [[nodiscard]] bool run(Duration limit = Duration::seconds(120)) {
    const Instant end = now + limit;
    while (!server().host.is_over() || !client().host.is_over()) {
      if (now >= end) {
        return false;
      }
      step();
    }
    return true;
  }

  // One event: everything that is due at the next instant at which anything is.
  void step() {
    Instant deadline = now + Duration::ms(1);
    for (uint32_t i = 0; i < 2; ++i) {
      PeerWorldHost& host = *hosts[i];
      host.node.on_deadline(now);
      (void)host.host.run(now);
      transmit(host, 1 - i);
      deadline = earlier(deadline, earlier(host.node.next_deadline(), host.host.next_deadline()));
    }
    // A deadline is a lower bound: asking again has to take a little time.
    now = earlier(std::max(link.next_at(), now), std::max(deadline, now + Duration::us(20)));
    while (!link.empty() && link.next_at() <= now) {
      const sim::Frame frame = link.take();
      deliver(*hosts[frame.to], frame.raw);
    }
  }

  // The other side's network cable comes out for good.
  void silence() { link.faults.loss = 1000; }

  const uint32_t path_mtu;
  Instant now = Instant::from_ns(1'000'000'000);
  sim::FaultyLink link;
  std::unique_ptr<PeerWorldHost> hosts[2];

 private:
  void deliver(PeerWorldHost& host, const std::vector<uint8_t>& raw) {
    Buffer* buffer = host.packets.allocate_one();
    if (buffer == nullptr) {
      return;
    }
    const bool kept = buffer->append(raw) == raw.size() && host.node.on_frame(now, buffer, 0);
    if (!kept) {
      release_buffers(buffer);
    }
  }
  void transmit(PeerWorldHost& host, uint32_t to) {
    wire::TxBatch batch(host.packets);
    bool full = true;
    while (full) {
      host.node.poll_transmit(now, batch);
      full = batch.full();
      for (const wire::TxPacket& packet : batch.packets()) {
        link.send(now, to, packet.raw());
      }
      batch.clear();
    }
  }
};

}  // namespace cw::peers
