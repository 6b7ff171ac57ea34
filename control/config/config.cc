#include "control/config/config.h"

#include <algorithm>
#include <array>

#include "control/cm/path_mtu.h"
#include "control/config/memory_plan.h"

namespace cw::control {

namespace {

constexpr std::array kLogLevels = {"trace", "debug", "info", "warning", "error"};

}  // namespace

const char* to_string(TransportKind kind) noexcept {
  constexpr std::array kNames = {"roce", "iwarp", "verbs"};
  return kNames[static_cast<size_t>(kind)];
}

const char* to_string(LogLevel level) noexcept {
  return kLogLevels[static_cast<size_t>(level)];
}

std::optional<LogLevel> log_level_of(std::string_view name) {
  for (size_t i = 0; i < kLogLevels.size(); ++i) {
    if (name == kLogLevels[i]) {
      return static_cast<LogLevel>(i);
    }
  }
  return std::nullopt;
}

uint32_t path_mtu_for(uint32_t ethernet_mtu, uint32_t path_mtu_max) {
  constexpr uint32_t kHeaderBytes = 40 + 8 + 12 + 16 + 4 + 4;
  const uint32_t payload_bytes = ethernet_mtu > kHeaderBytes ? ethernet_mtu - kHeaderBytes : 0;
  return cm::to_bytes(cm::path_mtu_for(payload_bytes < path_mtu_max ? payload_bytes : path_mtu_max));
}

std::vector<uint32_t> poll_cpus(const Config& config) {
  std::vector<uint32_t> cpus = config.dataplane.poll_lcores;
  cpus.insert(cpus.end(), config.iwarp.poll_lcores.begin(), config.iwarp.poll_lcores.end());
  return cpus;
}

uint32_t poll_core_count(const Config& config) {
  return static_cast<uint32_t>(std::max<size_t>(1, config.dataplane.poll_lcores.size() + config.iwarp.poll_lcores.size()));
}

bool serves_iwarp(const Config& config, uint32_t core) {
  return config.iwarp.poll_lcores.empty() || core >= config.dataplane.poll_lcores.size();
}

std::vector<SocketAddress> servers_of(const BackendConfig& backend) {
  std::vector<SocketAddress> servers;
  if (backend.type == BackendType::kTcp && backend.address) {
    servers.push_back(*backend.address);
    servers.insert(servers.end(), backend.backups.begin(), backend.backups.end());
  }
  return servers;
}

bool may_isolate(const std::string& device) {
  if (device.starts_with("net_tap")) {
    return device_argument(device, "remote").has_value();
  }
  return !device.starts_with("net_") && !device.starts_with("eth_");
}

std::string default_admin_socket(const std::string& instance) {
  return "/run/causeway/" + instance + ".sock";
}

std::string admin_socket_path(const Config& config) {
  return config.admin.socket.empty() ? default_admin_socket(config.gateway.instance) : config.admin.socket;
}

uint32_t connections_max_of(const ListenerConfig& listener, const LimitsConfig& limits) {
  const bool own = listener.connections_max != 0 && listener.connections_max < limits.connections_max;
  return own ? listener.connections_max : limits.connections_max;
}

}  // namespace cw::control
