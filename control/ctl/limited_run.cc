#include "control/ctl/limited_run.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <thread>

#include "control/socket/unique_fd.h"

namespace cw::control {
namespace {

using Clock = std::chrono::steady_clock;
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

int left_ms(Clock::time_point deadline) {
  return static_cast<int>(std::max<int64_t>(0, std::chrono::ceil<milliseconds>(deadline - Clock::now()).count()));
}

// False: the time is up.
bool read_until_end(int in, Clock::time_point deadline, size_t bytes_max, LimitedResult& result) {
  std::array<char, 65536> buffer;
  size_t left_out = 0;
  while (true) {
    pollfd readable{in, POLLIN, 0};
    if (poll(&readable, 1, left_ms(deadline)) <= 0) {
      if (errno == EINTR && left_ms(deadline) > 0) {
        continue;
      }
      return false;
    }
    const ssize_t got = read(in, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      break;
    }
    const size_t taken = std::min(static_cast<size_t>(got), bytes_max - result.text.size());
    result.text.append(buffer.data(), taken);
    left_out += static_cast<size_t>(got) - taken;
  }
  result.text += left_out > 0 ? fmt::format("\n({} more bytes are left out)\n", left_out) : "";
  return true;
}

// False: it has not ended then.
bool wait_for(pid_t child, Clock::time_point deadline, int& status) {
  while (waitpid(child, &status, WNOHANG) != child) {
    if (Clock::now() >= deadline) {
      return false;
    }
    std::this_thread::sleep_for(milliseconds(1));
  }
  return true;
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
  const UniqueFd in(ends[0]);
  UniqueFd out(ends[1]);
  const auto deadline = Clock::now() + limit;
  const pid_t child = fork();
  if (child == 0) {
    run_as_child(what, out.get());
  }
  if (child < 0) {
    result.problem = std::strerror(errno);
    return result;
  }
  out = UniqueFd();
  int status = 0;
  bool ended = read_until_end(in.get(), deadline, bytes_max, result);
  ended = ended && wait_for(child, deadline, status);
  if (!ended) {
    (void)kill(-child, SIGKILL);
    (void)kill(child, SIGKILL);  // it may not have a group of its own yet
    // One that hangs in the kernel ends when that lets it go.
    (void)wait_for(child, Clock::now() + milliseconds(200), status);
    result.problem = fmt::format("not done within {:.1f} s", std::chrono::duration<double>(limit).count());
  } else if (WIFSIGNALED(status)) {
    result.problem = fmt::format("ended by signal {}", WTERMSIG(status));
  } else {
    result.status = WEXITSTATUS(status);
  }
  return result;
}

int become_program(const std::vector<std::string>& argv) {
  std::vector<char*> words;
  words.reserve(argv.size() + 1);
  for (const std::string& word : argv) {
    words.push_back(const_cast<char*>(word.c_str()));
  }
  words.push_back(nullptr);
  (void)execvp(words.front(), words.data());
  fmt::print("{}: {}\n", argv.front(), std::strerror(errno));
  return kNoSuchProgram;
}

}  // namespace cw::control
