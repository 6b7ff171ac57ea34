// Recovery by going back: from when the requester has gone back to una until something new is acknowledged.
//
//             start()          note_timeout()
//   normal ───────────▶ went back ───────────▶ timed out        end(), from either: something new has been acknowledged
//                           ▲                     │
//                           └─────────────────────┘  clear_timeout(): an answer has come, though not to una
//
// After a timeout the oldest packet goes first, the others when it has been answered.
#pragma once

#include <cstdint>
#include <optional>

#include "base/assert.h"
#include "base/time.h"
#include "rocev2/wire/psn.h"

namespace cw::rc {

class Recovery {
 public:
  [[nodiscard]] bool is_under_way() const { return phase_ != Phase::kNormal; }
  [[nodiscard]] bool timed_out() const { return phase_ == Phase::kTimedOut; }
  // When it last went back, in this recovery or an earlier one; 0: never.
  [[nodiscard]] Instant went_back_at() const { return went_back_at_; }
  // PSN of the last answer behind a missing READ response since the last progress.
  [[nodiscard]] std::optional<wire::Psn> last_ahead() const {
    return ahead_seen_ ? std::optional<wire::Psn>(last_ahead_) : std::nullopt;
  }

  // Goes back, for the first time or once more.
  void start(Instant now) {
    phase_ = Phase::kWentBack;
    went_back_at_ = now;
  }
  // It has gone back because no answer came in time. Precondition: is_under_way().
  void note_timeout() {
    CW_DASSERT(is_under_way());
    phase_ = Phase::kTimedOut;
  }
  void clear_timeout() { phase_ = timed_out() ? Phase::kWentBack : phase_; }
  // What it went back for leaves only now.
  void postpone(Instant now) { went_back_at_ = now; }
  void note_ahead(wire::Psn psn) {
    ahead_seen_ = true;
    last_ahead_ = psn;
  }
  void end() {
    phase_ = Phase::kNormal;
    ahead_seen_ = false;
  }

 private:
  enum class Phase : uint8_t { kNormal, kWentBack, kTimedOut };

  Instant went_back_at_;
  wire::Psn last_ahead_;  // valid when ahead_seen_
  Phase phase_ = Phase::kNormal;
  bool ahead_seen_ = false;
};

}  // namespace cw::rc
