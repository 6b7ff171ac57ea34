// The server that the admin socket and the metrics share, with the smallest session: it says back what it hears.
#include "control/socket/stream_server.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <atomic>
#include <string>

namespace cw::control {
namespace {

class EchoSession final : public StreamSession {
 public:
  EchoSession(UniqueFd client, Duration timeout, std::atomic<int>& alive, std::atomic<int>& late)
      : StreamSession(std::move(client), timeout), alive_(alive), late_(late) {
    ++alive_;
  }
  ~EchoSession() override { --alive_; }
  void on_ready() override {
    if (!is_answering()) {
      std::array<char, 64> heard;
      const ssize_t got = recv(fd(), heard.data(), heard.size(), 0);
      if (got <= 0) {
        ended_ = true;
        return;
      }
      set_answer(std::string(heard.data(), static_cast<size_t>(got)));
    }
    ended_ = send_answer() == Sent::kBroken;
  }
  [[nodiscard]] bool has_ended() const override { return ended_; }
  void on_deadline() override { ++late_; }

 private:
  std::atomic<int>& alive_;
  std::atomic<int>& late_;
  bool ended_ = false;
};

class StreamServerTest : public testing::Test {
 protected:
  // A name in the abstract namespace, which the system picks.
  void start(Duration timeout = Duration::seconds(10), size_t clients_max = 100) {
    UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un any{};
    any.sun_family = AF_UNIX;
    ASSERT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&any), sizeof(any.sun_family)), 0);
    ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&name_), &name_size_), 0);
    ASSERT_EQ(listen(listener.get(), 16), 0);
    server_ =
        StreamServer::start(std::move(listener), [this, timeout, clients_max](UniqueFd client, StreamServer::Sessions& others) {
          return others.size() < clients_max ? std::make_unique<EchoSession>(std::move(client), timeout, alive_, late_) : nullptr;
        });
    ASSERT_NE(server_, nullptr);
  }
  [[nodiscard]] UniqueFd connect_client() const {
    UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval limit{.tv_sec = 10, .tv_usec = 0};
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&name_), name_size_), 0);
    return fd;
  }
  // What comes, to the end of the stream or as long as `text`; "gone" at its end.
  static std::string say(const UniqueFd& client, const std::string& text) {
    EXPECT_EQ(send(client.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
    return hear(client);
  }
  static std::string hear(const UniqueFd& client) {
    std::array<char, 64> heard;
    const ssize_t got = recv(client.get(), heard.data(), heard.size(), 0);
    return got > 0 ? std::string(heard.data(), static_cast<size_t>(got)) : got == 0 ? "gone" : "nothing";
  }

  std::atomic<int> alive_{0};
  std::atomic<int> late_{0};
  sockaddr_un name_{};
  socklen_t name_size_ = sizeof(name_);
  std::unique_ptr<StreamServer> server_;
};

TEST_F(StreamServerTest, EachClientHasASessionOfItsOwn) {
  start();
  const UniqueFd first = connect_client();
  const UniqueFd second = connect_client();
  EXPECT_EQ(say(second, "two"), "two");
  EXPECT_EQ(say(first, "one"), "one");
  EXPECT_EQ(say(second, "again"), "again");
  EXPECT_EQ(alive_.load(), 2);
}

TEST_F(StreamServerTest, WhoIsNotAdmittedIsClosed) {
  start(Duration::seconds(10), 1);
  const UniqueFd first = connect_client();
  EXPECT_EQ(say(first, "one"), "one");
  const UniqueFd second = connect_client();
  EXPECT_EQ(hear(second), "gone");
  EXPECT_EQ(say(first, "still"), "still");
}

TEST_F(StreamServerTest, AClientIsClosedAtItsDeadline) {
  start(Duration::ms(50));
  const UniqueFd client = connect_client();
  EXPECT_EQ(hear(client), "gone");
  EXPECT_EQ(late_.load(), 1) << "it is told before";
}

TEST_F(StreamServerTest, WhoEndsByItselfIsNotLate) {
  start();
  UniqueFd client = connect_client();
  EXPECT_EQ(say(client, "one"), "one");
  client = UniqueFd();
  const UniqueFd other = connect_client();
  EXPECT_EQ(say(other, "two"), "two") << "the server has turned since";
  server_.reset();
  EXPECT_EQ(late_.load(), 0);
}

TEST_F(StreamServerTest, ItsEndClosesAllClients) {
  start();
  const UniqueFd client = connect_client();
  EXPECT_EQ(say(client, "one"), "one");
  server_.reset();
  EXPECT_EQ(alive_.load(), 0);
  EXPECT_EQ(hear(client), "gone");
}

}  // namespace
}  // namespace cw::control
