#include "control/ctl/json_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "control/recorder/last_words.h"

namespace cw::control {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& object, const char* key) {
  const auto value = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || value == object.end() || value->is_null()) {
    return "-";
  }
  if (value->is_boolean()) {
    return value->get<bool>() ? "yes" : "no";
  }
  // What a peer sent must not steer the terminal.
  const std::string text = recorder::printable(value->is_string() ? value->get<std::string>() : value->dump());
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

const Json& list_of(const Json& object, const char* key) {
  static const Json kNone = Json::array();
  const auto value = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && value != object.end() && value->is_array() ? *value : kNone;
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<uint64_t>(std::max(0.0, std::min(seconds, 1e12)));
  const std::string clock = fmt::format("{:02}:{:02}:{:02}", whole / 3600 % 24, whole / 60 % 60, whole % 60);
  return whole < 86400 ? clock : fmt::format("{}d {}", whole / 86400, clock);
}

std::string short_time_text(double seconds) {
  if (seconds <= 0) {
    return "-";
  }
  return seconds < 1e-3 ? fmt::format("{:.3g} us", seconds * 1e6)
         : seconds < 1  ? fmt::format("{:.3g} ms", seconds * 1e3)
                        : fmt::format("{:.3g} s", seconds);
}

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
  return text.empty() ? "-" : recorder::printable(text);
}

std::string qpn_text(const Json& connection, const char* key) {
  const double qpn = number_of(connection, key);
  const bool is_one = qpn >= 1 && qpn <= 0xffffff;  // who reads a recording may meet any number
  return is_one ? fmt::format("0x{:06x}", static_cast<uint32_t>(qpn)) : "-";
}

}  // namespace cw::control
