#include "dataplane/dpdk/unix_name.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <utility>

namespace cw::dataplane {
namespace {

constexpr const char* kLockSuffix = ".lock";

bool is_file_of(const std::string& path, int fd) {
  struct stat named {};
  struct stat opened {};
  return stat(path.c_str(), &named) == 0 && fstat(fd, &opened) == 0 && named.st_ino == opened.st_ino &&
         named.st_dev == opened.st_dev;
}

// Whether a socket of this network namespace has the name, as the kernel lists them.
bool is_listened_on(const std::string& path) {
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    if (line.ends_with(" " + path)) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool UnixName::fill(sockaddr_un& address, socklen_t& size) const {
  address = {};
  address.sun_family = AF_UNIX;
  const size_t at = abstract ? 1 : 0;
  if (name.empty() || name.size() + 1 > sizeof(address.sun_path)) {
    return false;
  }
  std::memcpy(address.sun_path + at, name.data(), name.size());
  // The driver binds and connects abstract names without a closing zero: every byte of the size is part of the name.
  size = abstract ? static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size()) : sizeof(address);
  return true;
}

control::UniqueFd connect_to(const UnixName& name, int type) {
  sockaddr_un address{};
  socklen_t size = 0;
  if (!name.fill(address, size)) {
    errno = EINVAL;
    return control::UniqueFd();
  }
  control::UniqueFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  if (!fd.valid() || connect(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) {
    return control::UniqueFd();
  }
  return fd;
}

std::unique_ptr<NameClaim> NameClaim::take(const UnixName& name, std::string& error) {
  std::unique_ptr<NameClaim> claim(new NameClaim);
  if (name.abstract || name.name.empty()) {
    return claim;
  }
  const std::string path = name.name + kLockSuffix;
  while (!claim->lock_.valid()) {
    control::UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!fd.valid()) {
      error = fmt::format("cannot make {}: {} (is its directory there and writable?)", path, std::strerror(errno));
      return nullptr;
    }
    if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      error =
          fmt::format("another process listens on {} (it holds {}); give each gateway a socket of its own", name.text(), path);
      return nullptr;
    }
    // Whoever held it before may have removed the file between our two calls.
    claim->lock_ = is_file_of(path, fd.get()) ? std::move(fd) : control::UniqueFd();
  }
  claim->lock_path_ = path;
  struct stat status {};
  if (lstat(name.name.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) {
    return claim;
  }
  if (is_listened_on(name.name)) {
    error = fmt::format("another program listens on {}; give each a socket of its own", name.text());
    return nullptr;
  }
  (void)unlink(name.name.c_str());
  return claim;
}

NameClaim::~NameClaim() {
  if (!lock_path_.empty()) {
    (void)unlink(lock_path_.c_str());
  }
}

}  // namespace cw::dataplane
