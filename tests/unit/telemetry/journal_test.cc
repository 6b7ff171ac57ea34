// Lines to journald, which here is a socket of our own.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "telemetry/journal_socket.h"
#include "telemetry/log_format.h"
#include "telemetry/stderr_sink.h"
#include "tests/support/file_tree.h"

namespace cw::telemetry {
namespace {

using control::LogLevel;
using control::LogLineFormat;

class JournalTest : public testing::Test {
 protected:
  using enum LogFieldName;

  ~JournalTest() override { unsetenv("JOURNAL_STREAM"); }

  // From here on journald listens.
  void begin_journald() {
    journald_ = control::UniqueFd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, path_.size());
    ASSERT_EQ(bind(journald_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }
  [[nodiscard]] std::vector<std::string> entries() const {
    std::vector<std::string> all;
    std::array<char, 8192> buffer;
    for (ssize_t got = 0; (got = recv(journald_.get(), buffer.data(), buffer.size(), 0)) >= 0;) {
      all.emplace_back(buffer.data(), static_cast<size_t>(got));
    }
    return all;
  }
  // What is on stderr after `write`, which has the sink with the format `auto` and, as it looks, journald behind stderr.
  std::string on_stderr(auto&& write) {
    testing::internal::CaptureStderr();
    struct stat file {};
    EXPECT_EQ(fstat(STDERR_FILENO, &file), 0);
    setenv("JOURNAL_STREAM", fmt::format("{}:{}", file.st_dev, file.st_ino).c_str(), 1);
    sink_.set_format(LogLineFormat::kAuto, "one");
    write();
    return testing::internal::GetCapturedStderr();
  }
  static LogEntry entry(std::string text, LogFields fields = {}) {
    return {{.unix_ms = 0, .level = LogLevel::kWarning, .text = std::move(text)}, {"log_test.cc", 7}, std::move(fields)};
  }

  test::FileTree tree_;
  std::string path_ = tree_.root() / "socket";
  control::UniqueFd journald_;
  StderrSink sink_{path_};
};

constexpr std::string_view kBehindTheText =
    "PRIORITY=4\nSYSLOG_IDENTIFIER=causewayd\nCODE_FILE=log_test.cc\nCODE_LINE=7\nCAUSEWAY_INSTANCE=one\n";

TEST_F(JournalTest, ALineIsADatagramWithItsFields) {
  begin_journald();
  EXPECT_EQ(on_stderr([&] { sink_.write(entry("backend down", {{kBackend, "nfs"}, {kCalls, uint64_t{1} << 40}})); }), "");
  EXPECT_EQ(entries(), std::vector<std::string>{fmt::format(
                           "MESSAGE=backend down\n{}CAUSEWAY_BACKEND=nfs\nCAUSEWAY_CALLS=1099511627776\n", kBehindTheText)});
  EXPECT_EQ(sink_.lost(), 0u);
}

TEST_F(JournalTest, AValueWithALineEndIsSentWithItsLength) {
  using namespace std::string_literals;
  begin_journald();
  EXPECT_EQ(on_stderr([&] { sink_.write(entry("backend down", {{kBackend, "n\nPRIORITY=0"}, {kError, ""}})); }), "");
  EXPECT_EQ(entries(), std::vector<std::string>{fmt::format("MESSAGE=backend down\n{}", kBehindTheText) +
                                                "CAUSEWAY_BACKEND\n\x0c\0\0\0\0\0\0\0n\nPRIORITY=0\nCAUSEWAY_ERROR=\n"s});
}

TEST_F(JournalTest, WithoutJournaldsSocketALineGoesToStderrAndTheNextOneTriesAgain) {
  EXPECT_EQ(on_stderr([&] {
              sink_.write(entry("nobody is there", {{kClient, "10.9.0.2"}}));
              begin_journald();
              sink_.write(entry("here it is"));
              journald_ = control::UniqueFd();  // its file stays, as that of a journald that crashed
              sink_.write(entry("gone again"));
            }),
            "<4>nobody is there\n<4>gone again\n");
  EXPECT_EQ(sink_.lost(), 0u);
}

TEST_F(JournalTest, APathThatNoSocketCanHaveIsAsNone) {
  JournalSocket journal(std::string(200, 'x'));
  EXPECT_EQ(journal.send("MESSAGE=x\n"), JournalSocket::Sent::kRefused);
}

TEST_F(JournalTest, TheFormatJournalIsForStderrUnlessJournaldIsBehindIt) {
  begin_journald();
  EXPECT_EQ(on_stderr([&] {
              sink_.set_format(LogLineFormat::kJournal, "one");
              sink_.write(entry("to journald"));
              unsetenv("JOURNAL_STREAM");
              sink_.set_format(LogLineFormat::kJournal, "one");
              sink_.write(entry("to a pipe", {{kClient, "10.9.0.2"}}));
              sink_.set_format(LogLineFormat::kText, "one");
              sink_.write(entry("to a person", {{kClient, "10.9.0.2"}}));
            }),
            "<4>to a pipe\n1970-01-01T00:00:00.000Z warning to a person\n");
  EXPECT_EQ(entries().size(), 1u);
}

TEST_F(JournalTest, JournaldThatDoesNotReadKeepsNobodyWaitingAndLearnsWhatItMissed) {
  constexpr uint64_t kLines = 5000;  // far more than a socket takes
  begin_journald();
  EXPECT_EQ(on_stderr([&] {
              for (uint64_t i = 0; i < kLines; ++i) {
                sink_.write(entry(std::string(900, 'x')));
              }
            }),
            "");
  const uint64_t lost = sink_.lost();
  EXPECT_EQ(entries().size() + lost, kLines);
  EXPECT_GT(lost, 0u);
  EXPECT_EQ(on_stderr([&] { sink_.write(entry("here again", {{kClient, "10.9.0.2"}})); }), "");
  const std::vector<std::string> said = entries();
  ASSERT_EQ(said.size(), 2u);
  EXPECT_TRUE(
      said[0].starts_with(fmt::format("MESSAGE={} log lines were lost: whoever reads them does not keep up\nPRIORITY=4\n", lost)))
      << said[0];
  EXPECT_EQ(said[1], fmt::format("MESSAGE=here again\n{}CAUSEWAY_CLIENT=10.9.0.2\n", kBehindTheText));
  EXPECT_EQ(sink_.lost(), lost);
}

TEST(LogFields, EachHasANameOfItsOwnThatOperatorsCanReadAbout) {
  std::stringstream page;
  page << std::ifstream(CAUSEWAY_SOURCE_ROOT "/deploy/README.md").rdbuf();
  for (uint8_t i = 0; i < static_cast<uint8_t>(LogFieldName::kCount); ++i) {
    const std::string name(to_string(static_cast<LogFieldName>(i)));
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), std::string::npos) << name;
    EXPECT_TRUE(std::regex_search(page.str(), std::regex("\n\\| [^|\\n]*`" + name + "`[^|\\n]* \\| .* \\|\n"))) << name;
  }
}

}  // namespace
}  // namespace cw::telemetry
