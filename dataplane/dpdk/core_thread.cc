#include "dataplane/dpdk/core_thread.h"

#include <rte_lcore.h>

#include "dataplane/dpdk/bind_thread.h"

namespace cw::dataplane {

CoreThread::CoreThread(uint32_t cpu) {
  bind_this_thread({&cpu, 1});
  registered_ = rte_thread_register() == 0;
}

CoreThread::~CoreThread() {
  if (registered_) {
    rte_thread_unregister();
  }
}

}  // namespace cw::dataplane
