// How far two CPUs are from each other: the round trip of one cache line that two threads hand back and forth.
//
// On a virtual machine the hypervisor moves CPUs about, within seconds; a round trip between neighbours takes about 110 ns
// there and between strangers about 500 ns, and every rate that two CPUs reach together follows it by a factor of two to
// three. A bench of two CPUs therefore asks before and after, and compares only figures of one state.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "tests/bench/measure.h"

namespace cw::bench {

struct CoreDistance {
  static constexpr double kNearNsMax = 250;
  double round_trip_ns = 0;
  [[nodiscard]] const char* state() const { return round_trip_ns <= kNearNsMax ? "near" : "far"; }
};

namespace distance {

constexpr uint32_t kTripsPerSample = 200;
constexpr uint32_t kEnd = UINT32_MAX;

struct alignas(128) Line {
  std::atomic<uint32_t> value{0};
};

// Answers each number with the same one.
inline void echo(Line& ping, Line& pong, int cpu) {
  (void)pin_to(cpu);
  for (uint32_t last = 0;;) {
    const uint32_t seen = ping.value.load(std::memory_order_acquire);
    if (seen == kEnd) {
      return;
    }
    if (seen != last) {
      last = seen;
      pong.value.store(seen, std::memory_order_release);
    }
  }
}

// Nanoseconds per round trip of every sample.
inline std::vector<double> samples(Line& ping, Line& pong, std::chrono::steady_clock::duration time) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> out;
  uint32_t number = 0;
  const auto end = Clock::now() + time;
  for (auto now = Clock::now(); now < end;) {
    for (uint32_t i = 0; i < kTripsPerSample; ++i) {
      ping.value.store(++number, std::memory_order_release);
      while (pong.value.load(std::memory_order_acquire) != number) {
      }
    }
    const auto after = Clock::now();
    out.push_back(std::chrono::duration<double, std::nano>(after - now).count() / kTripsPerSample);
    now = after;
  }
  return out;
}

}  // namespace distance

// The calling thread is on one of the two; `there` is the other. The median: what the scheduler takes from either thread shows
// up as a few huge samples.
inline CoreDistance core_distance(int there, std::chrono::milliseconds time) {
  distance::Line ping;
  distance::Line pong;
  std::thread other(distance::echo, std::ref(ping), std::ref(pong), there);
  const std::vector<double> trips = distance::samples(ping, pong, time);
  ping.value.store(distance::kEnd, std::memory_order_release);
  other.join();
  return {trips.empty() ? 0 : spread_of(trips).median};
}

}  // namespace cw::bench
