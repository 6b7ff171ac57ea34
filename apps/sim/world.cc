#include "apps/sim/world.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace cw::sim {

World::World(const WorldOptions& options)
    : link(options.seed * 31 + 7),
      server(std::make_unique<GatewayHost>(options, options.seed * 3 + 1)),
      peer(std::make_unique<ClientHost>(options, options.seed * 3 + 2)),
      options_(options) {}

bool World::run_calls(uint64_t calls, Duration limit) {
  const uint64_t goal = peer->driver.stats().calls + calls;
  return run_until(limit, [&](World& world) { return world.peer->driver.stats().calls >= goal; });
}

bool World::finish(Duration limit) {
  peer->driver.stop();
  return run_until(limit, [](World& world) { return world.peer->driver.in_flight() == 0; });
}

void World::step() {
  if (server != nullptr) {
    server->turn(now);
    transmit(server->node, server->packets, 1);
  }
  peer->node.on_deadline(now);
  (void)peer->driver.turn(now);
  transmit(peer->node, peer->packets, 0);
  Instant next = earlier(link.next_at(), peer->next_deadline());
  next = server != nullptr ? earlier(next, server->next_deadline()) : next;
  next = earlier(next, now + Duration::ms(1));  // the load driver's own pauses
  now = std::max(next, now + Duration::ns(100));
  std::array<std::vector<std::vector<uint8_t>>, 2> bursts;
  while (!link.empty() && link.next_at() <= now) {
    Frame frame = link.take();
    bursts[frame.to == 0 ? 0 : 1].push_back(std::move(frame.raw));
  }
  if (server != nullptr) {
    undeliverable += deliver_frames(now, server->node, server->packets, bursts[0]);
  }
  undeliverable += deliver_frames(now, peer->node, peer->packets, bursts[1]);
}

void World::restart_gateway() {
  server.reset();
  ++generation_;
  server = std::make_unique<GatewayHost>(options_, options_.seed * 3 + 1 + 1000 * generation_);
}

std::vector<std::vector<uint8_t>> World::end_handing_over(Duration patience) {
  server->gateway.hand_over(now);
  (void)run_until(patience, [](World& world) { return world.server->gateway.stats().connections_open == 0; });
  std::vector<std::vector<uint8_t>> handed_over = server->gateway.take_handed_over();
  server.reset();
  return handed_over;
}

uint32_t World::hand_over_gateway(Duration patience, Duration away) {
  const std::vector<std::vector<uint8_t>> handed_over = end_handing_over(patience);
  run_for(away);
  restart_gateway();
  return static_cast<uint32_t>(std::ranges::count_if(
      handed_over, [this](const std::vector<uint8_t>& saved) { return server->gateway.take_over(now, saved); }));
}

void World::deliver(node::Node& node, BufferPool& pool, const std::vector<uint8_t>& raw) {
  if (!deliver_frame(now, node, pool, raw)) {
    ++undeliverable;
  }
}

void World::transmit(node::Node& node, BufferPool& pool, uint32_t to) {
  wire::TxBatch batch(pool);
  bool full = true;
  while (full) {
    node.poll_transmit(now, batch);
    full = batch.full();
    for (const wire::TxPacket& packet : batch.packets()) {
      link.send(now, to, packet.raw());
    }
    batch.clear();
  }
}

}  // namespace cw::sim
