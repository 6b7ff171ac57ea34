// Segments that are right by themselves and wrong where they stand: message numbers, tags, offsets, messages within messages, and
// what comes before it may.
#include "tests/unit/iwarp/taken_over.h"

namespace cw::iwarp::test {
namespace {

TerminateCause cause_in(const std::vector<Heard>& heard) {
  if (heard.size() != 1 || heard[0].header.control.opcode != Opcode::kTerminate) {
    return TerminateCause::kNone;
  }
  return parse_terminate(heard[0].payload()).cause;
}

// Two messages have come, and the third is due.
TEST(IwarpHostileOrder, I2_MessagesOutOfTurnAreRefusedInEveryQueue) {
  for (const uint32_t queue : {0u, 1u}) {
    for (const uint32_t message : {0u, 1u, 2u, 3u, 4u, 0x8000'0003u, UINT32_MAX}) {
      SCOPED_TRACE("queue " + std::to_string(queue) + ", message " + std::to_string(message));
      TakenOver t;
      const auto next = [&](uint32_t number) {
        return fpdu(queue == 0 ? send_segment(number, kPayload) : read_request_segment(number, {.sink_stag = 5}));
      };
      for (uint32_t number = 1; number <= 2; ++number) {
        EXPECT_EQ(t.say(next(number)).size(), queue);
      }
      const auto heard = t.say(next(message));
      EXPECT_EQ(cause_in(heard), message == 3 ? TerminateCause::kNone : TerminateCause::kUntaggedMessage);
      EXPECT_EQ(t.qp().in_error(), message != 3);
      EXPECT_EQ(t.end().completions.size(), queue == 1 ? 0u : message == 3 ? 3u : 2u);
    }
  }
  // A Terminate is the first of its queue, or ends the stream without an answer.
  for (const uint32_t message : {0u, 2u, UINT32_MAX}) {
    TakenOver t;
    EXPECT_TRUE(t.say(fpdu(untagged(0x41, 0x47, 0, 2, message, 0, {0x02, 0x07, 0x00, 0x00}))).empty());
    EXPECT_EQ(t.error().cause, StreamErrorCause::kViolation);
    EXPECT_EQ(t.error().terminate, TerminateCause::kUntaggedMessage);
  }
}

TEST(IwarpHostileOrder, I3_TagsThatOpenNothingOpenNothing) {
  enum class Tag : uint8_t { kNone, kGuessed, kOthers, kWithdrawn, kReadOnly };
  for (const Tag tag : {Tag::kNone, Tag::kGuessed, Tag::kOthers, Tag::kWithdrawn, Tag::kReadOnly}) {
    SCOPED_TRACE(static_cast<int>(tag));
    TakenOver t;
    std::vector<uint8_t> memory(100, 0x55);
    const bool is_others = tag == Tag::kOthers;
    const auto key =
        t.end().memory.register_region(is_others ? verbs::ProtectionDomain(8) : TwoEnds::kDomain, memory,
                                       tag == Tag::kReadOnly ? verbs::RemoteAccess::kRead : verbs::RemoteAccess::kReadWrite);
    const uint64_t address = t.address_of(*key);
    uint32_t stag = key->value();
    TerminateCause cause = TerminateCause::kTaggedInvalidStag;
    switch (tag) {
      case Tag::kNone:
        stag = 0;
        break;
      case Tag::kGuessed:
        stag ^= 1;
        break;
      case Tag::kOthers:
        cause = TerminateCause::kTaggedOtherStream;
        break;
      case Tag::kWithdrawn:
        EXPECT_TRUE(t.end().memory.invalidate(TwoEnds::kDomain, *key));
        break;
      case Tag::kReadOnly:
        cause = TerminateCause::kProtectionAccess;
        break;
    }
    EXPECT_EQ(cause_in(t.say(fpdu(tagged(0xc1, 0x40, stag, address, kPayload)))), cause);
    EXPECT_EQ(memory, std::vector<uint8_t>(100, 0x55));
  }
  // What the sink of a READ is called names no memory, neither before its response nor after.
  for (const bool answered : {false, true}) {
    TakenOver t(Ours::kPassive);
    ASSERT_TRUE(t.qp().post_read({.rkey = kKey, .length = 16}).ok());
    const uint32_t stag = parse_read_request(t.hear()[0].payload()).sink_stag;
    if (answered) {
      EXPECT_TRUE(t.say(fpdu(tagged(0xc1, 0x42, stag, 0, kPayload))).empty());
    }
    EXPECT_EQ(cause_in(t.say(fpdu(tagged(0xc1, 0x40, stag, 0, kPayload)))), TerminateCause::kTaggedInvalidStag);
  }
}

// 16 of 48 bytes have come.
TEST(IwarpHostileOrder, I4_OffsetsThatDoNotGoOnWhereTheMessageStandsAreRefused) {
  for (const uint32_t offset : {0u, 15u, 16u, 17u, 32u, UINT32_MAX, UINT32_MAX - 15}) {
    SCOPED_TRACE(offset);
    TakenOver t;
    EXPECT_TRUE(t.say(fpdu(send_segment(1, kPayload, 0, false))).empty());
    EXPECT_EQ(cause_in(t.say(fpdu(send_segment(1, kPayload, offset)))),
              offset == 16 ? TerminateCause::kNone : TerminateCause::kUntaggedOffset);
    EXPECT_EQ(t.end().completions.size(), offset == 16 ? 1u : 0u);
    // The same of a READ response.
    TakenOver reader(Ours::kPassive);
    ASSERT_TRUE(reader.qp().post_read({.rkey = kKey, .length = 48}).ok());
    const ReadRequestHeader asked = parse_read_request(reader.hear()[0].payload());
    EXPECT_TRUE(reader.say(fpdu(tagged(0x81, 0x42, asked.sink_stag, asked.sink_offset, kPayload))).empty());
    EXPECT_EQ(cause_in(reader.say(fpdu(tagged(0x81, 0x42, asked.sink_stag, asked.sink_offset + offset, kPayload)))),
              offset == 16 ? TerminateCause::kNone : TerminateCause::kTaggedBounds);
  }
  // Of a WRITE every byte has to lie in the memory, wherever the segments before it were.
  for (const uint64_t offset : {uint64_t{0}, uint64_t{84}, uint64_t{85}, uint64_t{100}, UINT64_MAX}) {
    SCOPED_TRACE(offset);
    TakenOver t;
    std::vector<uint8_t> memory(100);
    const verbs::Rkey key = t.expose(memory, verbs::RemoteAccess::kWrite);
    const uint64_t address = t.address_of(key);
    EXPECT_TRUE(t.say(fpdu(tagged(0x81, 0x40, key.value(), address, kPayload))).empty());
    EXPECT_EQ(cause_in(t.say(fpdu(tagged(0xc1, 0x40, key.value(), address + offset, kPayload)))),
              offset <= 84 ? TerminateCause::kNone : TerminateCause::kTaggedBounds);
  }
}

TEST(IwarpHostileOrder, I5_MessagesWithinMessagesAreTakenOrRefusedAndNeverMixed) {
  {
    // A WRITE, and a READ request, within a SEND: each is what it is.
    TakenOver t;
    std::vector<uint8_t> memory(16);
    const verbs::Rkey key = t.expose(memory, verbs::RemoteAccess::kReadWrite);
    const uint64_t address = t.address_of(key);
    EXPECT_TRUE(t.say(fpdu(send_segment(1, kPayload, 0, false))).empty());
    EXPECT_TRUE(t.say(fpdu(tagged(0xc1, 0x40, key.value(), address, ByteVector(16, 0xaa)))).empty());
    const ReadRequestHeader request{.sink_stag = 5, .bytes = 16, .source_stag = key.value(), .source_offset = address};
    const auto answer = t.say(fpdu(read_request_segment(1, request)));
    ASSERT_EQ(answer.size(), 1u);
    EXPECT_EQ(ByteVector(answer[0].payload().begin(), answer[0].payload().end()), ByteVector(16, 0xaa));
    EXPECT_TRUE(t.say(fpdu(send_segment(1, kPayload, 16))).empty());
    ASSERT_EQ(t.end().completions.size(), 1u);
    EXPECT_EQ(bytes_of(t.end().completions[0].payload), joined({kPayload, kPayload}));
    // A SEND within a SEND is not.
    EXPECT_TRUE(t.say(fpdu(send_segment(2, kPayload, 0, false))).empty());
    EXPECT_EQ(cause_in(t.say(fpdu(send_segment(3, kPayload)))), TerminateCause::kUntaggedMessage);
    EXPECT_EQ(t.end().completions.size(), 1u);
  }
  for (const bool interleaves : {false, true}) {
    // A SEND within a READ response, and the response to the second READ within that to the first.
    TakenOver t(Ours::kPassive);
    for (const uint64_t id : {1u, 2u}) {
      ASSERT_TRUE(t.qp().post_read({.id = verbs::WorkId(id), .rkey = kKey, .length = 32}).ok());
    }
    const auto heard = t.hear();
    ASSERT_EQ(heard.size(), 2u);
    const uint32_t first = parse_read_request(heard[0].payload()).sink_stag;
    const uint32_t second = parse_read_request(heard[1].payload()).sink_stag;
    EXPECT_TRUE(t.say(fpdu(tagged(0x81, 0x42, first, 0, kPayload))).empty());
    EXPECT_TRUE(t.say(fpdu(send_segment(t.peer_message(), ByteVector(16, 0xbb)))).empty());
    ASSERT_EQ(t.end().completions.size(), 1u);
    EXPECT_EQ(bytes_of(t.end().completions[0].payload), ByteVector(16, 0xbb));
    if (interleaves) {
      EXPECT_EQ(cause_in(t.say(fpdu(tagged(0x81, 0x42, second, 0, kPayload)))), TerminateCause::kTaggedInvalidStag);
      continue;
    }
    EXPECT_TRUE(t.say(fpdu(tagged(0xc1, 0x42, first, 16, kPayload))).empty());
    EXPECT_TRUE(t.say(fpdu(tagged(0xc1, 0x42, second, 0, ByteVector(32, 0xcc)))).empty());
    ASSERT_EQ(t.end().completions.size(), 3u);
    EXPECT_EQ(bytes_of(t.end().completions[1].payload), joined({kPayload, kPayload}));
    EXPECT_EQ(bytes_of(t.end().completions[2].payload), ByteVector(32, 0xcc));
  }
}

// The user takes its time, and the peer does not wait for the Reply: TCP keeps what it says.
TEST(IwarpHostileOrder, I6_WhatComesBeforeTheReplyWaitsForIt) {
  ScriptedPeer t;
  StreamNet::Connection& connection = t.call();
  const auto arrive = [&](const ByteVector& bytes) {
    t.net.write(connection, bytes);
    while (t.net.turn()) {  // and the user does not look
    }
  };
  arrive(siw_request());
  arrive(fpdu(send_segment(1, kPayload)));
  EXPECT_TRUE(t.net.read(connection).empty());
  EXPECT_FALSE(connection.ends[1].arriving.empty()) << "it is not even read";
  EXPECT_LE(t.server.pool.in_use(), SpareBuffers::kCount);
  t.run();
  EXPECT_EQ(t.net.read(connection).size(), 24u);
  ASSERT_EQ(t.server.completions.size(), 1u);
  EXPECT_EQ(bytes_of(t.server.completions[0].payload), kPayload);
}

}  // namespace
}  // namespace cw::iwarp::test
