#include "control/gateway/source_ports.h"

#include <algorithm>

#include "control/cm/hash.h"
#include "rocev2/base/assert.h"

namespace cw::gateway {
namespace {

constexpr uint32_t kProbesMax = 64;

}  // namespace

uint16_t PortBook::take(const wire::IpAddress& client, uint32_t backend) {
  Ports& ports = clients_[{backend, client.octets}];
  std::set<uint16_t>& used = from_client_.contains(backend) ? ports.used : shared_[backend];
  const auto free = std::ranges::find(ports.by_number, 0);
  const uint32_t number = static_cast<uint32_t>(free - ports.by_number.begin());
  const uint64_t hash = cm::hash_of(0, client, number);  // the same in every gateway
  for (uint32_t probe = 0; probe < std::min(kProbesMax, count_); ++probe) {
    const uint16_t port = static_cast<uint16_t>(first_ + (hash + probe) % count_);
    if (used.insert(port).second) {
      if (free == ports.by_number.end()) {
        ports.by_number.push_back(port);
      } else {
        *free = port;
      }
      return port;
    }
  }
  if (std::ranges::count(ports.by_number, 0) == std::ssize(ports.by_number)) {
    clients_.erase({backend, client.octets});
  }
  return 0;
}

void PortBook::give_back(const wire::IpAddress& client, uint32_t backend, uint16_t port) {
  if (port == 0) {
    return;
  }
  const auto found = clients_.find({backend, client.octets});
  CW_ASSERT(found != clients_.end());
  Ports& ports = found->second;
  *std::ranges::find(ports.by_number, port) = 0;
  (from_client_.contains(backend) ? ports.used : shared_[backend]).erase(port);
  while (!ports.by_number.empty() && ports.by_number.back() == 0) {
    ports.by_number.pop_back();
  }
  if (ports.by_number.empty()) {
    clients_.erase(found);
  }
}

}  // namespace cw::gateway
