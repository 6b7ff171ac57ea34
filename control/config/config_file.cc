#include "control/config/config_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "control/config/config_check.h"
#include "control/config/config_parse.h"

namespace cw::control {
namespace {

constexpr size_t kFileBytesMax = 1 << 20;

}  // namespace

std::string read_config_text(const std::string& path, std::vector<Problem>& problems) {
  const auto refuse = [&](std::string message, std::string suggestion) {
    problems.push_back({path, 0, 0, {}, std::move(message), std::move(suggestion)});
    return std::string();
  };
  // Non-blocking: a FIFO in the file's place must not hang the start.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return refuse(fmt::format("cannot be read: {}", std::strerror(errno)),
                  "name the file with --config, and check its permissions");
  }
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    return refuse("is not a file", "name a configuration file with --config");
  }
  std::string text(kFileBytesMax + 1, '\0');
  size_t size = 0;
  ssize_t got = 0;
  while (size < text.size() && (got = read(fd, text.data() + size, text.size() - size)) > 0) {
    size += static_cast<size_t>(got);
  }
  const int read_errno = errno;
  close(fd);
  if (got < 0) {
    return refuse(fmt::format("cannot be read: {}", std::strerror(read_errno)), {});
  }
  if (size > kFileBytesMax) {
    return refuse("is longer than 1 MiB", "a configuration is a few kilobytes; is this the right file?");
  }
  text.resize(size);
  return text;
}

LoadedConfig load_config(const std::string& path) {
  LoadedConfig loaded;
  const std::string text = read_config_text(path, loaded.problems);
  if (!loaded.problems.empty()) {
    return loaded;
  }
  ParsedConfig parsed = config_parse(text, path);
  const bool is_toml = std::ranges::none_of(parsed.problems, [](const Problem& p) { return p.key.empty(); });
  std::vector<Problem> checked = is_toml ? config_check(parsed) : std::vector<Problem>();
  loaded.config = std::move(parsed.config);
  loaded.problems = std::move(parsed.problems);
  loaded.positions = std::move(parsed.positions);
  std::ranges::move(checked, std::back_inserter(loaded.problems));
  std::ranges::stable_sort(loaded.problems, {}, [](const Problem& p) { return std::pair(p.line, p.column); });
  return loaded;
}

}  // namespace cw::control
