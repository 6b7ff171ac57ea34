// What a run, a sweep or the boundary mode says on standard output: text for people or JSON.
#pragma once

#include "apps/sim/boundary.h"
#include "apps/sim/runner.h"
#include "apps/sim/sweep.h"

namespace cw::sim {

struct ReportOptions {
  bool json = false;
  bool coverage = false;  // list every event, not only those never seen
};

void print_run(const Scenario& scenario, const RunResult& result, const Coverage& coverage, const ReportOptions& options);
void print_sweep(uint64_t first_seed, const SweepReport& report, double seconds, const ReportOptions& options);
void print_boundaries(const BoundaryReport& report, const Coverage& coverage, double seconds, const ReportOptions& options);

}  // namespace cw::sim
