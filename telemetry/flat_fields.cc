#include "telemetry/flat_fields.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>
#include <string_view>

namespace cw::telemetry {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr std::string_view kOurs = "causeway_";
constexpr std::string_view kSeconds = "_seconds";
constexpr double kMicrosecondsPerSecond = 1e6;
constexpr double kLargest = 9e18;  // what llround() still takes

uint64_t whole(double value) {
  return std::isfinite(value) && value > 0 ? static_cast<uint64_t>(std::llround(std::min(value, kLargest))) : 0;
}

std::string bare_name(const MetricFamily& family) {
  return family.name.starts_with(kOurs) ? family.name.substr(kOurs.size()) : family.name;
}

bool is_wanted(const std::string& name, const FlatQuery& query) {
  return query.prefixes.empty() ||
         std::ranges::any_of(query.prefixes, [&](const std::string& prefix) { return name.starts_with(prefix); });
}

// What the labels add to the name; nothing when the query does not want this series.
std::optional<std::string> suffix(const ClientMetric& metric, const FlatQuery& query) {
  std::string text;
  bool found = query.label.empty();
  for (const ClientMetric::Label& label : metric.label) {
    if (label.name == query.label) {
      found = label.value == query.value;
      continue;
    }
    text += '_' + label.value;
  }
  return found ? std::optional(text) : std::nullopt;
}

// Names of a family: its own, or those that its kind and unit make of it.
struct Unit {
  std::string name;
  double factor = 1;
};
Unit in_whole_numbers(std::string name) {
  const size_t at = name.find(kSeconds);
  if (at == std::string::npos || name.find("timestamp") != std::string::npos || name.find("time_seconds") != std::string::npos) {
    return {name, 1};
  }
  return {name.replace(at, kSeconds.size(), "_microseconds"), kMicrosecondsPerSecond};
}

class Fields {
 public:
  void add(std::string name, double value) {
    std::ranges::replace_if(
        name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
    name.resize(std::min(name.size(), kFlatNameBytesMax));
    const auto same = std::ranges::find(fields_, name, &FlatField::name);
    // Series that differ in labels which the query leaves out have one name, and are added up.
    if (same != fields_.end()) {
      same->value += whole(value);
    } else if (fields_.size() < kFlatFieldsMax) {
      fields_.push_back({std::move(name), whole(value)});
    }
  }
  [[nodiscard]] std::vector<FlatField> take() { return std::move(fields_); }

 private:
  std::vector<FlatField> fields_;
};

void add_series(const std::string& family, MetricType type, const ClientMetric& metric, const std::string& labels, Fields& out) {
  const Unit unit = in_whole_numbers(family);
  if (type == MetricType::Histogram) {
    std::string base = family;
    if (const size_t at = base.find(kSeconds); at != std::string::npos) {
      base.erase(at, kSeconds.size());
    }
    out.add(base + "_count" + labels, static_cast<double>(metric.histogram.sample_count));
    out.add(unit.name + "_sum" + labels, metric.histogram.sample_sum * unit.factor);
  } else {
    out.add(unit.name + labels, metric.counter.value * unit.factor);
  }
}

}  // namespace

std::vector<FlatField> flat_fields(const std::vector<MetricFamily>& families, const FlatQuery& query) {
  Fields fields;
  for (const MetricFamily& family : families) {
    const std::string name = bare_name(family);
    // What an _info metric says stands in its labels.
    if (name.ends_with("_info") || !is_wanted(name, query)) {
      continue;
    }
    for (const ClientMetric& metric : family.metric) {
      if (const std::optional<std::string> labels = suffix(metric, query)) {
        add_series(name, family.type, metric, query.summed ? std::string() : *labels, fields);
      }
    }
  }
  return fields.take();
}

}  // namespace cw::telemetry
