#include "gateway/replay_guard.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/keyed_hash.h"

namespace cw::gateway {

class ReplayGuard::Client {
 public:
  explicit Client(uint64_t key) : key_(key) {}

  uint32_t users = 0;

  [[nodiscard]] uint64_t key() const { return key_; }
  [[nodiscard]] bool is_idle() const { return former_.empty() && present_ == 0; }
  [[nodiscard]] uint32_t begin() {
    ++present_;
    return epoch_;
  }
  void end(uint32_t epoch, std::deque<LinkId>& released) {
    uint32_t& in_flight = epoch == epoch_ ? present_ : former(epoch);
    CW_ASSERT(in_flight > 0);
    --in_flight;
    if (!former_.empty()) [[unlikely]] {
      release(released);
    }
  }
  [[nodiscard]] bool hold(LinkId link) {
    if (is_idle()) {
      return false;
    }
    former_.push_back(std::exchange(present_, 0));
    held_.push_back({link, ++epoch_});
    return true;
  }
  void forget(LinkId link) {
    std::erase_if(held_, [&](const Held& held) { return held.link == link; });
  }

 private:
  struct Held {
    LinkId link;
    uint32_t epoch = 0;  // waits until none before it is left
  };
  [[nodiscard]] uint32_t& former(uint32_t epoch) {
    const uint32_t ago = epoch_ - epoch;
    CW_ASSERT(ago <= former_.size());
    return former_[former_.size() - ago];
  }
  void release(std::deque<LinkId>& released) {
    while (!former_.empty() && former_.front() == 0) {
      former_.pop_front();
    }
    const uint32_t oldest = epoch_ - static_cast<uint32_t>(former_.size());
    while (!held_.empty() && static_cast<int32_t>(oldest - held_.front().epoch) >= 0) {
      released.push_back(held_.front().link);
      held_.pop_front();
    }
  }

  uint64_t key_;
  uint32_t epoch_ = 0;           // the present one; wraps
  uint32_t present_ = 0;         // calls in flight of the present epoch
  std::deque<uint32_t> former_;  // the same of those before, oldest first; the first one has some
  std::deque<Held> held_;        // in the order of their epochs, each with one of its own
};

ReplayGuard::ReplayGuard(uint64_t key) : key_(key) {}
ReplayGuard::~ReplayGuard() = default;

ReplayGuard::Client& ReplayGuard::join(const IpAddress& address, uint32_t backend) {
  const uint64_t key = hash_of(key_, address, backend);
  std::unique_ptr<Client>& client = clients_[key];
  if (client == nullptr) {
    client = std::make_unique<Client>(key);
  }
  ++client->users;
  return *client;
}

ReplayGuard::Client* ReplayGuard::find(const IpAddress& address, uint32_t backend) const {
  const auto found = clients_.find(hash_of(key_, address, backend));
  return found == clients_.end() ? nullptr : found->second.get();
}

void ReplayGuard::leave(Client& client) {
  CW_ASSERT(client.users > 0);
  if (--client.users == 0) {
    CW_ASSERT(client.is_idle());
    clients_.erase(client.key());
  }
}

uint32_t ReplayGuard::begin(Client& client) {
  return client.begin();
}

void ReplayGuard::end(Client& client, uint32_t epoch) {
  client.end(epoch, released_);
}

bool ReplayGuard::hold(Client& client, LinkId link) {
  return client.hold(link);
}

void ReplayGuard::forget(Client& client, LinkId link) {
  client.forget(link);
}

bool ReplayGuard::poll_released(LinkId& out) {
  if (released_.empty()) {
    return false;
  }
  out = released_.front();
  released_.pop_front();
  return true;
}

}  // namespace cw::gateway
