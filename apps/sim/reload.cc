#include "apps/sim/reload.h"

#include <array>
#include <string>
#include <utility>

namespace cw::sim {
namespace {

using gateway::BackendOptions;
using gateway::ClientClassOptions;
using gateway::GatewayOptions;
using gateway::ListenerOptions;

}  // namespace

GatewayOptions restored_options(const WorldOptions& options) {
  GatewayOptions out = sim_gateway_options(options);
  CW_ASSERT(out.clients.empty() && out.listeners.size() <= 2 && out.backends.size() == 1);
  out.clients.resize(kReloadClients);
  for (uint32_t i = 0; i < kReloadClients; ++i) {
    out.clients[i].name = "clients" + std::to_string(i);  // without prefixes: removed
  }
  for (ListenerOptions& listener : out.listeners) {
    listener.other_route = 0;
  }
  ListenerOptions other = out.listeners[0];
  other.name = "other";
  other.port = GatewayHost::kPort + 1;
  other.removed = true;
  out.listeners.push_back(std::move(other));
  BackendOptions second = out.backends[0];
  second.name = "second";
  second.removed = true;
  out.backends.push_back(std::move(second));
  return out;
}

GatewayOptions reloaded_options(const WorldOptions& options, uint64_t seed) {
  SeededRandom random(seed);
  const auto one_in = [&](uint32_t n) { return random.next_below(n) == 0; };
  const auto up_to = [&](uint32_t most) { return 1 + random.next_below(most); };
  GatewayOptions out = restored_options(options);
  // All clients of the installation, the first, the second: the longest prefix counts.
  const uint8_t all_bits = options.ipv6 ? 64 : 24;
  const uint8_t one_bits = options.ipv6 ? 128 : 32;
  const std::array<control::IpPrefix, kReloadClients> prefixes = {
      {{sim_ip(options.ipv6, 0), all_bits}, {sim_ip(options.ipv6, 2), one_bits}, {sim_ip(options.ipv6, 3), one_bits}}};
  for (uint32_t i = 0; i < kReloadClients; ++i) {
    if (one_in(3)) {
      continue;
    }
    ClientClassOptions& clients = out.clients[i];
    clients.prefixes = {prefixes[i]};
    clients.allow = !one_in(8);
    clients.connections_max = one_in(3) ? random.next_below(3) : UINT32_MAX;
    clients.credits_max = one_in(2) ? up_to(options.credits) : UINT32_MAX;
    clients.bytes_in_flight_max = one_in(2) ? up_to(64 * options.path_mtu) : UINT64_MAX;
  }
  ListenerOptions& listener = out.listeners[0];
  listener.removed = one_in(6);
  listener.server.credits = up_to(options.credits);
  listener.connections_max = one_in(3) ? random.next_below(4) : options.connections_max;
  listener.remote_invalidate = one_in(2);
  out.listeners.back().removed = one_in(2);
  out.backends[1].removed = one_in(2);
  if (!out.backends[1].removed && one_in(2)) {
    listener.backend = 1;
    listener.other_route = 1;
  }
  if (options.tcp != nullptr) {  // the same on the other wire
    const ListenerOptions iwarp = std::exchange(out.listeners[1], listener);
    out.listeners[1].name = iwarp.name;
    out.listeners[1].transport = iwarp.transport;
  }
  for (BackendOptions& backend : out.backends) {
    backend.servers.clear();
    for (uint32_t server = 0; server < 3; ++server) {
      if (one_in(2)) {
        backend.servers.insert(one_in(2) ? backend.servers.begin() : backend.servers.end(), server);
      }
    }
    if (backend.servers.empty()) {
      backend.servers = {0};
    }
  }
  return out;
}

}  // namespace cw::sim
