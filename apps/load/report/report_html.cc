#include <fmt/format.h>

#include <cmath>

#include "apps/load/report/report.h"
#include "apps/load/report/report_style.h"
#include "apps/load/report/svg_chart.h"

namespace cw::load {
namespace {

// A page can show the sign that a terminal may not have.
std::string time_value(double us) {
  std::string out = time_text(us);
  if (out.ends_with(" us")) {
    out.replace(out.size() - 2, 1, "µ");
  }
  return out;
}

// Ticks are round numbers: no digits but those that count.
std::string time_tick(double us) {
  if (us < 1e3) {
    return fmt::format("{:g} µs", us);
  }
  return us < 1e6 ? fmt::format("{:g} ms", us / 1e3) : fmt::format("{:g} s", us / 1e6);
}

std::string count_tick(double count) {
  if (count < 1e3) {
    return fmt::format("{:g}", count);
  }
  return count < 1e6 ? fmt::format("{:g}k", count / 1e3) : fmt::format("{:g}M", count / 1e6);
}

std::string rate_tick(double bytes_per_second) {
  if (bytes_per_second < 1e3) {
    return bytes_per_second == 0 ? "0" : fmt::format("{:g} B/s", bytes_per_second);
  }
  if (bytes_per_second < 1e6) {
    return fmt::format("{:g} kB/s", bytes_per_second / 1e3);
  }
  return bytes_per_second < 1e9 ? fmt::format("{:g} MB/s", bytes_per_second / 1e6)
                                : fmt::format("{:g} GB/s", bytes_per_second / 1e9);
}

std::string seconds_tick(double seconds) {
  return fmt::format("{:g} s", std::round(seconds * 100) / 100);
}

Axis over_seconds() {
  return {.tick = seconds_tick, .value = seconds_tick, .from = 0.0};
}

Axis of_latency() {
  return {.logarithmic = true, .tick = time_tick, .value = time_value, .round = true};
}

Axis of_count() {
  return {.tick = count_tick, .value = count_text, .round = true};
}

std::string heading(const char* title, const char* note) {
  return fmt::format("<h2>{}</h2>\n<p class=\"dim\">{}</p>\n", title, note);
}

std::string tile(const std::string& value, const std::string& name) {
  return fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>\n", escaped(value), escaped(name));
}

Series over_time(const Report& report, const char* name, double (*value)(const Interval&)) {
  Series out{name, {}};
  for (const Interval& interval : report.intervals) {
    out.points.emplace_back(interval.end_s, value(interval));
  }
  return out;
}

bool any(const std::vector<Interval>& intervals, uint64_t (*value)(const Interval&)) {
  for (const Interval& interval : intervals) {
    if (value(interval) > 0) {
      return true;
    }
  }
  return false;
}

std::string summary(const Report& report) {
  const LoadStats& total = report.total;
  const double seconds = report.seconds > 0 ? report.seconds : 1;
  const Quantiles q = quantiles_of(total.latency());
  std::string out = "<div class=\"tiles\">\n";
  out += tile(count_text(static_cast<double>(total.calls) / seconds), "RPC/s");
  if (total.bytes > 0) {
    out += tile(rate_text(static_cast<double>(total.bytes) / seconds), "data");
  }
  out += tile(time_value(q.p50), "latency p50") + tile(time_value(q.p99), "p99") + tile(time_value(q.p999), "p99.9") +
         tile(time_value(q.max), "max");
  out += tile(fmt::format("{}", total.calls), fmt::format("calls in {:.1f} s", report.seconds));
  out += "</div>\n";
  const uint64_t bad = total.wrong + total.all_failed() + report.unanswered;
  out += bad == 0 ? std::string("<p class=\"good\">Every answer was right, no call failed.</p>\n")
                  : fmt::format("<p class=\"bad\">{} wrong answers, {} failed calls, {} never answered.</p>\n", total.wrong,
                                total.all_failed(), report.unanswered);
  if (total.overflowed > 0) {
    out += fmt::format(
        "<p class=\"bad\">{} calls were due and never sent, the queue being full: the latencies leave them out.</p>\n",
        total.overflowed);
  }
  if (const uint32_t waiting = report.unfinished().queued; waiting > 0) {
    out += fmt::format(
        "<p class=\"bad\">{} calls were due and still waiting when time was up: the latencies leave them out.</p>\n", waiting);
  }
  return out;
}

std::string rates(const Report& report) {
  std::vector<Series> series = {over_time(report, "answered", [](const Interval& i) { return i.per_second(i.counts.calls); })};
  if (report.open_loop) {
    series.push_back(over_time(report, "offered", [](const Interval& i) { return i.per_second(i.counts.arrived); }));
  }
  std::string out = heading("Calls per second", "Mean of each interval.") + line_chart(series, over_seconds(), of_count());
  if (report.total.bytes > 0) {
    out += heading("Data per second", "Bytes of calls and answers without headers, both ways.");
    out += line_chart({over_time(report, "data", [](const Interval& i) { return i.per_second(i.counts.bytes); })}, over_seconds(),
                      {.tick = rate_tick, .value = rate_text, .round = true});
  }
  return out;
}

std::string latencies(const Report& report) {
  std::string out = heading("Latency over time",
                            report.open_loop ? "Percentiles of each interval, from the instant at which a call was due: "
                                               "time in which it could not be sent is part of it (no coordinated omission)."
                                             : "Percentiles of each interval, from sending to the answer. "
                                               "A closed loop sends less while the server is slow: "
                                               "what users of a fixed rate would see is an open loop's to say.");
  out += line_chart({over_time(report, "p50", [](const Interval& i) { return i.latency.p50; }),
                     over_time(report, "p90", [](const Interval& i) { return i.latency.p90; }),
                     over_time(report, "p99", [](const Interval& i) { return i.latency.p99; }),
                     over_time(report, "p99.9", [](const Interval& i) { return i.latency.p999; }),
                     over_time(report, "max", [](const Interval& i) { return i.latency.max; })},
                    over_seconds(), of_latency());
  return out;
}

std::string heat(const Report& report) {
  HeatMap map;
  for (uint32_t row = 0; row < kHeatRows; ++row) {
    map.rows.push_back(heat_row_us(row));
  }
  map.rows.push_back(heat_row_us(kHeatRows - 1) * 2);
  for (const Interval& interval : report.intervals) {
    map.columns.push_back(interval.begin_s);
    std::vector<double>& column = map.cells.emplace_back();
    for (const uint64_t count : interval.heat) {
      column.push_back(interval.per_second(count));
    }
  }
  if (report.intervals.empty()) {
    return "";
  }
  map.columns.push_back(report.intervals.back().end_s);
  return heading("Latency heat map", "How many calls per second took how long; each row is a fourth of a doubling.") +
         heat_map(map, over_seconds(), of_latency(), [](double calls) { return count_text(calls) + " calls/s"; });
}

std::string percentile_label(double one_in) {
  const double percent = 100 - 100 / one_in;
  return fmt::format("{:.{}f} %", percent, one_in < 50 ? 0 : std::max(0, static_cast<int>(std::lround(std::log10(one_in))) - 2));
}

Series curve_of(const std::string& name, const FineHistogram& histogram) {
  Series out{name, {}};
  const double count = static_cast<double>(histogram.count());
  for (double one_in = 1; one_in <= count && one_in < 1e8; one_in *= std::pow(10, 0.125)) {
    out.points.emplace_back(one_in, static_cast<double>(histogram.percentile(1 - 1 / one_in).to_ns()) / 1e3);
  }
  return out;
}

std::string curve(const Report& report) {
  const Axis x{.logarithmic = true, .tick = percentile_label, .value = percentile_label, .from = 1.0};
  std::vector<Series> all = {curve_of(report.open_loop ? "from the instant it was due" : "all calls", report.total.latency())};
  if (report.open_loop) {
    all.push_back(curve_of("from sending", report.total.service));
  }
  std::string out = heading("Percentile curve",
                            "The latency that so many of all calls do not exceed, within 0.8 % of the truth. "
                            "Each step to the right is ten times rarer.") +
                    line_chart(all, x, of_latency());
  const auto entries = report.mix.entries();
  if (entries.size() > 1) {
    std::vector<Series> kinds;
    for (size_t i = 0; i < entries.size(); ++i) {
      kinds.push_back(curve_of(to_string(entries[i]), report.total.entries[i].latency));
    }
    out += heading("Percentile curve by kind of call", "The same for each kind.") + line_chart(kinds, x, of_latency());
  }
  return out;
}

std::string in_flight(const Report& report) {
  std::vector<Series> series = {
      over_time(report, "in flight", [](const Interval& i) { return static_cast<double>(i.gauges.in_flight); })};
  if (report.open_loop) {
    series.push_back(
        over_time(report, "due and waiting", [](const Interval& i) { return static_cast<double>(i.gauges.queued); }));
  }
  return heading("Calls in flight", "At the end of each interval.") + line_chart(series, over_seconds(), of_count());
}

std::string connections(const Report& report) {
  std::vector<Series> series = {
      over_time(report, "open", [](const Interval& i) { return static_cast<double>(i.gauges.connected); })};
  if (any(report.intervals, [](const Interval& i) { return i.counts.connected; })) {
    series.push_back(over_time(report, "made per second", [](const Interval& i) { return i.per_second(i.counts.connected); }));
  }
  std::string out = heading("Connections", "At the end of each interval.");
  if (const Quantiles q = quantiles_of(report.total.connect); q.count > 0) {
    out += fmt::format("<p class=\"dim\">To connect took {} (p50), {} (p99), {} (max).</p>\n", time_value(q.p50),
                       time_value(q.p99), time_value(q.max));
  }
  return out + line_chart(series, over_seconds(), of_count());
}

std::string mix_table(const Report& report) {
  std::string out =
      "<h2>Calls</h2>\n<div "
      "class=\"scroll\"><table><tr><th>call</th><th>weight</th><th>calls</th><th>failed</th><th>p50</th><th>p90</th><th>p99</th>"
      "<th>p99.9</th><th>max</th></tr>\n";
  for (size_t i = 0; i < report.mix.entries().size(); ++i) {
    const MixEntry& entry = report.mix.entries()[i];
    const EntryStats& stats = report.total.entries[i];
    const Quantiles q = quantiles_of(stats.latency);
    out += fmt::format(
        "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
        escaped(to_string(entry)), entry.weight, stats.calls, stats.failed, time_value(q.p50), time_value(q.p90),
        time_value(q.p99), time_value(q.p999), time_value(q.max));
  }
  const LoadStats& total = report.total;
  out += fmt::format(
      "</table></div>\n<p class=\"dim\">Connections: {} made, {} refused, {} lost, {} closed by us; {} calls interrupted, {} "
      "sent again.</p>\n",
      total.connected, total.refused, total.lost, total.closed, total.interrupted, total.resent);
  return out;
}

std::string options_table(const Report& report) {
  std::string out = "<h2>Options</h2>\n<table class=\"options\">\n";
  for (const auto& [name, value] : report.options) {
    out += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", escaped(name), escaped(value));
  }
  return out + "</table>\n";
}

}  // namespace

std::string report_html(const Report& report) {
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, "
      "initial-scale=1\">"
      "<title>{0}</title><style>{1}</style></head>\n<body>\n<h1>{0}</h1>\n",
      escaped(report.title), kReportStyle);
  if (!report.when.empty()) {
    out += fmt::format("<p class=\"dim\">Measured by causeway-load from {}, {} loop.</p>\n", escaped(report.when),
                       report.open_loop ? "open" : "closed");
  }
  if (!report.description.empty()) {
    out += fmt::format("<p class=\"dim\">{}</p>\n", escaped(report.description));
  }
  out += summary(report) + rates(report) + latencies(report) + heat(report) + curve(report) + in_flight(report) +
         connections(report) + mix_table(report) + options_table(report);
  return out + "</body>\n</html>\n";
}

}  // namespace cw::load
