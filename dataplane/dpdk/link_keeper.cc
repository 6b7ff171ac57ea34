#include "dataplane/dpdk/link_keeper.h"

#include <chrono>

namespace cw::dataplane {
namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(100);
// A link that has just been started needs a moment for its handshake.
constexpr int kLooksDownMax = 3;

}  // namespace

LinkKeeper::LinkKeeper(std::span<const std::unique_ptr<Port>> ports) {
  for (const auto& port : ports) {
    if (port->must_be_restarted()) {
      kept_.push_back({port.get(), 0});
    }
  }
  if (!kept_.empty()) {
    thread_ = std::thread([this] { run(); });
  }
}

LinkKeeper::~LinkKeeper() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
}

void LinkKeeper::run() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kLookEvery, [this] { return stopping_; })) {
    for (Kept& kept : kept_) {
      look(kept);
    }
  }
}

void LinkKeeper::look(Kept& kept) {
  DeviceLease& lease = kept.port->lease();
  if (lease.is_keepers()) {
    if (kept.port->restart()) {
      kept.looks_down = 0;
      lease.give_back();
    }
    return;
  }
  kept.looks_down = kept.port->link_up() ? 0 : kept.looks_down + 1;
  if (kept.looks_down >= kLooksDownMax) {
    lease.ask();  // the next look finds it handed over, unless nobody polls
  }
}

}  // namespace cw::dataplane
