// What a call may wait for, for how long, and at whose cost: RDMA Reads that nobody answers, turns at what all connections share.
#include <deque>
#include <span>

#include "tests/unit/endpoint/server_fixture.h"

namespace cw::rpcrdma {
namespace {

using test::WorkKind;

// Two connections of one core: `server` of the fixture, and `other`.
class ServerWaits : public ServerFixture {
 protected:
  static constexpr uint32_t kData = 8192;  // bytes of a call's Read chunk: two units and one for the rest

  // `pull_units_max` units for both; with `shares` both belong to one client.
  void make_two(uint64_t pull_units_max, bool same_client = false) {
    options.share = same_client ? &share : nullptr;
    make();
    shared->pull_units_max = pull_units_max;
    other_qp = std::make_unique<test::FakeQueuePair>();
    other = std::make_unique<ServerEndpoint>(*shared, *other_qp, options, thresholds);
    other->start();
  }
  void TearDown() override {
    other.reset();
    ServerFixture::TearDown();
    other_qp.reset();
    EXPECT_EQ(share.pulled_units, 0u);
    EXPECT_EQ(share.unread_units, 0u);
    EXPECT_EQ(hung.pulled_units + healthy.pulled_units, 0u);
    EXPECT_EQ(hung.reply_bytes + healthy.reply_bytes, 0u);
  }
  // An ECHO call whose argument is in a Read chunk.
  void write(test::FakeQueuePair& to, ServerEndpoint& endpoint, uint32_t xid, uint32_t bytes = kData) {
    const Words lists = Words{}.read(44, 0x11, bytes, 0x1000).add({0, 0, 0});
    const Words message = Words{xid, 1, 16, 0}.raw(lists.bytes()).raw(rpc_call(xid, 1).add({bytes}).bytes());
    ASSERT_TRUE(to.deliver(chain_of(*pool, message.bytes())));
    endpoint.on_completions(now);
  }
  void answer_read(test::FakeQueuePair& to, ServerEndpoint& endpoint) {
    ASSERT_FALSE(to.posted().empty());
    ASSERT_EQ(to.posted().front().kind, WorkKind::kRead);
    to.finish(chain_of(*pool, std::vector<uint8_t>(kData)));
    endpoint.on_completions(now);
  }
  // The owner takes the next call and answers it: its units are free.
  void serve(test::FakeQueuePair& to, ServerEndpoint& endpoint) {
    Call call;
    ASSERT_TRUE(endpoint.poll_call(now, call));
    const uint32_t xid = call.context->header.xid;
    call.message.clear();
    endpoint.reply(now, call.id, chain_of(*pool, rpc_reply(xid).bytes()));
    to.finish_all_sends();
  }
  void ask(ServerEndpoint& endpoint) { endpoint.on_deadline(now + ServerEndpoint::kRetryInterval); }
  void pass(Duration time) {
    now = now + time;
    for (ServerEndpoint* endpoint : {server.get(), other.get()}) {
      if (endpoint != nullptr && endpoint->next_deadline() <= now) {
        endpoint->on_deadline(now);
      }
    }
  }
  // The same, with each deadline on the way.
  void run(Duration time, std::span<ServerEndpoint* const> endpoints) {
    const Instant end = now + time;
    while (now < end) {
      Instant next = end;
      for (const ServerEndpoint* endpoint : endpoints) {
        next = earlier(next, endpoint->next_deadline());
      }
      now = std::max(now, next);
      for (ServerEndpoint* endpoint : endpoints) {
        if (endpoint->next_deadline() <= now) {
          endpoint->on_deadline(now);
        }
      }
    }
  }
  bool takes(ServerEndpoint& endpoint) {
    Call call;
    return endpoint.poll_call(now, call);
  }

  ClientShare share;
  BackendShare hung;
  BackendShare healthy;
  const BackendShares to_hung{.others = &hung};
  const BackendShares to_healthy{.others = &healthy};
  std::unique_ptr<test::FakeQueuePair> other_qp;
  std::unique_ptr<ServerEndpoint> other;
};

TEST_F(ServerWaits, AClientThatAnswersNoRdmaReadLosesItsConnectionAfterTheReadTimeout) {
  options.read_timeout = Duration::seconds(7);  // not the default
  make();
  write(*qp, *server, kXid);
  ServerEndpoint* const one[] = {server.get()};
  run(options.read_timeout - Duration::ns(1), one);
  EXPECT_FALSE(server->failed());
  run(Duration::ns(1), one);
  EXPECT_EQ(server->failure(), EndpointFailure::kReadTimeout);
  EXPECT_EQ(stats().read_timeouts, 1u);
  EXPECT_EQ(stats().call_timeouts, 0u);
  EXPECT_EQ(shared->pulled_units, 0u);
}

// Nothing but an answered READ is a sign of life: not a further call, and not the time that an earlier one took.
TEST_F(ServerWaits, EachAnsweredRdmaReadBeginsTheReadTimeoutAnew) {
  write(*qp, *server, kXid);
  write(*qp, *server, kXid + 1);
  pass(options.read_timeout / 2);
  answer_read(*qp, *server);
  pass(options.read_timeout / 2);
  write(*qp, *server, kXid + 2);
  pass(options.read_timeout / 2 - Duration::ns(1));
  EXPECT_FALSE(server->failed());
  pass(Duration::ns(1));
  EXPECT_EQ(server->failure(), EndpointFailure::kReadTimeout);
}

// 64 of them, one after the other, were 64 read_timeouts. Each of these calls wants 8 KiB: 180 ms for all at 1 MiB/s.
TEST_F(ServerWaits, AClientThatAnswersEachRdmaReadLateLosesItsConnectionAfterTwoReadTimeouts) {
  options.credits = 64;
  make();
  const Instant end = now + options.read_timeout * 2 + Duration::ms(180);
  for (uint32_t i = 0; i < 20; ++i) {
    write(*qp, *server, kXid + i);
  }
  for (uint32_t i = 0; i < 2; ++i) {
    pass(options.read_timeout - Duration::ms(100));
    ASSERT_FALSE(server->failed());
    answer_read(*qp, *server);
    write(*qp, *server, kXid + 100 + i);  // further calls are no sign of life
    EXPECT_LE(server->next_deadline(), end);
  }
  pass(end - now);
  EXPECT_EQ(server->failure(), EndpointFailure::kReadTimeout);
  EXPECT_EQ(shared->pulled_units, 0u);
}

// At twice kReadBytesPerSecondMin, with a long pause now and then, a client may go on for ever.
TEST_F(ServerWaits, ASlowClientIsNotCutHoweverMuchIsReadFromIt) {
  options.credits = 64;
  make();
  uint32_t xid = kXid;
  for (uint32_t i = 0; i < 16; ++i) {
    write(*qp, *server, xid++);
  }
  for (uint32_t i = 0; i < 20'000; ++i) {
    const bool pauses = i % 10'000 == 5'000;
    pass(pauses ? options.read_timeout - Duration::seconds(1) : Duration::us(3900));
    ASSERT_FALSE(server->failed()) << i;
    answer_read(*qp, *server);
    Call call;
    ASSERT_TRUE(server->poll_call(now, call));
    const uint32_t polled = call.context->header.xid;
    call.message.clear();
    server->reply(now, call.id, chain_of(*pool, rpc_reply(polled).bytes()));
    write(*qp, *server, xid++);
    qp->finish_all_sends();
    server->on_completions(now);
  }
}

// The owner may have the message of a call in a queue to a backend that takes nothing, also when the client is gone.
TEST_F(ServerWaits, UnitsOfPolledCallsOutliveTheConnection) {
  options.backends = &to_hung;
  make_two(24, true);
  write(*qp, *server, kXid);
  answer_read(*qp, *server);
  write(*qp, *server, kXid + 1);
  answer_read(*qp, *server);
  write(*qp, *server, kXid + 2);
  Call call;
  ASSERT_TRUE(server->poll_call(now, call));
  const CallId first = call.id;
  ASSERT_TRUE(server->poll_call(now, call));
  EXPECT_EQ(share.pulled_units, 9u);
  server->fail();
  EXPECT_EQ(share.pulled_units, 6u) << "those of the call that was not polled are free";
  EXPECT_EQ(server->take_units(first, healthy), 3u);
  EXPECT_EQ(server->take_units(first, healthy), 0u);
  EXPECT_EQ(healthy.pulled_units, 3u);
  server.reset();
  EXPECT_EQ(share.pulled_units, 3u) << "the owner's still";
  shared->return_units(share, &healthy, 3);
  EXPECT_EQ(shared->pulled_units, 0u);
  call.message.clear();
}

TEST_F(ServerWaits, WhoWaitsInLineForADeadClientPaysNothingForIt) {
  make_two(4);
  write(*qp, *server, kXid);
  write(*other_qp, *other, kXid);
  EXPECT_TRUE(other_qp->posted().empty()) << "it waits for the units of the first";
  pass(options.read_timeout);
  EXPECT_EQ(server->failure(), EndpointFailure::kReadTimeout);
  ASSERT_EQ(other_qp->posted().size(), 1u) << "what the dead one held is free again";
  EXPECT_EQ(other->next_deadline(), now + ServerShared::kSlowAfter) << "its time begins now";
  pass(Duration::seconds(1));
  answer_read(*other_qp, *other);
  pass(Duration::seconds(1));
  ASSERT_TRUE(takes(*other));
  EXPECT_EQ(other->next_deadline(), now + options.call_timeout) << "the owner has all of its time";
}

TEST_F(ServerWaits, ACallThatWaitsLongerThanTheWaitTimeoutEndsItsConnection) {
  options.call_timeout = Duration::seconds(100'000);
  make_two(4);
  write(*qp, *server, kXid);
  answer_read(*qp, *server);
  ASSERT_TRUE(takes(*server)) << "the owner keeps it";
  write(*other_qp, *other, kXid);
  const Instant end = now + options.wait_timeout;
  while (!other->failed() && now < end + Duration::seconds(1)) {
    pass(Duration::seconds(1));
  }
  EXPECT_EQ(now, end);
  EXPECT_EQ(other->failure(), EndpointFailure::kStarved);
  EXPECT_EQ(stats().wait_timeouts, 1u);
  EXPECT_EQ(stats().call_timeouts, 0u);
  EXPECT_FALSE(server->failed());
}

TEST_F(ServerWaits, AMessageThatWaitsForASlotIsBoundedByTheWaitTimeout) {
  make(128, 1);
  send(inline_call(kXid, rpc_call(kXid)));
  ASSERT_TRUE(take().has_value());
  options.call_timeout = Duration::seconds(100'000);
  test::FakeQueuePair late_qp;
  ServerEndpoint late(*shared, late_qp, options, thresholds);
  late.start();
  ASSERT_TRUE(late_qp.deliver(chain_of(*pool, inline_call(kXid, rpc_call(kXid)).bytes()), std::nullopt, now));
  late.on_completions(now);
  const Instant end = now + options.wait_timeout;
  while (!late.failed() && now <= end) {
    now = late.next_deadline();
    late.on_deadline(now);
  }
  EXPECT_EQ(now, end);
  EXPECT_EQ(late.failure(), EndpointFailure::kStarved);
}

// A call counts for the backend that its program goes to, wherever in the message the program stands. One in a Read chunk shows
// its program late: such calls count together.
TEST_F(ServerWaits, ACallTakesASlotOfItsBackend) {
  BackendShare bench;
  BackendShare others;
  BackendShare unread;
  const BackendShares backends{.others = &others, .unread = &unread, .programs = {{kBenchProgram, &bench}}};
  options.backends = &backends;
  make();
  send(inline_call(kXid, rpc_call(kXid)));
  EXPECT_EQ(bench.slots, 1u);
  send(inline_call(kXid + 1, rpc_call(kXid + 1, 0, 100'003)));
  EXPECT_EQ(others.slots, 1u);
  write(*qp, *server, kXid + 2);  // behind a Read list
  EXPECT_EQ(bench.slots, 2u);
  const Words lists = Words{}.read(0, 0x11, 40, 0x1000).add({0, 0, 0});
  send(Words{kXid + 3, 1, 16, 1}.raw(lists.bytes()));
  EXPECT_EQ(unread.slots, 1u);
  EXPECT_EQ(bench.slots + others.slots, 3u);
  server.reset();
  EXPECT_EQ(bench.slots + others.slots + unread.slots, 0u);
}

// Of twelve slots one backend has ten at most, and the calls of its connections wait in order.
TEST_F(ServerWaits, ABackendThatDoesNotAnswerLeavesSlotsToTheOthers) {
  options.credits = 32;
  options.backends = &to_hung;
  make(128, 12);
  shared->backends = 2;
  options.backends = &to_healthy;
  other_qp = std::make_unique<test::FakeQueuePair>();
  other = std::make_unique<ServerEndpoint>(*shared, *other_qp, options, thresholds);
  other->start();
  for (uint32_t i = 0; i < 12; ++i) {
    send(inline_call(kXid + i, rpc_call(kXid + i)));
  }
  EXPECT_EQ(hung.slots, 10u);
  EXPECT_EQ(server->calls_in_flight(), 12u);
  for (uint32_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(other_qp->deliver(chain_of(*pool, inline_call(kXid + i, rpc_call(kXid + i)).bytes())));
    other->on_completions(now);
  }
  EXPECT_EQ(healthy.slots, 2u);
  const auto first = take();
  ASSERT_TRUE(first.has_value());
  answer(*first, rpc_reply(kXid));
  EXPECT_EQ(sent()[0], kXid);
  pass(ServerEndpoint::kRetryInterval);
  EXPECT_EQ(hung.slots, 9u) << "what it gives back is for those that have less";
  EXPECT_EQ(healthy.slots, 3u);
  for (uint32_t i = 1; i < 10; ++i) {
    ASSERT_TRUE(take().has_value()) << i;
    EXPECT_EQ(words_of(held)[0], kXid + i);
  }
  EXPECT_FALSE(take().has_value());
}

// Of 24 units the clients of one backend have 21 at most together; a call takes 3.
TEST_F(ServerWaits, ABackendThatDoesNotAnswerLeavesUnitsToTheOthers) {
  options.backends = &to_hung;
  make_two(24, true);
  shared->backends = 2;
  std::vector<std::unique_ptr<test::FakeQueuePair>> qps;
  std::vector<std::unique_ptr<ServerEndpoint>> clients;
  options.share = nullptr;
  for (uint32_t i = 0; i < 7; ++i) {
    qps.push_back(std::make_unique<test::FakeQueuePair>());
    clients.push_back(std::make_unique<ServerEndpoint>(*shared, *qps.back(), options, thresholds));
    clients.back()->start();
    write(*qps.back(), *clients.back(), kXid + i);
    answer_read(*qps.back(), *clients.back());
  }
  write(*qp, *server, kXid);
  EXPECT_TRUE(qp->posted().empty()) << "the eighth call waits";
  EXPECT_EQ(hung.pulled_units, 21u);
  options.share = &share;
  options.backends = &to_healthy;
  test::FakeQueuePair healthy_qp;
  ServerEndpoint client(*shared, healthy_qp, options, thresholds);
  client.start();
  write(healthy_qp, client, kXid);
  EXPECT_EQ(healthy_qp.posted().size(), 1u) << "neither its own client's other connection nor the hung backend is in its way";
  answer_read(healthy_qp, client);
  EXPECT_EQ(healthy.pulled_units, 3u);

  // What one call gives back is for the line of all first, and then for the first in the backend's line.
  write(*other_qp, *other, kXid);
  EXPECT_TRUE(other_qp->posted().empty());
  clients.clear();
  EXPECT_EQ(hung.pulled_units, 0u);
  pass(ServerEndpoint::kRetryInterval);
  EXPECT_EQ(qp->posted().size(), 1u);
  EXPECT_EQ(other_qp->posted().size(), 1u);
}

// The second waits behind the first, also when it would have its turn among those of its own client.
TEST_F(ServerWaits, CallsToOneBackendGetUnitsInTurn) {
  options.backends = &to_hung;
  make_two(24);
  shared->backends = 2;
  hung.pulled_units = 19;  // of somebody else: two units may come
  shared->pulled_units = 19;
  write(*qp, *server, kXid);
  write(*other_qp, *other, kXid);
  EXPECT_TRUE(qp->posted().empty() && other_qp->posted().empty());
  hung.pulled_units = 15;
  shared->pulled_units = 15;
  other->on_deadline(now + ServerEndpoint::kRetryInterval);
  EXPECT_TRUE(other_qp->posted().empty()) << "the other one is first";
  pass(ServerEndpoint::kRetryInterval);
  EXPECT_EQ(qp->posted().size(), 1u);
  pass(ServerEndpoint::kRetryInterval);
  EXPECT_EQ(other_qp->posted().size(), 1u);
  hung.pulled_units -= 15;
  shared->pulled_units -= 15;
}

// Of 24 units a client may have 6 for calls that it has not answered the READs of, and 12 in all; a call takes 3.
TEST_F(ServerWaits, AClientHoldsAQuarterOfTheUnitsWithoutAnAnswer) {
  make_two(24);
  for (uint32_t i = 0; i < 4; ++i) {
    write(*qp, *server, kXid + i);
  }
  EXPECT_EQ(qp->posted().size(), 2u);
  EXPECT_EQ(shared->pulled_units, 6u);
  EXPECT_GT(stats().read_stalls, 0u);
  write(*other_qp, *other, kXid);
  EXPECT_EQ(other_qp->posted().size(), 1u) << "others do not wait behind it";
  answer_read(*qp, *server);
  EXPECT_EQ(qp->posted().size(), 2u) << "an answer makes room for the next";
}

TEST_F(ServerWaits, AClientHoldsHalfOfTheUnitsUntilItsCallsAreAnswered) {
  make_two(24);
  for (uint32_t i = 0; i < 6; ++i) {
    write(*qp, *server, kXid + i);
    if (!qp->posted().empty()) {
      answer_read(*qp, *server);
    }
  }
  EXPECT_EQ(shared->pulled_units, 12u);
  EXPECT_TRUE(qp->posted().empty());
  const auto id = take();
  ASSERT_TRUE(id.has_value());
  held.clear();
  answer(*id, rpc_reply(kXid).add({0}));
  qp->finish();
  EXPECT_EQ(qp->posted().size(), 1u) << "the fifth call takes the units of the first";
}

// Seed 5016628: the calls of two clients waited for their sick backends, and all others' writes with them.
TEST_F(ServerWaits, TwoClientsWhoseCallsAreNotAnsweredLeaveUnitsToAThird) {
  make_two(24);
  const auto hoard = [this](test::FakeQueuePair& to, ServerEndpoint& endpoint) {
    for (uint32_t i = 0; i < 6; ++i) {
      write(to, endpoint, kXid + i);
      if (!to.posted().empty()) {
        answer_read(to, endpoint);
      }
    }
  };
  hoard(*qp, *server);
  EXPECT_EQ(shared->pulled_units, 12u);
  hoard(*other_qp, *other);
  EXPECT_EQ(shared->pulled_units, 18u) << "what is free is never less than what the greediest may add";
  test::FakeQueuePair third_qp;
  ServerEndpoint third(*shared, third_qp, options, thresholds);
  third.start();
  write(third_qp, third, kXid);
  EXPECT_EQ(third_qp.posted().size(), 1u);
}

TEST_F(ServerWaits, TheConnectionsOfOneClientShareItsPart) {
  make_two(24, true);
  write(*qp, *server, kXid);
  write(*qp, *server, kXid + 1);
  write(*other_qp, *other, kXid);
  EXPECT_TRUE(other_qp->posted().empty());
  EXPECT_EQ(share.unread_units, 6u);
  answer_read(*qp, *server);
  pass(ServerEndpoint::kRetryInterval);
  EXPECT_EQ(other_qp->posted().size(), 1u);
}

TEST_F(ServerWaits, TheConnectionsOfOneClientTakeTurns) {
  make_two(12, true);
  for (uint32_t i = 0; i < 3; ++i) {
    write(*qp, *server, kXid + i);
    write(*other_qp, *other, kXid + i);
  }
  ASSERT_EQ(qp->posted().size(), 1u);
  EXPECT_TRUE(other_qp->posted().empty());
  answer_read(*qp, *server);
  EXPECT_TRUE(qp->posted().empty()) << "it is the other's turn, though only a timer tells it";
  pass(ServerEndpoint::kRetryInterval);
  EXPECT_EQ(other_qp->posted().size(), 1u);
  EXPECT_TRUE(qp->posted().empty());
}

// A connection of one client to each of two backends, and more connections as a test needs them.
class OneClientTwoBackends : public ServerWaits {
 protected:
  // `qp` and `server` lead to `hung`, `other_qp` and `other` to `healthy`.
  void make_both(uint64_t pull_units_max) {
    options.share = &share;
    options.backends = &to_hung;
    make();
    shared->pull_units_max = pull_units_max;
    shared->backends = 2;
    options.backends = &to_healthy;
    other_qp = std::make_unique<test::FakeQueuePair>();
    other = std::make_unique<ServerEndpoint>(*shared, *other_qp, options, thresholds);
    other->start();
  }
  // What other clients hold, `of_hung` units of it for the first backend.
  void others_hold(uint64_t units, uint64_t of_hung) {
    shared->pulled_units += units - others_units;
    hung.pulled_units += of_hung - others_of_hung;
    others_units = units;
    others_of_hung = of_hung;
  }
  void TearDown() override {
    others_hold(0, 0);
    ServerWaits::TearDown();
  }
  uint64_t others_units = 0;
  uint64_t others_of_hung = 0;
};

// It had its turn among its client's connections. Meanwhile a sibling has taken what the client may have, and another call of
// that sibling waits, too.
TEST_F(OneClientTwoBackends, WhoIsSentBackFromTheLineOfItsBackendIsTheFirstOfItsClient) {
  make_both(24);
  others_hold(19, 19);
  write(*qp, *server, kXid);
  EXPECT_TRUE(qp->posted().empty()) << "it waits for its backend";
  write(*other_qp, *other, kXid);
  write(*other_qp, *other, kXid + 1);
  EXPECT_EQ(other_qp->posted().size(), 1u) << "the second call waits for what only the client can give back";
  ask(*server);
  others_hold(10, 10);
  ask(*other);
  EXPECT_EQ(other_qp->posted().size(), 1u) << "the other connection is first";
  ask(*server);
  EXPECT_EQ(qp->posted().size(), 1u);
  others_hold(0, 0);
  answer_read(*other_qp, *other);
  EXPECT_EQ(other_qp->posted().size(), 1u) << "and now it is its turn";
}

// From the line of its backend into the line of all: there, too, it is the first of its client, which has one connection in that
// line.
TEST_F(OneClientTwoBackends, WhoGetsIntoTheLineOfAllIsTheFirstOfItsClient) {
  make_both(24);
  test::FakeQueuePair third_qp;
  ServerEndpoint third(*shared, third_qp, options, thresholds);  // of the same client
  third.start();
  others_hold(19, 19);
  write(*qp, *server, kXid);
  write(third_qp, third, kXid);
  ASSERT_EQ(third_qp.posted().size(), 1u);
  write(*other_qp, *other, kXid);
  ASSERT_TRUE(other_qp->posted().empty()) << "it waits for what the third connection has";
  answer_read(third_qp, third);
  serve(third_qp, third);
  others_hold(23, 0);
  ask(*server);
  ask(*other);
  EXPECT_EQ(share.pulled_units, 0u);
  others_hold(18, 0);
  ask(*other);
  EXPECT_TRUE(other_qp->posted().empty()) << "the other connection is first";
  ask(*server);
  EXPECT_EQ(qp->posted().size(), 1u);
  ask(*other);
  EXPECT_EQ(other_qp->posted().size(), 0u) << "the client may have half of what is there";
  others_hold(0, 0);
  ask(*other);
  EXPECT_EQ(other_qp->posted().size(), 1u);
}

// Of 1024 units, calls of up to 4 are small, and 64 go to those that pass the first in the line.
TEST_F(ServerWaits, SmallCallsPassALargeOneThatWaitsUntilTheyHaveTakenASixteenth) {
  make_two(1024);
  constexpr uint64_t kHeld = 1000;
  shared->pulled_units = kHeld;  // of other clients
  write(*qp, *server, kXid, 100 * 4096);
  EXPECT_TRUE(qp->posted().empty());
  write(*other_qp, *other, kXid, 4 * 4096);  // 5 units
  EXPECT_TRUE(other_qp->posted().empty()) << "there is room for it, but it is not small";
  other = nullptr;
  other_qp = std::make_unique<test::FakeQueuePair>();
  other = std::make_unique<ServerEndpoint>(*shared, *other_qp, options, thresholds);
  other->start();
  uint32_t passed = 0;
  for (uint32_t i = 0; i < 40; ++i) {
    write(*other_qp, *other, kXid + i);
    if (other_qp->posted().empty()) {
      break;
    }
    ++passed;
    answer_read(*other_qp, *other);
    serve(*other_qp, *other);
  }
  EXPECT_EQ(passed, 21u) << "3 units each";
  EXPECT_EQ(shared->pulled_units, kHeld) << "though nobody holds what they took";
  EXPECT_TRUE(qp->posted().empty());
  shared->pulled_units -= kHeld;
  ask(*server);
  EXPECT_EQ(qp->posted().size(), 1u);
  ask(*other);
  EXPECT_EQ(other_qp->posted().size(), 1u) << "the next in the line";
  shared->pulled_units += kHeld - 101 - 3;
  answer_read(*other_qp, *other);
  serve(*other_qp, *other);
  test::FakeQueuePair third_qp;
  ServerEndpoint third(*shared, third_qp, options, thresholds);
  third.start();
  write(third_qp, third, kXid, 100 * 4096);
  EXPECT_TRUE(third_qp.posted().empty());
  write(*other_qp, *other, kXid);
  EXPECT_EQ(other_qp->posted().size(), 1u) << "the next large one is passed by as many again";
  shared->pulled_units -= kHeld - 101 - 3;
}

TEST_F(ServerWaits, ACallLongerThanAPartIsAdmittedAlone) {
  make_two(4);
  write(*qp, *server, kXid);
  EXPECT_EQ(qp->posted().size(), 1u);
  answer_read(*qp, *server);
}

// Many clients, each with a share and a connection of its own. Of 24 units the slow ones may hold 6 together; a call takes 3.
class SlowReads : public ServerWaits {
 protected:
  static constexpr uint64_t kUnits = 24;
  static constexpr Duration kFound = ServerShared::kSlowAfter + ServerShared::kSlowCheck;
  struct Client {
    ClientShare share;
    test::FakeQueuePair qp;
    std::unique_ptr<ServerEndpoint> endpoint;
  };

  void SetUp() override {
    ServerWaits::SetUp();
    shared->pull_units_max = kUnits;
  }
  void TearDown() override {
    for (Client& client : clients) {
      client.endpoint.reset();
    }
    EXPECT_EQ(shared->slow_units, 0u);
    clients.clear();
    ServerWaits::TearDown();
  }
  // `of`: whose further connection it is.
  Client& come(Client* of = nullptr) {
    Client& client = clients.emplace_back();
    options.share = of == nullptr ? &client.share : &of->share;
    client.endpoint = std::make_unique<ServerEndpoint>(*shared, client.qp, options, thresholds);
    client.endpoint->start();
    return client;
  }
  void write(Client& client) { ServerWaits::write(client.qp, *client.endpoint, xid++); }
  void answer_read(Client& client) { ServerWaits::answer_read(client.qp, *client.endpoint); }
  // The oldest call of the client, to its end.
  void serve(Client& client) {
    answer_read(client);
    Call call;
    ASSERT_TRUE(client.endpoint->poll_call(now, call));
    const uint32_t polled = call.context->header.xid;
    call.message.clear();
    client.endpoint->reply(now, call.id, chain_of(*pool, rpc_reply(polled).bytes()));
    client.qp.finish_all_sends();
    client.endpoint->on_completions(now);
  }
  // Clients that take all units and answer nothing.
  void fill() {
    for (uint32_t i = 0; i < 5; ++i) {
      Client& client = come();
      write(client);
      write(client);
    }
    ASSERT_EQ(shared->pulled_units, kUnits);
  }
  void wait(Duration time) {
    std::vector<ServerEndpoint*> endpoints;
    for (Client& client : clients) {
      endpoints.push_back(client.endpoint.get());
    }
    run(time, endpoints);
  }
  uint32_t ended() const {
    uint32_t count = 0;
    for (const Client& client : clients) {
      count += client.endpoint->failure() == EndpointFailure::kSlowReads ? 1 : 0;
    }
    return count;
  }

  std::deque<Client> clients;
  uint32_t xid = kXid;
};

TEST_F(SlowReads, NobodyEndsForThemWhileNobodyWaits) {
  fill();
  wait(options.read_timeout - Duration::ns(1));
  EXPECT_EQ(ended(), 0u);
  EXPECT_GT(shared->slow_units, kUnits / ServerShared::kSlowPart);
}

TEST_F(SlowReads, AClientThatWaitsGetsItsUnitsWithinASecond) {
  fill();
  Client& honest = come();
  write(honest);
  EXPECT_TRUE(honest.qp.posted().empty());
  wait(ServerShared::kSlowAfter);
  EXPECT_EQ(ended(), 0u) << "they have this long";
  wait(ServerShared::kSlowCheck + ServerEndpoint::kRetryInterval);
  ASSERT_EQ(honest.qp.posted().size(), 1u);
  EXPECT_LE(shared->slow_units, kUnits / ServerShared::kSlowPart);
  EXPECT_EQ(ended(), 3u) << "of 6, 6, 6, 3 and 3 units 6 may stay";
  EXPECT_TRUE(clients[0].endpoint->failed() && clients[1].endpoint->failed() && clients[2].endpoint->failed());
  EXPECT_EQ(stats().slow_reads, 3u);
  EXPECT_EQ(stats().read_timeouts, 0u);
  answer_read(honest);
}

// Of those that are slow the one that goes on is the last to end.
TEST_F(SlowReads, WhoHasBeenSlowForLongestEndsFirst) {
  fill();
  wait(kFound);
  answer_read(clients[0]);
  wait(kFound);
  Client& honest = come();
  write(honest);
  write(honest);
  wait(kFound);
  EXPECT_FALSE(clients[0].endpoint->failed());
  EXPECT_TRUE(clients[1].endpoint->failed() && clients[2].endpoint->failed());
  EXPECT_EQ(honest.qp.posted().size(), 2u);
}

// All clients stall at once, as when a switch fails: they wait for themselves.
TEST_F(SlowReads, SlowClientsThatWaitEndNobody) {
  fill();
  for (Client& client : clients) {
    write(client);
  }
  wait(options.read_timeout / 2);
  EXPECT_EQ(ended(), 0u);
}

TEST_F(SlowReads, ManySlowClientsHoldNoMoreThanOne) {
  for (uint32_t i = 0; i < 3; ++i) {
    write(come());
  }
  wait(kFound);
  EXPECT_EQ(shared->slow_units, 9u);
  for (Client& client : clients) {
    serve(client);
  }
  for (Client& client : clients) {
    write(client);
  }
  EXPECT_EQ(shared->slow_units, 6u);
  EXPECT_EQ(clients[0].qp.posted().size() + clients[1].qp.posted().size(), 2u);
  EXPECT_TRUE(clients[2].qp.posted().empty()) << "it waits among the slow";
  Client& honest = come();
  write(honest);
  EXPECT_EQ(honest.qp.posted().size(), 1u) << "nobody else waits behind it";
  serve(clients[0]);
  wait(ServerEndpoint::kRetryInterval);
  EXPECT_EQ(clients[2].qp.posted().size(), 1u);
}

TEST_F(SlowReads, SlowClientsTakeTurns) {
  for (uint32_t i = 0; i < 4; ++i) {
    write(come());
  }
  wait(kFound);
  for (Client& client : clients) {
    serve(client);
  }
  for (Client& client : clients) {
    write(client);
    write(client);
  }
  EXPECT_EQ(clients[0].qp.posted().size(), 2u);
  for (uint32_t i = 1; i < 4; ++i) {
    EXPECT_TRUE(clients[i].qp.posted().empty()) << i;
    serve(clients[i - 1]);
    wait(ServerEndpoint::kRetryInterval);
    EXPECT_EQ(clients[i].qp.posted().size(), 1u) << i;
  }
}

TEST_F(SlowReads, ASlowClientIsOneWithItsNextConnectionTooAndThenNoLonger) {
  Client& client = come();
  write(client);
  wait(kFound);
  EXPECT_EQ(shared->slow_units, 3u);
  client.endpoint->fail();
  EXPECT_EQ(shared->slow_units, 0u);
  Client& again = come(&client);
  write(again);
  EXPECT_EQ(shared->slow_units, 3u);
  serve(again);
  now = now + ServerShared::kSlowFor;
  write(again);
  EXPECT_EQ(shared->slow_units, 0u);
}

// A client without receives, or one that acknowledges nothing.
class RepliesNotTaken : public ServerWaits {
 protected:
  // A SOURCE call that offers a Write chunk of `room` bytes.
  void request(uint32_t xid, uint32_t room) {
    const Words lists = Words{0, 1, 1}.segment(0x11, room, 0x1000).add({0, 0});
    send(Words{xid, 1, 16, 0}.raw(lists.bytes()).raw(rpc_call(xid, 2).add({0, 0, 0}).bytes()));
  }
  // The owner takes the next call and answers it with `bytes` bytes of data.
  void serve(uint32_t xid, uint32_t bytes) {
    const auto id = take();
    ASSERT_TRUE(id.has_value());
    held.clear();
    answer(*id, rpc_reply(xid).add({0, 0, bytes}).zeros(bytes));
  }
};

TEST_F(RepliesNotTaken, AReplyThatIsNotAcknowledgedEndsTheConnection) {
  options.reply_timeout = Duration::seconds(7);  // not the default
  make();
  send(inline_call(kXid, rpc_call(kXid)));
  const auto id = take();
  held.clear();
  answer(*id, rpc_reply(kXid));
  EXPECT_EQ(server->next_deadline(), now + options.reply_timeout);
  pass(options.reply_timeout - Duration::ns(1));
  EXPECT_FALSE(server->failed());
  pass(Duration::ns(1));
  EXPECT_EQ(server->failure(), EndpointFailure::kReplyTimeout);
  EXPECT_EQ(stats().reply_timeouts, 1u);
}

TEST_F(RepliesNotTaken, AnAcknowledgedReplyLeavesNoDeadline) {
  send(inline_call(kXid, rpc_call(kXid)));
  const auto id = take();
  held.clear();
  answer(*id, rpc_reply(kXid));
  qp->finish_all_sends();
  EXPECT_TRUE(server->next_deadline().is_never());
  expect_idle();
}

TEST_F(RepliesNotTaken, EachReplyHasATimeoutOfItsOwn) {
  request(kXid, 1000);
  serve(kXid, 1000);
  pass(options.reply_timeout / 2);
  request(kXid + 1, 1000);
  serve(kXid + 1, 1000);
  qp->finish();  // the Write
  qp->finish();  // the SEND of the first reply
  pass(options.reply_timeout / 2);
  EXPECT_FALSE(server->failed());
  EXPECT_EQ(server->next_deadline(), now + options.reply_timeout) << "the second is watched now";
  pass(options.reply_timeout);
  EXPECT_EQ(server->failure(), EndpointFailure::kReplyTimeout);
}

TEST_F(RepliesNotTaken, AReverseCallThatIsNotAcknowledgedEndsTheConnection) {
  options.reverse_credits = 2;
  make();
  server->enable_reverse();
  ASSERT_TRUE(server->submit_reverse(now, chain_of(*pool, rpc_call(7).bytes())).ok());
  pass(options.reply_timeout);
  EXPECT_EQ(server->failure(), EndpointFailure::kReplyTimeout);
}

// Of 10000 bytes: what a call offers counts until it is answered, then the Buffers of its reply until that is acknowledged.
TEST_F(RepliesNotTaken, CallsWaitUntilTheClientHasTakenWhatItAskedForBefore) {
  options.share = &share;
  make();
  shared->reply_bytes_max = 10'000;
  for (uint32_t i = 0; i < 3; ++i) {
    request(kXid + i, 4096);
  }
  serve(kXid, 1000);
  EXPECT_EQ(share.reply_bytes, 2048u) << "the whole Buffer, though half of it is used";
  const auto second = take();
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(share.reply_bytes, 2048u + 4096u);
  held.clear();
  answer(*second, rpc_reply(kXid + 1).add({0, 0, 3000}).zeros(3000));
  EXPECT_EQ(share.reply_bytes, 3 * 2048u);
  EXPECT_FALSE(take().has_value());
  EXPECT_EQ(stats().reply_stalls, 1u);
  qp->finish_all_sends();
  server->on_completions(now);
  EXPECT_EQ(share.reply_bytes, 0u);
  serve(kXid + 2, 1000);
  qp->finish_all_sends();
  server->on_completions(now);
  EXPECT_EQ(share.reply_bytes, 0u);
  expect_idle();
}

// Of 10000 bytes; the calls to one backend may offer room for four times as many as are free.
TEST_F(RepliesNotTaken, ABackendThatDoesNotAnswerLeavesBytesToTheOthers) {
  options.share = &share;
  options.backends = &to_hung;
  make();
  shared->backends = 2;
  shared->reply_bytes_max = 10'000;
  hung.reply_bytes = 8400;  // of other clients
  shared->reply_bytes = 8400;
  request(kXid, 100);
  request(kXid + 1, 100);
  EXPECT_TRUE(take().has_value()) << "a client's first call is always polled";
  EXPECT_FALSE(take().has_value()) << "8600 are more than four times the 1500 that are free";
  hung.reply_bytes -= 8400;  // another backend has them now
  EXPECT_TRUE(take().has_value());
  shared->reply_bytes -= 8400;
}

TEST_F(RepliesNotTaken, OneCallOfAConnectionIsAlwaysServed) {
  make();
  shared->reply_bytes_max = 100;
  request(kXid, 4096);
  serve(kXid, 1000);
  request(kXid + 1, 4096);
  EXPECT_FALSE(take().has_value());
  qp->finish_all_sends();
  server->on_completions(now);
  serve(kXid + 1, 1000);
  qp->finish_all_sends();
}

TEST_F(RepliesNotTaken, SmallRepliesHoldNothing) {
  options.share = &share;
  make();
  send(inline_call(kXid, rpc_call(kXid)));
  const auto id = take();
  held.clear();
  answer(*id, rpc_reply(kXid));
  EXPECT_EQ(share.reply_bytes, 0u);
}

// A connection that stays idle after its reply counts nothing against its siblings: each such reply says when it is over.
TEST_F(RepliesNotTaken, InlineRepliesThatKeepBuffersAreCountedOut) {
  options.share = &share;
  options.credits = 200;
  make(256);
  for (uint32_t i = 0; i < 200; ++i) {
    send(inline_call(kXid + i, rpc_call(kXid + i)));
    const auto id = take();
    ASSERT_TRUE(id.has_value());
    held.clear();
    answer(*id, rpc_reply(kXid + i).zeros(400));
    qp->finish_all_sends();
    server->on_completions(now);
    ASSERT_EQ(share.reply_bytes, 0u);
  }
}

// Calls under RPCSEC_GSS: RFC 2203 5.3.3.1 lets servers drop those that lag behind the sequence window.
class GssOrder : public ServerWaits {
 protected:
  // The sequence number is the XID.
  static Words gss_call(uint32_t xid, uint32_t procedure = 0, uint32_t context = 0x4444'4444) {
    return Words{xid, 0, 2, kBenchProgram, kBenchVersion, procedure, 6, 24, 1, 0, xid, 1, 4, context, 0, 0};
  }
  void small(uint32_t xid, bool gss = true) { send(inline_call(xid, gss ? gss_call(xid) : rpc_call(xid))); }
  // An ECHO call whose argument is in a Read chunk; `whole`: all of the call is in one.
  void large(uint32_t xid, bool whole = false) {
    const Words stream = gss_call(xid, 1).add({kData});
    if (whole) {
      send(Words{xid, 1, 16, 1}.read(0, 0x11, static_cast<uint32_t>(stream.size()), 0x1000).add({0, 0, 0}));
      long_calls.push_back(stream.bytes());
      return;
    }
    const Words lists = Words{}.read(static_cast<uint32_t>(stream.size()), 0x11, kData, 0x1000).add({0, 0, 0});
    send(Words{xid, 1, 16, 0}.raw(lists.bytes()).raw(stream.bytes()));
  }
  std::vector<uint32_t> polled() {
    std::vector<uint32_t> xids;
    Call call;
    while (server->poll_call(now, call)) {
      xids.push_back(call.context->header.xid);
      ids.push_back(call.id);
      call.message.clear();
    }
    return xids;
  }
  std::vector<std::vector<uint8_t>> long_calls;
  std::vector<CallId> ids;
};

using Xids = std::vector<uint32_t>;

TEST_F(GssOrder, ASmallCallDoesNotOvertakeOneThatIsBeingPulled) {
  small(1);
  EXPECT_EQ(polled(), Xids{1});
  large(2);
  small(3);
  small(4, false);
  EXPECT_EQ(polled(), Xids{});
  answer_read(*qp, *server);
  EXPECT_EQ(polled(), (Xids{2, 3, 4}));
}

TEST_F(GssOrder, RdmaReadsOfSeveralCallsOverlap) {
  small(1);
  large(2);
  small(3);
  large(4);
  small(5);
  EXPECT_EQ(qp->posted().size(), 2u);
  answer_read(*qp, *server);
  EXPECT_EQ(polled(), (Xids{1, 2, 3}));
  answer_read(*qp, *server);
  EXPECT_EQ(polled(), (Xids{4, 5}));
}

// The first call of a new connection may be one that tells its flavor only when it has been pulled.
TEST_F(GssOrder, TheFirstSmallCallFallsInBehindALongCallOfTheSameKind) {
  large(1, true);
  small(2);
  EXPECT_EQ(polled(), Xids{});
  qp->finish(chain_of(*pool, long_calls.front()));
  server->on_completions(now);
  EXPECT_EQ(polled(), (Xids{1, 2}));
}

TEST_F(GssOrder, OtherFlavorsKeepOvertaking) {
  write(*qp, *server, 1);
  small(2, false);
  EXPECT_EQ(polled(), Xids{2});
  answer_read(*qp, *server);
  EXPECT_EQ(polled(), Xids{1});
}

// A client may send a call late by up to its window. The server must not see a call that moves the window past it first.
TEST_F(GssOrder, NoCallIsPolledThatIsAWindowAheadOfAnUnansweredOne) {
  options.credits = 64;
  make(512, 128);
  small(100);
  for (uint32_t xid = 131; xid < 134; ++xid) {
    small(xid);
  }
  EXPECT_EQ(polled(), (Xids{100, 131}));
  EXPECT_EQ(stats().gss_window_stalls, 1u);
  answer(ids[1], rpc_reply(131));
  EXPECT_EQ(polled(), Xids{});
  answer(ids[0], rpc_reply(100));
  EXPECT_EQ(polled(), (Xids{132, 133}));
}

TEST_F(GssOrder, SequenceNumbersOfOtherContextsAndFlavorsHoldUpNothing) {
  small(100);
  send(inline_call(200, gss_call(200, 0, 0x5555'5555)));
  small(300, false);
  EXPECT_EQ(polled(), (Xids{100, 200, 300}));
  small(120);
  EXPECT_EQ(polled(), Xids{120});
}

// A call that the server executes for long has passed the window before.
TEST_F(GssOrder, ASlowCallHoldsUpTheWindowForASecondOnly) {
  small(100);
  EXPECT_EQ(polled(), Xids{100});
  small(140);
  EXPECT_EQ(polled(), Xids{});
  EXPECT_EQ(server->next_deadline(), now + ServerEndpoint::kGssPatience);
  now = now + ServerEndpoint::kGssPatience;
  server->on_deadline(now);
  EXPECT_EQ(polled(), Xids{140});
}

TEST_F(GssOrder, AtFullCreditsMixedWithLargeWritesEveryCallComesInItsTurn) {
  options.credits = 64;
  make(512, 128, 2048, 1024);
  Xids sent_xids;
  Xids got;
  for (uint32_t round = 0; round < 10; ++round) {
    for (uint32_t i = 0; i < 64; ++i) {
      const uint32_t xid = round * 64 + i + 1;
      sent_xids.push_back(xid);
      i % 3 == 0 ? large(xid) : small(xid);
    }
    while (server->calls_in_flight() > 0) {
      if (!qp->posted().empty() && qp->posted().front().kind == WorkKind::kRead) {
        answer_read(*qp, *server);
      }
      const Xids more = polled();
      got.insert(got.end(), more.begin(), more.end());
      for (size_t n = ids.size(); n > 0; --n) {
        answer(ids[n - 1], rpc_reply(got[got.size() - (ids.size() - n) - 1]));
      }
      ids.clear();
      qp->finish_all_sends();
      server->on_completions(now);
    }
  }
  EXPECT_EQ(got, sent_xids);
}

// The pull line goes on although calls with all their data wait behind one that is in it.
TEST_F(GssOrder, WaitingForATurnHoldsNothingThatTheOldestCallNeeds) {
  make_two(4);
  small(1);
  ASSERT_EQ(polled(), Xids{1});
  write(*other_qp, *other, 1);
  large(2);
  small(3);
  large(4);
  small(5);
  EXPECT_TRUE(qp->posted().empty()) << "the other has all units";
  answer_read(*other_qp, *other);
  Call theirs;
  ASSERT_TRUE(other->poll_call(now, theirs));
  other->reply(now, theirs.id, chain_of(*pool, rpc_reply(1).bytes()));
  theirs.message.clear();
  other_qp->finish_all_sends();
  pass(ServerEndpoint::kRetryInterval);
  answer_read(*qp, *server);
  ids.clear();
  EXPECT_EQ(polled(), (Xids{2, 3}));
  answer(ids[0], rpc_reply(2));
  qp->finish_all_sends();
  answer_read(*qp, *server);
  EXPECT_EQ(polled(), (Xids{4, 5}));
}

}  // namespace
}  // namespace cw::rpcrdma
