#include "control/ctl/limited_run.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>

namespace cw::control {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLong{60'000};
constexpr size_t kMuch = 1 << 20;

TEST(LimitedRun, GivesWhatIsPrintedAndTheStatus) {
  const LimitedResult result = run_limited(
      [] {
        std::puts("to stdout");
        std::fflush(stdout);
        std::fputs("to stderr\n", stderr);
        return 4;
      },
      kLong, kMuch);
  EXPECT_EQ(result.text, "to stdout\nto stderr\n");
  EXPECT_EQ(result.status, 4);
  EXPECT_EQ(result.problem, "");
}

TEST(LimitedRun, WhatNeverEndsIsEnded) {
  const LimitedResult result = run_limited(
      [] {
        std::puts("so far");
        std::fflush(stdout);
        while (true) {
          pause();
        }
        return 0;
      },
      milliseconds(100), kMuch);
  EXPECT_EQ(result.status, -1);
  EXPECT_EQ(result.text, "so far\n");
  EXPECT_EQ(result.problem, "not done within 0.1 s");
}

TEST(LimitedRun, WhatPrintsNothingMoreAndStaysIsEndedToo) {
  const LimitedResult result = run_limited(
      [] {
        close(STDOUT_FILENO);
        close(STDERR_FILENO);
        pause();
        return 0;
      },
      milliseconds(100), kMuch);
  EXPECT_EQ(result.status, -1);
}

TEST(LimitedRun, ACrashIsItsOwnAndIsTold) {
  const LimitedResult result = run_limited(
      [] {
        (void)kill(getpid(), SIGKILL);
        return 0;
      },
      kLong, kMuch);
  EXPECT_EQ(result.status, -1);
  EXPECT_EQ(result.problem, "ended by signal 9");
}

TEST(LimitedRun, WhatIsTooLongIsCutAndSaysSo) {
  const LimitedResult result = run_limited(
      [] {
        std::puts(std::string(100'000, 'x').c_str());
        return 0;
      },
      kLong, 1000);
  EXPECT_EQ(result.text, std::string(1000, 'x') + "\n(99001 more bytes are left out)\n");
  EXPECT_EQ(result.status, 0);
}

TEST(LimitedRun, AProgramThatIsNotThereIsNamed) {
  const LimitedResult result = run_limited([] { return become_program({"no-such-program-here"}); }, kLong, kMuch);
  EXPECT_EQ(result.status, kNoSuchProgram);
  EXPECT_EQ(result.text, "no-such-program-here: No such file or directory\n");
  EXPECT_EQ(run_limited([] { return become_program({"echo", "a b"}); }, kLong, kMuch).text, "a b\n");
}

}  // namespace
}  // namespace cw::control
