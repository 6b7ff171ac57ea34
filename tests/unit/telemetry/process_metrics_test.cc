#include "telemetry/process_metrics.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>

namespace cw::telemetry {
namespace {

std::optional<double> value_of(const ProcessMetrics& process, const std::string& name) {
  const auto families = process.collect();
  const auto found =
      std::ranges::find_if(families, [&name](const prometheus::MetricFamily& family) { return family.name == name; });
  return found == families.end() ? std::nullopt : std::optional(found->metric.front().gauge.value);
}

TEST(ProcessMetricsTest, CountsTheDescriptorsThatAreOpen) {
  const ProcessMetrics process;
  const std::optional<double> before = value_of(process, "process_open_fds");
  ASSERT_TRUE(before);
  const int more = open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(more, 0);
  EXPECT_EQ(value_of(process, "process_open_fds"), *before + 1);
  close(more);
  EXPECT_EQ(value_of(process, "process_open_fds"), before);
}

// The drill of descriptors that run out found the family missing while none was left, so the alert on it could not fire.
TEST(ProcessMetricsTest, AnswersWhenNoDescriptorIsLeft) {
  const ProcessMetrics process;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const std::optional<double> open_fds = value_of(process, "process_open_fds");
  const std::optional<double> max_fds = value_of(process, "process_max_fds");
  const std::optional<double> memory = value_of(process, "process_resident_memory_bytes");
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_GE(open_fds.value_or(0), 3);
  EXPECT_EQ(max_fds, 0);
  EXPECT_GT(memory.value_or(0), 0);
}

}  // namespace
}  // namespace cw::telemetry
