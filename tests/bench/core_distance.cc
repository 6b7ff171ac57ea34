// Tells how far two CPUs are from each other (core_distance.h).
//
//   core_distance CPU CPU [MILLISECONDS]        prints "near 112 ns" or "far 508 ns"
#include "tests/bench/core_distance.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

int main(int count, char** words) {
  if (count < 3) {
    std::fputs("usage: core_distance CPU CPU [MILLISECONDS]\n", stderr);
    return 2;
  }
  const int here = std::atoi(words[1]);
  const int there = std::atoi(words[2]);
  const long milliseconds = count > 3 ? std::max(std::atol(words[3]), 1L) : 50;
  if (here == there || !cw::bench::pin_to(here)) {
    std::fputs("core_distance: two different CPUs that this process may use are needed\n", stderr);
    return 2;
  }
  const cw::bench::CoreDistance found = cw::bench::core_distance(there, std::chrono::milliseconds(milliseconds));
  std::printf("%s %.0f ns\n", found.state(), found.round_trip_ns);
  return 0;
}
