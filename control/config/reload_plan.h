// What a gateway would run with after reading its file again, and why it cannot: what is right for a start need not fit what was
// set up at the start and stays.
#pragma once

#include <string>
#include <vector>

#include "control/config/buffer_plan.h"
#include "control/config/config.h"
#include "control/config/config_file.h"

namespace cw::control {

struct ReloadPlan {
  Config config;  // with_live_changes()
  // BufferPlan::pulled_max from then on: what more credits reserve, the data of calls has no longer. The pool and its other
  // shares stay as they are.
  uint32_t pulled_max = 0;
  std::vector<Problem> problems;  // errors: the gateway goes on as it is
};

class ReloadPlanner {
 public:
  explicit ReloadPlanner(const Config& start) : start_(plan_buffers(start)), peak_(buffer_demands(start)) {}

  // Precondition: loaded.ok().
  [[nodiscard]] ReloadPlan plan(const Config& running, const LoadedConfig& loaded, const std::string& file) const;
  // The gateway runs with it from now on.
  void on_applied(const Config& config);

 private:
  // The most that each listener could ever grant: connections keep what they began with, for as long as they like.
  [[nodiscard]] std::vector<BufferDemand> peak_with(const Config& config) const;

  BufferPlan start_;
  std::vector<BufferDemand> peak_;
};

}  // namespace cw::control
