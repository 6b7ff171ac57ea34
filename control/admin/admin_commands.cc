#include "control/admin/admin_commands.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "control/admin/answer_fields.h"

namespace cw::control {
namespace {

struct Request {
  std::string command;
  std::map<std::string, std::string> arguments;
  [[nodiscard]] std::string_view argument(const char* name) const {
    const auto found = arguments.find(name);
    return found == arguments.end() ? std::string_view() : std::string_view(found->second);
  }
};

struct Command {
  const char* name;
  bool changes;              // for administrators
  const char* arguments[7];  // names; nullptr: no more
  Json (*answer)(const Request& request, const AdminCaller& caller, const AdminTarget& target);
  const char* help;
};

// Text from peers may be anything; JSON has to stay UTF-8.
std::string to_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json status(const Request&, const AdminCaller&, const AdminTarget& target) {
  const GatewayStatus s = target.view.status();
  return {{"version", s.version},
          {"instance", s.instance},
          {"uptime_seconds", s.uptime.to_seconds()},
          {"ready", s.ready},
          {"reason", s.reason},
          {"warnings", s.warnings},
          {"draining", s.draining},
          {"connections", s.connections},
          {"ports", to_rows(s.ports)},
          {"rdma_ports", to_rows(s.rdma_ports)},
          {"listeners", to_rows(s.listeners)},
          {"backends", to_rows(s.backends)},
          {"servers", to_rows(s.policy.servers)},
          {"routes", to_rows(s.policy.routes)},
          {"clients", to_rows(s.policy.clients)}};
}

Json activity(const Request&, const AdminCaller&, const AdminTarget& target) {
  return {{"activity", to_rows(target.view.activity())}};
}

Json connections(const Request&, const AdminCaller&, const AdminTarget& target) {
  return {{"connections", to_rows(target.view.connections())}};
}

Json queue_pairs(const Request&, const AdminCaller&, const AdminTarget& target) {
  return {{"queue_pairs", to_rows(target.view.queue_pairs())}};
}

Json cores(const Request&, const AdminCaller&, const AdminTarget& target) {
  return {{"cores", to_rows(target.view.cores())}};
}

Json stats(const Request& request, const AdminCaller&, const AdminTarget& target) {
  Json values = Json::object();
  for (const NamedValue& stat : target.view.stats()) {
    if (!stat.name.starts_with(request.argument("prefix"))) {
      continue;
    }
    // Counters are whole numbers; shown as such up to where a double stops being exact.
    constexpr double kExactMax = 9007199254740992.0;
    const bool whole = std::floor(stat.value) == stat.value && std::fabs(stat.value) <= kExactMax;
    values[stat.name] = whole ? Json(static_cast<int64_t>(stat.value)) : Json(stat.value);
  }
  return {{"stats", values}};
}

Json stat_schema(const Request& request, const AdminCaller&, const AdminTarget& target) {
  std::vector<StatInfo> schema = target.view.stat_schema();
  std::erase_if(schema, [&](const StatInfo& info) { return !info.name.starts_with(request.argument("prefix")); });
  return {{"schema", to_rows(schema)}};
}

Json error_json(std::string_view text, const char* kind) {
  return Json{{"error", text}, {"kind", kind}};
}

Json to_json(const DrainStatus& drain) {
  return {{"state", drain.state},
          {"connections", drain.connections},
          {"ended_in_order", drain.ended_in_order},
          {"forced", drain.forced},
          {"elapsed_seconds", drain.elapsed.to_seconds()},
          {"timeout_seconds", drain.timeout ? Json(drain.timeout->to_seconds()) : Json()}};
}

// Seconds as text; nothing when it is none.
std::optional<Duration> duration_of(std::string_view text) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds, std::chars_format::fixed);
  constexpr double kSecondsMax = 86'400;
  const bool valid = error == std::errc() && end == text.data() + text.size() && seconds > 0 && seconds <= kSecondsMax;
  return valid ? std::optional(Duration::ns(static_cast<int64_t>(seconds * 1e9))) : std::nullopt;
}

Json drain_start(const Request& request, const AdminCaller& caller, const AdminTarget& target) {
  const std::string_view text = request.argument("timeout_s");
  const std::optional<Duration> timeout = duration_of(text);
  if (!text.empty() && !timeout) {
    return error_json("timeout_s: seconds, more than 0, at most a day", "bad_request");
  }
  return to_json(target.control.start_drain(caller.who, timeout));
}

Json drain_stop(const Request&, const AdminCaller& caller, const AdminTarget& target) {
  return to_json(target.control.stop_drain(caller.who));
}

Json drain_show(const Request&, const AdminCaller&, const AdminTarget& target) {
  return to_json(target.control.drain());
}

Json log_level_show(const Request&, const AdminCaller&, const AdminTarget& target) {
  return {{"level", to_string(target.control.log_level())}};
}

Json log_level_set(const Request& request, const AdminCaller& caller, const AdminTarget& target) {
  const std::optional<LogLevel> level = log_level_of(request.argument("level"));
  if (!level) {
    return error_json("level: trace, debug, info, warning or error", "bad_request");
  }
  target.control.set_log_level(caller.who, *level);
  return {{"level", to_string(*level)}};
}

Json reload(const Request& request, const AdminCaller& caller, const AdminTarget& target) {
  const ReloadReport report = target.control.reload(caller.who, request.command == "reload_preview");
  Json changes = Json::array();
  for (const SettingChange& change : report.changes) {
    changes.push_back({{"key", change.key},
                       {"before", change.before},
                       {"after", change.after},
                       {"takes_effect", change.live ? "at_once" : "restart"},
                       {"reason", change.reason}});
  }
  return {{"file", report.file},
          {"valid", report.valid},
          {"applied", report.applied},
          {"problems", report.problems},
          {"changes", changes}};
}

Json restart(const Request&, const AdminCaller& caller, const AdminTarget& target) {
  std::string problem;
  return target.control.restart(caller.who, problem) ? Json{{"restarting", true}} : error_json(problem, "failed");
}

Json ping_start(const Request& request, const AdminCaller&, const AdminTarget& target) {
  const auto number = [&request](const char* name) {
    const std::string_view text = request.argument(name);
    uint32_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return text.empty() || error != std::errc() || end != text.data() + text.size() ? 0 : value;
  };
  std::string problem;
  if (!target.view.start_ping(std::string(request.argument("backend")), number("program"), number("version"), problem)) {
    return error_json(problem, "failed");
  }
  return {{"started", true}};
}

Json ping_show(const Request&, const AdminCaller&, const AdminTarget& target) {
  const PingStatus ping = target.view.ping();
  return {{"done", ping.done},
          {"alive", ping.alive},
          {"outcome", ping.outcome},
          {"connect_seconds", ping.connect.to_seconds()},
          {"call_seconds", ping.call.to_seconds()}};
}

Json to_json(const capture::CaptureStatus& status) {
  return {{"state", status.state}, {"file", status.file},       {"packets", status.packets},
          {"bytes", status.bytes}, {"dropped", status.dropped}, {"with_payload", status.with_payload}};
}

// The number given, within the bounds; `otherwise` when none is. Nothing: it is wrong.
std::optional<uint64_t> number_of(const Request& request, const char* name, uint64_t otherwise, uint64_t min, uint64_t max) {
  const std::string_view text = request.argument(name);
  uint64_t value = 0;
  if (text.empty()) {
    return otherwise;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool valid = error == std::errc() && end == text.data() + text.size() && value >= min && value <= max;
  return valid ? std::optional(value) : std::nullopt;
}

Json transport_events(const Request& request, const AdminCaller&, const AdminTarget& target) {
  constexpr uint64_t kLast = 200;
  const auto qpn = number_of(request, "lqpn", 0, 2, 0xff'ffff);
  const auto last = number_of(request, "last", kLast, 1, 1'000'000);
  if (!qpn || !last) {
    return error_json("lqpn: a queue pair's number; last: 1 to 1000000", "bad_request");
  }
  std::vector<TransportEventStatus> events = target.view.transport_events(UINT32_MAX);
  const std::string_view kind = request.argument("event");
  std::erase_if(events, [&](const TransportEventStatus& event) {
    return (*qpn != 0 && event.local_qpn != *qpn) || (!kind.empty() && event.event != kind);
  });
  const size_t left_out = events.size() > *last ? events.size() - *last : 0;
  events.erase(events.begin(), events.begin() + static_cast<ptrdiff_t>(left_out));
  return {{"events", to_rows(events)}, {"left_out", left_out}};
}

Json capture_start(const Request& request, const AdminCaller& caller, const AdminTarget& target) {
  capture::CaptureOrder order;
  order.file = request.argument("file");
  const std::string_view client = request.argument("client");
  order.client = parse_prefix(client);
  const auto qpn = number_of(request, "lqpn", 0, 2, 0xff'ffff);
  order.limits.with_payload = request.argument("with_payload") == "yes";
  const auto snap = number_of(request, "snaplen", order.limits.with_payload ? capture::kSnapBytesMax : capture::kSnapBytes,
                              capture::kSnapBytesMin, capture::kSnapBytesMax);
  const auto packets = number_of(request, "packets", order.limits.packets, 1, 1'000'000'000);
  const auto seconds = number_of(request, "seconds", 60, 1, 86'400);
  if (!qpn || !snap || !packets || !seconds || (!client.empty() && !order.client)) {
    return error_json(
        "lqpn: a queue pair's number; client: an address or prefix; snaplen: 128 to 9216; packets: 1 to 1000000000; "
        "seconds: 1 to 86400",
        "bad_request");
  }
  if (*qpn > 0) {
    order.local_qpn = static_cast<uint32_t>(*qpn);
  }
  order.limits.snap_bytes = static_cast<uint32_t>(*snap);
  order.limits.packets = *packets;
  order.limits.seconds = static_cast<double>(*seconds);
  order.output = caller.file;
  std::string problem;
  if (!target.control.start_capture(caller.who, order, problem)) {
    return error_json(problem, "failed");
  }
  return to_json(target.control.capture());
}

Json capture_stop(const Request&, const AdminCaller& caller, const AdminTarget& target) {
  return to_json(target.control.stop_capture(caller.who));
}

Json capture_show(const Request&, const AdminCaller&, const AdminTarget& target) {
  return to_json(target.control.capture());
}

Json settings(const Request& request, const AdminCaller&, const AdminTarget& target) {
  Json rows = Json::array();
  for (const SettingText& setting : target.control.settings()) {
    if (setting.key.starts_with(request.argument("prefix"))) {
      rows.push_back({{"key", setting.key}, {"value", setting.value.empty() ? Json() : Json(setting.value)}});
    }
  }
  return {{"settings", rows}};
}

Json help(const Request& request, const AdminCaller& caller, const AdminTarget& target);

constexpr std::array kCommands = {
    Command{"status", false, {}, status, "version, ports, listeners, routes, backends and their servers, clients and budgets"},
    Command{"connections", false, {}, connections, "one entry per connection"},
    Command{"activity", false, {}, activity, "what each client has asked for and got, and how long its calls took"},
    Command{"queue_pairs", false, {}, queue_pairs, "transport state of every queue pair"},
    Command{"cores", false, {}, cores, "poll cores and how busy they are"},
    Command{"transport_events", false, {"lqpn", "event", "last"}, transport_events, "what happened to queue pairs lately"},
    Command{"stats", false, {"prefix"}, stats, "every exported number; with a prefix, those that begin with it"},
    Command{"stat_schema", false, {"prefix"}, stat_schema, "what the numbers mean, by family; with a prefix, some of them"},
    Command{"ping_start", false, {"backend", "program", "version"}, ping_start, "a NULL call to a backend; program 0: its own"},
    Command{"ping_show", false, {}, ping_show, "how that went"},
    Command{"drain_show", false, {}, drain_show, "whether the gateway drains, and how far it is"},
    Command{"drain_start", true, {"timeout_s"}, drain_start, "refuse new connections, end the others in order"},
    Command{"drain_stop", true, {}, drain_stop, "take connections again"},
    Command{"log_level", false, {}, log_level_show, "the least important lines that are written"},
    Command{"log_level_set", true, {"level"}, log_level_set, "change that, until the next reload"},
    Command{"settings", false, {"prefix"}, settings, "every setting; with a prefix, those that begin with it"},
    Command{"reload_preview", false, {}, reload, "what a reload would change"},
    Command{"reload", true, {}, reload, "read the configuration file again"},
    Command{"restart", true, {}, restart, "the program that is installed follows in this process; connections of RoCE go on"},
    Command{"capture_show", false, {}, capture_show, "whether frames are captured"},
    Command{"capture_start",
            true,
            {"file", "client", "lqpn", "snaplen", "packets", "seconds", "with_payload"},
            capture_start,
            "write frames, as pcapng, to the open file that comes with the request (SCM_RIGHTS); file: its name"},
    Command{"capture_stop", true, {}, capture_stop, "end that"},
    Command{"help", false, {}, help, "this list"},
};

Json help(const Request&, const AdminCaller&, const AdminTarget&) {
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
      if (!value.is_string()) {
        problem = "a request has \"command\" and what belongs to it, all strings";
        return std::nullopt;
      }
      (key == "command" ? request.command : request.arguments[key]) = value.get<std::string>();
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
  const std::string prefix = next_word();
  if (!prefix.empty()) {
    request.arguments["prefix"] = prefix;
  }
  if (!next_word().empty()) {
    problem = "too many words; a request is a command and at most one argument";
    return std::nullopt;
  }
  return request;
}

// Empty: the command takes all that was given.
std::string argument_problem(const Command& command, const Request& request) {
  for (const auto& [name, value] : request.arguments) {
    const bool known =
        std::ranges::any_of(command.arguments, [&name = name](const char* a) { return a != nullptr && name == a; });
    if (!known) {
      return fmt::format("{} takes no {}", command.name, name);
    }
  }
  return {};
}

}  // namespace

std::string admin_error(std::string_view text, const char* kind) {
  return to_line(error_json(text, kind));
}

std::string admin_answer(std::string_view line, const AdminCaller& caller, const AdminTarget& target) {
  std::string problem;
  const std::optional<Request> request = parse_request(line, problem);
  if (!request) {
    return admin_error(problem, "bad_request");
  }
  const auto command = std::ranges::find(kCommands, request->command, [](const Command& c) { return std::string_view(c.name); });
  if (command == kCommands.end()) {
    return admin_error("unknown command; try help", "unknown_command");
  }
  if (const std::string wrong = argument_problem(*command, *request); !wrong.empty()) {
    return admin_error(wrong, "bad_request");
  }
  if (command->changes && !caller.may_change) {
    return admin_error(fmt::format("{} may look and not change anything: {} is for root, the gateway's own user, "
                                   "and those that [admin] admins and admin_groups name in its configuration",
                                   caller.who, command->name),
                       "refused");
  }
  return to_line(command->answer(*request, caller, target));
}

}  // namespace cw::control
