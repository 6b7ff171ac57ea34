#include "rpcrdma/endpoint/rate_lines.h"

#include <algorithm>

namespace cw::rpcrdma {
namespace {

// So that the cost of a short call does not vanish when it is divided by a weight. An hour is more than any call should cost, and
// keeps the product small: clocks last for years.
constexpr int64_t kScale = 16;
constexpr Duration kCostMax = Duration::seconds(3600);

}  // namespace

void SharedRates::set(uint64_t calls_per_second, uint64_t bytes_per_second) const {
  calls->set(calls_per_second);
  bytes->set(bytes_per_second);
}

Instant SharedRates::next_at() const {
  return std::max(calls->next_at(), bytes->next_at());
}

void SharedRates::charge(Instant now, uint64_t call_bytes) const {
  calls->charge(now, 1);
  bytes->charge(now, call_bytes);
}

void SharedRates::settle(Instant now, uint64_t charged_bytes, uint64_t used_bytes) const {
  if (used_bytes < charged_bytes) {
    bytes->refund(charged_bytes - used_bytes);
  } else if (used_bytes > charged_bytes) {
    bytes->charge(now, used_bytes - charged_bytes);
  }
}

Duration SharedRates::cost(uint64_t call_bytes) const {
  return std::max(calls->cost(1), bytes->cost(call_bytes));
}

bool RateLine::may_pass(Instant now) const {
  return shares_->lines_waiting(listener_->number) == 0 && section_->waiting == 0 && next_at() <= now;
}

void RateLine::stand_in(RateWaiter& waiter) {
  if (waiter.is_linked()) {
    return;
  }
  if (waiters_.empty()) {
    if (listener_->waiting.empty()) {
      lines_->turn_.push_back(*listener_);
    }
    listener_->waiting.push_back(*this);
    ++listener_->lines_waiting;
    ++section_->waiting;
    shares_->begin_to_wait(listener_->number, column_);
  }
  waiters_.push_back(waiter);
}

void RateLine::leave(RateWaiter& waiter) {
  if (waiter.is_linked()) {
    waiter.unlink();
    emptied();
  }
}

// If it is: whoever waited last has left.
void RateLine::emptied() {
  if (!waiters_.empty()) {
    return;
  }
  unlink();
  --listener_->lines_waiting;
  --section_->waiting;
  shares_->end_to_wait(listener_->number, column_);
  if (listener_->waiting.empty()) {
    listener_->unlink();
  }
}

void RateLine::charge(Instant now, uint64_t call_bytes) {
  listener_->rates->charge(now, call_bytes);
  if (section_->rates != nullptr) {
    section_->rates->charge(now, call_bytes);
  }
  shares_->go(listener_->number, column_, weighed(call_bytes));
}

void RateLine::settle(Instant now, uint64_t charged_bytes, uint64_t used_bytes) {
  listener_->rates->settle(now, charged_bytes, used_bytes);
  if (section_->rates != nullptr) {
    section_->rates->settle(now, charged_bytes, used_bytes);
  }
  shares_->settle(listener_->number, column_, weighed(used_bytes) - weighed(charged_bytes));
}

void RateLine::count_postponed() {
  ++listener_->calls_postponed;
}

Instant RateLine::next_at() const {
  const Instant of_listener = listener_->rates->next_at();
  return section_->rates == nullptr ? of_listener : std::max(of_listener, section_->rates->next_at());
}

int64_t RateLine::weighed(uint64_t call_bytes) const {
  return std::min(listener_->rates->cost(call_bytes), kCostMax).to_ns() * kScale / section_->weight;
}

void RateLine::refresh() {
  is_on_ = listener_->rates->are_on() || (section_->rates != nullptr && section_->rates->are_on());
}

RateLines::RateLines(std::span<const SharedRates> of_listeners, std::span<const SharedRates> of_sections, RateShares& shares)
    : shares_(shares),
      lines_(of_listeners.size() * (of_sections.size() + 1)),
      sections_(of_sections.size() + 1),
      listeners_(of_listeners.size()) {
  for (size_t i = 0; i < of_listeners.size(); ++i) {
    listeners_[i].rates = &of_listeners[i];
    listeners_[i].number = static_cast<uint32_t>(i);
  }
  for (size_t i = 0; i < of_sections.size(); ++i) {
    sections_[i].rates = &of_sections[i];
  }
}

RateLine& RateLines::line(uint32_t listener, std::optional<uint32_t> section) {
  const size_t column = section.value_or(static_cast<uint32_t>(sections_.size()) - 1);
  std::unique_ptr<RateLine>& line = lines_[listener * sections_.size() + column];
  if (line == nullptr) {
    line = std::make_unique<RateLine>();
    line->lines_ = this;
    line->listener_ = &listeners_[listener];
    line->section_ = &sections_[column];
    line->shares_ = &shares_;
    line->column_ = static_cast<uint32_t>(column);
    line->refresh();
  }
  return *line;
}

void RateLines::reconfigure() {
  shares_.forget();
  for (const std::unique_ptr<RateLine>& line : lines_) {
    if (line != nullptr) {
      line->refresh();
    }
  }
}

// nullptr: none may go.
RateLine* RateLines::first_of(RateLine::Listener& listener, Instant now) {
  RateLine* first = nullptr;
  for (RateLine* line = listener.waiting.front(); line != nullptr; line = listener.waiting.next(*line)) {
    const bool is_before = first == nullptr || line->clock() < first->clock();
    first = is_before && line->next_at() <= now ? line : first;
  }
  return first != nullptr && gives_way(listener, *first, now) ? nullptr : first;
}

// None of this core is further behind than `line` and may go.
bool RateLines::gives_way(const RateLine::Listener& listener, const RateLine& line, Instant now) const {
  if (shares_.lines_waiting(listener.number) <= listener.lines_waiting || line.next_at() + kGiveWay <= now) {
    return false;
  }
  const int64_t clock = line.clock();
  for (size_t i = 0; i < sections_.size(); ++i) {
    if (shares_.is_waiting(listener.number, i) && shares_.clock(listener.number, i) < clock &&
        (sections_[i].rates == nullptr || sections_[i].rates->next_at() <= now)) {
      return true;
    }
  }
  return false;
}

std::optional<uint64_t> RateLines::next(Instant now) {
  looked_at_ = now;
  for (RateLine::Listener* listener = turn_.front(); listener != nullptr; listener = turn_.next(*listener)) {
    if (RateLine* line = first_of(*listener, now)) {
      listener->unlink();
      turn_.push_back(*listener);
      const uint64_t owner = line->waiters_.pop_front()->owner;
      line->emptied();
      return owner;
    }
  }
  return std::nullopt;
}

Instant RateLines::next_deadline() const {
  if (turn_.empty()) [[likely]] {
    return Instant::never();
  }
  Instant next = looked_at_ + kLook;
  for (const RateLine::Listener* listener = turn_.front(); listener != nullptr; listener = turn_.next(*listener)) {
    for (const RateLine* line = listener->waiting.front(); line != nullptr; line = listener->waiting.next(*line)) {
      const Instant due = line->next_at();
      next = earlier(next, due > looked_at_ ? due : looked_at_ + kGlance);
    }
  }
  return next;
}

}  // namespace cw::rpcrdma
