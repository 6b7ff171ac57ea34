// Many seeds: a range of them on some threads, with what came of it. Nothing but the figures of time depends on the machine or on
// how many threads there were.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "apps/sim/coverage.h"
#include "apps/sim/runner.h"

namespace cw::sim {

struct SeedFailure {
  uint64_t seed = 0;
  std::vector<Failure> failures;
};

struct SweepReport {
  uint64_t seeds = 0;
  uint64_t frames = 0;
  uint64_t segments = 0;  // of TCP
  uint64_t attempts = 0;
  Duration simulated;
  uint64_t hash = 0;  // over the hashes of all runs, in the order of the seeds
  std::vector<SeedFailure> failures;
  Coverage coverage;
};

struct SweepProgress {
  std::atomic<uint64_t> done{0};
  std::atomic<uint64_t> failed{0};
};

// Seeds first .. first + count - 1. `tick` is called by the calling thread now and then while it works.
[[nodiscard]] SweepReport sweep(uint64_t first, uint64_t count, uint32_t jobs, SweepProgress& progress,
                                const std::function<void()>& tick = {}, const Variant& variant = {});

// From here on a failed assertion says which seed it was before the process ends: the number that reproduces it.
void announce_seed_on_abort();
void set_current_seed(uint64_t seed, const Variant& variant = {});
// The same for a run that has no seed: its command, which must outlive it.
void set_current_command(const char* command);

}  // namespace cw::sim
