#include "control/ctl/render.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "control/ctl/json_text.h"
#include "control/ctl/table.h"

namespace cw::control {
using Json = nlohmann::ordered_json;

namespace {

// "net_memif0,role=server,socket=..." -> "net_memif0".
std::string device_of(const Json& port, Detail detail) {
  const std::string device = text_of(port, "device");
  return detail == Detail::kWide ? device : device.substr(0, device.find(','));
}

Table ports_table(const Json& answer, Detail detail) {
  Table ports({"DEVICE", "LINK", ">Mbit/s", ">MTU", ">PATH MTU", ">QUEUES", "+STEERING", "MAC", "ADDRESSES"}, detail);
  for (const Json& port : list_of(answer, "ports")) {
    const double mbps = number_of(port, "link_mbps");
    ports.add({device_of(port, detail), flag_of(port, "link_up") ? "up" : "down", mbps > 0 ? text_of(port, "link_mbps") : "-",
               text_of(port, "mtu"), text_of(port, "path_mtu"), text_of(port, "queues"), text_of(port, "steering"),
               text_of(port, "mac"), join(list_of(port, "addresses"))});
  }
  return ports;
}

// Of RDMA devices that verbs listeners use.
Table rdma_ports_table(const Json& answer) {
  Table ports({"DEVICE", ">PORT", "STATE"});
  for (const Json& port : list_of(answer, "rdma_ports")) {
    ports.add({text_of(port, "device"), text_of(port, "port"), text_of(port, "state")});
  }
  return ports;
}

// "RoCE"; "verbs rxe0".
std::string wire_of(const Json& listener) {
  const std::string transport = text_of(listener, "transport");
  const std::string device = text_of(listener, "device");
  const std::string name = transport == "roce" ? "RoCE" : transport == "iwarp" ? "iWARP" : transport;
  return device == "-" ? name : name + " " + device;
}

// Bytes, "-" where there is no limit.
std::string bytes_or_none(const Json& object, const char* key) {
  return text_of(object, key) == "-" ? "-" : bytes_text(number_of(object, key));
}

Table listeners_table(const Json& answer, Detail detail) {
  Table listeners({"NAME", ">PORT", "WIRE", "BACKEND", ">CREDITS", ">INLINE", ">CONNECTIONS", ">MAX", ">MAX/s", ">MAX B/s",
                   ">WAITED", "+>CALLS", "+>REPLIES", "+>ERRORS", "+>IN", "+>OUT"},
                  detail);
  for (const Json& listener : list_of(answer, "listeners")) {
    listeners.add({text_of(listener, "name") + (flag_of(listener, "removed") ? " (removed)" : ""), text_of(listener, "port"),
                   wire_of(listener), text_of(listener, "backend"), text_of(listener, "credits"),
                   text_of(listener, "inline_bytes"), text_of(listener, "connections"), text_of(listener, "connections_max"),
                   text_of(listener, "calls_per_second_max"), bytes_or_none(listener, "bytes_per_second_max"),
                   text_of(listener, "calls_postponed"), text_of(listener, "calls"), text_of(listener, "replies"),
                   text_of(listener, "errors"), bytes_text(number_of(listener, "call_bytes")),
                   bytes_text(number_of(listener, "reply_bytes"))});
  }
  return listeners;
}

// Nobody knows of a backend that no client has asked for yet: "-".
const char* state_of(const Json& backend) {
  if (text_of(backend, "up") == "-") {
    return "-";
  }
  return flag_of(backend, "up") ? "up" : "down";
}

Table backends_table(const Json& answer) {
  Table backends({"NAME", "TYPE", "ADDRESS", "STATE", ">CALLS", ">RECONNECTS", ">TIMEOUTS"});
  for (const Json& backend : list_of(answer, "backends")) {
    backends.add({text_of(backend, "name"), text_of(backend, "type"), text_of(backend, "address"), state_of(backend),
                  text_of(backend, "calls_in_flight"), text_of(backend, "reconnects"), text_of(backend, "call_timeouts")});
  }
  return backends;
}

// Without checks nobody knows; with them one is under way at first.
const char* state_of_server(const Json& server) {
  return text_of(server, "up") != "-" ? state_of(server) : flag_of(server, "checked") ? "checking" : "unchecked";
}

Table servers_table(const Json& answer) {
  Table servers(
      {"BACKEND", "ADDRESS", "ROLE", "STATE", "NEXT", ">CONNECTIONS", ">CALLS", ">CHECKS", ">FAILED", ">TOOK", ">AGO", "ERROR"});
  for (const Json& server : list_of(answer, "servers")) {
    const bool is_checked = number_of(server, "checks") > 0;
    servers.add({text_of(server, "backend"), text_of(server, "address"), text_of(server, "role"), state_of_server(server),
                 flag_of(server, "preferred") ? "yes" : "-", text_of(server, "connections"), text_of(server, "calls_in_flight"),
                 text_of(server, "checks"), text_of(server, "check_failures"),
                 is_checked ? short_time_text(number_of(server, "check_seconds")) : "-",
                 is_checked ? short_time_text(number_of(server, "check_age_seconds")) : "-", text_of(server, "check_error")});
  }
  return servers;
}

// As rpcinfo names them; "-" for others.
const char* program_name(double number) {
  struct Named {
    double number;
    const char* name;
  };
  constexpr std::array kPrograms = {Named{100000, "portmapper"}, Named{100003, "nfs"},      Named{100005, "mountd"},
                                    Named{100011, "rquotad"},    Named{100021, "nlockmgr"}, Named{100024, "status"},
                                    Named{100227, "nfs_acl"},    Named{536922878, "bench"}};
  const auto found = std::ranges::find(kPrograms, number, &Named::number);
  return found == kPrograms.end() ? "-" : found->name;
}

Table routes_table(const Json& answer) {
  Table routes({"LISTENER", ">PROGRAM", "NAME", "BACKEND", ">CALLS"});
  for (const Json& route : list_of(answer, "routes")) {
    const bool is_other = text_of(route, "program") == "-";
    const std::string backend = text_of(route, "backend");
    routes.add({text_of(route, "listener"), is_other ? "other" : text_of(route, "program"),
                is_other ? "-" : program_name(number_of(route, "program")), backend == "-" ? "none: PROG_UNAVAIL" : backend,
                text_of(route, "calls")});
  }
  return routes;
}

Table clients_table(const Json& answer, Detail detail) {
  Table clients({"NAME",       "ALLOW",   ">CONNECTIONS", ">MAX",     ">CREDITS", "+>GRANTED", "+>IN USE",
                 ">IN FLIGHT", ">MAX",    ">MAX/s",       ">MAX B/s", "+>WEIGHT", ">WAITED",   ">DENIED",
                 ">FULL",      "+>CALLS", "+>REPLIES",    "+>ERRORS", "+>IN",     "+>OUT",     "PREFIXES"},
                detail);
  for (const Json& client : list_of(answer, "clients")) {
    const std::string prefixes = join(list_of(client, "prefixes"));
    clients.add({text_of(client, "name"),
                 text_of(client, "allow"),
                 text_of(client, "connections"),
                 text_of(client, "connections_max"),
                 text_of(client, "credits_max"),
                 text_of(client, "credits_granted"),
                 text_of(client, "credits_in_use"),
                 bytes_text(number_of(client, "bytes_in_flight")),
                 bytes_or_none(client, "bytes_in_flight_max"),
                 text_of(client, "calls_per_second_max"),
                 bytes_or_none(client, "bytes_per_second_max"),
                 text_of(client, "weight"),
                 text_of(client, "calls_postponed"),
                 text_of(client, "refused_denied"),
                 text_of(client, "refused_limit"),
                 text_of(client, "calls"),
                 text_of(client, "replies"),
                 text_of(client, "errors"),
                 bytes_text(number_of(client, "call_bytes")),
                 bytes_text(number_of(client, "reply_bytes")),
                 prefixes.empty() ? "removed" : prefixes});
  }
  return clients;
}

std::string rows_or(const Table& table, const char* none) {
  return table.empty() ? none : table.text(0);
}

}  // namespace

std::string render_status(const Json& answer, Detail detail) {
  const char* state = flag_of(answer, "draining") ? "draining" : flag_of(answer, "ready") ? "ready" : "not ready";
  std::string text = fmt::format("Causeway {}, instance {}: {}, up {}, {} connections\n", text_of(answer, "version"),
                                 text_of(answer, "instance"), state, duration_text(number_of(answer, "uptime_seconds")),
                                 text_of(answer, "connections"));
  if (!flag_of(answer, "ready") && !text_of(answer, "reason").empty()) {
    text += fmt::format("Not ready: {}\n", text_of(answer, "reason"));
  }
  for (const Json& warning : list_of(answer, "warnings")) {
    text += fmt::format("Warning: {}\n", warning.get<std::string>());
  }
  const auto section = [](const char* title, const Table& table) {
    return table.empty() ? std::string() : fmt::format("\n{}\n{}", title, table.text(2));
  };
  text += section("Ports", ports_table(answer, detail));
  text += section("RDMA ports", rdma_ports_table(answer));
  text += "\nListeners\n" + listeners_table(answer, detail).text(2);
  text += "\nBackends\n" + backends_table(answer).text(2);
  const bool has_routes =
      std::ranges::any_of(list_of(answer, "routes"), [](const Json& route) { return text_of(route, "program") != "-"; });
  text += section("Servers", servers_table(answer));
  text += has_routes ? section("Routes", routes_table(answer)) : "";
  return text + section("Clients", clients_table(answer, detail));
}

std::string render_ports(const Json& answer, Detail detail) {
  return rows_or(ports_table(answer, detail), "no such ports\n");
}

std::string render_listeners(const Json& answer, Detail detail) {
  return rows_or(listeners_table(answer, detail), "no such listeners\n");
}

std::string render_backends(const Json& answer, Detail) {
  return rows_or(backends_table(answer), "no such backends\n");
}

std::string render_servers(const Json& answer, Detail) {
  return rows_or(servers_table(answer), "no such servers\n");
}

std::string render_routes(const Json& answer, Detail) {
  return rows_or(routes_table(answer), "no such routes\n");
}

std::string render_clients(const Json& answer, Detail detail) {
  return rows_or(clients_table(answer, detail), "no such [[client]] sections\n");
}

std::string render_cores(const Json& answer, Detail) {
  Table table({">LCORE", "ROLE", ">CONNECTIONS", ">BUSY", ">BUSY TIME", ">IDLE TIME", ">POLLS", ">SLEEPS"});
  for (const Json& core : list_of(answer, "cores")) {
    const double busy = number_of(core, "busy_seconds");
    const double idle = number_of(core, "idle_seconds");
    const double all = std::max(busy + idle, 1e-9);
    table.add({text_of(core, "lcore"), text_of(core, "role"), text_of(core, "connections"),
               fmt::format("{:.1f} %", 100 * busy / all), duration_text(busy), duration_text(idle),
               fmt::format("{:.0f}", number_of(core, "polls_busy") + number_of(core, "polls_idle")), text_of(core, "sleeps")});
  }
  return rows_or(table, "no such cores\n");
}

std::string render_connections(const Json& answer, Detail detail) {
  Table table({">ID",        "LISTENER", "WIRE",   "PEER",      "STATE",   "+QPN",      "+PEER QPN", "+>LCORE",
               "+>PATH MTU", "+INLINE",  "+INVAL", "+>CREDITS", "+>CALLS", "+REVERSE",  ">RPCS",     ">IN",
               ">OUT",       ">RETRANS", "+>CNPS", "+>RATE",    "AGE",     "LAST ERROR"},
              detail);
  for (const Json& c : list_of(answer, "connections")) {
    const std::string address = text_of(c, "peer_address");
    const bool v6 = address.find(':') != std::string::npos;
    table.add({text_of(c, "id"),
               text_of(c, "listener"),
               text_of(c, "wire"),
               (v6 ? "[" + address + "]" : address) + ":" + text_of(c, "peer_port"),
               text_of(c, "state"),
               qpn_text(c, "local_qpn"),
               qpn_text(c, "remote_qpn"),
               text_of(c, "lcore"),
               text_of(c, "path_mtu"),
               text_of(c, "inline_send_bytes") + "/" + text_of(c, "inline_receive_bytes"),
               text_of(c, "remote_invalidate"),
               text_of(c, "credits_granted"),
               text_of(c, "calls_in_flight"),
               text_of(c, "reverse_calls_in_flight") + "/" + text_of(c, "reverse_credits_granted"),
               text_of(c, "rpcs"),
               bytes_text(number_of(c, "bytes_in")),
               bytes_text(number_of(c, "bytes_out")),
               text_of(c, "retransmits"),
               text_of(c, "cnps_received"),
               number_of(c, "rate_bytes_per_second") > 0 ? bytes_text(number_of(c, "rate_bytes_per_second")) + "/s" : "-",
               duration_text(number_of(c, "age_seconds")),
               text_of(c, "last_error")});
  }
  return rows_or(table, "no connections\n");
}

std::string render_stats(const Json& answer, Detail) {
  const auto stats = answer.find("stats");
  if (stats == answer.end() || !stats->is_object() || stats->empty()) {
    return "no such statistics\n";
  }
  std::vector<std::pair<std::string, std::string>> rows;
  size_t width = 0;
  for (const auto& [name, value] : stats->items()) {
    rows.emplace_back(name, value.dump());
    width = std::max(width, name.size());
  }
  std::string text;
  for (const auto& [name, value] : rows) {
    text += fmt::format("{:<{}}  {}\n", name, width, value);
  }
  return text;
}

std::string render_schema(const Json& answer, Detail) {
  Table table({"NAME", "KIND", "UNIT", "MEANING"});
  for (const Json& family : list_of(answer, "schema")) {
    table.add({text_of(family, "name"), text_of(family, "kind"), text_of(family, "unit"), text_of(family, "help")});
  }
  return rows_or(table, "no such statistics\n");
}

}  // namespace cw::control
