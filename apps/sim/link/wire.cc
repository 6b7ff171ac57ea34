#include "apps/sim/link/wire.h"

#include <algorithm>

namespace cw::sim {
namespace {

bool later(const Arrival& a, const Arrival& b) {
  return a.at != b.at ? b.at < a.at : b.number < a.number;
}

}  // namespace

void Flight::add(Arrival&& frame) {
  frame.number = number_++;
  heap_.push_back(std::move(frame));
  std::push_heap(heap_.begin(), heap_.end(), later);
}

bool Flight::take(Instant now, Arrival& out) {
  if (heap_.empty() || heap_.front().at > now) {
    return false;
  }
  std::pop_heap(heap_.begin(), heap_.end(), later);
  out = std::move(heap_.back());
  heap_.pop_back();
  return true;
}

void Wire::push(Instant now, Transit&& frame) {
  Instant at = now + delay_ + frame.hold;
  if (!frame.overtakes) {
    at = std::max(at, last_);
    last_ = at;
  }
  Arrival arrival;
  arrival.at = at;
  arrival.from = frame.from;
  arrival.to = frame.to;
  arrival.copied = frame.copied;
  arrival.sent_at = frame.sent_at;
  arrival.raw = std::move(frame.raw);
  flight_.add(std::move(arrival));
}

}  // namespace cw::sim
