#include "telemetry/log_fields.h"

#include <array>

namespace cw::telemetry {

std::string_view to_string(LogFieldName name) noexcept {
  constexpr std::array<std::string_view, static_cast<size_t>(LogFieldName::kCount)> kNames = {
      "client",
      "client_port",
      "listener_port",
      "client_section",
      "connections_max",
      "backend",
      "server",
      "device",
      "port",
      "state",
      "result",
      "cause",
      "origin",
      "error",
      "wire",
      "local_qpn",
      "remote_qpn",
      "path_mtu",
      "inline_send_bytes",
      "inline_receive_bytes",
      "remote_invalidation",
      "calls",
  };
  static_assert(!kNames.back().empty());
  return kNames[static_cast<size_t>(name)];
}

}  // namespace cw::telemetry
