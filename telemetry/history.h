// The last fifteen minutes, second by second, for the live page: a page that is opened now shows what was. Memory is taken with
// the first look, and when a reload brings a backend or a [[client]] section that there has not been: 900 samples of
// (columns + 1) x 8 bytes and 211 buckets x 4 bytes, 2.0 MB for one core and one backend.
//
// record() belongs to one thread (HistoryRecorder), to_json() to any.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/histogram.h"
#include "base/time.h"
#include "telemetry/history_columns.h"

namespace cw::telemetry {

class History {
 public:
  static constexpr uint32_t kSamplesMax = 900;
  static constexpr Duration kPeriod = Duration::seconds(1);

  // When the process began, by two clocks: `started_unix_ms` tells this run from every other, `started` is a monotonic clock's;
  // without it the first look is taken for it.
  History(const MetricSources& sources, int64_t started_unix_ms, std::optional<Instant> started = std::nullopt);

  // Adds a sample of the cores' newest copies, in place of the oldest when there are kSamplesMax. The first call only remembers
  // what counters say: growth needs two looks. `at` is a monotonic clock's.
  void record(const MetricSources& sources, Instant at);

  // The samples from number `since` on, all that are kept if `since` is of none yet to come:
  //   {"boot": "1763794364123", "period_ms": 1000, "capacity": 900, "first": 17, "next": 19,
  //    "time_ms": [..unix time..], "interval_ms": [1000, 1001],
  //    "values": {"payload_bytes_rx": [81920, 0], ...},       // a column of zeroes is left out
  //    "bucket_ns": [0, 1024, 1152, ...],                     // lower ends; only when `since` is 0
  //    "durations": [[37, 12, 41, 3], []],                    // of calls to backends: bucket, calls in it, bucket, ...
  //    "durations_builtin": [[], []]}                         // of those to built-in programs
  // A client asks next time for what "next" says. Times do not jump when somebody sets the clock.
  [[nodiscard]] std::string to_json(uint64_t since) const;
  [[nodiscard]] uint64_t started_unix_ms() const { return static_cast<uint64_t>(started_unix_ms_); }
  // Bytes that the samples take.
  [[nodiscard]] size_t memory_bytes() const;

 private:
  // Of one stage of calls, in what a sample has besides the columns.
  enum StageValue : uint8_t { kStageCalls, kStageNs, kStageP50Ns, kStageP99Ns, kStageValues };
  struct Times {
    int64_t unix_ms = 0;
    uint32_t interval_ms = 0;
  };
  using Buckets = std::array<uint32_t, Histogram::kBucketCount>;
  using Durations = std::array<Buckets, kAnsweredByCount>;  // by AnsweredBy

  [[nodiscard]] uint32_t width() const { return columns_.count() + rpcrdma::kStageCount * kStageValues; }
  [[nodiscard]] std::string value_name(uint32_t value) const;
  void extend(const MetricSources& sources);
  void record_columns(const MetricSources& sources, uint64_t* out);
  void record_stages(const MetricSources& sources, uint64_t* out);
  void record_durations(const MetricSources& sources, Durations& out);
  void append_values(std::string& json, uint64_t first) const;
  void append_durations(std::string& json, uint64_t first, AnsweredBy who) const;

  HistoryColumns columns_;
  int64_t started_unix_ms_;

  // The recorder's: what counters said at the last look.
  bool has_looked_ = false;
  std::optional<Instant> started_;
  Instant last_look_;
  std::vector<uint64_t> last_values_;
  std::vector<uint64_t> now_values_;
  std::array<Histogram, kAnsweredByCount> last_calls_;
  std::array<Histogram, rpcrdma::kStageCount> last_stages_;

  mutable std::mutex mutex_;  // of all below
  uint64_t next_ = 0;         // samples ever taken; number n is at n % kSamplesMax
  std::vector<Times> times_;
  std::vector<uint64_t> values_;  // width() per sample
  std::vector<Durations> durations_;
};

}  // namespace cw::telemetry
