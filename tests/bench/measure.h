// What the benches in one process share: a clock of their own, spreads, rows of summary.json, their options.
#pragma once

#include <pthread.h>
#include <sched.h>
#include <x86intrin.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/time.h"

namespace cw::bench {

// Ticks of the TSC, and what they are in nanoseconds.
class TscTime {
 public:
  TscTime() {
    const auto before = std::chrono::steady_clock::now();
    const uint64_t first = __rdtsc();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const uint64_t last = __rdtsc();
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - before;
    ns_per_cycle_ = spent.count() / static_cast<double>(last - first);
    start_ = last;
  }
  [[nodiscard]] Instant now() const {
    return Instant::from_ns(1'000'000'000 + static_cast<int64_t>(static_cast<double>(__rdtsc() - start_) * ns_per_cycle_));
  }
  [[nodiscard]] double ns_per_cycle() const { return ns_per_cycle_; }

 private:
  double ns_per_cycle_ = 0;
  uint64_t start_ = 0;
};

struct Spread {
  double best = 0;
  double low = 0;  // quartiles
  double median = 0;
  double high = 0;
};

// Precondition: there is a value. `best` is the least.
inline Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double fraction) {
    return values[static_cast<size_t>(std::lround(fraction * static_cast<double>(values.size() - 1)))];
  };
  return {values.front(), at(0.25), at(0.5), at(0.75)};
}

inline nlohmann::json row(const std::string& name, double value, const char* unit, const Spread& spread) {
  return {{"name", name}, {"value", value}, {"unit", unit}, {"spread", {spread.low, spread.high}}};
}

// With what stands next to it. `ratio` is above 1 where the value is the better one.
inline nlohmann::json row_beside(const std::string& name, const Spread& value, const char* unit, double baseline,
                                 const char* beside, bool more_is_better) {
  nlohmann::json figure = row(name, value.median, unit, value);
  figure["baseline"] = baseline;
  figure["beside"] = beside;
  figure["ratio"] = more_is_better ? value.median / baseline : baseline / value.median;
  return figure;
}

// False, and it has been said why, when the file cannot be written. An empty path is no file.
inline bool write_rows(const std::string& path, const nlohmann::json& rows) {
  if (path.empty()) {
    return true;
  }
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) {
    std::fprintf(stderr, "cannot write %s\n", path.c_str());
    return false;
  }
  std::fputs(rows.dump(1).c_str(), file);
  return std::fclose(file) == 0;
}

// --repeats N, --json FILE, --only CASE: what most benches take. False: something else was said.
struct BenchOptions {
  uint32_t repeats = 0;
  std::string json;
  std::string only;  // empty: all

  [[nodiscard]] bool wants(const std::string& name) const { return only.empty() || only == name; }
  [[nodiscard]] bool parse(int count, char** words) {
    for (int i = 1; i + 1 < count; i += 2) {
      const std::string key = words[i];
      if (key == "--repeats") {
        repeats = static_cast<uint32_t>(std::max(1l, std::strtol(words[i + 1], nullptr, 10)));
      } else if (key == "--json") {
        json = words[i + 1];
      } else if (key == "--only") {
        only = words[i + 1];
      } else {
        return false;
      }
    }
    return count % 2 == 1;
  }
};

// CPUs that this process may use, in order.
inline std::vector<int> own_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(static_cast<size_t>(cpu), &set)) {
        cpus.push_back(cpu);
      }
    }
  }
  return cpus;
}

// The calling thread stays on this CPU.
inline bool pin_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(cpu), &set);
  return pthread_setaffinity_np(pthread_self(), sizeof(set), &set) == 0;
}

}  // namespace cw::bench
