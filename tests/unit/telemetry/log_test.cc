#include "telemetry/log.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "telemetry/log_format.h"

namespace cw::telemetry {
namespace {

class LogTest : public testing::Test {
 protected:
  LogTest() { log_start({.level = control::LogLevel::kInfo, .format = control::LogLineFormat::kText}, "one"); }
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

TEST_F(LogTest, AJsonLineIsOneObjectWhateverItQuotes) {
  log_set_format(control::LogLineFormat::kJson, "one");
  const auto lines = captured([] { log_error("peer said \"{}\\{}\"", "\xff\xfe", "ü"); });
  ASSERT_EQ(lines.size(), 1u);
  const nlohmann::json line = nlohmann::json::parse(lines[0]);
  EXPECT_EQ(line["level"], "error");
  EXPECT_EQ(line["instance"], "one");
  EXPECT_EQ(line["message"], "peer said \"\ufffd\ufffd\\ü\"");
  EXPECT_EQ(line["time"].get<std::string>().size(), std::string("2026-01-31T12:00:00.123Z").size());
}

TEST_F(LogTest, FieldsStandBehindTheMessageInTheirOrderAndNotInTheText) {
  log_set_format(control::LogLineFormat::kJson, "one");
  const auto lines = captured([] {
    log_warning({{LogFieldName::kCalls, 7u}, {LogFieldName::kBackend, "n\"\nfs"}, {LogFieldName::kClient, "10.9.0.2"}},
                "{} has {}", "nfs", 7);
  });
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find(R"("message":"nfs has 7","client":"10.9.0.2","backend":"n\"\nfs","calls":7})"), std::string::npos)
      << lines[0];
  EXPECT_EQ(log_recent().back().text, "nfs has 7");
  log_set_format(control::LogLineFormat::kText, "one");
  EXPECT_TRUE(captured([] { log_info({{LogFieldName::kCalls, 7u}}, "as ever"); }).back().ends_with("Z info as ever"));
}

TEST_F(LogTest, JournaldIsToldThePriorityOfEachLine) {
  log_set_format(control::LogLineFormat::kJournal, "one");
  EXPECT_EQ(captured([] {
              log_info("all is well");
              log_warning("not all");
              log_error("nothing");
            }),
            (std::vector<std::string>{"<6>all is well", "<4>not all", "<3>nothing"}));
}

TEST_F(LogTest, AutoIsJournalOnlyWhenStderrIsJournaldsStream) {
  using control::LogLineFormat;
  struct stat file {};
  ASSERT_EQ(fstat(STDERR_FILENO, &file), 0);
  unsetenv("JOURNAL_STREAM");
  EXPECT_EQ(line_format(LogLineFormat::kAuto), LogLineFormat::kText);
  setenv("JOURNAL_STREAM", fmt::format("{}:{}", file.st_dev, file.st_ino).c_str(), 1);
  EXPECT_EQ(line_format(LogLineFormat::kAuto), LogLineFormat::kJournal);
  EXPECT_EQ(line_format(LogLineFormat::kJson), LogLineFormat::kJson);
  setenv("JOURNAL_STREAM", fmt::format("{}:{}", file.st_dev, file.st_ino + 1).c_str(), 1);  // inherited, and redirected since
  EXPECT_EQ(line_format(LogLineFormat::kAuto), LogLineFormat::kText);
  unsetenv("JOURNAL_STREAM");
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

// Lines into a pipe while nobody reads it, or when it has no reader any more.
class PipeAsStderr {
 public:
  PipeAsStderr() : kept_(dup(STDERR_FILENO)) {
    EXPECT_EQ(pipe(ends_.data()), 0);
    dup2(ends_[1], STDERR_FILENO);
    close(ends_[1]);
  }
  ~PipeAsStderr() {
    dup2(kept_, STDERR_FILENO);
    close(kept_);
    close_reader();
  }
  PipeAsStderr(const PipeAsStderr&) = delete;
  PipeAsStderr& operator=(const PipeAsStderr&) = delete;
  void close_reader() {
    if (ends_[0] >= 0) {
      close(std::exchange(ends_[0], -1));
    }
  }
  [[nodiscard]] std::string read_all() {
    fcntl(ends_[0], F_SETFL, O_NONBLOCK);
    std::string all;
    std::array<char, 4096> part;
    for (ssize_t got = 0; (got = read(ends_[0], part.data(), part.size())) > 0;) {
      all.append(part.data(), static_cast<size_t>(got));
    }
    return all;
  }

 private:
  int kept_;
  std::array<int, 2> ends_{-1, -1};
};

// A place of its own for each line, so that none is held back.
void log_lines(uint32_t count) {
  const std::string text(900, 'x');
  for (uint32_t i = 0; i < count; ++i) {
    log_write(control::LogLevel::kInfo, {"log_test", i}, text);
  }
}

TEST_F(LogTest, ReaderThatDoesNotReadKeepsNobodyWaitingAndLearnsWhatItMissed) {
  PipeAsStderr stderr_pipe;
  const uint64_t before = log_lost();
  log_lines(500);  // far more than a pipe takes
  const uint64_t lost = log_lost() - before;
  EXPECT_GT(lost, 100u);
  EXPECT_LT(lost, 500u);
  (void)stderr_pipe.read_all();
  log_write(control::LogLevel::kInfo, {"log_test", 1000}, "here again");
  const std::string said = stderr_pipe.read_all();
  EXPECT_NE(said.find(fmt::format("warning {} log lines were lost: whoever reads them does not keep up\n", lost)),
            std::string::npos)
      << said;
  EXPECT_TRUE(said.ends_with("info here again\n")) << said;
  EXPECT_EQ(log_lost() - before, lost);
}

TEST_F(LogTest, ReaderThatIsGoneCostsLinesAndNothingElse) {
  (void)signal(SIGPIPE, SIG_IGN);  // as causewayd does
  PipeAsStderr stderr_pipe;
  stderr_pipe.close_reader();
  const uint64_t before = log_lost();
  log_lines(3);
  EXPECT_EQ(log_lost() - before, 3u);
  EXPECT_EQ(log_recent().back().text.front(), 'x');
}

}  // namespace
}  // namespace cw::telemetry
