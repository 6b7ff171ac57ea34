// Counts heap allocations of the code under test: proof that a path takes nothing from the heap.
//
// Works only in an executable that is linked with alloc_guard.cc, which replaces operator new; elsewhere the count stays 0. A
// test that relies on a count of 0 first proves that counting works where it runs.
// Operator new suffices: no folder below tests/ calls malloc by itself.
#pragma once

#include <cstdint>

namespace cw::test {

inline thread_local bool counting_allocations = false;
inline thread_local uint64_t allocation_count = 0;
inline thread_local uint64_t allocation_bytes = 0;  // asked for
// What was taken and not given back, as the heap rounds it. Less than 0: more was given back.
inline thread_local int64_t held_bytes = 0;

// By the replaced operator new.
inline void note_allocation(uint64_t bytes, uint64_t rounded) {
  allocation_count += counting_allocations ? 1 : 0;
  allocation_bytes += counting_allocations ? bytes : 0;
  held_bytes += counting_allocations ? static_cast<int64_t>(rounded) : 0;
}

inline void note_free(uint64_t rounded) {
  held_bytes -= counting_allocations ? static_cast<int64_t>(rounded) : 0;
}

// Counts while it lives.
class CountAllocations {
 public:
  CountAllocations() : before_(allocation_count), bytes_before_(allocation_bytes), held_before_(held_bytes) {
    counting_allocations = true;
  }
  ~CountAllocations() { counting_allocations = false; }
  CountAllocations(const CountAllocations&) = delete;
  CountAllocations& operator=(const CountAllocations&) = delete;
  [[nodiscard]] uint64_t count() const { return allocation_count - before_; }
  [[nodiscard]] uint64_t bytes() const { return allocation_bytes - bytes_before_; }
  // What was given back meanwhile taken off.
  [[nodiscard]] int64_t net_bytes() const { return held_bytes - held_before_; }

 private:
  uint64_t before_;
  uint64_t bytes_before_;
  int64_t held_before_;
};

// For fakes that allocate where the real thing does not.
class PauseCounting {
 public:
  PauseCounting() : was_(counting_allocations) { counting_allocations = false; }
  ~PauseCounting() { counting_allocations = was_; }
  PauseCounting(const PauseCounting&) = delete;
  PauseCounting& operator=(const PauseCounting&) = delete;

 private:
  bool was_;
};

}  // namespace cw::test
