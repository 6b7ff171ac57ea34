// Who of those that connect to the admin socket gets a place. Whoever may only look, and any one user, can fill what is his share
// and no more: root always finds a place, administrators find one whatever readers do.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace cw::control {

class AdminQuota {
 public:
  static constexpr uint32_t kMax = 16;        // in all
  static constexpr uint32_t kOthersMax = 12;  // of those who are not root
  static constexpr uint32_t kReadersMax = 8;  // of those who may only look
  static constexpr uint32_t kPerUserMax = 4;  // of one user who is not root

  struct Holder {
    uint32_t uid = 0;
    bool may_change = false;
    bool operator==(const Holder&) const = default;
  };

  // False: there is no place for this one now.
  [[nodiscard]] bool take(const Holder& holder) {
    if (!has_room_for(holder)) {
      return false;
    }
    holders_.push_back(holder);
    return true;
  }
  void give_back(const Holder& holder) {
    if (const auto found = std::ranges::find(holders_, holder); found != holders_.end()) {
      holders_.erase(found);
    }
  }

 private:
  [[nodiscard]] bool has_room_for(const Holder& holder) const {
    if (holder.uid == 0 || holders_.size() >= kMax) {
      return holders_.size() < kMax;
    }
    return count([](const Holder& each) { return each.uid != 0; }) < kOthersMax &&
           count([&](const Holder& each) { return each.uid == holder.uid; }) < kPerUserMax &&
           (holder.may_change || count([](const Holder& each) { return !each.may_change; }) < kReadersMax);
  }
  template <typename Which>
  [[nodiscard]] uint32_t count(Which&& which) const {
    return static_cast<uint32_t>(std::ranges::count_if(holders_, which));
  }

  std::vector<Holder> holders_;
};

}  // namespace cw::control
