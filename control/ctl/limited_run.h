// Runs something that may never come back, in a process of its own, and takes what it prints: a file that hangs, a gateway that
// answers nothing, a crash cost the caller the time limit and no more.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "control/service/child_process.h"

namespace cw::control {

// `what` returns the exit status. The caller has no other thread. What is printed beyond `bytes_max` is left out.
[[nodiscard]] LimitedResult run_limited(const std::function<int()>& what, std::chrono::milliseconds limit, size_t bytes_max);

// Becomes the program, for use in `what`: returns, with a sentence printed, only when there is none of this name.
inline constexpr int kNoSuchProgram = 127;
[[nodiscard]] int become_program(const std::vector<std::string>& argv);

}  // namespace cw::control
