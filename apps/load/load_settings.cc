#include "apps/load/load_settings.h"

#include <fmt/format.h>

#include <cmath>

#include "apps/load/amount.h"

namespace cw::load {
namespace {

constexpr uint64_t kFileBytesMax = 1ULL << 30;

class Planner {
 public:
  Planner(const LoadSettings& settings, std::vector<SettingProblem>& problems) : settings_(settings), problems_(problems) {}

  LoadPlan plan() {
    std::string problem;
    if (!plan_.mix.parse(settings_.mix, problem)) {
      add("load.mix", problem);
    }
    plan_connections();
    plan_rate();
    const auto churn = parse_quantity(settings_.churn);
    if (!churn) {
      add("load.churn", fmt::format("'{}' is not a number of connections per second", settings_.churn));
    }
    plan_.churn_per_second = churn.value_or(0);
    if (plan_.mix.has_nfs()) {
      plan_files();
    }
    check_memory();
    return plan_;
  }

 private:
  void add(const char* key, std::string message) { problems_.push_back({key, std::move(message)}); }

  void plan_connections() {
    Profile profile;
    std::string problem;
    if (!profile.parse(settings_.connections, problem)) {
      add("load.connections", problem);
      return;
    }
    const double most = std::round(profile.max());
    if (most < 1 || most > kConnectionsMax) {
      add("load.connections", fmt::format("{} connections: use 1 to {}", most, kConnectionsMax));
      return;
    }
    plan_.connections_max = static_cast<uint32_t>(most);
    if (!profile.is_constant()) {
      plan_.connections = profile;
    }
  }

  void plan_rate() {
    if (settings_.rate.empty()) {
      return;
    }
    OpenLoopOptions loop;
    std::string problem;
    if (!loop.rate.parse(settings_.rate, problem)) {
      add("load.rate", problem);
      return;
    }
    if (loop.rate.max() <= 0) {
      add("load.rate", "is 0 for ever: no call would be due; leave it out for a closed loop");
    }
    loop.arrivals = settings_.arrivals;
    loop.burst = settings_.burst;
    loop.queue_max = settings_.queue;
    plan_.open_loop = loop;
  }

  void plan_files() {
    const auto bytes = parse_bytes(settings_.nfs.file_size);
    const uint32_t most = std::max(plan_.mix.sent_bytes_max(), plan_.mix.received_bytes_max());
    if (!bytes || *bytes > kFileBytesMax) {
      add("nfs.file_size", fmt::format("'{}' is not a size of up to 1g", settings_.nfs.file_size));
    } else if (*bytes < most) {
      add("nfs.file_size", fmt::format("{} is smaller than a call's {} bytes", settings_.nfs.file_size, most));
    } else {
      plan_.file_bytes = static_cast<uint32_t>(*bytes);
    }
  }

  void check_memory() {
    const uint64_t per_call = uint64_t{plan_.mix.sent_bytes_max()} + plan_.mix.received_bytes_max();
    const uint64_t all = per_call * plan_.connections_max * settings_.window;
    if (all > kSlotBytesMax) {
      add("load.window", fmt::format("{} connections x {} calls x {} bytes of data take {:.1f} GiB of memory: use less of any",
                                     plan_.connections_max, settings_.window, per_call, static_cast<double>(all) / (1ULL << 30)));
    }
  }

  const LoadSettings& settings_;
  std::vector<SettingProblem>& problems_;
  LoadPlan plan_;
};

}  // namespace

LoadPlan plan_load(const LoadSettings& settings, std::vector<SettingProblem>& problems) {
  return Planner(settings, problems).plan();
}

LoadPlan share_of(const LoadPlan& plan, uint32_t index, uint32_t count) {
  LoadPlan out = plan;
  const double factor = 1.0 / count;
  out.connections_max = plan.connections_max / count + (index < plan.connections_max % count ? 1 : 0);
  if (plan.connections) {
    out.connections = plan.connections->scaled(factor);
  }
  if (plan.open_loop) {
    out.open_loop->rate = plan.open_loop->rate.scaled(factor);
    out.open_loop->queue_max = std::max(1u, plan.open_loop->queue_max / count);
  }
  out.churn_per_second = plan.churn_per_second * factor;
  return out;
}

std::string text_for_thread(const std::string& text, uint32_t index) {
  std::string out = text;
  const std::string number = std::to_string(index);
  for (size_t at = out.find("{}"); at != std::string::npos; at = out.find("{}", at + number.size())) {
    out.replace(at, 2, number);
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> describe(const LoadSettings& settings, const LoadPlan& plan) {
  std::vector<std::pair<std::string, std::string>> out = {
      {"mix", settings.mix},
      {"connections", settings.connections},
      {"window", fmt::format("{}", settings.window)},
      {"seconds", fmt::format("{}", settings.seconds)},
      {"warmup", fmt::format("{}", settings.warmup_seconds)},
      {"inline", fmt::format("{}", settings.inline_bytes)},
      {"verify-every", fmt::format("{}", settings.verify_every)},
      {"reconnect", settings.reconnect ? "yes" : "no"},
      {"churn", settings.churn},
  };
  if (plan.open_loop) {
    out.emplace_back("rate", settings.rate);
    out.emplace_back("arrivals", settings.arrivals == Arrivals::kPoisson ? "poisson" : "constant");
    out.emplace_back("burst", fmt::format("{}", settings.burst));
    out.emplace_back("queue", fmt::format("{}", settings.queue));
  }
  if (settings.faults.any()) {
    const LinkFaultOptions& faults = settings.faults;
    constexpr const char* kDirections[] = {"both", "out", "in"};
    out.emplace_back("faults",
                     fmt::format("loss {} permille, duplicate {}, reorder {} by {} us, corrupt {}, delay {} us, jitter {} us, {}",
                                 faults.loss_permille, faults.duplicate_permille, faults.reorder_permille, faults.reorder_us,
                                 faults.corrupt_permille, faults.delay_us, faults.jitter_us,
                                 kDirections[static_cast<size_t>(faults.direction)]));
  }
  if (plan.mix.has_nfs()) {
    out.emplace_back(
        "nfs", fmt::format("{} files of {}, {}, {}", settings.nfs.files, settings.nfs.file_size,
                           settings.nfs.sequential ? "sequential" : "random", settings.nfs.stable ? "FILE_SYNC" : "UNSTABLE"));
  }
  return out;
}

}  // namespace cw::load
