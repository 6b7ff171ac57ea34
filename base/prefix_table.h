// What each network of clients has asked of us lately: its share of new requests, of answers and of half-open connections, so
// that one network's flood costs that network and no other.
//
// It also knows which network holds the most half-open connections: when there is no room, that network gives one up, so that a
// flood pushes out itself.
//
// A set-associative table of fixed size, keyed by a random word. A network that holds half-open connections keeps its place;
// among the others of a set the one that was silent the longest makes room. Whoever finds no place at all shares one entry with
// all others that find none. So invented source addresses grow nothing; what they win, a fresh allowance for each network that
// they pretend to come from, is bounded by the limits over all.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ip_address.h"
#include "base/random.h"
#include "base/time.h"
#include "base/token_bucket.h"

namespace cw {

// What one network of clients may ask: its clients share these. An IPv6 client can have any address of its /64.
struct PrefixLimits {
  uint8_t ipv4_bits = 24;  // 0..32
  uint8_t ipv6_bits = 64;  // 0..128
  // At least 1. Beyond it a network's oldest half-open connection makes room for its newest.
  uint32_t half_open_max = 384;
  // Three quarters of what all may ask, so that the flood of one network leaves the others a quarter. A thousand clients of one
  // network that come back at once are through after the third of their own repetitions, 4.3 s apart with the Linux kernel.
  RateLimit request_rate{.per_second = 750, .burst = 375};
  RateLimit answer_rate{.per_second = 2500, .burst = 750};
  // Networks remembered; about 128 bytes each, allocated at construction.
  uint32_t prefix_max = 1024;
};

// The first bits of the address, the others zero. 0..32 bits of IPv4, 0..128 of IPv6.
[[nodiscard]] IpAddress network_of(const IpAddress& address, uint32_t ipv4_bits, uint32_t ipv6_bits);

class PrefixTable {
 public:
  // An entry, as long as it holds half-open connections or until the next call of find().
  using Index = uint32_t;

  PrefixTable(const PrefixLimits& limits, RandomSource& random);

  // The entry of the network that the address belongs to; a new one if need be. The same network over another `way`, as a port
  // with its VLAN, is another.
  [[nodiscard]] Index find(Instant now, const IpAddress& address, uint32_t way = 0);
  [[nodiscard]] bool take_request(Instant now, Index index) { return entries_[index].requests.take(now); }
  [[nodiscard]] bool take_answer(Instant now, Index index) { return entries_[index].answers.take(now); }

  [[nodiscard]] bool may_open(Index index) const { return entries_[index].half_open < limits_.half_open_max; }
  // Precondition: may_open().
  void opened(Index index);
  // The half-open connection is established, or over.
  void settled(Index index);
  // A network that holds the most half-open connections: of several the one that has held so many the longest. Precondition:
  // there is a half-open connection.
  [[nodiscard]] Index busiest() const;

  [[nodiscard]] uint32_t half_open(Index index) const { return entries_[index].half_open; }
  // Over all entries; slow, for checks.
  [[nodiscard]] uint32_t half_open_count() const;
  // Networks that have an entry.
  [[nodiscard]] uint32_t size() const { return size_; }
  [[nodiscard]] uint32_t capacity() const { return static_cast<uint32_t>(entries_.size()) - 1; }
  // Bound of what an Index can be, the entry of those without a place included.
  [[nodiscard]] uint32_t index_end() const { return static_cast<uint32_t>(entries_.size()); }

 private:
  static constexpr uint32_t kWays = 8;
  static constexpr Index kNone = UINT32_MAX;
  struct Entry {
    Entry(const PrefixLimits& limits) : requests(limits.request_rate), answers(limits.answer_rate) {}
    IpAddress network;
    uint32_t way = 0;
    bool used = false;
    uint32_t half_open = 0;
    Index previous = kNone;  // in the rank of half_open, while that is not 0
    Index next = kNone;
    Instant last;
    TokenBucket requests;
    TokenBucket answers;
  };
  [[nodiscard]] uint32_t set_of(const IpAddress& network, uint32_t way) const;
  // Everybody who found no place.
  [[nodiscard]] Index shared() const { return capacity(); }
  void enter_rank(Index index);
  void leave_rank(Index index);

  PrefixLimits limits_;
  uint64_t hash_key_;
  uint32_t set_mask_;
  std::vector<Entry> entries_;  // sets of kWays, then the shared one
  // Entries by how many half-open connections they hold, each rank in the order in which they came to hold so many.
  struct Rank {
    Index first = kNone;
    Index last = kNone;
  };
  std::vector<Rank> ranks_;    // by half_open, 0 unused
  uint32_t highest_rank_ = 0;  // that is not empty; 0: all are
  uint32_t size_ = 0;
};

}  // namespace cw
