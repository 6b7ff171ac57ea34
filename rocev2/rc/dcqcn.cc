#include "rocev2/rc/dcqcn.h"

#include <algorithm>

namespace cw::rc {
namespace {

// After so many intervals everything has settled; a queue pair that was silent for longer need not be followed step by step.
constexpr int64_t kStepsMax = 4096;

// Steps of additive and of hyper increase, as parts of the line rate: 80 Mb/s and 400 Mb/s at 10 Gb/s.
constexpr uint64_t kAdditiveDivisor = 128;
constexpr uint64_t kHyperDivisor = 25;

// A round trip longer than this is no reason to wait longer for the next cut.
constexpr Duration kRoundTripMax = Duration::ms(1);

}  // namespace

Dcqcn::Dcqcn(Instant now, const DcqcnLimits& limits)
    : limits_(limits),
      rate_(limits.line_rate),
      target_rate_(limits.line_rate),
      cut_at_(now + Duration::ns(-kRoundTripMax.to_ns())),
      alpha_at_(now),
      rise_at_(now),
      next_send_at_(now) {
  limits_.floor_rate = std::min(limits_.floor_rate, limits_.line_rate);
}

bool Dcqcn::on_cnp(Instant now, Duration round_trip) {
  catch_up(now);
  if (now - cut_at_ < std::max(kCutInterval, std::min(round_trip, kRoundTripMax))) {
    return false;
  }
  target_rate_ = rate_;
  const uint64_t cut = rate_ * alpha_ / (2 * kAlphaOne);  // below 2^53: rates are below 2^37
  rate_ = std::max(rate_ - cut, limits_.floor_rate);
  alpha_ += (kAlphaOne - alpha_) >> kAlphaShift;
  cut_at_ = now;
  alpha_at_ = now;
  rise_at_ = now;
  bytes_since_rise_ = 0;
  rises_by_time_ = 0;
  rises_by_bytes_ = 0;
  return true;
}

void Dcqcn::on_sent(Instant now, uint64_t bytes) {
  catch_up(now);
  bytes_since_rise_ += bytes;
  if (bytes_since_rise_ >= kRiseBytes) {
    bytes_since_rise_ = 0;
    ++rises_by_bytes_;
    rise();
  }
  const Instant earliest = now + Duration::ns(-kLag.to_ns());
  const auto takes_ns = static_cast<int64_t>(bytes * 1'000'000'000 / rate_);
  next_send_at_ = std::max(next_send_at_, earliest) + Duration::ns(takes_ns);
}

bool Dcqcn::is_over(Instant now) {
  catch_up(now);
  return rate_ >= limits_.line_rate && now - next_send_at_ >= kQuiet;
}

void Dcqcn::catch_up(Instant now) {
  const int64_t alpha_steps = std::min((now - alpha_at_).to_ns() / kAlphaInterval.to_ns(), kStepsMax);
  for (int64_t i = 0; i < alpha_steps && alpha_ > 0; ++i) {
    alpha_ -= std::max(1u, alpha_ >> kAlphaShift);
  }
  if (alpha_steps > 0) {
    alpha_at_ = now;
  }
  const int64_t rise_steps = std::min((now - rise_at_).to_ns() / kRiseInterval.to_ns(), kStepsMax);
  for (int64_t i = 0; i < rise_steps && rate_ < limits_.line_rate; ++i) {
    ++rises_by_time_;
    rise();
  }
  if (rise_steps > 0) {
    rise_at_ = now;
  }
}

void Dcqcn::rise() {
  const uint32_t least = std::min(rises_by_time_, rises_by_bytes_);
  const uint32_t most = std::max(rises_by_time_, rises_by_bytes_);
  if (least > kFastRecoverySteps || rises_by_time_ > kCalmSteps) {
    target_rate_ += limits_.line_rate / kHyperDivisor;
  } else if (most > kFastRecoverySteps) {
    target_rate_ += limits_.line_rate / kAdditiveDivisor;
  }
  target_rate_ = std::min(target_rate_, limits_.line_rate);
  // The last step is rounded up, or the rate would come close to the line's for ever.
  rate_ = target_rate_ - (target_rate_ - rate_) / 2;
  if (limits_.line_rate - rate_ < limits_.line_rate / 1024) {
    rate_ = limits_.line_rate;
  }
}

}  // namespace cw::rc
