#include "dataplane/dpdk/memif_device.h"

#include <algorithm>

namespace cw::dataplane {

std::optional<MemifDevice> MemifDevice::parse(std::string_view device) {
  if (!device.starts_with("net_memif")) {
    return std::nullopt;
  }
  MemifDevice parsed;
  for (size_t begin = 0; begin <= device.size();) {
    const size_t end = std::min(device.find(',', begin), device.size());
    const std::string_view argument = device.substr(begin, end - begin);
    begin = end + 1;
    const size_t equals = argument.find('=');
    const std::string_view key = argument.substr(0, equals);
    const std::string_view value = equals == std::string_view::npos ? std::string_view() : argument.substr(equals + 1);
    // The driver's words, the deprecated ones as well. What is none of them goes to the driver, which says so.
    if (key == "role" && (value == "server" || value == "client" || value == "master" || value == "slave")) {
      parsed.server = value == "server" || value == "master";
    } else if (key == "socket") {
      parsed.socket.name = value;
    } else if (key == "socket-abstract" && (value == "yes" || value == "no")) {
      parsed.socket.abstract = value == "yes";
    } else {
      parsed.rest.emplace_back(argument);
    }
  }
  return parsed;
}

std::string MemifDevice::text() const {
  std::string text = rest.front();
  text += server ? ",role=server" : ",role=client";
  text += ",socket=" + socket.name;
  text += socket.abstract ? ",socket-abstract=yes" : ",socket-abstract=no";
  for (size_t i = 1; i < rest.size(); ++i) {
    text += "," + rest[i];
  }
  return text;
}

}  // namespace cw::dataplane
