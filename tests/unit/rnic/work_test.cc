// Work on a queue pair of an RNIC: chains, signals, pieces, buffers, and how it fails.
#include "tests/unit/rnic/fake_rdma_core.h"

namespace cw::rnic::test {
namespace {

using verbs::WcOpcode;

TEST(RnicWork, IsDoneAsPosted) {
  OneEnd end;
  const RnicId id = end.connect();
  end.source = pattern(9000, 3);
  end.deliver(id, pattern(3000, 5), verbs::Rkey(77));
  ASSERT_TRUE(end.qp->post_read({.id = verbs::WorkId(1), .rkey = verbs::Rkey(5), .remote_address = 1000, .length = 8000}).ok());
  const std::vector<uint8_t> written = pattern(10'000, 7);
  ASSERT_TRUE(end.qp->post_write({.id = verbs::WorkId(2), .payload = end.chain(written), .rkey = verbs::Rkey(6)}).ok());
  ASSERT_TRUE(end.qp->post_send({.id = verbs::WorkId(3), .payload = end.chain(pattern(90)), .invalidate = verbs::Rkey(8)}).ok());
  EXPECT_EQ(end.qp->works_pending(), 3u);
  end.turn();
  ASSERT_EQ(end.completions.size(), 1u);
  EXPECT_EQ(end.completions[0].opcode, WcOpcode::kReceive);
  EXPECT_EQ(end.completions[0].invalidated, verbs::Rkey(77));
  EXPECT_EQ(bytes_of(end.completions[0].payload), pattern(3000, 5));
  EXPECT_EQ(end.completions[0].payload.buffer_count(), 2u);
  EXPECT_EQ(end.host.at(id).chains, std::vector<size_t>{5}) << "READ in two parts, WRITE in two, SEND: one call";
  EXPECT_EQ(end.host.at(id).sends.back().work.verb, WorkVerb::kSendWithInvalidate);
  EXPECT_EQ(end.host.at(id).sends.back().work.rkey, verbs::Rkey(8));
  end.do_all(id);
  ASSERT_EQ(end.completions.size(), 4u);
  EXPECT_EQ(end.completions[1].id, verbs::WorkId(1));
  EXPECT_EQ(end.completions[1].opcode, WcOpcode::kRdmaRead);
  EXPECT_EQ(bytes_of(end.completions[1].payload), std::vector<uint8_t>(end.source.begin() + 1000, end.source.end()));
  EXPECT_EQ(end.completions[2].id, verbs::WorkId(2));
  EXPECT_EQ(end.sink, written);
  EXPECT_EQ(end.completions[3].id, verbs::WorkId(3));
  EXPECT_EQ(end.sent, pattern(90));
  EXPECT_EQ(end.qp->works_pending(), 0u);
  end.expect_nothing_left();
}

// One completion for a chain; who did not ask hears nothing of what went well.
TEST(RnicWork, TheLastOfAChainIsSignaled) {
  OneEnd end;
  const RnicId id = end.connect();
  for (uint32_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(end.qp->post_send({.id = verbs::WorkId(i), .payload = end.chain(pattern(200)), .signaled = i == 3}).ok());
  }
  end.turn();
  const auto& sends = end.host.at(id).sends;
  ASSERT_EQ(sends.size(), 10u);
  EXPECT_EQ(std::ranges::count_if(sends, [](const auto& each) { return each.work.signaled; }), 1);
  end.do_all(id);
  EXPECT_EQ(end.qp->works_pending(), 0u);
  ASSERT_EQ(end.completions.size(), 1u);
  EXPECT_EQ(end.completions[0].id, verbs::WorkId(3));
  EXPECT_EQ(end.qp->send_queue_room(), RnicOptions().send_queue_depth);
  end.expect_nothing_left();
}

// What is not signaled, siw leaves to TCP by reference, and whatever is completed later says nothing of it.
TEST(RnicWork, WhereTcpCarriesThemEachIsSignaled) {
  OneEnd end;
  end.host.made.acknowledges_writes = false;
  const RnicId id = end.connect();
  for (uint32_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(end.qp->post_send({.id = verbs::WorkId(i), .payload = end.chain(pattern(200)), .signaled = i == 3}).ok());
  }
  end.turn();
  const auto& sends = end.host.at(id).sends;
  EXPECT_EQ(std::ranges::count_if(sends, [](const auto& each) { return each.work.signaled; }), 10);
  end.do_all(id);
  EXPECT_EQ(end.qp->works_pending(), 0u);
  ASSERT_EQ(end.completions.size(), 1u) << "its owner asked for one";
  end.expect_nothing_left();
}

// siw says that a SEND is done as soon as TCP has it. A READ before it may have half of its bytes then: one that was taken for
// done gave the backend what had been in its buffers before.
TEST(RnicWork, AReadIsDoneWhenItsOwnCompletionSaysSo) {
  OneEnd end({}, 512, 2048);
  end.host.made.acknowledges_writes = false;
  const RnicId id = end.connect();
  end.source = pattern(20'000, 3);
  ASSERT_TRUE(end.qp->post_send({.id = verbs::WorkId(1), .payload = end.chain(pattern(100))}).ok());
  ASSERT_TRUE(end.qp->post_read({.id = verbs::WorkId(2), .length = 20'000}).ok());
  ASSERT_TRUE(end.qp->post_send({.id = verbs::WorkId(3), .payload = end.chain(pattern(200))}).ok());
  ASSERT_TRUE(end.qp->post_write({.id = verbs::WorkId(4), .payload = end.chain(pattern(300))}).ok());
  ASSERT_TRUE(end.qp->post_read({.id = verbs::WorkId(5), .length = 10}).ok());
  end.turn();
  auto& sends = end.host.at(id).sends;
  std::deque<FakeRdmaCore::Posted> reads;
  std::deque<FakeRdmaCore::Posted> others;
  for (FakeRdmaCore::Posted& each : sends) {
    (each.work.verb == WorkVerb::kRead ? reads : others).push_back(std::move(each));
  }
  ASSERT_GT(reads.size(), 2u);
  sends = std::move(others);
  end.do_all(id);
  ASSERT_EQ(end.completions.size(), 1u);
  EXPECT_EQ(end.completions[0].id, verbs::WorkId(1));
  EXPECT_EQ(end.qp->works_pending(), 4u);
  const size_t requests = reads.size();
  for (size_t i = 0; i < requests; ++i) {
    EXPECT_EQ(end.completions.size(), i + 1 < requests ? 1u : 4u) << "after " << i << " of " << requests;
    end.host.at(id).sends.push_back(std::move(reads.front()));
    reads.pop_front();
    end.do_all(id);
  }
  ASSERT_EQ(end.completions.size(), 5u);
  for (uint32_t i = 0; i < 5; ++i) {
    EXPECT_EQ(end.completions[i].id, verbs::WorkId(i + 1));
    EXPECT_EQ(end.completions[i].status, WcStatus::kSuccess);
  }
  EXPECT_EQ(bytes_of(end.completions[1].payload), end.source);
  EXPECT_EQ(end.qp->works_pending(), 0u);
  end.expect_nothing_left();
}

// Nor does a SEND that fails say that a READ before it has gone well.
TEST(RnicWork, AReadBeforeASendThatFailsIsFlushed) {
  OneEnd end;
  const RnicId id = end.connect();
  end.source = pattern(100);
  ASSERT_TRUE(end.qp->post_read({.id = verbs::WorkId(1), .length = 100}).ok());
  ASSERT_TRUE(end.qp->post_send({.id = verbs::WorkId(2), .payload = end.chain(pattern(200))}).ok());
  end.turn();
  auto& sends = end.host.at(id).sends;
  ASSERT_EQ(sends.size(), 2u);
  const uint64_t send = sends.back().work.id;
  sends.pop_back();
  end.transport.on_completion(end.now, {.id = send, .status = WcStatus::kRetryExceeded});
  end.take();
  EXPECT_TRUE(end.completions.empty()) << "the device may write to the READ's buffers";
  end.flush_all(id);
  ASSERT_EQ(end.completions.size(), 2u);
  EXPECT_EQ(end.completions[0].status, WcStatus::kWorkRequestFlushed);
  EXPECT_TRUE(end.completions[0].payload.empty());
  EXPECT_EQ(end.completions[1].status, WcStatus::kRetryExceeded);
  EXPECT_EQ(end.pool.in_use(), 0u);
  end.expect_nothing_left();
}

TEST(RnicWork, SmallOnesTravelInside) {
  OneEnd end;
  const RnicId id = end.connect();
  ASSERT_TRUE(end.qp->post_send({.payload = end.chain(pattern(64))}).ok());
  ASSERT_TRUE(end.qp->post_send({.payload = end.chain(pattern(65)), .solicited = true, .fence = true}).ok());
  end.turn();
  const auto& sends = end.host.at(id).sends;
  ASSERT_EQ(sends.size(), 2u);
  EXPECT_TRUE(sends[0].work.is_inline);
  EXPECT_FALSE(sends[0].work.fence);
  EXPECT_FALSE(sends[1].work.is_inline);
  EXPECT_TRUE(sends[1].work.fence);
  EXPECT_TRUE(sends[1].work.solicited);
  end.expect_nothing_left();
}

TEST(RnicWork, WithoutInvalidationASendIsPlain) {
  OneEnd end;
  end.host.made.can_invalidate = false;
  const RnicId id = end.connect();
  ASSERT_TRUE(end.qp->post_send({.payload = end.chain(pattern(10)), .invalidate = verbs::Rkey(3)}).ok());
  end.turn();
  EXPECT_EQ(end.host.at(id).sends[0].work.verb, WorkVerb::kSend);
  end.expect_nothing_left();
}

// 2 MiB in requests of two buffers each, through a queue of 16 requests.
TEST(RnicWork, LongOnesTakeManyRequests) {
  OneEnd end({.send_queue_depth = 8}, 2048, 2048);
  end.host.made.send_requests = 16;
  const RnicId id = end.connect();
  end.source = pattern(2u << 20, 11);
  ASSERT_TRUE(end.qp->post_read({.id = verbs::WorkId(1), .length = 2u << 20}).ok());
  const std::vector<uint8_t> written = pattern(1u << 20, 4);
  ASSERT_TRUE(end.qp->post_write({.id = verbs::WorkId(2), .payload = end.chain(written)}).ok());
  end.turn();
  EXPECT_EQ(end.host.at(id).sends.size(), 16u);
  end.do_all(id);
  ASSERT_EQ(end.completions.size(), 2u);
  EXPECT_EQ(bytes_of(end.completions[0].payload), end.source);
  EXPECT_EQ(end.sink, written);
  end.expect_nothing_left();
}

TEST(RnicWork, ASendOfTooManyPiecesIsCopiedTogether) {
  OneEnd end;
  const RnicId id = end.connect();
  const std::vector<uint8_t> message = pattern(4000, 2);
  ASSERT_TRUE(end.qp->post_send({.payload = end.chain_of(message, 9)}).ok());
  end.turn();
  EXPECT_EQ(end.transport.work_stats().pullups, 1u);
  ASSERT_EQ(end.host.at(id).sends.size(), 1u);
  EXPECT_EQ(end.host.at(id).sends[0].pieces.size(), 2u);
  end.do_all(id);
  EXPECT_EQ(end.sent, message);
  const Status too_long = end.qp->post_send({.payload = end.chain_of(pattern(10'000), 9)});
  ASSERT_FALSE(too_long.ok());
  EXPECT_EQ(too_long.error(), Error::kLimit);
  end.expect_nothing_left();
}

// Whoever posts a reply takes a refusal for the end of the connection.
TEST(RnicWork, ASendThatIsToBeCopiedWaitsForBuffers) {
  OneEnd end({}, 64, 2048);
  end.receives = 4;
  const RnicId id = end.connect();
  const std::vector<uint8_t> message = pattern(4000, 2);
  Chain pieces = end.chain_of(message, 9);
  std::vector<Chain> others;
  while (Buffer* one = end.pool.allocate_one()) {
    others.emplace_back(one);
  }
  ASSERT_TRUE(end.qp->post_send({.id = verbs::WorkId(1), .payload = std::move(pieces)}).ok());
  end.turn();
  EXPECT_TRUE(end.host.at(id).sends.empty());
  EXPECT_FALSE(end.qp->in_error());
  EXPECT_GT(end.transport.work_stats().out_of_buffers, 0u);
  others.resize(others.size() - 1);  // not enough yet
  end.advance(Duration::ms(2));
  EXPECT_TRUE(end.host.at(id).sends.empty());
  others.clear();
  ASSERT_TRUE(end.qp->post_send({.id = verbs::WorkId(2), .payload = end.chain(pattern(5))}).ok());
  end.advance(Duration::ms(2));
  ASSERT_EQ(end.host.at(id).sends.size(), 2u) << "in the order posted";
  EXPECT_EQ(end.host.at(id).sends[0].bytes(), message.size());
  end.do_all(id);
  ASSERT_EQ(end.completions.size(), 2u);
  EXPECT_EQ(end.completions[0].id, verbs::WorkId(1));
  EXPECT_TRUE(std::equal(message.begin(), message.end(), end.sent.begin()));
  EXPECT_EQ(end.transport.work_stats().pullups, 1u);
  end.expect_nothing_left();
}

TEST(RnicWork, WaitsForBuffers) {
  OneEnd end({}, 32, 2048);
  end.receives = 4;
  const RnicId id = end.connect();
  end.source = pattern(40'000, 6);
  std::vector<Chain> others;
  while (Buffer* one = end.pool.allocate_one()) {
    others.emplace_back(one);
  }
  ASSERT_TRUE(end.qp->post_read({.id = verbs::WorkId(1), .length = 40'000}).ok());
  end.qp->post_receives(1);
  end.turn();
  EXPECT_TRUE(end.host.at(id).sends.empty());
  EXPECT_EQ(end.host.at(id).receives.size(), 4u);
  EXPECT_GT(end.transport.work_stats().out_of_buffers, 0u);
  others.clear();
  end.advance(Duration::ms(2));
  EXPECT_EQ(end.host.at(id).receives.size(), 5u);
  end.do_all(id);
  ASSERT_EQ(end.completions.size(), 1u);
  EXPECT_EQ(bytes_of(end.completions[0].payload), end.source);
  end.expect_nothing_left();
}

// A grant is never lost: what the device has no room for waits.
TEST(RnicWork, ReceivesBeyondTheDevicesQueueWait) {
  OneEnd end({.receive_queue_depth = 4});
  end.receives = 6;
  const RnicId id = end.connect();
  EXPECT_EQ(end.host.at(id).receives.size(), 4u);
  for (uint32_t i = 0; i < 6; ++i) {
    end.deliver(id, pattern(10 + i));
    end.turn();
    end.turn();
  }
  EXPECT_EQ(end.completions.size(), 6u);
  EXPECT_TRUE(end.host.at(id).receives.empty());
  EXPECT_EQ(bytes_of(end.completions[5].payload), pattern(15));
  end.expect_nothing_left();
}

// The device would say so for a message that is longer: exactly as much is offered.
TEST(RnicWork, AReceiveTakesWhatWasAgreed) {
  OneEnd end;
  end.accept_options.receive_bytes_max = 5000;
  const RnicId id = end.connect();
  EXPECT_EQ(end.host.at(id).receives[0].bytes(), 5000u);
  EXPECT_EQ(end.host.at(id).receives[0].pieces.size(), 3u);
  end.deliver(id, pattern(5000));
  end.turn();
  EXPECT_EQ(bytes_of(end.completions[0].payload), pattern(5000));
  end.deliver(id, {});
  end.turn();
  EXPECT_EQ(end.completions[1].bytes, 0u);
  end.expect_nothing_left();
}

TEST(RnicWork, OneThatFailsEndsTheRest) {
  for (const auto& [status, origin] : {std::pair(WcStatus::kRemoteAccessError, "peer"),
                                       {WcStatus::kRetryExceeded, "peer"},
                                       {WcStatus::kLocalProtectionError, "device"}}) {
    OneEnd end;
    const RnicId id = end.connect();
    for (uint32_t i = 1; i <= 4; ++i) {
      ASSERT_TRUE(end.qp->post_send({.id = verbs::WorkId(i), .payload = end.chain(pattern(500)), .signaled = false}).ok());
    }
    end.turn();
    end.do_one(id);
    ASSERT_TRUE(end.qp->post_send({.id = verbs::WorkId(5), .payload = end.chain(pattern(500))}).ok());
    end.flush_all(id, status);
    EXPECT_TRUE(end.qp->in_error());
    EXPECT_EQ(end.qp->works_pending(), 0u);
    ASSERT_EQ(end.completions.size(), 4u) << "the first had gone well";
    EXPECT_EQ(end.completions[0].id, verbs::WorkId(2));
    EXPECT_EQ(end.completions[0].status, status);
    for (uint32_t i = 1; i < 4; ++i) {
      EXPECT_EQ(end.completions[i].id, verbs::WorkId(i + 2));
      EXPECT_EQ(end.completions[i].status, WcStatus::kWorkRequestFlushed);
    }
    EXPECT_EQ(end.cause(), "completion");
    EXPECT_EQ(end.transport.describe(end.connection).error.detail, to_string(status));
    EXPECT_EQ(end.transport.describe(end.connection).error.origin, origin);
    EXPECT_EQ(end.transport.work_stats().completions[static_cast<size_t>(status)], 1u);
    EXPECT_EQ(end.pool.in_use(), 0u);
    end.expect_nothing_left();
  }
}

TEST(RnicWork, ALongReadThatFailsGivesItsBuffersBackAtItsEnd) {
  OneEnd end;
  const RnicId id = end.connect();
  end.source = pattern(20'000);
  ASSERT_TRUE(end.qp->post_read({.id = verbs::WorkId(1), .length = 20'000}).ok());
  end.turn();
  end.do_one(id);
  ASSERT_EQ(end.host.at(id).sends.size(), 4u);
  const uint64_t part = end.host.at(id).sends.front().work.id;
  end.host.at(id).sends.pop_front();
  end.transport.on_completion(end.now, {.id = part, .status = WcStatus::kRemoteAccessError});
  end.take();
  EXPECT_TRUE(end.completions.empty()) << "the device still has a part of it";
  end.flush_all(id);
  ASSERT_EQ(end.completions.size(), 1u);
  EXPECT_EQ(end.completions[0].status, WcStatus::kRemoteAccessError);
  EXPECT_TRUE(end.completions[0].payload.empty());
  EXPECT_EQ(end.pool.in_use(), 0u);
  end.expect_nothing_left();
}

// Answers may still come into the buffers of the part that the device has.
TEST(RnicWork, OneThatWasHalfPostedKeepsItsBuffersUntilTheQueuePairGoes) {
  OneEnd end({}, 32, 2048);
  end.receives = 4;
  const RnicId id = end.connect();
  std::vector<Chain> others;
  while (Buffer* one = end.pool.allocate_one()) {
    others.emplace_back(one);
  }
  others.resize(others.size() - 6);
  ASSERT_TRUE(end.qp->post_read({.id = verbs::WorkId(1), .length = 40'000}).ok());
  end.turn();
  ASSERT_FALSE(end.host.at(id).sends.empty());
  const uint32_t held = end.pool.in_use();
  end.qp->close();
  end.take();
  EXPECT_TRUE(end.completions.empty());
  EXPECT_EQ(end.pool.in_use(), held);
  others.clear();
  end.expect_nothing_left();
}

TEST(RnicWork, ADeviceMayRefuseIt) {
  for (const uint32_t taken : {0u, 1u, 2u}) {
    OneEnd end;
    const RnicId id = end.connect();
    end.host.sends_taken = taken;
    ASSERT_TRUE(end.qp->post_write({.id = verbs::WorkId(1), .payload = end.chain(pattern(12'000))}).ok());
    ASSERT_TRUE(end.qp->post_send({.id = verbs::WorkId(2), .payload = end.chain(pattern(100))}).ok());
    end.turn();
    EXPECT_EQ(end.cause(), "post_refused");
    EXPECT_TRUE(end.host.at(id).failed);
    end.flush_all(id);
    end.expect_nothing_left();
  }
  OneEnd end;
  end.host.receives_taken = 3;
  const auto id = end.request();
  end.turn();
  EXPECT_TRUE(end.host.at(*id).failed);
  EXPECT_FALSE(end.host.at(*id).answered);
  EXPECT_EQ(end.cause(), "post_refused");
  end.expect_nothing_left();
}

TEST(RnicWork, ItsOwnerMayCloseIt) {
  OneEnd end;
  const RnicId id = end.connect();
  ASSERT_TRUE(end.qp->post_send({.id = verbs::WorkId(1), .payload = end.chain(pattern(500)), .signaled = false}).ok());
  end.turn();
  ASSERT_TRUE(end.qp->post_send({.id = verbs::WorkId(2), .payload = end.chain(pattern(500)), .signaled = false}).ok());
  end.qp->close();
  EXPECT_TRUE(end.qp->in_error());
  EXPECT_TRUE(end.host.at(id).failed);
  end.take();
  EXPECT_TRUE(end.completions.empty()) << "the device has it still";
  end.flush_all(id);
  ASSERT_EQ(end.completions.size(), 2u);
  EXPECT_EQ(end.cause(), "closed");
  end.expect_nothing_left();
}

// Its completion was on its way when the queue pair was closed: no flush follows that would end what the device never had.
TEST(RnicWork, WhatWaitedIsFlushedBehindTheLastThatWentWell) {
  OneEnd end;
  end.receives = 0;
  const RnicId id = end.connect();
  ASSERT_TRUE(end.qp->post_send({.id = verbs::WorkId(1), .payload = end.chain(pattern(500))}).ok());
  end.turn();
  ASSERT_TRUE(end.qp->post_send({.id = verbs::WorkId(2), .payload = end.chain(pattern(500))}).ok());
  end.qp->close();
  end.do_all(id);
  ASSERT_EQ(end.completions.size(), 2u);
  EXPECT_EQ(end.completions[0].status, WcStatus::kSuccess);
  EXPECT_EQ(end.completions[1].status, WcStatus::kWorkRequestFlushed);
  EXPECT_EQ(end.qp->works_pending(), 0u);
  end.expect_nothing_left();
}

TEST(RnicWork, ItsOwnerHearsOfWhatComesBackWithTheDevice) {
  OneEnd end;
  const RnicId id = end.connect();
  ASSERT_TRUE(end.qp->post_send({.id = verbs::WorkId(1), .payload = end.chain(pattern(500)), .signaled = false}).ok());
  end.turn();
  end.qp->close();
  end.take();
  EXPECT_TRUE(end.completions.empty()) << "the device has it still";
  end.transport.on_device_removed(end.now, id);
  end.take();
  ASSERT_EQ(end.completions.size(), 1u);
  EXPECT_EQ(end.completions[0].status, WcStatus::kWorkRequestFlushed);
  end.expect_nothing_left();
}

// A queue pair in Error is given nothing.
TEST(RnicWork, NothingFollowsAReceiveThatIsRefused) {
  OneEnd end;
  const RnicId id = end.connect();
  ASSERT_TRUE(end.qp->post_send({.id = verbs::WorkId(1), .payload = end.chain(pattern(500))}).ok());
  end.turn();
  ASSERT_TRUE(end.qp->post_send({.id = verbs::WorkId(2), .payload = end.chain(pattern(500))}).ok());
  end.qp->post_receives(1);
  end.host.receives_taken = 0;
  end.turn();
  EXPECT_EQ(end.cause(), "post_refused");
  EXPECT_EQ(end.host.at(id).sends.size(), 1u);
  end.flush_all(id);
  EXPECT_EQ(end.completions.size(), 2u);
  end.expect_nothing_left();
}

// The device may have completions of a queue pair that goes. The connection in its place must not take them for its own.
TEST(RnicWork, CompletionsOfOneThatIsGoneMeanNothing) {
  OneEnd end({.connections_max = 1, .half_open_max = 1, .parting_max = 1});
  const RnicId first = end.connect();
  ASSERT_TRUE(end.qp->post_send({.payload = end.chain(pattern(500))}).ok());
  end.turn();
  const uint64_t send = end.host.at(first).sends.front().work.id;
  const uint64_t receive = end.host.at(first).receives.front().work.id;
  end.transport.on_disconnected(end.now, first);
  end.turn();
  end.transport.destroy(end.connection);
  const RnicId second = end.connect();
  ASSERT_EQ(static_cast<uint32_t>(first.value()), static_cast<uint32_t>(second.value())) << "the same place";
  const uint64_t before = end.transport.work_stats().stale_completions;
  end.completions.clear();
  end.transport.on_completion(end.now, {.id = send});
  end.transport.on_completion(end.now, {.id = receive, .bytes = 100});
  end.transport.on_completion(end.now, {.id = UINT64_MAX, .status = WcStatus::kGeneralError});
  end.transport.on_completion(end.now, {.id = send, .status = WcStatus::kRetryExceeded});
  end.turn();
  EXPECT_TRUE(end.completions.empty());
  EXPECT_FALSE(end.qp->in_error());
  EXPECT_EQ(end.transport.work_stats().stale_completions, before + 4);
  end.expect_nothing_left();
}

// Statuses beyond what is known are counted, and index no table.
TEST(RnicWork, UnknownStatusesAreCounted) {
  OneEnd end;
  const RnicId id = end.connect();
  end.flush_all(id, static_cast<WcStatus>(200));
  EXPECT_TRUE(end.qp->in_error());
  EXPECT_STREQ(std::string(end.transport.describe(end.connection).error.detail).c_str(), "unknown status");
  end.expect_nothing_left();
}

TEST(RnicWork, IsRefusedWhenThereIsNoRoomOrNoWay) {
  OneEnd end({.send_queue_depth = 2});
  (void)end.connect();
  ASSERT_TRUE(end.qp->post_send({.payload = end.chain(pattern(5))}).ok());
  ASSERT_TRUE(end.qp->post_send({.payload = end.chain(pattern(5))}).ok());
  EXPECT_EQ(end.qp->send_queue_room(), 0u);
  const Status full = end.qp->post_send({.payload = end.chain(pattern(5))});
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error(), Error::kNoResources);
  EXPECT_EQ(end.qp->post_atomic({}).error(), Error::kUnsupported);
  EXPECT_EQ(end.qp->post_send({.payload = end.chain(pattern(5)), .immediate = 1}).error(), Error::kUnsupported);
  EXPECT_EQ(end.qp->post_write({.payload = end.chain(pattern(5)), .immediate = 1}).error(), Error::kUnsupported);
  end.expect_nothing_left();
}

TEST(RnicWork, TagsKeepWhatTheySay) {
  for (const WorkTag tag : {WorkTag{.slot = (1u << WorkTag::kSlotBits) - 1, .generation = 1, .index = 0},
                            WorkTag{.slot = 0, .generation = (1u << WorkTag::kGenerationBits) - 1, .is_receive = true},
                            WorkTag{.is_last = false, .index = WorkTag::kIndexMask}}) {
    const WorkTag again = WorkTag::of(tag.pack());
    EXPECT_EQ(again.slot, tag.slot);
    EXPECT_EQ(again.generation, tag.generation);
    EXPECT_EQ(again.is_receive, tag.is_receive);
    EXPECT_EQ(again.is_last, tag.is_last);
    EXPECT_EQ(again.index, tag.index);
  }
}

}  // namespace
}  // namespace cw::rnic::test
