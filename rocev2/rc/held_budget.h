// How many packets behind gaps an endpoint keeps over all its queue pairs, and how many of them one client has.
//
// No client holds more than it leaves to the others: one alone gets half of the budget, two that come at the same time a third
// each. A client is an IPv4 address or a /64 of IPv6, however many connections it has. It is counted at a place of a table of
// fixed size, by a keyed hash: two clients may have one place, and thereby one part, and nobody can choose whose he shares.
#pragma once

#include <array>
#include <cstdint>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/ip_address.h"

namespace cw::rc {

class HeldBudget {
 public:
  explicit HeldBudget(uint32_t packets_max) : packets_max_(packets_max) {}
  // Secret, and set before there is a queue pair.
  void set_key(uint64_t key) { key_ = key; }

  // Where the client's packets are counted.
  [[nodiscard]] uint8_t place_of(const IpAddress& client) const {
    uint64_t mixed = (load_be64(client.raw.data() + (client.is_v4() ? 8 : 0)) ^ key_) * 0xff51'afd7'ed55'8ccdULL;
    mixed = (mixed ^ (mixed >> 32)) * 0xc4ce'b9fe'1a85'ec53ULL;
    return static_cast<uint8_t>(mixed >> 56);
  }
  [[nodiscard]] bool has_room(uint8_t place) const { return counts_[place] + packets_ < packets_max_; }
  void take(uint8_t place) {
    ++counts_[place];
    ++packets_;
  }
  void give_back(uint8_t place, uint32_t packets) {
    CW_DASSERT(counts_[place] >= packets);
    counts_[place] -= packets;
    packets_ -= packets;
  }

 private:
  uint32_t packets_max_;
  uint32_t packets_ = 0;  // of all clients
  uint64_t key_ = 0;
  std::array<uint32_t, 256> counts_{};
};

}  // namespace cw::rc
