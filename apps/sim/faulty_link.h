// A link between simulated nodes: carries frames as bytes, with seeded loss, duplication, reordering, corruption, delay and ECN
// marks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/time.h"
#include "rocev2/wire/tx_batch.h"

namespace cw::sim {

// Probabilities in 1/1000.
struct LinkFaults {
  uint32_t loss = 0;
  uint32_t duplicate = 0;
  uint32_t reorder = 0;  // held back by up to reorder_by
  uint32_t corrupt = 0;  // one bit flipped
  uint32_t mark = 0;     // ECN Congestion Experienced (what the iCRC does not cover)
  Duration delay = Duration::us(2);
  Duration jitter = Duration::ns(0);  // keeps the order
  Duration reorder_by = Duration::us(20);
  Duration scatter = Duration::ns(0);  // each frame takes up to so much longer than the delay, whatever left before it
  uint32_t behind = 0;                 // held back until behind_frames others that left later have gone past
  uint32_t behind_frames = 0;
  Duration behind_at_most = Duration::us(100);  // however few go past
  // A link of finite rate queues what it cannot send yet, each direction by itself.
  uint64_t bytes_per_second = 0;  // 0: as fast as one likes
  uint64_t queue_bytes_max = 0;   // what does not fit is lost; 0: no bound
  uint64_t mark_queue_bytes = 0;  // packets that meet a longer queue are marked Congestion Experienced; 0: none
};

struct Frame {
  Instant at;
  uint64_t number = 0;  // ties are broken by age
  uint32_t to = 0;      // node index
  std::vector<uint8_t> raw;
};

// Congestion Experienced in an IPv4 frame, checksum adjusted.
inline void mark_ipv4(MutableBytes frame) {
  frame[15] |= 3;
  frame[24] = 0;
  frame[25] = 0;
  uint32_t sum = 0;
  for (size_t i = 14; i < 34; i += 2) {
    sum += load_be16(frame.data() + i);
  }
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  store_be16(frame.data() + 24, static_cast<uint16_t>(~sum));
}

class FaultyLink {
 public:
  explicit FaultyLink(uint64_t seed) : random_(seed) {}

  LinkFaults faults;
  // Set by a test to see every frame, and to swallow it by returning false.
  bool (*tap)(void* context, Instant now, uint32_t to, const std::vector<uint8_t>& raw) = nullptr;
  void* tap_context = nullptr;

  void send(Instant now, uint32_t to, const std::vector<uint8_t>& raw) {
    ++sent_;
    if (tap != nullptr && !tap(tap_context, now, to, raw)) {
      return;
    }
    if (chance(faults.loss)) {
      (void)take_line(now, to, raw.size());  // lost at the far end
      return;
    }
    const uint32_t copies = chance(faults.duplicate) ? 2 : 1;
    for (uint32_t i = 0; i < copies; ++i) {
      enqueue(now, to, raw);
    }
  }
  [[nodiscard]] bool empty() const { return in_flight_.empty() && held_.empty(); }
  [[nodiscard]] Instant next_at() const {
    Instant next = in_flight_.empty() ? Instant::never() : in_flight_.front().at;
    for (const Held& held : held_) {
      next = earlier(next, held.frame.at);
    }
    return next;
  }
  // Precondition: !empty().
  [[nodiscard]] Frame take() {
    for (size_t i = 0; i < held_.size(); ++i) {
      if (in_flight_.empty() || held_[i].frame.at < in_flight_.front().at) {
        release_held(i, held_[i].frame.at);
        break;
      }
    }
    std::pop_heap(in_flight_.begin(), in_flight_.end(), later);
    Frame frame = std::move(in_flight_.back());
    in_flight_.pop_back();
    return frame;
  }
  [[nodiscard]] uint64_t sent() const { return sent_; }
  [[nodiscard]] uint64_t overflows() const { return overflows_; }  // lost because queue_bytes_max was reached

 private:
  static bool later(const Frame& a, const Frame& b) { return a.at != b.at ? b.at < a.at : b.number < a.number; }
  bool chance(uint32_t permille) { return permille > 0 && random_.next_below(1000) < permille; }

  struct Departure {
    Instant at;
    bool fits = true;
    bool congested = false;
  };
  // A frame of so many bytes has to pass the line.
  Departure take_line(Instant now, uint32_t to, size_t frame_bytes) {
    if (faults.bytes_per_second == 0) {
      return {.at = now};
    }
    constexpr int64_t kNsPerSecond = 1'000'000'000;
    constexpr int64_t kFramingBytes = 24;  // preamble, frame check sequence and gap between frames
    const int64_t rate = static_cast<int64_t>(faults.bytes_per_second);
    const Instant begin = std::max(now, free_at_[to]);
    const uint64_t queue_bytes = static_cast<uint64_t>((begin - now).to_ns() * rate / kNsPerSecond);
    if (faults.queue_bytes_max > 0 && queue_bytes + frame_bytes > faults.queue_bytes_max) {
      ++overflows_;
      return {.at = now, .fits = false};
    }
    free_at_[to] = begin + Duration::ns((static_cast<int64_t>(frame_bytes) + kFramingBytes) * kNsPerSecond / rate);
    return {.at = free_at_[to], .congested = faults.mark_queue_bytes > 0 && queue_bytes > faults.mark_queue_bytes};
  }

  struct Held {
    Frame frame;  // at: when it goes at the latest
    uint32_t behind = 0;
  };
  void release_held(size_t index, Instant at) {
    Frame frame = std::move(held_[index].frame);
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(index));
    frame.at = at;
    frame.number = number_++;
    put_in_flight(std::move(frame));
  }
  void put_in_flight(Frame&& frame) {
    in_flight_.push_back(std::move(frame));
    std::push_heap(in_flight_.begin(), in_flight_.end(), later);
  }
  // A frame that arrives at `at` goes past those that are held.
  void go_past(uint32_t to, Instant at) {
    for (size_t i = 0; i < held_.size();) {
      if (held_[i].frame.to == to && --held_[i].behind == 0) {
        release_held(i, earlier(at, held_[i].frame.at));
      } else {
        ++i;
      }
    }
  }

  void enqueue(Instant now, uint32_t to, std::vector<uint8_t> raw) {
    const Departure departure = take_line(now, to, raw.size());
    if (!departure.fits) {
      return;
    }
    Instant at = departure.at + faults.delay;
    if (faults.jitter > Duration()) {
      at = at + Duration::ns(random_.next_below(static_cast<uint32_t>(faults.jitter.to_ns())));
    }
    if (faults.scatter > Duration()) {
      at = at + Duration::ns(random_.next_below(static_cast<uint32_t>(faults.scatter.to_ns())));
    } else if (chance(faults.reorder)) {
      at = at + Duration::ns(random_.next_below(static_cast<uint32_t>(faults.reorder_by.to_ns())));
    } else {
      at = std::max(at, last_at_[to]);
      last_at_[to] = at;
    }
    if (chance(faults.corrupt)) {
      raw[random_.next_below(static_cast<uint32_t>(raw.size()))] ^= static_cast<uint8_t>(1u << random_.next_below(8));
    } else if ((departure.congested || chance(faults.mark)) && raw[12] == 0x08 && raw[13] == 0x00) {
      mark_ipv4(raw);
    }
    if (chance(faults.behind)) {
      held_.push_back({Frame{at + faults.behind_at_most, number_++, to, std::move(raw)}, faults.behind_frames});
      return;
    }
    put_in_flight(Frame{at, number_++, to, std::move(raw)});
    go_past(to, at);
  }
  SeededRandom random_;
  std::vector<Frame> in_flight_;  // heap
  std::vector<Held> held_;
  Instant last_at_[2];
  Instant free_at_[2];  // when the last frame queued has left
  uint64_t number_ = 0;
  uint64_t sent_ = 0;
  uint64_t overflows_ = 0;
};

}  // namespace cw::sim
