// Who may have a slot of the table of calls, and in which order: what one client holds leaves slots to the others.
#include <deque>

#include "tests/unit/endpoint/server_fixture.h"

namespace cw::rpcrdma {
namespace {

class ServerSlots : public ServerFixture {
 protected:
  struct Peer {
    test::FakeQueuePair qp;
    std::optional<ServerEndpoint> server;
  };
  void make_slots(uint32_t slots, uint32_t clients) {
    options.credits = 32;
    make(128, slots);
    shared->clients = clients;
  }
  Peer& connect(ClientShare& client) {
    Peer& peer = peers.emplace_back();
    options.share = &client;
    peer.server.emplace(*shared, peer.qp, options, thresholds);
    peer.server->start();
    return peer;
  }
  // Calls whose RDMA Reads nobody answers.
  void write(Peer& peer, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t xid = next_xid++;
      const Words lists = Words{}.read(44, 0x11, 64, 0x1000).add({0, 0, 0});
      const Words message = Words{xid, 1, 16, 0}.raw(lists.bytes()).raw(rpc_call(xid, 1).add({64}).bytes());
      ASSERT_TRUE(peer.qp.deliver(chain_of(*pool, message.bytes())));
      peer.server->on_completions(now);
    }
  }
  void answer_read(Peer& peer) {
    peer.qp.finish(chain_of(*pool, std::vector<uint8_t>(64)));
    peer.server->on_completions(now);
  }
  // The oldest call that is there is over: a slot is free.
  void serve(Peer& peer) {
    Call call;
    ASSERT_TRUE(peer.server->poll_call(now, call));
    const uint32_t xid = call.context->header.xid;
    call.message.clear();
    peer.server->reply(now, call.id, chain_of(*pool, rpc_reply(xid).bytes()));
  }
  void ask(Peer& peer) { peer.server->on_deadline(now + ServerEndpoint::kRetryInterval); }
  void TearDown() override {
    peers.clear();
    EXPECT_EQ(greedy.slots + honest.slots + third.slots, 0u);
    EXPECT_EQ(shared->slot_waiters, 0u);
    ServerFixture::TearDown();
  }

  ClientShare greedy;
  ClientShare honest;
  ClientShare third;
  std::deque<Peer> peers;
  uint32_t next_xid = 1;
};

TEST_F(ServerSlots, AClientThatAnswersNoReadLeavesSlotsToTheOthers) {
  make_slots(12, 2);
  Peer& first = connect(greedy);
  Peer& second = connect(greedy);
  write(first, 10);
  write(second, 10);
  EXPECT_EQ(greedy.slots, 6u) << "as many as it leaves";
  Peer& other = connect(honest);
  write(other, 4);
  EXPECT_EQ(honest.slots, 3u) << "nobody waits behind the greedy one";
  Peer& last = connect(third);
  write(last, 1);
  EXPECT_EQ(third.slots, 1u);
  EXPECT_EQ(first.server->calls_in_flight() + second.server->calls_in_flight(), 20u) << "the others wait";
}

TEST_F(ServerSlots, AClientAloneLeavesASixteenthToTheNext) {
  make_slots(32, 1);
  Peer& first = connect(greedy);
  Peer& second = connect(greedy);
  write(first, 20);
  write(second, 20);
  EXPECT_EQ(greedy.slots, 30u);
  shared->clients = 2;
  Peer& other = connect(honest);
  write(other, 1);
  EXPECT_EQ(honest.slots, 1u);
}

TEST_F(ServerSlots, TheConnectionsOfOneClientTakeTurns) {
  make_slots(4, 2);
  Peer& first = connect(greedy);
  Peer& second = connect(greedy);
  Peer& late = connect(greedy);
  write(first, 4);
  write(second, 2);
  write(late, 2);
  EXPECT_EQ(greedy.slots, 2u);
  EXPECT_EQ(second.qp.posted().size() + late.qp.posted().size(), 0u);
  answer_read(first);
  serve(first);  // its next call takes the slot, since it is the first in line, and then it is the second's turn
  EXPECT_EQ(first.qp.posted().size(), 3u);
  answer_read(first);
  serve(first);
  ask(late);
  ask(first);
  EXPECT_EQ(late.qp.posted().size(), 0u);
  ask(second);
  EXPECT_EQ(second.qp.posted().size(), 1u);
  EXPECT_EQ(greedy.slots, 2u);
}

// Two connections of a client without slots get into the line of all. The first gets what comes free, and with that the client
// has its part. The second had its turn among its client's: it goes before a third that has not.
TEST_F(ServerSlots, WhoIsSentBackFromTheLineOfAllIsTheFirstOfItsClient) {
  make_slots(2, 3);
  Peer& one = connect(honest);
  Peer& two = connect(third);
  write(one, 1);
  write(two, 1);
  Peer& first = connect(greedy);
  Peer& second = connect(greedy);
  Peer& late = connect(greedy);
  write(first, 1);
  write(second, 1);
  answer_read(one);
  serve(one);
  ask(first);
  ASSERT_EQ(greedy.slots, 1u);
  write(late, 1);
  ask(second);
  answer_read(two);
  serve(two);
  answer_read(first);
  serve(first);
  ask(late);
  EXPECT_EQ(greedy.slots, 0u) << "the second is first";
  ask(second);
  EXPECT_EQ(second.qp.posted().size(), 1u);
  ask(late);
  EXPECT_EQ(late.qp.posted().size(), 0u) << "half of the slots are for others";
  answer_read(second);
  serve(second);
  ask(late);
  EXPECT_EQ(late.qp.posted().size(), 1u);
}

// Whether a slot comes free with the message or before it: calls are polled in the order of their messages.
TEST_F(ServerSlots, AMessageThatJustComesDoesNotPassThoseOfItsConnectionThatWait) {
  make_slots(1, 2);
  Peer& holder = connect(honest);
  Peer& waits = connect(greedy);
  write(holder, 1);
  const auto call = [&](uint32_t xid) {
    ASSERT_TRUE(waits.qp.deliver(chain_of(*pool, inline_call(xid, rpc_call(xid)).bytes())));
  };
  call(101);
  waits.server->on_completions(now);
  call(102);
  answer_read(holder);
  serve(holder);
  call(103);
  waits.server->on_completions(now);
  std::vector<uint32_t> polled;
  for (uint32_t i = 0; i < 3; ++i) {
    Call next;
    ASSERT_TRUE(waits.server->poll_call(now, next));
    polled.push_back(next.context->header.xid);
    next.message.clear();
    waits.server->reply(now, next.id, chain_of(*pool, rpc_reply(polled.back()).bytes()));
    ask(waits);
  }
  EXPECT_EQ(polled, (std::vector<uint32_t>{101, 102, 103}));
}

// The table is full of calls of many clients: who waits for whatever comes free does so in order.
TEST_F(ServerSlots, AMessageThatJustComesDoesNotPassThoseThatWait) {
  make_slots(2, 3);
  Peer& first = connect(greedy);
  Peer& second = connect(honest);
  write(first, 1);
  write(second, 1);
  Peer& waits = connect(third);
  write(waits, 1);
  EXPECT_EQ(third.slots, 0u);
  answer_read(first);
  serve(first);
  write(first, 1);
  EXPECT_EQ(greedy.slots, 0u) << "the free slot is another's";
  ask(waits);
  EXPECT_EQ(third.slots, 1u);
  answer_read(second);
  serve(second);
  ask(first);
  EXPECT_EQ(greedy.slots, 1u);
}

}  // namespace
}  // namespace cw::rpcrdma
