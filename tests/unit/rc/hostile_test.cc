// Bad packets against one queue pair: F5 and F8 to F13 of tests/requirements/hostile.md. Each refused packet counts under exactly
// one reason, or is answered as the standard says; what it does not concern stays as it was.
#include <numeric>

#include "tests/unit/rc/lone_qp.h"

namespace cw::rc::test {
namespace {

uint64_t discards_of(const LoneQp& lone) {
  const auto& discards = lone.endpoint->stats().discards;
  return std::accumulate(discards.begin(), discards.end(), uint64_t{0});
}

// What an attacker must not be able to move.
bool is_same_place(const RcQpInfo& a, const RcQpInfo& b) {
  return a.state == b.state && a.una == b.una && a.next_psn == b.next_psn && a.expected_psn == b.expected_psn &&
         a.works_queued == b.works_queued && a.reads_outstanding == b.reads_outstanding &&
         a.receives_posted == b.receives_posted && a.retries == b.retries;
}

LoneQpOptions in_state(QpState state) {
  return {.state = state == QpState::kError ? QpState::kRts : state};
}

// Every opcode, from well behind to well ahead of what is expected, in every state: one packet is taken, or answered by one NAK,
// or counted once. Before RTR and in Error nothing is even looked at.
TEST(HostileQueuePair, F5_EveryOpcodeInEveryStateHasExactlyOneOutcome) {
  for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts, QpState::kError}) {
    for (uint32_t opcode = 0; opcode <= 0xff; ++opcode) {
      const wire::OpcodeTraits& traits = wire::traits_of(static_cast<Opcode>(opcode));
      if (traits.kind == wire::OpcodeKind::kReserved) {
        continue;
      }
      for (const int32_t ahead : {-1000, -1, 0, 1, 1000, 1 << 22}) {
        LoneQp lone(in_state(state));
        lone.qp->post_receives(4);
        if (state == QpState::kError) {
          lone.qp->close();
        }
        const RcQpInfo before = lone.qp->info();
        const wire::Psn psn = Psn(5000).plus(static_cast<uint32_t>(ahead));
        const bool took = lone.receive(static_cast<Opcode>(opcode), psn.value(), traits.may_carry_payload ? 16 : 0);
        const uint64_t discards = discards_of(lone);
        const RcQpInfo after = lone.qp->info();
        const size_t answers = lone.sent().size();
        SCOPED_TRACE(std::string(to_string(state)) + " " + traits.name + " " + std::to_string(ahead));
        EXPECT_LE(answers, 1u);
        EXPECT_LE(discards, 1u);
        const bool congestion = traits.kind == wire::OpcodeKind::kCongestion;
        EXPECT_TRUE(took || answers == 1 || discards == 1 || congestion);
        if (state == QpState::kInit || state == QpState::kError) {
          EXPECT_FALSE(took);
          EXPECT_EQ(answers, 0u);
          EXPECT_EQ(lone.discards(DropReason::kUnknownQp), 1u);
          EXPECT_TRUE(is_same_place(before, after));
        }
        // Only a request in its place may end the connection: nothing that is early, late or unasked for.
        EXPECT_TRUE(after.state == before.state || (traits.is_request && ahead == 0));
        (void)lone.completions();
      }
    }
  }
}

struct Refused {
  const char* what;
  std::vector<Inbound> packets;  // the last one is refused
};

// Order and length of the packets of a message: one NAK "invalid request", then Error, and nothing is delivered.
TEST(HostileQueuePair, F8_MessagesOutOfOrderOrOfWrongLengthAreRefusedByOneNak) {
  const Refused cases[] = {
      {"last alone", {send(kLast, 5000, 10)}},
      {"middle alone", {send(kMiddle, 5000, 256)}},
      {"first twice", {send(kFirst, 5000, 256), send(kFirst, 5001, 256)}},
      {"only inside a message", {send(kFirst, 5000, 256), send(kOnly, 5001, 10)}},
      {"first not MTU sized", {send(kFirst, 5000, 252)}},
      {"middle not MTU sized", {send(kFirst, 5000, 256), send(kMiddle, 5001, 252)}},
      {"empty first", {send(kFirst, 5000, 0)}},
      {"empty last", {send(kFirst, 5000, 256), send(kLast, 5001, 0)}},
      {"only beyond the MTU", {send(kOnly, 5000, 260)}},
      {"one byte beyond the receive",
       {send(kFirst, 5000, 256), send(kMiddle, 5001, 256), send(kMiddle, 5002, 256), send(kLast, 5003, 233)}},
  };
  for (const Refused& refused : cases) {
    SCOPED_TRACE(refused.what);
    LoneQp lone({.qp = {.receive_bytes_max = 1000}});
    lone.qp->post_receives(4);
    for (const Inbound& packet : refused.packets) {
      EXPECT_EQ(lone.qp->state(), QpState::kRts);
      lone.receive(packet);
    }
    EXPECT_EQ(lone.sent(), (SentList{nak(refused.packets.back().psn, NakCode::kInvalidRequest, 0)}));
    EXPECT_EQ(lone.qp->state(), QpState::kError);
    EXPECT_EQ(lone.completions().find("receive 0 success"), std::string::npos);
  }
}

TEST(HostileQueuePair, F8_AnEmptyMessageIsAMessage) {
  LoneQp lone;
  lone.qp->post_receives(1);
  EXPECT_FALSE(lone.receive(kOnly, 5000, 0));  // no payload to keep a buffer for
  EXPECT_EQ(lone.completions(), "receive 0 success");
  EXPECT_EQ(lone.sent(), (SentList{ack(5000, 1)}));
}

// Duplicate, ahead by 1, ahead by 2^23 and its neighbours, at both ends of the number space.
TEST(HostileQueuePair, F9_PsnsOutOfPlaceDeliverNothingWhereverTheNumberWraps) {
  for (const uint32_t expected : {0u, 1u, 5000u, 0x7f'ffffu, 0x80'0000u, 0xff'fffeu, 0xff'ffffu}) {
    LoneQpOptions options = without_recovery();
    options.remote_psn = expected;
    LoneQp lone(options);
    lone.qp->post_receives(8);
    const auto at = [&](uint32_t ahead) { return (expected + ahead) & 0xff'ffff; };
    // Outside the window: silence.
    for (const uint32_t ahead : {(1u << 20) + 1, (1u << 23) - 1, 1u << 23, (1u << 23) + 1, (1u << 24) - (1u << 20) - 1}) {
      EXPECT_FALSE(lone.receive(kOnly, at(ahead), 10));
    }
    EXPECT_EQ(lone.discards(DropReason::kPsnStale), 5u);
    EXPECT_EQ(lone.sent(), SentList{});
    // Behind: acknowledged again, not delivered. Ahead by one: a NAK that names what is missing.
    EXPECT_FALSE(lone.receive(kOnly, at(0xff'ffff), 10));
    EXPECT_EQ(lone.sent(), (SentList{ack(at(0xff'ffff), 0)}));
    EXPECT_FALSE(lone.receive(kOnly, at(1), 10));
    EXPECT_EQ(lone.sent(), (SentList{nak(expected, NakCode::kPsnSequenceError, 0)}));
    EXPECT_EQ(lone.completions(), "");
    EXPECT_EQ(lone.qp->info().expected_psn, Psn(expected));
    EXPECT_TRUE(lone.receive(kOnly, expected, 10));
    EXPECT_EQ(lone.completions(), "receive 0 success");
  }
}

// All 256 syndromes with every MSN that matters, for a PSN that was never sent and for one that is settled: nothing moves.
TEST(HostileQueuePair, F10_AcknowledgementsOfWhatIsNotOutstandingMoveNothing) {
  LoneQp lone;
  for (uint64_t id = 1; id <= 3; ++id) {
    ASSERT_TRUE(lone.post_send(10, id).ok());
  }
  (void)lone.sent();
  lone.receive_ack(1000);
  EXPECT_EQ(lone.completions(), "send 1 success");
  const RcQpInfo before = lone.qp->info();
  uint64_t received = 0;
  for (uint32_t syndrome = 0; syndrome < 256; ++syndrome) {
    for (const uint32_t msn : {0u, 1u, 2u, 0x80'0000u, 0xff'ffffu}) {
      for (const uint32_t psn : {1000u, 999u, 1003u, 1004u, 1000u + (1u << 23), 0u}) {
        Inbound inbound{.opcode = Opcode::kRcAcknowledge, .psn = psn};
        inbound.extensions.aeth = wire::Aeth{static_cast<uint8_t>(syndrome), msn};
        EXPECT_FALSE(lone.receive(inbound));
        ++received;
      }
    }
  }
  EXPECT_EQ(discards_of(lone), received);
  EXPECT_EQ(lone.discards(DropReason::kPsnStale) + lone.discards(DropReason::kDuplicate), received);
  EXPECT_EQ(lone.sent(), SentList{});
  EXPECT_EQ(lone.completions(), "");
  EXPECT_TRUE(is_same_place(before, lone.qp->info()));
}

// A NAK storm for a packet that is outstanding: one repetition per round trip, however many NAKs, and no end of the connection.
TEST(HostileQueuePair, F10_ANakStormIsAnsweredByOneRepetition) {
  LoneQp lone;
  ASSERT_TRUE(lone.post_send(600).ok());
  (void)lone.sent();
  size_t repeated = 0;
  for (uint32_t i = 0; i < 500; ++i) {
    lone.receive_nak(1000, NakCode::kPsnSequenceError);
    repeated += lone.sent().size();
  }
  EXPECT_EQ(repeated, 3u);
  EXPECT_EQ(lone.qp->state(), QpState::kRts);
}

// Timer codes 0 (655 ms, the longest) and 1 (10 us, the shortest), and every other: the wait is that of the table and no NAK in
// between stretches it.
TEST(HostileQueuePair, F10_RnrTimersOfEveryCodeAreBoundedAndCannotBeStretched) {
  for (uint8_t code = 0; code < 32; ++code) {
    LoneQp lone;
    ASSERT_TRUE(lone.post_send(10).ok());
    (void)lone.sent();
    lone.receive_rnr(1000, code);
    const Duration wait = wire::rnr_timer(code);
    EXPECT_GE(wait, Duration::us(10));
    EXPECT_LE(wait, Duration::ms(656));
    for (uint32_t i = 0; i < 10; ++i) {
      lone.pass(wait / 20);
      lone.receive_rnr(1000, 0);
      EXPECT_EQ(lone.sent(), SentList{});
    }
    EXPECT_EQ(lone.discards(DropReason::kDuplicate), 10u);
    lone.pass(wait / 2 + Duration::us(200));
    EXPECT_EQ(lone.sent().size(), 1u) << int{code};
    EXPECT_EQ(lone.qp->state(), QpState::kRts);
  }
}

// READ responses that nobody asked for, that come from elsewhere, or with PSNs of another READ.
TEST(HostileQueuePair, F11_ReadResponsesThatWereNotRequestedMoveNothing) {
  constexpr Opcode kResponses[] = {Opcode::kRcReadResponseFirst, Opcode::kRcReadResponseMiddle, Opcode::kRcReadResponseLast,
                                   Opcode::kRcReadResponseOnly};
  LoneQp lone;
  ASSERT_TRUE(lone.post_send(10).ok());
  ASSERT_TRUE(lone.post_read(600, 2).ok());  // 1001, 1002, 1003
  (void)lone.sent();
  lone.receive_ack(1000);
  (void)lone.completions();
  const RcQpInfo before = lone.qp->info();
  uint64_t stale = 0;
  uint64_t elsewhere = 0;
  for (const Opcode opcode : kResponses) {
    const size_t bytes = opcode == Opcode::kRcReadResponseLast ? 88 : 256;
    for (const uint32_t psn : {1000u, 900u, 1004u, 1005u, 1001u + (1u << 23)}) {
      EXPECT_FALSE(lone.receive_response(opcode, psn, bytes));
      ++stale;
    }
    Inbound spoofed{.opcode = opcode, .psn = 1001, .payload = random_bytes(1, bytes)};
    spoofed.path.local = IpAddress::v4(0x0a000077);
    EXPECT_FALSE(lone.receive(spoofed));
    ++elsewhere;
  }
  EXPECT_EQ(lone.discards(DropReason::kPsnStale) + lone.discards(DropReason::kDuplicate), stale);
  EXPECT_EQ(lone.discards(DropReason::kPathMismatch), elsewhere);
  EXPECT_TRUE(is_same_place(before, lone.qp->info()));
  // The true ones are still believed, and what the others carried is nowhere in the data.
  std::vector<uint8_t> wanted;
  for (const uint32_t psn : {1001u, 1002u, 1003u}) {
    const size_t bytes = psn == 1003 ? 88 : 256;
    const Opcode opcode = psn == 1001 ? kResponses[0] : psn == 1002 ? kResponses[1] : kResponses[2];
    EXPECT_TRUE(lone.receive_response(opcode, psn, bytes));
    const auto raw = random_bytes(psn, bytes);
    wanted.insert(wanted.end(), raw.begin(), raw.end());
  }
  EXPECT_EQ(lone.completions(), "RDMA read 2 success");
  EXPECT_EQ(lone.payloads[0], wanted);
}

TEST(HostileQueuePair, F11_ResponsesThatDoNotFitTheirReadEndItWithAnError) {
  struct Wrong {
    const char* what;
    Opcode opcode;
    size_t bytes;
  };
  const Wrong cases[] = {
      {"last before first", Opcode::kRcReadResponseLast, 88},     {"middle before first", Opcode::kRcReadResponseMiddle, 256},
      {"only instead of three", Opcode::kRcReadResponseOnly, 88}, {"first too short", Opcode::kRcReadResponseFirst, 252},
      {"first too long", Opcode::kRcReadResponseFirst, 260},      {"first empty", Opcode::kRcReadResponseFirst, 0},
  };
  for (const Wrong& wrong : cases) {
    SCOPED_TRACE(wrong.what);
    LoneQp lone;
    ASSERT_TRUE(lone.post_read(600, 7).ok());
    (void)lone.sent();
    EXPECT_FALSE(lone.receive_response(wrong.opcode, 1000, wrong.bytes));
    EXPECT_EQ(lone.completions(), "RDMA read 7 bad response");
    EXPECT_EQ(lone.payloads[0].size(), 0u);
    EXPECT_EQ(lone.endpoint->stats().bad_responses, 1u);
    EXPECT_EQ(lone.sent(), SentList{});
  }
}

// A flood of CNPs is counted and costs the connection nothing; one for an unknown queue pair is refused like any packet.
TEST(HostileQueuePair, F12_CnpFloodsAreCountedAndStopNothing) {
  LoneQp lone;
  ASSERT_TRUE(lone.post_send(10).ok());
  (void)lone.sent();
  const RcQpInfo before = lone.qp->info();
  for (uint32_t i = 0; i < 10'000; ++i) {
    EXPECT_FALSE(lone.receive(Inbound{.opcode = Opcode::kCnp, .psn = i, .payload = std::vector<uint8_t>(16)}));
  }
  EXPECT_EQ(lone.endpoint->stats().cnps_received, 10'000u);
  EXPECT_EQ(discards_of(lone), 0u);
  EXPECT_EQ(lone.sent(), SentList{});
  EXPECT_TRUE(is_same_place(before, lone.qp->info()));
  Inbound spoofed{.opcode = Opcode::kCnp, .psn = 0, .payload = std::vector<uint8_t>(16)};
  spoofed.path.local = IpAddress::v4(0x0a000077);
  EXPECT_FALSE(lone.receive(spoofed));
  EXPECT_EQ(lone.endpoint->stats().cnps_received, 10'000u);
  EXPECT_EQ(lone.discards(DropReason::kPathMismatch), 1u);
}

// The same PSN again with other bytes, before and after the message is whole: the first to come is what was sent.
TEST(HostileQueuePair, F13_ARepetitionWithOtherPayloadDoesNotReplaceTheFirst) {
  LoneQp lone;
  lone.qp->post_receives(2);
  const auto packet = [](Opcode opcode, uint32_t psn, uint64_t seed, size_t bytes) {
    return Inbound{.opcode = opcode, .psn = psn, .payload = random_bytes(seed, bytes)};
  };
  EXPECT_TRUE(lone.receive(packet(kFirst, 5000, 1, 256)));
  EXPECT_FALSE(lone.receive(packet(kFirst, 5000, 99, 256)));
  EXPECT_FALSE(lone.receive(packet(kOnly, 5000, 99, 10)));  // other opcode and length too
  EXPECT_TRUE(lone.receive(packet(kLast, 5001, 2, 100)));
  EXPECT_FALSE(lone.receive(packet(kLast, 5001, 99, 50)));
  EXPECT_EQ(lone.completions(), "receive 0 success");
  std::vector<uint8_t> wanted = random_bytes(1, 256);
  const std::vector<uint8_t> rest = random_bytes(2, 100);
  wanted.insert(wanted.end(), rest.begin(), rest.end());
  EXPECT_EQ(lone.payloads[0], wanted);
  EXPECT_EQ(lone.endpoint->stats().duplicate_requests, 3u);
  EXPECT_EQ(lone.qp->state(), QpState::kRts);
}

}  // namespace
}  // namespace cw::rc::test
