#include "apps/sim/link/losses.h"

namespace cw::sim {

void Loss::act(Instant now, Transit&& frame) {
  if (chance(permille_)) {
    hit();
    return;
  }
  pass(now, std::move(frame));
}

void BurstLoss::act(Instant now, Transit&& frame) {
  bad_ = bad_ ? random().next_below(length_) != 0 : chance(permille_);
  if (bad_) {
    hit();
    return;
  }
  pass(now, std::move(frame));
}

void Partition::act(Instant, Transit&&) {
  hit();
}

void MtuLimit::act(Instant now, Transit&& frame) {
  if (frame.raw.size() > bytes_max_) {
    hit();
    return;
  }
  pass(now, std::move(frame));
}

}  // namespace cw::sim
