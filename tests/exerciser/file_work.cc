#include "tests/exerciser/file_work.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <span>
#include <utility>

#include "tests/exerciser/pattern.h"

namespace cw::exerciser {
namespace {

constexpr uint64_t kPage = 4096;

struct Freed {
  void operator()(void* memory) const { free(memory); }
};
using Aligned = std::unique_ptr<uint8_t, Freed>;

Aligned aligned(uint64_t bytes) {
  return Aligned(static_cast<uint8_t*>(aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage)));
}

// What a file system or an older version of NFS answers to an operation it does not have.
bool is_unsupported(int error) {
  return error == EOPNOTSUPP || error == ENOSYS || error == EINVAL || error == EXDEV;
}

}  // namespace

const FileWork::Choice FileWork::kChoices[] = {
    {20, &FileWork::write, 0},   {6, &FileWork::append, O_APPEND}, {20, &FileWork::read, 0},        {4, &FileWork::read_all, 0},
    {8, &FileWork::truncate, 0}, {6, &FileWork::direct_write, 0},  {6, &FileWork::direct_read, 0},  {6, &FileWork::map_write, 0},
    {6, &FileWork::map_read, 0}, {3, &FileWork::sync, 0},          {6, &FileWork::forget_pages, 0}, {3, &FileWork::punch, 0},
    {2, &FileWork::allocate, 0}, {3, &FileWork::seek, 0},          {2, &FileWork::change_mode, 0},
};

void FileWork::operate(File& file, const std::string& path, Turn turn) {
  const Choice& chosen = dice_.pick(kChoices);
  files_.concern(&file.model);
  const bool through_kept = chosen.flags == 0 && file.kept.valid() && dice_.chance(60);
  if (through_kept) {
    (this->*chosen.run)(file, path, file.kept.get(), turn);
  } else {
    Descriptor descriptor = files_.open(path, O_RDWR | chosen.flags);
    (this->*chosen.run)(file, path, descriptor.get(), turn);
    if (chosen.flags == 0 && !file.kept.valid() && dice_.chance(30)) {
      file.kept = std::move(descriptor);
    } else {
      files_.close(path, descriptor);
    }
  }
  if (file.kept.valid() && dice_.chance(10)) {
    close_kept(file, path);
  }
  files_.concern(nullptr);
}

void FileWork::write(File& file, const std::string& path, int descriptor, Turn turn) {
  run_.count("write");
  const uint64_t offset = place_to_write(file);
  buffer_.resize(length_from(offset));
  fill_pattern(turn.key, offset, buffer_);
  file.model.write({turn.number, "write", offset, buffer_.size(), turn.key});
  files_.write(path, descriptor, offset, buffer_);
}

void FileWork::append(File& file, const std::string& path, int descriptor, Turn turn) {
  if (file.model.size() >= run_.options().bytes_max) {
    return;
  }
  run_.count("append");
  const uint64_t offset = file.model.size();
  buffer_.resize(length_from(offset));
  fill_pattern(turn.key, offset, buffer_);
  file.model.write({turn.number, "append", offset, buffer_.size(), turn.key});
  files_.write(path, descriptor, offset, buffer_, true);
}

void FileWork::read(File& file, const std::string& path, int descriptor, Turn turn) {
  run_.count("read");
  const uint64_t offset = dice_.below(file.model.size() + file.model.size() / 8 + 2);  // beyond the end, too
  const uint64_t bytes = dice_.length(run_.options().bytes_max);
  file.model.note({turn.number, "read", offset, bytes});
  compare(file, path, descriptor, offset, bytes);
}

void FileWork::read_all(File& file, const std::string& path, int descriptor, Turn turn) {
  run_.count("read of all");
  file.model.note({turn.number, "read of all", 0, file.model.size()});
  compare(file, path, descriptor, 0, file.model.size() + 1);
}

void FileWork::truncate(File& file, const std::string& path, int descriptor, Turn turn) {
  run_.count("truncate");
  const uint64_t size = dice_.chance(15) ? 0 : place_to_write(file);
  const bool by_descriptor = dice_.chance(50);
  file.model.resize({turn.number, by_descriptor ? "ftruncate to" : "truncate to", size});
  if (by_descriptor) {
    files_.must(ftruncate(descriptor, static_cast<off_t>(size)) == 0, path, "ftruncate");
  } else {
    files_.must(::truncate(files_.full(path).c_str(), static_cast<off_t>(size)) == 0, path, "truncate");
  }
}

Descriptor FileWork::open_direct(const std::string& path) {
  Descriptor direct(open(files_.full(path).c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
  files_.must(direct.valid() || errno == EINVAL, path, "open with O_DIRECT");
  return direct;
}

void FileWork::direct_write(File& file, const std::string& path, int, Turn turn) {
  Descriptor direct = open_direct(path);
  const uint64_t unit = direct_unit();
  const uint64_t offset = place_to_write(file) / unit * unit;
  const uint64_t bytes = (length_from(offset) + unit - 1) / unit * unit;
  if (!direct.valid() || offset + bytes > run_.options().bytes_max) {
    return;
  }
  flush_mapped(file, path, direct.get());
  run_.count("direct write");
  const Aligned memory = aligned(bytes);
  fill_pattern(turn.key, offset, std::span(memory.get(), bytes));
  file.model.write({turn.number, "O_DIRECT write", offset, bytes, turn.key});
  files_.write(path, direct.get(), offset, std::span(memory.get(), bytes));
  files_.close(path, direct);
}

void FileWork::direct_read(File& file, const std::string& path, int, Turn turn) {
  Descriptor direct = open_direct(path);
  if (!direct.valid()) {
    return;
  }
  flush_mapped(file, path, direct.get());
  run_.count("direct read");
  const uint64_t unit = direct_unit();
  const uint64_t offset = dice_.below(file.model.size() + 2) / unit * unit;
  const uint64_t bytes = (dice_.length(run_.options().bytes_max) + unit - 1) / unit * unit;
  const Aligned memory = aligned(bytes);
  file.model.note({turn.number, "O_DIRECT read", offset, bytes});
  // One call: after a short read the next place need not be a multiple of the unit.
  const ssize_t count = pread(direct.get(), memory.get(), bytes, static_cast<off_t>(offset));
  files_.must(count >= 0, path, "O_DIRECT read");
  run_.count_read(static_cast<uint64_t>(count));
  if (const auto mismatch = file.model.compare(offset, bytes, std::span(memory.get(), static_cast<size_t>(count)))) {
    files_.fail(path, file.model.explain(*mismatch));
  }
  files_.close(path, direct);
}

template <typename Use>
bool FileWork::with_map(const std::string& path, int descriptor, uint64_t offset, uint64_t bytes, int protection, Use&& use) {
  const uint64_t before = offset % kPage;
  void* memory = mmap(nullptr, before + bytes, protection, MAP_SHARED, descriptor, static_cast<off_t>(offset - before));
  files_.must(memory != MAP_FAILED, path, "mmap");
  use(std::span(static_cast<uint8_t*>(memory) + before, bytes));
  const bool writes = (protection & PROT_WRITE) != 0;
  const bool flushes = writes && dice_.chance(60);  // else the pages stay dirty until something flushes them
  if (flushes) {
    files_.must(msync(memory, before + bytes, MS_SYNC) == 0, path, "msync");
  }
  files_.must(munmap(memory, before + bytes) == 0, path, "munmap");
  return writes && !flushes;
}

// When a file was last used with O_DIRECT, Linux's NFS client does not flush pages that a mapping has dirtied since. An O_DIRECT
// write passes them, and they are written over it afterwards. Programs have to flush them (open(2), "O_DIRECT").
void FileWork::flush_mapped(File& file, const std::string& path, int descriptor) {
  if (std::exchange(file.has_dirty_map, false)) {
    files_.must(fdatasync(descriptor) == 0, path, "fdatasync before O_DIRECT");
  }
}

void FileWork::map_write(File& file, const std::string& path, int descriptor, Turn turn) {
  if (file.model.size() == 0) {
    return;
  }
  run_.count("mmap write");
  const uint64_t offset = dice_.below(file.model.size());
  const uint64_t bytes = dice_.length(file.model.size() - offset);
  file.model.write({turn.number, "mmap write", offset, bytes, turn.key});
  const bool dirty = with_map(path, descriptor, offset, bytes, PROT_READ | PROT_WRITE,
                              [&](std::span<uint8_t> memory) { fill_pattern(turn.key, offset, memory); });
  file.has_dirty_map = file.has_dirty_map || dirty;
  run_.count_written(bytes);
}

void FileWork::map_read(File& file, const std::string& path, int descriptor, Turn turn) {
  if (file.model.size() == 0) {
    return;
  }
  run_.count("mmap read");
  const uint64_t offset = dice_.below(file.model.size());
  const uint64_t bytes = dice_.length(file.model.size() - offset);
  file.model.note({turn.number, "mmap read", offset, bytes});
  (void)with_map(path, descriptor, offset, bytes, PROT_READ, [&](std::span<const uint8_t> memory) {
    if (const auto mismatch = file.model.compare(offset, bytes, memory)) {
      files_.fail(path, file.model.explain(*mismatch));
    }
  });
  run_.count_read(bytes);
}

void FileWork::sync(File& file, const std::string& path, int descriptor, Turn turn) {
  run_.count("fsync");
  file.model.note({turn.number, "fsync"});
  files_.must(fsync(descriptor) == 0, path, "fsync");
}

void FileWork::forget_pages(File& file, const std::string& path, int descriptor, Turn turn) {
  run_.count("forget pages");
  file.model.note({turn.number, "fdatasync and forget pages"});
  files_.must(fdatasync(descriptor) == 0, path, "fdatasync");
  files_.must(posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED) == 0, path, "posix_fadvise");
}

void FileWork::punch(File& file, const std::string& path, int descriptor, Turn turn) {
  const uint64_t offset = place_to_write(file);
  const uint64_t bytes = length_from(offset);
  if (fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(bytes)) ==
      0) {
    run_.count("punch");
    file.model.punch({turn.number, "punch a hole", offset, bytes});
  } else {
    files_.must(is_unsupported(errno), path, "fallocate to punch a hole");
  }
}

void FileWork::allocate(File& file, const std::string& path, int descriptor, Turn turn) {
  const uint64_t offset = place_to_write(file);
  const uint64_t bytes = length_from(offset);
  if (fallocate(descriptor, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0) {
    run_.count("allocate");
    file.model.resize({turn.number, "allocate up to", std::max(file.model.size(), offset + bytes)});
  } else {
    files_.must(is_unsupported(errno), path, "fallocate");
  }
}

void FileWork::seek(File& file, const std::string& path, int descriptor, Turn turn) {
  run_.count("seek");
  const uint64_t size = file.model.size();
  const uint64_t offset = dice_.below(size + 1);
  file.model.note({turn.number, "seek for data and hole", offset});
  const off_t data = lseek(descriptor, static_cast<off_t>(offset), SEEK_DATA);
  files_.must(data >= 0 || errno == ENXIO, path, "seek for data");
  // A file system need not know its holes; what it calls a hole must be one.
  const uint64_t hole_end = data < 0 ? size : static_cast<uint64_t>(data);
  if (hole_end < offset || hole_end > size || !file.model.is_zero(offset, hole_end - offset)) {
    files_.fail(path, "seek for data from " + std::to_string(offset) + " led to " + std::to_string(data));
  }
  const off_t hole = lseek(descriptor, static_cast<off_t>(offset), SEEK_HOLE);
  files_.must(hole >= 0 || (errno == ENXIO && offset >= size), path, "seek for a hole");
  if (hole >= 0 && (static_cast<uint64_t>(hole) < offset || static_cast<uint64_t>(hole) > size)) {
    files_.fail(path, "seek for a hole from " + std::to_string(offset) + " led to " + std::to_string(hole));
  }
}

void FileWork::change_mode(File& file, const std::string& path, int descriptor, Turn turn) {
  run_.count("chmod");
  file.mode = static_cast<mode_t>(0600 | dice_.below(0100));
  file.model.note({turn.number, "chmod", file.mode});
  files_.must(fchmod(descriptor, file.mode) == 0, path, "fchmod");
}

void FileWork::copy(File& from, const std::string& from_path, File& to, const std::string& to_path, Turn turn) {
  const uint64_t from_offset = dice_.below(from.model.size() + 1);
  const uint64_t to_offset = place_to_write(to);
  const uint64_t bytes = std::min(from.model.size() - from_offset, run_.options().bytes_max - to_offset);
  if (bytes == 0) {
    return;
  }
  run_.count("copy");
  files_.concern(&to.model);
  Descriptor source = files_.open(from_path, O_RDONLY);
  Descriptor target = files_.open(to_path, O_RDWR);
  auto in = static_cast<off_t>(from_offset);
  auto out = static_cast<off_t>(to_offset);
  uint64_t done = 0;
  while (done < bytes) {
    const ssize_t count = copy_file_range(source.get(), &in, target.get(), &out, bytes - done, 0);
    if (count < 0 && done == 0 && is_unsupported(errno)) {
      break;
    }
    files_.must(count > 0, to_path, "copy_file_range");
    done += static_cast<uint64_t>(count);
  }
  if (done != 0) {
    to.model.write({turn.number, "copy from another file", to_offset, done}, from.model.bytes().subspan(from_offset, done));
  }
  files_.close(to_path, target);
  files_.close(from_path, source);
  files_.concern(nullptr);
}

void FileWork::verify(File& file, const std::string& path, uint64_t links, Turn turn) {
  verify_attributes(file, path, links, turn);
  files_.concern(&file.model);
  Descriptor descriptor = files_.open(path, O_RDONLY);
  compare(file, path, descriptor.get(), 0, file.model.size() + 1);
  files_.close(path, descriptor);
  files_.concern(nullptr);
}

void FileWork::verify_attributes(File& file, const std::string& path, uint64_t links, Turn turn) {
  file.model.note({turn.number, "stat"});
  files_.concern(&file.model);
  Descriptor descriptor = files_.open(path, O_RDONLY);
  const struct stat status = files_.status(path, descriptor.get());
  files_.close(path, descriptor);
  const auto equal = [&](const char* what, uint64_t expected, uint64_t got) {
    if (expected != got) {
      files_.fail(path, std::string(what) + ": expected " + std::to_string(expected) + ", got " + std::to_string(got));
    }
  };
  equal("size", file.model.size(), static_cast<uint64_t>(status.st_size));
  equal("links", links, status.st_nlink);
  equal("mode", file.mode, status.st_mode & 07777);
  const auto as_pair = [](const timespec& time) { return std::pair(time.tv_sec, time.tv_nsec); };
  if (as_pair(status.st_mtim) < as_pair(file.modified)) {
    files_.fail(path, "mtime went back: from " + std::to_string(file.modified.tv_sec) + "." +
                          std::to_string(file.modified.tv_nsec) + " to " + std::to_string(status.st_mtim.tv_sec) + "." +
                          std::to_string(status.st_mtim.tv_nsec));
  }
  file.modified = status.st_mtim;
  files_.concern(nullptr);
}

void FileWork::compare(const File& file, const std::string& path, int descriptor, uint64_t offset, uint64_t bytes) {
  buffer_.resize(bytes);
  const size_t count = files_.read(path, descriptor, offset, buffer_);
  if (const auto mismatch = file.model.compare(offset, bytes, std::span(buffer_).first(count))) {
    files_.fail(path, file.model.explain(*mismatch));
  }
}

void FileWork::close_kept(File& file, const std::string& path) {
  if (file.kept.valid()) {
    files_.close(path, file.kept);
  }
}

uint64_t FileWork::place_to_write(const File& file) {
  const uint64_t max = run_.options().bytes_max;
  return dice_.chance(75) ? dice_.below(std::min(file.model.size() + 1, max)) : dice_.below(max);
}

}  // namespace cw::exerciser
