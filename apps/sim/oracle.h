// What must hold in every run, each with a name; and the list of what did not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cw::sim {

enum class Oracle : uint8_t {
  kExecutedOnce,  // an attempt at a call is executed at most once, and an answered one exactly once
  kAnsweredOnce,  // each attempt has exactly one outcome
  kPayload,       // the program sees the bytes that were sent, the client those that were answered
  kMemory,        // nothing is read or written outside a live key
  kCredits,       // never more calls in flight than granted, never a SEND without a receive
  kBlame,         // honest peers over a wire that an iCRC guards never find fault with each other
  kLeak,          // in the end nobody owns a buffer, a key, a queue pair, a connection or a part of what all share
  kTimers,        // in the end nothing waits for a deadline
  kEndState,      // each connection ends once, with a recorded cause
  kProgress,      // without faults everything finishes within the bound
  kConsistency,   // the invariants that the objects state about themselves
  kIsolation,     // a hostile peer or a sick backend takes nothing from its neighbours: isolation.h
  kCount,
};
[[nodiscard]] const char* to_string(Oracle oracle) noexcept;
// One sentence on what it demands, for --help and for the reader of a failure.
[[nodiscard]] const char* demand_of(Oracle oracle) noexcept;

struct Failure {
  Oracle oracle = Oracle::kProgress;
  std::string what;
};

class Verdict {
 public:
  static constexpr size_t kFailuresMax = 8;
  void fail(Oracle oracle, std::string what) {
    if (failures_.size() < kFailuresMax) {
      failures_.push_back({oracle, std::move(what)});
    }
  }
  void expect(bool holds, Oracle oracle, const char* what) {
    if (!holds) {
      fail(oracle, what);
    }
  }
  [[nodiscard]] bool passed() const { return failures_.empty(); }
  [[nodiscard]] const std::vector<Failure>& failures() const { return failures_; }

 private:
  std::vector<Failure> failures_;
};

}  // namespace cw::sim
