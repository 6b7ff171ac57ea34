// What a peer can send that it must not, each with the Terminate that it gets. Nothing crashes, nothing is placed, nothing is
// left, and another connection does not notice.
#include "tests/unit/iwarp/scripted_peer.h"

namespace cw::iwarp::test {
namespace {

struct WrongSegment {
  const char* name;
  ByteVector segment;
  TerminateCause cause;
  uint32_t control;  // the first word of the Terminate's payload
};

std::vector<WrongSegment> wrong_segments() {
  ReadRequestHeader request;
  request.bytes = 100;
  request.source_stag = 0x1234;
  return {
      {"DDP version of a tagged segment", tagged(0xc2, 0x40, 1, 0, kPayload), TerminateCause::kTaggedVersion, 0x1104'c000},
      {"DDP version of an untagged segment", untagged(0x40, 0x43, 0, 0, 1, 0, kPayload), TerminateCause::kUntaggedVersion,
       0x1206'c000},
      {"queue 3", untagged(0x41, 0x43, 0, 3, 1, 0, kPayload), TerminateCause::kUntaggedQueue, 0x1201'c000},
      {"RDMAP version", untagged(0x41, 0x83, 0, 0, 1, 0, kPayload), TerminateCause::kOperationVersion, 0x0205'c000},
      {"a reserved opcode", untagged(0x41, 0x4f, 0, 0, 1, 0, kPayload), TerminateCause::kOperationOpcode, 0x0206'c000},
      {"a tagged SEND", tagged(0xc1, 0x43, 1, 0, kPayload), TerminateCause::kOperationOpcode, 0x0206'c000},
      {"an untagged WRITE", untagged(0x41, 0x40, 0, 0, 1, 0, kPayload), TerminateCause::kOperationOpcode, 0x0206'c000},
      {"a SEND in the queue of READs", untagged(0x41, 0x43, 0, 1, 1, 0, kPayload), TerminateCause::kOperationOpcode, 0x0206'c000},
      {"a Terminate in the queue of SENDs", untagged(0x41, 0x47, 0, 0, 1, 0, kPayload), TerminateCause::kOperationOpcode,
       0x0206'c000},
      {"MSN 0", send_segment(0, kPayload), TerminateCause::kUntaggedMessage, 0x1203'c000},
      {"MSN ahead", send_segment(2, kPayload), TerminateCause::kUntaggedMessage, 0x1203'c000},
      {"MO ahead", send_segment(1, kPayload, 4), TerminateCause::kUntaggedOffset, 0x1204'c000},
      {"a message beyond the receive", send_segment(1, pattern(4097)), TerminateCause::kUntaggedTooLong, 0x1205'c000},
      {"a WRITE to a guessed STag", tagged(0xc1, 0x40, 0x1234, 0, kPayload), TerminateCause::kTaggedInvalidStag, 0x1100'c000},
      {"a READ response nobody asked for", tagged(0xc1, 0x42, 0x1234, 0, kPayload), TerminateCause::kTaggedInvalidStag,
       0x1100'c000},
      {"a READ where none is taken", read_request_segment(1, request), TerminateCause::kUntaggedNoBuffer, 0x1202'c000},
      {"a short READ request", untagged(0x41, 0x41, 0, 1, 1, 0, kPayload), TerminateCause::kOperationUnspecified, 0x02ff'c000},
      {"a long READ request", untagged(0x41, 0x41, 0, 1, 1, 0, pattern(29)), TerminateCause::kUntaggedTooLong, 0x1205'c000},
      {"an invalidation of a guessed STag", untagged(0x41, 0x44, 0x1234, 0, 1, 0, kPayload),
       TerminateCause::kProtectionNotInvalidated, 0x0109'c000},
  };
}

// Proves RDMAP-3.1-2, RDMAP-4.1-23, RDMAP-4.8-2, RDMAP-4.8-20, RDMAP-4.8-21, RDMAP-4.8-22, RDMAP-4.8-25, RDMAP-4.8-30,
// RDMAP-5.2.2-10, RDMAP-5.3-5, RDMAP-6.1-11, RDMAP-6.2.1-1, RDMAP-7.2-1, RDMAP-7.2-2, RDMAP-7.2-3, RDMAP-7.2-4, RDMAP-7.2-7
TEST(IwarpHostile, EveryWrongSegmentHasItsTerminateAndHurtsNobodyElse) {
  for (const WrongSegment& wrong : wrong_segments()) {
    SCOPED_TRACE(wrong.name);
    ScriptedPeer t({.ird = 4});
    StreamNet::Connection& honest = t.ready();
    verbs::QueuePair* honest_qp = t.server.qp;
    StreamNet::Connection& hostile = t.ready();
    verbs::QueuePair* hostile_qp = t.server.qp;
    uint32_t control = 0;
    EXPECT_EQ(ScriptedPeer::terminate_in(t.say(hostile, fpdu(wrong.segment)), &control), wrong.cause);
    EXPECT_EQ(control, wrong.control);
    EXPECT_TRUE(hostile_qp->in_error());
    EXPECT_TRUE(t.server.completions.empty());
    EXPECT_FALSE(honest_qp->in_error());
    (void)t.say(honest, fpdu(send_segment(1, kPayload)));
    EXPECT_EQ(t.server.completions.size(), 1u);
  }
}

// RFC 5040 4.8: length, headers and reserved bits, byte by byte.
// Proves RDMAP-4.8-1, RDMAP-4.8-32, RDMAP-4.8-33, RDMAP-4.8-34, RDMAP-4.8-36, RDMAP-4.8-38, RDMAP-5.4-1, RDMAP-5.4-2
TEST(IwarpHostile, ATerminateNamesTheSegmentThatWasWrong) {
  ScriptedPeer t;
  StreamNet::Connection& connection = t.ready();
  const ByteVector segment = send_segment(1, kPayload, 4);
  const ByteVector said = t.say(connection, fpdu(segment));
  ByteVector expected{0x12, 0x04, 0xc0, 0x00, 0x00, static_cast<uint8_t>(segment.size())};
  expected.insert(expected.end(), segment.begin(), segment.begin() + kUntaggedHeaderBytes);
  ASSERT_GE(said.size(), 20 + expected.size());
  EXPECT_EQ(ByteVector(said.begin() + 20, said.begin() + 20 + static_cast<ptrdiff_t>(expected.size())), expected);
}

// Proves RDMAP-5.3-2
TEST(IwarpHostile, ASendWithoutAReceiveEndsTheStream) {
  ScriptedPeer t;
  t.server.receives = 1;
  StreamNet::Connection& connection = t.ready();
  const ByteVector said = t.say(connection, joined({fpdu(send_segment(1, kPayload)), fpdu(send_segment(2, kPayload))}));
  EXPECT_EQ(ScriptedPeer::terminate_in(said), TerminateCause::kUntaggedNoBuffer);
  ASSERT_EQ(t.server.completions.size(), 1u);
}

TEST(IwarpHostile, SegmentsOfAMessageMustAgree) {
  const ByteVector first = send_segment(1, kPayload, 0, false);
  struct Case {
    ByteVector second;
    TerminateCause cause;
  };
  for (const Case& each : {Case{untagged(0x41, 0x45, 0, 0, 1, 16, kPayload), TerminateCause::kOperationOpcode},
                           Case{send_segment(1, kPayload, 15), TerminateCause::kUntaggedOffset},
                           Case{send_segment(2, kPayload, 0), TerminateCause::kUntaggedMessage},
                           Case{send_segment(1, pattern(4081), 16), TerminateCause::kUntaggedTooLong}}) {
    ScriptedPeer t;
    StreamNet::Connection& connection = t.ready();
    EXPECT_EQ(ScriptedPeer::terminate_in(t.say(connection, joined({fpdu(first), fpdu(each.second)}))), each.cause);
    EXPECT_TRUE(t.server.completions.empty());
  }
}

// Proves RDMAP-4.8-6, RDMAP-4.8-28, RDMAP-4.8-50
TEST(IwarpHostile, I9_ACorruptedFpduIsNotDelivered) {
  ByteVector bytes = fpdu(send_segment(1, kPayload));
  for (size_t i = 2; i < bytes.size(); ++i) {
    ScriptedPeer t;
    StreamNet::Connection& connection = t.ready();
    ByteVector damaged = bytes;
    damaged[i] ^= 0x10;
    uint32_t control = 0;
    EXPECT_EQ(ScriptedPeer::terminate_in(t.say(connection, damaged), &control), TerminateCause::kMpaCrc) << i;
    EXPECT_EQ(control, 0x2002'0000u);
    EXPECT_TRUE(t.server.completions.empty());
  }
}

TEST(IwarpHostile, I1_AnFpduShorterThanItsHeaderEndsTheStream) {
  for (uint32_t size = 0; size < kUntaggedHeaderBytes; ++size) {
    ScriptedPeer t;
    StreamNet::Connection& connection = t.ready();
    ByteVector segment = send_segment(1, {});
    segment.resize(size);
    EXPECT_EQ(ScriptedPeer::terminate_in(t.say(connection, fpdu(segment))), TerminateCause::kMpaLength) << size;
  }
}

TEST(IwarpHostile, I6_BytesBehindTheRequestAreTooEarly) {
  ScriptedPeer t;
  StreamNet::Connection& connection = t.call();
  const ByteVector said = t.say(connection, joined({siw_request(), fpdu(send_segment(1, kPayload))}));
  ASSERT_GE(said.size(), 20u);
  EXPECT_NE(said[16] & 0x20, 0) << "a refusal";
  EXPECT_TRUE(t.server.requests.empty());
  EXPECT_EQ(t.server.transport.stats().mpa_errors[static_cast<size_t>(MpaError::kEarlyData)], 1u);
}

TEST(IwarpHostile, I12_WhatIsNotMpaIsResetWithItsFirstWrongByte) {
  for (const std::string_view text : {"GET / HTTP/1.1\r\n", "M", "MPA ID Rep Frame"}) {
    ScriptedPeer t;
    StreamNet::Connection& connection = t.call();
    const ByteVector said = t.say(connection, ByteVector(text.begin(), text.end()));
    EXPECT_TRUE(said.empty());
    EXPECT_EQ(t.server.transport.half_open_count(), text == "M" ? 1u : 0u);
    EXPECT_EQ(connection.ends[0].reset_arriving, text != "M");
  }
}

TEST(IwarpHostile, I7_ASlowHandshakeHasATimeLimit) {
  ScriptedPeer t;
  StreamNet::Connection& connection = t.call();
  const ByteVector request = siw_request();
  for (uint32_t i = 0; i < 9; ++i) {
    (void)t.say(connection, {request[i]});
    t.advance(Duration::ms(500));
  }
  EXPECT_EQ(t.server.transport.half_open_count(), 1u);
  t.advance(Duration::seconds(1));
  EXPECT_EQ(t.server.transport.half_open_count(), 0u);
  EXPECT_EQ(t.server.transport.live_count(), 0u);
  EXPECT_EQ(t.server.transport.stats().drops[static_cast<size_t>(IwarpDrop::kHandshakeTimeout)], 1u);
}

TEST(IwarpHostile, I8_AFloodOfConnectionsPushesOutItselfAndNotOthers) {
  IwarpOptions options;
  options.half_open_max = 16;
  options.prefix.half_open_max = 8;
  options.request_rate = options.prefix.request_rate = {.per_second = 1'000'000, .burst = 1'000'000};
  ScriptedPeer t(options);
  StreamNet::Connection& honest = t.call(0x0b00'0001);
  for (uint32_t i = 0; i < 1000; ++i) {
    (void)t.call(0x0c00'0000 + i % 200);
    t.run();
    ASSERT_LE(t.server.transport.half_open_count(), 16u);
  }
  // From many networks.
  for (uint32_t i = 0; i < 1000; ++i) {
    (void)t.call(0x0d00'0000 + i * 256);
    t.run();
    ASSERT_LE(t.server.transport.half_open_count(), 16u);
    if (i == 0) {
      EXPECT_FALSE(honest.ends[0].reset_arriving);
    }
  }
  EXPECT_GT(t.server.transport.stats().drops[static_cast<size_t>(IwarpDrop::kPrefixHalfOpen)], 900u);
  EXPECT_GT(t.server.transport.stats().drops[static_cast<size_t>(IwarpDrop::kHalfOpen)], 900u);
  t.advance(Duration::seconds(6));
  EXPECT_EQ(t.server.transport.live_count(), 0u);
}

// MPA peer to peer: the client says that it is ready by an empty WRITE, once it has our Reply.
const ByteVector kReadyByWrite = mpa_frame(kRequestKey, 0x50, 2, {0x80, 0x08, 0x80, 0x08});
const ByteVector kIsReady = fpdu(tagged(0xc1, 0x40, 0, 0, {}));

IwarpOptions few_half_open() {
  IwarpOptions options;
  options.connections_max = 4;
  options.half_open_max = 16;
  options.prefix.half_open_max = 8;
  options.request_rate = options.prefix.request_rate = {.per_second = 1'000'000, .burst = 1'000'000};
  return options;
}

// Connections that were accepted, and of which nothing came.
uint32_t unreachable_count(const EndHost& host) {
  return static_cast<uint32_t>(std::ranges::count(host.events, Kind::kUnreachable, &EndHost::Event::kind));
}

// More of them than there are places, and as many as a handshake's time limit lets pile up.
TEST(IwarpHostile, I8_WhoNeverSaysThatItIsReadyPushesOutItselfAndNotOthers) {
  for (const bool user_is_slow : {false, true}) {
    ScriptedPeer t(few_half_open());
    StreamNet::Connection& waiting = t.call(0x0b00'0001);
    EXPECT_FALSE(t.say(waiting, kReadyByWrite).empty());
    size_t told = 0;
    const auto destroy_what_is_over = [&] {
      for (; told < t.server.events.size(); ++told) {
        if (t.server.events[told].kind == Kind::kUnreachable) {
          t.server.transport.destroy(t.server.events[told].connection);
        }
      }
    };
    for (uint32_t i = 0; i < 200; ++i) {
      StreamNet::Connection& hostile = t.call(0x0c00'0000 + i);
      ASSERT_FALSE(t.say(hostile, kReadyByWrite).empty()) << i;
      // Some have begun to say it, with an FPDU that holds buffers.
      (void)t.say(hostile, i % 2 == 0 ? ByteVector() : ByteVector{0xff, 0x00, 0xc1, 0x40});
      ASSERT_EQ(t.server.transport.half_open_count(), std::min(i + 2, 9u));
      ASSERT_EQ(unreachable_count(t.server), i < 8 ? 0 : i - 7);
      if (!user_is_slow) {
        destroy_what_is_over();
      }
    }
    EXPECT_EQ(t.server.transport.stats().drops[static_cast<size_t>(IwarpDrop::kPrefixHalfOpen)], 192u);
    EXPECT_EQ(t.server.transport.stats().stream_errors[static_cast<size_t>(StreamErrorCause::kNoResources)], 0u);
    // Whoever came before the flood and whoever comes after it finds its place.
    (void)t.say(waiting, kIsReady);
    EXPECT_EQ(t.server.transport.stats().established, 1u);
    StreamNet::Connection& late = t.call(0x0d00'0001);
    EXPECT_FALSE(t.say(late, kReadyByWrite).empty());
    (void)t.say(late, kIsReady);
    EXPECT_EQ(t.server.transport.stats().established, 2u);
    (void)t.ready();
    EXPECT_EQ(t.server.transport.stats().established, 3u);
    // The rest of the flood has its time limit, and each of them is told once.
    t.advance(Duration::seconds(6));
    EXPECT_EQ(unreachable_count(t.server), 200u);
    EXPECT_EQ(t.server.transport.stats().established, 3u);
    destroy_what_is_over();
    t.run();
    t.advance(Duration::seconds(3));
    EXPECT_EQ(unreachable_count(t.server), 200u);
    EXPECT_EQ(t.server.transport.live_count(), 3u);
    EXPECT_EQ(t.server.transport.half_open_count(), 0u);
    EXPECT_LE(t.server.pool.in_use(), SpareBuffers::kCount);
  }
}

// Until it is ready a connection takes no place, and from then on it has one.
TEST(IwarpHostile, I8_ConnectionsThatAreNotReadyTakeNoPlaceOfThoseThatAre) {
  ScriptedPeer t(few_half_open());
  std::vector<StreamNet::Connection*> unready;
  for (uint32_t i = 0; i < 6; ++i) {
    unready.push_back(&t.call(0x0c00'0000 + i));
    EXPECT_FALSE(t.say(*unready.back(), kReadyByWrite).empty());
  }
  for (uint32_t i = 0; i < 3; ++i) {
    (void)t.ready();
  }
  (void)t.say(*unready[0], kIsReady);
  EXPECT_EQ(t.server.transport.stats().connections, 4u);
  EXPECT_EQ(t.server.transport.half_open_count(), 5u);
  const ByteVector refusal = t.say(t.call(), siw_request());
  ASSERT_GE(refusal.size(), 20u);
  EXPECT_NE(refusal[16] & 0x20, 0) << "there is no place left";
  // Their peers have our Reply: whether there is a place for them is for the user to say.
  (void)t.say(*unready[1], kIsReady);
  EXPECT_EQ(t.server.transport.stats().connections, 5u);
  for (const EndHost::Event& event : std::vector(t.server.events)) {
    if (event.kind == Kind::kEstablished) {
      t.server.transport.destroy(event.connection);
    }
  }
  t.run();
  EXPECT_EQ(t.server.transport.stats().connections, 0u);
  (void)t.ready();
  EXPECT_EQ(t.server.transport.stats().connections, 1u);
  EXPECT_EQ(t.server.transport.half_open_count(), 4u);
}

// Asked for and not answered yet: the user finds out by its answer, and a request that nobody has seen is nobody's.
TEST(IwarpHostile, ARequestIsHalfOpenUntilItIsAnswered) {
  for (const bool polls : {false, true}) {
    IwarpOptions options = few_half_open();
    options.half_open_max = options.prefix.half_open_max = 1;
    ScriptedPeer t(options);
    StreamNet::Connection& first = t.call();
    t.net.write(first, siw_request());
    while (t.net.turn()) {
    }
    EXPECT_EQ(t.server.transport.half_open_count(), 1u);
    verbs::ConnectionEvent event;
    if (polls) {
      ASSERT_TRUE(t.server.transport.poll_event(t.net.now, event));
    }
    StreamNet::Connection& second = t.call();
    EXPECT_TRUE(first.ends[0].reset_arriving);
    EXPECT_EQ(t.server.transport.has_events(), false);
    if (polls) {
      EXPECT_EQ(t.server.transport.accept(t.net.now, event.connection, {}).error(), Error::kBadState);
      t.server.transport.reject(t.net.now, event.connection, verbs::RejectReason::kNoResources, {});
    }
    EXPECT_FALSE(t.say(second, siw_request()).empty());
    EXPECT_EQ(t.server.transport.half_open_count(), 0u);
    EXPECT_EQ(t.server.transport.live_count(), 1u);
  }
}

TEST(IwarpHostile, OneNetworksConnectionsPerSecondAreBoundedAndOthersGetIn) {
  IwarpOptions options;
  options.request_rate = {.per_second = 100, .burst = 40};
  options.prefix.request_rate = {.per_second = 75, .burst = 30};
  ScriptedPeer t(options);
  for (uint32_t i = 0; i < 1000; ++i) {
    (void)t.call(0x0c00'0000 + i % 200);
    t.run();
  }
  EXPECT_EQ(t.server.transport.stats().accepted, 30u);
  EXPECT_EQ(t.server.transport.stats().drops[static_cast<size_t>(IwarpDrop::kPrefixRate)], 970u);
  for (uint32_t i = 0; i < 20; ++i) {
    (void)t.call(0x0d00'0000 + i * 256);
    t.run();
  }
  EXPECT_EQ(t.server.transport.stats().accepted, 40u);
  EXPECT_EQ(t.server.transport.stats().drops[static_cast<size_t>(IwarpDrop::kRate)], 10u);
  t.advance(Duration::seconds(1));
  (void)t.call(0x0c00'0000);
  t.run();
  EXPECT_EQ(t.server.transport.stats().accepted, 41u);
}

TEST(IwarpHostile, AFloodKeepsNobodyOutWhoHadAConnection) {
  IwarpOptions options;
  options.request_rate = {.per_second = 100, .burst = 40};
  ScriptedPeer t(options);
  (void)t.ready();
  for (uint32_t i = 0; i < 1000; ++i) {
    (void)t.call(0x0d00'0000 + i * 256);  // a network each
    t.run();
  }
  EXPECT_EQ(t.server.transport.stats().accepted, 40u);
  EXPECT_FALSE(t.say(t.call(), siw_request()).empty());
  EXPECT_EQ(t.server.transport.stats().accepted, 41u);
  (void)t.call(kClientAddress + 1);  // of its network, and one of the flood all the same
  t.run();
  EXPECT_EQ(t.server.transport.stats().accepted, 41u);
}

TEST(IwarpHostile, AnFpduThatDoesNotEndHasATimeLimit) {
  ScriptedPeer t;
  StreamNet::Connection& connection = t.ready();
  const ByteVector bytes = fpdu(send_segment(1, kPayload));
  (void)t.say(connection, ByteVector(bytes.begin(), bytes.end() - 1));
  t.advance(Duration::seconds(9));
  EXPECT_FALSE(t.server.qp->in_error());
  t.advance(Duration::seconds(2));
  EXPECT_TRUE(t.server.qp->in_error());
  EXPECT_TRUE(t.server.was_disconnected_by(verbs::DisconnectCause::kTransport));
}

TEST(IwarpHostile, APeerThatNeverReadsKeepsNothingForEver) {
  for (const bool disconnects : {true, false}) {
    ScriptedPeer t;
    StreamNet::Connection& connection = t.ready();
    (void)t.say(connection, fpdu(send_segment(1, kPayload)));
    t.net.buffer_bytes_max = 0;
    ASSERT_TRUE(t.server.qp->post_send({.payload = t.server.chain(pattern(3000))}).ok());
    t.run();
    t.server.completions.clear();
    if (disconnects) {
      t.server.transport.disconnect(t.net.now, t.server.connection);
    }
    t.server.transport.destroy(t.server.connection);
    t.run();
    EXPECT_EQ(t.server.transport.live_count(), 1u);
    t.advance(Duration::seconds(3));
    EXPECT_EQ(t.server.transport.live_count(), 0u);
    EXPECT_LE(t.server.pool.in_use(), SpareBuffers::kCount);
  }
}

// Whoever does not say FIN keeps a place among few, and only until others need it.
TEST(IwarpHostile, ConnectionsThatAreOverHaveABound) {
  IwarpOptions options;
  options.parting_max = 3;
  ScriptedPeer t(options);
  t.server.refuse = verbs::RejectReason::kRefused;
  std::vector<StreamNet::Connection*> calls;
  for (uint32_t i = 0; i < 5; ++i) {
    calls.push_back(&t.call());
    EXPECT_FALSE(t.say(*calls.back(), siw_request()).empty());
    EXPECT_LE(t.server.transport.live_count(), 3u);
  }
  EXPECT_EQ(t.server.transport.parting_count(), 3u);
  for (uint32_t i = 0; i < 5; ++i) {
    EXPECT_EQ(calls[i]->ends[0].reset_arriving, i < 2);
  }
  t.advance(options.parting_timeout);
  EXPECT_EQ(t.server.transport.parting_count(), 0u);
  EXPECT_EQ(t.server.transport.live_count(), 0u);
}

// Shutdown and drain end many at once: each may say its last words, and none is reset for the sake of the others.
TEST(IwarpHostile, ConnectionsThatWereEstablishedEndInOrderHoweverMany) {
  IwarpOptions options;
  options.parting_max = 1;
  ScriptedPeer t(options);
  std::vector<StreamNet::Connection*> calls;
  for (uint32_t i = 0; i < 4; ++i) {
    calls.push_back(&t.ready());
    EXPECT_TRUE(t.say(*calls.back(), fpdu(send_segment(1, kPayload))).empty());
    ASSERT_TRUE(t.server.qp->post_send({.payload = t.server.chain(kPayload)}).ok());
  }
  t.run();
  for (const verbs::ConnectionId id : t.server.requests) {
    t.server.transport.disconnect(t.net.now, id);
    t.server.transport.destroy(id);
  }
  t.run();
  for (StreamNet::Connection* call : calls) {
    EXPECT_FALSE(call->ends[0].reset_arriving);
    EXPECT_TRUE(call->ends[0].fin_arriving);
    EXPECT_FALSE(t.net.read(*call).empty());
  }
  // Whoever is refused meanwhile is the first to go.
  t.server.refuse = verbs::RejectReason::kRefused;
  StreamNet::Connection& first = t.call();
  (void)t.say(first, siw_request());
  (void)t.say(t.call(), siw_request());
  EXPECT_TRUE(first.ends[0].reset_arriving);
  EXPECT_EQ(t.server.transport.parting_count(), 5u);
  t.advance(options.parting_timeout);
  EXPECT_EQ(t.server.transport.parting_count(), 0u);
}

// Its user has ended it while it waited for its turn to be read: what has come is read all the same, for the FIN behind it.
TEST(IwarpHostile, WhoWaitsToBeReadIsReadAgainWhenItIsOver) {
  for (const bool destroys : {true, false}) {
    IwarpOptions options;
    options.input_bytes_max = 1;  // one at a time
    ScriptedPeer t(options);
    t.server.accept_options.receive_bytes_max = 65'000;
    const ByteVector bytes = fpdu(send_segment(1, pattern(60'000)));
    StreamNet::Connection& first = t.ready();
    StreamNet::Connection& second = t.ready();
    (void)t.say(first, ByteVector(bytes.begin(), bytes.begin() + 30'000));
    (void)t.say(second, ByteVector(bytes.begin(), bytes.begin() + 30'000));
    ASSERT_FALSE(second.ends[1].arriving.empty());
    if (destroys) {
      t.server.transport.destroy(t.server.connection);
    } else {
      t.server.transport.disconnect(t.net.now, t.server.connection);
    }
    StreamId stream;
    ASSERT_TRUE(t.server.transport.poll_sendable(t.net.now, stream));
    EXPECT_EQ(stream, second.ends[1].stream);
    second.ends[1].fin_arriving = true;
    t.run();
    EXPECT_FALSE(second.ends[1].stream);
    EXPECT_FALSE(second.ends[0].reset_arriving);
  }
}

// Long FPDUs of all connections together have a bound; who waits for it loses no time by it, and short ones pass.
// Proves RDMAP-8.1.2-9
TEST(IwarpHostile, I11_FpdusThatDoNotEndHoldNoMoreThanTheirShareTogether) {
  IwarpOptions options;
  options.input_bytes_max = 128u << 10;
  ScriptedPeer t(options);
  t.server.accept_options.receive_bytes_max = 65'000;
  const ByteVector message = pattern(60'000);
  const ByteVector bytes = fpdu(send_segment(1, message));
  std::vector<StreamNet::Connection*> hostile;
  for (uint32_t i = 0; i < 20; ++i) {
    hostile.push_back(&t.ready());
    (void)t.say(*hostile.back(), ByteVector(bytes.begin(), bytes.end() - 1));
  }
  EXPECT_LE(t.server.pool.in_use() * 2048ull, options.input_bytes_max + 20 * 18'432ull + SpareBuffers::kCount * 2048ull);
  StreamNet::Connection& small = t.ready();
  (void)t.say(small, fpdu(send_segment(1, kPayload)));
  ASSERT_EQ(t.server.completions.size(), 1u);
  StreamNet::Connection& honest = t.ready();
  verbs::QueuePair* honest_qp = t.server.qp;
  (void)t.say(honest, bytes);
  EXPECT_EQ(t.server.completions.size(), 1u);
  // The hostile ones lose their connections two by two.
  for (uint32_t i = 0; i < 11; ++i) {
    t.advance(Duration::seconds(10));
  }
  EXPECT_FALSE(honest_qp->in_error());
  ASSERT_EQ(t.server.completions.size(), 2u);
  EXPECT_EQ(bytes_of(t.server.completions[1].payload), message);
  EXPECT_GT(t.server.transport.stats().input_waits, 15u);
}

// Nobody keeps the room by sending one after the other.
TEST(IwarpHostile, ABusyConnectionLeavesRoomToTheNextInLine) {
  IwarpOptions options;
  options.input_bytes_max = 1;  // one at a time
  ScriptedPeer t(options);
  t.server.accept_options.receive_bytes_max = 65'000;
  t.server.receives = 100;
  StreamNet::Connection& busy = t.ready();
  StreamNet::Connection& other = t.ready();
  const ByteVector message = pattern(60'000);
  ByteVector many;
  for (uint32_t i = 1; i <= 20; ++i) {
    many = joined({many, fpdu(send_segment(i, message))});
  }
  // Its first message has begun when the other one gets in line.
  (void)t.say(busy, ByteVector(many.begin(), many.begin() + 30'000));
  (void)t.say(other, fpdu(send_segment(1, message)));
  EXPECT_FALSE(other.ends[1].arriving.empty());
  t.net.write(busy, ByteVector(many.begin() + 30'000, many.end()));
  for (uint32_t i = 0; i < 4; ++i) {
    (void)t.net.turn();
    t.server.turn(t.net.now);
    EXPECT_FALSE(busy.ends[1].arriving.empty() && !other.ends[1].arriving.empty());
  }
  t.run();
  EXPECT_EQ(t.server.completions.size(), 21u);
}

TEST(IwarpHostile, ManyShortSegmentsDoNotHoldManyBuffers) {
  ScriptedPeer t;
  StreamNet::Connection& connection = t.ready();
  ByteVector bytes;
  for (uint32_t i = 0; i < 4000; ++i) {
    const ByteVector one = fpdu(send_segment(1, {static_cast<uint8_t>(i)}, i, false));
    bytes.insert(bytes.end(), one.begin(), one.end());
  }
  (void)t.say(connection, bytes);
  EXPECT_FALSE(t.server.qp->in_error());
  EXPECT_LE(t.server.pool.in_use(), SpareBuffers::kCount + 3);
}

// Proves RDMAP-3.2-9, RDMAP-5.2.2-8, RDMAP-7.1-4
TEST(IwarpHostile, AReadResponseIsCheckedAgainstItsRequest) {
  struct Case {
    const char* name;
    uint32_t wrong_stag;  // xor
    uint64_t offset;
    uint32_t bytes;
    bool last;
    TerminateCause cause;
  };
  for (const Case& each : {Case{"another STag", 1, 0, 100, true, TerminateCause::kTaggedInvalidStag},
                           Case{"an offset ahead", 0, 1, 99, true, TerminateCause::kTaggedBounds},
                           Case{"too long", 0, 0, 101, true, TerminateCause::kTaggedBounds},
                           Case{"an offset that wraps", 0, UINT64_MAX, 100, true, TerminateCause::kTaggedBounds},
                           Case{"too short", 0, 0, 99, true, TerminateCause::kOperationUnspecified}}) {
    SCOPED_TRACE(each.name);
    ScriptedPeer t;
    StreamNet::Connection& connection = t.ready();
    (void)t.say(connection, fpdu(send_segment(1, kPayload)));
    t.server.completions.clear();
    ASSERT_TRUE(
        t.server.qp->post_read({.id = verbs::WorkId(9), .rkey = verbs::Rkey(77), .remote_address = 5, .length = 100}).ok());
    t.run();
    const ByteVector request = t.net.read(connection);
    ASSERT_EQ(request.size(), fpdu_bytes(kUntaggedHeaderBytes + kReadRequestBytes));
    const ReadRequestHeader asked = parse_read_request(Bytes(request).subspan(2 + kUntaggedHeaderBytes));
    EXPECT_EQ(asked.source_stag, 77u);
    EXPECT_EQ(asked.source_offset, 5u);
    EXPECT_EQ(asked.bytes, 100u);
    const ByteVector said = t.say(connection, fpdu(tagged(each.last ? 0xc1 : 0x81, 0x42, asked.sink_stag ^ each.wrong_stag,
                                                          asked.sink_offset + each.offset, pattern(each.bytes))));
    EXPECT_EQ(ScriptedPeer::terminate_in(said), each.cause);
    ASSERT_EQ(t.server.completions.size(), 1u);
    EXPECT_EQ(t.server.completions[0].status, verbs::WcStatus::kBadResponse);
  }
}

// A tag lives for one READ.
TEST(IwarpHostile, AReadsTagIsDeadWithItsResponse) {
  ScriptedPeer t;
  StreamNet::Connection& connection = t.ready();
  (void)t.say(connection, fpdu(send_segment(1, kPayload)));
  ASSERT_TRUE(t.server.qp->post_read({.rkey = verbs::Rkey(77), .length = 16}).ok());
  t.run();
  const ByteVector request = t.net.read(connection);
  const ReadRequestHeader asked = parse_read_request(Bytes(request).subspan(2 + kUntaggedHeaderBytes));
  const ByteVector response = fpdu(tagged(0xc1, 0x42, asked.sink_stag, 0, kPayload));
  EXPECT_TRUE(t.say(connection, response).empty());
  EXPECT_EQ(ScriptedPeer::terminate_in(t.say(connection, response)), TerminateCause::kTaggedInvalidStag);
}

// Proves RDMAP-5.4-7
TEST(IwarpHostile, I10_ATerminateThatIsWrongIsNotAnswered) {
  for (const ByteVector& wrong :
       {untagged(0x41, 0x47, 0, 2, 2, 0, kPayload), untagged(0x41, 0x47, 0, 2, 1, 0, {0x01, 0x01, 0xc0}),
        untagged(0x41, 0x47, 0, 2, 1, 4, kPayload), untagged(0x01, 0x47, 0, 2, 1, 0, kPayload),
        untagged(0x41, 0x47, 0, 2, 1, 0, pattern(53))}) {
    ScriptedPeer t;
    StreamNet::Connection& connection = t.ready();
    EXPECT_TRUE(t.say(connection, fpdu(wrong)).empty());
    EXPECT_TRUE(t.server.qp->in_error());
  }
}

// Proves RDMAP-5.4-6, RDMAP-6.2.1-3
TEST(IwarpHostile, AReceivedTerminateEndsWhatIsOutstandingWithItsReason) {
  for (const bool siw : {false, true}) {
    ScriptedPeer t;
    StreamNet::Connection& connection = t.ready();
    (void)t.say(connection, fpdu(send_segment(1, kPayload)));
    t.server.completions.clear();
    ASSERT_TRUE(t.server.qp->post_read({.rkey = verbs::Rkey(77), .length = 16}).ok());
    t.run();
    // Remote protection, bounds: as the RFC has it, and as siw sends it.
    const ByteVector control = siw ? ByteVector{0x10, 0x01, 0x03, 0x00} : ByteVector{0x01, 0x01, 0xc0, 0x00};
    const ByteVector payload = joined({control, {0, 46}, ByteVector(kUntaggedHeaderBytes)});
    (void)t.say(connection, fpdu(untagged(0x41, 0x47, 0, 2, 1, 0, payload)));
    ASSERT_EQ(t.server.completions.size(), 1u);
    EXPECT_EQ(t.server.completions[0].status, verbs::WcStatus::kRemoteAccessError);
    const verbs::QueuePairInfo info = t.server.transport.describe(t.server.connection);
    EXPECT_EQ(info.error.cause, "terminated");
    EXPECT_EQ(info.detail<IwarpDetail>().error.terminate, TerminateCause::kProtectionBounds);
  }
}

}  // namespace
}  // namespace cw::iwarp::test
