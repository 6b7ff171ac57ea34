// What a terminal shows while a load runs: a small screen that is drawn over itself, or a line per interval where it is no
// terminal. Pure: text out.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "apps/load/report/interval_recorder.h"

namespace cw::load {

enum class SparkScale : uint8_t {
  kFromZero,
  kLogarithmic,  // from the smallest positive value
};
// The last `width` values as eighths of a block, the highest for the largest; a blank for 0.
[[nodiscard]] std::string sparkline(std::span<const double> values, size_t width, SparkScale scale);

// "     3.0 s      12345 RPC/s   ..."
[[nodiscard]] std::string progress_line(const Interval& interval, bool open_loop, uint64_t failed);

struct LiveView {
  std::string title;
  double seconds = 0;  // to measure in all
  bool open_loop = false;
  std::span<const Interval> intervals;  // at least one
  LoadCounters total;
};
// Lines, each ended.
[[nodiscard]] std::string live_screen(const LiveView& view);

// Draws screens over each other with the terminal's escape sequences.
class Redraw {
 public:
  // What to write so that `screen` is seen in place of the last one.
  [[nodiscard]] std::string over(const std::string& screen);

 private:
  size_t lines_ = 0;
};

}  // namespace cw::load
