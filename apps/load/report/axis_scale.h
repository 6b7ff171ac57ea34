// Where the values of a chart's axis stand on the paper, and which of them get a label. Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace cw::load {

struct AxisRange {
  bool logarithmic = false;
  double low = 0;  // above 0 when logarithmic
  double high = 1;
  bool round = false;  // extend to the next round number; else the axis ends where the data do
  uint32_t ticks_max = 8;
};

class AxisScale {
 public:
  // `begin`, `end`: the paper's coordinates of the lowest and the highest value; `begin` may be the greater.
  AxisScale(const AxisRange& range, double begin, double end);

  [[nodiscard]] bool shows(double value) const;
  [[nodiscard]] double place(double value) const;  // what lies outside stands at the nearer end
  [[nodiscard]] const std::vector<double>& ticks() const { return ticks_; }

 private:
  void choose_linear(const AxisRange& range);
  void choose_logarithmic(const AxisRange& range);

  bool logarithmic_;
  double begin_;
  double end_;
  double low_;
  double high_;
  std::vector<double> ticks_;
};

// The values 1, 2 and 5 times a power of ten from `low` to `high`; when these are more than `most`, powers of ten alone, and then
// each second, third, ... of them. Precondition: 0 < low <= high.
[[nodiscard]] std::vector<double> logarithmic_ticks(double low, double high, uint32_t most);

}  // namespace cw::load
