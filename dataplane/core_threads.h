// The threads of the poll cores: lcores of DPDK, or ordinary threads where it was not started.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <thread>

#include "control/config/config.h"
#include "dataplane/poll_core.h"

namespace cw::dataplane {

// Runs all cores, and `control` beside them, until control ends, which has set `stop` then. The calling thread is the main lcore.
void run_cores(const control::Config& config, std::span<const std::unique_ptr<PollCore>> cores, std::thread& control,
               const std::atomic<bool>& stop);

}  // namespace cw::dataplane
