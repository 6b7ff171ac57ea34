// All of it to a file that blocks.
#pragma once

#include <unistd.h>

#include <cerrno>

#include "base/bytes.h"

namespace cw::control {

// False, and errno: some of it was not written.
[[nodiscard]] inline bool write_whole(int fd, Bytes content) {
  while (!content.empty()) {
    const ssize_t done = write(fd, content.data(), content.size());
    if (done < 0 && errno == EINTR) {
      continue;
    }
    if (done <= 0) {
      return false;
    }
    content = content.subspan(static_cast<size_t>(done));
  }
  return true;
}

}  // namespace cw::control
