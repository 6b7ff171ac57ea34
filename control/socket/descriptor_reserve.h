// The last file descriptors of this process are for those who ask what is wrong: a scrape, causewayctl, the log. Clients leave
// them alone.
#pragma once

#include <sys/resource.h>

namespace cw::control {

// The sessions that /metrics and the admin socket admit at once, about.
inline constexpr rlim_t kReservedDescriptors = 16;

// True: `fd`, which the kernel has just given, is one of the last; whoever wants it for a client gives it back. The kernel gives
// the lowest number that is free, so one near the limit (RLIMIT_NOFILE) says that nearly all are taken. The limit may change at
// run time.
inline bool is_reserved_descriptor(int fd) {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
         static_cast<rlim_t>(fd) + kReservedDescriptors >= limit.rlim_cur;
}

}  // namespace cw::control
