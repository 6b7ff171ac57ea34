// How fast several may go together: a virtual clock, as in the generic cell rate algorithm (ITU-T I.371). What is let through
// moves the moment at which the next is due by what it costs; who comes earlier than that waits for it. Nobody fills a bucket.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace cw {

class RateLimiter {
 public:
  // What has not been used of the rate is saved up for so long.
  static constexpr Duration kBurst = Duration::ms(10);

  RateLimiter() = default;
  virtual ~RateLimiter() = default;
  RateLimiter(const RateLimiter&) = delete;
  RateLimiter& operator=(const RateLimiter&) = delete;

  // 0: no limit. Another rate than before forgets what is due, so that a correction counts at once.
  virtual void set(uint64_t per_second) = 0;
  [[nodiscard]] virtual bool is_on() const = 0;
  // From when on something may go, whatever it costs: a long call waits no longer than a short one, those behind it do. Without a
  // limit, the clock's zero.
  [[nodiscard]] virtual Instant next_at() const = 0;
  // It goes. Precondition: amount at most 2^33, so that the product fits.
  virtual void charge(Instant now, uint64_t amount) = 0;
  // So much of what was charged was not needed.
  virtual void refund(uint64_t amount) = 0;
  // What charge() moves the clock by.
  [[nodiscard]] virtual Duration cost(uint64_t amount) const = 0;

 protected:
  // Nanoseconds.
  [[nodiscard]] static int64_t cost_of(uint64_t amount, uint64_t per_second) {
    return per_second == 0 ? 0 : static_cast<int64_t>(amount * 1'000'000'000 / per_second);
  }
  // When the next is due, behind one of this cost.
  [[nodiscard]] static int64_t due_behind(int64_t due_ns, Instant now, int64_t cost) {
    return std::max(due_ns, (now + Duration::ns(-kBurst.to_ns())).to_ns()) + cost;
  }
};

// Of one thread.
class LocalRateLimiter final : public RateLimiter {
 public:
  void set(uint64_t per_second) override {
    due_ns_ = per_second == per_second_ ? due_ns_ : 0;
    per_second_ = per_second;
  }
  [[nodiscard]] bool is_on() const override { return per_second_ != 0; }
  [[nodiscard]] Instant next_at() const override { return is_on() ? Instant::from_ns(due_ns_) : Instant(); }
  void charge(Instant now, uint64_t amount) override {
    if (is_on()) {
      due_ns_ = due_behind(due_ns_, now, cost_of(amount, per_second_));
    }
  }
  void refund(uint64_t amount) override { due_ns_ -= cost_of(amount, per_second_); }
  [[nodiscard]] Duration cost(uint64_t amount) const override { return Duration::ns(cost_of(amount, per_second_)); }

 private:
  uint64_t per_second_ = 0;
  int64_t due_ns_ = 0;
};

}  // namespace cw
