#include "base/prefix_table.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/assert.h"
#include "base/keyed_hash.h"

namespace cw {
namespace {

constexpr uint32_t kIpv4Offset = 12;  // of an IPv4 address within its sixteen bytes

}  // namespace

IpAddress network_of(const IpAddress& address, uint32_t ipv4_bits, uint32_t ipv6_bits) {
  IpAddress network = address;
  const uint32_t bits = address.is_v4() ? kIpv4Offset * 8 + ipv4_bits : ipv6_bits;
  for (uint32_t byte = 0; byte < network.raw.size(); ++byte) {
    const uint32_t kept = std::clamp<uint32_t>(bits > byte * 8 ? bits - byte * 8 : 0, 0, 8);
    network.raw[byte] = static_cast<uint8_t>(network.raw[byte] & (0xff00u >> kept));
  }
  return network;
}

PrefixTable::PrefixTable(const PrefixLimits& limits, RandomSource& random)
    : limits_(limits),
      hash_key_(random.next_u64()),
      set_mask_(std::bit_ceil(std::max(limits.prefix_max / kWays, 1u)) - 1),
      entries_((set_mask_ + 1) * kWays + 1, Entry(limits)),
      ranks_(limits.half_open_max + 1) {
  CW_ASSERT(limits.ipv4_bits <= 32 && limits.ipv6_bits <= 128 && limits.half_open_max > 0);
}

PrefixTable::Index PrefixTable::find(Instant now, const IpAddress& address, uint32_t way) {
  const IpAddress network = network_of(address, limits_.ipv4_bits, limits_.ipv6_bits);
  const Index first = set_of(network, way) * kWays;
  Index place = shared();
  for (Index at = first; at < first + kWays; ++at) {
    Entry& entry = entries_[at];
    if (entry.used && entry.network == network && entry.way == way) {
      entry.last = now;
      return at;
    }
    const bool free = entry.half_open == 0;
    // An unused entry has never been heard of, and so is older than any other.
    if (free && (place == shared() || !entry.used || (entries_[place].used && entry.last < entries_[place].last))) {
      place = at;
    }
  }
  if (place == shared()) {
    return place;
  }
  size_ += entries_[place].used ? 0 : 1;
  Entry fresh(limits_);
  fresh.network = network;
  fresh.way = way;
  fresh.used = true;
  fresh.last = now;
  entries_[place] = fresh;
  return place;
}

void PrefixTable::opened(Index index) {
  CW_ASSERT(may_open(index));
  leave_rank(index);
  ++entries_[index].half_open;
  enter_rank(index);
}

void PrefixTable::settled(Index index) {
  CW_ASSERT(entries_[index].half_open > 0);
  leave_rank(index);
  --entries_[index].half_open;
  enter_rank(index);
}

PrefixTable::Index PrefixTable::busiest() const {
  CW_ASSERT(highest_rank_ > 0);
  return ranks_[highest_rank_].first;
}

void PrefixTable::enter_rank(Index index) {
  Entry& entry = entries_[index];
  if (entry.half_open == 0) {
    return;
  }
  Rank& rank = ranks_[entry.half_open];
  entry.previous = rank.last;
  entry.next = kNone;
  (rank.last == kNone ? rank.first : entries_[rank.last].next) = index;
  rank.last = index;
  highest_rank_ = std::max(highest_rank_, entry.half_open);
}

void PrefixTable::leave_rank(Index index) {
  Entry& entry = entries_[index];
  if (entry.half_open == 0) {
    return;
  }
  Rank& rank = ranks_[entry.half_open];
  (entry.previous == kNone ? rank.first : entries_[entry.previous].next) = entry.next;
  (entry.next == kNone ? rank.last : entries_[entry.next].previous) = entry.previous;
  while (highest_rank_ > 0 && ranks_[highest_rank_].first == kNone) {
    --highest_rank_;
  }
}

uint32_t PrefixTable::half_open_count() const {
  return std::accumulate(entries_.begin(), entries_.end(), 0u,
                         [](uint32_t sum, const Entry& entry) { return sum + entry.half_open; });
}

uint32_t PrefixTable::set_of(const IpAddress& network, uint32_t way) const {
  return static_cast<uint32_t>(hash_of(hash_key_, network, way)) & set_mask_;
}

}  // namespace cw
