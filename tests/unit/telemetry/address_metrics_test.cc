#include "telemetry/address_metrics.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "telemetry/collector.h"

namespace cw::telemetry {
namespace {

control::ActivityStatus client(std::string address, uint32_t connections, uint64_t calls) {
  control::ActivityStatus status;
  status.client = std::move(address);
  status.connections = connections;
  status.use.calls = calls;
  return status;
}

std::map<std::string, double> series_of(std::vector<control::ActivityStatus> activity, uint32_t addresses_max) {
  std::map<std::string, double> series;
  for (const control::NamedValue& value : flatten(address_metrics(std::move(activity), addresses_max))) {
    EXPECT_TRUE(series.emplace(value.name, value.value).second) << "series twice: " << value.name;
  }
  return series;
}

TEST(AddressMetrics, TellWhatAnAddressDoes) {
  control::ActivityStatus one = client("10.0.0.1", 2, 30);
  one.section = "batch";
  one.use = {.calls = 30, .replies = 29, .errors = 1, .call_bytes = 3000, .reply_bytes = 4000};
  one.procedures = {{.program = "nfs", .procedure = "read", .calls = 20, .spent = Duration::ms(1500)},
                    {.program = "nfs", .procedure = "write", .calls = 9, .spent = Duration::ms(500)}};
  const std::map<std::string, double> expected = {
      {"causeway_address_connections{address=\"10.0.0.1\",client=\"batch\"}", 2},
      {"causeway_address_calls_total{address=\"10.0.0.1\",client=\"batch\"}", 30},
      {"causeway_address_errors_total{address=\"10.0.0.1\",client=\"batch\"}", 1},
      {"causeway_address_bytes_total{address=\"10.0.0.1\",client=\"batch\",direction=\"rx\"}", 3000},
      {"causeway_address_bytes_total{address=\"10.0.0.1\",client=\"batch\",direction=\"tx\"}", 4000},
      {"causeway_address_call_seconds_total{address=\"10.0.0.1\",client=\"batch\"}", 2},
      {"causeway_addresses_untold", 0},
  };
  EXPECT_EQ(series_of({one}, 10), expected);
}

// Who comes in such numbers that not all can be told does not push out those who are at work.
TEST(AddressMetrics, ThoseWhoAreConnectedAndCallMostComeFirst) {
  const auto series = series_of({client("10.0.0.1", 0, 9000), client("10.0.0.2", 1, 5), client("10.0.0.3", 1, 50),
                                 client("10.0.0.4", 1, 7), client("10.0.0.5", 0, 1)},
                                3);
  for (const char* told : {"10.0.0.2", "10.0.0.3", "10.0.0.4"}) {
    EXPECT_TRUE(series.contains("causeway_address_calls_total{address=\"" + std::string(told) + "\",client=\"\"}")) << told;
  }
  EXPECT_FALSE(series.contains("causeway_address_calls_total{address=\"10.0.0.1\",client=\"\"}"));
  EXPECT_EQ(series.at("causeway_addresses_untold"), 2);
}

}  // namespace
}  // namespace cw::telemetry
