// Lines for the log that wait for whoever prints them. What finds no room is counted.
#pragma once

#include "base/ring.h"
#include "gateway/gateway_stats.h"

namespace cw::gateway {

class NoticeLog {
 public:
  explicit NoticeLog(GatewayStats& stats) : stats_(stats), notices_(kNoticesMax) {}

  void note(const Notice& notice) {
    if (!notices_.push(Notice(notice))) {
      ++stats_.notices_dropped;
    }
  }
  // nullptr when there is none.
  [[nodiscard]] const Notice* next() const { return notices_.empty() ? nullptr : &notices_.front(); }
  void pop() { (void)notices_.pop(); }

 private:
  static constexpr uint32_t kNoticesMax = 256;

  GatewayStats& stats_;
  Ring<Notice> notices_;
};

}  // namespace cw::gateway
