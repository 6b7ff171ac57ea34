// Metrics as a flat list of names and whole numbers, for those who read DPDK's telemetry socket: it has no labels, no fractions,
// and a bound on the entries of an answer. So label values become part of the name, seconds become microseconds, and a histogram
// gives its count and its sum: causeway_roce_packets_total{port="0",direction="rx"} is roce_packets_total_0_rx.
#pragma once

#include <prometheus/metric_family.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cw::telemetry {

inline constexpr size_t kFlatFieldsMax = 256;     // RTE_TEL_MAX_DICT_ENTRIES
inline constexpr size_t kFlatNameBytesMax = 127;  // RTE_TEL_MAX_STRING_LEN with its end

struct FlatField {
  std::string name;  // a-z A-Z 0-9 _
  uint64_t value = 0;
};

struct FlatQuery {
  std::vector<std::string> prefixes;  // families whose name behind "causeway_" begins with one of these; empty: all
  std::string label;                  // only series with this label and `value`, and without it in the name; empty: all
  std::string value;
  bool summed = false;  // one field per family, its series added up
};

// At most kFlatFieldsMax; what is beyond is left out. Negative values and those that are no number are 0.
[[nodiscard]] std::vector<FlatField> flat_fields(const std::vector<prometheus::MetricFamily>& families, const FlatQuery& query);

}  // namespace cw::telemetry
