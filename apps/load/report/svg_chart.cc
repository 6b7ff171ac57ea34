#include "apps/load/report/svg_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>

#include "apps/load/report/axis_scale.h"

namespace cw::load {
namespace {

constexpr const char* kNothing = "<p>nothing was measured</p>\n";
constexpr size_t kDotsMax = 150;

struct Paper {
  const char* name;  // class of the SVG
  double width;
  double height;  // of a line chart
  double left;
  double right;
  double top;
  double bottom;
  uint32_t x_ticks_max;
  uint32_t y_ticks_max;
  size_t columns_max;  // of a heat map
  bool speaks;         // has a pointer that may ask for values

  [[nodiscard]] double right_edge() const { return width - right; }
};

constexpr std::array kPapers = {
    Paper{"wide", 960, 260, 76, 32, 8, 28, 9, 7, 120, true},
    Paper{"narrow", 440, 240, 70, 30, 8, 28, 5, 6, 48, false},
};

struct Bounds {
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();

  void include(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
};

// Labels 1, 2, 5, 10 stand unevenly: there is room for some more of them than of evenly spaced ones.
uint32_t logarithmic_ticks_max(const Paper& paper) {
  return paper.y_ticks_max * 3 / 2;
}

AxisRange range_of(const Axis& axis, const Bounds& bounds, uint32_t ticks_max) {
  const double low = axis.from.value_or(axis.logarithmic ? bounds.least : 0);
  // A line at 0 all the time has an axis nevertheless.
  const double high = bounds.most > low ? bounds.most : low + 1;
  return {.logarithmic = axis.logarithmic, .low = low, .high = high, .round = axis.round, .ticks_max = ticks_max};
}

std::string open_svg(const Paper& paper, double height) {
  return fmt::format("<svg class=\"{}\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\">\n", paper.name, paper.width, height);
}

std::string x_axis(const Paper& paper, const AxisScale& scale, const Label& label, double height) {
  std::string out;
  for (const double tick : scale.ticks()) {
    const double at = scale.place(tick);
    out += fmt::format("<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\"/>", at, paper.top,
                       height - paper.bottom);
    out += fmt::format("<text class=\"label\" text-anchor=\"middle\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", at,
                       height - paper.bottom + 18, escaped(label(tick)));
  }
  return out;
}

std::string y_tick(const Paper& paper, double at, const std::string& label) {
  return fmt::format("<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>", paper.left,
                     paper.right_edge(), at) +
         fmt::format("<text class=\"label\" text-anchor=\"end\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", paper.left - 8, at + 4,
                     escaped(label));
}

std::string y_axis(const Paper& paper, const AxisScale& scale, const Label& label) {
  std::string out;
  for (const double tick : scale.ticks()) {
    out += y_tick(paper, scale.place(tick), label(tick));
  }
  return out;
}

std::string legend(const std::vector<Series>& series) {
  std::string out = "<p class=\"legend\">";
  for (size_t i = 0; i < series.size(); ++i) {
    out += fmt::format(
        "<span><svg class=\"key\" viewBox=\"0 0 12 12\"><rect class=\"f{}\" y=\"4\" width=\"12\" height=\"4\"/></svg>{}</span>\n",
        i, escaped(series[i].name));
  }
  return out + "</p>\n";
}

class LineChart {
 public:
  LineChart(const std::vector<Series>& series, const Axis& x, const Axis& y) : series_(series), x_(x), y_(y) {
    for (const Series& one : series) {
      for (const auto& [at, value] : one.points) {
        if ((x.logarithmic && at <= 0) || (y.logarithmic && value <= 0)) {
          continue;
        }
        x_bounds_.include(at);
        y_bounds_.include(value);
      }
    }
  }
  [[nodiscard]] bool empty() const { return x_bounds_.least > x_bounds_.most; }
  [[nodiscard]] std::string on(const Paper& paper) const {
    const AxisScale x(range_of(x_, x_bounds_, paper.x_ticks_max), paper.left, paper.right_edge());
    const uint32_t y_ticks_max = y_.logarithmic ? logarithmic_ticks_max(paper) : paper.y_ticks_max;
    const AxisScale y(range_of(y_, y_bounds_, y_ticks_max), paper.height - paper.bottom, paper.top);
    std::string out = open_svg(paper, paper.height) + x_axis(paper, x, x_.tick, paper.height) + y_axis(paper, y, y_.tick);
    for (size_t i = 0; i < series_.size(); ++i) {
      out += line(i, x, y);
      if (paper.speaks && series_[i].points.size() <= kDotsMax) {
        out += dots(i, x, y);
      }
    }
    return out + "</svg>\n";
  }

 private:
  [[nodiscard]] std::string line(size_t index, const AxisScale& x, const AxisScale& y) const {
    std::string path;
    bool drawing = false;
    for (const auto& [at, value] : series_[index].points) {
      const bool shown = x.shows(at) && y.shows(value);
      if (shown) {
        // "h0": a point alone is a dot.
        path += fmt::format("{}{:.1f} {:.1f}{}", drawing ? "L" : "M", x.place(at), y.place(value), drawing ? "" : "h0");
      }
      drawing = shown;
    }
    return fmt::format("<path class=\"s{}\" d=\"{}\"/>\n", index, path);
  }
  [[nodiscard]] std::string dots(size_t index, const AxisScale& x, const AxisScale& y) const {
    std::string out;
    for (const auto& [at, value] : series_[index].points) {
      if (x.shows(at) && y.shows(value)) {
        out += fmt::format("<circle class=\"f{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.2\"><title>{} at {}: {}</title></circle>\n",
                           index, x.place(at), y.place(value), escaped(series_[index].name), escaped(x_.value(at)),
                           escaped(y_.value(value)));
      }
    }
    return out;
  }

  const std::vector<Series>& series_;
  const Axis& x_;
  const Axis& y_;
  Bounds x_bounds_;
  Bounds y_bounds_;
};

// At most `most` columns; each stands for as many as it takes.
HeatMap with_columns(const HeatMap& map, size_t most) {
  const size_t each = (map.cells.size() + most - 1) / most;
  HeatMap out{{}, map.rows, {}};
  for (size_t begin = 0; begin < map.cells.size(); begin += each) {
    const size_t end = std::min(begin + each, map.cells.size());
    out.columns.push_back(map.columns[begin]);
    std::vector<double>& sum = out.cells.emplace_back(map.cells[begin].size());
    for (size_t column = begin; column < end; ++column) {
      for (size_t row = 0; row < sum.size(); ++row) {
        sum[row] += map.cells[column][row] / static_cast<double>(end - begin);
      }
    }
  }
  out.columns.push_back(map.columns.back());
  return out;
}

class HeatChart {
 public:
  HeatChart(const HeatMap& map, const Axis& x, const Axis& y, const Label& cell)
      : map_(map), x_(x), y_(y), cell_(cell), first_(map.rows.size()) {
    for (const std::vector<double>& column : map.cells) {
      for (size_t row = 0; row < column.size(); ++row) {
        if (column[row] > 0) {
          first_ = std::min(first_, row);
          last_ = std::max(last_, row);
          most_ = std::max(most_, column[row]);
        }
      }
    }
  }
  [[nodiscard]] bool empty() const { return most_ <= 0; }
  [[nodiscard]] double most() const { return most_; }
  [[nodiscard]] std::string on(const Paper& paper) const {
    const double rows = static_cast<double>(last_ - first_ + 1);
    const double height = paper.top + paper.bottom + std::clamp(rows * 8, 80.0, 400.0);
    const double row_height = (height - paper.top - paper.bottom) / rows;
    const double bottom = height - paper.bottom;
    const Bounds columns{map_.columns.front(), map_.columns.back()};
    const AxisScale x(range_of(x_, columns, paper.x_ticks_max), paper.left, paper.right_edge());
    std::string out = open_svg(paper, height) + x_axis(paper, x, x_.tick, height);
    const double lowest = std::max(map_.rows[first_], map_.rows[first_ + 1] / 2);
    for (const double tick : logarithmic_ticks(lowest, map_.rows[last_ + 1], 2 * paper.y_ticks_max)) {
      out += y_tick(paper, bottom - (row_at(tick) - static_cast<double>(first_)) * row_height, y_.tick(tick));
    }
    for (size_t column = 0; column < map_.cells.size(); ++column) {
      const double left = x.place(map_.columns[column]);
      const double width = std::max(x.place(map_.columns[column + 1]) - left, 0.5);
      for (size_t row = first_; row <= last_; ++row) {
        if (map_.cells[column][row] > 0) {
          out += fmt::format(
              "<rect class=\"heat\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill-opacity=\"{:.2f}\"", left,
              bottom - static_cast<double>(row + 1 - first_) * row_height, width, row_height,
              0.08 + 0.92 * std::sqrt(map_.cells[column][row] / most_));
          out += paper.speaks ? fmt::format("><title>{}</title></rect>\n", escaped(words(column, row))) : "/>\n";
        }
      }
    }
    return out + "</svg>\n";
  }

 private:
  // As a fraction, counted from row 0.
  [[nodiscard]] double row_at(double value) const {
    const auto above = std::upper_bound(map_.rows.begin() + 1, map_.rows.end() - 1, value);
    const double begin = *std::prev(above);
    return static_cast<double>(std::distance(map_.rows.begin(), above) - 1) + (value - begin) / (*above - begin);
  }
  [[nodiscard]] std::string words(size_t column, size_t row) const {
    return fmt::format("at {}, {} to {}: {}", x_.value(map_.columns[column]), y_.value(map_.rows[row]),
                       y_.value(map_.rows[row + 1]), cell_(map_.cells[column][row]));
  }

  const HeatMap& map_;
  const Axis& x_;
  const Axis& y_;
  const Label& cell_;
  size_t first_;
  size_t last_ = 0;
  double most_ = 0;
};

std::string heat_legend(const std::string& most) {
  return fmt::format(
      "<p class=\"legend\"><span><svg class=\"key\" viewBox=\"0 0 48 12\"><rect class=\"heat\" width=\"12\" height=\"12\" "
      "fill-opacity=\"0.1\"/>"
      "<rect class=\"heat\" x=\"12\" width=\"12\" height=\"12\" fill-opacity=\"0.4\"/><rect class=\"heat\" x=\"24\" width=\"12\" "
      "height=\"12\" fill-opacity=\"0.7\"/><rect class=\"heat\" x=\"36\" width=\"12\" height=\"12\"/></svg>up to {}</span></p>\n",
      escaped(most));
}

}  // namespace

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 && c != '\n' ? ' ' : c;
    }
  }
  return out;
}

std::string line_chart(const std::vector<Series>& series, const Axis& x, const Axis& y) {
  const LineChart chart(series, x, y);
  if (chart.empty()) {
    return kNothing;
  }
  std::string out = series.size() > 1 ? legend(series) : std::string();
  for (const Paper& paper : kPapers) {
    out += chart.on(paper);
  }
  return out;
}

std::string heat_map(const HeatMap& map, const Axis& x, const Axis& y, const Label& cell) {
  if (map.cells.empty()) {
    return kNothing;
  }
  std::string out;
  for (const Paper& paper : kPapers) {
    const HeatMap drawn = with_columns(map, paper.columns_max);
    const HeatChart chart(drawn, x, y, cell);
    if (chart.empty()) {
      return kNothing;
    }
    out += (out.empty() ? heat_legend(cell(chart.most())) : "") + chart.on(paper);
  }
  return out;
}

}  // namespace cw::load
