#include "control/ctl/limited_run.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "control/socket/unique_fd.h"

namespace cw::control {
namespace {

using std::chrono::milliseconds;

[[noreturn]] void run_as_child(const std::function<int()>& what, int out) {
  (void)setpgid(0, 0);  // so that what it starts ends with it
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0) {
    _exit(kNoSuchProgram);
  }
  const int status = what();
  (void)std::fflush(nullptr);
  _exit(status);
}

}  // namespace

LimitedResult run_limited(const std::function<int()>& what, milliseconds limit, size_t bytes_max) {
  LimitedResult result;
  std::array<int, 2> ends{};
  (void)std::fflush(nullptr);
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    result.problem = std::strerror(errno);
    return result;
  }
  UniqueFd in(ends[0]);
  UniqueFd out(ends[1]);
  const pid_t child = fork();
  if (child == 0) {
    run_as_child(what, out.get());
  }
  if (child < 0) {
    result.problem = std::strerror(errno);
    return result;
  }
  out = UniqueFd();
  return wait_limited(child, std::move(in), limit, bytes_max);
}

int become_program(const std::vector<std::string>& argv) {
  (void)execvp(argv.front().c_str(), exec_words(argv).data());
  fmt::print("{}: {}\n", argv.front(), std::strerror(errno));
  return kNoSuchProgram;
}

}  // namespace cw::control
