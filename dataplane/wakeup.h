// Wakes a thread that may sleep, at the price of one fence when it does not.
//
//   waker:   push to a ring; wakeup.wake();
//   sleeper: wakeup.prepare(); if (rings are empty) poll/epoll on wakeup.fd() with a timeout; wakeup.awake(is_readable);
//
// The two fences order "push, then look whether it sleeps" against "say that I sleep, then look into the ring".
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "base/assert.h"

namespace cw::dataplane {

// On a line of its own, written only by who falls asleep or wakes up: wakers of a thread that works find it in their cache.
class alignas(64) Wakeup {
 public:
  Wakeup() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) { CW_ASSERT(fd_ >= 0); }
  ~Wakeup() { close(fd_); }
  Wakeup(const Wakeup&) = delete;
  Wakeup& operator=(const Wakeup&) = delete;

  void wake() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (sleeping_.load(std::memory_order_relaxed)) {
      const uint64_t one = 1;
      (void)!write(fd_, &one, sizeof(one));
    }
  }
  void prepare() {
    sleeping_.store(true, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  // `is_readable`: what poll said of fd(). Who is not sure says yes, at the price of a system call.
  void awake(bool is_readable) {
    sleeping_.store(false, std::memory_order_relaxed);
    if (is_readable) {
      uint64_t count = 0;
      (void)!read(fd_, &count, sizeof(count));
    }
  }
  [[nodiscard]] int fd() const { return fd_; }

 private:
  int fd_;
  std::atomic<bool> sleeping_{false};
};

}  // namespace cw::dataplane
