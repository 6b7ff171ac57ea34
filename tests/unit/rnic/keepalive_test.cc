// Whether an idle peer is there: who is asked, when, by what, and what follows.
#include "tests/unit/rnic/fake_rdma_core.h"

namespace cw::rnic::test {
namespace {

constexpr RnicOptions kOptions{.keepalive = Duration::seconds(10), .keepalive_patience = Duration::seconds(5)};

TEST(RnicKeepalive, AnIdlePeerIsAskedByAWorkThatMovesNothing) {
  OneEnd end(kOptions);
  const RnicId id = end.connect();
  end.advance(Duration::seconds(9));
  EXPECT_TRUE(end.host.at(id).sends.empty());
  end.advance(Duration::seconds(1));
  ASSERT_EQ(end.host.at(id).sends.size(), 1u);
  const FakeRdmaCore::Posted& asked = end.host.at(id).sends.front();
  EXPECT_EQ(asked.work.verb, WorkVerb::kWrite);
  EXPECT_EQ(asked.bytes(), 0u);
  EXPECT_EQ(asked.work.rkey, verbs::Rkey());
  EXPECT_TRUE(asked.work.signaled);
  EXPECT_FALSE(asked.work.is_inline) << "there is nothing that could be";
  EXPECT_EQ(end.qp->works_pending(), 0u) << "it is none of the owner's";
  EXPECT_EQ(end.qp->send_queue_room(), RnicOptions().send_queue_depth);
  end.do_all(id);
  EXPECT_TRUE(end.completions.empty());
  end.advance(Duration::seconds(9));
  EXPECT_TRUE(end.host.at(id).sends.empty());
  end.advance(Duration::seconds(1));
  EXPECT_EQ(end.host.at(id).sends.size(), 1u) << "again, after as long";
  EXPECT_FALSE(end.qp->in_error());
  end.expect_nothing_left();
}

TEST(RnicKeepalive, APeerThatDoesNotAnswerLosesItsConnection) {
  OneEnd end(kOptions);
  const RnicId id = end.connect();
  end.advance(Duration::seconds(10));
  ASSERT_EQ(end.host.at(id).sends.size(), 1u);
  end.advance(Duration::seconds(4));
  EXPECT_FALSE(end.qp->in_error());
  end.advance(Duration::seconds(1));
  EXPECT_TRUE(end.was_disconnected_by(verbs::DisconnectCause::kTransport));
  EXPECT_EQ(end.cause(), "peer_silent");
  EXPECT_EQ(end.transport.describe(end.connection).error.origin, "peer");
  EXPECT_TRUE(end.host.at(id).failed);
  EXPECT_EQ(end.transport.stats().errors[static_cast<size_t>(RnicErrorCause::kPeerSilent)], 1u);
  std::vector<verbs::TransportEvent> log(end.transport.log_capacity());
  log.resize(end.transport.copy_log(log));
  EXPECT_EQ(std::ranges::count(log, "peer_silent", &verbs::TransportEvent::reason), 1);
  end.flush_all(id);
  EXPECT_TRUE(end.completions.empty()) << "the owner has posted nothing";
  end.expect_nothing_left();
}

// A device that gives up sooner than we do says so.
TEST(RnicKeepalive, TheDeviceMayGiveUpFirst) {
  OneEnd end(kOptions);
  const RnicId id = end.connect();
  end.advance(Duration::seconds(10));
  end.flush_all(id, WcStatus::kRetryExceeded);
  EXPECT_TRUE(end.qp->in_error());
  EXPECT_EQ(end.cause(), "peer_silent");
  EXPECT_TRUE(end.completions.empty());
  end.expect_nothing_left();
}

// It is something else that is wrong.
TEST(RnicKeepalive, AnotherErrorIsNoSilence) {
  OneEnd end(kOptions);
  const RnicId id = end.connect();
  end.advance(Duration::seconds(10));
  end.flush_all(id, WcStatus::kRemoteAccessError);
  EXPECT_EQ(end.cause(), "completion");
  end.expect_nothing_left();
}

TEST(RnicKeepalive, WhoIsHeardOfIsNotAsked) {
  OneEnd end(kOptions);
  const RnicId id = end.connect();
  end.advance(Duration::seconds(6));
  end.deliver(id, pattern(10));
  end.advance(Duration::seconds(6));
  ASSERT_TRUE(end.qp->post_send({.payload = end.chain(pattern(10))}).ok());
  end.turn();
  end.do_all(id);
  end.advance(Duration::seconds(9));
  EXPECT_TRUE(end.host.at(id).sends.empty());
  end.advance(Duration::seconds(1));
  EXPECT_EQ(end.host.at(id).sends.size(), 1u);
  end.expect_nothing_left();
}

TEST(RnicKeepalive, AMessageOfThePeerGivesItMoreTime) {
  OneEnd end(kOptions);
  const RnicId id = end.connect();
  end.advance(Duration::seconds(10));
  end.advance(Duration::seconds(3));
  end.deliver(id, pattern(10));
  end.advance(Duration::seconds(4));
  EXPECT_FALSE(end.qp->in_error());
  end.advance(Duration::seconds(1));
  EXPECT_EQ(end.cause(), "peer_silent");
  end.expect_nothing_left();
}

// The device tells how that ends, or who waits for the reply does.
TEST(RnicKeepalive, WhileWorkIsUnderWayNobodyIsAsked) {
  OneEnd end(kOptions);
  const RnicId id = end.connect();
  ASSERT_TRUE(end.qp->post_send({.payload = end.chain(pattern(10))}).ok());
  end.turn();
  end.advance(Duration::seconds(10));
  end.advance(Duration::seconds(10));
  EXPECT_EQ(end.host.at(id).sends.size(), 1u);
  EXPECT_FALSE(end.qp->in_error());
  end.do_all(id);
  end.advance(Duration::seconds(10));
  EXPECT_EQ(end.host.at(id).sends.size(), 1u);
  end.expect_nothing_left();
}

// The owner has all of its queue while the question is out.
TEST(RnicKeepalive, TheQuestionTakesNoPlaceOfTheOwners) {
  OneEnd end({.keepalive = Duration::seconds(10), .send_queue_depth = 4});
  const RnicId id = end.connect();
  for (uint32_t round = 0; round < 4; ++round) {
    end.advance(Duration::seconds(10));
    ASSERT_EQ(end.host.at(id).sends.size(), 1u);
    for (uint32_t i = 0; i < 4; ++i) {
      ASSERT_TRUE(end.qp->post_send({.id = verbs::WorkId(i + 1), .payload = end.chain(pattern(100))}).ok());
    }
    EXPECT_EQ(end.qp->send_queue_room(), 0u);
    EXPECT_FALSE(end.qp->post_send({.payload = end.chain(pattern(1))}).ok());
    EXPECT_EQ(end.qp->works_pending(), 4u);
    end.turn();
    EXPECT_EQ(end.host.at(id).sends.size(), 5u);
    end.do_all(id);
    EXPECT_EQ(end.qp->works_pending(), 0u);
    EXPECT_EQ(end.qp->send_queue_room(), 4u);
    ASSERT_EQ(end.completions.size(), 4u);
    EXPECT_EQ(end.completions.front().id, verbs::WorkId(1));
    end.completions.clear();
  }
  end.expect_nothing_left();
}

// What iWARP calls done has reached the own TCP only.
TEST(RnicKeepalive, WhereAWriteIsNotAcknowledgedAReadAsks) {
  OneEnd end(kOptions);
  end.host.made.acknowledges_writes = false;
  const RnicId id = end.connect();
  end.advance(Duration::seconds(5));
  ASSERT_TRUE(end.qp->post_send({.payload = end.chain(pattern(10))}).ok());
  end.turn();
  end.do_all(id);
  end.advance(Duration::seconds(5));
  ASSERT_EQ(end.host.at(id).sends.size(), 1u) << "that the SEND is done says nothing of the peer";
  EXPECT_EQ(end.host.at(id).sends.front().work.verb, WorkVerb::kRead);
  EXPECT_EQ(end.host.at(id).sends.front().bytes(), 0u);
  end.completions.clear();
  end.do_all(id);
  EXPECT_TRUE(end.completions.empty());
  EXPECT_EQ(end.transport.describe(end.connection).value("reads_outstanding"), verbs::QueuePairValue(uint64_t{0}));
  end.advance(Duration::seconds(9));
  EXPECT_TRUE(end.host.at(id).sends.empty());
  end.advance(Duration::seconds(1));
  EXPECT_EQ(end.host.at(id).sends.size(), 1u);
  end.expect_nothing_left();
}

// TCP finds out, when it has something to send; asked is once in a while, not all the time.
TEST(RnicKeepalive, WithoutReadsAWriteAsksAndProvesNothing) {
  OneEnd end({.keepalive = Duration::seconds(10), .reads_max = 0});
  end.host.made.acknowledges_writes = false;
  const RnicId id = end.connect();
  for (uint32_t round = 0; round < 3; ++round) {
    end.advance(Duration::seconds(10));
    ASSERT_EQ(end.host.at(id).sends.size(), 1u);
    EXPECT_EQ(end.host.at(id).sends.front().work.verb, WorkVerb::kWrite);
    end.do_all(id);
    end.turn();
    EXPECT_TRUE(end.host.at(id).sends.empty());
  }
  EXPECT_FALSE(end.qp->in_error());
  end.expect_nothing_left();
}

TEST(RnicKeepalive, ZeroAsksNobody) {
  OneEnd end({.keepalive = Duration()});
  const RnicId id = end.connect();
  end.advance(Duration::seconds(100'000));
  EXPECT_TRUE(end.host.at(id).sends.empty());
  EXPECT_FALSE(end.qp->in_error());
  end.expect_nothing_left();
}

// Its answer may come when the queue pair, or the connection, is gone.
TEST(RnicKeepalive, AConnectionMayEndWhileItsPeerIsAsked) {
  for (const bool peer_leaves : {true, false}) {
    OneEnd end(kOptions);
    const RnicId id = end.connect();
    end.advance(Duration::seconds(10));
    ASSERT_EQ(end.host.at(id).sends.size(), 1u);
    const uint64_t asked = end.host.at(id).sends.front().work.id;
    if (peer_leaves) {
      end.transport.on_disconnected(end.now, id);
      end.turn();
      EXPECT_EQ(end.cause(), "peer_closed");
    }
    end.expect_nothing_left();
    end.transport.on_completion(end.now, {.id = asked});
    end.advance(Duration::seconds(100));
    EXPECT_TRUE(end.completions.empty());
  }
}

}  // namespace
}  // namespace cw::rnic::test
