// The ordering rules (RFC 5040 5.5), completion, and the end of a stream (6, 7).
#include <set>

#include "tests/unit/iwarp/taken_over.h"

namespace cw::iwarp::test {
namespace {

std::vector<Opcode> opcodes_of(const std::vector<Heard>& heard) {
  std::vector<Opcode> opcodes;
  opcodes.reserve(heard.size());
  for (const Heard& each : heard) {
    opcodes.push_back(each.header.control.opcode);
  }
  return opcodes;
}

// Proves RDMAP-5.1-7, RDMAP-5.1-9, RDMAP-5.2.1-7, RDMAP-5.2.1-9, RDMAP-5.5-18, RDMAP-B-8, RDMAP-B-10, RDMAP-B-12
TEST(IwarpOrdering, MessagesLeaveInTheOrderOfTheirPosting) {
  TakenOver t(Ours::kPassive);
  ASSERT_TRUE(t.qp().post_write({.payload = t.chain(kPayload), .rkey = kKey, .remote_address = 1}).ok());
  ASSERT_TRUE(t.qp().post_write({.payload = t.chain(kPayload), .rkey = verbs::Rkey(2), .remote_address = 2}).ok());
  ASSERT_TRUE(t.qp().post_read({.rkey = kKey, .remote_address = 3, .length = 5}).ok());
  ASSERT_TRUE(t.qp().post_send({.payload = t.chain(kPayload)}).ok());
  ASSERT_TRUE(t.qp().post_read({.rkey = verbs::Rkey(2), .remote_address = 4, .length = 6}).ok());
  ASSERT_TRUE(t.qp().post_write({.payload = t.chain(kPayload), .rkey = kKey, .remote_address = 5}).ok());
  const auto heard = t.hear();
  EXPECT_EQ(opcodes_of(heard), (std::vector<Opcode>{Opcode::kWrite, Opcode::kWrite, Opcode::kReadRequest, Opcode::kSend,
                                                    Opcode::kReadRequest, Opcode::kWrite}));
  EXPECT_EQ(heard[0].header.stag, kKey.value());
  EXPECT_EQ(heard[1].header.stag, 2u);
  EXPECT_EQ(parse_read_request(heard[2].payload()).bytes, 5u);
  EXPECT_EQ(parse_read_request(heard[4].payload()).bytes, 6u);
}

// Proves RDMAP-1.1-4, RDMAP-3.2-7, RDMAP-5.1-2, RDMAP-5.1-8, RDMAP-5.5-12, RDMAP-2.1-2, RDMAP-1.2-7
TEST(IwarpOrdering, ASendsDeliveryTellsThatEarlierWritesAreThere) {
  for (uint32_t piece = 1; piece < 2000; piece += 97) {
    TakenOver t;
    t.t.net.piece_bytes_max = piece;
    std::vector<uint8_t> memory(3000);
    const verbs::Rkey key = t.expose(memory, verbs::RemoteAccess::kWrite);
    ByteVector bytes;
    for (uint32_t at = 0; at < 3000; at += 1000) {
      const ByteVector part = fpdu(tagged(0xc1, 0x40, key.value(), t.address_of(key) + at, pattern(1000, at)));
      bytes.insert(bytes.end(), part.begin(), part.end());
    }
    EXPECT_TRUE(t.say(bytes).empty());
    EXPECT_TRUE(t.end().completions.empty()) << "a WRITE is nobody's message";
    (void)t.say(fpdu(send_segment(1, kPayload)));
    ASSERT_EQ(t.end().completions.size(), 1u);
    for (uint32_t at = 0; at < 3000; at += 1000) {
      EXPECT_EQ(ByteVector(memory.begin() + at, memory.begin() + at + 1000), pattern(1000, at));
    }
    EXPECT_EQ(t.end().memory.region_count(), 1u) << "and the key lives on";
  }
}

// Proves RDMAP-2.1-3, RDMAP-5.5-17, RDMAP-B-16, RDMAP-B-17
TEST(IwarpOrdering, AFenceHoldsBackUntilReadsAreComplete) {
  TakenOver t(Ours::kPassive);
  ASSERT_TRUE(t.qp().post_read({.rkey = kKey, .length = 32}).ok());
  ASSERT_TRUE(t.qp().post_send({.payload = t.chain(kPayload), .fence = true}).ok());
  auto heard = t.hear();
  ASSERT_EQ(opcodes_of(heard), std::vector<Opcode>{Opcode::kReadRequest});
  const ReadRequestHeader asked = parse_read_request(heard[0].payload());
  EXPECT_TRUE(t.say(fpdu(tagged(0x81, 0x42, asked.sink_stag, asked.sink_offset, kPayload))).empty());
  heard = t.say(fpdu(tagged(0xc1, 0x42, asked.sink_stag, asked.sink_offset + 16, kPayload)));
  EXPECT_EQ(opcodes_of(heard), std::vector<Opcode>{Opcode::kSend});
}

// Proves RDMAP-5.5-24, RDMAP-5.5-27, RDMAP-5.5-6, RDMAP-2.4-5
TEST(IwarpOrdering, AReadIsCompleteWithTheLastSegmentOfItsResponseAndNoSooner) {
  TakenOver t(Ours::kPassive);
  ASSERT_TRUE(t.qp().post_read({.id = verbs::WorkId(3), .rkey = kKey, .length = 32}).ok());
  const ReadRequestHeader asked = parse_read_request(t.hear()[0].payload());
  (void)t.say(fpdu(tagged(0x81, 0x42, asked.sink_stag, asked.sink_offset, kPayload)));
  EXPECT_TRUE(t.end().completions.empty());
  const ByteVector last = fpdu(tagged(0xc1, 0x42, asked.sink_stag, asked.sink_offset + 16, kPayload));
  (void)t.say({last.begin(), last.end() - 1});
  EXPECT_TRUE(t.end().completions.empty());
  (void)t.say({last.back()});
  ASSERT_EQ(t.end().completions.size(), 1u);
  EXPECT_EQ(t.end().completions[0].id, verbs::WorkId(3));
  EXPECT_EQ(bytes_of(t.end().completions[0].payload), joined({kPayload, kPayload}));
}

// Proves RDMAP-5.5-10, RDMAP-5.5-19, RDMAP-3.2-3
TEST(IwarpOrdering, ASendIsCompleteWhenTcpHasTakenItWhole) {
  TakenOver t;
  t.t.net.buffer_bytes_max = 1000;
  ASSERT_TRUE(t.qp().post_send({.id = verbs::WorkId(1), .payload = t.chain(pattern(3000))}).ok());
  ASSERT_TRUE(t.qp().post_write({.id = verbs::WorkId(2), .payload = t.chain(kPayload), .rkey = kKey}).ok());
  t.t.run();
  EXPECT_TRUE(t.end().completions.empty());
  while (t.end().completions.empty() && !t.peer_end().arriving.empty()) {
    t.peer_end().arriving.pop_front();
    t.t.run();
  }
  ASSERT_FALSE(t.end().completions.empty());
  EXPECT_EQ(t.end().completions[0].id, verbs::WorkId(1));
  EXPECT_EQ(t.end().completions[0].status, verbs::WcStatus::kSuccess);
}

// Proves RDMAP-5.5-4, RDMAP-5.5-14, RDMAP-5.5-21, RDMAP-5.5-22, RDMAP-3.1-11
TEST(IwarpOrdering, NothingComesOfAMessageBeforeItIsWhole) {
  TakenOver t;
  std::vector<uint8_t> memory = pattern(100);
  const verbs::Rkey key = t.expose(memory, verbs::RemoteAccess::kRead);
  EXPECT_TRUE(t.say(fpdu(send_segment(1, kPayload, 0, false))).empty());
  EXPECT_TRUE(t.end().completions.empty());
  (void)t.say(fpdu(send_segment(1, kPayload, 16, true)));
  EXPECT_EQ(t.end().completions.size(), 1u);
  const ByteVector request =
      fpdu(read_request_segment(1, {.bytes = 100, .source_stag = key.value(), .source_offset = t.address_of(key)}));
  EXPECT_TRUE(t.say({request.begin(), request.end() - 1}).empty());
  EXPECT_EQ(opcodes_of(t.say({request.back()})), std::vector<Opcode>{Opcode::kReadResponse});
}

// Proves RDMAP-5.5-15, RDMAP-5.5-16, RDMAP-5.5-23, RDMAP-B-11, RDMAP-B-14, RDMAP-B-5, RDMAP-B-9
TEST(IwarpOrdering, SendsAreDeliveredWhileEarlierReadsWaitForTheirAnswers) {
  TakenOver t;
  std::vector<uint8_t> memory = pattern(1'000'000);
  const verbs::Rkey key = t.expose(memory, verbs::RemoteAccess::kReadWrite);
  const uint64_t address = t.address_of(key);
  t.t.net.buffer_bytes_max = 1000;  // the responses do not get out
  const ByteVector bytes = joined(
      {fpdu(tagged(0xc1, 0x40, key.value(), address, ByteVector(16, 0xee))),
       fpdu(read_request_segment(1, {.sink_stag = 1, .bytes = 1'000'000, .source_stag = key.value(), .source_offset = address})),
       fpdu(read_request_segment(2, {.sink_stag = 2, .bytes = 10, .source_stag = key.value(), .source_offset = address})),
       fpdu(send_segment(1, kPayload))});
  t.write(bytes);
  ASSERT_EQ(t.end().completions.size(), 1u) << "the SEND";
  EXPECT_GT(t.stream().reads_answering(), 0u);
  const auto heard = t.hear_all();
  ASSERT_GT(heard.size(), 2u);
  EXPECT_EQ(heard.front().payload()[0], 0xee) << "what was written before";
  EXPECT_EQ(heard.back().header.stag, 2u) << "the second response behind the first";
}

// Proves RDMAP-5.5-1, RDMAP-5.5-2, RDMAP-2.3-1, RDMAP-2.4-6, RDMAP-1.1-6
TEST(IwarpOrdering, StreamsHaveNumbersOfTheirOwn) {
  ScriptedPeer t;
  StreamNet::Connection& first = t.ready();
  StreamNet::Connection& second = t.ready();
  for (uint32_t message = 1; message <= 3; ++message) {
    EXPECT_TRUE(t.say(first, fpdu(send_segment(message, kPayload))).empty());
  }
  EXPECT_TRUE(t.say(second, fpdu(send_segment(1, kPayload))).empty());
  EXPECT_EQ(t.server.completions.size(), 4u);
}

// Proves RDMAP-5.4-8, RDMAP-5.4-9, RDMAP-6.2-4, RDMAP-6.2.1-5, RDMAP-7-1, RDMAP-7-2, RDMAP-7-3, RDMAP-7.1-1, RDMAP-7.1-8,
// RDMAP-1.2-13, RDMAP-2.4-10, RDMAP-5.3-8, RDMAP-3.2-5
TEST(IwarpEnding, OfSeveralErrorsTheFirstIsToldAndNothingFollows) {
  TakenOver t(Ours::kPassive);
  ASSERT_TRUE(t.qp().post_read({.id = verbs::WorkId(1), .rkey = kKey, .length = 10}).ok());
  ASSERT_TRUE(t.qp().post_send({.id = verbs::WorkId(2), .payload = t.chain(kPayload), .fence = true}).ok());
  (void)t.hear();
  const auto heard = t.say(joined({fpdu(send_segment(7, kPayload)), fpdu(send_segment(t.peer_message(), kPayload, 9)),
                                   fpdu(send_segment(t.peer_message(), kPayload))}));
  ASSERT_EQ(opcodes_of(heard), std::vector<Opcode>{Opcode::kTerminate});
  EXPECT_EQ(parse_terminate(heard[0].payload()).cause, TerminateCause::kUntaggedMessage);
  ASSERT_EQ(t.end().completions.size(), 2u) << "nothing is received after the error";
  EXPECT_EQ(t.end().completions[0].id, verbs::WorkId(1));
  EXPECT_NE(t.end().completions[0].status, verbs::WcStatus::kSuccess);
  EXPECT_EQ(t.end().completions[1].status, verbs::WcStatus::kWorkRequestFlushed);
  EXPECT_TRUE(t.qp().in_error());
  EXPECT_FALSE(t.qp().post_send({.payload = t.chain(kPayload)}).ok());
  EXPECT_TRUE(t.say(fpdu(send_segment(t.peer_message(), kPayload))).empty()) << "not a word after the Terminate";
  EXPECT_TRUE(t.peer_end().fin_arriving) << "a FIN, so that the Terminate arrives";
  EXPECT_FALSE(t.peer_end().reset_arriving);
}

// Proves RDMAP-6.2-1, RDMAP-6.2-5, RDMAP-7-4, RDMAP-6.2.1-2, RDMAP-5.1-3, RDMAP-5.2.2-5
TEST(IwarpEnding, WhenTcpBreaksTheUserIsToldWithoutATerminate) {
  TakenOver t(Ours::kPassive);
  ASSERT_TRUE(t.qp().post_read({.id = verbs::WorkId(1), .rkey = kKey, .length = 10}).ok());
  (void)t.hear();
  t.connection->ends[1].reset_arriving = true;
  EXPECT_TRUE(t.hear().empty());
  ASSERT_EQ(t.end().completions.size(), 1u);
  EXPECT_NE(t.end().completions[0].status, verbs::WcStatus::kSuccess);
  EXPECT_EQ(t.error().cause, StreamErrorCause::kTcpReset);
  EXPECT_TRUE(t.end().was_disconnected_by(verbs::DisconnectCause::kTransport));
  EXPECT_EQ(t.end().transport.live_count(), 0u);
}

// Proves RDMAP-2.4-1, RDMAP-6.2-2, RDMAP-6.2-3, RDMAP-6.1-2
TEST(IwarpEnding, AGracefulEndLetsWhatWasPostedOutAndSaysFin) {
  TakenOver t;
  ASSERT_TRUE(t.qp().post_send({.payload = t.chain(kPayload)}).ok());
  t.t.run();
  t.end().transport.disconnect(t.t.net.now, t.end().connection);
  EXPECT_EQ(opcodes_of(t.hear()), std::vector<Opcode>{Opcode::kSend});
  EXPECT_TRUE(t.peer_end().fin_arriving);
  EXPECT_FALSE(t.peer_end().reset_arriving);
}

// close() is a word to the queue pair alone, and the peer hears of it all the same.
TEST(IwarpEnding, AQueuePairThatItsUserClosesEndsItsTcpConnection) {
  for (const bool answers : {true, false}) {
    TakenOver t;
    t.qp().close();
    t.t.run();
    EXPECT_TRUE(t.peer_end().fin_arriving);
    EXPECT_FALSE(t.peer_end().reset_arriving);
    EXPECT_EQ(t.end().transport.stats().stream_errors[static_cast<size_t>(StreamErrorCause::kClosed)], 1u);
    EXPECT_EQ(t.end().transport.live_count(), 1u);
    // The peer's FIN, or the end of our patience.
    t.connection->ends[0].fin_arriving = answers;
    answers ? t.t.run() : t.t.advance(IwarpOptions().parting_timeout);
    EXPECT_EQ(t.end().transport.live_count(), 0u);
    EXPECT_EQ(t.peer_end().reset_arriving, !answers);
  }
}

// Proves RDMAP-6.2.1-4, RDMAP-5.4-10, RDMAP-7-5
TEST(IwarpEnding, AfterATerminateTheStreamIsTakenDownAtOnce) {
  TakenOver t;
  ASSERT_TRUE(t.qp().post_send({.payload = t.chain(kPayload), .fence = true}).ok());
  (void)t.say(fpdu(untagged(0x41, 0x47, 0, 2, 1, 0, {0x00, 0x00, 0x00, 0x00})));
  EXPECT_TRUE(t.qp().in_error());
  EXPECT_TRUE(t.peer_end().fin_arriving);
}

// Proves RDMAP-3.1-7, RDMAP-1.2-3, RDMAP-1.2-5, RDMAP-1.2-11, RDMAP-2.4-4, RDMAP-5.3-18, RDMAP-3.2-13
TEST(IwarpOrdering, AnInvalidationComesWithItsMessageAndEndsTheKey) {
  for (const uint8_t opcode : {uint8_t{0x44}, uint8_t{0x46}}) {
    TakenOver t;
    std::vector<uint8_t> memory(32);
    const verbs::Rkey key = t.expose(memory, verbs::RemoteAccess::kReadWrite);
    const uint64_t address = t.address_of(key);
    // The key works until the message is whole, for what came before it too.
    (void)t.say(fpdu(untagged(0x01, opcode, key.value(), 0, 1, 0, kPayload)));
    (void)t.say(fpdu(tagged(0xc1, 0x40, key.value(), address, ByteVector(16, 0xaa))));
    EXPECT_EQ(memory[15], 0xaa);
    EXPECT_EQ(t.end().memory.region_count(), 1u);
    (void)t.say(fpdu(untagged(0x41, opcode, key.value(), 0, 1, 16, kPayload)));
    ASSERT_EQ(t.end().completions.size(), 1u);
    EXPECT_EQ(t.end().completions[0].invalidated, key);
    EXPECT_EQ(t.end().completions[0].solicited, opcode == 0x46);
    EXPECT_EQ(t.end().memory.region_count(), 0u);
    const auto heard = t.say(fpdu(tagged(0xc1, 0x40, key.value(), address, ByteVector(16, 0xbb))));
    ASSERT_EQ(heard.size(), 1u);
    EXPECT_EQ(parse_terminate(heard[0].payload()).cause, TerminateCause::kTaggedInvalidStag);
    EXPECT_EQ(memory[15], 0xaa);
  }
}

// Proves RDMAP-1.2-12, RDMAP-8.1.1-8, RDMAP-8.1.1-9
TEST(IwarpOrdering, SinkTagsOfReadsCannotBeGuessedOrInvalidated) {
  TakenOver t(Ours::kPassive);
  std::set<uint32_t> tags;
  std::array<uint32_t, 16> buckets{};
  for (uint32_t i = 0; i < 512; ++i) {
    ASSERT_TRUE(t.qp().post_read({.rkey = kKey, .length = 4}).ok());
    const auto heard = t.hear();
    ASSERT_EQ(heard.size(), 1u);
    const ReadRequestHeader asked = parse_read_request(heard[0].payload());
    EXPECT_TRUE(tags.insert(asked.sink_stag).second);
    ++buckets[asked.sink_stag >> 28];
    (void)t.say(fpdu(tagged(0xc1, 0x42, asked.sink_stag, asked.sink_offset, {1, 2, 3, 4})));
    t.end().completions.clear();
  }
  for (const uint32_t each : buckets) {
    EXPECT_GT(each, 5u) << "spread over the whole range";
  }
  ASSERT_TRUE(t.qp().post_read({.rkey = kKey, .length = 4}).ok());
  const uint32_t tag = parse_read_request(t.hear()[0].payload()).sink_stag;
  const auto heard = t.say(fpdu(untagged(0x41, 0x44, tag, 0, t.peer_message(), 0, kPayload)));
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(parse_terminate(heard[0].payload()).cause, TerminateCause::kProtectionNotInvalidated);
}

// Proves RDMAP-5.2.2-3, RDMAP-6.1-3, RDMAP-6.1-4, RDMAP-6.1-5, RDMAP-6.1-7, RDMAP-8.1.1-12
// Proves RDMAP-8.1.2-8
TEST(IwarpOrdering, AsManyReadsAtATimeAsWereAgreed) {
  TakenOver t(Ours::kActive, {.ird = 3});
  std::vector<uint8_t> memory = pattern(1'000'000);
  const verbs::Rkey key = t.expose(memory, verbs::RemoteAccess::kRead);
  t.t.net.buffer_bytes_max = 100;
  ByteVector bytes;
  for (uint32_t message = 1; message <= 3; ++message) {
    const ByteVector one =
        fpdu(read_request_segment(message, {.bytes = 1'000'000, .source_stag = key.value(), .source_offset = t.address_of(key)}));
    bytes.insert(bytes.end(), one.begin(), one.end());
  }
  t.write(bytes);
  EXPECT_FALSE(t.qp().in_error());
  EXPECT_EQ(t.stream().reads_answering(), 3u);
  const ByteVector fourth =
      fpdu(read_request_segment(4, {.bytes = 10, .source_stag = key.value(), .source_offset = t.address_of(key)}));
  t.write(fourth);
  EXPECT_EQ(t.error().terminate, TerminateCause::kUntaggedNoBuffer);
}

}  // namespace
}  // namespace cw::iwarp::test
