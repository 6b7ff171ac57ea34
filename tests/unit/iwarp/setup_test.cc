// MPA set-up: the variants of irdma, cxgb4 and siw, and what is refused.
#include "iwarp/mpa/setup.h"

#include "tests/unit/iwarp/hex.h"
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

// "MPA ID Req Frame", "MPA ID Rep Frame"
constexpr std::string_view kRequestKeyHex = "4d504120 49442052 6571204672616d65 ";
constexpr std::string_view kReplyKeyHex = "4d504120 49442052 6570204672616d65 ";
// Behind our 4 bytes or alone: what RFC 8797 says, version 1, 4 KiB each way, and invalidation is fine.
constexpr std::string_view kPrivateHex = "f6ab0e1801000303";

// Behind the key: flags (M, C, R, S), revision, length of the private data; the IRD/ORD word; private data.
// Linux's drivers: siw (6.1) sets neither C nor A unless it is compiled otherwise; irdma sets both and offers WRITE and READ; nes
// offers SEND too; cxgb4 has parameters for C, A and the revision, and offers READ, or WRITE instead.
// We take no READs (wishes.ird 0) and want 32 of our own.
std::vector<Variant> variants() {
  struct Text {
    const char* name;
    std::string_view request;
    bool our_crc;
    std::string_view reply;
    ReadyToReceive ready;
    uint16_t ird;
    uint16_t ord;
  };
  using Ready = ReadyToReceive;
  static constexpr Text kTexts[] = {
      {"siw, NFS client", "10 02 000c 00800000 P", true, "50 02 000c 00000020 P", Ready::kNone, 0, 32},
      {"siw, CRC off on both sides", "10 02 000c 00800000 P", false, "10 02 000c 00000020 P", Ready::kNone, 0, 32},
      {"siw with CRC", "50 02 000c 00800000 P", false, "50 02 000c 00000020 P", Ready::kNone, 0, 32},
      {"siw, rping", "10 02 0004 00800080", true, "50 02 000c 00000020 P", Ready::kNone, 0, 32},
      {"siw, peer to peer, WRITE and READ", "10 02 000c 8080c000 P", true, "50 02 000c 80008020 P", Ready::kWrite, 0, 32},
      {"siw, peer to peer, READ", "10 02 000c 80804000 P", false, "10 02 000c 80014020 P", Ready::kRead, 1, 32},
      {"siw, revision 1", "00 01 0008 P", true, "40 01 0008 P", Ready::kNone, 1, 32},
      {"irdma", "50 02 000c 807fc07f P", true, "50 02 000c 80008020 P", Ready::kWrite, 0, 32},
      {"irdma without private data", "50 02 0004 8010c010", true, "50 02 000c 80008010 P", Ready::kWrite, 0, 16},
      {"irdma, depths to be settled by the users", "50 02 000c bfffffff P", true, "50 02 000c 80008020 P", Ready::kWrite, 0, 32},
      {"irdma, revision 1", "40 01 0008 P", false, "40 01 0008 P", Ready::kNone, 1, 32},
      {"nes, all three", "50 02 000c c008c008 P", true, "50 02 000c 80008008 P", Ready::kWrite, 0, 8},
      {"cxgb4, READ", "50 02 000c 80204020 P", true, "50 02 000c 80014020 P", Ready::kRead, 1, 32},
      {"cxgb4, WRITE", "50 02 000c 80208020 P", true, "50 02 000c 80008020 P", Ready::kWrite, 0, 32},
      {"cxgb4 without CRC", "10 02 000c 80204020 P", false, "10 02 000c 80014020 P", Ready::kRead, 1, 32},
      {"cxgb4, not peer to peer", "50 02 000c 00200020 P", true, "50 02 000c 00000020 P", Ready::kNone, 0, 32},
      {"cxgb4, revision 1", "40 01 0008 P", true, "40 01 0008 P", Ready::kNone, 1, 32},
      {"cxgb4, revision 1, no CRC, no private data", "00 01 0000", false, "00 01 0008 P", Ready::kNone, 1, 32},
      {"SEND only", "50 02 0004 c0040004", true, "50 02 000c c0000004 P", Ready::kSend, 0, 4},
      {"depths to be settled, not peer to peer", "10 02 0004 3fff3fff", true, "50 02 000c 00000020 P", Ready::kNone, 0, 32},
      {"revision 2 without S", "00 02 0008 P", false, "00 02 0008 P", Ready::kNone, 1, 32},
      {"reserved flags", "1f 02 000c 00800000 P", false, "10 02 000c 00000020 P", Ready::kNone, 0, 32},
  };
  const auto frame = [](std::string_view key, std::string_view text) {
    const bool has_private = text.ends_with('P');
    return joined({from_hex(key), from_hex(text.substr(0, text.size() - (has_private ? 1 : 0))),
                   has_private ? from_hex(kPrivateHex) : ByteVector()});
  };
  std::vector<Variant> all;
  for (const Text& each : kTexts) {
    all.push_back({each.name, frame(kRequestKeyHex, each.request), each.our_crc, frame(kReplyKeyHex, each.reply), each.ready,
                   each.ird, each.ord});
  }
  // As much private data as fits, of either revision.
  all.push_back({"512 bytes of private data", joined({frame(kRequestKeyHex, "10 02 0200 00010000"), ByteVector(508, 7)}), false,
                 frame(kReplyKeyHex, "10 02 000c 00000001 P"), Ready::kNone, 0, 1});
  all.push_back({"512 bytes of private data, revision 1", joined({frame(kRequestKeyHex, "40 01 0200"), ByteVector(512, 7)}),
                 false, frame(kReplyKeyHex, "40 01 0008 P"), Ready::kNone, 1, 32});
  return all;
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
      EXPECT_EQ(responder.session().crc, variant.our_crc || (variant.request[16] & 0x40) != 0);
      EXPECT_EQ(responder.session().ird, variant.ird);
      EXPECT_EQ(responder.session().ord, variant.ord);
    }
  }
}

// The same by the transport: what the peer says, what it hears, and what the user is told.
TEST(MpaSetup, EveryVariantReachesTheUserAndIsAnswered) {
  for (const Variant& variant : variants()) {
    SCOPED_TRACE(variant.name);
    ScriptedPeer t({.crc = variant.our_crc, .ord = 32});
    t.server.accept_options.private_data = kPrivate;
    EXPECT_EQ(to_hex(t.say(t.call(), variant.request)), to_hex(variant.reply));
    ASSERT_FALSE(t.server.events.empty());
    const bool has_word = (variant.request[16] & 0x10) != 0;
    const ByteVector said(variant.request.begin() + kMpaHeaderBytes + (has_word ? IrdOrd::kBytes : 0), variant.request.end());
    EXPECT_EQ(t.server.events[0].private_data, said);
    EXPECT_EQ(t.server.has_event(Kind::kEstablished), variant.ready == ReadyToReceive::kNone);
    EXPECT_EQ(t.server.stream().crc, (variant.reply[16] & 0x40) != 0);
    EXPECT_EQ(t.server.stream().ird, variant.ird);
    EXPECT_EQ(t.server.stream().ord, variant.ord);
  }
}

TEST(MpaSetup, WhoIsRefusedHearsTheReason) {
  struct Case {
    std::string_view request;
    std::string_view reply;
    std::string_view reason;
  };
  for (const Case& each :
       {Case{"90 02 000c 00800000 P", "30 02 000b 00000000", "markers"}, Case{"c0 01 0008 P", "20 01 0007", "markers"},
        Case{"10 03 000c 00800000 P", "30 02 000c 00000000", "revision"},
        Case{"10 02 0003 000000", "30 02 000a 00000000", "length"},
        Case{"10 02 0004 80010001", "30 02 0014 00000000", "ready_to_receive"}}) {
    SCOPED_TRACE(each.request);
    ScriptedPeer t;
    StreamNet::Connection& connection = t.call();
    const bool has_private = each.request.ends_with('P');
    const std::string_view head = each.request.substr(0, each.request.size() - (has_private ? 1 : 0));
    const ByteVector reason(each.reason.begin(), each.reason.end());
    EXPECT_EQ(to_hex(t.say(connection, joined({from_hex(kRequestKeyHex), from_hex(head),
                                               has_private ? from_hex(kPrivateHex) : ByteVector()}))),
              to_hex(joined({from_hex(kReplyKeyHex), from_hex(each.reply), reason})));
    EXPECT_TRUE(connection.ends[0].fin_arriving);
    EXPECT_TRUE(t.server.events.empty());
  }
}

TEST(MpaSetup, RefusesWhatItCannotDo) {
  struct Case {
    const char* name;
    ByteVector request;
    MpaError error;
    std::string_view reply;  // behind the key
  };
  ByteVector too_long = siw_request();
  too_long[18] = 2;
  too_long[19] = 1;
  for (const Case& each :
       {Case{"markers", siw_request(0x90), MpaError::kMarkers, "30 02 0004 00000000"},
        Case{"markers, revision 1", mpa_frame(kRequestKey, 0xc0, 1, kPrivate), MpaError::kMarkers, "20 01 0000"},
        Case{"revision 0", mpa_frame(kRequestKey, 0, 0, {}), MpaError::kRevision, "20 01 0000"},
        Case{"revision 3", mpa_frame(kRequestKey, 0x10, 3, word(1, 1)), MpaError::kRevision, "30 02 0004 00000000"},
        Case{"513 bytes of private data", too_long, MpaError::kLength, "30 02 0004 00000000"},
        Case{"S without the word", mpa_frame(kRequestKey, 0x10, 2, {1, 2, 3}), MpaError::kLength, "30 02 0004 00000000"},
        Case{"peer to peer without a type", mpa_frame(kRequestKey, 0x10, 2, word(0x8001, 1)), MpaError::kReadyToReceive,
             "30 02 0004 00000000"},
        Case{"a Reply", mpa_frame(kReplyKey, 0x10, 2, word(1, 1)), MpaError::kKey, "20 02 0000"}}) {
    SCOPED_TRACE(each.name);
    MpaResponder responder;
    uint32_t used = 0;
    EXPECT_EQ(responder.take(each.request, used), MpaProgress::kFailed);
    EXPECT_EQ(responder.error(), each.error);
    std::array<uint8_t, kMpaFrameBytesMax> reply{};
    const uint32_t size = responder.reject({}, reply);
    EXPECT_EQ(ByteVector(reply.begin(), reply.begin() + size), joined({from_hex(kReplyKeyHex), from_hex(each.reply)}));
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
    std::string_view request;
    std::string_view reply;
    std::string_view ready;   // an FPDU's ULPDU
    std::string_view answer;  // the same
  };
  for (const Case& each :
       {Case{"WRITE", "50 02 0004 80088008", "50 02 0004 80008008", "c140 00000000 0000000000000000", ""},
        Case{"READ", "50 02 0004 80084008", "50 02 0004 80014008",
             "4141 00000000 00000001 00000001 00000000 00000001 0000000000000000 00000000 00000001 0000000000000000",
             "c142 00000001 0000000000000000"},
        Case{"SEND", "50 02 0004 c0080008", "50 02 0004 c0000008", "4143 00000000 00000000 00000001 00000000", ""},
        // cxgb4 says so in revision 1 too, where it cannot announce it.
        Case{"READ of revision 1", "40 01 0000", "40 01 0000",
             "4141 00000000 00000001 00000001 00000000 00000001 0000000000000000 00000000 00000001 0000000000000000",
             "c142 00000001 0000000000000000"}}) {
    SCOPED_TRACE(each.name);
    const bool announced = std::string_view(each.name) != "READ of revision 1";
    ScriptedPeer t;
    StreamNet::Connection& connection = t.call();
    EXPECT_EQ(t.say(connection, joined({from_hex(kRequestKeyHex), from_hex(each.request)})),
              joined({from_hex(kReplyKeyHex), from_hex(each.reply)}));
    EXPECT_EQ(t.server.has_event(Kind::kEstablished), !announced);
    // What is posted before waits.
    ASSERT_TRUE(t.server.qp->post_send({.payload = t.server.chain(pattern(8)), .signaled = false}).ok());
    t.run();
    EXPECT_TRUE(t.net.read(connection).empty());
    const ByteVector said = t.say(connection, fpdu(from_hex(each.ready)));
    EXPECT_TRUE(t.server.has_event(Kind::kEstablished));
    EXPECT_TRUE(t.server.completions.empty());
    EXPECT_EQ(said,
              joined({fpdu(send_segment(1, pattern(8))), each.answer.empty() ? ByteVector() : fpdu(from_hex(each.answer))}));
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
  [[nodiscard]] ByteVector heard() {
    const auto& arrived = connection().ends[1].arriving;
    return {arrived.begin(), arrived.end()};
  }
  void say(const ByteVector& bytes) {
    connection().ends[0].arriving.insert(connection().ends[0].arriving.end(), bytes.begin(), bytes.end());
    (void)net.turn();
  }

  StreamNet net;
  EndHost client;
};

TEST(MpaSetup, AServerThatWantsMoreReadsThanWeTakeIsToldSo) {
  for (const bool waits : {false, true}) {
    PlayedServer t;
    t.say(joined({from_hex(kReplyKeyHex), from_hex("50 02 0004 0001012c")}));
    t.client.turn(t.net.now);
    (void)t.net.turn();
    ASSERT_EQ(t.client.events.size(), 1u);
    EXPECT_EQ(t.client.events[0].kind, Kind::kRejected);
    EXPECT_EQ(t.client.events[0].rejection.name, "insufficient_ird");
    const ByteVector said = t.heard();
    EXPECT_EQ(to_hex({said.begin() + kMpaHeaderBytes + IrdOrd::kBytes, said.end()}),
              to_hex(fpdu(from_hex("4147 00000000 00000002 00000001 00000000 20060000"))));
    EXPECT_TRUE(t.connection().ends[1].fin_arriving);
    EXPECT_FALSE(t.connection().ends[1].reset_arriving);
    if (!waits) {
      t.client.transport.destroy(t.client.events[0].connection);
    }
    t.net.advance(Duration::seconds(10));
    t.client.turn(t.net.now);
    EXPECT_EQ(t.client.events.size(), 1u);
    EXPECT_EQ(t.client.transport.live_count(), 0u);
    t.client.transport.destroy(t.client.events[0].connection);
  }
}

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

// Both ends: TCP is there, and nothing is said until the user of this end wants RDMA.
// Proves RDMAP-6.1-1
TEST(MpaSetup, AConnectionBecomesRdmaWhenItsUserWantsIt) {
  ScriptedPeer t;
  StreamNet::Connection& connection = t.call();
  while (t.net.turn()) {
  }
  EXPECT_TRUE(t.net.read(connection).empty());
  t.net.write(connection, siw_request());
  while (t.net.turn()) {
  }
  EXPECT_TRUE(t.net.read(connection).empty()) << "nobody has accepted it";
  t.run();
  EXPECT_EQ(t.net.read(connection).size(), 24u);

  StreamNet net;
  EndHost client(net, kClientAddress, {}, false);
  ASSERT_TRUE(client.transport.connect(net.now, IpAddress::v4(kServerAddress), kPort, {.context = 1}).ok());
  const StreamId stream = *net.connections().front().ends[0].stream;
  std::array<Bytes, 4> pieces;
  EXPECT_EQ(client.transport.send_pieces(stream, pieces), 0u) << "there is no TCP connection yet";
  net.connections().front().is_up = true;
  client.transport.on_connected(net.now, stream, 1460);
  ASSERT_EQ(client.transport.send_pieces(stream, pieces), 1u);
  const ByteVector said(pieces[0].begin(), pieces[0].end());
  EXPECT_EQ(to_hex(said), to_hex(joined({from_hex(kRequestKeyHex), from_hex("50 02 0004 00100020")})));
}

// Proves RDMAP-9-1
TEST(MpaSetup, PortsAreThoseThatTheUserNamesAndNoOthers) {
  StreamNet net;
  EndHost server(net, kServerAddress, {}, false);
  const auto is_taken = [&](uint16_t port) { return net.call(server.host, port).ends[1].stream.has_value(); };
  for (const uint16_t port : std::initializer_list<uint16_t>{1, 111, 445, 2049, 4711, 4791, 20049, 65535}) {
    EXPECT_FALSE(is_taken(port)) << port;
  }
  ASSERT_TRUE(server.transport.listen(4711).ok());
  EXPECT_TRUE(is_taken(4711));
  EXPECT_FALSE(is_taken(20049));
  server.transport.unlisten(4711);
  EXPECT_FALSE(is_taken(4711));
}

// The revisions that are negotiated here go with version 01b. Version 00b would go with revision 0, which is not.
// Proves RDMAP-4.1-9
TEST(MpaSetup, TheRevisionOfMpaSaysWhichVersionOfRdmapFollows) {
  for (const std::string_view request : {"40 01 0000", "50 02 0004 00080008"}) {
    for (uint32_t version = 0; version < 4; ++version) {
      ScriptedPeer t;
      StreamNet::Connection& connection = t.call();
      EXPECT_GE(t.say(connection, joined({from_hex(kRequestKeyHex), from_hex(request)})).size(), kMpaHeaderBytes);
      const auto control = static_cast<uint8_t>(version << 6 | 3);
      const ByteVector said = t.say(connection, fpdu(untagged(0x41, control, 0, 0, 1, 0, kPayload)));
      EXPECT_EQ(ScriptedPeer::terminate_in(said), version == 1 ? TerminateCause::kNone : TerminateCause::kOperationVersion);
      EXPECT_EQ(t.server.completions.size(), version == 1 ? 1u : 0u);
    }
  }
  ScriptedPeer t;
  const ByteVector said = t.say(t.call(), joined({from_hex(kRequestKeyHex), from_hex("40 00 0000")}));
  EXPECT_EQ(to_hex(said), to_hex(joined({from_hex(kReplyKeyHex), from_hex("20 01 0008 72657669 73696f6e")}))) << "\"revision\"";
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

// fuzz/iwarp_transport found it: the loss is told of as it has become, not as it was when it happened.
TEST(MpaSetup, AConnectionThatIsLostBeforeItsUserEstablishesItHasBeenDisconnected) {
  for (const bool establishes : {false, true}) {
    PlayedServer t;
    t.say(mpa_frame(kReplyKey, 0x50, 2, word(0, 0)));
    verbs::ConnectionEvent event;
    ASSERT_TRUE(t.client.transport.poll_event(t.net.now, event));
    ASSERT_EQ(event.kind, Kind::kConnectResponse);
    t.client.transport.on_lost(t.net.now, StreamId(event.connection.value()), StreamErrorCause::kTcpReset);
    if (establishes) {
      t.client.transport.establish(t.net.now, event.connection);
    }
    ASSERT_TRUE(t.client.transport.poll_event(t.net.now, event));
    EXPECT_EQ(event.kind, establishes ? Kind::kDisconnected : Kind::kUnreachable);
    EXPECT_FALSE(t.client.transport.poll_event(t.net.now, event));
  }
}

}  // namespace
}  // namespace cw::iwarp::test
