// Counts heap allocations of the code under test. Works only in an executable that replaces operator new by one that calls
// note_allocation() (see tests/unit/endpoint/allocation_test.cc); elsewhere the count stays 0.
#pragma once

#include <cstdint>

namespace cw::test {

inline thread_local bool counting_allocations = false;
inline thread_local uint64_t allocation_count = 0;

inline void note_allocation() { allocation_count += counting_allocations ? 1 : 0; }

// Counts while it lives.
class CountAllocations {
 public:
  CountAllocations() : before_(allocation_count) { counting_allocations = true; }
  ~CountAllocations() { counting_allocations = false; }
  CountAllocations(const CountAllocations&) = delete;
  CountAllocations& operator=(const CountAllocations&) = delete;
  [[nodiscard]] uint64_t count() const { return allocation_count - before_; }

 private:
  uint64_t before_;
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
