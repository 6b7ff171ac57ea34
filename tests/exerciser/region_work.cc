#include "tests/exerciser/region_work.h"

#include <fcntl.h>
#include <unistd.h>

#include <span>

#include "tests/exerciser/pattern.h"

namespace cw::exerciser {

constexpr uint64_t kRangeBytes = 5003;
constexpr uint64_t kRanges = 12;  // of each worker in each file

RegionWork::RegionWork(Run& run, Files& files, Dice& dice, unsigned worker)
    : run_(run), files_(files), dice_(dice), worker_(worker), models_(run.options().shared) {
  for (FileModel& model : models_) {
    model.resize({0, "made with size", file_bytes(run)});
  }
}

uint64_t RegionWork::file_bytes(const Run& run) {
  return kRangeBytes * kRanges * run.options().workers;
}

void RegionWork::make(Run& run, Files& files) {
  for (unsigned file = 0; file < run.options().shared; ++file) {
    Descriptor descriptor = files.open(path_of(file), O_CREAT | O_EXCL | O_RDWR);
    files.must(ftruncate(descriptor.get(), static_cast<off_t>(file_bytes(run))) == 0, path_of(file), "ftruncate");
    files.close(path_of(file), descriptor);
  }
}

void RegionWork::operate(Turn turn) {
  if (models_.empty()) {
    return;
  }
  const auto file = static_cast<unsigned>(dice_.below(models_.size()));
  const std::string path = path_of(file);
  FileModel& model = models_[file];
  files_.concern(&model);
  const uint64_t within = dice_.below(kRangeBytes);
  const uint64_t offset = start_of(dice_.below(kRanges)) + within;
  const uint64_t bytes = dice_.length(kRangeBytes - within);
  // Over NFS alone O_DIRECT takes any offset and length.
  const bool direct = files_.is_nfs() && dice_.chance(25);
  Descriptor descriptor = files_.open(path, O_RDWR | (direct ? O_DIRECT : 0));
  if (dice_.chance(60)) {
    run_.count(direct ? "shared direct write" : "shared write");
    buffer_.resize(bytes);
    fill_pattern(turn.key, offset, buffer_);
    model.write({turn.number, direct ? "O_DIRECT write" : "write", offset, bytes, turn.key});
    files_.write(path, descriptor.get(), offset, buffer_);
  } else {
    run_.count(direct ? "shared direct read" : "shared read");
    model.note({turn.number, direct ? "O_DIRECT read" : "read", offset, bytes});
    compare(file, descriptor.get(), offset, bytes);
  }
  if (dice_.chance(10)) {
    files_.must(fdatasync(descriptor.get()) == 0, path, "fdatasync");
    files_.must(posix_fadvise(descriptor.get(), 0, 0, POSIX_FADV_DONTNEED) == 0, path, "posix_fadvise");
  }
  files_.close(path, descriptor);
  files_.concern(nullptr);
}

void RegionWork::verify_all() {
  for (unsigned file = 0; file < models_.size(); ++file) {
    files_.concern(&models_[file]);
    Descriptor descriptor = files_.open(path_of(file), O_RDONLY);
    for (uint64_t range = 0; range < kRanges; ++range) {
      compare(file, descriptor.get(), start_of(range), kRangeBytes);
    }
    if (files_.status(path_of(file), descriptor.get()).st_size != static_cast<off_t>(file_bytes(run_))) {
      files_.fail(path_of(file), "the size changed, expected " + std::to_string(file_bytes(run_)));
    }
    files_.close(path_of(file), descriptor);
  }
  files_.concern(nullptr);
}

uint64_t RegionWork::start_of(uint64_t range) const {
  return (range * run_.options().workers + worker_) * kRangeBytes;
}

void RegionWork::compare(unsigned file, int descriptor, uint64_t offset, uint64_t bytes) {
  buffer_.resize(bytes);
  const size_t count = files_.read(path_of(file), descriptor, offset, buffer_);
  if (const auto mismatch = models_[file].compare(offset, bytes, std::span(buffer_).first(count))) {
    files_.fail(path_of(file), models_[file].explain(*mismatch));
  }
}

}  // namespace cw::exerciser
