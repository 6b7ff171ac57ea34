// The CPUs that a thread may run on.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <cstdint>
#include <span>

namespace cw::dataplane {

// The calling thread, to any of `cpus`, each below CPU_SETSIZE. It stays where it is when the kernel refuses: slower, not wrong.
inline void bind_this_thread(std::span<const uint32_t> cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const uint32_t cpu : cpus) {
    CPU_SET(cpu, &set);
  }
  (void)pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

}  // namespace cw::dataplane
