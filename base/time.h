// Instants and durations in nanoseconds. Protocol objects never read a clock: the shell reads it once per burst and passes it.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>

namespace cw {

class Duration {
 public:
  constexpr Duration() = default;
  [[nodiscard]] static constexpr Duration ns(int64_t v) { return Duration(v); }
  [[nodiscard]] static constexpr Duration us(int64_t v) { return Duration(v * 1'000); }
  [[nodiscard]] static constexpr Duration ms(int64_t v) { return Duration(v * 1'000'000); }
  [[nodiscard]] static constexpr Duration seconds(int64_t v) { return Duration(v * 1'000'000'000); }
  [[nodiscard]] constexpr int64_t to_ns() const { return ns_; }
  [[nodiscard]] constexpr int64_t to_us() const { return ns_ / 1'000; }
  [[nodiscard]] constexpr double to_seconds() const { return static_cast<double>(ns_) * 1e-9; }
  friend constexpr auto operator<=>(Duration, Duration) = default;
  friend constexpr Duration operator+(Duration a, Duration b) { return Duration(a.ns_ + b.ns_); }
  friend constexpr Duration operator-(Duration a, Duration b) { return Duration(a.ns_ - b.ns_); }
  friend constexpr Duration operator*(Duration a, int64_t n) { return Duration(a.ns_ * n); }
  friend constexpr Duration operator/(Duration a, int64_t n) { return Duration(a.ns_ / n); }

 private:
  constexpr explicit Duration(int64_t v) : ns_(v) {}
  int64_t ns_ = 0;
};

// A point on a monotonic clock whose origin means nothing. Instant::never() is later than every other.
class Instant {
 public:
  constexpr Instant() = default;
  [[nodiscard]] static constexpr Instant from_ns(int64_t v) { return Instant(v); }
  [[nodiscard]] static constexpr Instant never() { return Instant(std::numeric_limits<int64_t>::max()); }
  [[nodiscard]] constexpr int64_t to_ns() const { return ns_; }
  [[nodiscard]] constexpr bool is_never() const { return ns_ == std::numeric_limits<int64_t>::max(); }
  friend constexpr auto operator<=>(Instant, Instant) = default;
  friend constexpr Instant operator+(Instant t, Duration d) { return t.is_never() ? t : Instant(t.ns_ + d.to_ns()); }
  friend constexpr Duration operator-(Instant a, Instant b) { return Duration::ns(a.ns_ - b.ns_); }

 private:
  constexpr explicit Instant(int64_t v) : ns_(v) {}
  int64_t ns_ = 0;
};

[[nodiscard]] constexpr Instant earlier(Instant a, Instant b) {
  return a < b ? a : b;
}

}  // namespace cw
