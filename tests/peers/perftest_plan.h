// The order of things in each of perftest's tests, as one list of steps that both sides go through in step with each other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tests/peers/perftest_wire.h"

namespace cw::peers {

enum class PerftestOperation : uint8_t { kSendBw, kSendLat, kWriteBw, kWriteLat, kReadBw, kReadLat, kAtomicBw, kAtomicLat };
[[nodiscard]] std::optional<PerftestOperation> parse_perftest_operation(std::string_view name);  // "send_bw" ...
[[nodiscard]] const char* to_string(PerftestOperation operation) noexcept;

[[nodiscard]] constexpr bool is_latency(PerftestOperation operation) {
  using enum PerftestOperation;
  return operation == kSendLat || operation == kWriteLat || operation == kReadLat || operation == kAtomicLat;
}
[[nodiscard]] constexpr bool is_send(PerftestOperation operation) {
  using enum PerftestOperation;
  return operation == kSendBw || operation == kSendLat;
}
[[nodiscard]] constexpr bool is_write(PerftestOperation operation) {
  using enum PerftestOperation;
  return operation == kWriteBw || operation == kWriteLat;
}
[[nodiscard]] constexpr bool is_read(PerftestOperation operation) {
  using enum PerftestOperation;
  return operation == kReadBw || operation == kReadLat;
}
[[nodiscard]] constexpr bool is_atomic(PerftestOperation operation) {
  using enum PerftestOperation;
  return operation == kAtomicBw || operation == kAtomicLat;
}

enum class PerftestRole : uint8_t { kClient, kServer };

struct PerftestStep {
  enum class Kind : uint8_t {
    kVersion,
    kCycleBuffer,
    kCacheLine,
    kMtu,
    kConnect,      // the data connections are made
    kKey,          // of queue pair `value`
    kPrepare,      // receives for messages of `value` bytes
    kTraffic,      // the test itself, with messages of `value` bytes
    kReportField,  // number `value`
  };
  Kind kind;
  uint64_t value = 0;
};
[[nodiscard]] const char* to_string(PerftestStep::Kind kind) noexcept;

struct PerftestOptions {
  PerftestOperation operation = PerftestOperation::kSendBw;
  PerftestRole role = PerftestRole::kClient;
  std::vector<uint64_t> sizes{65536};  // more than one: what both sides do with -a
  uint64_t iterations = 1000;          // per queue pair and size; the same on both sides
  uint32_t qps = 1;
  uint32_t depth = 128;  // operations in flight per queue pair
  // send_bw over iWARP: whoever sends gets credits for receives, by the other side's WRITEs into its memory.
  bool credits = false;
  // Both sides are ours: payload is the pattern, and is compared where it arrives.
  bool verify = false;
  // The sum of what fetch-and-add did to our memory is compared (server of the atomic tests).
  bool verify_sum = true;

  [[nodiscard]] uint64_t bytes_max() const;
  // Receives that are posted at a time.
  [[nodiscard]] uint64_t receive_depth() const { return std::clamp<uint64_t>(iterations, 2, kPerftestReceiveDepth); }
  [[nodiscard]] bool uses_credits() const { return credits && operation == PerftestOperation::kSendBw; }
};

// perftest's -a: powers of two from 2 to 8 MiB. Atomics have one size.
[[nodiscard]] std::vector<uint64_t> perftest_all_sizes(PerftestOperation operation);

[[nodiscard]] std::vector<PerftestStep> plan(const PerftestOptions& options);

}  // namespace cw::peers
