#include "control/ctl/activity_rates.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "control/ctl/json_text.h"

namespace cw::control {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kCounters = {"calls", "replies", "errors", "call_bytes", "reply_bytes"};

struct Procedure {
  double calls = 0;
  double seconds = 0;
};

struct Row {
  std::string section;
  double connections = 0;
  std::array<double, kCounters.size()> counters{};
  std::map<std::pair<std::string, std::string>, Procedure> procedures;  // by program and procedure

  void add(const Row& other) {
    connections += other.connections;
    for (size_t i = 0; i < counters.size(); ++i) {
      counters[i] += other.counters[i];
    }
    for (const auto& [name, use] : other.procedures) {
      procedures[name].calls += use.calls;
      procedures[name].seconds += use.seconds;
    }
  }
  [[nodiscard]] Procedure all_procedures() const {
    Procedure sum;
    for (const auto& [name, use] : procedures) {
      sum.calls += use.calls;
      sum.seconds += use.seconds;
    }
    return sum;
  }
  [[nodiscard]] double rank(std::string_view sort) const {
    return sort == "bytes"    ? counters[3] + counters[4]
           : sort == "time"   ? all_procedures().seconds
           : sort == "errors" ? counters[2]
                              : counters[0];
  }
};

Row row_of(const Json& client) {
  Row row;
  row.section = client.value("section", std::string());
  row.connections = number_of(client, "connections");
  for (size_t i = 0; i < kCounters.size(); ++i) {
    row.counters[i] = number_of(client, kCounters[i]);
  }
  for (const Json& procedure : list_of(client, "procedures")) {
    row.procedures[{text_of(procedure, "program"), text_of(procedure, "procedure")}] = {number_of(procedure, "calls"),
                                                                                        number_of(procedure, "seconds")};
  }
  return row;
}

std::map<std::string, Row> rows_of(const Json& answer) {
  std::map<std::string, Row> rows;
  for (const Json& client : list_of(answer, "activity")) {
    rows[text_of(client, "client")] = row_of(client);
  }
  return rows;
}

// A gateway that was started anew, or a client that was forgotten in between, has counted less.
Row difference(const Row& before, const Row& after) {
  if (before.counters[0] > after.counters[0]) {
    return after;
  }
  Row row = after;
  for (size_t i = 0; i < row.counters.size(); ++i) {
    row.counters[i] = std::max(0.0, after.counters[i] - before.counters[i]);
  }
  for (auto& [name, use] : row.procedures) {
    const auto found = before.procedures.find(name);
    if (found != before.procedures.end()) {
      use.calls = std::max(0.0, use.calls - found->second.calls);
      use.seconds = std::max(0.0, use.seconds - found->second.seconds);
    }
  }
  return row;
}

Json to_json(const std::string& name, const char* key, const Row& row, double seconds) {
  const Procedure all = row.all_procedures();
  const auto mean_of = [](const Procedure& use) { return use.calls > 0 ? Json(use.seconds / use.calls) : Json(); };
  Json json = {{key, name}};
  if (std::string_view(key) == "client") {
    json["section"] = row.section;
  }
  json["connections"] = row.connections;
  for (size_t i = 0; i < kCounters.size(); ++i) {
    json[fmt::format("{}_per_second", kCounters[i])] = row.counters[i] / seconds;
  }
  json["mean_seconds"] = mean_of(all);
  std::vector<std::pair<std::pair<std::string, std::string>, Procedure>> procedures(row.procedures.begin(), row.procedures.end());
  std::erase_if(procedures, [](const auto& each) { return each.second.calls <= 0; });
  std::ranges::stable_sort(procedures, std::ranges::greater{},
                           [](const auto& each) { return std::pair(each.second.seconds, each.second.calls); });
  json["procedures"] = Json::array();
  for (const auto& [names, use] : procedures) {
    json["procedures"].push_back({{"program", names.first},
                                  {"procedure", names.second},
                                  {"calls_per_second", use.calls / seconds},
                                  {"mean_seconds", mean_of(use)},
                                  {"share_of_time", all.seconds > 0 ? use.seconds / all.seconds : 0.0}});
  }
  return json;
}

std::string procedures_text(const Json& row, size_t most) {
  std::string text;
  for (const Json& procedure : list_of(row, "procedures")) {
    if (most-- == 0) {
      break;
    }
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", text_of(procedure, "program"), text_of(procedure, "procedure"));
    // Calls that a poll core answers in the turn in which they arrive take no time that it could measure.
    const double share = number_of(procedure, "share_of_time");
    text += share > 0 ? fmt::format(" {:.0f} %", 100 * share) : "";
  }
  return text.empty() ? "-" : text;
}

}  // namespace

Json activity_rates(const Json& before, const Json& after, double seconds, std::string_view by, std::string_view sort,
                    uint32_t last) {
  const std::map<std::string, Row> earlier = rows_of(before);
  std::map<std::string, Row> sums;
  for (const auto& [client, now] : rows_of(after)) {
    const auto found = earlier.find(client);
    const Row row = found == earlier.end() ? now : difference(found->second, now);
    if (by == "section") {
      sums[row.section].add(row);
    } else {
      sums[client] = row;
    }
  }
  std::vector<std::pair<std::string, Row>> rows(sums.begin(), sums.end());
  std::ranges::stable_sort(rows, std::ranges::greater{}, [&](const auto& each) { return each.second.rank(sort); });
  Json list = Json::array();
  for (size_t i = 0; i < rows.size() && i < last; ++i) {
    list.push_back(to_json(rows[i].first, by == "section" ? "section" : "client", rows[i].second, seconds));
  }
  return {{"seconds", seconds}, {"of", rows.size()}, {"rows", list}};
}

std::string render_rates(const Json& rates, Detail detail) {
  const Json& rows = list_of(rates, "rows");
  if (rows.empty()) {
    return "no such clients\n";
  }
  const bool by_client = rows.front().contains("client");
  Table table({by_client ? "CLIENT" : "SECTION", by_client ? "SECTION" : "+", ">CONNS", ">CALLS/s", ">IN/s", ">OUT/s",
               ">ERRORS/s", ">MEAN", "MOST TIME IN"},
              detail);
  for (const Json& row : rows) {
    table.add({text_of(row, by_client ? "client" : "section"), by_client ? text_of(row, "section") : "",
               text_of(row, "connections"), fmt::format("{:.0f}", number_of(row, "calls_per_second")),
               bytes_text(number_of(row, "call_bytes_per_second")), bytes_text(number_of(row, "reply_bytes_per_second")),
               fmt::format("{:.3g}", number_of(row, "errors_per_second")), short_time_text(number_of(row, "mean_seconds")),
               procedures_text(row, detail == Detail::kWide ? SIZE_MAX : 3)});
  }
  std::string text = table.text(0);
  if (const double all = number_of(rates, "of"); all > static_cast<double>(rows.size())) {
    text += fmt::format("and {:.0f} more\n", all - static_cast<double>(rows.size()));
  }
  return text;
}

}  // namespace cw::control
