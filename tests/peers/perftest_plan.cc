#include "tests/peers/perftest_plan.h"

#include <algorithm>

namespace cw::peers {
namespace {

using Kind = PerftestStep::Kind;
using enum PerftestOperation;

constexpr PerftestOperation kOperations[] = {kSendBw, kSendLat, kWriteBw, kWriteLat, kReadBw, kReadLat, kAtomicBw, kAtomicLat};

class Planner {
 public:
  explicit Planner(const PerftestOptions& options) : options_(options) {}
  std::vector<PerftestStep> run() {
    connect();
    introduce();
    measure();
    part();
    return std::move(steps_);
  }

 private:
  void add(Kind kind, uint64_t value = 0) { steps_.push_back({kind, value}); }
  void synchronise() { add(Kind::kKey, 0); }
  void keys() {
    for (uint32_t qp = 0; qp < options_.qps; ++qp) {
      add(Kind::kKey, qp);
    }
  }

  void connect() {
    add(Kind::kVersion);
    add(Kind::kCycleBuffer);
    add(Kind::kCacheLine);
    add(Kind::kMtu);
    synchronise();
    add(Kind::kConnect);
    synchronise();
  }

  // Keys go over twice. Where one more synchronisation stands differs from test to test.
  void introduce() {
    const PerftestOperation operation = options_.operation;
    if (operation == kWriteLat || operation == kReadLat || operation == kAtomicLat) {
      synchronise();
    }
    keys();
    if (is_send(operation)) {
      synchronise();
    }
    keys();
    if (!is_send(operation)) {
      synchronise();
    }
  }

  void measure() {
    const bool server_waits =
        options_.role == PerftestRole::kServer && !is_send(options_.operation) && options_.operation != kWriteLat;
    if (server_waits) {
      return;
    }
    for (const uint64_t size : options_.sizes) {
      if (is_send(options_.operation)) {
        add(Kind::kPrepare, size);
        synchronise();
      }
      add(Kind::kTraffic, size);
      if (options_.operation == kSendBw && options_.sizes.size() > 1) {
        synchronise();
      }
    }
  }

  void part() {
    if (options_.operation == kWriteLat) {
      return;
    }
    if (options_.operation == kWriteBw || options_.operation == kReadBw || options_.operation == kAtomicBw) {
      synchronise();
      for (uint32_t field = 0; field < kPerftestReportFields; ++field) {
        add(Kind::kReportField, field);
      }
    }
    synchronise();
  }

  const PerftestOptions& options_;
  std::vector<PerftestStep> steps_;
};

}  // namespace

std::optional<PerftestOperation> parse_perftest_operation(std::string_view name) {
  for (const PerftestOperation operation : kOperations) {
    if (name == to_string(operation)) {
      return operation;
    }
  }
  return std::nullopt;
}

const char* to_string(PerftestOperation operation) noexcept {
  switch (operation) {
    case kSendBw:
      return "send_bw";
    case kSendLat:
      return "send_lat";
    case kWriteBw:
      return "write_bw";
    case kWriteLat:
      return "write_lat";
    case kReadBw:
      return "read_bw";
    case kReadLat:
      return "read_lat";
    case kAtomicBw:
      return "atomic_bw";
    case kAtomicLat:
      return "atomic_lat";
  }
  return "unknown";
}

const char* to_string(PerftestStep::Kind kind) noexcept {
  switch (kind) {
    case Kind::kVersion:
      return "exchange of versions";
    case Kind::kCycleBuffer:
      return "exchange of cycle buffers";
    case Kind::kCacheLine:
      return "exchange of cache lines";
    case Kind::kMtu:
      return "exchange of MTUs";
    case Kind::kConnect:
      return "opening of data connections";
    case Kind::kKey:
      return "exchange of keys";
    case Kind::kPrepare:
      return "preparation";
    case Kind::kTraffic:
      return "test traffic";
    case Kind::kReportField:
      return "exchange of reports";
  }
  return "unknown";
}

uint64_t PerftestOptions::bytes_max() const {
  return sizes.empty() ? 0 : *std::max_element(sizes.begin(), sizes.end());
}

std::vector<uint64_t> perftest_all_sizes(PerftestOperation operation) {
  if (is_atomic(operation)) {
    return {8};
  }
  std::vector<uint64_t> sizes;
  for (uint32_t power = 1; power <= 23; ++power) {
    sizes.push_back(uint64_t{1} << power);
  }
  return sizes;
}

std::vector<PerftestStep> plan(const PerftestOptions& options) {
  return Planner(options).run();
}

}  // namespace cw::peers
