// A backend stream over real loopback sockets; the test plays the server by hand and in one thread.
#include "dataplane/sockets/backend_stream.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <optional>

#include "base/heap_buffer_pool.h"
#include "base/random.h"
#include "control/socket/unique_fd.h"
#include "tests/unit/dataplane/few_descriptors.h"
#include "tests/unit/dataplane/loopback_listener.h"

namespace cw::dataplane {
namespace {

using test::ByteVector;
using test::FewDescriptors;
using test::LoopbackListener;
using test::Peer;
using test::random_bytes;
using test::wait_for;
using State = BackendStream::State;

ByteVector content(const Chain& chain) {
  ByteVector out(chain.bytes());
  chain.copy_to(0, out);
  return out;
}
// The message in fragments of these sizes; the last one takes the rest.
ByteVector marked(const ByteVector& message, const std::vector<size_t>& fragments = {}) {
  ByteVector out;
  size_t at = 0;
  for (size_t i = 0; i <= fragments.size(); ++i) {
    const bool last = i == fragments.size();
    const size_t bytes = last ? message.size() - at : fragments[i];
    std::array<uint8_t, 4> mark;
    rpcrdma::write_record_mark(mark, static_cast<uint32_t>(bytes), last);
    out.insert(out.end(), mark.begin(), mark.end());
    out.insert(out.end(), message.begin() + static_cast<ptrdiff_t>(at), message.begin() + static_cast<ptrdiff_t>(at + bytes));
    at += bytes;
  }
  return out;
}

class BackendStreamTest : public ::testing::Test {
 protected:
  void TearDown() override {
    stream.reset();
    EXPECT_EQ(pool.in_use(), 0u);
  }
  IpAddress source;  // unspecified: this host's
  void start() { stream = std::make_unique<BackendStream>(listener.address(), source, admission, rpcrdma::RecordLimits{}); }
  Peer open() {
    listener.listen();
    start();
    Peer peer = listener.accept();
    if (stream->state() == State::kConnecting) {
      EXPECT_TRUE(wait_for(stream->fd(), POLLOUT));
      stream->finish_connect();
    }
    EXPECT_EQ(stream->state(), State::kOpen);
    return peer;
  }
  void queue(const ByteVector& message) {
    Chain chain;
    ASSERT_TRUE(chain.append_copy(pool, message));
    stream->queue(std::move(chain));
  }
  // Reads until a message is complete or the stream has failed.
  bool next_message(ByteVector& out) {
    Chain chain;
    while (!stream->poll_message(chain)) {
      if (stream->state() != State::kOpen || !wait_for(stream->fd(), POLLIN)) {
        return false;
      }
      (void)stream->read();
    }
    out = content(chain);
    return true;
  }

  LoopbackListener listener;
  HeapBufferPool pool{1024, 32768, 4096};
  rpcrdma::RecordAdmission admission{pool};
  std::unique_ptr<BackendStream> stream;
};

TEST_F(BackendStreamTest, ConnectsAndSaysThatItWasRefused) {
  start();  // nobody listens
  if (stream->state() == State::kConnecting) {
    EXPECT_TRUE(stream->wants_write());
    EXPECT_TRUE(wait_for(stream->fd(), POLLOUT));
    stream->finish_connect();
  }
  EXPECT_EQ(stream->state(), State::kFailed);
  EXPECT_EQ(stream->failure(), ECONNREFUSED);
  const Peer peer = open();
  EXPECT_FALSE(stream->wants_write());
}

TEST_F(BackendStreamTest, LeavesTheLastDescriptorsToWhoLooksForTheCause) {
  listener.listen();
  const FewDescriptors one(1);
  start();
  const Peer peer = listener.accept();
  EXPECT_NE(stream->state(), State::kFailed);
  BackendStream second(listener.address(), source, admission, rpcrdma::RecordLimits{});
  EXPECT_EQ(second.state(), State::kFailed);
  EXPECT_EQ(second.failure(), EMFILE);
}

TEST_F(BackendStreamTest, ConnectsOverIpv6) {
  LoopbackListener v6(true);
  v6.listen();
  stream = std::make_unique<BackendStream>(v6.address(), IpAddress{}, admission, rpcrdma::RecordLimits{});
  const Peer peer = v6.accept();
  if (stream->state() == State::kConnecting) {
    stream->finish_connect();
  }
  EXPECT_EQ(stream->state(), State::kOpen);
}

TEST_F(BackendStreamTest, SendsWhatWasQueuedBeforeItWasOpen) {
  listener.listen();
  start();
  queue(random_bytes(100, 1));
  EXPECT_TRUE(stream->wants_write());
  const Peer peer = listener.accept();
  if (stream->state() == State::kConnecting) {
    stream->flush();  // not yet
    stream->finish_connect();
  }
  stream->flush();
  EXPECT_FALSE(stream->wants_write());
  EXPECT_TRUE(wait_for(peer.fd(), POLLIN));
  ByteVector got;
  peer.receive(got);
  EXPECT_EQ(got, marked(random_bytes(100, 1)));
}

TEST_F(BackendStreamTest, SendsManyMessagesInOrder) {
  const Peer peer = open();
  ByteVector expected;
  for (uint32_t i = 0; i < 500; ++i) {
    const ByteVector message = random_bytes(1 + i * 7 % 3000, i);
    queue(message);
    const ByteVector raw = marked(message);
    expected.insert(expected.end(), raw.begin(), raw.end());
  }
  ByteVector got;
  while (got.size() < expected.size()) {
    stream->flush();
    ASSERT_TRUE(wait_for(peer.fd(), POLLIN));
    peer.receive(got);
  }
  EXPECT_EQ(got, expected);
  EXPECT_FALSE(stream->wants_write());
  EXPECT_EQ(pool.in_use(), 0u);
}

// 8 MiB out through a peer that reads a little at a time, so that every kind of partial write happens.
TEST_F(BackendStreamTest, SendsALongMessageInParts) {
  const Peer peer = open();
  const int small = 16384;
  (void)setsockopt(peer.fd(), SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
  const ByteVector message = random_bytes(8u << 20, 3);
  queue(message);
  queue(random_bytes(5, 4));
  ByteVector expected = marked(message);
  const ByteVector second = marked(random_bytes(5, 4));
  expected.insert(expected.end(), second.begin(), second.end());
  ByteVector got;
  uint32_t partial = 0;
  while (got.size() < expected.size()) {
    stream->flush();
    partial += stream->wants_write() ? 1 : 0;
    ASSERT_TRUE(wait_for(peer.fd(), POLLIN));
    peer.receive(got);
  }
  EXPECT_GT(partial, 0u);
  EXPECT_TRUE(got == expected);
}

TEST_F(BackendStreamTest, ReceivesALongMessageAndAShortOne) {
  const Peer peer = open();
  const ByteVector message = random_bytes(8u << 20, 5);
  ByteVector wire = marked(message, {1, 1000, 0, 3'000'000});
  const ByteVector second = marked(random_bytes(9, 6));
  wire.insert(wire.end(), second.begin(), second.end());
  size_t sent = 0;
  ByteVector got;
  Chain chain;
  while (!stream->poll_message(chain)) {
    sent += peer.send(Bytes(wire).subspan(sent));
    (void)stream->read();
    ASSERT_EQ(stream->state(), State::kOpen);
  }
  EXPECT_TRUE(content(chain) == message);
  chain.clear();
  sent += peer.send(Bytes(wire).subspan(sent));
  ASSERT_TRUE(next_message(got));
  EXPECT_EQ(got, random_bytes(9, 6));
}

TEST_F(BackendStreamTest, B5_ReceivesOneByteAtATime) {
  const Peer peer = open();
  const ByteVector message = random_bytes(60, 7);
  ByteVector wire = marked(message, {1, 20});
  const ByteVector second = marked(message);
  wire.insert(wire.end(), second.begin(), second.end());
  uint32_t messages = 0;
  Chain chain;
  for (const uint8_t byte : wire) {
    ASSERT_EQ(peer.send(Bytes(&byte, 1)), 1u);
    ASSERT_TRUE(wait_for(stream->fd(), POLLIN));
    EXPECT_FALSE(stream->read());
    while (stream->poll_message(chain)) {
      EXPECT_EQ(content(chain), message);
      ++messages;
    }
  }
  EXPECT_EQ(messages, 2u);
}

TEST_F(BackendStreamTest, DeliversWhatCameBeforeTheEnd) {
  Peer peer = open();
  const ByteVector message = random_bytes(70'000, 8);
  const ByteVector wire = marked(message);
  ASSERT_EQ(peer.send(wire), wire.size());
  peer.close_now();
  ByteVector got;
  ASSERT_TRUE(next_message(got));
  EXPECT_EQ(got, message);
  EXPECT_FALSE(next_message(got));
  EXPECT_EQ(stream->state(), State::kFailed);
  EXPECT_EQ(stream->failure(), 0);
}

TEST_F(BackendStreamTest, FailsWhenThePeerClosesWithinAMessage) {
  Peer peer = open();
  const ByteVector wire = marked(random_bytes(1'000, 9));
  ASSERT_EQ(peer.send(Bytes(wire).first(500)), 500u);
  peer.close_now();
  ByteVector got;
  EXPECT_FALSE(next_message(got));
  EXPECT_EQ(stream->state(), State::kFailed);
  EXPECT_EQ(stream->failure(), 0);
}

TEST_F(BackendStreamTest, FailsWhenThePeerResetsWhileItSends) {
  Peer peer = open();
  for (int i = 0; i < 8; ++i) {
    queue(random_bytes(1u << 20, 10));
  }
  stream->flush();
  EXPECT_TRUE(stream->wants_write());
  peer.close_now(true);
  EXPECT_TRUE(wait_for(stream->fd(), POLLERR));
  stream->flush();
  EXPECT_EQ(stream->state(), State::kFailed);
  EXPECT_TRUE(stream->failure() == ECONNRESET || stream->failure() == EPIPE) << stream->failure();
  stream->flush();  // nothing more happens
  EXPECT_FALSE(stream->read());
}

TEST_F(BackendStreamTest, FailsOnAMarkThatNoMessageMayHave) {
  const Peer peer = open();
  const ByteVector huge = {0xff, 0xff, 0xff, 0xff};
  ASSERT_EQ(peer.send(huge), 4u);
  ByteVector got;
  EXPECT_FALSE(next_message(got));
  EXPECT_EQ(stream->failure(), EPROTO);
}

TEST_F(BackendStreamTest, WaitsWhileThePoolIsEmptyAndLosesNothing) {
  const Peer peer = open();
  std::vector<Buffer*> all(1024);
  ASSERT_TRUE(pool.allocate(all));
  const ByteVector message = random_bytes(100'000, 11);
  const ByteVector wire = marked(message);
  ASSERT_EQ(peer.send(wire), wire.size());
  ASSERT_TRUE(wait_for(stream->fd(), POLLIN));
  EXPECT_TRUE(stream->read());  // more is there, and no place for it
  EXPECT_EQ(stream->state(), State::kOpen);
  EXPECT_TRUE(stream->is_waiting());
  EXPECT_EQ(admission.poll(), nullptr);
  for (Buffer* buffer : all) {
    release_buffers(buffer);
  }
  ASSERT_NE(admission.poll(), nullptr);
  ByteVector got;
  ASSERT_TRUE(next_message(got));
  EXPECT_EQ(got, message);
}

// Forty replies of 1 MiB begin at once, and the pool holds two. Each is read in turn as a worker does it, and all of them come.
TEST_F(BackendStreamTest, RepliesThatFillThePoolTogetherComeOneAfterTheOther) {
  constexpr size_t kStreams = 40;
  HeapBufferPool few(72, 32768, 256);
  rpcrdma::LocalRecordBudget budget(few, 72);
  rpcrdma::RecordAdmission line(budget);
  listener.listen();
  struct End {
    std::unique_ptr<BackendStream> stream;
    std::optional<Peer> peer;
    ByteVector wire;
    size_t sent = 0;
  };
  std::vector<End> ends(kStreams);
  for (size_t i = 0; i < kStreams; ++i) {
    ends[i].stream =
        std::make_unique<BackendStream>(listener.address(), source, line, rpcrdma::RecordLimits{}, 0, static_cast<uint64_t>(i));
    ends[i].peer.emplace(listener.accept());
    ends[i].wire = marked(random_bytes(1u << 20, i));
  }
  size_t complete = 0;
  for (uint32_t turn = 0; complete < kStreams && turn < 10'000; ++turn) {
    for (End& end : ends) {
      end.sent += end.peer->send(Bytes(end.wire).subspan(end.sent));
      if (end.stream->state() == State::kConnecting) {
        end.stream->finish_connect();
      }
      (void)end.stream->read();
      Chain message;
      while (end.stream->poll_message(message)) {
        EXPECT_EQ(message.bytes(), 1u << 20);
        ++complete;
      }
      end.stream->end_turn();
    }
    line.begin_turn();
    while (line.poll() != nullptr) {
    }
  }
  EXPECT_EQ(complete, kStreams);
  EXPECT_GT(line.waited(), 0u);
  ends.clear();
  EXPECT_EQ(budget.held(0).units, 0u);
}

TEST_F(BackendStreamTest, GivesEverythingBackWhenDestroyedInTheMiddle) {
  const Peer peer = open();
  for (int i = 0; i < 8; ++i) {
    queue(random_bytes(1u << 20, 12));
  }
  stream->flush();
  const ByteVector wire = marked(random_bytes(50'000, 13));
  ASSERT_GT(peer.send(Bytes(wire).first(40'000)), 0u);
  ASSERT_TRUE(wait_for(stream->fd(), POLLIN));
  (void)stream->read();
  EXPECT_GT(pool.in_use(), 0u);
}

TEST_F(BackendStreamTest, ConnectsFromAnAddressThatItIsTold) {
  if (!BackendStream::may_borrow()) {
    GTEST_SKIP() << "takes CAP_NET_RAW";
  }
  source = IpAddress::v4(0x7f00'0a09);  // 127.0.10.9: loopback has them all
  const Peer peer = open();
  sockaddr_in seen{};
  socklen_t length = sizeof(seen);
  ASSERT_EQ(getpeername(peer.fd(), reinterpret_cast<sockaddr*>(&seen), &length), 0);
  EXPECT_EQ(ntohl(seen.sin_addr.s_addr), 0x7f00'0a09u);
  EXPECT_NE(seen.sin_port, 0);
}

uint16_t port_of(const Peer& peer) {
  sockaddr_in seen{};
  socklen_t length = sizeof(seen);
  EXPECT_EQ(getpeername(peer.fd(), reinterpret_cast<sockaddr*>(&seen), &length), 0);
  return ntohs(seen.sin_port);
}

TEST_F(BackendStreamTest, ComesBackFromTheSamePortAsSoonAsTheOldConnectionIsClosed) {
  listener.listen();
  const auto connect_from = [&](uint16_t port) {
    return std::make_unique<BackendStream>(listener.address(), source, admission, rpcrdma::RecordLimits{}, 0, 0, port);
  };
  std::unique_ptr<BackendStream> first = connect_from(0);
  const uint16_t port = port_of(listener.accept());
  first.reset();
  for (int round = 0; round < 5; ++round) {
    stream = connect_from(port);
    ASSERT_NE(stream->state(), State::kFailed) << stream->failure();
    ASSERT_NE(stream->state(), State::kPortBusy);
    const Peer peer = listener.accept();
    EXPECT_EQ(port_of(peer), port);
    std::unique_ptr<BackendStream> next = connect_from(port);
    ASSERT_EQ(next->state(), State::kPortBusy);
    EXPECT_FALSE(next->wants_write());
    next->reconnect(port);
    ASSERT_EQ(next->state(), State::kPortBusy);
    stream.reset();
    next->reconnect(port);
    ASSERT_NE(next->state(), State::kPortBusy);
    EXPECT_EQ(port_of(listener.accept()), port);
  }
}

// A scrape, a health check, a mount: any program's connection to anywhere, for a minute after its end too.
TEST_F(BackendStreamTest, APortWithWhichSomebodyConnectsElsewhereIsFree) {
  const control::UniqueFd probe(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const uint32_t range = 1 | 65'535u << 16;
  if (setsockopt(probe.get(), SOL_IP, 51 /* IP_LOCAL_PORT_RANGE */, &range, sizeof(range)) != 0) {
    GTEST_SKIP() << "takes Linux 6.3";
  }
  listener.listen();
  test::LoopbackListener elsewhere;
  elsewhere.listen();
  BackendStream other(elsewhere.address(), source, admission, rpcrdma::RecordLimits{});
  const uint16_t port = port_of(elsewhere.accept());
  stream = std::make_unique<BackendStream>(listener.address(), source, admission, rpcrdma::RecordLimits{}, 0, 0, port);
  ASSERT_NE(stream->state(), State::kPortBusy);
  EXPECT_EQ(port_of(listener.accept()), port);
}

TEST_F(BackendStreamTest, ASourceOfTheOtherFamilyIsLeftAside) {
  std::array<uint8_t, 16> raw{0xfd, 9};
  source = IpAddress::v6(raw);
  const Peer peer = open();
  sockaddr_in seen{};
  socklen_t length = sizeof(seen);
  ASSERT_EQ(getpeername(peer.fd(), reinterpret_cast<sockaddr*>(&seen), &length), 0);
  EXPECT_EQ(ntohl(seen.sin_addr.s_addr), 0x7f00'0001u);
}

}  // namespace
}  // namespace cw::dataplane
