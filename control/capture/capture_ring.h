// Frames from one poll core to the thread that writes them: bounded, without locks, one producer and one consumer. A frame that
// finds no room is counted and forgotten; the core never waits. A ring that its reader has closed takes nothing, and counts
// nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "base/bytes.h"
#include "control/capture/roce_frame.h"

namespace cw::control::capture {

struct CapturedFrame {
  int64_t at_ns = 0;  // of the poll core's clock
  uint32_t original_bytes = 0;
  bool received = false;
  Bytes raw;  // valid until pop()
};

class CaptureRing {
 public:
  static constexpr uint32_t kSlots = 2048;

  CaptureRing(const FrameFilter& filter, uint32_t snap_bytes)
      : filter_(filter),
        snap_bytes_(snap_bytes),
        heads_(std::make_unique<Head[]>(kSlots)),
        raw_(std::make_unique_for_overwrite<uint8_t[]>(size_t{kSlots} * snap_bytes)) {}

  // Poll core. The frame is the pieces one behind the other; the first holds all headers.
  void offer(int64_t at_ns, std::span<const Bytes> pieces, bool received) {
    if (closed_.load(std::memory_order_relaxed) || !filter_.wants(pieces.front(), received)) {
      return;
    }
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - head_.load(std::memory_order_acquire) == kSlots) {
      dropped_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    const size_t slot = tail % kSlots;
    uint8_t* out = raw_.get() + slot * snap_bytes_;
    Head& head = heads_[slot];
    head = {at_ns, 0, 0, received};
    for (const Bytes piece : pieces) {
      const size_t room = snap_bytes_ - head.bytes;
      const size_t taken = piece.size() < room ? piece.size() : room;
      std::memcpy(out + head.bytes, piece.data(), taken);
      head.bytes += static_cast<uint32_t>(taken);
      head.original_bytes += static_cast<uint32_t>(piece.size());
    }
    tail_.store(tail + 1, std::memory_order_release);
  }

  // Writer. The bytes may be changed in place.
  [[nodiscard]] bool front(CapturedFrame& out, MutableBytes& raw) {
    const uint64_t head = head_.load(std::memory_order_relaxed);
    if (head == tail_.load(std::memory_order_acquire)) {
      return false;
    }
    const size_t slot = head % kSlots;
    raw = {raw_.get() + slot * snap_bytes_, heads_[slot].bytes};
    out = {heads_[slot].at_ns, heads_[slot].original_bytes, heads_[slot].received, raw};
    return true;
  }
  void pop() { head_.store(head_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
  // Writer. It wants no more frames; one that the core is just adding may still come.
  void close() { closed_.store(true, std::memory_order_relaxed); }
  // Frames that found no room while they were wanted.
  [[nodiscard]] uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  struct Head {
    int64_t at_ns = 0;
    uint32_t bytes = 0;
    uint32_t original_bytes = 0;
    bool received = false;
  };
  FrameFilter filter_;
  size_t snap_bytes_;
  std::unique_ptr<Head[]> heads_;
  std::unique_ptr<uint8_t[]> raw_;
  alignas(64) std::atomic<uint64_t> tail_{0};
  std::atomic<uint64_t> dropped_{0};
  std::atomic<bool> closed_{false};
  alignas(64) std::atomic<uint64_t> head_{0};
};

}  // namespace cw::control::capture
