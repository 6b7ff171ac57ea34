#include "control/service/successor.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "control/service/child_process.h"
#include "control/socket/unique_fd.h"
#include "control/socket/write_whole.h"

namespace cw::control {
namespace {

constexpr const char* kVariable = "CAUSEWAY_LEGACY_FD";
constexpr size_t kAnswerBytesMax = 4096;
constexpr off_t kLegacyBytesMax = off_t{1} << 30;
constexpr int kFirstOwnFd = 3;

// Of our file by its name: an upgrade has put another one there, and the kernel says of ours that it is deleted.
std::string own_program(const char* called) {
  std::error_code unknown;
  std::string path = std::filesystem::read_symlink("/proc/self/exe", unknown).string();
  constexpr std::string_view kDeleted = " (deleted)";
  if (path.ends_with(kDeleted)) {
    path.resize(path.size() - kDeleted.size());
  }
  return unknown ? std::string(called) : path;
}

// The last line of what a program says is the nearest to a reason.
std::string last_line(std::string_view text) {
  while (text.ends_with('\n')) {
    text.remove_suffix(1);
  }
  return std::string(text.substr(text.rfind('\n') + 1));
}

// Devices are free only when nobody has them open.
void close_all_at_exec() {
  std::error_code unknown;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", unknown)) {
    const std::string name = entry.path().filename().string();
    int fd = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), fd);
    if (error == std::errc() && fd >= kFirstOwnFd) {
      (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
  }
}

}  // namespace

Successor::Successor(int argc, char** argv)
    : program_(own_program(argv[0])),
      arguments_(argv, argv + argc),
      knows_cpus_(sched_getaffinity(0, sizeof(cpus_), &cpus_) == 0) {
  (void)pthread_sigmask(SIG_SETMASK, nullptr, &signals_);
}

bool Successor::can_follow(const std::vector<std::string>& arguments, std::string& problem,
                           std::chrono::milliseconds patience) const {
  std::vector<std::string> argv{program_};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  const LimitedResult answer = run_program(argv, patience, kAnswerBytesMax);
  if (answer.status == 0) {
    return true;
  }
  problem = program_ + ": " + (answer.problem.empty() ? last_line(answer.text) : answer.problem);
  return false;
}

std::string Successor::become(Bytes left_to_it) const {
  const UniqueFd legacy(memfd_create("causeway_legacy", 0));
  if (!legacy.valid() || !write_whole(legacy.get(), left_to_it)) {
    return fmt::format("what the next process needs could not be written down: {}", std::strerror(errno));
  }
  close_all_at_exec();
  (void)fcntl(legacy.get(), F_SETFD, 0);
  (void)setenv(kVariable, std::to_string(legacy.get()).c_str(), 1);
  if (knows_cpus_) {
    (void)sched_setaffinity(0, sizeof(cpus_), &cpus_);
  }
  (void)pthread_sigmask(SIG_SETMASK, &signals_, nullptr);
  (void)execv(program_.c_str(), exec_words(arguments_).data());
  return fmt::format("{}: {}", program_, std::strerror(errno));
}

std::optional<std::vector<uint8_t>> Successor::take_legacy(std::string& problem) {
  const char* said = std::getenv(kVariable);
  if (said == nullptr) {
    return std::nullopt;
  }
  int number = -1;
  const std::string_view text(said);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && number >= kFirstOwnFd;
  (void)unsetenv(kVariable);
  struct stat about {};
  if (!is_number || fstat(number, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size > kLegacyBytesMax) {
    problem = fmt::format("{} names no file that a process before has left", kVariable);
    return std::nullopt;
  }
  const UniqueFd legacy(number);
  std::vector<uint8_t> bytes(static_cast<size_t>(about.st_size));
  size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got = pread(legacy.get(), bytes.data() + have, bytes.size() - have, static_cast<off_t>(have));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      problem = fmt::format("what the process before has left cannot be read: {}", got < 0 ? std::strerror(errno) : "it is cut");
      return std::nullopt;
    }
    have += static_cast<size_t>(got);
  }
  return bytes;
}

}  // namespace cw::control
