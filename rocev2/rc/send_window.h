// What has been sent and not been acknowledged, by PSN.
//
//        una                next_psn            limit_psn
//   ------|-------------------|--------------------|----------> PSN
//    acked   sent, in flight     to be sent again     never sent
//
// una <= next_psn <= limit_psn in PSN order, always, but for one moment: what is acknowledged after going back may lie behind
// next_psn, which then catches up. Go-back-N moves next_psn back, to una or to what is missing behind it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/assert.h"
#include "rocev2/wire/psn.h"

namespace cw::rc {

class SendWindow {
 public:
  // READ and atomic responses awaited, which are no packets of ours, and the requests that they are of.
  struct Awaited {
    uint32_t psns = 0;
    uint8_t requests = 0;
  };

  // At most `packets_max` packets are in flight, and `initiator_depth` READ requests and atomics outstanding.
  explicit SendWindow(uint16_t packets_max = 0, uint8_t initiator_depth = 0)
      : packets_max_(packets_max), initiator_depth_(initiator_depth) {}

  [[nodiscard]] wire::Psn una() const { return una_; }              // oldest unacknowledged
  [[nodiscard]] wire::Psn next_psn() const { return next_psn_; }    // of the next packet out
  [[nodiscard]] wire::Psn limit_psn() const { return limit_psn_; }  // one past the highest ever sent
  [[nodiscard]] uint16_t packets_max() const { return packets_max_; }
  [[nodiscard]] uint8_t initiator_depth() const { return initiator_depth_; }
  // PSNs of [una, next_psn) that are of responses.
  [[nodiscard]] uint32_t read_psns() const { return read_psns_; }
  // READ requests and atomics that next_psn has passed and that are not complete.
  [[nodiscard]] uint8_t reads_outstanding() const { return reads_outstanding_; }
  // All PSNs of [una, next_psn).
  [[nodiscard]] uint32_t psns_in_flight() const { return static_cast<uint32_t>(una_.distance_to(next_psn_)); }
  [[nodiscard]] uint32_t packets_in_flight() const { return psns_in_flight() - read_psns_; }
  [[nodiscard]] bool awaiting() const { return una_ != next_psn_; }
  // In [una, limit_psn).
  [[nodiscard]] bool is_outstanding(wire::Psn psn) const { return una_.distance_to(psn) >= 0 && psn.distance_to(limit_psn_) > 0; }

  // Nothing has been sent: the first packet has this PSN. The peer takes no more than `initiator_depth`.
  void begin_at(wire::Psn first, uint8_t initiator_depth) {
    initiator_depth_ = std::min(initiator_depth_, initiator_depth);
    una_ = first;
    next_psn_ = first;
    limit_psn_ = first;
  }
  // The next packet has left and takes `psns` PSNs: those of the responses that it asks for, or one of its own.
  void on_sent(uint32_t psns, bool asks) {
    next_psn_ = next_psn_.plus(psns);
    if (asks) {
      read_psns_ += psns;
      ++reads_outstanding_;
    }
    if (limit_psn_.distance_to(next_psn_) > 0) {
      limit_psn_ = next_psn_;
    }
  }
  // Everything before `una` is acknowledged, and none of it awaits a response. To be followed by catch_up().
  void acknowledge(wire::Psn una) { una_ = una; }
  // The `count` responses from una on have come; `whole`: the last is the last of its request. To be followed by catch_up().
  void on_responses(uint32_t count, bool whole) {
    if (una_.distance_to(next_psn_) > 0) {
      read_psns_ -= count;
      reads_outstanding_ = static_cast<uint8_t>(reads_outstanding_ - (whole ? 1 : 0));
    }
    una_ = una_.plus(count);
  }
  // True when una has overtaken next_psn, which is una now: the cursor has to follow.
  [[nodiscard]] bool catch_up() {
    if (next_psn_.distance_to(una_) <= 0) [[likely]] {
      return false;
    }
    await_nothing();
    return true;
  }
  // Everything from `psn` on is to be sent again; of [una, psn) so much is awaited. Precondition: psn is in [una, limit_psn].
  void go_back_to(wire::Psn psn, Awaited before) {
    next_psn_ = psn;
    read_psns_ = before.psns;
    reads_outstanding_ = before.requests;
    CW_DASSERT(is_consistent());
  }
  // Nothing is awaited any more.
  void abandon() {
    una_ = limit_psn_;
    await_nothing();
  }

  [[nodiscard]] bool is_consistent() const {
    return una_.distance_to(next_psn_) >= 0 && next_psn_.distance_to(limit_psn_) >= 0 &&
           (read_psns_ == 0) == (reads_outstanding_ == 0) && read_psns_ <= psns_in_flight();
  }

 private:
  void await_nothing() {
    next_psn_ = una_;
    read_psns_ = 0;
    reads_outstanding_ = 0;
  }

  wire::Psn una_;
  wire::Psn next_psn_;
  wire::Psn limit_psn_;
  uint32_t read_psns_ = 0;
  uint16_t packets_max_;
  uint8_t initiator_depth_;
  uint8_t reads_outstanding_ = 0;
};

}  // namespace cw::rc
