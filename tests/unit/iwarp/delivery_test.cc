// What a user may rely on, and what not: buffers before a message is delivered, memory that was registered, the flag of a
// solicited event, and completions of several streams beside each other.
#include "tests/unit/iwarp/taken_over.h"

namespace cw::iwarp::test {
namespace {

// Nobody is woken here: the flag is the event.
// Proves RDMAP-1.2-4, RDMAP-2.4-8
TEST(IwarpDelivery, ASolicitedMessageDiffersFromAnotherInItsFlagAlone) {
  std::vector<verbs::Completion> both;
  for (const uint8_t opcode : {uint8_t{0x43}, uint8_t{0x45}}) {
    TakenOver t;
    EXPECT_TRUE(t.say(fpdu(untagged(0x41, opcode, 0, 0, 1, 0, kPayload))).empty());
    ASSERT_EQ(t.end().completions.size(), 1u);
    const verbs::Completion& each = t.end().completions[0];
    EXPECT_EQ(each.status, verbs::WcStatus::kSuccess);
    EXPECT_EQ(each.opcode, verbs::WcOpcode::kReceive);
    EXPECT_EQ(each.bytes, kPayload.size());
    EXPECT_EQ(bytes_of(each.payload), kPayload);
    EXPECT_FALSE(each.immediate || each.invalidated);
    EXPECT_EQ(each.solicited, opcode == 0x45);
  }
  // Of many, those that ask for it; one that is wrong is none.
  TakenOver t;
  for (uint32_t message = 1; message <= 6; ++message) {
    (void)t.say(fpdu(untagged(0x41, message == 4 ? 0x45 : 0x43, 0, 0, message, 0, kPayload)));
  }
  EXPECT_EQ(t.say(fpdu(untagged(0x41, 0x45, 0, 0, 7, 1, kPayload))).size(), 1u);
  ASSERT_EQ(t.end().completions.size(), 6u);
  for (uint32_t i = 0; i < 6; ++i) {
    EXPECT_EQ(t.end().completions[i].solicited, i == 3);
  }
}

// Who may use a key is settled by registering it, and by nothing that travels.
// Proves RDMAP-2.1-1, RDMAP-4.4-4
TEST(IwarpDelivery, RegisteringMemorySaysNothingAndNoMessageGivesRights) {
  TakenOver t;
  std::vector<uint8_t> memory = pattern(100);
  std::vector<uint8_t> others = pattern(100, 2);
  const verbs::Rkey key = t.expose(memory, verbs::RemoteAccess::kReadWrite);
  const auto other = t.t.client.memory.register_region(verbs::ProtectionDomain(8), others, verbs::RemoteAccess::kReadWrite);
  const uint64_t address = t.address_of(*other);
  EXPECT_TRUE(t.hear().empty());
  // The other connection's key in every field that a message has for one.
  EXPECT_TRUE(t.say(fpdu(untagged(0x41, 0x43, other->value(), 0, 1, 0, kPayload))).empty());
  EXPECT_TRUE(t.say(fpdu(tagged(0xc1, 0x40, other->value(), address, {}))).empty());
  const ReadRequestHeader nothing{.sink_stag = other->value(), .source_stag = other->value(), .source_offset = address};
  EXPECT_EQ(t.say(fpdu(read_request_segment(1, nothing))).size(), 1u);
  const ReadRequestHeader ours{.sink_stag = other->value(),
                               .sink_offset = address,
                               .bytes = 100,
                               .source_stag = key.value(),
                               .source_offset = t.address_of(key)};
  const auto answer = t.say(fpdu(read_request_segment(2, ours)));
  ASSERT_EQ(answer.size(), 1u);
  EXPECT_EQ(ByteVector(answer[0].payload().begin(), answer[0].payload().end()), memory);
  EXPECT_EQ(others, pattern(100, 2)) << "the sink is the peer's own affair";
  // It has not become this connection's.
  const ReadRequestHeader theirs{.bytes = 1, .source_stag = other->value(), .source_offset = address};
  const auto refused = t.say(fpdu(read_request_segment(3, theirs)));
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(parse_terminate(refused[0].payload()).cause, TerminateCause::kProtectionOtherStream);
}

// Proves RDMAP-3.1-10
TEST(IwarpDelivery, WhatAnAbortLeavesHalfDoneIsHandedToNobody) {
  {
    TakenOver t;
    std::vector<uint8_t> memory(32);
    const verbs::Rkey key = t.expose(memory, verbs::RemoteAccess::kWrite);
    const uint64_t address = t.address_of(key);
    EXPECT_TRUE(t.say(fpdu(tagged(0x81, 0x40, key.value(), address, ByteVector(16, 0xaa)))).empty());
    EXPECT_TRUE(t.say(fpdu(send_segment(1, kPayload, 0, false))).empty());
    EXPECT_EQ(memory[15], 0xaa);
    EXPECT_EQ(memory[16], 0);
    t.connection->ends[0].reset_arriving = true;
    t.t.run();
    EXPECT_TRUE(t.qp().in_error());
    EXPECT_TRUE(t.end().completions.empty()) << "neither the WRITE nor the SEND has come";
    EXPECT_TRUE(t.end().has_event(Kind::kDisconnected));
  }
  TakenOver t(Ours::kPassive);
  ASSERT_TRUE(t.qp().post_read({.rkey = kKey, .length = 32}).ok());
  const ReadRequestHeader asked = parse_read_request(t.hear()[0].payload());
  EXPECT_TRUE(t.say(fpdu(tagged(0x81, 0x42, asked.sink_stag, asked.sink_offset, kPayload))).empty());
  t.connection->ends[1].reset_arriving = true;
  t.t.run();
  ASSERT_EQ(t.end().completions.size(), 1u);
  EXPECT_NE(t.end().completions[0].status, verbs::WcStatus::kSuccess);
  EXPECT_EQ(t.end().completions[0].bytes, 0u);
  EXPECT_TRUE(t.end().completions[0].payload.empty());
}

// The last byte of a buffer may be there before the first. Only the SEND behind says that all of it is.
// Proves RDMAP-5.5-5, RDMAP-5.5-7, RDMAP-B-6
TEST(IwarpDelivery, TheLastByteOfABufferSaysNothingOfTheOthersAndTheNextSendDoes) {
  TakenOver t;
  std::vector<uint8_t> memory(32);
  const verbs::Rkey key = t.expose(memory, verbs::RemoteAccess::kWrite);
  const uint64_t address = t.address_of(key);
  EXPECT_TRUE(t.say(fpdu(send_segment(1, kPayload, 0, false))).empty());
  EXPECT_TRUE(t.say(fpdu(tagged(0xc1, 0x40, key.value(), address + 16, ByteVector(16, 0xaa)))).empty());
  EXPECT_EQ(memory[31], 0xaa);
  EXPECT_EQ(memory[0], 0);
  EXPECT_TRUE(t.end().completions.empty());
  EXPECT_TRUE(t.say(fpdu(tagged(0xc1, 0x40, key.value(), address, ByteVector(16, 0xaa)))).empty());
  EXPECT_TRUE(t.end().completions.empty());
  // The SEND whose first half was there before the WRITEs is delivered after them.
  EXPECT_TRUE(t.say(fpdu(send_segment(1, kPayload, 16))).empty());
  ASSERT_EQ(t.end().completions.size(), 1u);
  EXPECT_EQ(memory, ByteVector(32, 0xaa));
}

// A SEND that waits for a buffer is not overtaken by the answer to the READ behind it, which needs none.
// Proves RDMAP-B-4
TEST(IwarpDelivery, AReadIsAnsweredWhenTheSendAheadOfItHasBeenPlaced) {
  TakenOver t;
  EXPECT_TRUE(t.hear().empty());
  std::vector<Buffer*> held;
  while (Buffer* one = t.end().pool.allocate_one()) {
    held.push_back(one);
  }
  EXPECT_TRUE(t.say(joined({fpdu(send_segment(1, kPayload)), fpdu(read_request_segment(1, {.sink_stag = 7}))})).empty());
  EXPECT_TRUE(t.end().completions.empty());
  for (Buffer* one : held) {
    t.end().pool.release(one);
  }
  t.t.advance(Duration::ms(5));
  ASSERT_EQ(t.end().completions.size(), 1u);
  const auto heard = t.hear();
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].header.control.opcode, Opcode::kReadResponse);
  EXPECT_EQ(heard[0].header.stag, 7u);
}

// Proves RDMAP-B-13
TEST(IwarpDelivery, AReadMayReturnWhatAWriteBehindItLeft) {
  TakenOver t;
  std::vector<uint8_t> memory(1'000'000);
  const verbs::Rkey key = t.expose(memory, verbs::RemoteAccess::kReadWrite);
  const uint64_t address = t.address_of(key);
  t.t.net.buffer_bytes_max = 1000;  // the response gets out bit by bit
  t.write(joined({fpdu(read_request_segment(1, {.bytes = 1'000'000, .source_stag = key.value(), .source_offset = address})),
                  fpdu(tagged(0xc1, 0x40, key.value(), address + 999'999, {0xaa}))}));
  EXPECT_EQ(t.stream().reads_answering(), 1u);
  EXPECT_EQ(memory.back(), 0xaa) << "the WRITE does not wait for the response";
  const auto heard = t.hear_all();
  ASSERT_FALSE(heard.empty());
  EXPECT_TRUE(heard.back().header.control.last);
  EXPECT_EQ(heard.front().payload().front(), 0);
  EXPECT_EQ(heard.back().payload().back(), 0xaa);
}

// There is no queue of completions that streams share, so none can fill another's. Nor is there one of receives: the first one's
// message too many finds none, though the second has two.
// Proves RDMAP-8.1.1-10, RDMAP-8.1.1-11, RDMAP-8.1.2-4
TEST(IwarpDelivery, EachStreamHasItsOwnCompletionsAndOverflowsAlone) {
  ScriptedPeer t;
  t.server.receives = 2;
  StreamNet::Connection& first = t.ready();
  verbs::QueuePair* first_qp = t.server.qp;
  StreamNet::Connection& second = t.ready();
  verbs::QueuePair* second_qp = t.server.qp;
  const auto arrive = [&](StreamNet::Connection& connection, uint32_t message) {
    t.net.write(connection, fpdu(send_segment(message, pattern(16, message))));
    while (t.net.turn()) {  // and nobody polls
    }
  };
  // Three messages where there is room for two.
  for (uint32_t message = 1; message <= 3; ++message) {
    arrive(first, message);
  }
  arrive(second, 1);
  EXPECT_TRUE(first_qp->in_error());
  EXPECT_FALSE(second_qp->in_error());
  EXPECT_EQ(ScriptedPeer::terminate_in(t.net.read(first)), TerminateCause::kUntaggedNoBuffer);
  EXPECT_TRUE(t.net.read(second).empty());
  arrive(second, 2);
  for (verbs::QueuePair* qp : {second_qp, first_qp}) {
    for (uint32_t message = 1; message <= 2; ++message) {
      verbs::Completion completion;
      ASSERT_TRUE(qp->poll_completion(completion));
      EXPECT_EQ(completion.status, verbs::WcStatus::kSuccess);
      EXPECT_EQ(bytes_of(completion.payload), pattern(16, message));
    }
    verbs::Completion none;
    EXPECT_FALSE(qp->poll_completion(none));
  }
}

// What is posted and not polled has a bound over all streams, which the owner of the transport sets and no user passes.
// Proves RDMAP-8.1.2-6
TEST(IwarpDelivery, CompletionsToComeHaveABoundOverAllStreams) {
  IwarpOptions options;
  options.send_work_max = 4;
  ScriptedPeer t(options);
  StreamNet::Connection& first = t.ready();
  verbs::QueuePair* first_qp = t.server.qp;
  (void)t.ready();
  verbs::QueuePair* second_qp = t.server.qp;
  const auto post = [&](verbs::QueuePair* qp) { return qp->post_send({.payload = t.server.chain(kPayload)}); };
  const auto expect_no_room = [&](verbs::QueuePair* qp) {
    const Status status = post(qp);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error(), Error::kNoResources);
  };
  for (verbs::QueuePair* qp : {first_qp, first_qp, first_qp, second_qp}) {
    ASSERT_TRUE(post(qp).ok());
  }
  for (verbs::QueuePair* qp : {first_qp, second_qp}) {
    EXPECT_EQ(qp->send_queue_room(), 0u);
    expect_no_room(qp);
  }
  // The first one's leave with its peer's first message, and their completions make room when they have been polled.
  t.net.write(first, fpdu(send_segment(1, kPayload)));
  while (t.net.turn()) {
  }
  expect_no_room(second_qp);
  t.run();
  EXPECT_EQ(t.server.completions.size(), 4u);
  EXPECT_EQ(second_qp->send_queue_room(), 3u);
  EXPECT_TRUE(post(second_qp).ok());
}

}  // namespace
}  // namespace cw::iwarp::test
