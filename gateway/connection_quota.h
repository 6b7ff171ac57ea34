// How many connections there may be, in all and per listener, over all poll cores of a process.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cw::gateway {

class ConnectionQuota {
 public:
  virtual ~ConnectionQuota() = default;
  // A place, or false when there is none. Never more are out than there are.
  [[nodiscard]] virtual bool take(uint32_t listener) = 0;
  // There is one at the moment: whoever takes it later may find it gone.
  [[nodiscard]] virtual bool has_room(uint32_t listener) const = 0;
  virtual void give_back(uint32_t listener) = 0;
  // Of one listener. Those that are out stay out, even if they are more now than there are.
  virtual void set_max(uint32_t listener, uint32_t max) = 0;
};

// Of a gateway, or several on one thread.
class LocalQuota final : public ConnectionQuota {
 public:
  LocalQuota(uint32_t total, std::span<const uint32_t> per_listener)
      : total_(total), maxima_(per_listener.begin(), per_listener.end()), listeners_(per_listener.begin(), per_listener.end()) {}

  [[nodiscard]] bool has_room(uint32_t listener) const override { return total_ > 0 && listeners_[listener] > 0; }
  [[nodiscard]] bool take(uint32_t listener) override {
    if (!has_room(listener)) {
      return false;
    }
    --total_;
    --listeners_[listener];
    return true;
  }
  void give_back(uint32_t listener) override {
    ++total_;
    ++listeners_[listener];
  }
  void set_max(uint32_t listener, uint32_t max) override {
    listeners_[listener] += int64_t{max} - maxima_[listener];
    maxima_[listener] = max;
  }

 private:
  uint32_t total_;  // free ones
  std::vector<uint32_t> maxima_;
  std::vector<int64_t> listeners_;  // free ones; below 0 when the maximum was lowered
};

}  // namespace cw::gateway
