// A process is followed by another one: this program, told by its arguments and environment to run one of the tests below.
#include "control/service/successor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace cw::control {
namespace {

std::vector<std::string> running(const std::string& test) {
  return {"--gtest_filter=" + test, "--gtest_color=no", "--gtest_brief=1"};
}

constexpr auto kLong = std::chrono::seconds(60);  // for a busy machine
constexpr const char* kFollower = "CAUSEWAY_TEST_FOLLOWER";

class SuccessorTest : public testing::Test {
 protected:
  void SetUp() override { (void)setenv(kFollower, "1", 1); }
  void TearDown() override { (void)unsetenv(kFollower); }
};

// That this process may use.
int cpus() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
}

class Arguments {
 public:
  explicit Arguments(std::vector<std::string> words) : words_(std::move(words)) {
    words_.insert(words_.begin(), "causewayd");
    for (std::string& word : words_) {
      pointers_.push_back(word.data());
    }
  }
  [[nodiscard]] Successor successor() { return Successor(static_cast<int>(pointers_.size()), pointers_.data()); }

 private:
  std::vector<std::string> words_;
  std::vector<char*> pointers_;
};

TEST_F(SuccessorTest, SaysWhetherItCanFollow) {
  const Successor successor = Arguments({}).successor();
  std::string problem;
  EXPECT_TRUE(successor.can_follow(running("Followers.SayYes"), problem, kLong)) << problem;
  EXPECT_FALSE(successor.can_follow(running("Followers.SayNo"), problem, kLong));
  EXPECT_NE(problem.find("no, because"), std::string::npos) << problem;
}

TEST_F(SuccessorTest, OneThatHangsIsNotWaitedForLong) {
  const auto start = std::chrono::steady_clock::now();
  std::string problem;
  EXPECT_FALSE(Arguments({}).successor().can_follow(running("Followers.Hang"), problem));
  EXPECT_NE(problem.find("not done within 3.0 s"), std::string::npos) << problem;
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

TEST_F(SuccessorTest, HasWhatWasLeftAndNothingElse) {
  const int other = open("/dev/null", O_RDONLY);
  ASSERT_GE(other, 0);
  const pid_t child = fork();
  if (child == 0) {
    (void)setenv("CPUS_BEFORE", std::to_string(cpus()).c_str(), 1);
    const Successor successor = Arguments(running("Followers.FindTheLegacy")).successor();
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(sched_getcpu()), &one);
    (void)sched_setaffinity(0, sizeof(one), &one);
    sigset_t blocked;
    sigfillset(&blocked);
    (void)pthread_sigmask(SIG_SETMASK, &blocked, nullptr);
    const std::vector<uint8_t> legacy(100'000, 7);
    (void)successor.become(legacy);
    _exit(99);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  close(other);
}

TEST_F(SuccessorTest, WhoFollowsNobodyFindsNothing) {
  std::string problem;
  EXPECT_FALSE(Successor::take_legacy(problem).has_value());
  EXPECT_EQ(problem, "");
  for (const char* wrong : {"", "x", "-1", "2", "99999", "3 "}) {
    (void)setenv("CAUSEWAY_LEGACY_FD", wrong, 1);
    problem.clear();
    EXPECT_FALSE(Successor::take_legacy(problem).has_value());
    EXPECT_NE(problem, "") << wrong;
    EXPECT_EQ(getenv("CAUSEWAY_LEGACY_FD"), nullptr) << "it is said once";
  }
}

// What the tests above start; by themselves these do nothing.
bool is_follower() {
  return getenv(kFollower) != nullptr;
}
TEST(Followers, SayYes) {}
TEST(Followers, SayNo) {
  if (is_follower()) {
    (void)std::fflush(stdout);  // what gtest has said; ThreadSanitizer's _exit() would write it behind ours
    std::fprintf(stderr, "no, because\n");
    _exit(1);
  }
}
TEST(Followers, Hang) {
  if (is_follower()) {
    std::this_thread::sleep_for(std::chrono::seconds(60));
  }
}
TEST(Followers, FindTheLegacy) {
  if (!is_follower()) {
    return;
  }
  std::string problem;
  const auto legacy = Successor::take_legacy(problem);
  ASSERT_TRUE(legacy.has_value()) << problem;
  EXPECT_EQ(*legacy, std::vector<uint8_t>(100'000, 7));
  EXPECT_EQ(getenv("CAUSEWAY_LEGACY_FD"), nullptr);
  sigset_t blocked;
  (void)pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  EXPECT_EQ(sigismember(&blocked, SIGTERM), 0);
  EXPECT_EQ(std::to_string(cpus()), getenv("CPUS_BEFORE"));
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    EXPECT_FALSE(target == "/dev/null" && entry.path().filename() > "2") << "a file of the process before is open";
    EXPECT_EQ(target.find("causeway_legacy"), std::string::npos);
  }
}

}  // namespace
}  // namespace cw::control
