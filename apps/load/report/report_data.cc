// The forms for programs.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>

#include "apps/load/report/report.h"

namespace cw::load {
namespace {

constexpr std::array kPercentiles = {0.0,   0.1,   0.25,   0.5,    0.75,    0.9,      0.95,      0.99,
                                     0.995, 0.999, 0.9995, 0.9999, 0.99999, 0.999999, 0.9999999, 1.0};

nlohmann::json to_json(const Quantiles& q) {
  return {{"count", q.count}, {"mean", q.mean},  {"p50", q.p50}, {"p90", q.p90},
          {"p99", q.p99},     {"p99.9", q.p999}, {"max", q.max}};
}

nlohmann::json to_json(const Interval& interval) {
  return {{"begin_s", interval.begin_s},
          {"end_s", interval.end_s},
          {"calls_per_second", interval.per_second(interval.counts.calls)},
          {"data_bytes_per_second", interval.per_second(interval.counts.bytes)},
          {"offered_per_second", interval.per_second(interval.counts.arrived)},
          {"overflowed", interval.counts.overflowed},
          {"latency_us", to_json(interval.latency)},
          {"wrong", interval.counts.wrong},
          {"failed", interval.counts.all_failed()},
          {"connected", interval.gauges.connected},
          {"in_flight", interval.gauges.in_flight},
          {"queued", interval.gauges.queued},
          {"connections_made", interval.counts.connected},
          {"connections_lost", interval.counts.lost}};
}

nlohmann::json mix_json(const Report& report) {
  nlohmann::json out = nlohmann::json::array();
  for (size_t i = 0; i < report.mix.entries().size(); ++i) {
    const MixEntry& entry = report.mix.entries()[i];
    const EntryStats& stats = report.total.entries[i];
    out.push_back({{"operation", to_string(entry.kind)},
                   {"bytes", entry.bytes},
                   {"weight", entry.weight},
                   {"calls", stats.calls},
                   {"data_bytes", stats.bytes},
                   {"failed", stats.failed},
                   {"latency_us", to_json(quantiles_of(stats.latency))}});
  }
  return out;
}

}  // namespace

std::string report_json(const Report& report) {
  const LoadStats& total = report.total;
  const double seconds = report.seconds > 0 ? report.seconds : 1;
  const FineHistogram latency = total.latency();
  nlohmann::json curve = nlohmann::json::array();
  for (const double fraction : kPercentiles) {
    curve.push_back({fraction, static_cast<double>(latency.percentile(fraction).to_ns()) / 1e3});
  }
  nlohmann::json json = {{"title", report.title},
                         {"began", report.when},
                         {"operation", report.operation},
                         {"bytes", report.bytes},
                         {"mode", report.open_loop ? "open" : "closed"},
                         {"connections", report.connections},
                         {"window", report.window},
                         {"seconds", report.seconds},
                         {"calls", total.calls},
                         {"calls_per_second", static_cast<double>(total.calls) / seconds},
                         {"called_back", total.called_back},
                         {"data_bytes", total.bytes},
                         {"data_bytes_per_second", static_cast<double>(total.bytes) / seconds},
                         {"latency_us", to_json(quantiles_of(latency))},
                         {"latency_percentiles_us", curve},
                         {"connect_us", to_json(quantiles_of(total.connect))},
                         {"wrong", total.wrong},
                         {"failed", total.all_failed()},
                         {"interrupted", total.interrupted},
                         {"resent", total.resent},
                         {"unanswered", report.unanswered},
                         {"connected", total.connected},
                         {"refused", total.refused},
                         {"lost", total.lost},
                         {"closed", total.closed},
                         {"churn_missed", total.churn_missed},
                         {"mix", mix_json(report)}};
  if (report.open_loop) {
    json["offered"] = total.arrived;
    json["offered_per_second"] = static_cast<double>(total.arrived) / seconds;
    json["overflowed"] = total.overflowed;
    json["unfinished"] = report.unfinished().in_flight + report.unfinished().queued;
    json["service_us"] = to_json(quantiles_of(total.service));
  }
  for (const auto& [name, value] : report.options) {
    json["options"][name] = value;
  }
  json["intervals"] = nlohmann::json::array();
  for (const Interval& interval : report.intervals) {
    json["intervals"].push_back(to_json(interval));
  }
  return json.dump(2) + "\n";
}

std::string report_csv(const Report& report) {
  std::string text =
      "begin_s,end_s,calls,calls_per_s,bytes_per_s,offered,overflowed,p50_us,p90_us,p99_us,p99.9_us,max_us,wrong,failed,"
      "connected,"
      "in_flight,queued,connections_made,connections_lost\n";
  for (const Interval& i : report.intervals) {
    text += fmt::format("{:.3f},{:.3f},{},{:.1f},{:.0f},{},{},{:.1f},{:.1f},{:.1f},{:.1f},{:.1f},{},{},{},{},{},{},{}\n",
                        i.begin_s, i.end_s, i.counts.calls, i.per_second(i.counts.calls), i.per_second(i.counts.bytes),
                        i.counts.arrived, i.counts.overflowed, i.latency.p50, i.latency.p90, i.latency.p99, i.latency.p999,
                        i.latency.max, i.counts.wrong, i.counts.all_failed(), i.gauges.connected, i.gauges.in_flight,
                        i.gauges.queued, i.counts.connected, i.counts.lost);
  }
  return text;
}

}  // namespace cw::load
