#include "tests/exerciser/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>

namespace cw::exerciser {

constexpr long kNfsMagic = 0x6969;  // f_type of statfs(2)

bool Files::is_nfs() const {
  struct statfs status {};
  return statfs(root_.c_str(), &status) == 0 && status.f_type == kNfsMagic;
}

void Files::fail(const std::string& path, const std::string& what) const {
  run_.fail(full(path), what, model_);
}

void Files::must(bool condition, const std::string& path, const char* what) const {
  if (!condition) {
    fail(path, std::string(what) + ": " + strerror(errno));
  }
}

Descriptor Files::open(const std::string& path, int flags, mode_t mode) const {
  Descriptor descriptor(::open(full(path).c_str(), flags | O_CLOEXEC, mode));
  must(descriptor.valid(), path, "open");
  return descriptor;
}

void Files::close(const std::string& path, Descriptor& descriptor) const {
  must(::close(descriptor.release()) == 0, path, "close");
}

void Files::write(const std::string& path, int descriptor, uint64_t offset, std::span<const uint8_t> bytes, bool append) const {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = append
                              ? ::write(descriptor, bytes.data() + done, bytes.size() - done)
                              : pwrite(descriptor, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    must(count > 0, path, "write");
    done += static_cast<size_t>(count);
  }
  run_.count_written(done);
}

size_t Files::read(const std::string& path, int descriptor, uint64_t offset, std::span<uint8_t> bytes) const {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = pread(descriptor, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    must(count >= 0, path, "read");
    if (count == 0) {
      break;
    }
    done += static_cast<size_t>(count);
  }
  run_.count_read(done);
  return done;
}

struct stat Files::status(const std::string& path, int descriptor) const {
  struct stat status {};
  must(fstat(descriptor, &status) == 0, path, "fstat");
  return status;
}

void Files::create(const std::string& path, mode_t mode) const {
  Descriptor descriptor(::open(full(path).c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, mode));
  if (!descriptor.valid() && errno == EEXIST && run_.options().replays) {
    descriptor = open(path, O_RDWR);
    if (status(path, descriptor.get()).st_size != 0) {
      fail(path, "create: exists, with content");
    }
    run_.count("replayed create");
  }
  must(descriptor.valid(), path, "create");
  close(path, descriptor);
}

void Files::unlink(const std::string& path) const {
  named(
      ::unlink(full(path).c_str()), ENOENT, [&] { return !exists(path); }, path, "unlink");
}

void Files::rename(const std::string& from, const std::string& to) const {
  struct stat before {};
  must(lstat(full(from).c_str(), &before) == 0, from, "stat before rename");
  const auto done = [&] {
    struct stat after {};
    return lstat(full(to).c_str(), &after) == 0 && after.st_ino == before.st_ino && !exists(from);
  };
  named(::rename(full(from).c_str(), full(to).c_str()), ENOENT, done, from, "rename");
}

void Files::link(const std::string& from, const std::string& to) const {
  const auto done = [&] {
    struct stat source {};
    struct stat made {};
    return lstat(full(from).c_str(), &source) == 0 && lstat(full(to).c_str(), &made) == 0 && source.st_ino == made.st_ino;
  };
  named(::link(full(from).c_str(), full(to).c_str()), EEXIST, done, to, "link");
}

void Files::symlink(const std::string& target, const std::string& path) const {
  named(
      ::symlink(target.c_str(), full(path).c_str()), EEXIST, [&] { return read_link(path) == target; }, path, "symlink");
}

void Files::make_directory(const std::string& path) const {
  named(
      mkdir(full(path).c_str(), 0755), EEXIST, [&] { return list(path).empty(); }, path, "mkdir");
}

void Files::remove_directory(const std::string& path) const {
  named(
      rmdir(full(path).c_str()), ENOENT, [&] { return !exists(path); }, path, "rmdir");
}

std::set<std::string> Files::list(const std::string& path) const {
  DIR* directory = opendir(full(path).c_str());
  must(directory != nullptr, path, "opendir");
  std::set<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* entry = readdir(directory);
    if (entry == nullptr) {
      must(errno == 0, path, "readdir");
      break;
    }
    const std::string name = entry->d_name;
    if (name == "." || name == ".." || name.starts_with(".nfs")) {
      continue;
    }
    if (!names.insert(name).second) {
      fail(path, "readdir: " + name + " came twice");
    }
  }
  must(closedir(directory) == 0, path, "closedir");
  return names;
}

std::string Files::read_link(const std::string& path) const {
  char target[PATH_MAX];
  const ssize_t length = readlink(full(path).c_str(), target, sizeof target);
  must(length >= 0, path, "readlink");
  return {target, static_cast<size_t>(length)};
}

bool Files::exists(const std::string& path) const {
  struct stat status {};
  if (lstat(full(path).c_str(), &status) == 0) {
    return true;
  }
  must(errno == ENOENT, path, "stat");
  return false;
}

void Files::named(int result, int repeated, const std::function<bool()>& done, const std::string& path, const char* what) const {
  if (result == 0) {
    return;
  }
  const int error = errno;
  if (error == repeated && run_.options().replays && done()) {
    run_.count("replayed change of a name");
    return;
  }
  errno = error;
  must(false, path, what);
}

}  // namespace cw::exerciser
