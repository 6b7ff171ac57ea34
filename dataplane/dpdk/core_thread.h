// A thread that is a poll core without being one of EAL's: bound to its CPU, and known to DPDK, so that every buffer pool has a
// cache for it. For as long as this lives, on the thread that made it.
#pragma once

#include <cstdint>

namespace cw::dataplane {

class CoreThread {
 public:
  explicit CoreThread(uint32_t cpu);
  ~CoreThread();
  CoreThread(const CoreThread&) = delete;
  CoreThread& operator=(const CoreThread&) = delete;

 private:
  bool registered_ = false;
};

}  // namespace cw::dataplane
