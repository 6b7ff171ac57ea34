#include <fmt/format.h>

#include "apps/load/amount.h"
#include "apps/load/report/report.h"

namespace cw::load {

std::string rate_text(double bytes_per_second) {
  if (bytes_per_second < 1e6) {
    return fmt::format("{:.1f} kB/s", bytes_per_second / 1e3);
  }
  return bytes_per_second < 1e9 ? fmt::format("{:.1f} MB/s", bytes_per_second / 1e6)
                                : fmt::format("{:.2f} GB/s", bytes_per_second / 1e9);
}

std::string time_text(double us) {
  if (us < 1e3) {
    return fmt::format("{:.1f} us", us);
  }
  return us < 1e6 ? fmt::format("{:.2f} ms", us / 1e3) : fmt::format("{:.2f} s", us / 1e6);
}

std::string count_text(double count) {
  if (count < 1e4) {
    return fmt::format("{:.0f}", count);
  }
  return count < 1e6 ? fmt::format("{:.1f}k", count / 1e3) : fmt::format("{:.2f}M", count / 1e6);
}

namespace {

std::string latency_text(const Quantiles& q) {
  return fmt::format("p50 {:.1f} us   p99 {:.1f} us   p99.9 {:.1f} us   max {:.1f} us", q.p50, q.p99, q.p999, q.max);
}

std::string open_loop_text(const Report& report) {
  const LoadStats& total = report.total;
  std::string text =
      fmt::format("  offered            {} ({:.0f} RPC/s)\n", total.arrived, static_cast<double>(total.arrived) / report.seconds);
  text += fmt::format("  from sending on    {}\n", latency_text(quantiles_of(total.service)));
  if (const Gauges rest = report.unfinished(); rest.in_flight + rest.queued > 0) {
    text += fmt::format("  when time was up   {} calls in flight, {} waiting: the latencies leave them out\n", rest.in_flight,
                        rest.queued);
  }
  if (total.overflowed > 0) {
    text += fmt::format(
        "  OVERFLOW           {} calls were due and never sent, the queue being full: the latencies above leave them out\n",
        total.overflowed);
  }
  return text;
}

}  // namespace

std::string report_text(const Report& report) {
  const LoadStats& total = report.total;
  const double seconds = report.seconds > 0 ? report.seconds : 1;
  std::string text = "\n";
  text += fmt::format("  operation          {}{}, {} connections x {} calls in flight{}\n", report.operation,
                      report.bytes > 0 ? " " + bytes_text(report.bytes) : "", report.connections, report.window,
                      report.open_loop ? ", open loop" : "");
  text += fmt::format("  measured           {:.1f} s\n", report.seconds);
  text += fmt::format("  calls              {} ({:.0f} RPC/s)\n", total.calls, static_cast<double>(total.calls) / seconds);
  text += fmt::format("  data               {} B ({})\n", total.bytes, rate_text(static_cast<double>(total.bytes) / seconds));
  text += fmt::format("  latency            {}\n", latency_text(quantiles_of(total.latency())));
  if (report.open_loop) {
    text += open_loop_text(report);
  }
  const auto entries = report.mix.entries();
  for (size_t i = 0; i < entries.size() && entries.size() > 1; ++i) {
    text +=
        fmt::format("  {:<17}  {} ({:.0f} RPC/s)   {}\n", to_string(entries[i]), total.entries[i].calls,
                    static_cast<double>(total.entries[i].calls) / seconds, latency_text(quantiles_of(total.entries[i].latency)));
  }
  if (report.mix.has(CallKind::kCallback)) {
    text += fmt::format("  called back        {} ({:.0f} RPC/s)\n", total.called_back,
                        static_cast<double>(total.called_back) / seconds);
  }
  text += fmt::format("  wrong answers      {}\n", total.wrong);
  text += fmt::format("  failed calls       {}\n", total.all_failed());
  if (total.interrupted > 0) {
    text += fmt::format("  interrupted calls  {}, {} sent again\n", total.interrupted, total.resent);
  }
  text += fmt::format("  connections        {} made, {} refused, {} lost, {} closed by us\n", total.connected, total.refused,
                      total.lost, total.closed);
  if (total.connect.count() > 0) {
    text += fmt::format("  to connect         {}\n", latency_text(quantiles_of(total.connect)));
  }
  if (total.churn_missed > 0) {
    text += fmt::format("  churn              {} times there was no connection to close: lower the rate, or open more\n",
                        total.churn_missed);
  }
  return text;
}

}  // namespace cw::load
