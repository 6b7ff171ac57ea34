// The responder: the ladder of checks, what it executes and what it answers.
#include <functional>

#include "rocev2/rc/responder.h"
#include "tests/unit/rc/lone_qp.h"

namespace cw::rc::test {
namespace {

// Server role, one receive posted unless said otherwise.
struct Server : LoneQp {
  explicit Server(uint32_t receives = 1, const LoneQpOptions& options = {}) : LoneQp(options) { qp->post_receives(receives); }
  uint32_t expected() const { return qp->info().expected_psn.value(); }
};

// Client role with a region of 4096 bytes, each byte 0xee.
struct Client : LoneQp {
  explicit Client(verbs::RemoteAccess access = verbs::RemoteAccess::kReadWrite,
                  verbs::ProtectionDomain domain = verbs::ProtectionDomain(7))
      : LoneQp(client_options()), region(4096, 0xee), key(*memory.register_region(domain, region, access)) {}

  Inbound with_reth(Opcode opcode, uint32_t psn, uint64_t offset, uint32_t length, size_t payload_bytes = 0) {
    Inbound inbound{.opcode = opcode, .psn = psn, .payload = random_bytes(psn, payload_bytes)};
    inbound.extensions.reth = wire::Reth{memory.address_of(key) + offset, key, length};
    return inbound;
  }
  bool untouched() const {
    return std::ranges::all_of(region, [](uint8_t byte) { return byte == 0xee; });
  }
  std::vector<uint8_t> part(size_t offset, size_t bytes) const {
    return {region.begin() + static_cast<long>(offset), region.begin() + static_cast<long>(offset + bytes)};
  }

  std::vector<uint8_t> region;
  verbs::Rkey key;
};

TEST(Responder, DeliversASendInTheBufferItCameInAndAcknowledges) {
  Server server;
  EXPECT_TRUE(server.receive(kOnly, 5000, 100));
  EXPECT_EQ(server.completions(), "receive 0 success");
  EXPECT_EQ(server.payloads[0], random_bytes(5000, 100));
  EXPECT_EQ(server.sent(), (SentList{ack(5000, 1)}));
}

TEST(Responder, PutsAMessageTogetherFromItsPackets) {
  Server server;
  EXPECT_TRUE(server.receive({.opcode = kFirst, .psn = 5000, .payload = random_bytes(1, 256), .ack_request = false}));
  EXPECT_TRUE(server.receive({.opcode = kMiddle, .psn = 5001, .payload = random_bytes(2, 256), .ack_request = false}));
  EXPECT_EQ(server.sent(), SentList{});
  EXPECT_EQ(server.completions(), "");
  EXPECT_TRUE(server.receive(kLast, 5002, 1));
  EXPECT_EQ(server.completions(), "receive 0 success");
  EXPECT_EQ(server.payloads[0].size(), 513u);
  EXPECT_EQ(server.sent(), (SentList{ack(5002, 1)}));
}

TEST(Responder, AMessageSaysWhenItsFirstPacketCame) {
  Server server(2);
  const Instant begun = server.now;
  server.receive(kFirst, 5000, 256);
  server.pass(Duration::us(20));
  server.receive(kLast, 5001, 1);
  server.receive(kOnly, 5002, 1);
  verbs::Completion completion;
  ASSERT_TRUE(server.qp->poll_completion(completion));
  EXPECT_EQ(completion.begun, begun);
  ASSERT_TRUE(server.qp->poll_completion(completion));
  EXPECT_EQ(completion.begun, begun + Duration::us(20));
  completion.payload.clear();
}

TEST(Responder, DeliversAnEmptyMessageAndKeepsNoBuffer) {
  Server server;
  EXPECT_FALSE(server.receive(kOnly, 5000, 0));
  EXPECT_EQ(server.completions(), "receive 0 success");
  EXPECT_EQ(server.payloads[0].size(), 0u);
}

TEST(Responder, OneAcknowledgementAnswersABurst) {
  Server server(8);
  for (uint32_t i = 0; i < 8; ++i) {
    server.receive(kOnly, 5000 + i, 10);
  }
  EXPECT_EQ(server.sent(), (SentList{ack(5007, 8)}));
}

TEST(Responder, DropsDuplicateSendButAcksIt) {
  Server server(2);
  server.receive(kOnly, 5000, 10);
  server.receive(kOnly, 5001, 10);
  (void)server.sent();
  EXPECT_FALSE(server.receive(kOnly, 5000, 10));
  EXPECT_EQ(server.sent(), (SentList{ack(5001, 2)}));
  EXPECT_EQ(server.completions(), "receive 0 success; receive 0 success");
  EXPECT_EQ(server.endpoint->stats().duplicate_requests, 1u);
}

// F13 of tests/requirements/hostile.md
TEST(Responder, ARepetitionWithOtherContentsIsStillADuplicate) {
  Server server;
  server.receive({.opcode = kOnly, .psn = 5000, .payload = random_bytes(1, 10)});
  EXPECT_FALSE(server.receive({.opcode = kOnly, .psn = 5000, .payload = random_bytes(2, 10)}));
  EXPECT_EQ(server.completions(), "receive 0 success");
  EXPECT_EQ(server.payloads[0], random_bytes(1, 10));
}

// F9 of tests/requirements/hostile.md
TEST(Responder, NaksAGapOnceAndDropsWhatFollowsIt) {
  Server server(8, without_recovery());
  for (const uint32_t psn : {5001u, 5002u, 5003u}) {
    EXPECT_FALSE(server.receive(kOnly, psn, 10));
  }
  EXPECT_EQ(server.sent(), (SentList{nak(5000, NakCode::kPsnSequenceError, 0)}));
  server.receive(kOnly, 5004, 10);
  EXPECT_EQ(server.sent(), SentList{});
  EXPECT_EQ(server.discards(DropReason::kOutOfSequence), 4u);
  EXPECT_TRUE(server.receive(kOnly, 5000, 10));
  EXPECT_EQ(server.sent(), (SentList{ack(5000, 1)}));
  server.receive(kOnly, 5002, 10);
  EXPECT_EQ(server.sent(), (SentList{nak(5001, NakCode::kPsnSequenceError, 1)}));
}

// The only packet behind the gap comes once more: the peer has gone back by exactly as much.
TEST(Responder, NaksAgainWhenTheSamePacketComesAheadTwice) {
  LoneQp lone(without_recovery());
  lone.qp->post_receives(8);
  for (uint32_t i = 0; i < 2; ++i) {
    lone.receive(Opcode::kRcSendOnly, 5001, 10);
    EXPECT_EQ(lone.sent(), (SentList{nak(5000, NakCode::kPsnSequenceError, 0)}));
  }
  lone.receive(Opcode::kRcSendOnly, 5002, 10);
  EXPECT_EQ(lone.sent().size(), 0u);
}

TEST(Responder, NaksAgainWhenThePeerHasGoneBackAndThePacketIsLostAgain) {
  Server server(8, without_recovery());
  server.receive(kOnly, 5001, 10);
  server.receive(kOnly, 5002, 10);
  EXPECT_EQ(server.sent().size(), 1u);
  server.receive(kOnly, 5001, 10);
  EXPECT_EQ(server.sent(), (SentList{nak(5000, NakCode::kPsnSequenceError, 0)}));
}

TEST(Responder, TheMissingPacketTakesBackANakThatWasNotSentYet) {
  Server server(8, without_recovery());
  server.receive(kOnly, 5001, 10);
  server.receive(kOnly, 5000, 10);
  EXPECT_EQ(server.sent(), (SentList{ack(5000, 1)}));
}

// F9 of tests/requirements/hostile.md
TEST(Responder, IgnoresPsnsOutsideTheWindow) {
  Server server;
  for (const uint32_t ahead : {(1u << 20) + 1, (1u << 23) - 1, 1u << 23, (1u << 24) - (1u << 20) - 1}) {
    EXPECT_FALSE(server.receive(kOnly, (5000 + ahead) & 0xff'ffff, 10));
  }
  EXPECT_EQ(server.discards(DropReason::kPsnStale), 4u);
  EXPECT_EQ(server.sent(), SentList{});
  EXPECT_EQ(server.expected(), 5000u);
}

// Proves RPCRDMA-2.3.2-7.
TEST(Responder, AnswersRnrNakWhenNoReceiveIsPosted) {
  Server server(0);
  EXPECT_FALSE(server.receive(kOnly, 5000, 10));
  server.receive(kOnly, 5001, 10);
  EXPECT_EQ(server.sent(), (SentList{rnr_nak(5000, 12, 0)}));
  server.qp->post_receives(2);
  EXPECT_TRUE(server.receive(kOnly, 5000, 10));
  EXPECT_TRUE(server.receive(kOnly, 5001, 10));
  EXPECT_EQ(server.sent(), (SentList{ack(5001, 2)}));
  EXPECT_EQ(server.completions(), "receive 0 success; receive 0 success");
}

TEST(Responder, AnRnrNakAsksForTheWaitOfTheOptions) {
  for (const uint8_t code : {uint8_t{1}, uint8_t{20}, uint8_t{31}}) {
    LoneQpOptions options;
    options.qp.min_rnr_timer = code;
    Server server(0, options);
    EXPECT_FALSE(server.receive(kOnly, 5000, 10));
    EXPECT_EQ(server.sent(), (SentList{rnr_nak(5000, code, 0)}));
  }
}

TEST(Responder, AnRnrNakLeaksNothing) {  // CVE-2022-49929
  Server server(0);
  for (int i = 0; i < 1000; ++i) {
    server.receive(kOnly, 5000, 10);
    EXPECT_EQ(server.sent().size(), 1u);
  }
  EXPECT_EQ(server.pool.in_use(), 0u);
}

TEST(Responder, AnEmptyReceiveSlabIsAlsoNotReady) {
  Server server(100);
  for (uint32_t i = 0; i < 16; ++i) {
    EXPECT_TRUE(server.receive(kOnly, 5000 + i, 10));
  }
  (void)server.sent();
  EXPECT_FALSE(server.receive(kOnly, 5016, 10));
  EXPECT_EQ(server.sent(), (SentList{rnr_nak(5016, 12, 16)}));
  EXPECT_NE(server.completions(), "");
  EXPECT_TRUE(server.receive(kOnly, 5016, 10));
}

struct Refused {
  const char* what;
  std::vector<Inbound> packets;  // the last one is refused
  QpErrorCause cause;
};

// F7 and F8 of tests/requirements/hostile.md
TEST(Responder, RefusesWhatBreaksTheRulesOfAMessageAndGoesToError) {
  const Refused cases[] = {
      {"middle without first", {send(kMiddle, 5000, 256)}, QpErrorCause::kOpcodeSequence},
      {"last without first", {send(kLast, 5000, 10)}, QpErrorCause::kOpcodeSequence},
      {"first after first", {send(kFirst, 5000, 256), send(kFirst, 5001, 256)}, QpErrorCause::kOpcodeSequence},
      {"only inside", {send(kFirst, 5000, 256), send(kOnly, 5001, 10)}, QpErrorCause::kOpcodeSequence},
      {"write middle inside a send",
       {send(kFirst, 5000, 256), send(Opcode::kRcWriteMiddle, 5001, 256)},
       QpErrorCause::kOpcodeSequence},
      {"read inside a send", {send(kFirst, 5000, 256), send(Opcode::kRcReadRequest, 5001, 0)}, QpErrorCause::kOpcodeSequence},
      {"short first", {send(kFirst, 5000, 252)}, QpErrorCause::kPacketLength},
      {"empty first", {send(kFirst, 5000, 0)}, QpErrorCause::kPacketLength},
      {"long first", {send(kFirst, 5000, 260)}, QpErrorCause::kPacketLength},
      {"short middle", {send(kFirst, 5000, 256), send(kMiddle, 5001, 100)}, QpErrorCause::kPacketLength},
      {"empty last", {send(kFirst, 5000, 256), send(kLast, 5001, 0)}, QpErrorCause::kPacketLength},
      {"long last", {send(kFirst, 5000, 256), send(kLast, 5001, 257)}, QpErrorCause::kPacketLength},
      {"long only", {send(kOnly, 5000, 257)}, QpErrorCause::kPacketLength},
      {"write", {send(Opcode::kRcWriteOnly, 5000, 16)}, QpErrorCause::kOperationNotAllowed},
      {"write with immediate", {send(Opcode::kRcWriteOnlyImmediate, 5000, 16)}, QpErrorCause::kOperationNotAllowed},
      {"read", {send(Opcode::kRcReadRequest, 5000, 0)}, QpErrorCause::kOperationNotAllowed},
      {"compare and swap", {send(Opcode::kRcCompareSwap, 5000, 0)}, QpErrorCause::kOperationNotAllowed},
      {"fetch and add", {send(Opcode::kRcFetchAdd, 5000, 0)}, QpErrorCause::kOperationNotAllowed},
  };
  for (const Refused& refused : cases) {
    Server server(4);
    for (const Inbound& packet : refused.packets) {
      server.receive(packet);
    }
    const uint32_t last = refused.packets.back().psn;
    EXPECT_EQ(server.sent(), (SentList{nak(last, NakCode::kInvalidRequest, 0)})) << refused.what;
    const QpError expected{refused.cause, QpErrorOrigin::kResponder, Psn(last), refused.packets.back().opcode};
    EXPECT_EQ(server.qp->error(), expected) << refused.what << ": " << to_string(server.qp->error().cause);
    EXPECT_EQ(server.qp->state(), QpState::kError) << refused.what;
    EXPECT_EQ(server.completions(), "") << refused.what;
    EXPECT_EQ(server.endpoint->poll_ready(), server.qp) << refused.what;
  }
}

// Proves RPCRDMA-2.3.2-6, CMPD-3.1-3.
// F8 of tests/requirements/hostile.md
TEST(Responder, RefusesAMessageLongerThanTheReceiveAndTellsTheOwner) {
  Server server(1, {.qp = {.receive_bytes_max = 600}});
  server.receive(kFirst, 5000, 256);
  server.receive(kMiddle, 5001, 256);
  server.receive(kLast, 5002, 89);
  EXPECT_EQ(server.sent(), (SentList{nak(5002, NakCode::kInvalidRequest, 0)}));
  EXPECT_EQ(server.completions(), "receive 0 local length error");
  EXPECT_EQ(server.payloads[0].size(), 0u);
  EXPECT_EQ(server.qp->error().cause, QpErrorCause::kMessageTooLong);
}

TEST(Responder, AcceptsAMessageOfExactlyTheReceive) {
  Server server(1, {.qp = {.receive_bytes_max = 600}});
  server.receive(kFirst, 5000, 256);
  server.receive(kMiddle, 5001, 256);
  server.receive(kLast, 5002, 88);
  EXPECT_EQ(server.completions(), "receive 0 success");
}

TEST(Responder, NothingIsProcessedAfterError) {  // CVE-2026-93107
  Server server(8);
  server.receive(kLast, 5000, 10);
  (void)server.sent();
  ASSERT_TRUE(server.qp->in_error());
  const auto before = server.endpoint->stats();
  uint64_t packets = 0;
  for (uint32_t opcode = 0; opcode <= 0xff; ++opcode) {
    const wire::OpcodeTraits& traits = wire::traits_of(static_cast<Opcode>(opcode));
    if (traits.kind != wire::OpcodeKind::kReserved) {
      ++packets;
      EXPECT_FALSE(server.receive(static_cast<Opcode>(opcode), 5000, traits.may_carry_payload ? 16 : 0));
    }
  }
  EXPECT_EQ(server.sent(), SentList{});
  EXPECT_EQ(server.completions(), "");
  EXPECT_EQ(server.endpoint->stats().packets_in, before.packets_in);
  EXPECT_EQ(server.discards(DropReason::kUnknownQp), packets);
}

// F5 of tests/requirements/hostile.md
TEST(Responder, InitReceivesNothing) {
  Server server(8, {.state = QpState::kInit});
  EXPECT_FALSE(server.receive(kOnly, 5000, 10));
  EXPECT_EQ(server.discards(DropReason::kUnknownQp), 1u);
}

TEST(Responder, ReadyToReceiveExecutesRequestsAndSaysThatThePeerIsThere) {
  Server server(8, {.state = QpState::kRtr});
  EXPECT_FALSE(server.qp->communication_established());
  EXPECT_TRUE(server.receive(kOnly, 5000, 10));
  EXPECT_TRUE(server.qp->communication_established());
  EXPECT_EQ(server.endpoint->poll_ready(), server.qp);
  EXPECT_EQ(server.sent(), (SentList{ack(5000, 1)}));
  server.receive_ack(1000);
  EXPECT_EQ(server.discards(DropReason::kPsnStale), 1u);
}

TEST(Responder, PsnAndMsnWrap) {
  Server server(8, {.remote_psn = 0xff'fffe});
  for (const uint32_t psn : {0xff'fffeu, 0xff'ffffu, 0u, 1u}) {
    EXPECT_TRUE(server.receive(kOnly, psn, 10));
  }
  EXPECT_EQ(server.sent(), (SentList{ack(1, 4)}));
  server.receive(kOnly, 0xff'ffff, 10);
  EXPECT_EQ(server.endpoint->stats().duplicate_requests, 1u);
  EXPECT_EQ(server.sent(), (SentList{ack(1, 4)}));
}

TEST(Responder, TheMessageSequenceNumberWrapsAt24Bits) {
  LoneQp lone;
  RcCore core(1, 4, 4, 0, RecoveryLimits{}, 0, 1, nullptr);
  QpContext context(core);
  context.mtu_bytes = 256;
  context.mtu_shift = 8;
  context.psn_window_packets = 1u << 20;
  ReceiveState state;
  state.receives = 2;
  state.receive_bytes_max = 256;
  state.msn = 0xff'ffff;
  wire::PacketView view{};
  view.traits = &wire::traits_of(kOnly);
  view.bth.opcode = kOnly;
  EXPECT_EQ(on_request(context, state, Instant(), view, nullptr).failure, QpErrorCause::kNone);
  EXPECT_EQ(state.msn, 0u);
  core.receives.destroy(context.completions.pop());
}

TEST(Responder, DeliversImmediateData) {
  Server server;
  Inbound inbound{.opcode = Opcode::kRcSendOnlyImmediate, .psn = 5000, .payload = random_bytes(1, 10)};
  inbound.extensions.immediate = 0xabcd;
  server.receive(inbound);
  EXPECT_EQ(server.completions(), "receive 0 success");
  EXPECT_EQ(server.last_immediate, 0xabcdu);
}

TEST(Responder, SaysThatTheSenderWantsTheOwnerWoken) {
  Server server(3);
  server.receive({.opcode = kOnly, .psn = 5000, .payload = random_bytes(1, 10), .solicited = true});
  EXPECT_EQ(server.completions(), "receive 0 success");
  EXPECT_TRUE(server.last_solicited);
  // Of a longer message the last packet says it.
  server.receive({.opcode = kFirst, .psn = 5001, .payload = random_bytes(1, 256), .solicited = true});
  server.receive({.opcode = kLast, .psn = 5002, .payload = random_bytes(1, 10)});
  EXPECT_EQ(server.completions(), "receive 0 success");
  EXPECT_FALSE(server.last_solicited);
  Client client;
  client.qp->post_receives(1);
  Inbound inbound = client.with_reth(Opcode::kRcWriteOnlyImmediate, 5000, 0, 16, 16);
  inbound.solicited = true;
  client.receive(inbound);
  EXPECT_EQ(client.completions(), "receive RDMA with immediate 0 success");
  EXPECT_TRUE(client.last_solicited);
}

// No alternate path is ever armed, so that the bit means nothing to us: RNICs set it, rxe does not.
TEST(Responder, TheMigrationBitChangesNothing) {
  Server server(2);
  EXPECT_TRUE(server.receive({.opcode = kOnly, .psn = 5000, .payload = random_bytes(1, 10), .migration_request = false}));
  EXPECT_TRUE(server.receive({.opcode = kOnly, .psn = 5001, .payload = random_bytes(1, 10), .migration_request = true}));
  EXPECT_EQ(server.completions(), "receive 0 success; receive 0 success");
}

TEST(Responder, RefusesSendWithInvalidateWhereNoMemoryIsExposed) {
  Server server;
  Inbound inbound{.opcode = Opcode::kRcSendOnlyInvalidate, .psn = 5000, .payload = random_bytes(1, 10)};
  inbound.extensions.invalidate = verbs::Rkey(1);
  server.receive(inbound);
  EXPECT_EQ(server.sent(), (SentList{nak(5000, NakCode::kRemoteAccessError, 0)}));
  EXPECT_EQ(server.completions(), "");
  EXPECT_EQ(server.qp->error().cause, QpErrorCause::kMemoryAccess);
}

// Proves CMPD-3.2-2.
TEST(Responder, InvalidatesTheKeyBeforeItDelivers) {
  Client client;
  client.qp->post_receives(1);
  Inbound inbound{.opcode = Opcode::kRcSendOnlyInvalidate, .psn = 5000, .payload = random_bytes(1, 10)};
  inbound.extensions.invalidate = client.key;
  client.receive(inbound);
  EXPECT_EQ(client.memory.region_count(), 0u);
  EXPECT_EQ(client.completions(), "receive 0 success");
  EXPECT_EQ(client.last_invalidated, client.key);
}

// R9 of tests/requirements/hostile.md
TEST(Responder, CannotInvalidateAKeyOfAnotherDomain) {
  Client client(verbs::RemoteAccess::kReadWrite, verbs::ProtectionDomain(8));
  client.qp->post_receives(1);
  Inbound inbound{.opcode = Opcode::kRcSendOnlyInvalidate, .psn = 5000, .payload = random_bytes(1, 10)};
  inbound.extensions.invalidate = client.key;
  client.receive(inbound);
  EXPECT_EQ(client.memory.region_count(), 1u);
  EXPECT_EQ(client.sent(), (SentList{nak(5000, NakCode::kRemoteAccessError, 0)}));
}

// Proves RPCRDMA-2.3.2-8.
TEST(Responder, WritesIntoTheNamedMemory) {
  Client client;
  client.receive(client.with_reth(Opcode::kRcWriteFirst, 5000, 100, 300, 256));
  EXPECT_FALSE(client.receive(Opcode::kRcWriteLast, 5001, 44));
  EXPECT_EQ(client.part(100, 256), random_bytes(5000, 256));
  EXPECT_EQ(client.part(356, 44), random_bytes(5001, 44));
  EXPECT_EQ(client.region[99], 0xee);
  EXPECT_EQ(client.region[400], 0xee);
  EXPECT_EQ(client.completions(), "");
  EXPECT_EQ(client.sent(), (SentList{ack(5001, 1)}));
}

TEST(Responder, AWriteWithImmediateTakesAReceiveAtItsEnd) {
  Client client;
  Inbound inbound = client.with_reth(Opcode::kRcWriteOnlyImmediate, 5000, 0, 16, 16);
  inbound.extensions.immediate = 5;
  client.receive(inbound);
  EXPECT_EQ(client.sent(), (SentList{rnr_nak(5000, 12, 0)}));
  EXPECT_TRUE(client.untouched());
  client.qp->post_receives(1);
  client.receive(inbound);
  EXPECT_EQ(client.completions(), "receive RDMA with immediate 0 success");
  EXPECT_EQ(client.last_immediate, 5u);
  EXPECT_EQ(client.part(0, 16), random_bytes(5000, 16));
}

TEST(Responder, AnEmptyWriteDoesNotLookAtItsKey) {
  Client client;
  Inbound inbound{.opcode = Opcode::kRcWriteOnly, .psn = 5000};
  inbound.extensions.reth = wire::Reth{~0ull, verbs::Rkey(12345), 0};
  client.receive(inbound);
  EXPECT_EQ(client.sent(), (SentList{ack(5000, 1)}));
}

// Proves RPCRDMA-8.1.1-1, RPCRDMA-8.1-1.
TEST(Responder, RefusesMemoryThatThePeerHasNoRightTo) {  // CVE-2026-98365
  const auto region = [](Client& client) { return client.memory.address_of(client.key); };
  struct Case {
    const char* what;
    verbs::RemoteAccess access;
    uint32_t domain;
    std::function<wire::Reth(Client&)> reth;
  };
  const Case cases[] = {
      {"unknown key", verbs::RemoteAccess::kReadWrite, 7,
       [&](Client& c) {
         return wire::Reth{region(c), verbs::Rkey(c.key.value() + 1), 16};
       }},
      {"other domain", verbs::RemoteAccess::kReadWrite, 8,
       [&](Client& c) {
         return wire::Reth{region(c), c.key, 16};
       }},
      {"read only", verbs::RemoteAccess::kRead, 7,
       [&](Client& c) {
         return wire::Reth{region(c), c.key, 16};
       }},
      {"one before", verbs::RemoteAccess::kReadWrite, 7,
       [&](Client& c) {
         return wire::Reth{region(c) - 1, c.key, 16};
       }},
      {"one past", verbs::RemoteAccess::kReadWrite, 7,
       [&](Client& c) {
         return wire::Reth{region(c) + 4081, c.key, 16};
       }},
      {"address wraps", verbs::RemoteAccess::kReadWrite, 7,
       [](Client& c) {
         return wire::Reth{~0ull - 7, c.key, 16};
       }},
  };
  for (const Case& one : cases) {
    Client client(one.access, verbs::ProtectionDomain(one.domain));
    Inbound inbound{.opcode = Opcode::kRcWriteOnly, .psn = 5000, .payload = random_bytes(1, 16)};
    inbound.extensions.reth = one.reth(client);
    client.receive(inbound);
    EXPECT_EQ(client.sent(), (SentList{nak(5000, NakCode::kRemoteAccessError, 0)})) << one.what;
    EXPECT_EQ(client.qp->error().cause, QpErrorCause::kMemoryAccess) << one.what;
    EXPECT_TRUE(client.untouched()) << one.what;
  }
}

TEST(Responder, RefusesAWriteWhoseLengthIsNotWhatItAnnounced) {
  struct Case {
    const char* what;
    Opcode opcode;
    uint32_t announced;
    size_t first_bytes;
    size_t last_bytes;  // 0: no second packet
  };
  const Case cases[] = {
      {"only, less", Opcode::kRcWriteOnly, 20, 16, 0},      {"only, more", Opcode::kRcWriteOnly, 12, 16, 0},
      {"only, none", Opcode::kRcWriteOnly, 16, 0, 0},       {"first says all", Opcode::kRcWriteFirst, 256, 256, 0},
      {"last, less", Opcode::kRcWriteFirst, 300, 256, 40},  {"last, more", Opcode::kRcWriteFirst, 300, 256, 48},
      {"huge", Opcode::kRcWriteFirst, 0xffff'ffff, 256, 0},
  };
  for (const Case& one : cases) {
    Client client;
    client.receive(client.with_reth(one.opcode, 5000, 0, one.announced, one.first_bytes));
    if (one.last_bytes > 0) {
      client.receive(Opcode::kRcWriteLast, 5001, one.last_bytes);
    }
    EXPECT_EQ(client.qp->error().cause, QpErrorCause::kWriteLength) << one.what;
  }
}

TEST(Responder, AWriteStopsWhenItsRegionIsWithdrawn) {
  Client client;
  client.receive(client.with_reth(Opcode::kRcWriteFirst, 5000, 0, 300, 256));
  client.memory.invalidate(verbs::ProtectionDomain(7), client.key);
  client.receive(Opcode::kRcWriteLast, 5001, 44);
  EXPECT_EQ(client.qp->error().cause, QpErrorCause::kMemoryAccess);
  EXPECT_EQ(client.region[256], 0xee);
}

// Proves RPCRDMA-2.3.2-10.
TEST(Responder, AnswersAReadFromTheNamedMemory) {
  Client client;
  client.region = random_bytes(3, 4096);
  client.memory.invalidate(verbs::ProtectionDomain(7), client.key);
  client.key = *client.memory.register_region(verbs::ProtectionDomain(7), client.region, verbs::RemoteAccess::kRead);
  client.receive(client.with_reth(Opcode::kRcReadRequest, 5000, 10, 600));
  EXPECT_EQ(client.sent(), (SentList{{Opcode::kRcReadResponseFirst, 5000, false, 256, 31, 1},
                                     {Opcode::kRcReadResponseMiddle, 5001, false, 256},
                                     {Opcode::kRcReadResponseLast, 5002, false, 88, 31, 1}}));
  std::vector<uint8_t> data;
  for (const auto& frame : client.frames) {
    const auto view = wire::PacketView::parse(frame);
    data.insert(data.end(), view->payload.begin(), view->payload.end());
  }
  EXPECT_EQ(data, client.part(10, 600));
  EXPECT_EQ(client.completions(), "");
  EXPECT_EQ(client.qp->info().expected_psn, Psn(5003));
}

TEST(Responder, AnswersNoReadsWhenNoneWereAgreed) {
  LoneQpOptions options = client_options();
  options.connect.responder_resources = 0;
  LoneQp lone(options);
  lone.receive(Opcode::kRcReadRequest, 5000);
  EXPECT_EQ(lone.sent(), (SentList{nak(5000, NakCode::kInvalidRequest, 0)}));
}

TEST(Responder, AReadOfNothingHasOneEmptyResponse) {
  Client client;
  Inbound inbound{.opcode = Opcode::kRcReadRequest, .psn = 5000};
  inbound.extensions.reth = wire::Reth{0, verbs::Rkey(0), 0};
  client.receive(inbound);
  EXPECT_EQ(client.sent(), (SentList{{Opcode::kRcReadResponseOnly, 5000, false, 0, 31, 1}}));
}

TEST(Responder, RepliesStayInPsnOrderBehindAReadUnderWay) {
  Client client;
  client.qp->post_receives(1);
  client.receive(client.with_reth(Opcode::kRcReadRequest, 5000, 0, 300));
  client.receive(kOnly, 5002, 10);
  EXPECT_EQ(client.sent(), (SentList{{Opcode::kRcReadResponseFirst, 5000, false, 256, 31, 1},
                                     {Opcode::kRcReadResponseLast, 5001, false, 44, 31, 1},
                                     ack(5002, 2)}));
  (void)client.completions();
}

TEST(Responder, ReplaysARepeatedReadFromTheRequestedPacket) {
  Client client;
  client.receive(client.with_reth(Opcode::kRcReadRequest, 5000, 0, 600));
  (void)client.sent();
  client.receive(client.with_reth(Opcode::kRcReadRequest, 5001, 256, 344));
  EXPECT_EQ(client.sent(), (SentList{{Opcode::kRcReadResponseFirst, 5001, false, 256, 31, 1},
                                     {Opcode::kRcReadResponseLast, 5002, false, 88, 31, 1}}));
  EXPECT_EQ(client.qp->info().expected_psn, Psn(5003));
  EXPECT_EQ(client.endpoint->stats().reads_replayed, 1u);
}

TEST(Responder, ARepeatedReadMustNotNameOtherMemory) {
  Client client;
  client.receive(client.with_reth(Opcode::kRcReadRequest, 5000, 0, 600));
  (void)client.sent();
  client.receive(client.with_reth(Opcode::kRcReadRequest, 5000, 1, 600));
  client.receive(client.with_reth(Opcode::kRcReadRequest, 5000, 0, 601));
  client.receive(client.with_reth(Opcode::kRcReadRequest, 5001, 0, 600));
  client.receive(client.with_reth(Opcode::kRcReadRequest, 4999, 0, 600));
  EXPECT_EQ(client.sent(), SentList{});
  EXPECT_EQ(client.discards(DropReason::kDuplicate), 4u);
  EXPECT_EQ(client.qp->state(), QpState::kRts);
}

TEST(Responder, ARepeatedReadOfWithdrawnMemoryShowsNothing) {
  Client client;
  client.receive(client.with_reth(Opcode::kRcReadRequest, 5000, 0, 600));
  (void)client.sent();
  client.memory.invalidate(verbs::ProtectionDomain(7), client.key);
  client.receive(client.with_reth(Opcode::kRcReadRequest, 5000, 0, 600));
  client.receive(Inbound{.opcode = Opcode::kRcReadRequest, .psn = 5000});
  EXPECT_EQ(client.sent(), SentList{});
  EXPECT_EQ(client.qp->state(), QpState::kRts);
}

// Found by causeway-load with large SINK calls: a probe made the server repeat a READ that had been answered, the call ended and
// its memory with it while the repetition was still waiting, and a healthy connection was lost.
TEST(Responder, MemoryWithdrawnBeforeARepeatedReadIsAnsweredIsNoError) {
  Client client;
  client.qp->post_receives(1);
  client.receive(client.with_reth(Opcode::kRcReadRequest, 5000, 0, 600));
  (void)client.sent();
  client.receive(client.with_reth(Opcode::kRcReadRequest, 5000, 0, 600));
  client.memory.invalidate(verbs::ProtectionDomain(7), client.key);
  client.receive(kOnly, 5003, 10);
  EXPECT_EQ(client.sent(), (SentList{ack(5003, 2)}));
  EXPECT_EQ(client.qp->state(), QpState::kRts);
  (void)client.completions();
}

TEST(Responder, MemoryWithdrawnDuringAReadEndsTheConnection) {
  Client client;
  client.receive(client.with_reth(Opcode::kRcReadRequest, 5000, 0, 600));
  client.memory.invalidate(verbs::ProtectionDomain(7), client.key);
  EXPECT_EQ(client.sent(), (SentList{nak(5003, NakCode::kRemoteOperationalError, 1)}));
  EXPECT_EQ(client.qp->error().cause, QpErrorCause::kMemoryGone);
}

TEST(Responder, MoreReadsThanItCanRememberWait) {
  Client client;
  for (uint32_t i = 0; i < 17; ++i) {
    client.receive(client.with_reth(Opcode::kRcReadRequest, 5000 + i, 0, 8));
  }
  EXPECT_EQ(client.discards(DropReason::kNoBuffer), 1u);
  EXPECT_EQ(client.sent().size(), 16u);
  client.receive(client.with_reth(Opcode::kRcReadRequest, 5016, 0, 8));
  EXPECT_EQ(client.sent().size(), 1u);
}

TEST(Responder, AReadLongerThanTheStandardAllowsIsRefused) {
  Client client;
  client.receive(client.with_reth(Opcode::kRcReadRequest, 5000, 0, 0x8000'0001));
  EXPECT_EQ(client.sent(), (SentList{nak(5000, NakCode::kInvalidRequest, 0)}));
  EXPECT_EQ(client.qp->error().cause, QpErrorCause::kMessageTooLong);
}

// F5 of tests/requirements/hostile.md
TEST(Responder, EveryOpcodeInEveryStateLeavesAConsistentQueuePair) {
  for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
    for (uint32_t opcode = 0; opcode <= 0xff; ++opcode) {
      const wire::OpcodeTraits& traits = wire::traits_of(static_cast<Opcode>(opcode));
      if (traits.kind == wire::OpcodeKind::kReserved) {
        continue;
      }
      for (const int32_t ahead : {0, 1, -1}) {
        Server server(4, {.state = state});
        server.receive(static_cast<Opcode>(opcode), static_cast<uint32_t>(5000 + ahead), traits.may_carry_payload ? 16 : 0);
        (void)server.sent();
        (void)server.completions();
      }
    }
  }
}

}  // namespace
}  // namespace cw::rc::test
