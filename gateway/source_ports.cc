#include "gateway/source_ports.h"

#include <algorithm>

#include "base/assert.h"
#include "base/keyed_hash.h"

namespace cw::gateway {
namespace {

constexpr uint32_t kProbesMax = 64;

// Either may be the later one: a call may be repeated, or be the next.
uint32_t distance(uint32_t a, uint32_t b) {
  return std::min(a - b, b - a);
}

}  // namespace

PortBook::Taken& PortBook::taken_of(const Client& client) {
  return from_client_.contains(client.first) ? own_[client] : shared_[client.first];
}

bool PortBook::depends_on_xid(const IpAddress& client, uint32_t backend) const {
  const auto found = clients_.find({backend, client.raw});
  return found != clients_.end() && found->second.size() > 1 &&
         std::ranges::any_of(found->second, [](const Number& number) { return !number.used && number.xid.has_value(); });
}

// First choice: the number whose last XID is near `xid`. Second, while the client has other connections: a number that never
// carried a call, because the newcomer may replace a connection that we still believe alive, and numbers that wait belong to
// others. Else the lowest free number. nullptr: the client needs one more.
PortBook::Number* PortBook::find_free(Numbers& numbers, std::optional<uint32_t> xid) {
  Number* nearest = nullptr;
  Number* lowest = nullptr;
  Number* unclaimed = nullptr;
  uint32_t away = kXidSpan;
  bool has_others = false;
  for (Number& number : numbers) {
    if (number.used) {
      has_others = true;
      continue;
    }
    lowest = lowest == nullptr ? &number : lowest;
    unclaimed = unclaimed == nullptr && !number.xid ? &number : unclaimed;
    if (xid && number.xid && distance(*xid, *number.xid) < away) {
      nearest = &number;
      away = distance(*xid, *number.xid);
    }
  }
  if (nearest != nullptr) {
    return nearest;
  }
  return xid && has_others && (unclaimed != nullptr || numbers.size() < kNumbersMax) ? unclaimed : lowest;
}

// The first free one from the hash on; where there is none, the first that only waits for another client.
uint16_t PortBook::pick(const Client& client, const IpAddress& address, uint32_t number) {
  Taken& taken = taken_of(client);
  const uint64_t hash = hash_of(from_client_.contains(client.first) ? 0 : key_, address, number);
  const uint32_t probes = std::min(kProbesMax, count_);
  const auto port_at = [&](uint32_t probe) { return static_cast<uint16_t>(first_ + (hash + probe) % count_); };
  for (uint32_t probe = 0; probe < probes; ++probe) {
    if (!taken.contains(port_at(probe))) {
      return port_at(probe);
    }
  }
  for (uint32_t probe = 0; probe < probes; ++probe) {
    if (const auto kept = taken.at(port_at(probe)); kept != kept_.end() && kept->client != client) {
      forget(kept);
      return port_at(probe);
    }
  }
  return 0;
}

uint16_t PortBook::take(const IpAddress& client, uint32_t backend, std::optional<uint32_t> xid) {
  const Client key{backend, client.raw};
  Numbers& numbers = clients_[key];
  Number* number = find_free(numbers, xid);
  if (number == nullptr) {
    number = &numbers.emplace_back();
  }
  if (number->port != 0) {
    kept_.erase(number->kept);
  } else {
    number->port = pick(key, client, static_cast<uint32_t>(number - numbers.data()));
    if (number->port == 0) {
      trim(clients_.find(key));
      return 0;
    }
  }
  number->used = true;
  ++used_;
  taken_of(key)[number->port] = kept_.end();
  return number->port;
}

void PortBook::give_back(const IpAddress& client, uint32_t backend, uint16_t port, std::optional<uint32_t> xid) {
  if (port == 0) {
    return;
  }
  const Client key{backend, client.raw};
  const auto found = clients_.find(key);
  CW_ASSERT(found != clients_.end());
  const auto number = std::ranges::find_if(found->second, [&](const Number& each) { return each.used && each.port == port; });
  CW_ASSERT(number != found->second.end());
  number->used = false;
  number->xid = xid ? xid : number->xid;  // without a call on this connection, of the one before
  number->kept = kept_.insert(kept_.end(), {key, port});
  --used_;
  taken_of(key)[port] = number->kept;
  if (kept_.size() > kept_max_) {
    forget(kept_.begin());
  }
}

void PortBook::forget(KeptList::iterator kept) {
  const auto client = clients_.find(kept->client);
  const auto number =
      std::ranges::find_if(client->second, [&](const Number& each) { return !each.used && each.port == kept->port; });
  Taken& taken = taken_of(kept->client);
  taken.erase(kept->port);
  if (taken.empty()) {
    own_.erase(kept->client);
  }
  kept_.erase(kept);
  *number = Number();
  trim(client);
}

void PortBook::trim(std::map<Client, Numbers>::iterator client) {
  Numbers& numbers = client->second;
  while (!numbers.empty() && numbers.back().port == 0) {
    numbers.pop_back();
  }
  if (numbers.empty()) {
    clients_.erase(client);
  }
}

}  // namespace cw::gateway
