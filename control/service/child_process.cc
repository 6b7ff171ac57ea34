#include "control/service/child_process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

namespace cw::control {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

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

// File descriptors and signals of the child, given back at the end.
class SpawnSettings {
 public:
  explicit SpawnSettings(int out) {
    posix_spawn_file_actions_init(&files_);
    posix_spawn_file_actions_addopen(&files_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files_, out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files_, out, STDERR_FILENO);
    posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigemptyset(&none);
    sigset_t ignored;
    sigemptyset(&ignored);
    sigaddset(&ignored, SIGPIPE);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &ignored);
    posix_spawnattr_setpgroup(&attributes_, 0);  // so that what it starts ends with it
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&files_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  [[nodiscard]] const posix_spawn_file_actions_t* files() const { return &files_; }
  [[nodiscard]] const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t files_{};
  posix_spawnattr_t attributes_{};
};

}  // namespace

LimitedResult wait_limited(pid_t child, UniqueFd out, milliseconds limit, size_t bytes_max) {
  LimitedResult result;
  const auto deadline = Clock::now() + limit;
  int status = 0;
  bool ended = read_until_end(out.get(), deadline, bytes_max, result);
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

std::vector<char*> exec_words(const std::vector<std::string>& argv) {
  std::vector<char*> words;
  words.reserve(argv.size() + 1);
  for (const std::string& word : argv) {
    words.push_back(const_cast<char*>(word.c_str()));
  }
  words.push_back(nullptr);
  return words;
}

LimitedResult run_program(const std::vector<std::string>& argv, milliseconds limit, size_t bytes_max) {
  LimitedResult result;
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    result.problem = std::strerror(errno);
    return result;
  }
  UniqueFd in(ends[0]);
  UniqueFd out(ends[1]);
  const std::vector<char*> words = exec_words(argv);
  pid_t child = 0;
  const SpawnSettings settings(out.get());
  if (const int error = posix_spawn(&child, words.front(), settings.files(), settings.attributes(), words.data(), environ);
      error != 0) {
    result.problem = std::strerror(error);
    return result;
  }
  out = UniqueFd();
  return wait_limited(child, std::move(in), limit, bytes_max);
}

}  // namespace cw::control
