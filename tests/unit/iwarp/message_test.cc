// What messages of each kind look like on the wire (RFC 5040 4), and what of theirs a receiver ignores.
#include "tests/unit/iwarp/taken_over.h"

namespace cw::iwarp::test {
namespace {

constexpr uint64_t kAddress = 0x0102'0304'0506'0708;

// Each operation is one message of one segment here: control bytes, then the fields that its kind has, then payload.
// Proves RDMAP-3.1-1, RDMAP-1.2-1, RDMAP-1.2-2, RDMAP-1.2-6, RDMAP-1.2-8, RDMAP-1.2-9, RDMAP-2.3-2, RDMAP-2.4-2,
// RDMAP-2.4-3, RDMAP-3.1-3,
// RDMAP-3.1-4, RDMAP-3.1-6, RDMAP-3.2-1, RDMAP-3.2-2, RDMAP-3.2-6, RDMAP-4-2, RDMAP-4-5, RDMAP-4.1-3, RDMAP-4.1-4,
// RDMAP-4.1-5, RDMAP-4.1-10, RDMAP-4.1-13, RDMAP-4.1-15, RDMAP-4.1-16, RDMAP-4.1-18, RDMAP-4.1-19, RDMAP-4.1-20,
// RDMAP-4.1-21, RDMAP-4.2-2, RDMAP-4.3-1, RDMAP-4.4-2, RDMAP-4.4-9, RDMAP-4.4-10, RDMAP-4.4-11, RDMAP-4.6-1, RDMAP-4.7-1,
// RDMAP-5.1-1, RDMAP-5.3-1, RDMAP-5.3-10, RDMAP-5.3-14, RDMAP-A.5-1
TEST(IwarpMessage, EachOperationHasItsOwnFormat) {
  struct Case {
    const char* name;
    Status (*post)(TakenOver& t);
    ByteVector ulpdu;  // of a READ without its sink
  };
  const auto send = [](uint8_t opcode, uint32_t stag) {
    return joined({{0x41, opcode}, be32(stag), be32(0), be32(1), be32(0), kPayload});
  };
  const std::vector<Case> cases = {
      {"Send", [](TakenOver& t) { return t.qp().post_send({.payload = t.chain(kPayload)}); }, send(0x43, 0)},
      {"Send with Invalidate", [](TakenOver& t) { return t.qp().post_send({.payload = t.chain(kPayload), .invalidate = kKey}); },
       send(0x44, kKey.value())},
      {"Send with Solicited Event",
       [](TakenOver& t) { return t.qp().post_send({.payload = t.chain(kPayload), .solicited = true}); }, send(0x45, 0)},
      {"Send with Solicited Event and Invalidate",
       [](TakenOver& t) { return t.qp().post_send({.payload = t.chain(kPayload), .invalidate = kKey, .solicited = true}); },
       send(0x46, kKey.value())},
      {"RDMA Write",
       [](TakenOver& t) { return t.qp().post_write({.payload = t.chain(kPayload), .rkey = kKey, .remote_address = kAddress}); },
       joined({{0xc1, 0x40}, be32(kKey.value()), be64(kAddress), kPayload})},
      {"RDMA Read Request",
       [](TakenOver& t) { return t.qp().post_read({.rkey = kKey, .remote_address = kAddress, .length = 0x01020304}); },
       joined({{0x41, 0x41}, be32(0), be32(1), be32(1), be32(0)})}};
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    TakenOver t(Ours::kPassive);
    ASSERT_TRUE(each.post(t).ok());
    const auto heard = t.hear();
    ASSERT_EQ(heard.size(), 1u);
    if (each.ulpdu.size() > kUntaggedHeaderBytes || heard[0].header.control.tagged) {
      EXPECT_EQ(heard[0].ulpdu, each.ulpdu);
      continue;
    }
    EXPECT_EQ(heard[0].first(kUntaggedHeaderBytes), each.ulpdu);
    ASSERT_EQ(heard[0].payload().size(), kReadRequestBytes);
    const ByteVector request(heard[0].payload().begin(), heard[0].payload().end());
    const ByteVector behind_sink(request.begin() + 12, request.end());
    EXPECT_EQ(behind_sink, joined({be32(0x01020304), be32(kKey.value()), be64(kAddress)}));
  }
}

// Proves RDMAP-1.2-10, RDMAP-4.1-17, RDMAP-4.4-5, RDMAP-4.4-6, RDMAP-4.4-7, RDMAP-4.4-12, RDMAP-4.5-1, RDMAP-5.2-1,
// RDMAP-5.2.1-2, RDMAP-5.2.1-3, RDMAP-5.2.1-4, RDMAP-5.2.2-1, RDMAP-5.2.2-6, RDMAP-5.2.2-9, RDMAP-2.3-5, RDMAP-3.2-10
TEST(IwarpMessage, AReadIsAnsweredAtAnyOffsetWithoutItsOwner) {
  TakenOver t;
  std::vector<uint8_t> memory = pattern(5000);
  const verbs::Rkey key = t.expose(memory, verbs::RemoteAccess::kRead);
  const auto heard = t.say(fpdu(read_request_segment(1, {.sink_stag = 0xabcd,
                                                         .sink_offset = 0x7000'0000'0003,
                                                         .bytes = 4001,
                                                         .source_stag = key.value(),
                                                         .source_offset = t.address_of(key) + 77})));
  ASSERT_GT(heard.size(), 1u);
  ByteVector read;
  for (const Heard& each : heard) {
    EXPECT_TRUE(each.header.control.tagged);
    EXPECT_EQ(each.header.control.opcode, Opcode::kReadResponse);
    EXPECT_EQ(each.header.stag, 0xabcdu);
    EXPECT_EQ(each.header.tagged_offset, 0x7000'0000'0003 + read.size());
    EXPECT_EQ(each.header.control.last, &each == &heard.back());
    read.insert(read.end(), each.payload().begin(), each.payload().end());
  }
  EXPECT_EQ(read, ByteVector(memory.begin() + 77, memory.begin() + 4078));
  EXPECT_TRUE(t.end().completions.empty()) << "nobody is told";
}

// Proves RDMAP-2.3-3, RDMAP-2.3-4, RDMAP-5.1-6, RDMAP-5.3-9, RDMAP-4.4-8
TEST(IwarpMessage, LongMessagesAreCutIntoSegmentsThatFit) {
  TakenOver t;
  Chain list = t.chain(pattern(3000));
  list.append(t.chain(pattern(2000, 2)));
  ASSERT_TRUE(t.qp().post_send({.payload = t.chain(pattern(10))}).ok());
  ASSERT_TRUE(t.qp().post_send({.payload = std::move(list)}).ok());
  ASSERT_TRUE(t.qp().post_write({.payload = t.chain(pattern(4000)), .rkey = kKey, .remote_address = 1}).ok());
  const auto heard = t.hear();
  uint32_t offset = 0;
  uint64_t tagged_offset = 1;
  for (size_t i = 1; i < heard.size(); ++i) {
    const Heard& each = heard[i];
    EXPECT_LE(fpdu_bytes(static_cast<uint32_t>(each.ulpdu.size())), t.t.net.mss_bytes);
    const auto bytes = static_cast<uint32_t>(each.payload().size());
    if (!each.header.control.tagged) {
      EXPECT_EQ(each.header.message, 3u);
      EXPECT_EQ(each.header.message_offset, offset);
      offset += bytes;
      EXPECT_EQ(each.header.control.last, offset == 5000);
    } else {
      EXPECT_EQ(each.header.stag, kKey.value());
      EXPECT_EQ(each.header.tagged_offset, tagged_offset);
      tagged_offset += bytes;
      EXPECT_EQ(each.header.control.last, tagged_offset == 4001);
    }
  }
  EXPECT_EQ(offset, 5000u);
  EXPECT_EQ(tagged_offset, 4001u);
}

// Proves RDMAP-1.1-2, RDMAP-4-4
TEST(IwarpMessage, AReadMayAskForAllThat32BitsCanSay) {
  TakenOver t(Ours::kPassive);
  ASSERT_TRUE(t.qp().post_read({.rkey = kKey, .length = UINT32_MAX}).ok());
  const auto heard = t.hear();
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(parse_read_request(heard[0].payload()).bytes, UINT32_MAX);
  EXPECT_EQ(heard[0].payload().size(), kReadRequestBytes);
}

// Proves RDMAP-5.1-10, RDMAP-5.2.1-12, RDMAP-5.3-12, RDMAP-5.3-13, RDMAP-5.3-3, RDMAP-5.3-4, RDMAP-3.1-5
TEST(IwarpMessage, MessagesMayBeEmpty) {
  TwoEnds t;
  t.server.receives = 2;
  t.connect();
  for (const uint32_t bytes : {0u, 4096u}) {
    ASSERT_TRUE(t.client.qp->post_send({.payload = t.client.chain(pattern(bytes))}).ok());
    t.run();
    ASSERT_EQ(t.server.completions.back().opcode, verbs::WcOpcode::kReceive);
    EXPECT_EQ(t.server.completions.back().bytes, bytes);
  }
  EXPECT_EQ(t.server.dynamic_stream().receives(), 0u) << "the empty one took one, too";
  std::vector<uint8_t> memory(8);
  const auto key = t.client.memory.register_region(TwoEnds::kDomain, memory, verbs::RemoteAccess::kReadWrite);
  ASSERT_TRUE(t.server.qp->post_write({.rkey = *key}).ok());
  ASSERT_TRUE(t.server.qp->post_read({.rkey = *key, .length = 0}).ok());
  t.run();
  ASSERT_EQ(t.server.completions.size(), 4u);
  for (const verbs::Completion& each : t.server.completions) {
    EXPECT_EQ(each.status, verbs::WcStatus::kSuccess);
  }
  t.expect_nothing_left();
}

// Proves RDMAP-4.1-11, RDMAP-4.1-12, RDMAP-4.1-14
TEST(IwarpMessage, ReservedBitsAndTheUnusedStagAreIgnored) {
  for (const uint8_t opcode : {uint8_t{0x3}, uint8_t{0x5}}) {
    TakenOver t;
    ByteVector segment = untagged(0x41 | 0x3c, static_cast<uint8_t>(0x40 | 0x30 | opcode), 0xffffffff, 0, 1, 0, kPayload);
    EXPECT_TRUE(t.say(fpdu(segment)).empty());
    ASSERT_EQ(t.end().completions.size(), 1u);
    EXPECT_EQ(bytes_of(t.end().completions[0].payload), kPayload);
    EXPECT_FALSE(t.end().completions[0].invalidated.has_value());
    t.end().completions.clear();
  }
  TakenOver t;
  std::vector<uint8_t> memory = pattern(100);
  const verbs::Rkey key = t.expose(memory, verbs::RemoteAccess::kReadWrite);
  ByteVector request(kReadRequestBytes);
  write(ReadRequestHeader{.sink_stag = 5, .bytes = 100, .source_stag = key.value(), .source_offset = t.address_of(key)}, request);
  EXPECT_EQ(t.say(fpdu(untagged(0x41 | 0x3c, 0x41 | 0x30, 0xffffffff, 1, 1, 0, request))).size(), 1u);
  EXPECT_TRUE(t.say(fpdu(tagged(0xc1 | 0x3c, 0x40 | 0x30, key.value(), t.address_of(key), kPayload))).empty());
  EXPECT_TRUE(std::equal(kPayload.begin(), kPayload.end(), memory.begin()));
  EXPECT_FALSE(t.qp().in_error());
}

// Proves RDMAP-4.8-31
TEST(IwarpMessage, ReservedBitsOfATerminateAreIgnored) {
  // The three that siw has M, D and R in are reserved only beside the RFC's own.
  for (const uint8_t flags : {uint8_t{0x18}, uint8_t{0xdf}}) {
    TakenOver t;
    (void)t.say(fpdu(untagged(0x41 | 0x3c, 0x47 | 0x30, 0xffffffff, 2, 1, 0, {0x02, 0x07, flags, 0xff})));
    EXPECT_EQ(t.error().cause, StreamErrorCause::kTerminated);
    EXPECT_EQ(t.error().terminate, TerminateCause::kOperationCatastrophicStream);
  }
}

// A Terminate of each layer, type and code there is reaches the user as what it says.
// Proves RDMAP-4.8-3, RDMAP-4.8-4, RDMAP-4.8-11, RDMAP-4.8-12, RDMAP-4.8-19, RDMAP-4.8-23, RDMAP-4.8-24, RDMAP-4.8-26,
// RDMAP-4.8-27, RDMAP-3.2-14, RDMAP-5.4-3, RDMAP-5.4-4, RDMAP-5.4-5, RDMAP-4.1-22
TEST(IwarpMessage, EveryTerminateIsUnderstood) {
  for (const TerminateCause cause : kTerminateCauses) {
    SCOPED_TRACE(to_string(cause));
    TakenOver t(Ours::kPassive);
    ASSERT_TRUE(t.qp().post_read({.id = verbs::WorkId(7), .rkey = kKey, .length = 10}).ok());
    (void)t.hear();
    const auto code = static_cast<uint16_t>(cause);
    const ByteVector control{static_cast<uint8_t>(code >> 8), static_cast<uint8_t>(code), 0, 0};
    EXPECT_TRUE(t.say(fpdu(untagged(0x41, 0x47, 0, 2, 1, 0, control))).empty());
    EXPECT_EQ(t.error().cause, StreamErrorCause::kTerminated);
    EXPECT_EQ(t.error().terminate, cause);
    ASSERT_EQ(t.end().completions.size(), 1u) << "it takes no receive of the user";
    EXPECT_NE(t.end().completions[0].status, verbs::WcStatus::kSuccess);
    const auto info = t.end().transport.describe(t.end().connection);
    EXPECT_EQ(std::get<std::string>(info.value("terminate")), to_string(cause));
    EXPECT_EQ(t.end().transport.stream_stats().terminates_received[index_of(cause)], 1u);
  }
}

// RFC 5040 4.8, byte by byte: M, D and R, the length, and both headers as they came.
// Proves RDMAP-4.4-13, RDMAP-4.8-5, RDMAP-4.8-7, RDMAP-4.8-8, RDMAP-4.8-9, RDMAP-4.8-10, RDMAP-4.8-39, RDMAP-4.8-40,
// RDMAP-4.8-41, RDMAP-4.8-47, RDMAP-5.2.1-5, RDMAP-7.1-6, RDMAP-7.1-7, RDMAP-7.2-11, RDMAP-7.2-15, RDMAP-A.6-1, RDMAP-A.6-2,
// RDMAP-3.2-11
TEST(IwarpMessage, ARefusedReadGoesBackWithItsHeaders) {
  TakenOver t;
  std::vector<uint8_t> memory = pattern(100);
  const verbs::Rkey key = t.expose(memory, verbs::RemoteAccess::kRead);
  const ByteVector request = read_request_segment(
      1, {.sink_stag = 0xabcd, .sink_offset = 3, .bytes = 101, .source_stag = key.value(), .source_offset = t.address_of(key)});
  const auto heard = t.say(fpdu(request));
  ASSERT_EQ(heard.size(), 1u) << "not a byte of the memory";
  EXPECT_EQ(heard[0].first(kUntaggedHeaderBytes), joined({{0x41, 0x47}, be32(0), be32(2), be32(1), be32(0)}));
  EXPECT_EQ(ByteVector(heard[0].payload().begin(), heard[0].payload().end()),
            joined({{0x01, 0x01, 0xe0, 0x00}, {0, static_cast<uint8_t>(request.size())}, request}));
  EXPECT_EQ(t.error().cause, StreamErrorCause::kViolation);
}

// Proves RDMAP-7.1-2, RDMAP-7.1-3, RDMAP-4.8-37, RDMAP-4.8-46, RDMAP-4.8-29
TEST(IwarpMessage, AnErrorOfNoSegmentGoesWithoutHeaders) {
  TakenOver t;
  ByteVector broken = fpdu(send_segment(1, kPayload));
  broken.back() ^= 1;
  const auto heard = t.say(broken);
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(ByteVector(heard[0].payload().begin(), heard[0].payload().end()), (ByteVector{0x20, 0x02, 0x00, 0x00}));
}

// Proves RDMAP-4.1-25, RDMAP-4.8-35, RDMAP-4.8-48, RDMAP-4.8-49, RDMAP-7.1-5, RDMAP-3.1-9
TEST(IwarpMessage, ASegmentThatContradictsItselfGoesBackWithItsHeader) {
  struct Case {
    const char* name;
    ByteVector segment;
    ByteVector control;
  };
  for (const Case& each : {Case{"an untagged Write", untagged(0x41, 0x40, 0, 0, 1, 0, kPayload), {0x02, 0x06, 0xc0, 0}},
                           Case{"a tagged Send", tagged(0xc1, 0x43, 1, 0, kPayload), {0x02, 0x06, 0xc0, 0}},
                           Case{"a Send of queue 1", untagged(0x41, 0x43, 0, 1, 1, 0, kPayload), {0x02, 0x06, 0xc0, 0}},
                           Case{"an MSN ahead", send_segment(9, kPayload), {0x12, 0x03, 0xc0, 0}}}) {
    SCOPED_TRACE(each.name);
    TakenOver t;
    const auto heard = t.say(fpdu(each.segment));
    ASSERT_EQ(heard.size(), 1u);
    const size_t header_bytes = (each.segment[0] & 0x80) != 0 ? kTaggedHeaderBytes : kUntaggedHeaderBytes;
    const ByteVector header(each.segment.begin(), each.segment.begin() + static_cast<ptrdiff_t>(header_bytes));
    EXPECT_EQ(ByteVector(heard[0].payload().begin(), heard[0].payload().end()),
              joined({each.control, {0, static_cast<uint8_t>(each.segment.size())}, header}));
  }
}

// Proves RDMAP-7.2-6, RDMAP-7.2-8
TEST(IwarpMessage, EveryFieldOfAReadRequestIsLookedAt) {
  struct Case {
    const char* name;
    uint8_t ddp;
    uint8_t rdmap;
    uint32_t queue;
    uint32_t message;
    uint32_t offset;
    TerminateCause cause;
  };
  for (const Case& each : {Case{"right", 0x41, 0x41, 1, 1, 0, TerminateCause::kNone},
                           Case{"DDP version", 0x40, 0x41, 1, 1, 0, TerminateCause::kUntaggedVersion},
                           Case{"RDMAP version", 0x41, 0x81, 1, 1, 0, TerminateCause::kOperationVersion},
                           Case{"another queue", 0x41, 0x41, 0, 1, 0, TerminateCause::kOperationOpcode},
                           Case{"no queue", 0x41, 0x41, 7, 1, 0, TerminateCause::kUntaggedQueue},
                           Case{"MSN", 0x41, 0x41, 1, 2, 0, TerminateCause::kUntaggedMessage},
                           Case{"MO", 0x41, 0x41, 1, 1, 4, TerminateCause::kUntaggedOffset},
                           Case{"more to follow", 0x01, 0x41, 1, 1, 0, TerminateCause::kOperationUnspecified}}) {
    SCOPED_TRACE(each.name);
    TakenOver t;
    std::vector<uint8_t> memory = pattern(100);
    const verbs::Rkey key = t.expose(memory, verbs::RemoteAccess::kRead);
    ByteVector request(kReadRequestBytes);
    write(ReadRequestHeader{.sink_stag = 5, .bytes = 10, .source_stag = key.value(), .source_offset = t.address_of(key)},
          request);
    const auto heard = t.say(fpdu(untagged(each.ddp, each.rdmap, 0, each.queue, each.message, each.offset, request)));
    ASSERT_EQ(heard.size(), 1u);
    const bool refused = heard[0].header.control.opcode == Opcode::kTerminate;
    EXPECT_EQ(refused ? parse_terminate(heard[0].payload()).cause : TerminateCause::kNone, each.cause);
  }
}

}  // namespace
}  // namespace cw::iwarp::test
