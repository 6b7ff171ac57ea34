#include "apps/load/load_terminal.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>
#include <thread>

#include "apps/load/report/live_screen.h"

namespace cw::load {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kNap = std::chrono::milliseconds(50);
constexpr auto kConnectTime = std::chrono::seconds(15);
constexpr auto kReconnectTime = std::chrono::seconds(60);
constexpr auto kOthersDecideMax = std::chrono::seconds(1);
constexpr auto kStayUp = std::chrono::milliseconds(100);
// A call whose packets get lost more than once has waited for several ACK timeouts, of 268 ms and doubled each time.
constexpr auto kLastAnswersMax = std::chrono::seconds(15);

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

const char* name_of(client::Wire wire) {
  switch (wire) {
    case client::Wire::kRoce:
      return "RoCE";
    case client::Wire::kIwarp:
      return "iWARP";
    case client::Wire::kVerbs:
      return "rdma-core";
  }
  return "";
}

class Terminal {
 public:
  Terminal(const TerminalSettings& settings, LoadGroup& load, const std::atomic<bool>& interrupted)
      : settings_(settings),
        load_(load),
        interrupted_(interrupted),
        live_(!settings.output.plain && isatty(STDOUT_FILENO) == 1) {}

  int run() {
    if (!wait_for_connections()) {
      return 1;
    }
    fmt::print("{} connections up over {}; {}, window {}\n", load_.progress().gauges.connected, name_of(settings_.wire),
               settings_.title, settings_.load.window);
    std::fflush(stdout);
    warm_up();
    const LoadStats start = load_.begin();
    began_ = std::time(nullptr);
    recorder_ = std::make_unique<IntervalRecorder>(start);
    const double seconds = measure();
    load_.stop();
    const Report report = report_of(seconds, last_answers());
    fmt::print("{}", report_text(report));
    const bool written = write(report);
    if (report.unanswered > 0) {
      fmt::print(stderr, "causeway-load: {} calls were never answered\n", report.unanswered);
    }
    return written && report.is_clean() && (settings_.load.reconnect || report.total.lost + report.total.refused == 0) ? 0 : 1;
  }

 private:
  // False, and it has been said why, when they do not come up.
  bool wait_for_connections() {
    auto deadline = Clock::now() + kConnectTime + (settings_.load.reconnect ? kReconnectTime : std::chrono::seconds(0));
    auto all_up_since = Clock::time_point::max();
    for (;;) {
      const Progress& progress = load_.progress();
      const uint32_t connected = progress.gauges.connected;
      if (progress.wanted > 0 && connected >= progress.wanted) {
        // A gateway without room says so by ending a connection that has just come up.
        all_up_since = std::min(all_up_since, Clock::now());
        if (interrupted_ || Clock::now() - all_up_since >= kStayUp) {
          return true;
        }
        std::this_thread::sleep_for(kNap);
        continue;
      }
      all_up_since = Clock::time_point::max();
      if (progress.given_up > 0) {
        // The measurement will not come about; what the others are told is worth a moment.
        deadline = std::min(deadline, Clock::now() + kOthersDecideMax);
      }
      const bool decided = progress.given_up > 0 && connected + progress.given_up >= progress.wanted;
      if (decided || interrupted_ || Clock::now() > deadline) {
        const std::string reason =
            progress.stats.refused > 0 ? fmt::format(" (last reason: {})", progress.last_rejection.name) : "";
        fmt::print(stderr,
                   "causeway-load: only {} of {} connections to {} port {} came up; {} refused{}, {} ended by the server\n",
                   connected, progress.wanted, settings_.server, settings_.service_port, progress.stats.refused, reason,
                   progress.stats.lost);
        const std::string advice =
            progress.stats.refused > 0 ? client::advice_for(progress.last_rejection, settings_.wire) : std::string();
        fmt::print(stderr, "  next: {}\n",
                   advice.empty() ? "is causewayd ready, does its listener have this port, has it room, is its backend up, "
                                    "do both ends share the link? Its log and causewayctl status say so."
                                  : advice);
        return false;
      }
      std::this_thread::sleep_for(kNap);
    }
  }

  // Profiles begin with the measurement: what changes over time is not warmed up.
  void warm_up() {
    const bool steady =
        !settings_.plan.connections && (!settings_.plan.open_loop || settings_.plan.open_loop->rate.is_constant());
    if (!steady || settings_.load.warmup_seconds == 0) {
      return;
    }
    (void)load_.begin();
    const auto end = Clock::now() + std::chrono::seconds(settings_.load.warmup_seconds);
    while (Clock::now() < end && !interrupted_) {
      std::this_thread::sleep_for(kNap);
    }
  }

  // Returns the seconds measured.
  double measure() {
    const auto begin = Clock::now();
    const auto finish = begin + std::chrono::seconds(settings_.load.seconds);
    const auto step = std::chrono::milliseconds(settings_.output.interval_ms);
    uint64_t failed = 0;
    for (auto next = begin + step; Clock::now() < finish && !interrupted_; next += step) {
      sleep_until(std::min(next, finish));
      const Progress& progress = load_.progress();
      const Interval interval = recorder_->add(seconds_since(begin), progress.stats, progress.gauges);
      failed += interval.counts.all_failed() + interval.counts.wrong;
      show(interval, failed);
      if (progress.wanted > 0 && progress.given_up >= progress.wanted) {
        fmt::print(stderr, "causeway-load: all connections are lost (last cause: {})\n", to_text(progress.last_qp_error));
        break;
      }
    }
    return recorder_->intervals().empty() ? 0 : recorder_->intervals().back().end_s;
  }

  void sleep_until(Clock::time_point until) const {
    while (Clock::now() < until && !interrupted_) {
      std::this_thread::sleep_until(std::min(until, Clock::now() + kNap));
    }
  }

  void show(const Interval& interval, uint64_t failed) {
    const bool open_loop = settings_.plan.open_loop.has_value();
    if (live_) {
      const LiveView view{settings_.title, static_cast<double>(settings_.load.seconds), open_loop, recorder_->intervals(),
                          recorder_->total()};
      fmt::print("{}", redraw_.over(live_screen(view)));
    } else {
      fmt::print("{}\n", progress_line(interval, open_loop, failed));
    }
    std::fflush(stdout);
  }

  // Calls without an answer when nobody waits for them any longer.
  uint32_t last_answers() {
    const auto deadline = Clock::now() + kLastAnswersMax;
    for (;;) {
      const Progress& progress = load_.progress();
      const uint32_t open = progress.gauges.in_flight + progress.waiting_to_resend;
      if (open == 0 || Clock::now() > deadline) {
        return open;
      }
      std::this_thread::sleep_for(kNap);
    }
  }

  Report report_of(double seconds, uint32_t unanswered) const {
    Report report;
    report.title = settings_.title;
    report.description = settings_.description;
    report.when = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(began_));
    report.options = describe(settings_.load, settings_.plan);
    report.options.insert(report.options.begin(),
                          {"server", fmt::format("{} port {}", settings_.server, settings_.service_port)});
    report.options.insert(report.options.begin() + 1, {"transport", std::string(client::to_string(settings_.wire))});
    if (settings_.threads > 1) {
      report.options.insert(report.options.begin() + 2, {"threads", fmt::format("{}", settings_.threads)});
    }
    report.mix = settings_.plan.mix;
    const auto entries = report.mix.entries();
    report.operation = entries.size() == 1 ? to_string(entries[0].kind) : settings_.load.mix;
    report.bytes = entries.size() == 1 ? entries[0].bytes : 0;
    report.connections = settings_.plan.connections_max;
    report.window = settings_.load.window;
    report.open_loop = settings_.plan.open_loop.has_value();
    report.seconds = seconds;
    report.total = recorder_->total();
    report.intervals = recorder_->intervals();
    report.unanswered = unanswered;
    return report;
  }

  [[nodiscard]] bool write(const Report& report) const {
    const OutputSettings& output = settings_.output;
    bool written = output.json.empty() || write_file(output.json, report_json(report));
    written &= output.csv.empty() || write_file(output.csv, report_csv(report));
    written &= output.html.empty() || write_file(output.html, report_html(report));
    return written;
  }

  [[nodiscard]] static bool write_file(const std::string& path, const std::string& text) {
    std::FILE* file = path == "-" ? stdout : std::fopen(path.c_str(), "w");
    bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
    if (file != nullptr && file != stdout) {
      written &= std::fclose(file) == 0;
    }
    if (!written) {
      fmt::print(stderr, "causeway-load: cannot write {}\n", path);
    }
    return written;
  }

  const TerminalSettings& settings_;
  LoadGroup& load_;
  const std::atomic<bool>& interrupted_;
  bool live_;
  Redraw redraw_;
  std::time_t began_ = 0;                       // by the clock on the wall
  std::unique_ptr<IntervalRecorder> recorder_;  // from the start of the measurement
};

}  // namespace

std::string unwritable_output(const OutputSettings& output) {
  for (const std::string& path : {output.json, output.csv, output.html}) {
    if (path.empty() || path == "-") {
      continue;
    }
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    const bool is_there = access(path.c_str(), F_OK) == 0;
    if (access(is_there ? path.c_str() : folder.empty() ? "." : folder.c_str(), W_OK) != 0) {
      return fmt::format("cannot write {}: {}", path, std::strerror(errno));
    }
  }
  return {};
}

int conduct(const TerminalSettings& settings, LoadGroup& load, const std::atomic<bool>& interrupted) {
  return Terminal(settings, load, interrupted).run();
}

}  // namespace cw::load
