// How many refused connection requests get a line in the log. Each is counted (causeway_connections_refused_total) and costs who
// asks one datagram; without a bound, he would fill the disk with them. Connections that came about have all their lines: their
// clients proved their addresses.
#pragma once

#include <cstdint>
#include <utility>

#include "base/time.h"
#include "base/token_bucket.h"
#include "gateway/gateway_stats.h"

namespace cw::dataplane {

class NoticeLimit {
 public:
  static constexpr RateLimit kRefusals{.per_second = 10, .burst = 50};
  static constexpr Duration kReportInterval = Duration::seconds(1);

  [[nodiscard]] bool admits(Instant now, gateway::ConnectionResult result) {
    if (!gateway::is_refusal(result) || refusals_.take(now)) {
      return true;
    }
    ++left_out_;
    return false;
  }
  // How many had no line since this was last asked with an answer above 0; at most once in kReportInterval.
  [[nodiscard]] uint64_t take_left_out(Instant now) {
    if (left_out_ == 0 || now < report_at_) {
      return 0;
    }
    report_at_ = now + kReportInterval;
    return std::exchange(left_out_, 0);
  }

 private:
  TokenBucket refusals_{kRefusals};
  uint64_t left_out_ = 0;
  Instant report_at_;
};

}  // namespace cw::dataplane
