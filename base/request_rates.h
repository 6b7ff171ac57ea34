// Whether a request for a connection is taken: the rates of its network and of all, and beyond them the allowance of a client
// that has been here before.
//
// A flood from many networks uses up what all may ask, and a flood from a client's own network what that network may. A client
// that had a connection and lost it would then come back by luck alone. So where these rates are used up, an address that has
// had a connection has a small one of its own. A flood from addresses that never complete a connection has no part of that.
//
// An IPv6 client can have any address of its /64, which therefore counts as one address: whoever owns one cannot fill the table
// with connections from it. Known addresses are a set-associative table of fixed size, keyed by a random word. The one of a set
// that was heard of the longest ago makes room. A client is heard of when its connection begins and when it ends, which is when
// it comes back.
//
// What known addresses may ask beyond the rates is bounded over all of them, too, and small: the burst of a network is what may
// be half-open at a time, and whoever comes on top of that pushes out another.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ip_address.h"
#include "base/prefix_table.h"
#include "base/random.h"
#include "base/time.h"
#include "base/token_bucket.h"

namespace cw {

enum class RequestVerdict : uint8_t {
  kTaken,
  kPrefixRate,  // beyond what its network may ask
  kRate,        // beyond what all may ask
};

class RequestRates {
 public:
  // What one address that has had a connection may ask when the rates are used up.
  static constexpr RateLimit kKnownAddress{.per_second = 2, .burst = 2};
  // What all such may ask then: a burst of half the difference between what may be half-open of a network and its burst of
  // requests, by default; and of what all may ask in a second, a twentieth.
  static constexpr uint32_t kKnownBurst = 4;
  static constexpr uint32_t kKnownPart = 20;
  // Addresses remembered; about 64 bytes each, allocated at construction.
  static constexpr uint32_t kKnownMax = 1024;

  // `all`: what all may ask.
  RequestRates(const RateLimit& all, RandomSource& random);

  // `prefix`: of the address, in `prefixes`. Its network's rate comes first, so that its flood leaves that of all alone.
  [[nodiscard]] RequestVerdict take(Instant now, const IpAddress& client, PrefixTable& prefixes, PrefixTable::Index prefix);
  // The client has a connection, or had one until now.
  void know(Instant now, const IpAddress& client);

 private:
  static constexpr uint32_t kWays = 8;
  struct Known {
    IpAddress address;  // IPv6: the first 64 bits
    Instant last;
    bool used = false;
    TokenBucket requests{kKnownAddress};
  };
  // The first place of its set.
  [[nodiscard]] uint32_t set_of(const IpAddress& address) const;
  // nullptr: it has had no connection lately.
  [[nodiscard]] Known* find(const IpAddress& address);

  uint64_t hash_key_;
  TokenBucket all_;
  TokenBucket all_known_;
  std::vector<Known> known_;  // sets of kWays
};

}  // namespace cw
