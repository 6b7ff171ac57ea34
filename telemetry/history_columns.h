// Which figures are kept second by second for the live page: a part of what /metrics exports, one row each, folded over the
// cores.
//
// A counter's column holds what it grew by, a gauge's column what it was. Names are those that the page asks for: "rpcs.nfs4",
// "discards.icrc", "backend_calls.nfs", "lcore_busy_ns.1"; the part behind the dot is a label, for lcores their index. Labels are
// closed sets, as in metric_table.h, but for the names of backends and [[client]] sections: a reload brings new ones.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "telemetry/collector.h"

namespace cw::telemetry {

class HistoryColumns {
 public:
  // `sources` says which backends, [[client]] sections and cores there are.
  explicit HistoryColumns(const MetricSources& sources);
  // Adds columns, behind those that there are, of what `sources` has more. False: there is nothing more.
  bool extend(const MetricSources& sources);

  [[nodiscard]] uint32_t count() const { return static_cast<uint32_t>(columns_.size()); }
  [[nodiscard]] const std::string& name(uint32_t column) const { return columns_[column].name; }
  [[nodiscard]] bool is_counter(uint32_t column) const { return columns_[column].is_counter; }
  // All columns of the cores' newest copies. Preconditions: `out` has count() elements, and `sources` is no shorter than those
  // that this was made from or extended with.
  void read(const MetricSources& sources, std::span<uint64_t> out) const;

 private:
  struct Column {
    std::string name;
    bool is_counter = false;
    uint32_t row = 0;    // of the table
    uint32_t index = 0;  // of the row's label
  };
  std::vector<Column> columns_;
  std::vector<uint32_t> of_row_;  // columns that each row of the table has
};

// What the values of a column "backend_state.N" mean.
enum class BackendState : uint8_t { kUnknown, kDown, kUp };

// All calls, or those that went through a stage, all cores together.
// Who answered: a backend, or a program that is built in, which takes no network and no disk.
enum class AnsweredBy : uint8_t { kBackend, kBuiltin };
inline constexpr uint32_t kAnsweredByCount = 2;
[[nodiscard]] Histogram merged_calls(const MetricSources& sources, AnsweredBy who);
[[nodiscard]] Histogram merged_stage(const MetricSources& sources, rpcrdma::Stage stage);

}  // namespace cw::telemetry
