// How fast something goes through bytes, in pieces as large as a packet's.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "base/bytes.h"

namespace cw::control::doctor {

// `work` takes Bytes and gives a number, so that it cannot be left out. Takes 20 ms.
template <typename Work>
[[nodiscard]] double bytes_per_second(Work work) {
  const std::vector<uint8_t> packet(4096, 0x45);
  volatile uint32_t sink = 0;
  uint64_t rounds = 0;
  const auto start = std::chrono::steady_clock::now();
  auto now = start;
  for (; now - start < std::chrono::milliseconds(20); now = std::chrono::steady_clock::now()) {
    for (int i = 0; i < 100; ++i) {
      sink = work(Bytes(packet));
    }
    rounds += 100;
  }
  (void)sink;
  return static_cast<double>(rounds * packet.size()) / std::chrono::duration<double>(now - start).count();
}

}  // namespace cw::control::doctor
