// Which calls have broken their connections: RPC-over-RDMA clients repeat a call whose connection was lost, and one that names
// memory which the client's own host refuses would break each new connection again. RFC 8166 4.5.3: the repetition is answered
// with ERR_CHUNK instead. Bounded; the oldest is forgotten first.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/ip_address.h"
#include "base/time.h"

namespace cw::gateway {

class BrokenCalls {
 public:
  static constexpr uint32_t kMax = 64;
  // Clients come back within seconds; an XID that is met much later belongs to another call.
  static constexpr Duration kRemembered = Duration::seconds(300);

  void remember(Instant now, const IpAddress& client, uint32_t listener, uint32_t xid) {
    entries_[next_++ % kMax] = {.until = now + kRemembered, .client = client, .listener = listener, .xid = xid};
  }

  // XIDs of this client's calls at this listener, as many as `out` holds; returns how many.
  [[nodiscard]] uint32_t of(Instant now, const IpAddress& client, uint32_t listener, std::span<uint32_t> out) const {
    uint32_t count = 0;
    for (const Entry& entry : entries_) {
      if (count < out.size() && now < entry.until && entry.listener == listener && entry.client == client) {
        out[count++] = entry.xid;
      }
    }
    return count;
  }

 private:
  struct Entry {
    Instant until;  // the clock's zero: unused
    IpAddress client;
    uint32_t listener = 0;
    uint32_t xid = 0;
  };
  std::array<Entry, kMax> entries_{};
  uint32_t next_ = 0;
};

}  // namespace cw::gateway
