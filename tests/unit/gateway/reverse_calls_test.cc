// ReverseCalls alone: what it sends to a client, whom it answers in the client's place, and where replies go. Without a gateway
// nothing passes outcomes on but the test.
#include "gateway/reverse_calls.h"

#include "rpcrdma/endpoint/reverse_caller.h"
#include "tests/unit/gateway/parts_alone.h"

namespace cw::gateway {
namespace {

using rpcrdma::Words;

constexpr uint32_t kReverseCredits = 4;
constexpr uint32_t kRouted = 0x2000'0001;  // a program that goes to the second backend
constexpr auto kCallback = static_cast<uint32_t>(rpcrdma::BenchProcedure::kCallback);

// The bench program's CALLBACK, which says that the client takes calls.
Words callback_call(uint32_t xid, uint32_t bytes = 8) {
  return rpcrdma::rpc_call(xid, kCallback).add({bytes, 0, 5});
}

class ReverseCallsAlone : public PartsAlone {
 protected:
  ReverseCallsAlone() {
    listener().server.reverse_credits = kReverseCredits;
    options.backends.push_back({.name = "other", .kind = BackendKind::kTcp});
  }
  void add_route() { listener().routes = {{.program = kRouted, .backend = 1}}; }
  // A connection whose lanes are open; its client takes calls on each.
  void make(uint32_t requests_max = 64) {
    make_parts(requests_max);
    reverse.emplace(parts->backends, parts->requests, packets, packets, parts->stats);
    connection = &connect();
    connection->for_each_lane([&](Lane& lane) {
      if (parts->backends.is_tcp(lane.backend)) {
        open(lane);
      }
    });
  }
  void make_opened(uint32_t requests_max = 64) {
    make(requests_max);
    connection->for_each_lane([&](Lane& lane) { client_opens(lane, 100 + lane_of(lane.link)); });
  }
  void open(Lane& lane) {
    parts->links.open(now, *connection, lane, std::nullopt);
    EXPECT_EQ(expect_opening(lane.backend), lane.link);
    parts->links.on_opened(now, lane);
  }
  void client_opens(Lane& lane, uint32_t xid) {
    const rpcrdma::Call call = take_call(*connection, callback_call(xid));
    reverse->look_at(*connection, lane, call);
    connection->server->reply(now, call.id, rpcrdma::chain_of(packets, rpcrdma::rpc_reply(xid).bytes()));
    transport.peer_acknowledges(connection->id);
    connection->server->on_completions(now);
  }
  void backend_calls(Lane& lane, uint32_t xid, size_t more_bytes = 0) {
    const Words rpc = rpcrdma::rpc_call(xid).zeros(more_bytes);
    reverse->on_call(now, *connection, lane, xid, rpcrdma::chain_of(packets, rpc.bytes()));
  }
  void client_replies(uint32_t xid, uint32_t credits = kReverseCredits, uint32_t result = 0) {
    client_sends(*connection, Words{xid, 1, credits, 0, 0, 0, 0}.raw(rpcrdma::rpc_reply(xid).add({result}).bytes()));
  }
  // ERR_CHUNK.
  void client_refuses(uint32_t xid) { client_sends(*connection, {xid, 1, kReverseCredits, 4, 2}); }
  std::vector<std::vector<uint32_t>> sent() {
    std::vector<std::vector<uint32_t>> messages;
    for (const test::PostedWork& work : transport.qp(connection->id).posted()) {
      messages.push_back(rpcrdma::words_of(work.payload));
    }
    return messages;
  }
  // One message: RDMA_MSG without chunks, with the call as it came.
  void expect_sent(uint32_t xid, const Words& rpc) {
    ASSERT_EQ(sent().size(), 1u);
    EXPECT_EQ(sent().front(), Words({xid, 1, kReverseCredits, 0, 0, 0, 0}).raw(rpc.bytes()).words());
  }
  void expect_nothing_sent() { EXPECT_TRUE(sent().empty()); }
  // The next request sends this to the lane's backend.
  void expect_to_backend(const Lane& lane, const Words& rpc) {
    const std::optional<BackendRequest> next = request();
    ASSERT_TRUE(next && next->kind == BackendRequest::Kind::kSend);
    EXPECT_EQ(next->link, lane.link);
    EXPECT_EQ(next->backend, lane.backend);
    EXPECT_EQ(rpcrdma::words_of(next->message), rpc.words());
  }
  void expect_system_error(const Lane& lane, uint32_t xid) { expect_to_backend(lane, {xid, 1, 0, 0, 0, 5}); }
  void expect_reply(const Lane& lane, uint32_t xid, uint32_t result = 0) {
    expect_to_backend(lane, rpcrdma::rpc_reply(xid).add({result}));
  }
  // So many for this reason, and none for any other.
  void expect_dropped(ReverseDrop reason, uint64_t count = 1) {
    for (size_t each = 0; each < parts->stats.reverse_calls_dropped.size(); ++each) {
      EXPECT_EQ(parts->stats.reverse_calls_dropped[each], each == static_cast<size_t>(reason) ? count : 0)
          << to_string(static_cast<ReverseDrop>(each));
    }
  }
  void expect_none_dropped() { expect_dropped(ReverseDrop::kCount); }
  Lane& lane(uint32_t index) { return connection->lane(index); }
  void fill_requests() {
    while (parts->requests.has_room()) {
      parts->requests.push({});
    }
  }
  void expect_filling(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      (void)expect_request(BackendRequest::Kind::kClose);
    }
  }

  std::optional<ReverseCalls> reverse;
  Connection* connection = nullptr;
};

TEST_F(ReverseCallsAlone, ACallGoesToTheClientAndItsReplyToTheBackend) {
  make_opened();
  backend_calls(lane(0), 7);
  expect_sent(7, rpcrdma::rpc_call(7));
  EXPECT_EQ(parts->stats.reverse_calls, 1u);
  reverse->pass_outcomes(*connection);
  expect_no_request();
  client_replies(7, kReverseCredits, 99);
  EXPECT_EQ(parts->stats.reverse_replies, 0u);
  reverse->pass_outcomes(*connection);
  expect_reply(lane(0), 7, 99);
  EXPECT_EQ(parts->stats.reverse_replies, 1u);
  EXPECT_EQ(backend_stats().bytes_out, 28u);
  expect_none_dropped();
  reverse->pass_outcomes(*connection);
  expect_no_request();
  backend_calls(lane(0), 7);
  EXPECT_EQ(parts->stats.reverse_calls, 2u) << "the XID is free again";
}

TEST_F(ReverseCallsAlone, ACallBeforeTheClientHasSaidThatItTakesAnyIsAnswered) {
  make();
  const rpcrdma::Call null = take_call(*connection, rpcrdma::rpc_call(1));
  reverse->look_at(*connection, lane(0), null);
  EXPECT_FALSE(lane(0).reverse_enabled) << "a NULL call says nothing";
  backend_calls(lane(0), 7);
  expect_nothing_sent();
  expect_system_error(lane(0), 7);
  expect_no_request();
  expect_dropped(ReverseDrop::kNotEnabled);
  EXPECT_EQ(parts->stats.reverse_calls, 0u);
}

TEST_F(ReverseCallsAlone, WhoSaysThatItTakesCallsSaysSoToOneBackend) {
  add_route();
  make();
  client_opens(lane(1), 1);
  EXPECT_FALSE(lane(0).reverse_enabled);
  backend_calls(lane(0), 7);
  expect_system_error(lane(0), 7);
  expect_dropped(ReverseDrop::kNotEnabled);
  expect_nothing_sent();
  backend_calls(lane(1), 7);
  EXPECT_EQ(sent().size(), 1u);
}

TEST_F(ReverseCallsAlone, WithoutReverseCreditsNobodyOpensTheDirection) {
  listener().server.reverse_credits = 0;
  make_opened();
  EXPECT_FALSE(lane(0).reverse_enabled);
  backend_calls(lane(0), 7);
  expect_system_error(lane(0), 7);
  expect_dropped(ReverseDrop::kNotEnabled);
}

TEST_F(ReverseCallsAlone, OneThatFitsNoInlineMessageIsAnswered) {
  make_opened();
  const uint32_t room = connection->thresholds.send_bytes - 28 - 40;
  backend_calls(lane(0), 7, room + 4);
  expect_nothing_sent();
  expect_system_error(lane(0), 7);
  expect_dropped(ReverseDrop::kTooLong);
  backend_calls(lane(0), 7, room);
  expect_sent(7, rpcrdma::rpc_call(7).zeros(room));
  expect_dropped(ReverseDrop::kTooLong);
}

TEST_F(ReverseCallsAlone, ABackendsOwnDuplicateIsNotAnswered) {
  make_opened();
  backend_calls(lane(0), 7);
  backend_calls(lane(0), 7);
  EXPECT_EQ(sent().size(), 1u);
  expect_no_request();  // it would end the call that is under way
  expect_dropped(ReverseDrop::kDuplicateXid);
  EXPECT_EQ(parts->stats.reverse_calls, 1u);
}

TEST_F(ReverseCallsAlone, TheXidOfAnotherBackendsCallIsRefused) {
  add_route();
  make_opened();
  for (const uint32_t holder : {0u, 1u}) {
    const uint32_t xid = 7 + holder;
    backend_calls(lane(holder), xid);
    backend_calls(lane(1 - holder), xid);
    expect_system_error(lane(1 - holder), xid);
    backend_calls(lane(holder), xid);  // its own: no answer
    expect_no_request();
    expect_dropped(ReverseDrop::kDuplicateXid, 2 + 2 * holder);
    client_replies(xid);
    reverse->pass_outcomes(*connection);
    expect_reply(lane(holder), xid);
    expect_no_request();
  }
}

TEST_F(ReverseCallsAlone, WhatFindsNoPlaceToWaitIsAnswered) {
  make_opened();
  // The client has granted one so far.
  for (uint32_t xid = 1; xid <= 1 + rpcrdma::ReverseCaller::kWaitingMax; ++xid) {
    backend_calls(lane(0), xid);
  }
  expect_none_dropped();
  EXPECT_EQ(sent().size(), 1u);
  backend_calls(lane(0), 1000);
  expect_system_error(lane(0), 1000);
  expect_dropped(ReverseDrop::kQueueFull);
  client_replies(1);
  EXPECT_EQ(sent().size(), 1u + kReverseCredits);
}

TEST_F(ReverseCallsAlone, WhatWaitsForACreditForTooLongIsAnswered) {
  make_opened();
  backend_calls(lane(0), 1);
  backend_calls(lane(0), 2);
  now = now + listener().server.reverse_patience;
  connection->server->on_deadline(now);
  expect_no_request();
  reverse->pass_outcomes(*connection);
  expect_system_error(lane(0), 2);
  expect_no_request();
  expect_dropped(ReverseDrop::kExpired);
  EXPECT_EQ(parts->stats.reverse_replies, 0u);
  EXPECT_EQ(sent().size(), 1u);
}

TEST_F(ReverseCallsAlone, WhatTheClientRefusesIsAnswered) {
  make_opened();
  backend_calls(lane(0), 7);
  client_refuses(7);
  reverse->pass_outcomes(*connection);
  expect_system_error(lane(0), 7);
  expect_no_request();
  expect_dropped(ReverseDrop::kRefused);
  EXPECT_EQ(parts->stats.reverse_replies, 0u);
}

TEST_F(ReverseCallsAlone, OutcomesWaitForRoomAndKeepTheirOrder) {
  make_opened(2);
  backend_calls(lane(0), 1);
  client_replies(1);
  for (const uint32_t xid : {2u, 3u}) {
    backend_calls(lane(0), xid);
    client_replies(xid);
  }
  reverse->pass_outcomes(*connection);
  EXPECT_EQ(parts->stats.reverse_replies, 2u);
  expect_reply(lane(0), 1);
  expect_reply(lane(0), 2);
  expect_no_request();
  fill_requests();
  reverse->pass_outcomes(*connection);
  EXPECT_EQ(parts->stats.reverse_replies, 2u);
  expect_filling(2);
  reverse->pass_outcomes(*connection);
  EXPECT_EQ(parts->stats.reverse_replies, 3u);
  expect_reply(lane(0), 3);
}

TEST_F(ReverseCallsAlone, WithoutRoomARefusalIsCountedAndNotAnswered) {
  make(2);
  fill_requests();
  backend_calls(lane(0), 7);
  expect_dropped(ReverseDrop::kNotEnabled);
  expect_filling(2);
  expect_no_request();
}

TEST_F(ReverseCallsAlone, WithoutABufferARefusalIsCountedAndNotAnswered) {
  make();
  HeapBufferPool none(1, 64, 1);
  const Chain last(none.allocate_one());
  ReverseCalls poor(parts->backends, parts->requests, none, packets, parts->stats);
  poor.on_call(now, *connection, lane(0), 7, rpcrdma::chain_of(packets, rpcrdma::rpc_call(7).bytes()));
  expect_dropped(ReverseDrop::kNotEnabled);
  expect_no_request();
}

TEST_F(ReverseCallsAlone, TheReplyForABackendConnectionThatIsGoneGoesToNobody) {
  add_route();
  make_opened();
  backend_calls(lane(1), 7);
  parts->links.on_closed(*connection, lane(1));
  expect_goes_on(*connection);
  open(lane(1));
  client_replies(7);
  reverse->pass_outcomes(*connection);
  expect_no_request();
  expect_none_dropped();
  EXPECT_EQ(parts->stats.reverse_replies, 0u);
  backend_calls(lane(1), 8);
  expect_system_error(lane(1), 8);
  expect_dropped(ReverseDrop::kNotEnabled);  // of the new one the client has said nothing
}

TEST_F(ReverseCallsAlone, TheXidOfACallWhoseBackendConnectionIsGoneIsRefusedToAll) {
  add_route();
  make_opened();
  backend_calls(lane(1), 7);
  parts->links.on_closed(*connection, lane(1));
  backend_calls(lane(0), 7);
  expect_system_error(lane(0), 7);
  open(lane(1));
  client_opens(lane(1), 200);
  backend_calls(lane(1), 7);
  expect_system_error(lane(1), 7);
  expect_dropped(ReverseDrop::kDuplicateXid, 2);
  client_replies(7);
  reverse->pass_outcomes(*connection);
  expect_no_request();
}

// An outcome that waits for room has freed its XID: whose is whose, their order tells.
TEST_F(ReverseCallsAlone, OutcomesOfOneXidGoToTheBackendsThatCalled) {
  add_route();
  make_opened(2);
  for (const uint32_t before : {0u, 1u}) {
    const uint32_t after = 1 - before;
    fill_requests();
    backend_calls(lane(before), 7);
    client_replies(7, kReverseCredits, 100 + before);
    reverse->pass_outcomes(*connection);
    backend_calls(lane(after), 7);
    expect_filling(2);
    backend_calls(lane(after), 7);  // its own duplicate, although the outcome that waits is another's
    expect_no_request();
    client_replies(7, kReverseCredits, 100 + after);
    reverse->pass_outcomes(*connection);
    expect_reply(lane(before), 7, 100 + before);
    expect_reply(lane(after), 7, 100 + after);
    expect_no_request();
  }
  expect_dropped(ReverseDrop::kDuplicateXid, 2);
  EXPECT_EQ(parts->stats.reverse_replies, 4u);
}

TEST_F(ReverseCallsAlone, ABuiltinProgramCallsBackAndHearsNothing) {
  options.backends[0].kind = BackendKind::kBuiltin;
  make();
  const Words rpc = callback_call(7);
  const rpcrdma::Call call = take_call(*connection, rpc);
  reverse->look_at(*connection, lane(0), call);
  reverse->call_back(now, *connection, lane(0), *call.context, call.message);
  ASSERT_EQ(sent().size(), 1u);
  EXPECT_EQ(sent()[0][0], 7u) << "under the XID of the CALLBACK";
  EXPECT_EQ(parts->stats.reverse_calls, 1u);
  client_replies(7);
  reverse->pass_outcomes(*connection);
  EXPECT_EQ(parts->stats.reverse_replies, 1u);
  expect_no_request();
  expect_none_dropped();
}

TEST_F(ReverseCallsAlone, ABuiltinProgramIsRefusedWithoutAnAnswer) {
  options.backends[0].kind = BackendKind::kBuiltin;
  make();
  const rpcrdma::Call call = take_call(*connection, callback_call(7));
  reverse->call_back(now, *connection, lane(0), *call.context, call.message);
  expect_dropped(ReverseDrop::kNotEnabled);
  expect_no_request();
  expect_nothing_sent();
}

TEST_F(ReverseCallsAlone, GarbageArgumentsCallNobodyBack) {
  options.backends[0].kind = BackendKind::kBuiltin;
  make();
  const rpcrdma::Call call = take_call(*connection, callback_call(7).add({1}));
  reverse->look_at(*connection, lane(0), call);
  reverse->call_back(now, *connection, lane(0), *call.context, call.message);
  expect_nothing_sent();
  expect_none_dropped();
}

TEST_F(ReverseCallsAlone, NobodyIsCalledBackOverAConnectionThatHasFailed) {
  options.backends[0].kind = BackendKind::kBuiltin;
  make();
  const rpcrdma::Call call = take_call(*connection, callback_call(7));
  reverse->look_at(*connection, lane(0), call);
  const rpcrdma::CallContext context = *call.context;
  connection->server->fail();
  reverse->call_back(now, *connection, lane(0), context, call.message);
  expect_nothing_sent();
  expect_none_dropped();
}

}  // namespace
}  // namespace cw::gateway
