// The one table of configuration keys: name, member, range, help. The parser, the suggestions and the reference text are driven
// by it; adding a setting is one member in config.h, one row in config_keys.cc, and one line in
// tests/unit/dataplane/config_effects_test.cc that sees it land.
#pragma once

#include "control/config/config.h"
#include "control/config/key.h"

namespace cw::control {

[[nodiscard]] const Section<GatewayConfig>& gateway_section();
[[nodiscard]] const Section<DataplaneConfig>& dataplane_section();
[[nodiscard]] const Section<PortConfig>& port_section();
[[nodiscard]] const Section<ListenerConfig>& listener_section();
[[nodiscard]] const Section<BackendConfig>& backend_section();
[[nodiscard]] const Section<RouteConfig>& route_section();
[[nodiscard]] const Section<ClientConfig>& client_section();
[[nodiscard]] const Section<LimitsConfig>& limits_section();
[[nodiscard]] const Section<RoceConfig>& roce_section();
[[nodiscard]] const Section<IwarpConfig>& iwarp_section();
[[nodiscard]] const Section<MetricsConfig>& metrics_section();
[[nodiscard]] const Section<AdminConfig>& admin_section();
[[nodiscard]] const Section<LogConfig>& log_section();

// Calls visit(section, member) for every section in the order of the reference; member is Config::x or the vector of it.
template <typename Visit>
void for_each_section(Visit&& visit) {
  visit(gateway_section(), &Config::gateway);
  visit(dataplane_section(), &Config::dataplane);
  visit(port_section(), &Config::ports);
  visit(listener_section(), &Config::listeners);
  visit(backend_section(), &Config::backends);
  visit(route_section(), &Config::routes);
  visit(client_section(), &Config::clients);
  visit(limits_section(), &Config::limits);
  visit(roce_section(), &Config::roce);
  visit(iwarp_section(), &Config::iwarp);
  visit(metrics_section(), &Config::metrics);
  visit(admin_section(), &Config::admin);
  visit(log_section(), &Config::log);
}

}  // namespace cw::control
