#include "tests/exerciser/pair_work.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <thread>

#include "tests/exerciser/manifest.h"
#include "tests/exerciser/pattern.h"

namespace cw::exerciser {

// Longer than the tick of a file system's clock: 10 ms with the slowest kernel.
constexpr auto kTick = std::chrono::milliseconds(25);
constexpr uint64_t kBytesMax = 200'000;

PairWork::PairWork(Run& run, const std::string& one_side, const std::string& other_side)
    : run_(run), sides_{Files(run, one_side), Files(run, other_side)}, dice_(scramble(run.options().seed) ^ 0x70616972) {
  for (unsigned file = 0; file < kFiles; ++file) {
    sides_[0].create(path_of(file), 0644);
  }
}

void PairWork::operate() {
  // A round is as much work as several operations of a worker.
  for (uint64_t number = 1; !run_.over(4 * (number - 1)); ++number) {
    const auto file = static_cast<unsigned>(dice_.below(kFiles));
    const uint64_t writer = dice_.below(2);
    std::this_thread::sleep_for(kTick);
    write(sides_[writer], models_[file], path_of(file), number);
    read(sides_[1 - writer], models_[file], path_of(file), dice_.chance(20));
  }
}

void PairWork::write(Files& side, FileModel& model, const std::string& path, uint64_t number) {
  run_.count("close after change");
  side.concern(&model);
  const bool append = dice_.chance(25) && model.size() < kBytesMax;
  Descriptor descriptor = side.open(path, O_RDWR | (append ? O_APPEND : 0));
  if (!append && dice_.chance(20)) {
    const uint64_t size = dice_.below(kBytesMax);
    model.resize({number, "truncate to", size});
    side.must(ftruncate(descriptor.get(), static_cast<off_t>(size)) == 0, path, "ftruncate");
  }
  const uint64_t offset = append ? model.size() : dice_.below(std::min(model.size() + 1, kBytesMax));
  const uint64_t key = scramble(run_.options().seed + number) ^ 0x70616972;
  buffer_.resize(dice_.length(kBytesMax));
  fill_pattern(key, offset, buffer_);
  model.write({number, append ? "append" : "write", offset, buffer_.size(), key});
  side.write(path, descriptor.get(), offset, buffer_, append);
  side.close(path, descriptor);
  side.concern(nullptr);
}

void PairWork::read(Files& side, FileModel& model, const std::string& path, bool direct) {
  run_.count("open and compare");
  side.concern(&model);
  Descriptor descriptor = side.open(path, O_RDONLY | (direct && side.is_nfs() ? O_DIRECT : 0));
  const auto size = static_cast<uint64_t>(side.status(path, descriptor.get()).st_size);
  if (size != model.size()) {
    side.fail(path,
              "size after the other side's close: expected " + std::to_string(model.size()) + ", got " + std::to_string(size));
  }
  buffer_.resize(model.size() + 1);
  const size_t count = side.read(path, descriptor.get(), 0, buffer_);
  if (const auto mismatch = model.compare(0, buffer_.size(), std::span(buffer_).first(count))) {
    side.fail(path, "after the other side's close, " + model.explain(*mismatch));
  }
  side.close(path, descriptor);
  side.concern(nullptr);
}

void PairWork::verify_all() {
  for (Files& side : sides_) {
    for (unsigned file = 0; file < kFiles; ++file) {
      read(side, models_[file], path_of(file), false);
    }
  }
}

void PairWork::list(std::string& manifest, const std::string& prefix) const {
  for (unsigned file = 0; file < kFiles; ++file) {
    manifest += manifest_line(models_[file].bytes(), prefix + path_of(file));
  }
}

}  // namespace cw::exerciser
