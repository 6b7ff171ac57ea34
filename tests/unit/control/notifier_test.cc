// The notification protocol against a socket of our own.
#include "control/service/notifier.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <filesystem>

namespace cw::control {
namespace {

constexpr int64_t kPid = 4711;

// What systemd is at the other end.
class NotifierTest : public testing::Test {
 protected:
  NotifierTest() {
    directory_ = (std::filesystem::temp_directory_path() / "causeway-notify-XXXXXX").string();
    EXPECT_NE(mkdtemp(directory_.data()), nullptr);
    path_ = directory_ + "/notify";
  }
  ~NotifierTest() override { std::filesystem::remove_all(directory_); }

  void listen_on(const std::string& name) {
    manager_ = UniqueFd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path, name.size());
    if (name[0] == '@') {
      address.sun_path[0] = '\0';
    }
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() + (name[0] == '@' ? 0 : 1));
    ASSERT_EQ(bind(manager_.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
  }
  [[nodiscard]] std::string received() const {
    std::array<char, 4096> buffer;
    const ssize_t got = recv(manager_.get(), buffer.data(), buffer.size(), 0);
    return got < 0 ? "nothing" : std::string(buffer.data(), static_cast<size_t>(got));
  }
  [[nodiscard]] static Notifier open_fine(const NotifyEnvironment& environment) {
    std::string problem = "not cleared";
    Notifier notifier = Notifier::open(environment, problem);
    EXPECT_EQ(problem, "");
    return notifier;
  }

  std::string directory_;
  std::string path_;
  UniqueFd manager_;
};

TEST_F(NotifierTest, WithoutAManagerEverythingSucceedsAndNothingHappens) {
  for (const char* socket : {static_cast<const char*>(nullptr), ""}) {
    const Notifier notifier = open_fine({.socket = socket, .watchdog_usec = "1000000"});
    EXPECT_FALSE(notifier.is_active());
    EXPECT_EQ(notifier.watchdog_timeout(), std::nullopt);
    EXPECT_TRUE(notifier.ready("serving"));
    EXPECT_TRUE(notifier.feed_watchdog());
  }
}

TEST_F(NotifierTest, EachStateIsOneDatagram) {
  listen_on(path_);
  const Notifier notifier = open_fine({.socket = path_.c_str(), .watchdog_usec = "1000000"});
  EXPECT_TRUE(notifier.is_active());
  EXPECT_TRUE(notifier.status("starting"));
  EXPECT_EQ(received(), "STATUS=starting");
  EXPECT_TRUE(notifier.ready("serving"));
  EXPECT_EQ(received(), "READY=1\nSTATUS=serving");
  EXPECT_TRUE(notifier.feed_watchdog());
  EXPECT_EQ(received(), "WATCHDOG=1");
  EXPECT_TRUE(notifier.reloading(Instant::from_ns(5'000'999), "reading"));
  EXPECT_EQ(received(), "RELOADING=1\nMONOTONIC_USEC=5000\nSTATUS=reading");
  EXPECT_TRUE(notifier.stopping("bye", Duration::seconds(7)));
  EXPECT_EQ(received(), "STOPPING=1\nEXTEND_TIMEOUT_USEC=7000000\nSTATUS=bye");
  EXPECT_EQ(received(), "nothing");
}

TEST_F(NotifierTest, AnAbstractSocketIsReachedToo) {
  const std::string name = "@" + path_;
  listen_on(name);
  EXPECT_TRUE(open_fine({.socket = name.c_str()}).ready("x"));
  EXPECT_EQ(received(), "READY=1\nSTATUS=x");
}

TEST_F(NotifierTest, ATextCannotBecomeAnotherField) {
  listen_on(path_);
  EXPECT_TRUE(open_fine({.socket = path_.c_str()}).status("one\nSTOPPING=1\r\t\x7f."));
  EXPECT_EQ(received(), "STATUS=one STOPPING=1   .");
}

TEST_F(NotifierTest, ALongTextIsCut) {
  listen_on(path_);
  EXPECT_TRUE(open_fine({.socket = path_.c_str()}).status(std::string(9999, 'x')));
  EXPECT_EQ(received(), "STATUS=" + std::string(Notifier::kStatusBytesMax, 'x'));
}

TEST_F(NotifierTest, ASocketThatIsNotThereIsSaidInOneSentence) {
  std::string problem;
  const Notifier notifier = Notifier::open({.socket = path_.c_str()}, problem);
  EXPECT_EQ(problem, "NOTIFY_SOCKET=" + path_ + ": No such file or directory");
  EXPECT_FALSE(notifier.is_active());
  EXPECT_TRUE(notifier.ready("x"));
}

TEST_F(NotifierTest, NamesThatNoUnixSocketHasAreRefused) {
  const std::string long_path = "/" + std::string(200, 'x');
  for (const std::string& name :
       {std::string("relative"), std::string("@"), std::string("/"), long_path, std::string("vsock:2:1")}) {
    std::string problem;
    EXPECT_FALSE(Notifier::open({.socket = name.c_str()}, problem).is_active()) << name;
    EXPECT_NE(problem, "") << name;
  }
}

TEST_F(NotifierTest, AManagerThatWentAwayIsAnError) {
  listen_on(path_);
  const Notifier notifier = open_fine({.socket = path_.c_str()});
  manager_ = UniqueFd();
  EXPECT_FALSE(notifier.ready("x"));
}

TEST_F(NotifierTest, TheWatchdogIsForTheProcessThatItNames) {
  listen_on(path_);
  const auto timeout = [&](const char* usec, const char* pid) {
    return open_fine({.socket = path_.c_str(), .watchdog_usec = usec, .watchdog_pid = pid, .own_pid = kPid}).watchdog_timeout();
  };
  EXPECT_EQ(timeout("30000000", "4711"), Duration::seconds(30));
  EXPECT_EQ(timeout("30000000", nullptr), Duration::seconds(30));
  EXPECT_EQ(timeout("30000000", "4712"), std::nullopt);
  EXPECT_EQ(timeout("30000000", "me"), std::nullopt);
  EXPECT_EQ(timeout(nullptr, "4711"), std::nullopt);
}

TEST_F(NotifierTest, AWatchdogThatNobodySetIsNotFed) {
  listen_on(path_);
  EXPECT_TRUE(open_fine({.socket = path_.c_str()}).feed_watchdog());
  EXPECT_EQ(received(), "nothing");
}

TEST_F(NotifierTest, AWatchdogTimeThatIsNoneIsIgnored) {
  listen_on(path_);
  for (const char* usec : {"", "0", "-1", "1s", "9999999999999999999", "18446744073709551615"}) {
    EXPECT_EQ(open_fine({.socket = path_.c_str(), .watchdog_usec = usec}).watchdog_timeout(), std::nullopt) << usec;
  }
}

}  // namespace
}  // namespace cw::control
