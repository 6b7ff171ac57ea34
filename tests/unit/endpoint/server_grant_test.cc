// A server that grants less than it did, and more again, while calls are outstanding (RFC 8166 3.3.1); and calls that broke a
// connection and come again (4.5.3).
#include <algorithm>
#include <deque>

#include "tests/unit/endpoint/server_fixture.h"

namespace cw::rpcrdma {
namespace {

class ServerGrant : public ServerFixture {
 protected:
  SeededRandom random_{3};
  void call(uint32_t xid) { send(inline_call(xid, rpc_call(xid))); }
  // Answers the next call that waits; gives the grant that the reply carries.
  uint32_t answer_next() {
    Call next;
    EXPECT_TRUE(server->poll_call(now, next));
    answer(next.id, rpc_reply(next.context->header.xid));
    return sent()[2];
  }
};

// Proves RPCRDMA-3.3.1-14: the replies carry the lower grant at once; receives go only as the client learns of it, so that all it
// may still send finds one.
TEST_F(ServerGrant, ALowerGrantComesWithTheReplies) {
  for (uint32_t xid = 1; xid <= 6; ++xid) {
    call(xid);
  }
  server->set_grant(3);
  EXPECT_EQ(qp->receives(), 2u) << "the client knows of 8 yet";
  EXPECT_EQ(server->credits_granted(), 8u);
  call(7);
  call(8);
  ASSERT_FALSE(server->failed());
  for (uint32_t answered = 1; answered <= 8; ++answered) {
    EXPECT_EQ(answer_next(), 3u);
    const uint32_t credits = std::max(8 - answered, 3u);
    EXPECT_EQ(server->credits_granted(), credits);
    EXPECT_EQ(qp->receives() + server->calls_in_flight(), credits);
  }
  EXPECT_EQ(stats().credits_granted, 3u);
  for (uint32_t xid = 11; xid <= 13; ++xid) {
    call(xid);
  }
  EXPECT_EQ(qp->receives(), 0u);
  EXPECT_FALSE(server->failed());
}

TEST_F(ServerGrant, AHigherGrantHasItsReceivesBeforeItIsSaid) {
  server->set_grant(2);
  for (uint32_t xid = 1; xid <= 8; ++xid) {
    call(xid);
    EXPECT_EQ(answer_next(), 2u);
  }
  EXPECT_EQ(qp->receives(), 2u);
  server->set_grant(5);
  EXPECT_EQ(qp->receives(), 5u);
  call(9);
  EXPECT_EQ(answer_next(), 5u);
  server->set_grant(1000);  // never more than the connection was made for
  EXPECT_EQ(qp->receives(), 8u);
  server->set_grant(0);  // and never none
  call(10);
  EXPECT_EQ(answer_next(), 1u);
}

TEST_F(ServerGrant, ErrorsCarryTheGrantAndLowerItToo) {
  server->set_grant(4);
  send(Words{1, 9, 16, 0, 0, 0, 0});
  EXPECT_EQ(sent(), (std::vector<uint32_t>{1, 9, 4, 4, 1, 1, 1}));
  EXPECT_EQ(server->credits_granted(), 7u);
  send(Words{2, 1, 16, 0, 7, 0, 0});
  EXPECT_EQ(sent(), (std::vector<uint32_t>{2, 1, 4, 4, 2}));
  EXPECT_EQ(server->credits_granted(), 6u);
}

// A client that follows the rules to the letter, with messages on their way in both directions, never meets a missing receive and
// is never taken for one that breaks them, however the grant moves.
TEST_F(ServerGrant, HoweverItMovesAnHonestClientIsServed) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    options.credits = 1 + random_.next_below(16);
    make();
    std::deque<Words> calls;       // on their way to the server
    std::deque<uint32_t> replies;  // grants on their way to the client
    uint32_t granted = options.credits;
    uint32_t outstanding = 0;
    uint32_t xid = 1;
    uint32_t lowest = granted;
    for (uint32_t step = 0; step < 2'000; ++step) {
      switch (random_.next_below(8)) {
        case 0:
          server->set_grant(random_.next_below(20));
          break;
        case 1:
        case 2:
        case 3:
          if (outstanding < granted) {
            calls.push_back(inline_call(xid, rpc_call(xid)));
            ++xid;
            ++outstanding;
          }
          break;
        case 4:
        case 5:
          if (!calls.empty()) {
            ASSERT_GT(qp->receives(), 0u) << "seed " << seed;
            send(calls.front());
            calls.pop_front();
          }
          break;
        case 6:
          if (const auto id = take()) {
            answer(*id, rpc_reply(load_be32(bytes_of(held).data())));
            replies.push_back(sent()[2]);
          }
          break;
        case 7:
          if (!replies.empty()) {
            granted = replies.front();
            replies.pop_front();
            --outstanding;
            lowest = std::min(lowest, granted);
          }
          break;
      }
      ASSERT_FALSE(server->failed()) << "seed " << seed;
      ASSERT_GT(granted, 0u);
    }
    EXPECT_LT(lowest, options.credits + 1);
    held.clear();
  }
}

class BrokenConnection : public ServerFixture {
 protected:
  Words call_with_read(uint32_t xid) {
    return Words{xid, 1, 1, 0}.read(44, 7, 4, 0).add({0, 0, 0}).raw(rpc_call(xid, 1).add({4}).bytes());
  }
};

// The client's memory refuses a Read or a Write: the endpoint can say which call it was. A peer that is gone says nothing.
TEST_F(BrokenConnection, TheCallThatItBrokeAtIsKnown) {
  send(call_with_read(0x51));
  send(call_with_read(0x52));
  finish_read(Words{9}.bytes());
  qp->break_with(verbs::WcStatus::kRemoteAccessError);
  server->on_completions(now);
  EXPECT_TRUE(server->failed());
  EXPECT_EQ(server->broken_xid(), 0x52u);

  make();
  send(Words{0x61, 1, 1, 0, 0, 1, 1}.segment(7, 100, 0).add({0, 0}).raw(rpc_call(0x61, 1).add({0}).bytes()));
  const auto id = take();
  ASSERT_TRUE(id.has_value());
  answer(*id, rpc_reply(0x61).add({4, 0xdddd'dddd}));
  qp->break_with(verbs::WcStatus::kRemoteAccessError);
  server->on_completions(now);
  EXPECT_EQ(server->broken_xid(), 0x61u);

  make();
  send(call_with_read(0x71));
  qp->break_with(verbs::WcStatus::kRetryExceeded);
  server->on_completions(now);
  EXPECT_TRUE(server->failed());
  EXPECT_EQ(server->broken_xid(), std::nullopt);
}

// Proves RPCRDMA-4.5.3-6: the repetition is answered with ERR_CHUNK and nothing is read for it; other calls are served.
TEST_F(BrokenConnection, ItsRepetitionIsAnsweredWithErrChunk) {
  server->refuse_xid(0x52);
  send(inline_call(0x51, rpc_call(0x51)));
  const auto other = take();
  ASSERT_TRUE(other.has_value());
  answer(*other, rpc_reply(0x51));
  EXPECT_EQ(sent()[3], 0u);
  held.clear();
  expect_chunk_error(call_with_read(0x52));
  EXPECT_EQ(std::count(qp->history().begin(), qp->history().end(), test::WorkKind::kRead), 0);
  EXPECT_EQ(stats().refused_again, 1u);
  // Once: what comes under this XID from now on is another call.
  send(inline_call(0x52, rpc_call(0x52)));
  EXPECT_TRUE(take().has_value());
  // So many are remembered, and more do no harm.
  for (uint32_t xid = 100; xid < 120; ++xid) {
    server->refuse_xid(xid);
  }
}

}  // namespace
}  // namespace cw::rpcrdma
