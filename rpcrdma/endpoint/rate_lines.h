// Whose call goes next, of those that wait for rates which they share. Of one core.
//
// A call has to keep to two rates: that of the listener that it came in by and that of its client's section. It goes at once
// when both allow it and nobody waits for either. Else its endpoint stands in a line: one call, then it is the next one's turn,
// so that a connection with many calls gets no more than one with a few. There is one line for each listener and section.
// The lines of one listener share its rate by the weights of their sections, as start-time fair queueing does: each line has a
// clock, which its calls move by what they cost the listener, over the weight, and the line whose clock is furthest behind goes
// first. Nobody saves up: a line that has asked for less than its share begins where the others are. Lines whose own section has
// to wait are passed by. Listeners take turns, for a section that comes in by several.
// The rates are those of all cores together (RateLimiter), and so are the clocks (RateShares): a line gives way to one on another
// core that is further behind, for kGiveWay at most, since that core may stand still. Between lines of one section on several
// cores, and for a section's own rate, whoever comes first goes first.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/intrusive_list.h"
#include "base/rate_limiter.h"
#include "base/time.h"
#include "rpcrdma/endpoint/rate_shares.h"

namespace cw::rpcrdma {

// How fast several endpoints may go together, of several threads too.
struct SharedRates {
  RateLimiter* calls = nullptr;
  RateLimiter* bytes = nullptr;  // of calls and replies, chunks included
  // Each 0: no limit.
  void set(uint64_t calls_per_second, uint64_t bytes_per_second) const;
  [[nodiscard]] bool are_on() const { return calls->is_on() || bytes->is_on(); }
  [[nodiscard]] Instant next_at() const;
  void charge(Instant now, uint64_t call_bytes) const;
  void settle(Instant now, uint64_t charged_bytes, uint64_t used_bytes) const;
  // Of a call: what it moves the slower of the two clocks by.
  [[nodiscard]] Duration cost(uint64_t call_bytes) const;
};

struct RateWaiterTag {};
// An endpoint that waits.
struct RateWaiter : ListNode<RateWaiterTag> {
  uint64_t owner = 0;  // the owner's number for it: RateLines::next()
};

class RateLines;
struct RateLineTag {};
struct RatedListenerTag {};

// Of the endpoints that have come in by one listener and whose clients are of one section, or of none.
class RateLine : public ListNode<RateLineTag> {
 public:
  // A rate was on at the last reconfigure(). What every call looks at.
  [[nodiscard]] bool are_on() const { return is_on_; }
  // Whether a call may go at once, without standing in line.
  [[nodiscard]] bool may_pass(Instant now) const;
  // At the end, unless it stands there already.
  void stand_in(RateWaiter& waiter);
  void leave(RateWaiter& waiter);
  // A call goes, which may have so many bytes with its reply.
  void charge(Instant now, uint64_t call_bytes);
  // It has had so many.
  void settle(Instant now, uint64_t charged_bytes, uint64_t used_bytes);
  // A call has to wait, for whatever reason.
  void count_postponed();

 private:
  friend class RateLines;
  struct Listener : ListNode<RatedListenerTag> {
    const SharedRates* rates = nullptr;
    uint32_t number = 0;
    IntrusiveList<RateLine, RateLineTag> waiting;  // lines with waiters
    uint32_t lines_waiting = 0;                    // their count
    uint64_t calls_postponed = 0;
  };
  struct Section {
    const SharedRates* rates = nullptr;  // nullptr: of no section
    uint32_t weight = 1;
    uint32_t waiting = 0;  // lines with waiters
  };

  [[nodiscard]] Instant next_at() const;
  [[nodiscard]] int64_t weighed(uint64_t call_bytes) const;
  [[nodiscard]] int64_t clock() const { return shares_->clock(listener_->number, column_); }
  void refresh();
  void emptied();

  RateLines* lines_ = nullptr;
  Listener* listener_ = nullptr;
  Section* section_ = nullptr;
  bool is_on_ = false;
  RateShares* shares_ = nullptr;
  uint32_t column_ = 0;  // the section's number there
  IntrusiveList<RateWaiter, RateWaiterTag> waiters_;
};

class RateLines {
 public:
  // Nothing tells when a rate has been set, or when another core gives back what it did not need: who waits looks at least so
  // often, before what is saved up is lost (RateLimiter::kBurst).
  static constexpr Duration kLook = Duration::ms(10);

  // How long a call that may go gives way to one on another core, and how often its core looks meanwhile.
  static constexpr Duration kGiveWay = Duration::ms(2);
  static constexpr Duration kGlance = Duration::us(20);

  // By number; they outlive the lines, and `shares` has a section more than `of_sections`.
  RateLines(std::span<const SharedRates> of_listeners, std::span<const SharedRates> of_sections, RateShares& shares);

  // Made with the first connection that asks for it; then it stays.
  [[nodiscard]] RateLine& line(uint32_t listener, std::optional<uint32_t> section);
  // Precondition: 1 or more.
  void set_weight(uint32_t section, uint32_t weight) { sections_[section].weight = weight; }
  // Rates or weights have been set: begins anew with what is owed to whom.
  void reconfigure();

  // The owner of who may go: it has left the line, and is to let one call go. Ask again until there is none.
  [[nodiscard]] std::optional<uint64_t> next(Instant now);
  [[nodiscard]] Instant next_deadline() const;
  [[nodiscard]] uint64_t calls_postponed(uint32_t listener) const { return listeners_[listener].calls_postponed; }

 private:
  friend class RateLine;

  [[nodiscard]] RateLine* first_of(RateLine::Listener& listener, Instant now);
  [[nodiscard]] bool gives_way(const RateLine::Listener& listener, const RateLine& line, Instant now) const;

  RateShares& shares_;
  std::vector<std::unique_ptr<RateLine>> lines_;              // by listener and section; nullptr: nobody has asked for it
  std::vector<RateLine::Section> sections_;                   // the last is of those without one
  std::vector<RateLine::Listener> listeners_;                 // never resized
  IntrusiveList<RateLine::Listener, RatedListenerTag> turn_;  // with lines that wait: who went last is last
  Instant looked_at_;
};

}  // namespace cw::rpcrdma
