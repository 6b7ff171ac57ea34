#include "apps/load/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/load/amount.h"

namespace cw::load {
namespace {

constexpr const char* kHowTo = "write a number (20k), or points of time: 1k, 10s:20k (straight line) or 1k, 10s=20k (jump)";

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') {
    text.remove_prefix(1);
  }
  while (!text.empty() && text.back() == ' ') {
    text.remove_suffix(1);
  }
  return text;
}

// Seconds from the start of a straight line from `begin`, changing by `slope` per second, to where the area below it is `area`.
std::optional<double> seconds_to_area(double begin, double slope, double area) {
  if (area <= 0) {
    return 0.0;
  }
  const double root = begin * begin + 2 * slope * area;
  // The form that does not lose digits for a small slope.
  const double divisor = begin + std::sqrt(std::max(root, 0.0));
  return root < 0 || divisor <= 0 ? std::nullopt : std::optional(2 * area / divisor);
}

}  // namespace

bool Profile::parse(std::string_view text, std::string& problem) {
  std::vector<Point> points;
  const auto refuse = [&](std::string_view part, const char* what) {
    problem = fmt::format("'{}' {}; {}", part, what, kHowTo);
    return false;
  };
  for (std::string_view rest = text; points.empty() || !rest.empty();) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view part = trimmed(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    const size_t mark = part.find_first_of(":=");
    const bool has_time = mark != std::string_view::npos;
    const auto value = parse_quantity(trimmed(has_time ? part.substr(mark + 1) : part));
    const auto at = has_time ? parse_duration(trimmed(part.substr(0, mark))) : std::optional(Duration());
    if (!value || !at) {
      return refuse(part, "is not a point of a profile");
    }
    if (!has_time && !points.empty()) {
      return refuse(part, "has no time");
    }
    if (!points.empty() && *at < points.back().at) {
      return refuse(part, "is earlier than the point before it");
    }
    if (points.empty() && *at > Duration()) {
      points.push_back({Duration(), part[mark] == '=' ? 0 : *value});
    }
    if (has_time && part[mark] == '=' && !points.empty()) {
      points.push_back({*at, points.back().value});
    }
    points.push_back({*at, *value});
    if (points.size() > kPointsMax) {
      return refuse(part, "is one point too many");
    }
  }
  points_ = std::move(points);
  return true;
}

double Profile::at(Duration time) const {
  const auto after = std::upper_bound(points_.begin(), points_.end(), time, [](Duration t, const Point& p) { return t < p.at; });
  if (after == points_.begin()) {
    return points_.front().value;
  }
  const Point& begin = *(after - 1);
  if (after == points_.end()) {
    return begin.value;
  }
  const double part = (time - begin.at).to_seconds() / (after->at - begin.at).to_seconds();
  return begin.value + part * (after->value - begin.value);
}

Profile Profile::scaled(double factor) const {
  Profile out = *this;
  for (Point& point : out.points_) {
    point.value *= factor;
  }
  return out;
}

double Profile::max() const {
  return std::max_element(points_.begin(), points_.end(), [](const Point& a, const Point& b) { return a.value < b.value; })
      ->value;
}

std::optional<Duration> Profile::when_area(Duration from, double area) const {
  for (size_t i = 0; i < points_.size(); ++i) {
    const bool is_last = i + 1 == points_.size();
    if (!is_last && points_[i + 1].at <= from) {
      continue;
    }
    const Duration begin_at = std::max(from, points_[i].at);
    const double begin = at(begin_at);
    if (is_last) {
      const auto seconds = seconds_to_area(begin, 0, area);
      return seconds && *seconds < 1e9 ? std::optional(begin_at + Duration::ns(std::llround(*seconds * 1e9))) : std::nullopt;
    }
    const double length = (points_[i + 1].at - begin_at).to_seconds();
    const double end = points_[i + 1].value;
    const double whole = (begin + end) / 2 * length;
    if (whole >= area && length > 0) {
      const auto seconds = seconds_to_area(begin, (end - begin) / length, area);
      return begin_at + Duration::ns(std::llround(std::min(seconds.value_or(length), length) * 1e9));
    }
    area -= whole;
  }
  return std::nullopt;
}

}  // namespace cw::load
