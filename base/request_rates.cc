#include "base/request_rates.h"

#include <algorithm>
#include <span>

#include "base/keyed_hash.h"

namespace cw {
namespace {

// What one client may have of addresses.
IpAddress known_as(const IpAddress& client) {
  return network_of(client, 32, 64);
}

}  // namespace

RequestRates::RequestRates(const RateLimit& all, RandomSource& random)
    : hash_key_(random.next_u64()),
      all_(all),
      all_known_({.per_second = std::max(all.per_second / kKnownPart, 1u), .burst = kKnownBurst}),
      known_(kKnownMax) {}

uint32_t RequestRates::set_of(const IpAddress& address) const {
  return static_cast<uint32_t>(hash_of(hash_key_, address, 0)) % (kKnownMax / kWays) * kWays;
}

RequestRates::Known* RequestRates::find(const IpAddress& address) {
  for (Known& each : std::span(known_).subspan(set_of(address), kWays)) {
    if (each.used && each.address == address) {
      return &each;
    }
  }
  return nullptr;
}

RequestVerdict RequestRates::take(Instant now, const IpAddress& client, PrefixTable& prefixes, PrefixTable::Index prefix) {
  const bool prefix_may = prefixes.take_request(now, prefix);
  if (prefix_may && all_.take(now)) {
    return RequestVerdict::kTaken;
  }
  if (Known* known = find(known_as(client)); known != nullptr && known->requests.take(now) && all_known_.take(now)) {
    return RequestVerdict::kTaken;
  }
  return prefix_may ? RequestVerdict::kRate : RequestVerdict::kPrefixRate;
}

void RequestRates::know(Instant now, const IpAddress& client) {
  const IpAddress address = known_as(client);
  if (Known* known = find(address); known != nullptr) {
    known->last = now;
    return;
  }
  const std::span<Known> set = std::span(known_).subspan(set_of(address), kWays);
  // One that is unused has been heard of before any other.
  Known& place = *std::ranges::min_element(set, {}, [](const Known& each) { return each.used ? each.last.to_ns() : -1; });
  place = Known();
  place.address = address;
  place.last = now;
  place.used = true;
}

}  // namespace cw
