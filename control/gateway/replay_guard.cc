#include "control/gateway/replay_guard.h"

#include <algorithm>

#include "control/cm/hash.h"
#include "rocev2/base/assert.h"

namespace cw::gateway {

class ReplayGuard::Client {
 public:
  explicit Client(uint64_t key) : key_(key) { in_flight_.push_back(0); }

  uint32_t users = 0;

  [[nodiscard]] uint64_t key() const { return key_; }
  [[nodiscard]] bool is_idle() const { return in_flight_.size() == 1 && in_flight_.front() == 0; }
  [[nodiscard]] uint32_t begin() {
    ++in_flight_.back();
    return first_epoch_ + static_cast<uint32_t>(in_flight_.size()) - 1;
  }
  void end(uint32_t epoch, std::deque<LinkId>& released) {
    const uint32_t index = epoch - first_epoch_;
    CW_ASSERT(index < in_flight_.size() && in_flight_[index] > 0);
    --in_flight_[index];
    while (in_flight_.size() > 1 && in_flight_.front() == 0) {
      in_flight_.pop_front();
      ++first_epoch_;
    }
    while (!held_.empty() && static_cast<int32_t>(first_epoch_ - held_.front().epoch) >= 0) {
      released.push_back(held_.front().link);
      held_.pop_front();
    }
  }
  [[nodiscard]] bool hold(LinkId link) {
    if (is_idle()) {
      return false;
    }
    in_flight_.push_back(0);
    held_.push_back({link, first_epoch_ + static_cast<uint32_t>(in_flight_.size()) - 1});
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
  uint64_t key_;
  uint32_t first_epoch_ = 0;        // wraps
  std::deque<uint32_t> in_flight_;  // calls by epoch, the last one's is the present; never empty
  std::deque<Held> held_;           // in the order of their epochs, each with one of its own
};

ReplayGuard::ReplayGuard() = default;
ReplayGuard::~ReplayGuard() = default;

ReplayGuard::Client& ReplayGuard::join(const wire::IpAddress& address, uint32_t backend) {
  const uint64_t key = cm::hash_of(0, address, backend);
  std::unique_ptr<Client>& client = clients_[key];
  if (client == nullptr) {
    client = std::make_unique<Client>(key);
  }
  ++client->users;
  return *client;
}

ReplayGuard::Client* ReplayGuard::find(const wire::IpAddress& address, uint32_t backend) const {
  const auto found = clients_.find(cm::hash_of(0, address, backend));
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
