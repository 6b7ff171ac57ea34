#include "control/admin/admin_commands.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

namespace cw::control {
namespace {

using Json = nlohmann::ordered_json;

struct Request {
  std::string command;
  std::string prefix;
};

struct Command {
  const char* name;
  Json (*answer)(const Request& request, GatewayView& view);
  const char* help;
};

// Text from peers may be anything; JSON has to stay UTF-8.
std::string to_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json to_json(const PortStatus& port) {
  return {{"device", port.device},     {"mac", port.mac},         {"addresses", port.addresses}, {"mtu", port.mtu},
          {"path_mtu", port.path_mtu}, {"link_up", port.link_up}, {"link_mbps", port.link_mbps}};
}

Json to_json(const ListenerStatus& listener) {
  return {{"name", listener.name},
          {"port", listener.port},
          {"backend", listener.backend},
          {"credits", listener.credits},
          {"inline_bytes", listener.inline_bytes},
          {"connections", listener.connections},
          {"connections_max", listener.connections_max}};
}

Json to_json(const BackendStatus& backend) {
  return {{"name", backend.name},
          {"type", backend.type},
          {"address", backend.address},
          {"up", backend.up ? Json(*backend.up) : Json()},
          {"calls_in_flight", backend.calls_in_flight},
          {"reconnects", backend.reconnects},
          {"call_timeouts", backend.call_timeouts}};
}

Json to_json(const ConnectionStatus& c) {
  return {{"id", c.id},
          {"listener", c.listener},
          {"peer_address", c.peer_address},
          {"peer_port", c.peer_port},
          {"local_qpn", c.local_qpn},
          {"remote_qpn", c.remote_qpn},
          {"state", c.state},
          {"lcore", c.lcore},
          {"path_mtu", c.path_mtu},
          {"inline_send_bytes", c.inline_send_bytes},
          {"inline_receive_bytes", c.inline_receive_bytes},
          {"remote_invalidate", c.remote_invalidate},
          {"credits_granted", c.credits_granted},
          {"calls_in_flight", c.calls_in_flight},
          {"reverse_credits_granted", c.reverse_credits_granted},
          {"reverse_calls_in_flight", c.reverse_calls_in_flight},
          {"bytes_in", c.bytes_in},
          {"bytes_out", c.bytes_out},
          {"rpcs", c.rpcs},
          {"retransmits", c.retransmits},
          {"selective_recovery", c.selective_recovery},
          {"cnps_received", c.cnps_received},
          {"rate_bytes_per_second", c.rate_bytes_per_second},
          {"age_seconds", c.age.to_seconds()},
          {"last_error", c.last_error}};
}

template <typename T>
Json to_array(const std::vector<T>& items) {
  Json array = Json::array();
  for (const T& item : items) {
    array.push_back(to_json(item));
  }
  return array;
}

Json status(const Request&, GatewayView& view) {
  const GatewayStatus s = view.status();
  return {{"version", s.version},
          {"instance", s.instance},
          {"uptime_seconds", s.uptime.to_seconds()},
          {"ready", s.ready},
          {"draining", s.draining},
          {"connections", s.connections},
          {"ports", to_array(s.ports)},
          {"listeners", to_array(s.listeners)},
          {"backends", to_array(s.backends)}};
}

Json connections(const Request&, GatewayView& view) {
  return {{"connections", to_array(view.connections())}};
}

Json stats(const Request& request, GatewayView& view) {
  Json values = Json::object();
  for (const NamedValue& stat : view.stats()) {
    if (!stat.name.starts_with(request.prefix)) {
      continue;
    }
    // Counters are whole numbers; shown as such up to where a double stops being exact.
    constexpr double kExactMax = 9007199254740992.0;
    const bool whole = std::floor(stat.value) == stat.value && std::fabs(stat.value) <= kExactMax;
    values[stat.name] = whole ? Json(static_cast<int64_t>(stat.value)) : Json(stat.value);
  }
  return {{"stats", values}};
}

Json help(const Request& request, GatewayView& view);

constexpr std::array<Command, 4> kCommands = {{
    {"status", status, "version, ports, listeners, backends"},
    {"connections", connections, "one entry per connection"},
    {"stats", stats, "every exported number; with a prefix, those that begin with it"},
    {"help", help, "this list"},
}};

Json help(const Request&, GatewayView&) {
  Json list = Json::object();
  for (const Command& command : kCommands) {
    list[command.name] = command.help;
  }
  return {{"commands", list}};
}

// A JSON object, or words: command [prefix].
std::optional<Request> parse_request(std::string_view line, std::string& problem) {
  Request request;
  if (line.starts_with('{')) {
    const Json json = Json::parse(line, nullptr, false);
    if (json.is_discarded() || !json.is_object()) {
      problem = "the request is not a JSON object on one line";
      return std::nullopt;
    }
    for (const auto& [key, value] : json.items()) {
      if ((key != "command" && key != "prefix") || !value.is_string()) {
        problem = "a request has \"command\" and may have \"prefix\", both strings";
        return std::nullopt;
      }
      (key == "command" ? request.command : request.prefix) = value.get<std::string>();
    }
    return request;
  }
  const auto next_word = [&line]() {
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    const std::string_view word = line.substr(0, line.find_first_of(" \t"));
    line.remove_prefix(word.size());
    return std::string(word);
  };
  request.command = next_word();
  request.prefix = next_word();
  if (!next_word().empty()) {
    problem = "too many words; a request is a command and at most one argument";
    return std::nullopt;
  }
  return request;
}

}  // namespace

std::string admin_error(std::string_view text) {
  return to_line(Json{{"error", text}});
}

std::string admin_answer(std::string_view line, GatewayView& view) {
  std::string problem;
  const std::optional<Request> request = parse_request(line, problem);
  if (!request) {
    return admin_error(problem);
  }
  const auto command = std::ranges::find(kCommands, request->command, [](const Command& c) { return std::string_view(c.name); });
  if (command == kCommands.end()) {
    return admin_error("unknown command; try help");
  }
  return to_line(command->answer(*request, view));
}

}  // namespace cw::control
