// A configuration file of any content: it is parsed and checked without harm; every problem says what and where; and what is
// accepted is within the bounds that the tables of the other layers are made for.
#include <algorithm>
#include <string_view>

#include "control/config/buffer_plan.h"
#include "control/config/config_check.h"
#include "control/config/config_parse.h"
#include "tests/fuzz/fuzz_target.h"

using namespace cw::control;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 8192) {
    return 0;
  }
  const ParsedConfig parsed = config_parse(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz.toml");
  const std::vector<Problem> problems = config_check(parsed);
  bool refused = false;
  for (const Problem& problem : problems) {
    FUZZ_CHECK(!to_string(problem).empty());
    refused |= problem.severity == Severity::kError;
  }
  if (refused || !parsed.problems.empty()) {
    return 0;
  }
  const Config& config = parsed.config;
  FUZZ_CHECK(config.ports.size() <= kPortsMax);
  FUZZ_CHECK(!config.listeners.empty() && config.listeners.size() <= kListenersMax);
  FUZZ_CHECK(!config.backends.empty() && config.backends.size() <= kBackendsMax);
  FUZZ_CHECK(config.limits.connections_max >= 1 && config.limits.half_open_max >= 1);
  FUZZ_CHECK(config.limits.prefix_bits_ipv4 <= 32 && config.limits.prefix_bits_ipv6 <= 128);
  FUZZ_CHECK(reserved_buffers(config) <= config.dataplane.rx_buffers);
  for (const ListenerConfig& listener : config.listeners) {
    FUZZ_CHECK(listener.transport != TransportKind::kRoce || !config.ports.empty());
    if (listener.backend.empty()) {
      FUZZ_CHECK(std::ranges::count(config.routes, listener.name, &RouteConfig::listener) >= 1);
    } else {
      FUZZ_CHECK(std::ranges::count(config.backends, listener.backend, &BackendConfig::name) == 1);
    }
    FUZZ_CHECK(connections_max_of(listener, config.limits) <= config.limits.connections_max);
  }
  return 0;
}
