// Packets that came ahead of a missing one, kept as the frames they arrived in until it is their turn. One per queue pair and
// direction, from a slab, and only while there is a gap.
//
// Bounds: kSpan packets; how many all queue pairs of a core hold together is the caller's to limit (HeldBudget). Ownership: owns
// the frames.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "base/assert.h"
#include "base/buffer.h"
#include "base/time.h"
#include "rocev2/wire/gap_report.h"
#include "rocev2/wire/psn.h"

namespace cw::rc {

// Towards a peer that goes back to every sequence NAK: how long it is not told of the gap, because what is missing may only be
// late (responder_hold.h).
struct GapWait {
  Instant since;     // something that was sent later came then
  Instant again_at;  // the answer to the last NAK has come or has been lost; 0: there was none
  bool told = true;  // nothing waits
};

class HeldPackets {
 public:
  // The missing packet and those behind it.
  static constexpr uint32_t kSpan = wire::GapReport::kBits;

  HeldPackets() = default;
  HeldPackets(const HeldPackets&) = delete;
  HeldPackets& operator=(const HeldPackets&) = delete;
  ~HeldPackets() { CW_DASSERT(count_ == 0); }

  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] uint32_t count() const { return count_; }
  // The furthest ever held. Valid when put() has been called.
  [[nodiscard]] wire::Psn highest() const { return highest_; }
  // Precondition of the following three: the PSN lies less than kSpan behind the missing one.
  [[nodiscard]] bool has(wire::Psn psn) const { return frames_[slot_of(psn)] != nullptr; }
  // Precondition: !has(psn).
  void put(wire::Psn psn, Buffer* frame) {
    CW_DASSERT(!has(psn));
    highest_ = count_ == 0 || highest_.distance_to(psn) > 0 ? psn : highest_;
    frames_[slot_of(psn)] = frame;
    ++count_;
  }
  // The frame, now the caller's, or nullptr.
  [[nodiscard]] Buffer* take(wire::Psn psn) {
    Buffer* frame = std::exchange(frames_[slot_of(psn)], nullptr);
    count_ -= frame != nullptr ? 1 : 0;
    return frame;
  }
  // What is held behind `missing`.
  [[nodiscard]] wire::GapReport report(wire::Psn missing) const {
    wire::GapReport report;
    const int32_t furthest = count_ == 0 ? 0 : missing.distance_to(highest_);
    for (int32_t ahead = 1; ahead <= furthest; ++ahead) {
      if (has(missing.plus(static_cast<uint32_t>(ahead)))) {
        report.set(static_cast<uint32_t>(ahead - 1));
      }
    }
    return report;
  }
  // All frames, as a list for release_buffers; how many there were is left to count() before.
  [[nodiscard]] Buffer* take_all() {
    Buffer* list = nullptr;
    for (Buffer*& frame : frames_) {
      if (frame != nullptr) {
        frame->next = list;
        list = std::exchange(frame, nullptr);
      }
    }
    count_ = 0;
    return list;
  }

  GapWait wait;
  Instant gap_since;  // nothing has been executed since, although something is held

 private:
  [[nodiscard]] static uint32_t slot_of(wire::Psn psn) { return psn.value() % kSpan; }

  std::array<Buffer*, kSpan> frames_{};
  wire::Psn highest_;
  uint32_t count_ = 0;
};

}  // namespace cw::rc
