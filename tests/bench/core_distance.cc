// How far two CPUs are from each other: the round trip of one cache line that two threads hand back and forth.
//
//   core_distance CPU CPU [MILLISECONDS]        prints "near 112 ns" or "far 508 ns"
//
// On a virtual machine the hypervisor moves CPUs about, within seconds; a round trip between neighbours takes about 110 ns
// there and between strangers about 500 ns, and every rate that two CPUs reach together follows it by a factor of two to
// three. A bench of two programs therefore asks before and after, and compares only figures of one state.
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kNearNsMax = 250;
constexpr uint32_t kTripsPerSample = 200;
constexpr uint32_t kEnd = UINT32_MAX;

struct alignas(128) Line {
  std::atomic<uint32_t> value{0};
};

bool pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(cpu), &set);
  return pthread_setaffinity_np(pthread_self(), sizeof(set), &set) == 0;
}

// Answers each odd value by the even one behind it.
void echo(Line& ping, Line& pong, int cpu) {
  (void)pin(cpu);
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
std::vector<double> measure(Line& ping, Line& pong, Clock::duration time) {
  std::vector<double> samples;
  uint32_t number = 0;
  const auto end = Clock::now() + time;
  for (auto now = Clock::now(); now < end;) {
    for (uint32_t i = 0; i < kTripsPerSample; ++i) {
      ping.value.store(++number, std::memory_order_release);
      while (pong.value.load(std::memory_order_acquire) != number) {
      }
    }
    const auto after = Clock::now();
    samples.push_back(std::chrono::duration<double, std::nano>(after - now).count() / kTripsPerSample);
    now = after;
  }
  return samples;
}

}  // namespace

int main(int count, char** words) {
  if (count < 3) {
    std::fputs("usage: core_distance CPU CPU [MILLISECONDS]\n", stderr);
    return 2;
  }
  const int here = std::atoi(words[1]);
  const int there = std::atoi(words[2]);
  const long milliseconds = count > 3 ? std::max(std::atol(words[3]), 1L) : 50;
  if (here == there || !pin(here)) {
    std::fputs("core_distance: two different CPUs that this process may use are needed\n", stderr);
    return 2;
  }
  Line ping;
  Line pong;
  std::thread other(echo, std::ref(ping), std::ref(pong), there);
  std::vector<double> samples = measure(ping, pong, std::chrono::milliseconds(milliseconds));
  ping.value.store(kEnd, std::memory_order_release);
  other.join();
  // The median: what the scheduler takes from either thread shows up as a few huge samples.
  std::nth_element(samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2), samples.end());
  const double trip_ns = samples[samples.size() / 2];
  std::printf("%s %.0f ns\n", trip_ns <= kNearNsMax ? "near" : "far", trip_ns);
  return 0;
}
