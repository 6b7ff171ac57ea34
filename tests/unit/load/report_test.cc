#include "apps/load/report/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "apps/load/report/live_screen.h"
#include "apps/load/report/svg_chart.h"

namespace cw::load {
namespace {

Report example(bool open_loop) {
  Report report;
  report.title = "Mixed <of> both";
  report.operation = "null:50,echo/512:50";
  std::string problem;
  EXPECT_TRUE(report.mix.parse(report.operation, problem));
  report.connections = 4;
  report.window = 8;
  report.open_loop = open_loop;
  report.seconds = 3;
  report.options = {{"mix", report.operation}, {"rate", "1k & more"}};
  LoadStats stats;
  IntervalRecorder recorder(stats);
  for (int second = 1; second <= 3; ++second) {
    for (int i = 0; i < 1000; ++i) {
      ++stats.calls;
      ++stats.arrived;
      stats.bytes += i % 2 == 1 ? 1024 : 0;
      EntryStats& entry = stats.entries[static_cast<size_t>(i % 2)];
      ++entry.calls;
      entry.latency.record(Duration::us(20 + i * second));
      stats.service.record(Duration::us(20));
    }
    recorder.add(second, stats, {.connected = 4, .in_flight = 3, .queued = 0});
  }
  report.total = recorder.total();
  report.intervals = recorder.intervals();
  return report;
}

TEST(Report, JsonHasTotalsKindsAndIntervals) {
  const nlohmann::json json = nlohmann::json::parse(report_json(example(true)));
  EXPECT_EQ(json["calls"], 3000);
  EXPECT_EQ(json["calls_per_second"], 1000.0);
  EXPECT_EQ(json["mode"], "open");
  EXPECT_EQ(json["offered"], 3000);
  EXPECT_EQ(json["overflowed"], 0);
  EXPECT_EQ(json["intervals"].size(), 3u);
  EXPECT_EQ(json["intervals"][2]["calls_per_second"], 1000.0);
  EXPECT_EQ(json["mix"][1]["operation"], "echo");
  EXPECT_EQ(json["mix"][1]["calls"], 1500);
  EXPECT_EQ(json["options"]["rate"], "1k & more");
  EXPECT_GT(json["latency_us"]["p99.9"], json["latency_us"]["p50"]);
  // Those that the quickstart, the benches and the ops suite read.
  for (const char* name :
       {"operation", "bytes", "connections", "window", "seconds", "calls", "calls_per_second", "called_back", "data_bytes",
        "data_bytes_per_second", "latency_us", "wrong", "failed", "connected", "refused", "lost"}) {
    EXPECT_TRUE(json.contains(name)) << name;
  }
}

TEST(Report, CsvHasALinePerIntervalWithAsManyFieldsAsNames) {
  std::istringstream lines(report_csv(example(false)));
  std::string line;
  std::vector<long> commas;
  while (std::getline(lines, line)) {
    commas.push_back(std::count(line.begin(), line.end(), ','));
  }
  ASSERT_EQ(commas.size(), 4u);
  EXPECT_EQ(std::count(commas.begin(), commas.end(), commas.front()), 4);
}

// Elements that are opened are closed, in order; nothing is fetched.
TEST(Report, HtmlIsWellFormedAndStandsAlone) {
  const std::string html = report_html(example(true));
  EXPECT_EQ(html.find("http"), std::string::npos);
  EXPECT_EQ(html.find("<script"), std::string::npos);
  EXPECT_EQ(html.find("src="), std::string::npos);
  EXPECT_NE(html.find("Mixed &lt;of&gt; both"), std::string::npos);
  EXPECT_NE(html.find("1k &amp; more"), std::string::npos);
  std::vector<std::string> open;
  for (size_t at = html.find("<html"); (at = html.find('<', at)) != std::string::npos; ++at) {
    const size_t end = html.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = html.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    if (tag.back() == '/' || name == "meta") {
      continue;
    }
    if (tag.front() == '/') {
      ASSERT_FALSE(open.empty()) << tag;
      EXPECT_EQ("/" + open.back(), tag);
      open.pop_back();
    } else {
      open.push_back(name);
    }
  }
  EXPECT_TRUE(open.empty());
  for (const char* word : {"nan", "inf", "-nan"}) {
    EXPECT_EQ(html.find(std::string("=\"") + word), std::string::npos) << word;
  }
  for (const char* title : {"Calls per second", "Latency over time", "Latency heat map", "Percentile curve",
                            "Percentile curve by kind of call", "Options"}) {
    EXPECT_NE(html.find(title), std::string::npos) << title;
  }
}

TEST(Report, SaysSoWhenTheOpenLoopCouldNotSendAll) {
  Report report = example(true);
  EXPECT_EQ(report_text(report).find("OVERFLOW"), std::string::npos);
  report.total.overflowed = 17;
  EXPECT_NE(report_text(report).find("17 calls were due and never sent"), std::string::npos);
  EXPECT_NE(report_html(report).find("17 calls were due and never sent"), std::string::npos);
}

// The slowest calls of all may be those that never made it into the percentiles.
TEST(Report, SaysWhatHadNoAnswerYet) {
  Report report = example(true);
  EXPECT_NE(report_text(report).find("3 calls in flight, 0 waiting"), std::string::npos);
  EXPECT_EQ(report_html(report).find("still waiting"), std::string::npos);
  report.intervals.back().gauges.queued = 900;
  EXPECT_NE(report_html(report).find("900 calls were due and still waiting"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(report_json(report))["unfinished"], 903);
}

TEST(Report, OfNothingIsStillAReport) {
  Report report;
  EXPECT_FALSE(report.is_clean());
  EXPECT_NE(report_html(report).find("nothing was measured"), std::string::npos);
  EXPECT_TRUE(nlohmann::json::accept(report_json(report)));
  EXPECT_NE(report_text(report).find("calls              0"), std::string::npos);
}

TEST(Report, NumbersAreShort) {
  EXPECT_EQ(count_text(950), "950");
  EXPECT_EQ(count_text(12'345), "12.3k");
  EXPECT_EQ(count_text(1'240'000), "1.24M");
  EXPECT_EQ(time_text(12.34), "12.3 us");
  EXPECT_EQ(time_text(4'560), "4.56 ms");
  EXPECT_EQ(time_text(1'200'000), "1.20 s");
  EXPECT_EQ(rate_text(1.25e9), "1.25 GB/s");
  EXPECT_EQ(rate_text(850e6), "850.0 MB/s");
  EXPECT_EQ(rate_text(12'500), "12.5 kB/s");
}

TEST(LiveScreen, DrawsOverItselfLineByLine) {
  const Report report = example(true);
  const LiveView view{report.title, 10, true, report.intervals, report.total};
  const std::string screen = live_screen(view);
  const auto lines = std::count(screen.begin(), screen.end(), '\n');
  EXPECT_NE(screen.find("p99.9"), std::string::npos);
  EXPECT_NE(screen.find("█"), std::string::npos);
  Redraw redraw;
  const std::string first = redraw.over(screen);
  EXPECT_EQ(std::count(first.begin(), first.end(), '\n'), lines);
  const std::string up = "\x1b[" + std::to_string(lines) + "A";
  EXPECT_EQ(first.find(up), std::string::npos);
  EXPECT_NE(redraw.over(screen).find(up + "Mixed"), std::string::npos);
}

TEST(LiveScreen, ASparklineIsAsHighAsItsValues) {
  EXPECT_EQ(sparkline(std::vector<double>{1, 10, 100}, 10, SparkScale::kLogarithmic), "▁▅█");
  EXPECT_EQ(sparkline(std::vector<double>{0, 5, 5}, 10, SparkScale::kLogarithmic), " ▅▅");
  EXPECT_EQ(sparkline(std::vector<double>{1, 1, 1, 100}, 2, SparkScale::kLogarithmic), "▁█");
  EXPECT_EQ(sparkline(std::vector<double>{1, 10, 100}, 10, SparkScale::kFromZero), "▁▁█");
  EXPECT_EQ(sparkline(std::vector<double>{0, 90, 100}, 10, SparkScale::kFromZero), " ██");
  EXPECT_EQ(sparkline({}, 10, SparkScale::kFromZero), "");
}

TEST(LiveScreen, AProgressLineHasWhatTheQuickstartLooksFor) {
  const Report report = example(false);
  const std::string line = progress_line(report.intervals.front(), false, 0);
  EXPECT_NE(line.find("RPC/s"), std::string::npos);
  EXPECT_LT(line.find("RPC/s"), line.find("p50"));
}

}  // namespace
}  // namespace cw::load
