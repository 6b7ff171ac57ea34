#include "apps/load/arrival_schedule.h"

#include <cmath>

#include "base/assert.h"

namespace cw::load {
namespace {

// Beyond this many even arrivals the place from which the area is counted moves on: the area of a long run would lose digits.
constexpr double kAreaMax = 1e6;

}  // namespace

void ArrivalSchedule::start(Instant now) {
  start_ = now;
  from_ = Duration();
  area_ = 0;
  draw();
}

void ArrivalSchedule::take() {
  CW_DASSERT(!next_.is_never());
  if (--left_ == 0) {
    draw();
  }
}

void ArrivalSchedule::draw() {
  left_ = burst_;
  double step = burst_;
  if (arrivals_ == Arrivals::kPoisson) {
    // (0, 1]: the logarithm is finite.
    const double uniform = (static_cast<double>(random_.next_u64() >> 11) + 1) * 0x1p-53;
    step *= -std::log(uniform);
  }
  area_ += step;
  const auto at = rate_.when_area(from_, area_);
  next_ = at ? start_ + *at : Instant::never();
  if (at && (arrivals_ == Arrivals::kPoisson || area_ >= kAreaMax)) {
    from_ = *at;
    area_ = 0;
  }
}

}  // namespace cw::load
