#include "apps/load/report/axis_scale.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace cw::load {
namespace {

constexpr std::array kRound = {1.0, 2.0, 5.0};
// Rounding of logarithms must not lose a value that is round itself.
constexpr double kSlack = 1e-9;

double power_of_ten_below(double value) {
  return std::pow(10, std::floor(std::log10(value) + kSlack));
}

double round_below(double value) {
  const double power = power_of_ten_below(value);
  double out = power;
  for (const double part : kRound) {
    out = power * part <= value * (1 + kSlack) ? power * part : out;
  }
  return out;
}

double round_above(double value) {
  const double power = power_of_ten_below(value);
  for (const double part : kRound) {
    if (power * part >= value * (1 - kSlack)) {
      return power * part;
    }
  }
  return power * 10;
}

}  // namespace

std::vector<double> logarithmic_ticks(double low, double high, uint32_t most) {
  std::vector<double> fine;
  std::vector<double> powers;
  for (double power = power_of_ten_below(low); power <= high * (1 + kSlack); power *= 10) {
    for (const double part : kRound) {
      const double tick = power * part;
      if (tick >= low * (1 - kSlack) && tick <= high * (1 + kSlack)) {
        fine.push_back(tick);
        if (part == 1) {
          powers.push_back(tick);
        }
      }
    }
  }
  if (fine.size() <= most) {
    return fine;
  }
  std::vector<double> out;
  const size_t step = (powers.size() + most - 1) / most;
  for (size_t i = 0; i < powers.size(); i += step) {
    out.push_back(powers[i]);
  }
  return out;
}

AxisScale::AxisScale(const AxisRange& range, double begin, double end)
    : logarithmic_(range.logarithmic), begin_(begin), end_(end), low_(range.low), high_(range.high) {
  if (logarithmic_) {
    choose_logarithmic(range);
  } else {
    choose_linear(range);
  }
}

void AxisScale::choose_linear(const AxisRange& range) {
  const double span = std::max(range.high - range.low, 1e-9);
  const double step = round_above(span / range.ticks_max);
  high_ = range.round ? std::ceil((low_ + span) / step - kSlack) * step : low_ + span;
  for (auto i = static_cast<int64_t>(std::ceil(low_ / step - kSlack)); static_cast<double>(i) * step <= high_ + step * kSlack;
       ++i) {
    ticks_.push_back(static_cast<double>(i) * step);
  }
}

void AxisScale::choose_logarithmic(const AxisRange& range) {
  const double low = range.round ? round_below(range.low) : range.low;
  double high = range.round ? round_above(range.high) : range.high;
  high = std::max(high, low * 2);
  ticks_ = logarithmic_ticks(low, high, range.ticks_max);
  low_ = std::log10(low);
  high_ = std::log10(high);
}

bool AxisScale::shows(double value) const {
  return std::isfinite(value) && (!logarithmic_ || value > 0);
}

double AxisScale::place(double value) const {
  const double at = logarithmic_ ? std::log10(value) : value;
  return begin_ + (end_ - begin_) * std::clamp((at - low_) / (high_ - low_), 0.0, 1.0);
}

}  // namespace cw::load
