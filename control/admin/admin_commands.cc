#include "control/admin/admin_commands.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "control/admin/answer_fields.h"

namespace cw::control {
namespace {

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

Json status(const Request&, GatewayView& view) {
  const GatewayStatus s = view.status();
  return {{"version", s.version},
          {"instance", s.instance},
          {"uptime_seconds", s.uptime.to_seconds()},
          {"ready", s.ready},
          {"draining", s.draining},
          {"connections", s.connections},
          {"ports", to_rows(s.ports)},
          {"listeners", to_rows(s.listeners)},
          {"backends", to_rows(s.backends)}};
}

Json connections(const Request&, GatewayView& view) {
  return {{"connections", to_rows(view.connections())}};
}

Json queue_pairs(const Request&, GatewayView& view) {
  return {{"queue_pairs", to_rows(view.queue_pairs())}};
}

Json cores(const Request&, GatewayView& view) {
  return {{"cores", to_rows(view.cores())}};
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

Json stat_schema(const Request& request, GatewayView& view) {
  std::vector<StatInfo> schema = view.stat_schema();
  std::erase_if(schema, [&](const StatInfo& info) { return !info.name.starts_with(request.prefix); });
  return {{"schema", to_rows(schema)}};
}

Json help(const Request& request, GatewayView& view);

constexpr std::array<Command, 7> kCommands = {{
    {"status", status, "version, ports, listeners, backends"},
    {"connections", connections, "one entry per connection"},
    {"queue_pairs", queue_pairs, "transport state of every queue pair"},
    {"cores", cores, "poll cores and how busy they are"},
    {"stats", stats, "every exported number; with a prefix, those that begin with it"},
    {"stat_schema", stat_schema, "what the numbers mean, by family; with a prefix, those that begin with it"},
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
