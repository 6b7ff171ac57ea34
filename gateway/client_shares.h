// What each client's connections hold together of what all clients of a core share (rpcrdma::ClientShare). A client is an IPv4
// address, or a /64 of IPv6, since it can have any address of that. One that was slow with its RDMA Reads when its last
// connection left is remembered, so that it is still slow when it comes back at once.
// Allocates with connections, never with calls.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>

#include "base/assert.h"
#include "base/intrusive_list.h"
#include "base/ip_address.h"
#include "rpcrdma/endpoint/rpcrdma_options.h"

namespace cw::gateway {

struct OfClientTag {};
struct RememberedTag {};

// `Orphan` is the owner's: a backend connection that one of the client's connections has left, a ListNode<OfClientTag>.
template <typename Orphan>
class ClientShares {
 public:
  // A connection of the client begins; the share stays where it is until its last connection has left.
  [[nodiscard]] rpcrdma::ClientShare& join(const IpAddress& address) {
    Entry& entry = clients_[key_of(address)];
    if (entry.is_linked()) {
      entry.unlink();
      --remembered_count_;
    }
    ++entry.connections;
    return entry.share;
  }
  // It is over and holds nothing any more.
  void leave(const IpAddress& address) {
    const auto found = clients_.find(key_of(address));
    CW_ASSERT(found != clients_.end());
    Entry& entry = found->second;
    if (--entry.connections > 0) {
      return;
    }
    CW_ASSERT(entry.orphans.empty());
    if (!entry.share.is_slow) {
      clients_.erase(found);
      return;
    }
    entry.key = found->first;
    remembered_.push_back(entry);
    if (++remembered_count_ > kRememberedMax) {
      Entry& oldest = *remembered_.pop_front();
      --remembered_count_;
      clients_.erase(clients_.find(oldest.key));
    }
  }
  // A backend connection of a client that is still joined. `orphan` is unlinked before the client leaves.
  void add_orphan(const IpAddress& address, Orphan& orphan) {
    Entry& entry = clients_[key_of(address)];
    entry.orphans.push_back(orphan);
    ++entry.orphan_count;
  }
  void remove_orphan(const IpAddress& address, Orphan& orphan) {
    static_cast<ListNode<OfClientTag>&>(orphan).unlink();
    --clients_.find(key_of(address))->second.orphan_count;
  }
  // The oldest of the client that has most; nullptr when there is none.
  [[nodiscard]] Orphan* greediest_orphan() {
    Entry* most = nullptr;
    for (auto& [key, entry] : clients_) {
      if (entry.orphan_count > (most == nullptr ? 0 : most->orphan_count)) {
        most = &entry;
      }
    }
    return most == nullptr ? nullptr : most->orphans.front();
  }
  // Those with connections.
  [[nodiscard]] size_t client_count() const { return clients_.size() - remembered_count_; }
  static constexpr size_t kRememberedMax = 256;  // the longest gone is forgotten first

 private:
  using Key = std::array<uint8_t, 16>;
  struct Entry : ListNode<RememberedTag> {
    Key key{};  // while it is remembered
    rpcrdma::ClientShare share;
    uint32_t connections = 0;  // and what they have left
    uint32_t orphan_count = 0;
    IntrusiveList<Orphan, OfClientTag> orphans;  // oldest first
  };
  static Key key_of(const IpAddress& address) {
    Key key{};
    std::copy_n(address.raw.begin(), address.is_v4() ? key.size() : key.size() / 2, key.begin());
    return key;
  }

  std::map<Key, Entry> clients_;
  IntrusiveList<Entry, RememberedTag> remembered_;  // without connections, the longest gone first
  size_t remembered_count_ = 0;
};

}  // namespace cw::gateway
