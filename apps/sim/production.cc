#include "apps/sim/production.h"

#include <algorithm>

#include "control/config/buffer_plan.h"
#include "control/config/config.h"
#include "control/config/memory_plan.h"

namespace cw::sim {
namespace {

constexpr uint32_t kPortMtu = 4500;   // RoCE packets of 4096 bytes, as deploy/README.md has it
constexpr uint32_t kCallRoom = 1024;  // of a call or reply, besides its data

const control::Config& config() {
  static const control::Config made = [] {
    control::Config out;
    out.ports.emplace_back().mtu = kPortMtu;
    for (const char* name : {"first", "second"}) {
      out.backends.emplace_back().name = name;
      out.listeners.emplace_back().backend = name;
    }
    return out;
  }();
  return made;
}

RateLimit rate_of(uint32_t per_second) {
  return {.per_second = per_second, .burst = std::max(16u, per_second / 2)};
}

}  // namespace

ProductionPools production_pools() {
  const control::PoolSizes sizes = control::pool_sizes(config());
  return {.packets = sizes.packet_buffers,
          .large = sizes.large_buffers,
          .large_bytes = control::kLargeBufferBytes / kProductionByteScale,
          .views = sizes.views,
          .reply_bytes = config().limits.reply_bytes_max / kProductionByteScale};
}

void apply_production(gateway::GatewayOptions& options) {
  const control::LimitsConfig& limits = config().limits;
  const control::RoceConfig& roce = config().roce;
  options.connections_max = limits.connections_max;
  options.calls_in_flight_max = limits.calls_in_flight_max;
  options.pull_buffers_max = control::plan_buffers(config()).pulled_max;
  options.reserved_packet_bytes = kProductionPathMtu;
  for (gateway::BackendOptions& backend : options.backends) {
    backend.open_timeout = Duration::ms(control::BackendConfig().connect_timeout_ms);
    backend.call_timeout = Duration::seconds(control::BackendConfig().call_timeout_s);
  }
  for (gateway::ListenerOptions& listener : options.listeners) {
    listener.connections_max = limits.connections_max;
    listener.inline_bytes = kProductionInlineBytes;
    listener.server.credits = control::ListenerConfig().credits;
    listener.server.reverse_credits = control::ListenerConfig().reverse_credits;
    listener.server.call_bytes_max = limits.call_bytes_max / kProductionByteScale;
    listener.server.reply_bytes_max = limits.reply_bytes_max / kProductionByteScale;
    listener.server.reads_in_flight_max = roce.reads_in_flight_max;
    listener.server.call_timeout = Duration::seconds(control::BackendConfig().call_timeout_s);
    listener.server.read_bytes_in_flight_max = rpcrdma::ServerOptions().read_bytes_in_flight_max / kProductionByteScale;
    options.orphan_max = std::min(options.orphan_max, listener.server.call_timeout / 2);
    listener.server.limits.read_bytes_max = listener.server.call_bytes_max;
  }
}

void apply_production(node::RoceOptions& options) {
  const control::RoceConfig& roce = config().roce;
  options.retry_count = static_cast<uint8_t>(roce.retry_count);
  options.ack_timeout_min_code = static_cast<uint8_t>(roce.ack_timeout);
  options.rc.send_window_packets = roce.send_window_packets;
  options.rc.min_rnr_timer = static_cast<uint8_t>(roce.rnr_timer);
  options.rc.initiator_depth_max = static_cast<uint8_t>(roce.reads_in_flight_max);
  options.rc.keepalive = Duration::seconds(roce.keepalive_s);
}

void apply_production(node::NodeOptions& options) {
  const control::LimitsConfig& limits = config().limits;
  options.endpoint.qp_max = limits.connections_max + limits.half_open_max;
  options.endpoint.send_work_max = std::max(16384u, 8 * limits.calls_in_flight_max);
  options.endpoint.receive_work_max = config().dataplane.rx_buffers;
  options.endpoint.recovery = rc::recovery_limits(limits.connections_max, control::plan_buffers(config()).held_max);
  options.endpoint.rate_limits_max = limits.connections_max;
  options.cm.connection_max = limits.connections_max + limits.half_open_max;
  options.cm.half_open_max = limits.half_open_max;
  options.cm.handshakes_at_once_max = 2 * limits.half_open_max;
  options.cm.request_rate = rate_of(limits.cm_requests_per_second);
  options.cm.prefix.half_open_max = limits.half_open_max_per_prefix;
  options.cm.prefix.request_rate = rate_of(limits.cm_requests_per_second_per_prefix);
  options.cm.prefix.ipv4_bits = static_cast<uint8_t>(limits.prefix_bits_ipv4);
  options.cm.prefix.ipv6_bits = static_cast<uint8_t>(limits.prefix_bits_ipv6);
}

// As dataplane/assemble.cc does for one core.
void apply_production(iwarp::IwarpOptions& options) {
  const control::LimitsConfig& limits = config().limits;
  const control::IwarpConfig& iwarp = config().iwarp;
  options.connections_max = limits.connections_max;
  options.half_open_max = limits.half_open_max;
  options.request_rate = rate_of(limits.cm_requests_per_second);
  options.prefix.request_rate = rate_of(limits.cm_requests_per_second_per_prefix);
  options.prefix.half_open_max = limits.half_open_max_per_prefix;
  options.prefix.ipv4_bits = static_cast<uint8_t>(limits.prefix_bits_ipv4);
  options.prefix.ipv6_bits = static_cast<uint8_t>(limits.prefix_bits_ipv6);
  options.input_bytes_max = uint64_t{config().dataplane.rx_buffers} / 4 * 2048;
  options.crc = iwarp.crc;
  options.ord = static_cast<uint16_t>(iwarp.reads_in_flight_max);
  options.fpdu_bytes_max = iwarp.fpdu_bytes_max;
  options.handshake_timeout = Duration::seconds(iwarp.handshake_timeout_s);
  options.send_work_max = std::max(16384u, 8 * limits.calls_in_flight_max);
  const control::ListenerConfig listener;
  options.receive_work_max =
      std::max(options.receive_work_max, (listener.credits + listener.reverse_credits) * limits.connections_max);
}

uint32_t production_connections() {
  return config().limits.connections_max;
}

uint32_t production_credits() {
  return control::ListenerConfig().credits;
}

uint32_t production_call_bytes() {
  return static_cast<uint32_t>(config().limits.call_bytes_max) / kProductionByteScale - kCallRoom;
}

uint32_t production_reply_bytes() {
  return static_cast<uint32_t>(config().limits.reply_bytes_max) / kProductionByteScale - kCallRoom;
}

}  // namespace cw::sim
