#include "apps/sim/sweep.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <thread>

namespace cw::sim {
namespace {

thread_local uint64_t current_seed = 0;
thread_local const char* current_wires = nullptr;
thread_local bool current_express = true;
thread_local const char* current_command = nullptr;

// In a signal handler: nothing but write().
void say(std::string_view text) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

void on_abort(int signal) {
  (void)std::signal(signal, SIG_DFL);
  if (current_command != nullptr) {
    say("causeway-sim: the run that failed: ");
    say(current_command);
    say("\n");
    return;
  }
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), current_seed);
  say("causeway-sim: the run that failed: causeway-sim --seed ");
  say({digits.data(), static_cast<size_t>(end.ptr - digits.data())});
  if (current_wires != nullptr) {
    say(" --wires ");
    say(current_wires);
  }
  if (!current_express) {
    say(" --no-express");
  }
  say("\n");
}

struct SeedOutcome {
  uint64_t hash = 0;
};

class Worker {
 public:
  Worker(uint64_t first, const Variant& variant, std::vector<SeedOutcome>& outcomes, std::atomic<uint64_t>& next,
         SweepProgress& progress)
      : first_(first), variant_(variant), outcomes_(outcomes), next_(next), progress_(progress) {}

  void work(const std::function<void()>& tick) {
    for (uint64_t i = next_++; i < outcomes_.size(); i = next_++) {
      const uint64_t seed = first_ + i;
      set_current_seed(seed, variant_);
      const RunResult result = run(draw_scenario(seed, variant_), &report.coverage);
      outcomes_[i].hash = result.hash;
      report.frames += result.frames;
      report.segments += result.segments;
      report.attempts += result.attempts;
      report.simulated = report.simulated + result.simulated;
      if (!result.passed()) {
        report.failures.push_back({seed, result.failures});
        ++progress_.failed;
      }
      ++progress_.done;
      if (tick) {
        tick();
      }
    }
  }

  SweepReport report;

 private:
  uint64_t first_;
  Variant variant_;
  std::vector<SeedOutcome>& outcomes_;
  std::atomic<uint64_t>& next_;
  SweepProgress& progress_;
};

void merge(SweepReport& into, const SweepReport& part) {
  into.frames += part.frames;
  into.segments += part.segments;
  into.attempts += part.attempts;
  into.simulated = into.simulated + part.simulated;
  into.coverage.add(part.coverage);
  into.failures.insert(into.failures.end(), part.failures.begin(), part.failures.end());
}

}  // namespace

SweepReport sweep(uint64_t first, uint64_t count, uint32_t jobs, SweepProgress& progress, const std::function<void()>& tick,
                  const Variant& variant) {
  std::vector<SeedOutcome> outcomes(count);
  std::atomic<uint64_t> next{0};
  std::vector<Worker> workers(std::max(jobs, 1u), Worker(first, variant, outcomes, next, progress));
  std::vector<std::thread> threads;
  for (size_t i = 1; i < workers.size(); ++i) {
    threads.emplace_back([&worker = workers[i]] { worker.work({}); });
  }
  workers[0].work(tick);
  for (std::thread& thread : threads) {
    thread.join();
  }
  SweepReport report;
  report.seeds = count;
  for (const Worker& worker : workers) {
    merge(report, worker.report);
  }
  std::sort(report.failures.begin(), report.failures.end(),
            [](const SeedFailure& a, const SeedFailure& b) { return a.seed < b.seed; });
  TraceHash hash;
  for (const SeedOutcome& outcome : outcomes) {
    hash.add(outcome.hash);
  }
  report.hash = hash.value();
  return report;
}

void announce_seed_on_abort() {
  (void)std::signal(SIGABRT, on_abort);
  // A sanitizer's own handler says more.
  const auto before = std::signal(SIGSEGV, on_abort);
  if (before != SIG_DFL) {
    (void)std::signal(SIGSEGV, before);
  }
}

void set_current_seed(uint64_t seed, const Variant& variant) {
  current_seed = seed;
  current_wires = variant.wires == Wires::kRoce ? nullptr : to_string(variant.wires);
  current_express = variant.express;
  current_command = nullptr;
}

void set_current_command(const char* command) {
  current_command = command;
}

}  // namespace cw::sim
