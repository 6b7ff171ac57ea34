// How many connections there may be, in all and per listener, over all poll cores of a process.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cw::gateway {

class ConnectionPlaces {
 public:
  virtual ~ConnectionPlaces() = default;
  // A place, or false when there is none. Never more are out than there are.
  [[nodiscard]] virtual bool take(uint32_t listener) = 0;
  virtual void give_back(uint32_t listener) = 0;
};

// Of a gateway, or several on one thread.
class LocalPlaces final : public ConnectionPlaces {
 public:
  LocalPlaces(uint32_t total, std::span<const uint32_t> per_listener)
      : total_(total), listeners_(per_listener.begin(), per_listener.end()) {}

  [[nodiscard]] bool take(uint32_t listener) override {
    if (total_ == 0 || listeners_[listener] == 0) {
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

 private:
  // Free ones.
  uint32_t total_;
  std::vector<uint32_t> listeners_;
};

}  // namespace cw::gateway
