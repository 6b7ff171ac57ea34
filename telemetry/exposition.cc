#include "telemetry/exposition.h"

#include <fmt/format.h>
#include <prometheus/text_serializer.h>

#include <cmath>
#include <iterator>
#include <set>

namespace cw::telemetry {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr std::string_view kTotal = "_total";

std::string number_text(double value) {
  if (std::isnan(value)) {
    return "NaN";
  }
  if (std::isinf(value)) {
    return value > 0 ? "+Inf" : "-Inf";
  }
  return fmt::format("{:.16g}", value);  // as many digits as Prometheus' own format has
}

// Bounds of buckets are floating point numbers, and look it.
std::string bound_text(double bound) {
  std::string text = number_text(bound);
  return text.find_first_not_of("0123456789-") == std::string::npos ? text + ".0" : text;
}

void add_escaped(std::string& out, std::string_view text) {
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\\' || c == '"') {
      out += '\\';
      out += c;
    } else {
      out += c;
    }
  }
}

class OpenMetricsWriter {
 public:
  explicit OpenMetricsWriter(const std::vector<MetricFamily>& families) {
    for (const MetricFamily& family : families) {
      if (family.type != MetricType::Counter) {
        taken_.insert(family.name);
      }
    }
  }

  void add(const MetricFamily& family) {
    const bool has_suffix = family.type == MetricType::Counter && family.name.ends_with(kTotal);
    std::string_view name = family.name;
    name.remove_suffix(has_suffix ? kTotal.size() : 0);
    const bool is_counter = has_suffix && !taken_.contains(name);
    if (!is_counter) {
      name = family.name;
    }
    const char* type = is_counter                             ? "counter"
                       : family.type == MetricType::Histogram ? "histogram"
                       : family.type == MetricType::Gauge     ? "gauge"
                                                              : "unknown";
    fmt::format_to(std::back_inserter(out_), "# TYPE {} {}\n# HELP {} ", name, type, name);
    add_escaped(out_, family.help);
    out_ += '\n';
    for (const ClientMetric& metric : family.metric) {
      if (family.type == MetricType::Histogram) {
        add_histogram(family.name, metric);
      } else {
        add_sample(family.name, "", metric, "",
                   number_text(family.type == MetricType::Counter ? metric.counter.value : metric.gauge.value));
      }
    }
  }

  [[nodiscard]] std::string finish() && {
    out_ += "# EOF\n";
    return std::move(out_);
  }

 private:
  void add_histogram(const std::string& name, const ClientMetric& metric) {
    bool is_bounded = true;
    for (const ClientMetric::Bucket& bucket : metric.histogram.bucket) {
      is_bounded = !std::isinf(bucket.upper_bound);
      add_sample(name, "_bucket", metric, bound_text(bucket.upper_bound), fmt::format("{}", bucket.cumulative_count));
    }
    if (is_bounded) {
      add_sample(name, "_bucket", metric, "+Inf", fmt::format("{}", metric.histogram.sample_count));
    }
    add_sample(name, "_count", metric, "", fmt::format("{}", metric.histogram.sample_count));
    add_sample(name, "_sum", metric, "", number_text(metric.histogram.sample_sum));
  }

  // bound: of a bucket; empty: of none.
  void add_sample(std::string_view name, std::string_view suffix, const ClientMetric& metric, std::string_view bound,
                  std::string_view value) {
    out_ += name;
    out_ += suffix;
    char before = '{';
    for (const ClientMetric::Label& label : metric.label) {
      out_ += before;
      out_ += label.name;
      out_ += "=\"";
      add_escaped(out_, label.value);
      out_ += '"';
      before = ',';
    }
    if (!bound.empty()) {
      out_ += before;
      out_ += "le=\"";
      out_ += bound;
      out_ += '"';
      before = ',';
    }
    out_ += before == '{' ? " " : "} ";
    out_ += value;
    out_ += '\n';
  }

  std::set<std::string, std::less<>> taken_;  // names of families that are no counters
  std::string out_;
};

}  // namespace

std::string to_prometheus(const std::vector<MetricFamily>& families) {
  return prometheus::TextSerializer().Serialize(families);
}

std::string to_openmetrics(const std::vector<MetricFamily>& families) {
  OpenMetricsWriter writer(families);
  for (const MetricFamily& family : families) {
    writer.add(family);
  }
  return std::move(writer).finish();
}

}  // namespace cw::telemetry
