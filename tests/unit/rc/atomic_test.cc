// Atomic operations, asked for and executed: each once, however often its packets are lost or repeated (IBA 9.4.5).
#include <cstring>

#include "rocev2/rc/responder_checks.h"
#include "tests/unit/rc/lone_qp.h"

namespace cw::rc::test {
namespace {

constexpr Opcode kCompareSwap = Opcode::kRcCompareSwap;
constexpr Opcode kFetchAdd = Opcode::kRcFetchAdd;
constexpr Opcode kAtomicAck = Opcode::kRcAtomicAcknowledge;

Sent atomic_ack(uint32_t psn, uint32_t msn) {
  return Sent{kAtomicAck, psn, false, 0, wire::Aeth::kCreditsInvalid, msn};
}

LoneQpOptions atomic_options(verbs::RemoteAccess allowed = verbs::RemoteAccess::kAll) {
  LoneQpOptions options = client_options();
  options.qp.remote_access = allowed;
  return options;
}

// Four numbers that the peer may work on.
struct Counters : LoneQp {
  explicit Counters(const LoneQpOptions& options = atomic_options(), verbs::RemoteAccess access = verbs::RemoteAccess::kAll)
      : LoneQp(options), key(*memory.register_region(verbs::ProtectionDomain(7), raw(), access)) {}

  MutableBytes raw() { return {reinterpret_cast<uint8_t*>(numbers.data()), sizeof(numbers)}; }
  Inbound request(Opcode opcode, uint32_t psn, uint64_t operand, uint64_t compare = 0, uint64_t offset = 0) {
    Inbound inbound{.opcode = opcode, .psn = psn};
    inbound.extensions.atomic_eth = wire::AtomicEth{memory.address_of(key) + offset, key, operand, compare};
    return inbound;
  }
  // What the `index`-th frame of the last sent() says that the memory held.
  uint64_t answer(size_t index = 0) const { return wire::PacketView::parse(frames[index])->atomic_ack_eth().original; }

  std::array<uint64_t, 4> numbers{10, 20, 30, 40};
  verbs::Rkey key;
};

TEST(AtomicRequester, AsksAndReportsWhatTheMemoryHeld) {
  LoneQp lone;
  ASSERT_TRUE(lone.post_fetch_add(5, 1).ok());
  ASSERT_TRUE(lone.post_compare_swap(7, 9, 2).ok());
  EXPECT_EQ(lone.sent(), (SentList{{kFetchAdd, 1000, true, 0}, {kCompareSwap, 1001, true, 0}}));
  EXPECT_EQ(wire::PacketView::parse(lone.frames[0])->atomic_eth(), (wire::AtomicEth{0x10000, verbs::Rkey(0x77), 5, 0}));
  EXPECT_EQ(wire::PacketView::parse(lone.frames[1])->atomic_eth(), (wire::AtomicEth{0x10000, verbs::Rkey(0x77), 9, 7}));
  lone.receive_atomic_ack(1000, 0x1122334455667788);
  EXPECT_EQ(lone.completions(), "fetch and add 1 success");
  EXPECT_EQ(lone.last_original, 0x1122334455667788u);
  lone.receive_atomic_ack(1001, 7);
  EXPECT_EQ(lone.completions(), "compare and swap 2 success");
  EXPECT_EQ(lone.last_original, 7u);
}

TEST(AtomicRequester, CountsAgainstTheSameDepthAsReads) {
  LoneQp lone({.connect = {.path_mtu_bytes = 256, .initiator_depth = 2}});
  ASSERT_TRUE(lone.post_read(10, 1).ok());
  ASSERT_TRUE(lone.post_fetch_add(1, 2).ok());
  ASSERT_TRUE(lone.post_fetch_add(1, 3).ok());
  EXPECT_EQ(lone.sent().size(), 2u);
  lone.receive_response(Opcode::kRcReadResponseOnly, 1000, 10);
  EXPECT_EQ(lone.sent(), (SentList{{kFetchAdd, 1002, true, 0}}));
}

TEST(AtomicRequester, RefusesWhatThePeerCannotAnswer) {
  LoneQp lone({.connect = {.path_mtu_bytes = 256, .initiator_depth = 0}});
  EXPECT_EQ(lone.post_fetch_add(1).error(), Error::kUnsupported);
}

TEST(AtomicRequester, AFenceWaitsForTheAtomicBeforeIt) {
  LoneQp lone;
  ASSERT_TRUE(lone.post_fetch_add(1, 1).ok());
  ASSERT_TRUE(lone.qp->post_atomic({.id = verbs::WorkId(2), .rkey = verbs::Rkey(0x77), .operand = 1, .fence = true}).ok());
  EXPECT_EQ(lone.sent().size(), 1u);
  lone.receive_atomic_ack(1000, 0);
  EXPECT_EQ(lone.sent(), (SentList{{kFetchAdd, 1001, true, 0}}));
}

TEST(AtomicRequester, AnAcknowledgementDoesNotCompleteIt) {
  LoneQp lone;
  ASSERT_TRUE(lone.post_fetch_add(5, 1).ok());
  ASSERT_TRUE(lone.post_send(10, 2).ok());
  (void)lone.sent();
  lone.receive_ack(1001);  // the atomic's answer was lost: implied NAK
  EXPECT_EQ(lone.completions(), "");
  lone.wait_for_late_ones();
  EXPECT_EQ(lone.sent(), (SentList{{kFetchAdd, 1000, true, 0}}));
  EXPECT_EQ(wire::PacketView::parse(lone.frames[0])->atomic_eth(), (wire::AtomicEth{0x10000, verbs::Rkey(0x77), 5, 0}));
  EXPECT_EQ(lone.endpoint->stats().implied_naks, 1u);
  lone.receive_atomic_ack(1000, 3);
  EXPECT_EQ(lone.completions(), "fetch and add 1 success; send 2 success");
}

TEST(AtomicRequester, AnAnswerThatComesEarlyIsKept) {
  LoneQp lone;
  ASSERT_TRUE(lone.post_fetch_add(5, 1).ok());
  ASSERT_TRUE(lone.post_fetch_add(6, 2).ok());
  (void)lone.sent();
  lone.receive_atomic_ack(1001, 105);
  EXPECT_EQ(lone.completions(), "");
  lone.wait_for_late_ones();
  EXPECT_EQ(lone.sent(), (SentList{{kFetchAdd, 1000, true, 0}}));
  EXPECT_EQ(wire::PacketView::parse(lone.frames[0])->atomic_eth(), (wire::AtomicEth{0x10000, verbs::Rkey(0x77), 5, 0}));
  lone.receive_atomic_ack(1000, 100);
  EXPECT_EQ(lone.completions(), "fetch and add 1 success; fetch and add 2 success");
  EXPECT_EQ(lone.last_original, 105u);
  EXPECT_EQ(lone.sent().size(), 0u);
}

TEST(AtomicRequester, AcknowledgesWhatWasSentBeforeIt) {
  LoneQp lone;
  ASSERT_TRUE(lone.post_send(10, 1).ok());
  ASSERT_TRUE(lone.post_fetch_add(5, 2).ok());
  (void)lone.sent();
  lone.receive_atomic_ack(1001, 0);
  EXPECT_EQ(lone.completions(), "send 1 success; fetch and add 2 success");
}

TEST(AtomicRequester, AsksAgainAfterATimeoutWithTheSamePsn) {
  LoneQp lone;
  ASSERT_TRUE(lone.post_fetch_add(5).ok());
  (void)lone.sent();
  const auto original = lone.frames[0];
  lone.pass(ack_timeout(8));
  EXPECT_EQ(lone.sent(), (SentList{{kFetchAdd, 1000, true, 0}}));
  EXPECT_EQ(wire::PacketView::parse(lone.frames[0])->atomic_eth(), wire::PacketView::parse(original)->atomic_eth());
  lone.receive_atomic_ack(1000, 1);
  lone.receive_atomic_ack(1000, 1);
  EXPECT_EQ(lone.completions(), "fetch and add 1 success");
  EXPECT_EQ(lone.discards(DropReason::kDuplicate), 1u);
}

TEST(AtomicRequester, AnAnswerThatDoesNotFitIsIgnored) {
  LoneQp lone;
  lone.receive_atomic_ack(1000, 1);
  EXPECT_EQ(lone.discards(DropReason::kPsnStale), 1u);
  ASSERT_TRUE(lone.post_read(10, 1).ok());
  (void)lone.sent();
  lone.receive_atomic_ack(1000, 1);
  EXPECT_EQ(lone.discards(DropReason::kUnexpected), 1u);
  lone.receive_response(Opcode::kRcReadResponseOnly, 1000, 10);
  ASSERT_TRUE(lone.post_fetch_add(1, 2).ok());
  (void)lone.sent();
  lone.receive_response(Opcode::kRcReadResponseOnly, 1001, 8);
  lone.receive_atomic_ack(1001, 1, 0x61);  // an answer that is a refusal is none
  EXPECT_EQ(lone.discards(DropReason::kUnexpected), 3u);
  EXPECT_EQ(lone.completions(), "RDMA read 1 success");
  EXPECT_EQ(lone.qp->state(), QpState::kRts);
}

TEST(AtomicRequester, ARefusalFailsIt) {
  LoneQp lone;
  ASSERT_TRUE(lone.post_fetch_add(1, 1).ok());
  ASSERT_TRUE(lone.post_compare_swap(1, 2, 2).ok());
  (void)lone.sent();
  lone.receive_nak(1000, NakCode::kRemoteAccessError);
  EXPECT_EQ(lone.completions(), "fetch and add 1 remote access error; compare and swap 2 work request flushed");
}

TEST(AtomicResponder, AddsModulo64BitsAndAnswersWithTheOldValue) {
  Counters peer;
  peer.receive(peer.request(kFetchAdd, 5000, 5));
  EXPECT_EQ(peer.sent(), (SentList{atomic_ack(5000, 1)}));
  EXPECT_EQ(peer.answer(), 10u);
  EXPECT_EQ(peer.numbers[0], 15u);
  peer.receive(peer.request(kFetchAdd, 5001, ~0ull - 15, 0, 8));
  peer.receive(peer.request(kFetchAdd, 5002, 1, 0, 8));
  EXPECT_EQ(peer.sent(), (SentList{atomic_ack(5001, 2), atomic_ack(5002, 3)}));
  EXPECT_EQ(peer.answer(1), 4u);
  EXPECT_EQ(peer.numbers, (std::array<uint64_t, 4>{15, 5, 30, 40}));
}

TEST(AtomicResponder, SwapsOnlyWhatCompares) {
  Counters peer;
  peer.receive(peer.request(kCompareSwap, 5000, 99, 11));
  peer.receive(peer.request(kCompareSwap, 5001, 98, 10));
  peer.receive(peer.request(kCompareSwap, 5002, 97, 10));
  EXPECT_EQ(peer.sent().size(), 3u);
  EXPECT_EQ(peer.answer(0), 10u);
  EXPECT_EQ(peer.answer(1), 10u);
  EXPECT_EQ(peer.answer(2), 98u);
  EXPECT_EQ(peer.numbers[0], 98u);
}

TEST(AtomicResponder, ARepeatedAtomicIsAnsweredAgainAndNotExecutedAgain) {
  Counters peer;
  peer.receive(peer.request(kFetchAdd, 5000, 5));
  peer.receive(peer.request(kFetchAdd, 5001, 5));
  peer.receive(peer.request(kCompareSwap, 5002, 7, 20));
  (void)peer.sent();
  for (int i = 0; i < 3; ++i) {
    peer.receive(peer.request(kFetchAdd, 5000, 5));
    EXPECT_EQ(peer.sent(), (SentList{atomic_ack(5000, 1)}));
    EXPECT_EQ(peer.answer(), 10u);
    peer.receive(peer.request(kCompareSwap, 5002, 7, 20));
    EXPECT_EQ(peer.sent(), (SentList{atomic_ack(5002, 3)}));
    EXPECT_EQ(peer.answer(), 20u);
  }
  EXPECT_EQ(peer.numbers[0], 7u);
  EXPECT_EQ(peer.endpoint->stats().atomics_replayed, 6u);
}

TEST(AtomicResponder, ARepetitionIsAnsweredEvenWhenItsMemoryIsGone) {
  Counters peer;
  peer.receive(peer.request(kFetchAdd, 5000, 5));
  (void)peer.sent();
  const Inbound again = peer.request(kFetchAdd, 5000, 5);
  ASSERT_TRUE(peer.memory.invalidate(verbs::ProtectionDomain(7), peer.key));
  peer.receive(again);
  EXPECT_EQ(peer.sent(), (SentList{atomic_ack(5000, 1)}));
  EXPECT_EQ(peer.answer(), 10u);
}

TEST(AtomicResponder, ARepetitionMustNameTheSameOperationOnTheSameMemory) {
  Counters peer;
  peer.receive(peer.request(kFetchAdd, 5000, 5));
  (void)peer.sent();
  peer.receive(peer.request(kCompareSwap, 5000, 5));
  peer.receive(peer.request(kFetchAdd, 5000, 5, 0, 8));
  peer.receive(peer.request(kFetchAdd, 4999, 5));
  Inbound read{.opcode = Opcode::kRcReadRequest, .psn = 5000};
  read.extensions.reth = wire::Reth{peer.memory.address_of(peer.key), peer.key, 0};
  peer.receive(read);
  EXPECT_EQ(peer.sent(), SentList{});
  EXPECT_EQ(peer.discards(DropReason::kDuplicate), 4u);
  EXPECT_EQ(peer.qp->state(), QpState::kRts);
}

TEST(AtomicResponder, AnswersStayInPsnOrderAmongReads) {
  Counters peer;
  peer.qp->post_receives(1);
  Inbound read{.opcode = Opcode::kRcReadRequest, .psn = 5000};
  read.extensions.reth = wire::Reth{peer.memory.address_of(peer.key), peer.key, 32};
  peer.receive(read);
  peer.receive(peer.request(kFetchAdd, 5001, 5));
  peer.receive(kOnly, 5002, 10);
  EXPECT_EQ(peer.sent(), (SentList{{Opcode::kRcReadResponseOnly, 5000, false, 32, 31, 1}, atomic_ack(5001, 2), ack(5002, 3)}));
  (void)peer.completions();
}

TEST(AtomicResponder, AtomicsAndReadsShareTheResponderResources) {
  Counters peer;
  for (uint32_t i = 0; i < 17; ++i) {
    peer.receive(peer.request(kFetchAdd, 5000 + i, 1));
  }
  EXPECT_EQ(peer.discards(DropReason::kNoBuffer), 1u);
  EXPECT_EQ(peer.numbers[0], 26u);
  EXPECT_EQ(peer.sent().size(), 16u);
  peer.receive(peer.request(kFetchAdd, 5016, 1));
  EXPECT_EQ(peer.sent().size(), 1u);
  EXPECT_EQ(peer.numbers[0], 27u);
}

TEST(AtomicResponder, TheLatestOfTwoWithOnePsnIsTheOneRepeated) {
  // PSNs come round after 2^24 packets; on a quiet history the older result may still be remembered.
  ReadReplay replay;
  const verbs::Rkey key(3);
  for (const uint64_t original : {100u, 200u}) {
    replay.accept({.first_psn = Psn(7), .rkey = key, .address = 8, .original = original, .kind = ReadJobKind::kFetchAdd});
    replay.finish_current();
  }
  ASSERT_TRUE(replay.replay_atomic(Psn(7), kFetchAdd, {8, key, 1, 0}));
  EXPECT_EQ(replay.request().original, 200u);
}

TEST(AtomicResponder, WhatWasForgottenWhileItsAnswerWaitedIsPassedOver) {
  // Only a peer that takes an answer for given although it has just asked for it again comes here.
  ReadReplay replay;
  const verbs::Rkey key(3);
  const auto accept = [&](uint32_t psn) {
    replay.accept({.first_psn = Psn(psn), .rkey = key, .address = 8, .original = psn, .kind = ReadJobKind::kFetchAdd});
  };
  for (uint32_t psn = 0; psn < 16; ++psn) {
    accept(psn);
    replay.finish_current();
  }
  for (const uint32_t psn : {0u, 1u, 2u}) {
    ASSERT_TRUE(replay.replay_atomic(Psn(psn), kFetchAdd, {8, key, 1, 0}));
  }
  accept(16);
  accept(17);
  EXPECT_EQ(replay.request().original, 0u);  // was being answered: complete in itself
  replay.finish_current();
  EXPECT_EQ(replay.request().original, 2u);
  replay.finish_current();
  EXPECT_EQ(replay.request().original, 16u);
  replay.finish_current();
  replay.finish_current();
  EXPECT_TRUE(replay.idle());
}

TEST(AtomicResponder, RefusesAnAddressThatIsNotAMultipleOfEight) {
  for (const uint64_t offset : {1u, 2u, 4u, 7u}) {
    Counters peer;
    peer.receive(peer.request(kFetchAdd, 5000, 5, 0, offset));
    EXPECT_EQ(peer.sent(), (SentList{nak(5000, NakCode::kInvalidRequest, 0)}));
    EXPECT_EQ(peer.qp->error().cause, QpErrorCause::kMisalignedAtomic);
    EXPECT_EQ(peer.numbers[0], 10u);
  }
}

TEST(AtomicResponder, RefusesMemoryThatThePeerHasNoRightTo) {
  const auto refused = [](Counters& peer, const Inbound& inbound, const char* what) {
    peer.receive(inbound);
    EXPECT_EQ(peer.sent(), (SentList{nak(5000, NakCode::kRemoteAccessError, 0)})) << what;
    EXPECT_EQ(peer.qp->error().cause, QpErrorCause::kMemoryAccess) << what;
    EXPECT_EQ(peer.numbers, (std::array<uint64_t, 4>{10, 20, 30, 40})) << what;
  };
  {
    Counters peer(atomic_options(), verbs::RemoteAccess::kReadWrite);
    refused(peer, peer.request(kFetchAdd, 5000, 5), "read and write only");
  }
  {
    Counters peer;
    refused(peer, peer.request(kFetchAdd, 5000, 5, 0, 32), "past the end");
  }
  {
    Counters peer;
    Inbound inbound = peer.request(kCompareSwap, 5000, 5, 10);
    inbound.extensions.atomic_eth.rkey = verbs::Rkey(peer.key.value() + 1);
    refused(peer, inbound, "unknown key");
  }
  {
    Counters peer;
    Inbound inbound = peer.request(kCompareSwap, 5000, 5, 10);
    inbound.extensions.atomic_eth.address = ~0ull - 7;
    refused(peer, inbound, "address at the end of the space");
  }
}

TEST(AtomicResponder, RefusesWhereAtomicsAreNotEnabled) {
  const auto expect_refusal = [](Counters& peer) {
    peer.receive(peer.request(kFetchAdd, 5000, 5));
    EXPECT_EQ(peer.sent(), (SentList{nak(5000, NakCode::kInvalidRequest, 0)}));
    EXPECT_EQ(peer.qp->error().cause, QpErrorCause::kOperationNotAllowed);
    EXPECT_EQ(peer.numbers[0], 10u);
  };
  Counters not_allowed(atomic_options(verbs::RemoteAccess::kReadWrite));
  expect_refusal(not_allowed);
  LoneQpOptions options = atomic_options();
  options.connect.responder_resources = 0;
  Counters no_resources(options);
  expect_refusal(no_resources);
}

TEST(AtomicResponder, RefusesARequestWithPayloadWhereNoneBelongs) {
  RcCore core(1, 1, 1, 0, RecoveryLimits{}, 0, 1, nullptr);
  const QpContext context(core);
  const std::vector<uint8_t> payload(8);
  for (const Opcode opcode : {kFetchAdd, kCompareSwap, Opcode::kRcReadRequest}) {
    wire::PacketView view{};
    view.traits = &wire::traits_of(opcode);
    view.payload = payload;
    EXPECT_EQ(check_length(context, ReceiveState{}, view), Verdict::invalid(QpErrorCause::kPacketLength));
  }
}

// Both ways at once over a link that loses, doubles, reorders and damages: each FetchAdd of 1 sees a value of its own, and
// the sum is their number.
TEST(Atomic, EachIsExecutedOnceOverABadLink) {
  uint64_t replayed = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    sim::RcPairOptions options = pair_options();
    options.seed = seed;
    options.connect = {.initiator_depth = static_cast<uint8_t>(1 + seed % 16), .responder_resources = 16, .ack_timeout = 8};
    options.qp.remote_access = verbs::RemoteAccess::kAll;
    options.qp.responder_resources_max = 16;
    options.connect.peer_hold_packets = seed % 2 == 0 ? 0 : 64;  // go-back-N, and selective recovery
    options.first_psn[0] = 0xff'ffff - static_cast<uint32_t>(seed);
    sim::RcPair pair(options);
    std::array<uint64_t, 2> counters{0, 0};
    std::array<verbs::Rkey, 2> keys;
    for (uint32_t i = 0; i < 2; ++i) {
      keys[i] = *pair.nodes[i]->memory.register_region({}, MutableBytes(reinterpret_cast<uint8_t*>(&counters[i]), 8),
                                                       verbs::RemoteAccess::kAtomic);
      pair.qps[i]->post_receives(1000);
    }
    pair.link.faults = sim::LinkFaults{.loss = 50, .duplicate = 50, .reorder = 30, .corrupt = 10, .jitter = Duration::us(3)};
    constexpr uint64_t kEach = 60;
    std::array<uint64_t, 2> posted{}, answered{}, received{};
    const auto turn = [&] {
      for (uint32_t i = 0; i < 2; ++i) {
        for (; posted[i] < kEach && pair.qps[i]->send_queue_room() > 1; ++posted[i]) {
          const uint64_t address = pair.nodes[1 - i]->memory.address_of(keys[1 - i]);
          EXPECT_TRUE(pair.qps[i]->post_atomic({.rkey = keys[1 - i], .remote_address = address, .operand = 1}).ok());
          if (posted[i] % 4 == 0) {
            EXPECT_TRUE(pair.qps[i]->post_send({.payload = pair.payload(i, random_bytes(seed, 3000)), .signaled = false}).ok());
          }
        }
        verbs::Completion completion;
        while (pair.qps[i]->poll_completion(completion)) {
          ASSERT_EQ(completion.status, verbs::WcStatus::kSuccess) << "seed " << seed;
          if (completion.opcode == verbs::WcOpcode::kReceive) {
            ++received[i];
          } else {
            ASSERT_EQ(completion.opcode, verbs::WcOpcode::kFetchAdd);
            ASSERT_EQ(completion.original, answered[i]) << "seed " << seed;
            ++answered[i];
          }
        }
      }
    };
    const bool done = pair.run([&] {
      turn();
      return ::testing::Test::HasFailure() || (answered[0] == kEach && answered[1] == kEach);
    });
    ASSERT_TRUE(done && !HasFailure()) << "seed " << seed;
    EXPECT_EQ(counters, (std::array<uint64_t, 2>{kEach, kEach})) << "seed " << seed;
    for (uint32_t i = 0; i < 2; ++i) {
      replayed += pair.stats(i).atomics_replayed;
      ASSERT_TRUE(pair.qps[i]->is_consistent());
    }
    pair.destroy();
    ASSERT_EQ(pair.buffers_in_use(), 0u) << "seed " << seed;
  }
  EXPECT_GT(replayed, 100u);
}

}  // namespace
}  // namespace cw::rc::test
