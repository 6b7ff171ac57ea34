// While it lives, this process may have so many file descriptors more, and those that clients may not take; less than 0: it may
// not have all of those.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "control/socket/descriptor_reserve.h"

namespace cw::dataplane::test {

class FewDescriptors {
 public:
  explicit FewDescriptors(int for_clients) {
    const int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(next);
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit few = before_;
    few.rlim_cur = static_cast<rlim_t>(next + for_clients) + control::kReservedDescriptors;
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  }
  ~FewDescriptors() { EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
};

}  // namespace cw::dataplane::test
