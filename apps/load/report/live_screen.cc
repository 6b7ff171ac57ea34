#include "apps/load/report/live_screen.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "apps/load/report/report.h"

namespace cw::load {
namespace {

constexpr std::array kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr size_t kSparklineWidth = 48;
constexpr size_t kBarWidth = 30;

std::vector<double> values_of(const LiveView& view, double (*value)(const Interval&)) {
  std::vector<double> out;
  for (const Interval& interval : view.intervals) {
    out.push_back(value(interval));
  }
  return out;
}

// Of those that the sparkline shows.
double largest_of(std::span<const double> values) {
  values = values.last(std::min(kSparklineWidth, values.size()));
  return values.empty() ? 0 : *std::ranges::max_element(values);
}

std::string bar(double part) {
  const auto full = static_cast<size_t>(std::lround(std::clamp(part, 0.0, 1.0) * static_cast<double>(kBarWidth)));
  return "[" + std::string(full, '=') + std::string(kBarWidth - full, ' ') + "]";
}

}  // namespace

std::string sparkline(std::span<const double> values, size_t width, SparkScale scale) {
  values = values.last(std::min(width, values.size()));
  double least = HUGE_VAL;
  double most = 0;
  for (const double value : values) {
    least = value > 0 ? std::min(least, value) : least;
    most = std::max(most, value);
  }
  std::string out;
  for (const double value : values) {
    if (value <= 0) {
      out += " ";
      continue;
    }
    double part = value / most;
    if (scale == SparkScale::kLogarithmic) {
      part = most > least ? std::log(value / least) / std::log(most / least) : 0.5;
    }
    out += kBlocks[std::min<size_t>(kBlocks.size() - 1, static_cast<size_t>(part * static_cast<double>(kBlocks.size())))];
  }
  return out;
}

std::string progress_line(const Interval& interval, bool open_loop, uint64_t failed) {
  std::string out =
      fmt::format("  {:6.1f} s  {:>10.0f} RPC/s  {:>12}  p50 {:.1f} us  p99 {:.1f} us  in flight {}  failed {}", interval.end_s,
                  interval.per_second(interval.counts.calls), rate_text(interval.per_second(interval.counts.bytes)),
                  interval.latency.p50, interval.latency.p99, interval.gauges.in_flight, failed);
  if (open_loop) {
    out += fmt::format("  offered {:.0f}/s  waiting {}", interval.per_second(interval.counts.arrived), interval.gauges.queued);
  }
  return out;
}

std::string live_screen(const LiveView& view) {
  const Interval& last = view.intervals.back();
  const Quantiles& q = last.latency;
  std::string out = fmt::format("{}\n", view.title);
  out +=
      fmt::format("  {} {:.0f} of {:.0f} s\n", bar(view.seconds > 0 ? last.end_s / view.seconds : 0), last.end_s, view.seconds);
  out += fmt::format("  calls     {:>9}/s   data {:>11}", count_text(last.per_second(last.counts.calls)),
                     rate_text(last.per_second(last.counts.bytes)));
  out += view.open_loop ? fmt::format("   offered {:>9}/s\n", count_text(last.per_second(last.counts.arrived))) : "\n";
  out += fmt::format("  latency   p50 {:>9}   p99 {:>9}   p99.9 {:>9}   max {:>9}\n", time_text(q.p50), time_text(q.p99),
                     time_text(q.p999), time_text(q.max));
  out += fmt::format("  now       {} connections, {} calls in flight, {} waiting\n", last.gauges.connected, last.gauges.in_flight,
                     last.gauges.queued);
  out += fmt::format("  so far    {} calls, {} wrong, {} failed, {} not sent\n", view.total.calls, view.total.wrong,
                     view.total.all_failed(), view.total.overflowed);
  out += fmt::format("            {} connections lost, {} calls sent again\n", view.total.lost, view.total.resent);
  const std::vector<double> p99 = values_of(view, [](const Interval& i) { return i.latency.p99; });
  const std::vector<double> rate = values_of(view, [](const Interval& i) { return i.per_second(i.counts.calls); });
  out += fmt::format("  p99       {}  up to {}\n", sparkline(p99, kSparklineWidth, SparkScale::kLogarithmic),
                     time_text(largest_of(p99)));
  out += fmt::format("  calls/s   {}  up to {}\n", sparkline(rate, kSparklineWidth, SparkScale::kFromZero),
                     count_text(largest_of(rate)));
  return out;
}

std::string Redraw::over(const std::string& screen) {
  // A line that wraps would be two when the next screen goes up again.
  std::string out = "\x1b[?7l";
  out += lines_ > 0 ? fmt::format("\x1b[{}A", lines_) : std::string();
  lines_ = 0;
  for (size_t begin = 0; begin < screen.size();) {
    const size_t end = std::min(screen.find('\n', begin), screen.size());
    out += screen.substr(begin, end - begin) + "\x1b[K\n";
    begin = end + 1;
    ++lines_;
  }
  return out + "\x1b[?7h";
}

}  // namespace cw::load
