#include "control/ctl/render.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "control/ctl/table.h"

namespace cw::control {
namespace {

using Json = nlohmann::ordered_json;

// One value as text; "-" for what is not there or empty.
std::string text_of(const Json& object, const char* key) {
  const auto value = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || value == object.end() || value->is_null()) {
    return "-";
  }
  if (value->is_boolean()) {
    return value->get<bool>() ? "yes" : "no";
  }
  std::string text = value->is_string() ? value->get<std::string>() : value->dump();
  for (char& c : text) {
    c = static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;  // what a peer sent must not steer the terminal
  }
  return text.empty() ? "-" : text;
}

double number_of(const Json& object, const char* key) {
  const auto value = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && value != object.end() && value->is_number() ? value->get<double>() : 0;
}

bool flag_of(const Json& object, const char* key) {
  const auto value = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && value != object.end() && value->is_boolean() && value->get<bool>();
}

// Nobody knows of a backend that no client has asked for yet: "-".
const char* state_of(const Json& backend) {
  if (text_of(backend, "up") == "-") {
    return "-";
  }
  return flag_of(backend, "up") ? "up" : "down";
}

const Json& list_of(const Json& object, const char* key) {
  static const Json kNone = Json::array();
  const auto value = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && value != object.end() && value->is_array() ? *value : kNone;
}

// "3d 04:05:06", "04:05:06".
std::string duration_text(double seconds) {
  const auto whole = static_cast<uint64_t>(std::max(0.0, std::min(seconds, 1e12)));
  const std::string clock = fmt::format("{:02}:{:02}:{:02}", whole / 3600 % 24, whole / 60 % 60, whole % 60);
  return whole < 86400 ? clock : fmt::format("{}d {}", whole / 86400, clock);
}

// 1536 -> "1.5 KiB".
std::string bytes_text(double bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

std::string join(const Json& list) {
  std::string text;
  for (const Json& item : list) {
    text += (text.empty() ? "" : " ") + (item.is_string() ? item.get<std::string>() : item.dump());
  }
  return text.empty() ? "-" : text;
}

std::string qpn_text(const Json& connection, const char* key) {
  return fmt::format("0x{:06x}", static_cast<uint32_t>(number_of(connection, key)));
}

}  // namespace

std::string render_status(const Json& answer) {
  const char* state = flag_of(answer, "draining") ? "draining" : flag_of(answer, "ready") ? "ready" : "not ready";
  std::string text = fmt::format("Causeway {}, instance {}: {}, up {}, {} connections\n", text_of(answer, "version"),
                                 text_of(answer, "instance"), state, duration_text(number_of(answer, "uptime_seconds")),
                                 text_of(answer, "connections"));
  Table ports({"DEVICE", "LINK", ">Mbit/s", ">MTU", ">PATH MTU", "MAC", "ADDRESSES"});
  for (const Json& port : list_of(answer, "ports")) {
    const double mbps = number_of(port, "link_mbps");
    ports.add({text_of(port, "device"), flag_of(port, "link_up") ? "up" : "down", mbps > 0 ? text_of(port, "link_mbps") : "-",
               text_of(port, "mtu"), text_of(port, "path_mtu"), text_of(port, "mac"), join(list_of(port, "addresses"))});
  }
  text += "\nPorts\n" + ports.text(2);
  Table listeners({"NAME", ">PORT", "BACKEND", ">CREDITS", ">INLINE", ">CONNECTIONS", ">MAX"});
  for (const Json& listener : list_of(answer, "listeners")) {
    listeners.add({text_of(listener, "name"), text_of(listener, "port"), text_of(listener, "backend"),
                   text_of(listener, "credits"), text_of(listener, "inline_bytes"), text_of(listener, "connections"),
                   text_of(listener, "connections_max")});
  }
  text += "\nListeners\n" + listeners.text(2);
  Table backends({"NAME", "TYPE", "ADDRESS", "STATE", ">CALLS", ">RECONNECTS", ">TIMEOUTS"});
  for (const Json& backend : list_of(answer, "backends")) {
    backends.add({text_of(backend, "name"), text_of(backend, "type"), text_of(backend, "address"), state_of(backend),
                  text_of(backend, "calls_in_flight"), text_of(backend, "reconnects"), text_of(backend, "call_timeouts")});
  }
  return text + "\nBackends\n" + backends.text(2);
}

std::string render_connections(const Json& answer) {
  Table table({">ID",       "LISTENER", "PEER",     "STATE",    "QPN",    "PEER QPN", ">LCORE",
               ">PATH MTU", "INLINE",   "INVAL",    ">CREDITS", ">CALLS", "REVERSE",  ">RPCS",
               ">IN",       ">OUT",     ">RETRANS", ">CNPS",    ">RATE",  "AGE",      "LAST ERROR"});
  for (const Json& c : list_of(answer, "connections")) {
    const std::string address = text_of(c, "peer_address");
    const bool v6 = address.find(':') != std::string::npos;
    table.add({text_of(c, "id"),
               text_of(c, "listener"),
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
  return table.empty() ? "no connections\n" : table.text(0);
}

std::string render_stats(const Json& answer) {
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

}  // namespace cw::control
