#include "apps/sim/guarded_memory.h"

#include <algorithm>
#include <cstring>

namespace cw::sim {
namespace {

constexpr uint8_t kGuard = 0xc3;
constexpr uint8_t kDead = 0xa5;

bool all(const uint8_t* at, size_t count, uint8_t value) {
  return count == 0 || (*at == value && std::memcmp(at, at + 1, count - 1) == 0);
}

}  // namespace

void GuardedMemory::resize(Area area, uint32_t bytes) {
  sizes_[static_cast<size_t>(area)] = bytes;
}

void GuardedMemory::lay_out() {
  uint32_t at = kGuardBytes;
  for (size_t i = 0; i < kAreas; ++i) {
    offsets_[i] = at;
    at += sizes_[i] + kGuardBytes;
  }
  raw_.assign(at, kGuard);
}

MutableBytes GuardedMemory::of(Area area) {
  const auto i = static_cast<size_t>(area);
  return MutableBytes(raw_).subspan(offsets_[i], sizes_[i]);
}

bool GuardedMemory::guards_hold() const {
  if (raw_.empty()) {
    return true;
  }
  bool hold = all(raw_.data(), kGuardBytes, kGuard);
  for (size_t i = 0; i < kAreas; ++i) {
    hold = hold && all(raw_.data() + offsets_[i] + sizes_[i], kGuardBytes, kGuard);
  }
  return hold;
}

void GuardedMemory::retire() {
  std::fill(raw_.begin(), raw_.end(), kDead);
}

bool GuardedMemory::is_untouched() const {
  return all(raw_.data(), raw_.size(), kDead);
}

void RetiredMemory::retire(GuardedMemory&& memory) {
  if (memory.bytes() == 0) {
    return;
  }
  memory.retire();
  bytes_ += memory.bytes();
  retired_.push_back(std::move(memory));
  while (bytes_ > kBytesMax) {
    touched_ = touched_ || !retired_.front().is_untouched();
    bytes_ -= retired_.front().bytes();
    retired_.pop_front();
  }
}

bool RetiredMemory::is_untouched() const {
  return !touched_ &&
         std::all_of(retired_.begin(), retired_.end(), [](const GuardedMemory& memory) { return memory.is_untouched(); });
}

}  // namespace cw::sim
