// A quantity that changes over time: a rate of calls, a number of connections. Straight lines and jumps between given points.
//
//   "5k"                     always 5000
//   "1k, 10s:20k"            from 1000 in a straight line to 20000 at 10 s, and so from there on
//   "1k, 10s=20k, 20s=5k"    1000, from 10 s on 20000, from 20 s on 5000
//
// Pure: time is the time since the start.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace cw::load {

class Profile {
 public:
  static constexpr size_t kPointsMax = 64;

  Profile() : Profile(0) {}
  explicit Profile(double constant) : points_{{Duration(), constant}} {}
  // False, and `problem` says what is wrong and how it is written, when `text` is no profile; nothing has changed then.
  [[nodiscard]] bool parse(std::string_view text, std::string& problem);

  [[nodiscard]] double at(Duration time) const;
  [[nodiscard]] double max() const;
  [[nodiscard]] bool is_constant() const { return points_.size() == 1; }
  // So many times as much, at all times.
  [[nodiscard]] Profile scaled(double factor) const;
  // The time at which the area below the profile since `from` reaches `area`: where the n-th arrival of a rate lies. Nothing
  // when it never does.
  [[nodiscard]] std::optional<Duration> when_area(Duration from, double area) const;

 private:
  struct Point {
    Duration at;
    double value = 0;
  };
  // At least one point, the first at 0, in order of time; two at the same time are a jump.
  std::vector<Point> points_;
};

}  // namespace cw::load
