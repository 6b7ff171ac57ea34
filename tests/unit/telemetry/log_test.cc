#include "telemetry/log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <sstream>
#include <string>
#include <vector>

namespace cw::telemetry {
namespace {

class LogTest : public testing::Test {
 protected:
  LogTest() { log_start(control::LogLevel::kInfo); }
  static std::vector<std::string> captured(auto&& write) {
    testing::internal::CaptureStderr();
    write();
    std::istringstream lines(testing::internal::GetCapturedStderr());
    std::vector<std::string> result;
    for (std::string line; std::getline(lines, line);) {
      result.push_back(line);
    }
    return result;
  }
};

TEST_F(LogTest, LineHasTimeLevelAndText) {
  const auto lines = captured([] { log_warning("backend {}: {}", "nfs", 7); });
  ASSERT_EQ(lines.size(), 1u);
  std::string shape = lines[0];
  std::replace_if(
      shape.begin(), shape.begin() + 23, [](unsigned char c) { return std::isdigit(c) != 0; }, '9');
  EXPECT_EQ(shape, "9999-99-99T99:99:99.999Z warning backend nfs: 7");
}

TEST_F(LogTest, LevelsBelowAreNotWritten) {
  EXPECT_TRUE(captured([] { log_debug("quiet"); }).empty());
  log_set_level(control::LogLevel::kError);
  EXPECT_TRUE(captured([] { log_warning("quiet"); }).empty());
  EXPECT_EQ(captured([] { log_error("loud"); }).size(), 1u);
}

TEST_F(LogTest, FloodFromOnePlaceIsHeldBackAndOthersAreNot) {
  const auto lines = captured([] {
    for (int i = 0; i < 1000; ++i) {
      log_info("flood {}", i);
    }
    log_info("another place");
  });
  EXPECT_GE(lines.size(), kLogBurst + 1);
  EXPECT_LE(lines.size(), kLogBurst + 3);  // one or two more, should a second pass meanwhile
  EXPECT_TRUE(lines.back().ends_with("another place"));
}

TEST_F(LogTest, ControlCharactersCannotForgeLines) {
  EXPECT_EQ(log_clean("a\nb\x1b[0m\r\x7f"), "a b [0m  ");
  EXPECT_EQ(log_clean(std::string(5000, 'x')).size(), kLogLineBytesMax);
  EXPECT_EQ(captured([] { log_info("one\ntwo"); }).size(), 1u);
}

}  // namespace
}  // namespace cw::telemetry
