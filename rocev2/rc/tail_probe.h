// The tail probe (RFC 8985, section 7): the oldest packet sent again, alone, after some silence. When it goes out, and what its
// answer means, stands in retransmit.h.
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
  // The oldest packet has been answered: a probe that is due would repeat another.
  void on_progress() {
    count_ = 0;
    due_ = false;
  }
  // Everything is sent again, or nothing.
  void cancel() {
    due_ = false;
    outstanding_ = false;
  }

 private:
  Instant sent_at_;  // this and the next: valid when outstanding_
  wire::Psn psn_;
  uint8_t count_ = 0;
  bool due_ = false;
  bool outstanding_ = false;
};

}  // namespace cw::rc
