// Which of two faults of one packet decides the answer: the order of checks (IBA 9.7.4.1) as seen by the peer. Each case has a
// fault of one step and of a later one; the earlier wins.
#include <functional>

#include "tests/unit/rc/lone_qp.h"

namespace cw::rc::test {
namespace {

constexpr uint32_t kRegionBytes = 64;

// READ, WRITE and atomics of domain 7 are allowed; one region of 64 bytes.
struct Target : LoneQp {
  static LoneQpOptions options() {
    LoneQpOptions options = client_options();
    options.qp.remote_access = verbs::RemoteAccess::kAll;
    options.qp.receive_bytes_max = 300;
    options.qp.selective_recovery = false;  // a gap is answered at once
    return options;
  }
  explicit Target(const LoneQpOptions& options = Target::options())
      : LoneQp(options), key(*memory.register_region(verbs::ProtectionDomain(7), region, verbs::RemoteAccess::kAll)) {}

  Inbound write(Opcode opcode, uint32_t psn, size_t bytes, uint32_t announced) {
    Inbound inbound{.opcode = opcode, .psn = psn, .payload = random_bytes(1, bytes)};
    inbound.extensions.reth = wire::Reth{memory.address_of(key), key, announced};
    return inbound;
  }
  Inbound atomic(uint32_t psn, uint64_t offset) {
    Inbound inbound{.opcode = Opcode::kRcFetchAdd, .psn = psn};
    inbound.extensions.atomic_eth = wire::AtomicEth{memory.address_of(key) + offset, key, 1, 0};
    return inbound;
  }

  std::array<uint8_t, kRegionBytes> region{};
  verbs::Rkey key;
};

Inbound with_bad_key(Inbound inbound) {
  inbound.extensions.reth.rkey = verbs::Rkey(inbound.extensions.reth.rkey.value() + 1);
  inbound.extensions.atomic_eth.rkey = verbs::Rkey(inbound.extensions.atomic_eth.rkey.value() + 1);
  return inbound;
}

struct LadderCase {
  const char* what;
  std::function<void(Target&)> before;
  std::function<Inbound(Target&)> packet;
  SentList answer;
  QpErrorCause cause = QpErrorCause::kNone;
};

const auto kNothing = [](Target&) {};

TEST(ResponderOrder, TheEarlierCheckDecides) {
  const Sent invalid = nak(5000, NakCode::kInvalidRequest, 0);
  const Sent access = nak(5000, NakCode::kRemoteAccessError, 0);
  const Sent sequence = nak(5000, NakCode::kPsnSequenceError, 0);
  const Sent not_ready = rnr_nak(5000, 12, 0);
  const LadderCase cases[] = {
      {"PSN before opcode sequence: a gap", kNothing, [](Target&) { return send(Opcode::kRcSendLast, 5001, 10); }, {sequence}},
      {"PSN before opcode sequence: a repetition",
       kNothing,
       [](Target&) { return send(Opcode::kRcSendLast, 4999, 10); },
       {ack(4999, 0)}},
      {"PSN before memory: a gap",
       kNothing,
       [](Target& t) { return with_bad_key(t.write(Opcode::kRcWriteOnly, 5001, 8, 8)); },
       {sequence}},
      {"opcode sequence before receives",
       kNothing,
       [](Target&) { return send(Opcode::kRcSendLast, 5000, 10); },
       {invalid},
       QpErrorCause::kOpcodeSequence},
      {"opcode sequence before operation",
       [](Target& t) {
         t.qp->post_receives(1);
         t.receive(send(Opcode::kRcSendFirst, 5000, 256));
       },
       [](Target&) { return send(Opcode::kRcFetchAdd, 5001, 0); },
       {nak(5001, NakCode::kInvalidRequest, 0)},
       QpErrorCause::kOpcodeSequence},
      {"receives before length: SEND", kNothing, [](Target&) { return send(Opcode::kRcSendFirst, 5000, 100); }, {not_ready}},
      {"receives before memory: WRITE with Immediate",
       kNothing,
       [](Target& t) { return with_bad_key(t.write(Opcode::kRcWriteOnlyImmediate, 5000, 8, 8)); },
       {not_ready}},
      {"length before memory: WRITE",
       kNothing,
       [](Target& t) { return with_bad_key(t.write(Opcode::kRcWriteOnly, 5000, 8, 16)); },
       {invalid},
       QpErrorCause::kWriteLength},
      {"length before memory: READ",
       kNothing,
       [](Target& t) { return with_bad_key(t.write(Opcode::kRcReadRequest, 5000, 0, 0x8000'0001)); },
       {invalid},
       QpErrorCause::kMessageTooLong},
      {"alignment before memory: atomic",
       kNothing,
       [](Target& t) { return with_bad_key(t.atomic(5000, 4)); },
       {invalid},
       QpErrorCause::kMisalignedAtomic},
      {"memory, when nothing else is wrong",
       kNothing,
       [](Target& t) { return with_bad_key(t.write(Opcode::kRcWriteOnly, 5000, 8, 8)); },
       {access},
       QpErrorCause::kMemoryAccess},
  };
  for (const LadderCase& one : cases) {
    Target target;
    one.before(target);
    (void)target.sent();
    target.receive(one.packet(target));
    EXPECT_EQ(target.sent(), one.answer) << one.what;
    EXPECT_EQ(target.qp->error().cause, one.cause) << one.what;
    EXPECT_EQ(target.qp->in_error(), one.cause != QpErrorCause::kNone) << one.what;
    (void)target.completions();
  }
}

TEST(ResponderOrder, TheOperationIsCheckedBeforeReceivesLengthAndMemory) {
  LoneQpOptions options = Target::options();
  options.qp.remote_access = verbs::RemoteAccess::kNone;
  Target no_receive(options);
  no_receive.receive(with_bad_key(no_receive.write(Opcode::kRcWriteOnlyImmediate, 5000, 8, 16)));
  EXPECT_EQ(no_receive.sent(), (SentList{nak(5000, NakCode::kInvalidRequest, 0)}));
  EXPECT_EQ(no_receive.qp->error().cause, QpErrorCause::kOperationNotAllowed);
}

// The NAK acknowledges what was executed before it: its PSN and MSN say how far the peer came.
TEST(ResponderOrder, ARefusalAcknowledgesTheSendsBeforeIt) {
  Target target;
  target.qp->post_receives(2);
  target.receive(send(Opcode::kRcSendOnly, 5000, 10));
  target.receive(send(Opcode::kRcSendOnly, 5001, 10));
  target.receive(with_bad_key(target.write(Opcode::kRcWriteOnly, 5002, 8, 8)));
  EXPECT_EQ(target.sent(), (SentList{nak(5002, NakCode::kRemoteAccessError, 2)}));
  EXPECT_EQ(target.completions(), "receive 0 success; receive 0 success");
}

Inbound read(Target& target, uint32_t psn, uint32_t bytes) {
  Inbound inbound{.opcode = Opcode::kRcReadRequest, .psn = psn};
  inbound.extensions.reth = wire::Reth{target.memory.address_of(target.key), target.key, bytes};
  return inbound;
}

TEST(ResponderOrder, WhatWasAskedForBeforeARefusedRequestIsAnsweredBeforeTheNak) {
  Target target;
  target.receive(read(target, 5000, 64));
  target.receive(target.atomic(5001, 0));
  target.receive(read(target, 5002, 32));
  target.receive(with_bad_key(target.write(Opcode::kRcWriteOnly, 5003, 16, 16)));
  EXPECT_EQ(target.qp->error().cause, QpErrorCause::kMemoryAccess);
  target.receive(read(target, 5003, 64));  // nothing is accepted any more
  const Sent first{Opcode::kRcReadResponseOnly, 5000, false, 64, wire::Aeth::kCreditsInvalid, 1};
  const Sent second{Opcode::kRcAtomicAcknowledge, 5001, false, 0, wire::Aeth::kCreditsInvalid, 2};
  const Sent third{Opcode::kRcReadResponseOnly, 5002, false, 32, wire::Aeth::kCreditsInvalid, 3};
  EXPECT_EQ(target.sent(), (SentList{first, second, third, nak(5003, NakCode::kRemoteAccessError, 3)}));
  EXPECT_EQ(target.sent().size(), 0u);
}

TEST(ResponderOrder, MemoryThatIsWithdrawnThenEndsTheAnswersAndTheNakStays) {
  Target target;
  target.receive(read(target, 5000, 64));
  target.receive(with_bad_key(target.write(Opcode::kRcWriteOnly, 5001, 16, 16)));
  EXPECT_TRUE(target.memory.invalidate(verbs::ProtectionDomain(7), target.key));
  EXPECT_EQ(target.sent(), (SentList{nak(5001, NakCode::kRemoteAccessError, 1)}));
  EXPECT_EQ(target.qp->error().cause, QpErrorCause::kMemoryAccess);
}

TEST(ResponderOrder, AQueuePairDestroyedWithAnswersToSendSendsItsNak) {
  Target target;
  target.receive(read(target, 5000, 64));
  target.receive(with_bad_key(target.write(Opcode::kRcWriteOnly, 5001, 16, 16)));
  target.endpoint->destroy_qp(*std::exchange(target.qp, nullptr));
  wire::TxBatch batch(target.pool);
  target.endpoint->poll_transmit(target.now, batch);
  ASSERT_EQ(batch.packets().size(), 1u);
  const std::vector<uint8_t> raw = batch.packets()[0].raw();
  const auto view = wire::PacketView::parse(raw);
  EXPECT_EQ(view->bth.opcode, Opcode::kRcAcknowledge);
  EXPECT_EQ(view->aeth().kind(), wire::AethKind::kNak);
  EXPECT_EQ(target.endpoint->qp_count(), 0u);
}

}  // namespace
}  // namespace cw::rc::test
