#include "dataplane/core_threads.h"

#include <fmt/format.h>
#include <pthread.h>
#include <rte_launch.h>
#include <rte_lcore.h>

#include <string>
#include <vector>

#include "control/recorder/recorder.h"
#include "dataplane/dpdk/bind_thread.h"

namespace cw::dataplane {
namespace {

struct PollArguments {
  PollCore* core;
  const std::atomic<bool>* stop;
};

int poll_main(void* arguments) {
  const control::recorder::SignalStack stack;
  const auto* poll = static_cast<PollArguments*>(arguments);
  poll->core->run(*poll->stop);
  return 0;
}

void run_on_lcores(uint32_t main_lcore, std::span<PollArguments> cores, std::thread& control) {
  PollArguments* own = nullptr;
  for (PollArguments& each : cores) {
    if (each.core->lcore() == main_lcore) {
      own = &each;
    } else {
      rte_eal_remote_launch(poll_main, &each, each.core->lcore());
    }
  }
  if (own != nullptr) {
    poll_main(own);
  }
  control.join();
  for (const PollArguments& each : cores) {
    if (&each != own) {
      rte_eal_wait_lcore(each.core->lcore());  // spins: only when the poll cores have been told to end
    }
  }
}

void run_on_threads(std::span<PollArguments> cores, std::thread& control) {
  std::vector<std::thread> threads;
  for (PollArguments& each : cores) {
    threads.emplace_back([&each] {
      const uint32_t cpu = each.core->lcore();
      bind_this_thread({&cpu, 1});
      (void)pthread_setname_np(pthread_self(), fmt::format("cw-poll-{}", cpu).c_str());
      (void)poll_main(&each);
    });
  }
  control.join();
  for (std::thread& each : threads) {
    each.join();
  }
}

}  // namespace

void run_cores(const control::Config& config, std::span<const std::unique_ptr<PollCore>> cores, std::thread& control,
               const std::atomic<bool>& stop) {
  std::vector<PollArguments> arguments;
  for (const auto& core : cores) {
    arguments.push_back({core.get(), &stop});
  }
  if (control::needs_dpdk(config)) {
    run_on_lcores(config.dataplane.main_lcore, arguments, control);
  } else {
    run_on_threads(arguments, control);
  }
}

}  // namespace cw::dataplane
