#include "telemetry/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>

namespace cw::telemetry {
namespace {

uint32_t clamp_u32(uint64_t value) {
  return static_cast<uint32_t>(std::min<uint64_t>(value, std::numeric_limits<uint32_t>::max()));
}

}  // namespace

History::History(const MetricSources& sources, int64_t started_unix_ms, std::optional<Instant> started)
    : columns_(sources),
      started_unix_ms_(started_unix_ms),
      started_(started),
      last_values_(columns_.count()),
      now_values_(columns_.count()) {}

size_t History::memory_bytes() const {
  return times_.size() * sizeof(Times) + values_.size() * sizeof(uint64_t) + durations_.size() * sizeof(Durations);
}

void History::record(const MetricSources& sources, Instant at) {
  const std::lock_guard lock(mutex_);
  extend(sources);
  if (times_.empty()) {
    times_.resize(kSamplesMax);
    values_.resize(size_t{kSamplesMax} * width());
    durations_.resize(kSamplesMax);
  }
  const uint32_t slot = static_cast<uint32_t>(next_ % kSamplesMax);
  uint64_t* values = &values_[size_t{slot} * width()];
  record_columns(sources, values);
  record_stages(sources, values + columns_.count());
  record_durations(sources, durations_[slot]);
  if (!has_looked_) {
    has_looked_ = true;
    started_ = started_.value_or(at);
    last_look_ = at;
    return;
  }
  times_[slot] = {started_unix_ms_ + (at - *started_).to_us() / 1000,
                  clamp_u32(static_cast<uint64_t>((at - last_look_).to_us()) / 1000)};
  last_look_ = at;
  ++next_;
}

// What is new was 0 before, its counters too.
void History::extend(const MetricSources& sources) {
  const uint32_t old_columns = columns_.count();
  const uint32_t old_width = width();
  if (!columns_.extend(sources)) {
    return;
  }
  last_values_.resize(columns_.count());
  now_values_.resize(columns_.count());
  if (values_.empty()) {
    return;
  }
  std::vector<uint64_t> wider(size_t{kSamplesMax} * width());
  for (size_t slot = 0; slot < kSamplesMax; ++slot) {
    const auto from = values_.begin() + static_cast<ptrdiff_t>(slot * old_width);
    const auto into = wider.begin() + static_cast<ptrdiff_t>(slot * width());
    std::copy(from, from + old_columns, into);
    std::copy(from + old_columns, from + old_width, into + columns_.count());
  }
  values_.swap(wider);
}

void History::record_columns(const MetricSources& sources, uint64_t* out) {
  columns_.read(sources, now_values_);
  for (uint32_t i = 0; i < columns_.count(); ++i) {
    out[i] = columns_.is_counter(i) ? now_values_[i] - last_values_[i] : now_values_[i];
  }
  last_values_.swap(now_values_);
}

void History::record_stages(const MetricSources& sources, uint64_t* out) {
  for (uint32_t stage = 0; stage < rpcrdma::kStageCount; ++stage) {
    const Histogram now = merged_stage(sources, static_cast<rpcrdma::Stage>(stage));
    const Histogram grown = now.since(last_stages_[stage]);
    last_stages_[stage] = now;
    out[kStageCalls] = grown.count();
    out[kStageNs] = grown.sum_ns();
    out[kStageP50Ns] = static_cast<uint64_t>(grown.percentile(0.5).to_ns());
    out[kStageP99Ns] = static_cast<uint64_t>(grown.percentile(0.99).to_ns());
    out += kStageValues;
  }
}

void History::record_durations(const MetricSources& sources, Durations& out) {
  for (uint32_t who = 0; who < kAnsweredByCount; ++who) {
    const Histogram now = merged_calls(sources, static_cast<AnsweredBy>(who));
    const Histogram grown = now.since(last_calls_[who]);
    last_calls_[who] = now;
    for (uint32_t i = 0; i < Histogram::kBucketCount; ++i) {
      out[who][i] = clamp_u32(grown.bucket(i));
    }
  }
}

std::string History::value_name(uint32_t value) const {
  if (value < columns_.count()) {
    return columns_.name(value);
  }
  constexpr std::array kNames = {"stage_calls", "stage_ns", "stage_p50_ns", "stage_p99_ns"};
  static_assert(kNames.size() == kStageValues);
  const uint32_t index = value - columns_.count();
  return fmt::format("{}.{}", kNames[index % kStageValues], to_string(static_cast<rpcrdma::Stage>(index / kStageValues)));
}

std::string History::to_json(uint64_t since) const {
  const std::lock_guard lock(mutex_);
  const uint64_t oldest = next_ > kSamplesMax ? next_ - kSamplesMax : 0;
  // A page that asks for more than there has been was watching a process before this one: it gets all.
  const uint64_t first = since > next_ ? oldest : std::max(oldest, since);
  std::string json = fmt::format(R"({{"boot":"{}","period_ms":{},"capacity":{},"first":{},"next":{},"time_ms":[)",
                                 started_unix_ms_, kPeriod.to_us() / 1000, kSamplesMax, first, next_);
  const auto append_times = [&](auto&& member) {
    for (uint64_t n = first; n < next_; ++n) {
      fmt::format_to(std::back_inserter(json), "{}{}", n == first ? "" : ",", member(times_[n % kSamplesMax]));
    }
  };
  append_times([](const Times& times) { return times.unix_ms; });
  json += R"(],"interval_ms":[)";
  append_times([](const Times& times) { return times.interval_ms; });
  json += R"(],"values":{)";
  append_values(json, first);
  json += '}';
  if (since == 0) {
    json += R"(,"bucket_ns":[)";
    for (uint32_t i = 0; i < Histogram::kBucketCount; ++i) {
      fmt::format_to(std::back_inserter(json), "{}{}", i == 0 ? "" : ",", Histogram::lower_ns(i));
    }
    json += ']';
  }
  json += R"(,"durations":[)";
  append_durations(json, first, AnsweredBy::kBackend);
  json += R"(],"durations_builtin":[)";
  append_durations(json, first, AnsweredBy::kBuiltin);
  json += "]}";
  return json;
}

void History::append_values(std::string& json, uint64_t first) const {
  const char* comma = "";
  for (uint32_t value = 0; value < width(); ++value) {
    const auto at = [&](uint64_t n) { return values_[n % kSamplesMax * width() + value]; };
    bool any = false;
    for (uint64_t n = first; n < next_ && !any; ++n) {
      any = at(n) != 0;
    }
    if (!any) {
      continue;
    }
    fmt::format_to(std::back_inserter(json), "{}\"{}\":[", comma, value_name(value));
    for (uint64_t n = first; n < next_; ++n) {
      fmt::format_to(std::back_inserter(json), "{}{}", n == first ? "" : ",", at(n));
    }
    json += ']';
    comma = ",";
  }
}

void History::append_durations(std::string& json, uint64_t first, AnsweredBy who) const {
  for (uint64_t n = first; n < next_; ++n) {
    json += n == first ? "[" : ",[";
    const char* comma = "";
    const Buckets& buckets = durations_[n % kSamplesMax][static_cast<size_t>(who)];
    for (uint32_t i = 0; i < buckets.size(); ++i) {
      if (buckets[i] != 0) {
        fmt::format_to(std::back_inserter(json), "{}{},{}", comma, i, buckets[i]);
        comma = ",";
      }
    }
    json += ']';
  }
}

}  // namespace cw::telemetry
