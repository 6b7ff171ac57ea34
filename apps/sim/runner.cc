#include "apps/sim/runner.h"

#include "apps/sim/isolation.h"

namespace cw::sim {
namespace {

constexpr uint64_t kStepsMax = 3'000'000;
// A gateway that drains gives up on unanswered DREQs after 8 s; a connection attempt on the other side lasts up to 30 s.
constexpr Duration kDrainMax = Duration::seconds(90);
constexpr Duration kHangUpMax = Duration::seconds(20);
constexpr Duration kQuietMax = Duration::seconds(90);

class Run {
 public:
  Run(const Scenario& scenario, const FabricTaps& taps) : scenario_(scenario), fabric_(scenario, verdict_, taps) {}

  void phases() {
    const Instant one_ends = fabric_.start() + scenario_.phase_one;
    (void)until(one_ends, [] { return false; });
    services_ = fabric_.services();
    fabric_.stop_repeating();
    if (!until(one_ends + kDrainMax, [this] { return fabric_.faults_over(); })) {
      verdict_.fail(Oracle::kProgress, "faults do not end: " + fabric_.unfinished());
      return;
    }
    if (!until(fabric_.now() + scenario_.finish_within(), [this] { return fabric_.all_answered(); })) {
      verdict_.fail(Oracle::kProgress, "calls are unanswered long after the last fault: " + fabric_.unfinished());
      return;
    }
    fabric_.close_clients();
    (void)until(fabric_.now() + kHangUpMax, [this] { return fabric_.gateway_is_empty(); });
    fabric_.close_gateway();
    if (!until(fabric_.now() + kQuietMax, [this] { return fabric_.is_quiet(); })) {
      verdict_.fail(Oracle::kProgress, "something never ends: " + fabric_.unfinished());
      return;
    }
    fabric_.check_end();
  }

  // After phase one: how this compares with the honest part alone.
  void compare(const std::vector<Service>& alone) { judge_isolation(scenario_, alone, services_, verdict_); }

  RunResult result(Coverage* coverage) {
    RunResult result;
    result.frames = fabric_.frames();
    result.segments = fabric_.segments();
    result.stream_bytes = fabric_.stream_bytes();
    result.hash = fabric_.hash();
    result.simulated = fabric_.now() - fabric_.start();
    result.attempts = fabric_.ledger().attempts();
    result.services = services_;
    Coverage own;
    fabric_.collect(coverage != nullptr ? *coverage : own);
    result.failures = verdict_.failures();
    return result;
  }

 private:
  // True when done; false when the time is over or an oracle has spoken.
  template <typename Done>
  bool until(Instant end, Done&& done) {
    while (!done()) {
      if (!verdict_.passed()) {
        return false;
      }
      if (!fabric_.step(end)) {
        return done();
      }
      if (++steps_ > kStepsMax) {
        verdict_.fail(Oracle::kProgress, "events never end");
        return false;
      }
    }
    return true;
  }

  const Scenario& scenario_;
  Verdict verdict_;
  Fabric fabric_;
  std::vector<Service> services_;
  uint64_t steps_ = 0;
};

}  // namespace

RunResult run(const Scenario& scenario, Coverage* coverage, const FabricTaps& taps) {
  Run one(scenario, taps);
  one.phases();
  if (!scenario.hostiles.empty()) {
    const RunResult alone = run(honest_part(scenario));
    one.compare(alone.services);
  }
  return one.result(coverage);
}

}  // namespace cw::sim
