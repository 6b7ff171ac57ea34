// The process that follows this one: whatever program is installed under the name of ours by then, with our command line, in our
// place (execve). It has our pid, our limits and what the service manager has given us; of what we have opened it has one file,
// with what we leave to it.
#pragma once

#include <sched.h>
#include <signal.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace cw::control {

class Successor {
 public:
  // At the start of main(), before threads and CPUs are chosen: what the process began with, its successor begins with.
  Successor(int argc, char** argv);

  // Runs the program once with `arguments` besides, which tell it to say by its exit status whether it can follow. False, and one
  // sentence in `problem`: it is not there, it says no, or it has said nothing within `patience`. The caller waits.
  [[nodiscard]] bool can_follow(const std::vector<std::string>& arguments, std::string& problem,
                                std::chrono::milliseconds patience = std::chrono::seconds(3)) const;
  // Becomes it. The caller has no other thread. Returns when that failed, with one sentence.
  [[nodiscard]] std::string become(Bytes left_to_it) const;

  // In the successor, once, before threads: what was left to it; nullopt: it follows nobody. `problem`: it follows somebody who
  // has left nothing that can be read.
  [[nodiscard]] static std::optional<std::vector<uint8_t>> take_legacy(std::string& problem);

 private:
  std::string program_;  // path
  std::vector<std::string> arguments_;
  cpu_set_t cpus_{};
  bool knows_cpus_ = false;
  sigset_t signals_{};
};

}  // namespace cw::control
