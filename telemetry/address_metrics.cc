#include "telemetry/address_metrics.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <tuple>
#include <utility>

#include "telemetry/metric_sample.h"
#include "telemetry/metric_table.h"

namespace cw::telemetry {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

struct AddressSeries {
  MetricName name;
  MetricType type;
  const char* direction;  // label; null: none
  double (*get)(const control::ActivityStatus& client);
};

double seconds_of(const control::ActivityStatus& client) {
  Duration spent;
  for (const control::ProcedureStatus& procedure : client.procedures) {
    spent = spent + procedure.spent;
  }
  return spent.to_seconds();
}

// Those of one name stand together and form one family.
constexpr AddressSeries kSeries[] = {
    {{"causeway_address_connections", "Connections of one client address."},
     MetricType::Gauge,
     nullptr,
     [](const control::ActivityStatus& client) { return static_cast<double>(client.connections); }},
    {{"causeway_address_calls_total", "Calls of one client address."},
     MetricType::Counter,
     nullptr,
     [](const control::ActivityStatus& client) { return static_cast<double>(client.use.calls); }},
    {{"causeway_address_errors_total",
      "Replies to one client address that refuse a call, and its calls that were lost with their connection."},
     MetricType::Counter,
     nullptr,
     [](const control::ActivityStatus& client) { return static_cast<double>(client.use.errors); }},
    {{"causeway_address_bytes_total", "Bytes of calls from (rx) and replies to (tx) one client address."},
     MetricType::Counter,
     "rx",
     [](const control::ActivityStatus& client) { return static_cast<double>(client.use.call_bytes); }},
    {{"causeway_address_bytes_total", ""},
     MetricType::Counter,
     "tx",
     [](const control::ActivityStatus& client) { return static_cast<double>(client.use.reply_bytes); }},
    {{"causeway_address_call_seconds_total",
      "Seconds that the answered calls of one client address took together, from the SEND of a call to that of its reply."},
     MetricType::Counter,
     nullptr,
     seconds_of},
};

}  // namespace

std::vector<MetricFamily> address_metrics(std::vector<control::ActivityStatus> activity, uint32_t addresses_max) {
  const auto rank = [](const control::ActivityStatus& client) {
    return std::tuple(client.connections > 0, client.use.calls, std::string_view(client.client));
  };
  std::ranges::sort(activity, std::ranges::greater{}, rank);
  const size_t told = std::min<size_t>(activity.size(), addresses_max);
  std::vector<MetricFamily> families;
  for (const AddressSeries& series : kSeries) {
    if (families.empty() || families.back().name != series.name.name) {
      families.push_back({series.name.name, series.name.help, series.type, {}});
    }
    for (size_t i = 0; i < told; ++i) {
      Labels labels = {{"address", activity[i].client}, {"client", activity[i].section}};
      if (series.direction != nullptr) {
        labels.push_back({"direction", series.direction});
      }
      families.back().metric.push_back(sample(std::move(labels), series.get(activity[i])));
    }
  }
  families.push_back(
      {"causeway_addresses_untold",
       "Client addresses that the gateway remembers and that have no series, since there are more than addresses_max.",
       MetricType::Gauge,
       {sample({}, static_cast<double>(activity.size() - told))}});
  return families;
}

}  // namespace cw::telemetry
