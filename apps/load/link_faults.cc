#include "apps/load/link_faults.h"

#include <type_traits>
#include <utility>

#include "apps/sim/link/damage.h"
#include "apps/sim/link/lies.h"
#include "apps/sim/link/losses.h"
#include "apps/sim/link/timing.h"

namespace cw::load {

FaultyWay::FaultyWay(const LinkFaultOptions& options, FaultDirection way, uint64_t seed)
    : withhold_after_(Duration::ms(options.withheld_after_ms)) {
  if (way == FaultDirection::kOut) {
    to_withhold_ = options.withheld;
  }
  const sim::Window always{Instant::from_ns(0)};
  top_ = std::make_unique<sim::Wire>(flight_, Duration::us(options.delay_us));
  const auto put = [&]<typename D, typename... More>(std::type_identity<D>, bool wanted, More... more) {
    if (wanted) {
      top_ = std::make_unique<D>(std::move(top_), always, seed++, more...);
    }
  };
  put(std::type_identity<sim::Jitter>(), options.jitter_us > 0, Duration::us(options.jitter_us));
  put(std::type_identity<sim::Reorder>(), options.reorder_permille > 0, options.reorder_permille,
      Duration::us(options.reorder_us));
  put(std::type_identity<sim::Duplicate>(), options.duplicate_permille > 0, options.duplicate_permille,
      Duration::us(options.reorder_us));
  put(std::type_identity<sim::Corrupt>(), options.corrupt_permille > 0, options.corrupt_permille);
  put(std::type_identity<sim::Loss>(), options.loss_permille > 0, options.loss_permille);
}

void FaultyWay::push(Instant now, std::vector<uint8_t>&& frame) {
  if (to_withhold_) {
    const sim::Window lie{now + withhold_after_};
    top_ = std::make_unique<sim::Withhold>(std::move(top_), lie, *std::exchange(to_withhold_, std::nullopt), std::nullopt);
  }
  sim::Transit transit;
  transit.raw = std::move(frame);
  top_->push(now, std::move(transit));
}

bool FaultyWay::poll(Instant now, std::vector<uint8_t>& frame) {
  sim::Arrival arrival;
  if (!top_->poll(now, arrival)) {
    return false;
  }
  frame = std::move(arrival.raw);
  return true;
}

}  // namespace cw::load
