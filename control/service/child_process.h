// Waits for a process that may never end, and takes what it prints: one that hangs costs the caller the time limit and no more.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "control/socket/unique_fd.h"

namespace cw::control {

struct LimitedResult {
  std::string text;  // what it printed, to stdout and stderr; as far as it got
  int status = -1;   // exit status; -1: it has none, `problem` says why
  std::string problem;
};

// `out` is where the child's output comes from. Its process group is ended when the time is up. What is printed beyond
// `bytes_max` is left out.
[[nodiscard]] LimitedResult wait_limited(pid_t child, UniqueFd out, std::chrono::milliseconds limit, size_t bytes_max);

// As exec functions want them, with nullptr behind; they point into `argv`.
[[nodiscard]] std::vector<char*> exec_words(const std::vector<std::string>& argv);

// Starts the program of this path and waits for it. For a process with threads and much memory, of which nothing is copied.
[[nodiscard]] LimitedResult run_program(const std::vector<std::string>& argv, std::chrono::milliseconds limit, size_t bytes_max);

}  // namespace cw::control
