// The requester, the completer and retransmission, seen from a peer's side of the wire.
#include "tests/unit/rc/lone_qp.h"

namespace cw::rc::test {
namespace {

TEST(Requester, CutsAMessageAtThePathMtu) {
  LoneQp lone;
  ASSERT_TRUE(lone.post_send(600).ok());
  EXPECT_EQ(lone.sent(), (SentList{{kFirst, 1000, false, 256}, {kMiddle, 1001, false, 256}, {kLast, 1002, true, 88}}));
  EXPECT_EQ(lone.completions(), "");
  lone.receive_ack(1002);
  EXPECT_EQ(lone.completions(), "send 1 success");
}

TEST(Requester, AMessageOfExactlyTheMtuIsOnePacket) {
  LoneQp lone;
  ASSERT_TRUE(lone.post_send(256).ok());
  ASSERT_TRUE(lone.post_send(512).ok());
  EXPECT_EQ(lone.sent(), (SentList{{kOnly, 1000, true, 256}, {kFirst, 1001, false, 256}, {kLast, 1002, true, 256}}));
  lone.receive_ack(1002);
}

// What leaves may lie with the device for longer than until the peer asks for it again.
TEST(Requester, AMessageOfOnePacketLeavesInPlaceOnce) {
  LoneQp lone;
  ASSERT_TRUE(lone.post_send(100).ok());
  ASSERT_TRUE(lone.post_send(300).ok());
  const auto in_place = [&lone] {
    wire::TxBatch batch(lone.pool);
    lone.endpoint->poll_transmit(lone.now, batch);
    std::vector<bool> all;
    for (const wire::TxPacket& packet : batch.packets()) {
      all.push_back(packet.is_in_place());
    }
    return all;
  };
  EXPECT_EQ(in_place(), (std::vector<bool>{true, false, false}));
  lone.receive_nak(1000, NakCode::kPsnSequenceError);
  EXPECT_EQ(in_place(), (std::vector<bool>{false, false, false}));
  lone.receive_ack(1002);
  EXPECT_EQ(lone.completions(), "send 1 success; send 1 success");
}

TEST(Requester, SendsAndCompletesAnEmptyMessage) {
  LoneQp lone;
  ASSERT_TRUE(lone.post_send(0).ok());
  EXPECT_EQ(lone.sent(), (SentList{{kOnly, 1000, true, 0}}));
  lone.receive_ack(1000);
  EXPECT_EQ(lone.completions(), "send 1 success");
}

TEST(Requester, CutsAcrossTheBuffersOfAChain) {
  LoneQp lone;
  verbs::SendRequest request{.id = verbs::WorkId(1)};
  const auto raw = random_bytes(9, 700);
  for (size_t at = 0; at < 700; at += 100) {
    Buffer* buffer = lone.pool.allocate_one();
    buffer->append(Bytes(raw).subspan(at, 100));
    request.payload.push_back(buffer);
  }
  ASSERT_TRUE(lone.qp->post_send(std::move(request)).ok());
  EXPECT_EQ(lone.sent().size(), 3u);
  std::vector<uint8_t> joined;
  for (const auto& frame : lone.frames) {
    const auto view = wire::PacketView::parse(frame);
    joined.insert(joined.end(), view->payload.begin(), view->payload.end());
  }
  EXPECT_EQ(joined, raw);
}

TEST(Requester, ChoosesTheOpcodesOfImmediateAndInvalidate) {
  LoneQp lone;
  ASSERT_TRUE(lone.qp->post_send({.payload = lone.chain(random_bytes(1, 10)), .invalidate = verbs::Rkey(9)}).ok());
  ASSERT_TRUE(lone.qp->post_send({.payload = lone.chain(random_bytes(1, 300)), .immediate = 7}).ok());
  ASSERT_TRUE(lone.qp->post_write({.payload = lone.chain(random_bytes(1, 300)), .rkey = verbs::Rkey(3), .immediate = 8}).ok());
  EXPECT_EQ(lone.sent(), (SentList{{Opcode::kRcSendOnlyInvalidate, 1000, true, 10},
                                   {kFirst, 1001, false, 256},
                                   {Opcode::kRcSendLastImmediate, 1002, true, 44},
                                   {Opcode::kRcWriteFirst, 1003, false, 256},
                                   {Opcode::kRcWriteLastImmediate, 1004, true, 44}}));
  EXPECT_EQ(wire::PacketView::parse(lone.frames[0])->invalidate_rkey(), verbs::Rkey(9));
  EXPECT_EQ(wire::PacketView::parse(lone.frames[2])->immediate(), 7u);
  EXPECT_EQ(wire::PacketView::parse(lone.frames[3])->reth().length, 300u);
  EXPECT_EQ(wire::PacketView::parse(lone.frames[4])->immediate(), 8u);
}

TEST(Requester, RefusesASendWithBothImmediateAndInvalidate) {
  LoneQp lone;
  EXPECT_EQ(lone.qp->post_send({.invalidate = verbs::Rkey(1), .immediate = 2}).error(), Error::kBadValue);
}

TEST(Requester, RefusesPostsUntilReadyToSendAndLeavesThePayload) {
  for (const QpState state : {QpState::kInit, QpState::kRtr}) {
    LoneQp lone({.state = state});
    verbs::SendRequest request{.payload = lone.chain(random_bytes(1, 10))};
    EXPECT_EQ(lone.qp->post_send(std::move(request)).error(), Error::kBadState);
    EXPECT_EQ(request.payload.bytes(), 10u);
  }
}

TEST(Requester, RefusesPostsBeyondTheQueueDepth) {
  LoneQp lone({.qp = {.send_queue_depth = 2}});
  EXPECT_EQ(lone.qp->send_queue_room(), 2u);
  ASSERT_TRUE(lone.post_send(1).ok());
  ASSERT_TRUE(lone.post_send(1).ok());
  EXPECT_EQ(lone.post_send(1).error(), Error::kNoResources);
  (void)lone.sent();
  lone.receive_ack(1000);
  EXPECT_EQ(lone.qp->send_queue_room(), 1u);
}

TEST(Requester, StopsAtTheWindowAndAsksForAnAcknowledgementBeforeItStops) {
  LoneQp lone({.qp = {.send_window_packets = 8}});
  ASSERT_TRUE(lone.post_send(256 * 20).ok());
  const SentList first = lone.sent();
  ASSERT_EQ(first.size(), 8u);
  // Every quarter of the window, and the packet that fills it.
  for (uint32_t i = 0; i < 8; ++i) {
    EXPECT_EQ(first[i].ack_request, i % 2 == 1) << i;
  }
  lone.receive_ack(1003);
  EXPECT_EQ(lone.sent().size(), 4u);
  EXPECT_EQ(lone.endpoint->stats().window_stalls, 2u);
}

TEST(Requester, OneAcknowledgementCompletesSeveralWorks) {
  LoneQp lone;
  for (uint64_t id = 1; id <= 3; ++id) {
    ASSERT_TRUE(lone.post_send(10, id).ok());
  }
  (void)lone.sent();
  lone.receive_ack(1001);
  EXPECT_EQ(lone.completions(), "send 1 success; send 2 success");
  EXPECT_EQ(lone.qp->info().una, Psn(1002));
}

TEST(Requester, AnUnsignaledSendCompletesSilently) {
  LoneQp lone;
  ASSERT_TRUE(lone.qp->post_send({.payload = lone.chain(random_bytes(1, 10)), .signaled = false}).ok());
  (void)lone.sent();
  lone.receive_ack(1000);
  EXPECT_EQ(lone.completions(), "");
  EXPECT_FALSE(lone.qp->has_unfinished_work());
}

TEST(Requester, GoesBackToTheNakedPacketAndSendsTheSameBytesAgain) {  // CVE-2023-53539
  LoneQp lone;
  ASSERT_TRUE(lone.post_send(1000).ok());
  EXPECT_EQ(lone.sent().size(), 4u);
  const auto originals = lone.frames;
  lone.receive_nak(1001, NakCode::kPsnSequenceError);
  EXPECT_EQ(lone.sent(), (SentList{{kMiddle, 1001, false, 256}, {kMiddle, 1002, false, 256}, {kLast, 1003, true, 232}}));
  for (size_t i = 0; i < 3; ++i) {
    const auto before = wire::PacketView::parse(originals[i + 1]);
    const auto again = wire::PacketView::parse(lone.frames[i]);
    EXPECT_TRUE(std::ranges::equal(before->payload, again->payload));
    EXPECT_EQ(before->bth, again->bth);
  }
  EXPECT_EQ(lone.endpoint->stats().packets_retransmitted, 3u);
}

TEST(Requester, ANakAcknowledgesWhatLiesBeforeIt) {
  LoneQp lone;
  ASSERT_TRUE(lone.post_send(10, 1).ok());
  ASSERT_TRUE(lone.post_send(10, 2).ok());
  (void)lone.sent();
  lone.receive_nak(1001, NakCode::kPsnSequenceError);
  EXPECT_EQ(lone.completions(), "send 1 success");
  EXPECT_EQ(lone.sent(), (SentList{{kOnly, 1001, true, 10}}));
}

// F10 of tests/requirements/hostile.md
TEST(Requester, ANakStormCausesOneRepetition) {
  LoneQp lone;
  ASSERT_TRUE(lone.post_send(1000).ok());
  (void)lone.sent();
  for (int i = 0; i < 1000; ++i) {
    lone.receive_nak(1001, NakCode::kPsnSequenceError);
    if (i == 0) {
      EXPECT_EQ(lone.sent().size(), 3u);
    } else {
      EXPECT_EQ(lone.sent().size(), 0u);
    }
  }
  EXPECT_EQ(lone.qp->state(), QpState::kRts);
}

TEST(Requester, ANakThatIsPutOffCountsAsProgressWhenItAcknowledgedSomething) {
  LoneQpOptions options;
  options.connect.retry_count = 0;
  LoneQp lone(options);
  for (uint64_t id = 1; id <= 4; ++id) {
    ASSERT_TRUE(lone.post_send(10, id).ok());
  }
  (void)lone.sent();
  lone.pass(Duration::us(100));
  lone.receive_nak(1001, NakCode::kPsnSequenceError);
  EXPECT_EQ(lone.sent().size(), 3u);
  lone.pass(Duration::us(20));
  lone.receive_nak(1002, NakCode::kPsnSequenceError);
  lone.receive_nak(1002, NakCode::kPsnSequenceError);  // a copy
  EXPECT_EQ(lone.sent(), SentList{});
  lone.pass(Duration::us(105));
  EXPECT_EQ(lone.qp->state(), QpState::kRts);
  EXPECT_EQ(lone.sent(), (SentList{{kOnly, 1002, true, 10}, {kOnly, 1003, true, 10}}));
}

// A round trip with an ACK timeout in it is better than none, and worse than any other.
TEST(Requester, ARoundTripWithARepetitionInItIsReplacedByTheNextOne) {
  LoneQp lone;
  ASSERT_TRUE(lone.post_send(10, 1).ok());
  (void)lone.sent();
  lone.pass(Duration::ms(70));
  EXPECT_EQ(lone.sent().size(), 1u);
  lone.pass(Duration::us(50));
  lone.receive_ack(1000);
  EXPECT_EQ(lone.qp->info().round_trip, Duration::us(70'050));
  for (const int64_t us : {50, 58}) {
    ASSERT_TRUE(lone.post_send(10, 2).ok());
    (void)lone.sent();
    lone.pass(Duration::us(us));
    lone.receive_ack(us == 50 ? 1001 : 1002);
    EXPECT_EQ(lone.qp->info().round_trip, Duration::us(us == 50 ? 50 : 51));
  }
}

TEST(Requester, WhileNoRoundTripIsKnownAnAnswerSoonAfterGoingBackProvesNothing) {
  LoneQp lone;
  for (uint32_t psn = 1000; psn < 1002; ++psn) {  // the only one that is known then has the repetition in it
    ASSERT_TRUE(lone.post_send(10).ok());
    (void)lone.sent();
    lone.pass(Duration::us(100));
    lone.receive_nak(psn, NakCode::kPsnSequenceError);
    EXPECT_EQ(lone.sent().size(), 1u);
    lone.pass(Duration::us(30));
    lone.receive_ack(psn);
    EXPECT_FALSE(lone.qp->has_unfinished_work());
  }
  EXPECT_EQ(lone.endpoint->stats().packets_late, 0u);
}

TEST(Requester, AStaleNakChangesNothing) {
  LoneQp lone;
  ASSERT_TRUE(lone.post_send(10, 1).ok());
  ASSERT_TRUE(lone.post_send(10, 2).ok());
  (void)lone.sent();
  lone.receive_ack(1000);
  lone.receive_nak(1000, NakCode::kPsnSequenceError);
  EXPECT_EQ(lone.sent().size(), 0u);
  EXPECT_EQ(lone.discards(DropReason::kDuplicate), 1u);
}

// F10 of tests/requirements/hostile.md
TEST(Requester, AcknowledgementOfThePsnNeverSentChangesNothing) {
  LoneQp lone;
  ASSERT_TRUE(lone.post_send(10).ok());
  (void)lone.sent();
  for (const uint32_t psn : {1001u, 1002u, 2000u, 1000u + (1u << 22), 0xff'ffffu, 0u}) {
    lone.receive_ack(psn);
    for (uint8_t code = 0; code < 5; ++code) {
      lone.receive_aeth(psn, static_cast<uint8_t>(0x60 | code));
    }
    lone.receive_rnr(psn, 0);
  }
  EXPECT_EQ(lone.completions(), "");
  EXPECT_EQ(lone.qp->info().una, Psn(1000));
  EXPECT_EQ(lone.qp->state(), QpState::kRts);
  EXPECT_EQ(lone.sent().size(), 0u);
  EXPECT_EQ(lone.discards(DropReason::kPsnStale) + lone.discards(DropReason::kDuplicate), 6u * 7u);
}

// F10 of tests/requirements/hostile.md
TEST(Requester, JunkSyndromesAreIgnored) {
  LoneQp lone;
  ASSERT_TRUE(lone.post_send(10).ok());
  (void)lone.sent();
  for (uint32_t syndrome = 0; syndrome < 256; ++syndrome) {
    const bool meaningful = syndrome < 0x40 || (syndrome >= 0x60 && syndrome <= 0x63);
    if (!meaningful) {
      lone.receive_aeth(1000, static_cast<uint8_t>(syndrome));
    }
  }
  EXPECT_EQ(lone.qp->state(), QpState::kRts);
  EXPECT_EQ(lone.completions(), "");
  EXPECT_EQ(lone.discards(DropReason::kUnexpected), 256u - 0x40u - 4u);
}

struct FatalNak {
  NakCode code;
  const char* completion;
  QpErrorCause cause;
};

TEST(Requester, AFatalNakFailsItsWorkAndFlushesTheRest) {
  const FatalNak cases[] = {
      {NakCode::kInvalidRequest, "remote invalid request", QpErrorCause::kNakInvalidRequest},
      {NakCode::kRemoteAccessError, "remote access error", QpErrorCause::kNakRemoteAccess},
      {NakCode::kRemoteOperationalError, "remote operation error", QpErrorCause::kNakRemoteOperation},
  };
  for (const FatalNak& fatal : cases) {
    LoneQp lone;
    for (uint64_t id = 1; id <= 3; ++id) {
      ASSERT_TRUE(lone.post_send(10, id).ok());
    }
    (void)lone.sent();
    lone.receive_nak(1001, fatal.code);
    EXPECT_EQ(lone.completions(), std::string("send 1 success; send 2 ") + fatal.completion + "; send 3 work request flushed");
    EXPECT_TRUE(lone.qp->in_error());
    const QpError expected{fatal.cause, QpErrorOrigin::kRequester, Psn(1001), Opcode::kRcAcknowledge};
    EXPECT_EQ(lone.qp->error(), expected);
    EXPECT_EQ(lone.sent().size(), 0u);
    EXPECT_EQ(lone.post_send(1).error(), Error::kBadState);
  }
}

TEST(Requester, TimesOutBacksOffAndGivesUpAfterTheRetryCount) {
  LoneQp lone({.connect = {.path_mtu_bytes = 256, .retry_count = 3, .ack_timeout = 8}});
  ASSERT_TRUE(lone.post_send(300).ok());
  EXPECT_EQ(lone.sent().size(), 2u);
  const Duration timeout = ack_timeout(8);
  for (const int64_t factor : {1, 2, 4}) {
    lone.pass(timeout * factor - Duration::us(1));
    EXPECT_EQ(lone.sent().size(), 0u) << factor;
    lone.pass(Duration::us(1));
    EXPECT_EQ(lone.sent().size(), 1u) << factor;
  }
  lone.pass(timeout * 8);
  EXPECT_EQ(lone.completions(), "send 1 transport retry count exceeded");
  const QpError expected{QpErrorCause::kRetryExceeded, QpErrorOrigin::kRequester, Psn(1000), Opcode::kRcAcknowledge};
  EXPECT_EQ(lone.qp->error(), expected);
  EXPECT_EQ(lone.endpoint->stats().retries_exhausted, 1u);
  EXPECT_EQ(lone.endpoint->stats().ack_timeouts, 4u);
}

TEST(Requester, ATimeoutRepeatsTheOldestPacketAndTheOthersWhenThatIsAnswered) {
  LoneQp lone({.qp = {.send_window_packets = 32}, .connect = {.path_mtu_bytes = 256, .initiator_depth = 4, .ack_timeout = 8}});
  ASSERT_TRUE(lone.post_send(256 * 30, 1).ok());
  ASSERT_TRUE(lone.post_read(10, 2).ok());
  EXPECT_EQ(lone.sent().size(), 31u);
  lone.pass(ack_timeout(8));
  EXPECT_EQ(lone.sent(), (SentList{{kFirst, 1000, true, 256}}));
  ASSERT_TRUE(lone.post_send(10, 3).ok());
  EXPECT_EQ(lone.sent().size(), 0u);
  lone.receive_ack(1000);
  EXPECT_EQ(lone.sent().size(), 31u);  // 29, the READ, and the new one
  lone.pass(ack_timeout(8));
  EXPECT_EQ(lone.sent(), (SentList{{kMiddle, 1001, true, 256}}));
  lone.receive_ack(1029);  // all but the READ had arrived, and only the answers were lost
  EXPECT_EQ(lone.completions(), "send 1 success");
  EXPECT_EQ(lone.sent(), (SentList{{kReadRequest, 1030, true, 0}, {kOnly, 1031, true, 10}}));
}

TEST(Requester, ProgressGivesBackAllRetries) {
  LoneQp lone({.connect = {.path_mtu_bytes = 256, .retry_count = 1, .ack_timeout = 8}});
  ASSERT_TRUE(lone.post_send(2000).ok());
  for (uint32_t psn = 1000; psn < 1008; ++psn) {
    (void)lone.sent();
    lone.pass(ack_timeout(8) * 8);
    (void)lone.sent();
    lone.receive_ack(psn);
    EXPECT_EQ(lone.qp->state(), QpState::kRts);
  }
  EXPECT_EQ(lone.completions(), "send 1 success");
}

TEST(Requester, AcknowledgementOfTheFirstTransmissionMovesTheCursorForward) {
  LoneQp lone;
  ASSERT_TRUE(lone.post_send(1000).ok());
  (void)lone.sent();
  lone.pass(ack_timeout(8));
  // All four were under way; the late acknowledgement of two comes before they are repeated.
  lone.receive_ack(1001);
  EXPECT_EQ(lone.sent(), (SentList{{kMiddle, 1002, false, 256}, {kLast, 1003, true, 232}}));
}

TEST(Requester, WaitsAsLongAsAnRnrNakSaysAndThenRepeats) {
  LoneQp lone;
  ASSERT_TRUE(lone.post_send(10, 1).ok());
  ASSERT_TRUE(lone.post_send(10, 2).ok());
  (void)lone.sent();
  lone.receive_rnr(1000, 12);
  lone.receive_rnr(1000, 12);
  ASSERT_TRUE(lone.post_send(10, 3).ok());
  EXPECT_EQ(lone.sent().size(), 0u);
  lone.receive_nak(1000, NakCode::kPsnSequenceError);  // about what followed the refused packet
  EXPECT_EQ(lone.sent().size(), 0u);
  lone.pass(wire::rnr_timer(12));
  EXPECT_EQ(lone.sent(), (SentList{{kOnly, 1000, true, 10}, {kOnly, 1001, true, 10}, {kOnly, 1002, true, 10}}));
  EXPECT_EQ(lone.discards(DropReason::kDuplicate), 1u);
}

TEST(Requester, GivesUpAfterTheRnrRetryCount) {
  LoneQp lone({.connect = {.path_mtu_bytes = 256, .rnr_retry = 2}});
  ASSERT_TRUE(lone.post_send(10).ok());
  for (int i = 0; i < 2; ++i) {
    (void)lone.sent();
    lone.receive_rnr(1000, 1);
    lone.pass(Duration::ms(1));
  }
  (void)lone.sent();
  lone.receive_rnr(1000, 1);
  EXPECT_EQ(lone.completions(), "send 1 RNR retry count exceeded");
  EXPECT_EQ(lone.qp->error().cause, QpErrorCause::kRnrRetryExceeded);
}

TEST(Requester, AnRnrRetryCountOfSevenWaitsForEver) {
  LoneQp lone;
  ASSERT_TRUE(lone.post_send(10).ok());
  for (int i = 0; i < 100; ++i) {
    (void)lone.sent();
    lone.receive_rnr(1000, 0);  // code 0 is the longest wait
    lone.pass(Duration::ms(700));
  }
  EXPECT_EQ(lone.qp->state(), QpState::kRts);
}

TEST(Requester, ProbesTheTailLongBeforeTheTimeout) {
  LoneQp lone({.connect = {.path_mtu_bytes = 256, .ack_timeout = 14}});
  ASSERT_TRUE(lone.post_send(10, 1).ok());
  (void)lone.sent();
  lone.pass(Duration::us(10));
  lone.receive_ack(1000);  // a round trip of 10 us has been seen
  ASSERT_TRUE(lone.post_send(10, 2).ok());
  ASSERT_TRUE(lone.post_send(10, 3).ok());
  EXPECT_EQ(lone.sent().size(), 2u);
  lone.pass(Duration::us(300));
  EXPECT_EQ(lone.sent(), (SentList{{kOnly, 1001, true, 10}}));
  EXPECT_EQ(lone.endpoint->stats().tail_probes, 1u);
  EXPECT_EQ(lone.endpoint->stats().packets_retransmitted, 0u) << "a peer that slept has lost nothing";
  EXPECT_EQ(lone.qp->info().retries, 0u);
  // The peer had everything: its repeated acknowledgement settles it.
  lone.receive_ack(1002);
  EXPECT_EQ(lone.completions(), "send 1 success; send 2 success; send 3 success");
}

// A core that sleeps answers after a millisecond, every time: nothing is lost, and soon nothing is asked for again.
TEST(Requester, APeerThatSleepsIsNotProbedForEver) {
  LoneQp lone({.connect = {.path_mtu_bytes = 256, .ack_timeout = 16}});
  const auto exchange = [&](uint32_t psn, Duration answer_after) {
    ASSERT_TRUE(lone.post_send(10, psn).ok());
    (void)lone.sent();
    for (Duration waited; waited < answer_after; waited = waited + Duration::us(50)) {
      lone.pass(Duration::us(50));
      (void)lone.sent();
    }
    lone.receive_ack(psn);
    (void)lone.completions();
  };
  exchange(1000, Duration::us(50));
  for (uint32_t psn = 1001; psn <= 1200; ++psn) {
    exchange(psn, Duration::ms(1));
  }
  EXPECT_LE(lone.endpoint->stats().tail_probes, 30u);
  EXPECT_GE(lone.endpoint->stats().tail_probes, 4u);
}

TEST(Requester, WhatTheAnswerToAProbeDoesNotAcknowledgeIsLost) {
  LoneQp lone({.connect = {.path_mtu_bytes = 256, .ack_timeout = 14}});
  ASSERT_TRUE(lone.post_send(10, 1).ok());
  (void)lone.sent();
  lone.pass(Duration::us(10));
  lone.receive_ack(1000);
  for (uint64_t id = 2; id <= 4; ++id) {
    ASSERT_TRUE(lone.post_send(10, id).ok());
  }
  (void)lone.sent();
  lone.pass(Duration::us(300));
  EXPECT_EQ(lone.sent(), (SentList{{kOnly, 1001, true, 10}}));
  lone.pass(Duration::us(10));
  lone.receive_ack(1002);
  EXPECT_EQ(lone.sent(), SentList{});  // a peer that slept may say more
  lone.pass(Duration::us(5));
  EXPECT_EQ(lone.sent(), (SentList{{kOnly, 1003, true, 10}}));
  EXPECT_EQ(lone.qp->info().retries, 0u);
}

TEST(Requester, AnAnswerToAProbeThatIsFollowedByAnotherCausesNoRepetition) {
  LoneQp lone({.connect = {.path_mtu_bytes = 256, .ack_timeout = 14}});
  ASSERT_TRUE(lone.post_send(10, 1).ok());
  (void)lone.sent();
  lone.pass(Duration::us(10));
  lone.receive_ack(1000);
  for (uint64_t id = 2; id <= 4; ++id) {
    ASSERT_TRUE(lone.post_send(10, id).ok());
  }
  (void)lone.sent();
  lone.pass(Duration::us(300));
  EXPECT_EQ(lone.sent().size(), 1u);
  lone.pass(Duration::us(10));
  lone.receive_ack(1001);
  lone.pass(Duration::us(4));
  lone.receive_ack(1002);
  lone.pass(Duration::us(100));
  EXPECT_EQ(lone.sent(), SentList{});
}

TEST(Requester, AnAcknowledgementTooEarlyForTheProbeCausesNoRepetition) {
  LoneQp lone({.connect = {.path_mtu_bytes = 256, .ack_timeout = 14}});
  ASSERT_TRUE(lone.post_send(10, 1).ok());
  (void)lone.sent();
  lone.pass(Duration::us(100));
  lone.receive_ack(1000);
  ASSERT_TRUE(lone.post_send(10, 2).ok());
  ASSERT_TRUE(lone.post_send(10, 3).ok());
  (void)lone.sent();
  lone.pass(Duration::us(500));
  EXPECT_EQ(lone.sent(), (SentList{{kOnly, 1001, true, 10}}));
  lone.pass(Duration::us(10));
  lone.receive_ack(1001);  // late, of the first transmission
  EXPECT_EQ(lone.sent().size(), 0u);
}

// The bytes of responses from `psn` on, as receive_response makes them.
std::vector<uint8_t> responses(uint32_t psn, std::initializer_list<size_t> sizes) {
  std::vector<uint8_t> raw;
  for (const size_t size : sizes) {
    const auto part = random_bytes(psn++, size);
    raw.insert(raw.end(), part.begin(), part.end());
  }
  return raw;
}

TEST(Requester, ReadsIntoTheReceivedBuffers) {
  LoneQp lone;
  ASSERT_TRUE(lone.post_read(600).ok());
  EXPECT_EQ(lone.sent(), (SentList{{kReadRequest, 1000, true, 0}}));
  EXPECT_EQ(wire::PacketView::parse(lone.frames[0])->reth(), (wire::Reth{0x10000, verbs::Rkey(0x77), 600}));
  EXPECT_TRUE(lone.receive_response(kResponseFirst, 1000, 256));
  EXPECT_TRUE(lone.receive_response(kResponseMiddle, 1001, 256));
  EXPECT_TRUE(lone.receive_response(kResponseLast, 1002, 88));
  EXPECT_EQ(lone.completions(), "RDMA read 1 success");
  std::vector<uint8_t> wanted;
  for (const auto& [psn, size] : {std::pair{1000u, 256u}, {1001u, 256u}, {1002u, 88u}}) {
    const auto part = random_bytes(psn, size);
    wanted.insert(wanted.end(), part.begin(), part.end());
  }
  EXPECT_EQ(lone.payloads[0], wanted);
}

TEST(Requester, AReadOfNothingIsAnsweredByAnEmptyResponse) {
  LoneQp lone;
  ASSERT_TRUE(lone.post_read(0).ok());
  (void)lone.sent();
  EXPECT_FALSE(lone.receive_response(kResponseOnly, 1000, 0));
  EXPECT_EQ(lone.completions(), "RDMA read 1 success");
}

TEST(Requester, KeepsAtMostTheAgreedNumberOfReadsOutstanding) {
  LoneQp lone({.connect = {.path_mtu_bytes = 256, .initiator_depth = 2}});
  for (uint64_t id = 1; id <= 3; ++id) {
    ASSERT_TRUE(lone.post_read(512, id).ok());
  }
  EXPECT_EQ(lone.sent(), (SentList{{kReadRequest, 1000, true, 0}, {kReadRequest, 1002, true, 0}}));
  lone.receive_response(kResponseFirst, 1000, 256);
  EXPECT_EQ(lone.sent().size(), 0u);
  lone.receive_response(kResponseLast, 1001, 256);
  EXPECT_EQ(lone.sent(), (SentList{{kReadRequest, 1004, true, 0}}));
}

TEST(Requester, RefusesReadsThatThePeerCannotAnswer) {
  LoneQp lone({.connect = {.path_mtu_bytes = 256, .initiator_depth = 0}});
  EXPECT_EQ(lone.post_read(10).error(), Error::kUnsupported);
}

TEST(Requester, AFencedSendWaitsForEarlierReads) {
  LoneQp lone;
  ASSERT_TRUE(lone.post_read(10, 1).ok());
  ASSERT_TRUE(lone.qp->post_send({.id = verbs::WorkId(2), .payload = lone.chain(random_bytes(1, 10)), .fence = true}).ok());
  EXPECT_EQ(lone.sent().size(), 1u);
  lone.receive_response(kResponseOnly, 1000, 10);
  EXPECT_EQ(lone.sent(), (SentList{{kOnly, 1001, true, 10}}));
}

TEST(Requester, AReadResponseAcknowledgesWhatWasSentBeforeIt) {
  LoneQp lone;
  ASSERT_TRUE(lone.post_send(10, 1).ok());
  ASSERT_TRUE(lone.post_read(10, 2).ok());
  (void)lone.sent();
  lone.receive_response(kResponseOnly, 1001, 10);
  EXPECT_EQ(lone.completions(), "send 1 success; RDMA read 2 success");
}

TEST(Requester, ALostResponseMakesTheReadGoOnWhereItsDataEnd) {
  LoneQp lone;
  ASSERT_TRUE(lone.post_read(1000).ok());
  (void)lone.sent();
  lone.receive_response(kResponseFirst, 1000, 256);
  lone.receive_response(kResponseMiddle, 1002, 256);  // 1001 is missing
  lone.wait_for_late_ones();
  EXPECT_EQ(lone.sent(), (SentList{{kReadRequest, 1001, true, 0}}));
  EXPECT_EQ(wire::PacketView::parse(lone.frames[0])->reth(), (wire::Reth{0x10000 + 256, verbs::Rkey(0x77), 744}));
  lone.receive_response(kResponseLast, 1003, 232);  // still of the first answer
  EXPECT_EQ(lone.sent().size(), 0u);
  lone.receive_response(kResponseFirst, 1001, 256);
  EXPECT_EQ(lone.completions(), "RDMA read 1 success");
  EXPECT_EQ(lone.payloads[0], responses(1000, {256, 256, 256, 232}));
  lone.receive_response(kResponseMiddle, 1002, 256);  // the rest of the second answer
  lone.receive_response(kResponseLast, 1003, 232);
  EXPECT_EQ(lone.discards(DropReason::kDuplicate), 2u);
}

TEST(Requester, WithoutRoomForGapsALostResponseCostsEverythingBehindIt) {
  LoneQpOptions options;
  options.endpoint.recovery = {};
  LoneQp lone(options);
  ASSERT_TRUE(lone.post_read(1000, 1).ok());
  ASSERT_TRUE(lone.post_read(100, 2).ok());
  (void)lone.sent();
  lone.receive_response(kResponseFirst, 1000, 256);
  EXPECT_FALSE(lone.receive_response(kResponseMiddle, 1002, 256));  // 1001 is missing
  EXPECT_EQ(lone.sent(), (SentList{{kReadRequest, 1001, true, 0}, {kReadRequest, 1004, true, 0}}));
  EXPECT_EQ(lone.endpoint->stats().reads_unfenced, 2u) << "no room for a fence either, and that is counted";
  lone.receive_response(kResponseLast, 1003, 232);  // still of the first answer
  EXPECT_EQ(lone.sent().size(), 0u);
  lone.receive_response(kResponseFirst, 1001, 256);
  lone.receive_response(kResponseMiddle, 1002, 256);
  lone.receive_response(kResponseLast, 1003, 232);
  lone.receive_response(kResponseOnly, 1004, 100);
  EXPECT_EQ(lone.completions(), "RDMA read 1 success; RDMA read 2 success");
  EXPECT_EQ(lone.payloads[0], responses(1000, {256, 256, 256, 232}));
}

TEST(Requester, AnswersThatWereUnderWayDoNotMakeAReadGoBackAgain) {
  LoneQp lone;
  ASSERT_TRUE(lone.post_read(256 * 40).ok());
  (void)lone.sent();
  lone.receive_response(kResponseFirst, 1000, 256);
  for (uint32_t psn = 1002; psn < 1020; ++psn) {  // 1001 is missing; far longer than a round trip
    lone.pass(Duration::us(50));
    lone.receive_response(kResponseMiddle, psn, 256);
    EXPECT_EQ(lone.sent().size(), psn == 1003 ? 1u : 0u);  // when it has been missing for ReorderWindow::kUnknown
  }
  EXPECT_EQ(lone.qp->info().retries, 0u);             // each was an answer
  lone.receive_response(kResponseMiddle, 1002, 256);  // the answers began anew, and 1001 was lost again
  lone.wait_for_late_ones();
  EXPECT_EQ(lone.sent(), (SentList{{kReadRequest, 1001, true, 0}}));
  EXPECT_EQ(lone.endpoint->stats().implied_naks, 2u);
}

// rdma_rxe answers many READs slower than a probe's patience, and would answer all of them again for each probe.
TEST(Requester, DoesNotProbeAReadWhileItsAnswersStillArrive) {
  LoneQp lone({.connect = {.path_mtu_bytes = 256, .ack_timeout = 16}});
  ASSERT_TRUE(lone.post_read(256 * 40).ok());
  (void)lone.sent();
  lone.pass(Duration::us(10));
  lone.receive_response(kResponseFirst, 1000, 256);  // a round trip of 10 us has been seen
  for (uint32_t psn = 1002; psn < 1038; ++psn) {     // 1001 is missing; 36 ms of answers behind it
    lone.pass(Duration::ms(1));
    lone.receive_response(kResponseMiddle, psn, 256);
    lone.pass(ReorderWindow::kLeast);
    EXPECT_EQ(lone.sent().size(), psn == 1002 ? 1u : 0u) << psn;
  }
  for (uint32_t i = 0; i < 20; ++i) {  // and what was answered before comes again
    lone.pass(Duration::ms(1));
    lone.receive_response(kResponseFirst, 1000, 256);
    EXPECT_EQ(lone.sent().size(), 0u) << i;
  }
  EXPECT_EQ(lone.endpoint->stats().tail_probes, 0u);
  lone.pass(Duration::ms(6));  // silence
  EXPECT_EQ(lone.sent(), (SentList{{kReadRequest, 1001, true, 0}}));
  EXPECT_EQ(lone.endpoint->stats().tail_probes, 1u);
}

// The goodput table showed it: READs of four packets at 3 % loss stood still for 5 ms whenever a repetition was lost as well.
TEST(Requester, ProbesASmallReadSoonerThanALargeOne) {
  for (const uint32_t packets : {2u, 20u, 400u}) {
    LoneQp lone(
        {.qp = {.read_request_packets = 512, .read_window_packets = 512}, .connect = {.path_mtu_bytes = 256, .ack_timeout = 16}});
    ASSERT_TRUE(lone.post_read(256 * packets).ok());
    (void)lone.sent();
    lone.pass(Duration::us(10));
    lone.receive_response(kResponseFirst, 1000, 256);
    const int64_t wait_us = std::min<int64_t>(200 + 20 * (packets - 1), 5000);
    lone.pass(Duration::us(wait_us - 70));
    EXPECT_EQ(lone.sent().size(), 0u) << packets;
    lone.pass(Duration::us(140));
    EXPECT_EQ(lone.sent(), (SentList{{kReadRequest, 1001, true, 0}})) << packets;
  }
}

TEST(Requester, ProbesAPeerThatPausesLater) {
  LoneQp lone({.connect = {.path_mtu_bytes = 256, .ack_timeout = 16}});
  ASSERT_TRUE(lone.post_read(256 * 8).ok());
  (void)lone.sent();
  lone.pass(Duration::us(10));
  lone.receive_response(kResponseFirst, 1000, 256);
  lone.pass(Duration::us(600));
  EXPECT_EQ(lone.sent(), (SentList{{kReadRequest, 1001, true, 0}}));
  lone.pass(Duration::us(400));
  lone.receive_response(kResponseMiddle, 1002, 256);  // not what was asked for again: the peer had paused, and 1001 is lost
  lone.pass(ReorderWindow::kLeast);
  EXPECT_EQ(lone.sent(), (SentList{{kReadRequest, 1001, true, 0}}));
  lone.pass(Duration::us(1800));
  EXPECT_EQ(lone.sent().size(), 0u);
  lone.pass(Duration::us(400));
  EXPECT_EQ(lone.sent(), (SentList{{kReadRequest, 1001, true, 0}}));
  EXPECT_EQ(lone.endpoint->stats().tail_probes, 2u);
}

TEST(Requester, AResponseOutsideTheWindowDoesNotHoldTheProbeBack) {
  LoneQp lone({.connect = {.path_mtu_bytes = 256, .ack_timeout = 16}});
  ASSERT_TRUE(lone.post_read(256 * 40).ok());
  (void)lone.sent();
  lone.pass(Duration::us(10));
  lone.receive_response(kResponseFirst, 1000, 256);
  for (uint32_t i = 0; i < 2; ++i) {
    lone.pass(Duration::us(600));
    lone.receive_response(kResponseMiddle, 1000 + (1u << 22), 256);
  }
  EXPECT_EQ(lone.sent(), (SentList{{kReadRequest, 1001, true, 0}}));
  EXPECT_EQ(lone.endpoint->stats().tail_probes, 1u);
}

TEST(Requester, AnAcknowledgementBehindAReadIsAnImpliedNakOfIt) {
  LoneQp lone;
  ASSERT_TRUE(lone.post_read(300, 1).ok());
  ASSERT_TRUE(lone.post_send(10, 2).ok());
  (void)lone.sent();
  lone.receive_ack(1002);
  EXPECT_EQ(lone.completions(), "");
  lone.wait_for_late_ones();
  EXPECT_EQ(lone.sent(), (SentList{{kReadRequest, 1000, true, 0}}));
  EXPECT_EQ(lone.endpoint->stats().implied_naks, 1u);
  lone.receive_response(kResponseFirst, 1000, 256);
  EXPECT_EQ(lone.completions(), "");
  lone.receive_response(kResponseLast, 1001, 44);
  EXPECT_EQ(lone.completions(), "RDMA read 1 success; send 2 success");
}

TEST(Requester, ARefusalBehindAnIncompleteReadIsBelievedAtOnce) {
  LoneQp lone;
  ASSERT_TRUE(lone.post_read(300, 1).ok());
  ASSERT_TRUE(lone.post_send(10, 2).ok());
  (void)lone.sent();
  lone.receive_response(kResponseFirst, 1000, 256);
  lone.receive_nak(1002, NakCode::kInvalidRequest);
  EXPECT_EQ(lone.qp->error().cause, QpErrorCause::kNakInvalidRequest);
  EXPECT_EQ(lone.sent().size(), 0u);
  (void)lone.completions();
}

struct WrongResponse {
  const char* what;
  Opcode opcode;
  uint32_t psn;
  size_t bytes;
};

// F11 of tests/requirements/hostile.md
TEST(Requester, AResponseThatDoesNotFitItsRequestIsABadResponse) {
  const WrongResponse cases[] = {
      {"first too short", kResponseFirst, 1000, 252}, {"first too long", kResponseFirst, 1000, 260},
      {"last before first", kResponseLast, 1000, 88}, {"middle before first", kResponseMiddle, 1000, 256},
      {"only for three", kResponseOnly, 1000, 88},    {"empty first", kResponseFirst, 1000, 0},
  };
  for (const WrongResponse& wrong : cases) {
    LoneQp lone;
    ASSERT_TRUE(lone.post_read(600).ok());
    (void)lone.sent();
    EXPECT_FALSE(lone.receive_response(wrong.opcode, wrong.psn, wrong.bytes)) << wrong.what;
    EXPECT_EQ(lone.completions(), "RDMA read 1 bad response") << wrong.what;
    EXPECT_EQ(lone.qp->error().cause, QpErrorCause::kBadResponse) << wrong.what;
    EXPECT_EQ(lone.qp->error().opcode, wrong.opcode) << wrong.what;
  }
}

// F11 of tests/requirements/hostile.md
TEST(Requester, TheLastResponseMustHaveExactlyTheRest) {
  for (const size_t bytes : {84u, 92u, 256u, 0u}) {
    LoneQp lone;
    ASSERT_TRUE(lone.post_read(344).ok());
    (void)lone.sent();
    lone.receive_response(kResponseFirst, 1000, 256);
    lone.receive_response(kResponseLast, 1001, bytes);
    EXPECT_EQ(lone.completions(), "RDMA read 1 bad response") << bytes;
  }
}

// F11 of tests/requirements/hostile.md
TEST(Requester, AResponseNobodyAskedForIsIgnored) {
  LoneQp lone;
  EXPECT_FALSE(lone.receive_response(kResponseOnly, 1000, 16));
  EXPECT_EQ(lone.discards(DropReason::kPsnStale), 1u);
  ASSERT_TRUE(lone.post_send(10).ok());
  (void)lone.sent();
  EXPECT_FALSE(lone.receive_response(kResponseOnly, 1000, 16));
  EXPECT_EQ(lone.discards(DropReason::kUnexpected), 1u);
  EXPECT_EQ(lone.qp->state(), QpState::kRts);
}

TEST(Requester, PsnsWrap) {
  LoneQp lone({.local_psn = 0xff'fffe});
  ASSERT_TRUE(lone.post_send(1000).ok());
  EXPECT_EQ(
      lone.sent(),
      (SentList{
          {kFirst, 0xff'fffe, false, 256}, {kMiddle, 0xff'ffff, false, 256}, {kMiddle, 0, false, 256}, {kLast, 1, true, 232}}));
  lone.receive_nak(0, NakCode::kPsnSequenceError);
  EXPECT_EQ(lone.sent(), (SentList{{kMiddle, 0, false, 256}, {kLast, 1, true, 232}}));
  lone.receive_ack(1);
  EXPECT_EQ(lone.completions(), "send 1 success");
}

TEST(Requester, CloseFlushesEverythingAndSaysSo) {
  LoneQp lone;
  ASSERT_TRUE(lone.post_send(10, 1).ok());
  ASSERT_TRUE(lone.post_read(10, 2).ok());
  (void)lone.sent();
  lone.qp->close();
  EXPECT_EQ(lone.completions(), "send 1 work request flushed; RDMA read 2 work request flushed");
  EXPECT_EQ(lone.qp->error().cause, QpErrorCause::kClosed);
  EXPECT_EQ(lone.endpoint->poll_ready(), lone.qp);
  EXPECT_EQ(lone.endpoint->next_deadline(), Instant::never());
  EXPECT_EQ(lone.endpoint->stats().qps_failed, 0u);
}

}  // namespace
}  // namespace cw::rc::test
