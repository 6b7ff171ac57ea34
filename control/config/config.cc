#include "control/config/config.h"

#include "control/cm/path_mtu.h"

namespace cw::control {

uint32_t path_mtu_for(uint32_t ethernet_mtu, uint32_t path_mtu_max) {
  constexpr uint32_t kHeaderBytes = 40 + 8 + 12 + 16 + 4 + 4;
  const uint32_t payload_bytes = ethernet_mtu > kHeaderBytes ? ethernet_mtu - kHeaderBytes : 0;
  return cm::to_bytes(cm::path_mtu_for(payload_bytes < path_mtu_max ? payload_bytes : path_mtu_max));
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
