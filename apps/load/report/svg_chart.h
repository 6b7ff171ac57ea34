// Charts as SVG text, for pages that open offline. Each is drawn twice, for a wide and for a narrow window, and the page's style
// shows one: scaled down, the wide one's labels could not be read on a phone. Colours come from the style too: classes s0, s1,
// ... for lines, f0, f1, ... for dots and keys, heat, grid, label. Pure: numbers in, text out.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cw::load {

using Label = std::function<std::string(double)>;

struct Axis {
  bool logarithmic = false;
  Label tick{};                  // beside the axis, short
  Label value{};                 // under the pointer
  std::optional<double> from{};  // default: 0, or a round number below the data when logarithmic
  bool round = false;            // ends at a round number; else with the data
};

inline constexpr size_t kSeriesMax = 8;  // as many colours as the style has

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  // ascending x
};

// Lines over a common x, and their names. Points that a logarithmic axis cannot show are gaps. A point says its values under
// the pointer, unless there are too many to hit. Precondition: at most kSeriesMax series.
[[nodiscard]] std::string line_chart(const std::vector<Series>& series, const Axis& x, const Axis& y);

struct HeatMap {
  std::vector<double> columns;             // where each begins, and where the last ends: ascending, one more than columns
  std::vector<double> rows;                // where each begins, and where the last ends
  std::vector<std::vector<double>> cells;  // by column, then row
};
// Cells darker with the square root of their share of the fullest one; empty ones are not drawn. Rows are of equal height, and
// grow in proportion: labels stand at round numbers. `cell` says what a cell's number means. More columns than can be told
// apart are drawn as one, with the mean of their numbers.
[[nodiscard]] std::string heat_map(const HeatMap& map, const Axis& x, const Axis& y, const Label& cell);

// Text as it may stand in SVG and HTML.
[[nodiscard]] std::string escaped(const std::string& text);

}  // namespace cw::load
