#include "dataplane/rnic/request_dealer.h"

#include <sys/eventfd.h>

#include "base/assert.h"

namespace cw::dataplane {

RequestDealer::RequestDealer(uint32_t cores) : count_(cores), boxes_(std::make_unique<Box[]>(cores)) {
  for (uint32_t i = 0; i < cores; ++i) {
    boxes_[i].bell = control::UniqueFd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    CW_ASSERT(boxes_[i].bell.valid());
    boxes_[i].waiting.reserve(kWaitingMax);
  }
}

uint32_t RequestDealer::choose(uint32_t own) const {
  uint32_t best = own;
  uint32_t fewest = boxes_[own].connections.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < count_; ++i) {
    if (const uint32_t have = boxes_[i].connections.load(std::memory_order_relaxed); have < fewest) {
      best = i;
      fewest = have;
    }
  }
  return best;
}

bool RequestDealer::give(uint32_t core, const DealtRequest& request) {
  Box& box = boxes_[core];
  const std::lock_guard lock(box.mutex);
  if (box.waiting.size() == kWaitingMax) {
    return false;
  }
  box.waiting.push_back(request);
  box.connections.fetch_add(1, std::memory_order_relaxed);
  (void)eventfd_write(box.bell.get(), 1);
  return true;
}

// Precondition: the box is locked, and something is in it.
DealtRequest RequestDealer::take_first(Box& box) {
  const DealtRequest request = box.waiting.front();
  box.waiting.erase(box.waiting.begin());
  box.connections.fetch_sub(1, std::memory_order_relaxed);
  if (box.waiting.empty()) {
    eventfd_t ignored = 0;
    (void)eventfd_read(box.bell.get(), &ignored);
  }
  return request;
}

std::optional<DealtRequest> RequestDealer::take(uint32_t core) {
  Box& box = boxes_[core];
  const std::lock_guard lock(box.mutex);
  return box.waiting.empty() ? std::nullopt : std::optional(take_first(box));
}

std::optional<DealtRequest> RequestDealer::take_late(Instant now, uint32_t own, Duration patience) {
  for (uint32_t i = 0; i < count_; ++i) {
    Box& box = boxes_[i];
    const std::lock_guard lock(box.mutex);
    if (i != own && !box.waiting.empty() && box.waiting.front().dealt_at + patience <= now) {
      return take_first(box);
    }
  }
  return std::nullopt;
}

}  // namespace cw::dataplane
