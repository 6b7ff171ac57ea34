// The tail probe (RFC 8985, section 7): the oldest packet sent again, alone, after some silence. When it goes out, and what its
// answer means, stands in retransmit.h.
//
// A peer whose core sleeps, or shares its CPU, answers late and has lost nothing. Its answers behind probes are no samples of the
// round trip (Karn's algorithm), so that alone would not teach the requester to wait. Patience does: it doubles the wait when a
// probe proves needless, or several in a row were answered by an acknowledgement of all that was under way. It is given back
// slowly while answers need no probe, and at once when something is sent again: where packets are lost, probes are to be quick.
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"
#include "rocev2/wire/psn.h"

namespace cw::rc {

class TailProbe {
 public:
  struct Sent {
    wire::Psn psn;
    Instant at;
  };

  // Probes since the last sign of progress.
  [[nodiscard]] uint8_t count() const { return count_; }
  // The oldest packet is to be sent again, once, whatever the cursor says.
  [[nodiscard]] bool is_due() const { return due_; }
  // The probe that has been sent and not been answered.
  [[nodiscard]] std::optional<Sent> outstanding() const {
    return outstanding_ ? std::optional<Sent>({psn_, sent_at_}) : std::nullopt;
  }

  void schedule() {
    ++count_;
    due_ = true;
  }
  // There is no need for the one that is due.
  void unschedule() { due_ = false; }
  void on_sent(wire::Psn psn, Instant now) {
    due_ = false;
    outstanding_ = true;
    psn_ = psn;
    sent_at_ = now;
  }
  // It has been answered, or cannot be any more.
  void settle() { outstanding_ = false; }
  // The peer lives: the next probe waits no longer than the first.
  void restart_count() { count_ = 0; }
  // None has been sent since the last progress, and nothing is left to be learned from earlier ones: on_progress() once is as
  // good as many times.
  [[nodiscard]] bool is_at_rest() const { return !outstanding_ && (count_ | patience_ | run_) == 0; }
  // So many times the wait before a probe is doubled.
  [[nodiscard]] uint8_t patience() const { return patience_; }
  // The oldest packet has been answered: a probe that is due would repeat another. `least_answer_time`: what is sent now is not
  // answered before that. `all`: nothing that was sent is unanswered.
  void on_progress(Instant now, Duration least_answer_time, bool all) {
    if (count_ != 0) {
      learn(outstanding_ && now - sent_at_ < least_answer_time, all);
    } else if ((patience_ | run_) != 0) {
      calm_down();
    }
    count_ = 0;
    due_ = false;
  }
  // Everything is sent again, or nothing.
  void cancel() {
    due_ = false;
    outstanding_ = false;
    patience_ = 0;
    run_ = 0;
  }

 private:
  static constexpr uint8_t kPatienceMax = 4;   // 3.2 ms at least: more than a core sleeps or is kept from its CPU for a moment
  static constexpr uint8_t kAnsweredRuns = 4;  // probes in a row that may have been answered for the sake of a lost packet each

  void learn(bool needless, bool all) {
    calm_ = 0;
    if (!all) {
      run_ = 0;
    } else if (!needless && run_ + 1 < kAnsweredRuns) {
      ++run_;
    } else if (patience_ < kPatienceMax) {
      ++patience_;
      run_ = 0;
    }
  }
  void calm_down() {
    run_ = 0;
    if (patience_ != 0 && ++calm_ == 0) {
      --patience_;
    }
  }

  Instant sent_at_;  // this and the next: valid when outstanding_
  wire::Psn psn_;
  uint8_t count_ = 0;
  bool due_ : 1 = false;
  bool outstanding_ : 1 = false;
  uint8_t patience_ : 4 = 0;
  uint8_t run_ : 4 = 0;  // probes since the last answer that needed none
  uint8_t calm_ = 0;     // answers that needed none, since the last probe or change of patience; wraps
};
static_assert(sizeof(TailProbe) == 16);  // every queue pair has one

}  // namespace cw::rc
