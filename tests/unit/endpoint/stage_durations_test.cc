// Which stages of a call's life are timed, from when to when.
#include <gtest/gtest.h>

#include "tests/unit/endpoint/server_fixture.h"

namespace cw::rpcrdma {
namespace {

class Stages : public ServerFixture {
 protected:
  uint64_t count(Stage stage) { return shared->durations.stages[static_cast<size_t>(stage)].count(); }
  Duration sum(Stage stage) {
    return Duration::us(static_cast<int64_t>(shared->durations.stages[static_cast<size_t>(stage)].sum_seconds() * 1e6 + 0.5));
  }
  void pass(Duration time) { now = now + time; }
  // SOURCE with these chunk lists.
  CallId call(const Words& lists, uint32_t xid = kXid) {
    send(Words{xid, 1, 16, 0}.raw(lists.bytes()).raw(rpc_call(xid, 2).add({0, 0, 0}).bytes()));
    const std::optional<CallId> id = take();
    EXPECT_TRUE(id.has_value());
    held.clear();
    return id.value_or(CallId());
  }
  static Words source_reply(uint32_t bytes, uint32_t xid = kXid) { return rpc_reply(xid).add({0, 0, bytes}).zeros(bytes); }
  void all_acknowledged() {
    qp->finish_all_sends();
    server->on_completions(now);
  }
};

TEST_F(Stages, ACallThatComesWholeAndIsTakenUpAtOnceHasNoRx) {
  answer(call({0, 0, 0}), source_reply(4));
  EXPECT_EQ(count(Stage::kRx), 0u);
}

TEST_F(Stages, RxBeginsWithTheFirstPacketOfTheMessage) {
  const Instant begun = now;
  pass(Duration::us(30));
  ASSERT_TRUE(qp->deliver(chain_of(*pool, inline_call(kXid, rpc_call(kXid, 2).add({0, 0, 0})).bytes()), std::nullopt, begun));
  server->on_completions(now);
  Call call;
  ASSERT_TRUE(server->poll_call(now, call));
  EXPECT_EQ(call.received, begun);
  EXPECT_EQ(count(Stage::kRx), 1u);
  EXPECT_EQ(sum(Stage::kRx), Duration::us(30));
  call.message.clear();
}

TEST_F(Stages, ACallThatNobodyTakesUpIsNotWithTheBackend) {
  send(inline_call(kXid, rpc_call(kXid, 2).add({0, 0, 0})));
  pass(Duration::us(40));
  const std::optional<CallId> id = take();
  ASSERT_TRUE(id.has_value());
  pass(Duration::us(2));
  answer(*id, source_reply(0));
  EXPECT_EQ(sum(Stage::kRx), Duration::us(40));
  EXPECT_EQ(sum(Stage::kBackend), Duration::us(2));
}

// Each from its own arrival, however long the one before it waits.
TEST_F(Stages, WaitingForASlotIsRx) {
  make(128, 1);
  for (uint32_t i = 0; i < 3; ++i) {
    send(inline_call(kXid + i, rpc_call(kXid + i, 2).add({0, 0, 0})));
    pass(Duration::us(10));
  }
  Duration expected;
  for (uint32_t i = 0; i < 3; ++i) {
    server->on_deadline(now);
    const std::optional<CallId> id = take();
    ASSERT_TRUE(id.has_value());
    expected = expected + Duration::us(30);  // 30, 10 + 20, 20 + 10
    EXPECT_EQ(sum(Stage::kRx), expected) << i;
    answer(*id, source_reply(0, kXid + i));
    all_acknowledged();
    pass(Duration::us(10));
  }
  EXPECT_EQ(count(Stage::kRx), 3u);
}

// Two calls, buffers for the data of one: the second's turn to pull comes when the first is over.
TEST_F(Stages, WaitingForBuffersToPullIntoIsRxAndPullingIsNot) {
  const Words whole = rpc_call(kXid, 2).add({0, 0, 0});
  const Words second = rpc_call(kXid + 1, 2).add({0, 0, 0});
  const uint32_t bytes = static_cast<uint32_t>(whole.bytes().size());
  shared->pull_units_max = 2;
  for (uint32_t i = 0; i < 2; ++i) {
    send(Words{kXid + i, 1, 16, 1}.read(0, 0x99, bytes, 0).add({0, 0, 0}));
  }
  pass(Duration::us(5));
  finish_read(whole.bytes());
  const std::optional<CallId> first = take();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(count(Stage::kRx), 0u);
  pass(Duration::us(100));
  answer(*first, source_reply(0));
  pass(Duration::us(7));
  all_acknowledged();
  finish_read(second.bytes());
  pass(Duration::us(3));
  const std::optional<CallId> id = take();
  ASSERT_TRUE(id.has_value());
  EXPECT_EQ(sum(Stage::kRdmaRead), Duration::us(5 + 7));
  EXPECT_EQ(count(Stage::kRx), 1u);
  EXPECT_EQ(sum(Stage::kRx), Duration::us(105 + 3)) << "before its reads, and until it was taken up";
  answer(*id, source_reply(0, kXid + 1));
  all_acknowledged();
}

TEST_F(Stages, TheBackendHasACallUntilItsReply) {
  const CallId id = call({0, 0, 0});
  pass(Duration::us(300));
  answer(id, source_reply(4));
  EXPECT_EQ(count(Stage::kBackend), 1u);
  EXPECT_EQ(sum(Stage::kBackend), Duration::us(300));
  EXPECT_EQ(count(Stage::kRdmaRead), 0u);
}

TEST_F(Stages, PullingDataEndsWhenTheyAreInPlace) {
  const Words whole = rpc_call(kXid, 2).add({0, 0, 0});
  send(Words{kXid, 1, 16, 1}.read(0, 0x99, static_cast<uint32_t>(whole.bytes().size()), 0).add({0, 0, 0}));
  pass(Duration::us(70));
  finish_read(whole.bytes());
  EXPECT_EQ(count(Stage::kRdmaRead), 1u);
  EXPECT_EQ(sum(Stage::kRdmaRead), Duration::us(70));
  const std::optional<CallId> id = take();
  ASSERT_TRUE(id.has_value());
  pass(Duration::us(5));
  answer(*id, source_reply(0));
  EXPECT_EQ(sum(Stage::kBackend), Duration::us(5));
}

TEST_F(Stages, PushingDataEndsWithTheClientsAcknowledgement) {
  const CallId id = call(Words{0, 1, 1}.segment(0x11, 100, 0x1000).add({0, 0}));
  answer(id, source_reply(100));
  pass(Duration::us(200));
  EXPECT_EQ(count(Stage::kRdmaWrite), 0u);
  all_acknowledged();
  EXPECT_EQ(count(Stage::kRdmaWrite), 1u);
  EXPECT_EQ(sum(Stage::kRdmaWrite), Duration::us(200));
  EXPECT_EQ(count(Stage::kReplyAck), 0u);
}

TEST_F(Stages, ALongReplyIsPushedDataToo) {
  const CallId id = call(Words{0, 0, 1, 1}.segment(0x11, 4000, 0x1000));
  answer(id, source_reply(2000));
  pass(Duration::us(9));
  all_acknowledged();
  EXPECT_EQ(sum(Stage::kRdmaWrite), Duration::us(9));
}

TEST_F(Stages, OfSmallRepliesEverySixteenthIsTimed) {
  for (uint32_t i = 0; i < 64; ++i) {
    const CallId id = call({0, 0, 0}, kXid + i);
    answer(id, source_reply(4, kXid + i));
    EXPECT_EQ(qp->posted().front().signaled, i % 16 == 15);
    pass(Duration::us(50));
    all_acknowledged();
  }
  EXPECT_EQ(count(Stage::kBackend), 64u);
  EXPECT_EQ(count(Stage::kReplyAck), 4u);
  EXPECT_EQ(sum(Stage::kReplyAck), Duration::us(200));
  EXPECT_EQ(count(Stage::kRdmaWrite), 0u);
}

TEST_F(Stages, WhatIsSignaledToLearnOfRoomIsNotTimed) {
  make(2);
  for (uint32_t i = 0; i < 8; ++i) {
    answer(call({0, 0, 0}, kXid + i), source_reply(4, kXid + i));
    all_acknowledged();
  }
  EXPECT_EQ(count(Stage::kReplyAck), 0u);
}

TEST_F(Stages, RefusedCallsHaveNoStages) {
  for (uint32_t i = 0; i < 32; ++i) {
    send(Words{kXid + i, 1, 16, 77});
    all_acknowledged();
  }
  for (uint32_t stage = 0; stage < kStageCount; ++stage) {
    EXPECT_EQ(count(static_cast<Stage>(stage)), 0u) << to_string(static_cast<Stage>(stage));
  }
}

TEST(AcknowledgedWorkId, ComesBackAsItWentIn) {
  EXPECT_FALSE(acknowledged_by(verbs::WorkId()).has_value());
  for (const int64_t ns : {int64_t{0}, int64_t{1}, int64_t{1} << 61}) {
    for (const Stage stage : {Stage::kRdmaWrite, Stage::kReplyAck}) {
      const auto back = acknowledged_by(to_work_id({stage, Instant::from_ns(ns)}));
      ASSERT_TRUE(back.has_value());
      EXPECT_EQ(back->stage, stage);
      EXPECT_EQ(back->answered, Instant::from_ns(ns));
    }
  }
}

}  // namespace
}  // namespace cw::rpcrdma
