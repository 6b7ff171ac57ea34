#include "dataplane/dpdk/core_thread.h"

#include <pthread.h>
#include <rte_lcore.h>
#include <sched.h>

namespace cw::dataplane {

CoreThread::CoreThread(uint32_t cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  (void)pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
  registered_ = rte_thread_register() == 0;
}

CoreThread::~CoreThread() {
  if (registered_) {
    rte_thread_unregister();
  }
}

}  // namespace cw::dataplane
