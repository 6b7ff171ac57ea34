// A lock-free ring of trivially copyable values between threads, over DPDK's rte_ring with elements of our size. Bounded; bursts.
#pragma once

#include <rte_ring.h>
#include <rte_ring_elem.h>

#include <cstdlib>
#include <memory>
#include <span>
#include <type_traits>

#include "base/assert.h"

namespace cw::dataplane {

enum class RingProducers : uint8_t { kOne, kMany };

// On a line of its own: both threads read where the ring is, and whatever is written beside it would take that from them.
template <typename T>
class alignas(RTE_CACHE_LINE_SIZE) ValueRing {
 public:
  static constexpr unsigned kValueBytes = sizeof(T);  // NOLINT(bugprone-sizeof-expression): a value may be a pointer
  static_assert(std::is_trivially_copyable_v<T> && kValueBytes % 4 == 0);

  // Capacity is rounded up to a power of two less one. One consumer. Needs no EAL.
  ValueRing(const char* name, uint32_t capacity, RingProducers producers) {
    const uint32_t slots = rte_align32pow2(capacity + 1);
    const ssize_t bytes = rte_ring_get_memsize_elem(kValueBytes, slots);
    CW_ASSERT(bytes > 0);
    memory_.reset(static_cast<rte_ring*>(
        std::aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN_CEIL(static_cast<size_t>(bytes), RTE_CACHE_LINE_SIZE))));
    CW_ASSERT(memory_ != nullptr);
    const unsigned flags = RING_F_SC_DEQ | (producers == RingProducers::kOne ? RING_F_SP_ENQ : 0u);
    CW_ASSERT(rte_ring_init(memory_.get(), name, slots, flags) == 0);
  }

  [[nodiscard]] bool push(const T& value) {
    return rte_ring_enqueue_elem(memory_.get(), const_cast<T*>(&value), kValueBytes) == 0;
  }
  // Pushes as many of the values as fit, from the first one, and says how many. `room`: values that could still be pushed then.
  [[nodiscard]] uint32_t push(std::span<const T> values, uint32_t& room) {
    return rte_ring_enqueue_burst_elem(memory_.get(), values.data(), kValueBytes, static_cast<unsigned>(values.size()), &room);
  }
  // Takes up to out.size() values.
  [[nodiscard]] uint32_t pop(std::span<T> out) {
    return rte_ring_dequeue_burst_elem(memory_.get(), out.data(), kValueBytes, static_cast<unsigned>(out.size()), nullptr);
  }
  [[nodiscard]] bool empty() const { return rte_ring_empty(memory_.get()) != 0; }
  // Of the one producer: values that can be pushed now.
  [[nodiscard]] uint32_t room() const { return rte_ring_free_count(memory_.get()); }

 private:
  struct Free {
    void operator()(rte_ring* ring) const { std::free(ring); }
  };
  std::unique_ptr<rte_ring, Free> memory_;
};

}  // namespace cw::dataplane
