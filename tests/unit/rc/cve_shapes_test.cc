// What went wrong in other RDMA stacks, tried on a queue pair: tests/requirements/hostile.md has the list. Each test is named
// after its origin and says in one sentence what its shape is.
#include <algorithm>

#include "tests/unit/rc/lone_qp.h"

namespace cw::rc::test {
namespace {

// Client role with a region of 4096 bytes, each byte 0xee.
struct Exposed : LoneQp {
  Exposed() : LoneQp(client_options()), region(4096, 0xee) {
    key = *memory.register_region(verbs::ProtectionDomain(7), region, verbs::RemoteAccess::kReadWrite);
    base = memory.address_of(key);
  }
  Inbound access(Opcode opcode, const wire::Reth& reth, size_t payload_bytes, uint32_t psn = 5000) {
    Inbound inbound{.opcode = opcode, .psn = psn, .payload = random_bytes(psn, payload_bytes)};
    inbound.extensions.reth = reth;
    return inbound;
  }
  bool untouched() const {
    return std::ranges::all_of(region, [](uint8_t byte) { return byte == 0xee; });
  }
  std::vector<uint8_t> region;
  verbs::Rkey key;
  uint64_t base = 0;
};

// The payload of each packet of the last sent().
std::vector<std::vector<uint8_t>> payloads_of(const LoneQp& lone) {
  std::vector<std::vector<uint8_t>> out;
  for (const std::vector<uint8_t>& frame : lone.frames) {
    const auto view = wire::PacketView::parse(frame);
    EXPECT_TRUE(view.ok() && wire::verify_icrc(*view));
    out.emplace_back(view->payload.begin(), view->payload.end());
  }
  return out;
}

// Everything free in the pool is overwritten, as another owner would.
void scribble(BufferPool& pool) {
  std::vector<Buffer*> taken;
  while (Buffer* buffer = pool.allocate_one()) {
    const std::vector<uint8_t> junk(4096, 0xdd);
    (void)buffer->append(junk);
    taken.push_back(buffer);
  }
  for (Buffer* buffer : taken) {
    release_buffers(buffer);
  }
}

// rxe checked iova + length against the end of the region, and the sum wrapped: access outside of it by one RETH.
TEST(CveShapes, CVE_2026_98365_AddressPlusLengthThatWrapsIsOutsideTheRegion) {
  struct Named {
    uint64_t ahead_of_base;
    uint32_t length;
  };
  const Exposed probe;
  const uint64_t to_end_of_space = ~uint64_t{0} - probe.base;
  const Named cases[] = {{to_end_of_space, 16}, {to_end_of_space - 7, 8}, {~uint64_t{0}, 16},  {~uint64_t{4095}, 4096},
                         {4095, 0x8000'0000},   {0, 0x8000'0000},         {4096, 0x7fff'ffff}, {4095, 2}};
  for (const Named& named : cases) {
    for (const Opcode opcode : {Opcode::kRcWriteOnly, Opcode::kRcWriteFirst, Opcode::kRcReadRequest}) {
      Exposed target;
      SCOPED_TRACE(std::to_string(named.ahead_of_base) + " + " + std::to_string(named.length));
      const size_t payload = opcode == Opcode::kRcReadRequest  ? 0
                             : opcode == Opcode::kRcWriteFirst ? 256
                                                               : std::min<size_t>(named.length, 256);
      target.receive(target.access(opcode, {target.base + named.ahead_of_base, target.key, named.length}, payload));
      const SentList sent = target.sent();
      ASSERT_EQ(sent.size(), 1u);
      EXPECT_EQ(sent[0].opcode, Opcode::kRcAcknowledge);
      EXPECT_EQ(sent[0].syndrome & 0x60, 0x60) << "a NAK";
      EXPECT_EQ(target.qp->state(), QpState::kError);
      EXPECT_TRUE(target.untouched());
    }
  }
}

// rxe went on processing a packet whose queue pair had entered Error between its checks and its execution: nothing that arrives
// in Error is executed, answered or acknowledged, not even what was right before.
TEST(CveShapes, CVE_2026_93107_NothingIsExecutedOnceInError) {
  Exposed target;
  target.qp->post_receives(4);
  target.receive(target.access(Opcode::kRcWriteOnly, {target.base, verbs::Rkey(target.key.value() + 1), 16}, 16));
  ASSERT_TRUE(target.qp->in_error());
  ASSERT_EQ(target.sent().size(), 1u);
  (void)target.completions();
  const RcStats before = target.endpoint->stats();
  EXPECT_FALSE(target.receive(target.access(Opcode::kRcWriteOnly, {target.base, target.key, 16}, 16)));
  EXPECT_FALSE(target.receive(target.access(Opcode::kRcReadRequest, {target.base, target.key, 16}, 0)));
  EXPECT_FALSE(target.receive(kOnly, 5000, 16));
  EXPECT_FALSE(target.receive(kOnly, 4999, 16));
  target.receive_ack(1000);
  EXPECT_TRUE(target.untouched());
  EXPECT_EQ(target.sent(), SentList{});
  EXPECT_EQ(target.completions(), "");
  EXPECT_EQ(target.endpoint->stats().packets_in, before.packets_in);
  EXPECT_EQ(target.discards(DropReason::kUnknownQp), 5u);
}

// rxe's retransmit timer fired into a queue pair that was being destroyed: a timer that is due at the very instant of destruction
// finds nothing, and one that fails the queue pair just before does not keep it.
TEST(CveShapes, CVE_2026_45910_ATimerThatIsDueDoesNotOutliveItsQueuePair) {
  for (const bool fires_first : {false, true}) {
    LoneQp lone({.connect = {.path_mtu_bytes = 256, .initiator_depth = 4, .retry_count = 0, .ack_timeout = 8}});
    ASSERT_TRUE(lone.post_send(600).ok());
    ASSERT_TRUE(lone.post_read(600).ok());
    (void)lone.sent();
    const Instant due = lone.endpoint->next_deadline();
    ASSERT_FALSE(due.is_never());
    lone.now = due + Duration::seconds(60);
    if (fires_first) {
      while (!lone.qp->in_error()) {
        lone.pass(Duration::seconds(60));
        (void)lone.sent();
      }
    }
    lone.endpoint->destroy_qp(*lone.qp);
    lone.qp = nullptr;
    EXPECT_TRUE(lone.endpoint->next_deadline().is_never());
    lone.endpoint->on_deadline(lone.now + Duration::seconds(60));
    EXPECT_EQ(lone.endpoint->poll_ready(), nullptr);
    EXPECT_EQ(lone.endpoint->qp_count(), 0u);
    EXPECT_FALSE(lone.endpoint->has_work());
    EXPECT_EQ(lone.pool.in_use(), 0u);
  }
}

// rxe did not save all of the requester's state when a packet could not be sent, and the packets that it sent later were corrupt:
// a message that is interrupted after any of its packets for want of a buffer, and then repeated from any of them, has the same
// bytes each time.
TEST(CveShapes, CVE_2023_53539_PacketsSentAfterALocalDropAreTheSameBytes) {
  const std::vector<uint8_t> message = random_bytes(1, 1000);  // 1000, 1001, 1002, 1003
  for (uint32_t interrupted_after = 0; interrupted_after < 4; ++interrupted_after) {
    for (uint32_t back_to = 0; back_to < 4; ++back_to) {
      LoneQp lone;
      ASSERT_TRUE(lone.post_send(1000).ok());
      std::vector<uint8_t> raw;
      const auto take = [&] {
        for (const auto& payload : payloads_of(lone)) {
          raw.insert(raw.end(), payload.begin(), payload.end());
        }
      };
      {
        HeapBufferPool few(interrupted_after, 4096, 0);
        wire::TxBatch batch(few);
        lone.frames.clear();
        lone.endpoint->poll_transmit(lone.now, batch);
        for (const wire::TxPacket& packet : batch.packets()) {
          lone.frames.push_back(packet.raw());
        }
        EXPECT_EQ(batch.size(), interrupted_after);
        take();
      }
      (void)lone.sent();
      take();
      EXPECT_EQ(raw, message) << interrupted_after;
      raw.assign(message.begin(), message.begin() + back_to * 256);
      lone.receive_nak(1000 + back_to, NakCode::kPsnSequenceError);
      EXPECT_EQ(lone.sent().size(), 4 - back_to);
      take();
      EXPECT_EQ(raw, message) << interrupted_after << " " << back_to;
    }
  }
}

// rxe read a packet after it had handed it on, just to count it: whoever gets a buffer may overwrite it at once, in both
// directions, and counters and repetitions are still right.
TEST(CveShapes, CVE_2024_38544_NothingIsReadFromABufferThatWasHandedOn) {
  LoneQp lone;
  lone.qp->post_receives(2);
  EXPECT_TRUE(lone.receive(kOnly, 5000, 100));
  EXPECT_EQ(lone.completions(), "receive 0 success");
  scribble(lone.pool);  // the receive's buffer is back in the pool
  EXPECT_FALSE(lone.receive(kOnly, 5000, 100));
  EXPECT_EQ(lone.sent(), (SentList{ack(5000, 1)}));
  EXPECT_EQ(lone.endpoint->stats().payload_bytes_in, 200u);
  EXPECT_EQ(lone.endpoint->stats().packets_in, 2u);

  ASSERT_TRUE(lone.post_send(600).ok());
  ASSERT_EQ(lone.sent().size(), 3u);
  const auto first = payloads_of(lone);
  scribble(lone.pool);  // the headers' buffers are back in the pool
  EXPECT_EQ(lone.endpoint->stats().payload_bytes_out, 600u);
  lone.receive_nak(1000, NakCode::kPsnSequenceError);
  ASSERT_EQ(lone.sent().size(), 3u);
  EXPECT_EQ(payloads_of(lone), first);
  EXPECT_EQ(lone.endpoint->stats().payload_bytes_out, 1200u);
}

// rxe kept a reference to a memory region each time it answered "receiver not ready": no path that answers RNR keeps anything.
TEST(CveShapes, CVE_2022_49929_AnswersOfNotReadyKeepNothing) {
  Exposed target;
  const uint32_t regions = target.memory.region_count();
  Inbound write = target.access(Opcode::kRcWriteOnlyImmediate, {target.base, target.key, 16}, 16);
  for (uint32_t i = 0; i < 1000; ++i) {
    EXPECT_FALSE(target.receive(i % 2 == 0 ? write : Inbound{.opcode = kOnly, .psn = 5000, .payload = random_bytes(1, 10)}));
    EXPECT_EQ(target.sent(), (SentList{rnr_nak(5000, 12, 0)}));
  }
  EXPECT_EQ(target.pool.in_use(), 0u);
  EXPECT_EQ(target.memory.region_count(), regions);
  EXPECT_TRUE(target.untouched());
  EXPECT_TRUE(target.memory.invalidate(verbs::ProtectionDomain(7), target.key));  // nobody holds it
  EXPECT_EQ(target.qp->state(), QpState::kRts);
}

// rxe lost work requests that it could not execute instead of completing them in error: whatever post_*() took ends in exactly
// one completion, and what it did not take is still the caller's.
TEST(CveShapes, CVE_2021_47076_EveryPostedWorkEndsInExactlyOneCompletion) {
  LoneQp lone({.connect = {.path_mtu_bytes = 256, .initiator_depth = 0}});
  EXPECT_FALSE(lone.post_read(16).ok());  // the peer takes no READs
  for (uint64_t id = 1; id <= 9; ++id) {
    ASSERT_TRUE(lone.post_send(id * 100, id).ok());
  }
  (void)lone.sent();
  lone.receive_ack(1000);                                    // the first is through
  lone.receive_nak(1002, NakCode::kRemoteOperationalError);  // the third is refused
  std::string wanted = "send 1 success; send 2 success; send 3 remote operation error";
  const bool split = lone.qp->in_error();
  EXPECT_TRUE(split);
  const std::string got = lone.completions();
  for (uint64_t id = 1; id <= 9; ++id) {
    const std::string word = "send " + std::to_string(id) + " ";
    const size_t at = got.find(word);
    ASSERT_NE(at, std::string::npos) << got;
    EXPECT_EQ(got.find(word, at + 1), std::string::npos) << "completed twice: " << got;
  }
  EXPECT_EQ(lone.completions(), "");
  verbs::SendRequest late{.id = verbs::WorkId(10), .payload = lone.chain(random_bytes(1, 50))};
  EXPECT_FALSE(lone.qp->post_send(std::move(late)).ok());
  EXPECT_EQ(late.payload.bytes(), 50u);
}

// smbdirect believed data_offset, data_length and remaining_data_length of a message that came in pieces (CVE-2025-39942, -39943,
// -39933): the sum of the pieces is held against the receive, whatever the pieces are, and nothing of a longer one is delivered.
TEST(CveShapes, CVE_2025_39943_PiecesThatAddUpToMoreThanTheReceiveAreRefused) {
  for (const uint32_t receive_bytes : {0u, 1u, 255u, 256u, 257u, 511u, 512u, 700u}) {
    LoneQp lone({.qp = {.receive_bytes_max = receive_bytes}});
    lone.qp->post_receives(2);
    lone.receive(Opcode::kRcSendFirst, 5000, 256);
    lone.receive(Opcode::kRcSendMiddle, 5001, 256);
    lone.receive(Opcode::kRcSendLast, 5002, 189);
    const SentList sent = lone.sent();
    ASSERT_FALSE(sent.empty());
    EXPECT_EQ(sent.back().syndrome, 0x60 | static_cast<uint8_t>(NakCode::kInvalidRequest)) << receive_bytes;
    EXPECT_EQ(lone.qp->state(), QpState::kError);
    EXPECT_EQ(lone.completions().find("success"), std::string::npos);
    EXPECT_EQ(lone.pool.in_use(), 0u);
  }
}

// srpt, rtrs and nvmet-rdma added and subtracted 32-bit lengths from the wire, or wrote as much as the wire said instead of as
// much as there was (CVE-2026-74394, -97413, -64269, -72129): a WRITE's announced length is held against the region before, and
// against the payload after; a READ's against both ends.
TEST(CveShapes, CVE_2026_74394_LengthsOfTheWireAreHeldAgainstWhatIsThere) {
  for (const uint32_t length : {17u, 15u, 0u, 0x8000'0000u, 0xffff'fff0u, 0xffff'ffffu}) {
    Exposed target;
    target.receive(target.access(Opcode::kRcWriteOnly, {target.base, target.key, length}, 16));
    const SentList sent = target.sent();
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].syndrome & 0x60, 0x60) << length;
    EXPECT_TRUE(target.untouched()) << length;
  }
  for (const uint32_t length : {4097u, 0x8000'0000u, 0x8000'0001u, 0xffff'ffffu}) {
    Exposed target;
    target.receive(target.access(Opcode::kRcReadRequest, {target.base, target.key, length}, 0));
    const SentList sent = target.sent();
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].opcode, Opcode::kRcAcknowledge) << "no READ response at all: " << length;
    EXPECT_EQ(sent[0].payload_bytes, 0u);
  }
  // As the requester: a response of another length than ours was asked for is no data.
  LoneQp reader;
  ASSERT_TRUE(reader.post_read(16).ok());
  (void)reader.sent();
  EXPECT_FALSE(reader.receive_response(Opcode::kRcReadResponseOnly, 1000, 256));
  EXPECT_EQ(reader.completions(), "RDMA read 1 bad response");
}

// irdma let a zero-length registration open memory to the network: a region without bytes opens none, and an access without
// bytes touches none, whatever key it names.
TEST(CveShapes, CVE_2023_25775_ZeroLengthsOpenNothing) {
  Exposed target;
  std::vector<uint8_t> nothing;
  const verbs::Rkey empty = *target.memory.register_region(verbs::ProtectionDomain(7), nothing, verbs::RemoteAccess::kReadWrite);
  const uint64_t address = target.memory.address_of(empty);
  for (const uint64_t at : {address, address - 1, address + 1, target.base, uint64_t{0}, ~uint64_t{0}}) {
    Exposed victim;
    const verbs::Rkey key = *victim.memory.register_region(verbs::ProtectionDomain(7), nothing, verbs::RemoteAccess::kReadWrite);
    victim.receive(victim.access(Opcode::kRcWriteOnly, {at, key, 1}, 1));
    EXPECT_EQ(victim.sent(), (SentList{nak(5000, NakCode::kRemoteAccessError, 0)}));
    EXPECT_TRUE(victim.untouched());
  }
  for (const verbs::Rkey key : {empty, target.key, verbs::Rkey(0), verbs::Rkey(0xffff'ffff)}) {
    const uint32_t psn = target.qp->info().expected_psn.value();
    target.receive(target.access(Opcode::kRcWriteOnly, {~uint64_t{0}, key, 0}, 0, psn));
    EXPECT_EQ(target.sent().size(), 1u);
    EXPECT_EQ(target.qp->state(), QpState::kRts);
  }
  EXPECT_TRUE(target.untouched());
}

}  // namespace
}  // namespace cw::rc::test
