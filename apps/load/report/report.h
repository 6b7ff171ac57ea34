// The result of a run, and its forms: for programs (JSON, CSV), for a browser (HTML, offline) and for the terminal.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "apps/load/report/interval_recorder.h"

namespace cw::load {

struct Report {
  std::string title;                                         // of the scenario, or the calls
  std::string description;                                   // what it shows and what to watch; may be empty
  std::vector<std::pair<std::string, std::string>> options;  // as in effect: name, value
  std::string operation;                                     // "echo", or the mix
  uint32_t bytes = 0;                                        // of the only kind of call; 0 with a mix
  CallMix mix;
  uint32_t connections = 0;
  uint32_t window = 0;
  bool open_loop = false;
  double seconds = 0;  // measured
  LoadStats total;
  std::vector<Interval> intervals;
  std::string when;         // it began: ISO 8601, UTC
  uint32_t unanswered = 0;  // calls in flight, or waiting to be sent again, when we gave up waiting

  // Calls that had no answer yet when the time to measure was up. Many say that the percentiles are too good.
  [[nodiscard]] Gauges unfinished() const { return intervals.empty() ? Gauges{} : intervals.back().gauges; }
  // Every answer was right, every call answered.
  [[nodiscard]] bool is_clean() const {
    return total.all_failed() == 0 && total.wrong == 0 && unanswered == 0 && total.calls > 0;
  }
};

// "1.25 GB/s", "850.0 MB/s", "12.5 kB/s"
[[nodiscard]] std::string rate_text(double bytes_per_second);
// "12.3 us", "4.56 ms", "1.20 s"
[[nodiscard]] std::string time_text(double us);
// 950, 12.3k, 1.24M
[[nodiscard]] std::string count_text(double count);

[[nodiscard]] std::string report_text(const Report& report);
[[nodiscard]] std::string report_json(const Report& report);
// A line of names, then one per interval.
[[nodiscard]] std::string report_csv(const Report& report);
// One file, no other needed to show it, no script.
[[nodiscard]] std::string report_html(const Report& report);

}  // namespace cw::load
