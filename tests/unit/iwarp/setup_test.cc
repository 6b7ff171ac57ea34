// MPA set-up: the variants of irdma, cxgb4 and siw, and what is refused.
#include "iwarp/mpa/setup.h"

#include "tests/unit/iwarp/scripted_peer.h"

namespace cw::iwarp::test {
namespace {

struct Variant {
  const char* name;
  ByteVector request;
  bool our_crc;
  ByteVector reply;
  ReadyToReceive ready;
  uint16_t ird;
  uint16_t ord;
};

ByteVector word(uint16_t first, uint16_t second) {
  return {static_cast<uint8_t>(first >> 8), static_cast<uint8_t>(first), static_cast<uint8_t>(second >> 8),
          static_cast<uint8_t>(second)};
}
const ByteVector kPrivate{0xf6, 0xab, 0x0e, 0x18, 0x01, 0x00, 0x03, 0x03};

// We take no READs (wishes.ird 0) and want 32 of our own.
std::vector<Variant> variants() {
  const auto request = [](uint8_t flags, uint8_t revision, const ByteVector& data) {
    return mpa_frame(kRequestKey, flags, revision, data);
  };
  const auto reply = [](uint8_t flags, uint8_t revision, const ByteVector& data) {
    return mpa_frame(kReplyKey, flags, revision, data);
  };
  return {
      {"siw, NFS client", request(0x10, 2, joined({word(128, 0), kPrivate})), true,
       reply(0x50, 2, joined({word(0, 32), kPrivate})), ReadyToReceive::kNone, 0, 32},
      {"siw, CRC off on both sides", request(0x10, 2, joined({word(128, 0), kPrivate})), false,
       reply(0x10, 2, joined({word(0, 32), kPrivate})), ReadyToReceive::kNone, 0, 32},
      {"the peer wants a CRC", request(0x50, 2, joined({word(16, 16), kPrivate})), false,
       reply(0x50, 2, joined({word(0, 16), kPrivate})), ReadyToReceive::kNone, 0, 16},
      {"peer to peer, all three offered", request(0x50, 2, word(0xc000 | 8, 0xc000 | 8)), true,
       reply(0x50, 2, joined({word(0x8000, 0x8000 | 8), kPrivate})), ReadyToReceive::kWrite, 0, 8},
      {"irdma, WRITE and READ", request(0x50, 2, word(0x8000 | 127, 0xc000 | 127)), true,
       reply(0x50, 2, joined({word(0x8000, 0x8000 | 32), kPrivate})), ReadyToReceive::kWrite, 0, 32},
      {"cxgb4, READ", request(0x50, 2, word(0x8000 | 32, 0x4000 | 32)), true,
       reply(0x50, 2, joined({word(0x8000 | 1, 0x4000 | 32), kPrivate})), ReadyToReceive::kRead, 1, 32},
      {"SEND only", request(0x50, 2, word(0xc000 | 4, 4)), true, reply(0x50, 2, joined({word(0xc000, 4), kPrivate})),
       ReadyToReceive::kSend, 0, 4},
      {"depths to be settled by the users", request(0x10, 2, word(0x3fff, 0x3fff)), true,
       reply(0x50, 2, joined({word(0, 32), kPrivate})), ReadyToReceive::kNone, 0, 32},
      {"revision 1", request(0x40, 1, kPrivate), true, reply(0x40, 1, kPrivate), ReadyToReceive::kNone, 0, 32},
      {"revision 1 without private data", request(0x00, 1, {}), false, reply(0x00, 1, kPrivate), ReadyToReceive::kNone, 0, 32},
      {"revision 2 without S", request(0x00, 2, kPrivate), false, reply(0x00, 2, kPrivate), ReadyToReceive::kNone, 0, 32},
      {"512 bytes of private data", request(0x10, 2, joined({word(1, 0), ByteVector(508, 7)})), false,
       reply(0x10, 2, joined({word(0, 1), kPrivate})), ReadyToReceive::kNone, 0, 1},
  };
}

TEST(MpaSetup, AnswersEveryVariantAsItIsMeant) {
  for (const Variant& variant : variants()) {
    SCOPED_TRACE(variant.name);
    // Cut at every byte.
    for (size_t cut = 0; cut <= variant.request.size(); ++cut) {
      MpaResponder responder;
      uint32_t used = 0;
      MpaProgress progress = MpaProgress::kMore;
      if (cut > 0) {
        progress = responder.take(Bytes(variant.request).first(cut), used);
        ASSERT_EQ(used, cut);
      }
      if (cut < variant.request.size()) {
        ASSERT_EQ(progress, MpaProgress::kMore);
        progress = responder.take(Bytes(variant.request).subspan(cut), used);
      }
      ASSERT_EQ(progress, MpaProgress::kComplete);
      std::array<uint8_t, kMpaFrameBytesMax> reply{};
      const uint32_t size = responder.accept({.crc = variant.our_crc, .ird = 0, .ord = 32, .private_data = kPrivate}, reply);
      ASSERT_EQ(ByteVector(reply.begin(), reply.begin() + size), variant.reply);
      EXPECT_EQ(responder.session().ready, variant.ready);
      EXPECT_EQ(responder.session().ird, variant.ird);
      EXPECT_EQ(responder.session().ord, variant.ord);
    }
  }
}

TEST(MpaSetup, RefusesWhatItCannotDo) {
  struct Case {
    const char* name;
    ByteVector request;
    MpaError error;
  };
  ByteVector too_long = siw_request();
  too_long[18] = 2;
  too_long[19] = 1;
  for (const Case& each :
       {Case{"markers", siw_request(0x90), MpaError::kMarkers},
        Case{"revision 0", mpa_frame(kRequestKey, 0, 0, {}), MpaError::kRevision},
        Case{"revision 3", mpa_frame(kRequestKey, 0x10, 3, word(1, 1)), MpaError::kRevision},
        Case{"513 bytes of private data", too_long, MpaError::kLength},
        Case{"S without the word", mpa_frame(kRequestKey, 0x10, 2, {1, 2, 3}), MpaError::kLength},
        Case{"peer to peer without a type", mpa_frame(kRequestKey, 0x10, 2, word(0x8001, 1)), MpaError::kReadyToReceive},
        Case{"a Reply", mpa_frame(kReplyKey, 0x10, 2, word(1, 1)), MpaError::kKey}}) {
    SCOPED_TRACE(each.name);
    MpaResponder responder;
    uint32_t used = 0;
    EXPECT_EQ(responder.take(each.request, used), MpaProgress::kFailed);
    EXPECT_EQ(responder.error(), each.error);
    std::array<uint8_t, kMpaFrameBytesMax> reply{};
    const uint32_t size = responder.reject({}, reply);
    EXPECT_GE(size, kMpaHeaderBytes);
    EXPECT_NE(reply[16] & 0x20, 0);
    EXPECT_EQ(reply[16] & 0x80, 0);
    EXPECT_TRUE(reply[17] == 1 || reply[17] == 2);
    // And stays so.
    EXPECT_EQ(responder.take(each.request, used), MpaProgress::kFailed);
  }
}

TEST(MpaSetup, TheInitiatorTakesWhatAServerMayAnswer) {
  struct Case {
    const char* name;
    ByteVector reply;
    MpaProgress progress;
    MpaError error;
    uint16_t ird;
    uint16_t ord;
  };
  for (const Case& each :
       {Case{"what we asked for", mpa_frame(kReplyKey, 0x50, 2, joined({word(32, 16), kPrivate})), MpaProgress::kComplete,
             MpaError::kNone, 16, 32},
        Case{"fewer READs", mpa_frame(kReplyKey, 0x10, 2, word(1, 0)), MpaProgress::kComplete, MpaError::kNone, 16, 1},
        Case{"more READs of its own", mpa_frame(kReplyKey, 0x10, 2, word(128, 128)), MpaProgress::kComplete, MpaError::kNone, 128,
             32},
        Case{"far more of them", mpa_frame(kReplyKey, 0x10, 2, word(1, 300)), MpaProgress::kFailed, MpaError::kInsufficientIrd,
             16, 1},
        Case{"revision 1", mpa_frame(kReplyKey, 0, 1, kPrivate), MpaProgress::kComplete, MpaError::kNone, 16, 32},
        Case{"a refusal", mpa_frame(kReplyKey, 0x30, 2, joined({word(0, 0), kPrivate})), MpaProgress::kRejected, MpaError::kNone,
             16, 32},
        Case{"markers", mpa_frame(kReplyKey, 0x90, 2, word(1, 1)), MpaProgress::kFailed, MpaError::kMarkers, 16, 32},
        Case{"revision 7", mpa_frame(kReplyKey, 0, 7, {}), MpaProgress::kFailed, MpaError::kRevision, 16, 32},
        Case{"a Request", siw_request(), MpaProgress::kFailed, MpaError::kKey, 16, 32}}) {
    SCOPED_TRACE(each.name);
    MpaInitiator initiator;
    std::array<uint8_t, kMpaFrameBytesMax> request{};
    const uint32_t size = initiator.request({.crc = true, .ird = 16, .ord = 32, .private_data = kPrivate}, request);
    EXPECT_EQ(ByteVector(request.begin(), request.begin() + size),
              mpa_frame(kRequestKey, 0x50, 2, joined({word(16, 32), kPrivate})));
    // Bytes behind the Reply are the stream's.
    const ByteVector reply = joined({each.reply, {1, 2, 3}});
    uint32_t used = 0;
    EXPECT_EQ(initiator.take(reply, used), each.progress);
    EXPECT_EQ(initiator.error(), each.error);
    if (each.progress != MpaProgress::kFailed) {
      EXPECT_EQ(used, each.reply.size());
      EXPECT_EQ(initiator.session().ird, each.ird);
      EXPECT_EQ(initiator.session().ord, each.ord);
    }
  }
}

// Proves RDMAP-5.2.1-14, RDMAP-5.2.1-15
TEST(MpaSetup, ThePeerIsReadyWhenItSaysSo) {
  struct Case {
    const char* name;
    ByteVector request;
    ByteVector ready;
    bool has_answer;
  };
  ReadRequestHeader empty_read;
  empty_read.sink_stag = 1;
  empty_read.source_stag = 1;
  for (const Case& each :
       {Case{"WRITE", mpa_frame(kRequestKey, 0x50, 2, word(0x8008, 0x8008)), tagged(0xc1, 0x40, 0, 0, {}), false},
        Case{"READ", mpa_frame(kRequestKey, 0x50, 2, word(0x8008, 0x4008)), read_request_segment(1, empty_read), true},
        Case{"SEND", mpa_frame(kRequestKey, 0x50, 2, word(0xc008, 0x0008)), send_segment(1, {}), false}}) {
    SCOPED_TRACE(each.name);
    ScriptedPeer t;
    StreamNet::Connection& connection = t.call();
    EXPECT_EQ(t.say(connection, each.request).size(), 24u);
    EXPECT_FALSE(t.server.has_event(Kind::kEstablished));
    // What is posted before waits.
    ASSERT_TRUE(t.server.qp->post_send({.payload = t.server.chain(pattern(8)), .signaled = false}).ok());
    t.run();
    EXPECT_TRUE(t.net.read(connection).empty());
    const ByteVector said = t.say(connection, fpdu(each.ready));
    EXPECT_TRUE(t.server.has_event(Kind::kEstablished));
    EXPECT_TRUE(t.server.completions.empty());
    const uint32_t answer_bytes = each.has_answer ? fpdu_bytes(kTaggedHeaderBytes) : 0;
    EXPECT_EQ(said.size(), answer_bytes + fpdu_bytes(kUntaggedHeaderBytes + 8));
    // The peer's first message is numbered as if the sign of readiness had been one, if it was a SEND.
    const uint32_t next = std::string_view(each.name) == "SEND" ? 2 : 1;
    EXPECT_TRUE(t.say(connection, fpdu(send_segment(next, pattern(5)))).empty());
    EXPECT_EQ(t.server.completions.size(), 1u);
  }
}

TEST(MpaSetup, APeerThatDoesNotSayThatItIsReadyIsGivenUp) {
  ScriptedPeer t;
  StreamNet::Connection& connection = t.call();
  (void)t.say(connection, mpa_frame(kRequestKey, 0x50, 2, word(0x8008, 0x8008)));
  t.advance(Duration::seconds(6));
  EXPECT_FALSE(t.server.has_event(Kind::kEstablished));
  EXPECT_TRUE(t.server.has_event(Kind::kUnreachable));
  EXPECT_TRUE(t.server.qp->in_error());
}

// A client whose server the test plays.
struct PlayedServer {
  PlayedServer() : client(net, kClientAddress, {}, false) {
    const auto called = client.transport.connect(net.now, IpAddress::v4(kServerAddress), kPort, {.context = 1});
    EXPECT_TRUE(called.ok());
    connection().is_up = true;
    client.transport.on_connected(net.now, *connection().ends[0].stream, 1460);
  }
  [[nodiscard]] StreamNet::Connection& connection() { return net.connections().front(); }
  void say(const ByteVector& bytes) {
    connection().ends[0].arriving.insert(connection().ends[0].arriving.end(), bytes.begin(), bytes.end());
    (void)net.turn();
  }

  StreamNet net;
  EndHost client;
};

TEST(MpaSetup, WhoCallsHearsOnceThatTheReplyWasWrong) {
  PlayedServer t;
  t.say(mpa_frame(kReplyKey, 0x90, 2, word(0, 0)));
  t.client.turn(t.net.now);
  t.net.advance(Duration::seconds(10));
  t.client.turn(t.net.now);
  ASSERT_EQ(t.client.events.size(), 1u);
  EXPECT_EQ(t.client.events[0].kind, Kind::kRejected);
  EXPECT_EQ(t.client.transport.stats().drops[static_cast<size_t>(IwarpDrop::kHandshakeTimeout)], 0u);
}

TEST(MpaSetup, WhatAPeerSaysStaysUntilTheNextEventWhateverBecomesOfTheConnection) {
  for (const bool destroys : {false, true}) {
    PlayedServer t;
    t.say(mpa_frame(kReplyKey, 0x50, 2, joined({word(0, 0), kPrivate})));
    verbs::ConnectionEvent event;
    ASSERT_TRUE(t.client.transport.poll_event(t.net.now, event));
    ASSERT_EQ(event.kind, Kind::kConnectResponse);
    if (destroys) {
      t.client.transport.destroy(event.connection);
    } else {
      t.client.transport.establish(t.net.now, event.connection);
    }
    EXPECT_EQ(ByteVector(event.private_data.begin(), event.private_data.end()), kPrivate);
  }
}

}  // namespace
}  // namespace cw::iwarp::test
