// The recorder's file: whose it is, what becomes of it at the next start, and what a signal leaves in it.
#include "control/recorder/recorder.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "base/assert.h"
#include "control/recorder/state_recorder.h"
#include "tests/support/file_tree.h"
#include "tests/unit/control/fake_view.h"

namespace cw::control::recorder {
namespace {

class RecorderTest : public ::testing::Test {
 protected:
  std::unique_ptr<Recorder> open() {
    before_.clear();
    problem_.clear();
    return Recorder::open(
        path_,
        Head{.version = "1", .instance = "i", .config_path = "/c", .program = "/p", .pid = static_cast<uint64_t>(getpid())},
        before_, problem_);
  }
  // In a process of its own; how that ended.
  int in_a_process(const std::function<void(Recorder&)>& what) {
    const pid_t child = fork();
    if (child == 0) {
      (void)prctl(PR_SET_DUMPABLE, 0);
      const std::unique_ptr<Recorder> recorder = open();
      if (recorder == nullptr) {
        _exit(99);
      }
      recorder->note_fatal_signals();
      what(*recorder);
      _exit(0);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return status;
  }
  static bool has_default_action(int signal) {
    struct sigaction present {};
    return sigaction(signal, nullptr, &present) == 0 && present.sa_handler == SIG_DFL;
  }
  [[nodiscard]] Recording recorded() const {
    const RecordingFile file = read_recording(path_);
    EXPECT_EQ(file.problem, "");
    return file.recording.value_or(Recording());
  }

  test::FileTree directory_;
  std::string path_ = directory_.root() / "a.recorder";
  std::string before_;
  std::string problem_;
};

TEST_F(RecorderTest, IsForItsOwnerOnlyAndOfFixedSize) {
  const std::unique_ptr<Recorder> recorder = open();
  ASSERT_NE(recorder, nullptr) << problem_;
  struct stat info {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  EXPECT_EQ(static_cast<size_t>(info.st_size), kRecordingBytes);
  EXPECT_EQ(head_of(recorded()).config_path, "/c");
  EXPECT_NE(recorded().text(Area::kModules), "");
}

TEST_F(RecorderTest, StandsBesideTheSocket) {
  EXPECT_EQ(recorder_path("/run/causeway/a.sock"), "/run/causeway/a.recorder");
  EXPECT_EQ(recorder_path("/tmp/admin"), "/tmp/admin.recorder");
  EXPECT_EQ(recorder_path(".sock"), ".recorder");
}

TEST_F(RecorderTest, AProcessThatIsKilledLeavesWhatItSaid) {
  const int status = in_a_process([](Recorder& recorder) {
    recorder.add_line(LogLevel::kWarning, "the last line");
    recorder.put(Area::kStatus, "{\"a\": 1}");
    (void)kill(getpid(), SIGKILL);
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_EQ(recorded().text(Area::kLines), "the last line");
  EXPECT_EQ(recorded().text(Area::kStatus), "{\"a\": 1}");
  EXPECT_NE(how_it_ended(recorded()).find("without a word"), std::string::npos);
  EXPECT_FALSE(read_recording(path_).runs);
}

TEST_F(RecorderTest, TheNextProcessKeepsWhatACrashedOneLeft) {
  (void)in_a_process([](Recorder& recorder) {
    recorder.add_line(LogLevel::kError, "trouble");
    (void)kill(getpid(), SIGKILL);
  });
  std::unique_ptr<Recorder> next = open();
  ASSERT_NE(next, nullptr) << problem_;
  EXPECT_NE(before_.find("without a word"), std::string::npos) << before_;
  EXPECT_NE(before_.find("causewayctl report has its last words"), std::string::npos) << before_;
  const RecordingFile kept = read_recording(crashed_path(path_));
  ASSERT_TRUE(kept.recording) << kept.problem;
  EXPECT_EQ(kept.recording->text(Area::kLines), "trouble");
  EXPECT_EQ(recorded().text(Area::kLines), "");
  next->end(End::kInOrder, "");
  next.reset();
  // One that ends in order does not push it out.
  next = open();
  ASSERT_NE(next, nullptr) << problem_;
  EXPECT_EQ(before_, "");
  EXPECT_EQ(read_recording(crashed_path(path_)).recording->text(Area::kLines), "trouble");
}

TEST_F(RecorderTest, ASignalIsNotedAndDoesWhatItDid) {
  if (!has_default_action(SIGSEGV)) {
    GTEST_SKIP() << "a sanitizer handles SIGSEGV";
  }
  const int status = in_a_process([](Recorder&) {
    (void)prctl(PR_SET_NAME, "unlucky");
    *reinterpret_cast<volatile int*>(uintptr_t{0x18}) = 1;  // NOLINT: it is meant
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGSEGV);
  const std::string ended = how_it_ended(recorded());
  EXPECT_NE(ended.find("ended by SIGSEGV (address 0x18) in thread unlucky"), std::string::npos) << ended;
  EXPECT_NE(trail_text(recorded()).find("causewayd+0x"), std::string::npos) << trail_text(recorded());
}

TEST_F(RecorderTest, ASignalThatSomebodySendsIsNotedWithWhoSentIt) {
  if (!has_default_action(SIGSEGV)) {
    GTEST_SKIP() << "a sanitizer handles SIGSEGV";
  }
  const int status = in_a_process([](Recorder&) { (void)kill(getpid(), SIGSEGV); });
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGSEGV);
  EXPECT_NE(how_it_ended(recorded()).find("ended by SIGSEGV"), std::string::npos);
}

TEST_F(RecorderTest, AnAssertionIsNotedWithItsWords) {
  const int status = in_a_process([](Recorder&) {
    const SignalStack stack;
    CW_ASSERT(getpid() == 0);
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGABRT);
  const std::string ended = how_it_ended(recorded());
  EXPECT_NE(ended.find("internal error: getpid() == 0 is false at"), std::string::npos) << ended;
}

TEST_F(RecorderTest, ASecondProcessTouchesNothing) {
  const std::unique_ptr<Recorder> recorder = open();
  ASSERT_NE(recorder, nullptr) << problem_;
  recorder->add_line(LogLevel::kInfo, "mine");
  EXPECT_EQ(WEXITSTATUS(in_a_process([](Recorder&) {})), 99);
  const pid_t child = fork();
  if (child == 0) {
    const RecordingFile file = read_recording(path_);
    _exit(file.runs && file.pid == static_cast<uint64_t>(getppid()) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  // Last: the lock goes when its own process reads the file, which causewayd does not.
  EXPECT_EQ(recorded().text(Area::kLines), "mine");
}

TEST_F(RecorderTest, WhatHasItsNameAndIsNoFileStays) {
  ASSERT_EQ(mkdir(path_.c_str(), 0700), 0);
  EXPECT_EQ(open(), nullptr);
  EXPECT_NE(problem_, "");
  EXPECT_NE(read_recording(path_).problem, "");
  ASSERT_EQ(rmdir(path_.c_str()), 0);
  ASSERT_EQ(symlink("/dev/null", path_.c_str()), 0);
  EXPECT_EQ(open(), nullptr);
  EXPECT_NE(read_recording(path_).problem, "");
  ASSERT_EQ(unlink(path_.c_str()), 0);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(open(), nullptr);
  EXPECT_NE(read_recording(path_).problem, "");
}

TEST_F(RecorderTest, AForeignFileIsOverwrittenAndNotKept) {
  std::ofstream(path_) << "something else";
  EXPECT_NE(read_recording(path_).problem, "");
  const std::unique_ptr<Recorder> recorder = open();
  ASSERT_NE(recorder, nullptr) << problem_;
  EXPECT_EQ(before_, "");
  EXPECT_NE(access(crashed_path(path_).c_str(), F_OK), 0);
}

TEST_F(RecorderTest, TheStateIsThatOfTheGatewayWithoutItsSecrets) {
  FakeView view;
  FakeControl control;
  control.fixed_settings.push_back({"port[0].device", "\"net_memif0,secret=abc\""});
  const std::unique_ptr<Recorder> recorder = open();
  ASSERT_NE(recorder, nullptr) << problem_;
  {
    const StateRecorder state(*recorder, AdminTarget{view, control});
    while (view.calls < 3) {
      std::this_thread::yield();
    }
  }
  const Recording recording = recorded();
  EXPECT_EQ(recording.text(Area::kConfig), "log.level = \"info\"\nport[0].device = \"net_memif0,secret=(removed)\"\n");
  EXPECT_NE(recording.text(Area::kStatus).find("\"version\":\"9.8.7\""), std::string::npos);
  EXPECT_NE(recording.text(Area::kEvents).find("remote access error"), std::string::npos);
  EXPECT_NE(recording.text(Area::kCounters).find("causeway_connections 2\n"), std::string::npos);
}

// Their text costs more than all else that is looked at.
TEST_F(RecorderTest, SettingsAreReadWhenTheyHaveChanged) {
  FakeView view;
  FakeControl control;
  const std::unique_ptr<Recorder> recorder = open();
  ASSERT_NE(recorder, nullptr) << problem_;
  {
    const StateRecorder state(*recorder, AdminTarget{view, control});
    while (view.calls < 6) {  // two looks at least
      std::this_thread::yield();
    }
    EXPECT_EQ(control.settings_asked, 1u);
    control.version = 2;
    while (control.settings_asked < 2) {
      std::this_thread::yield();
    }
  }
}

}  // namespace
}  // namespace cw::control::recorder
