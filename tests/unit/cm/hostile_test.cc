// Bad input: the list C1..C6 of the project's hostile-peer catalogue, and floods.
#include <gtest/gtest.h>

#include "tests/unit/cm/golden_mads.h"
#include "tests/unit/cm/scripted_peer.h"

namespace cw::cm {
namespace {

using test::address_of;
using test::kOurQpn;
using test::kPeerCommId;
using test::kPeerQpn;
using test::kPort;
using test::linux_req;
using test::ScriptedPeer;
using S = ConnectionState;

constexpr const Mad* kGoldens[] = {&golden::kReqIpv4, &golden::kReqIpv6, &golden::kRepKnfsd,     &golden::kRtu,
                                   &golden::kDreq,    &golden::kDrep,    &golden::kRejNoListener};

// A MAD has always 256 bytes; what is cut off a message arrives as zeros, or as what another message left there.
TEST(CmHostile, C1EveryMadCutAtEveryByteIsHandled) {
  for (const Mad* whole : kGoldens) {
    for (size_t size = 0; size < kMadSize; ++size) {
      for (const uint8_t filler : {uint8_t{0}, uint8_t{0xff}}) {
        ScriptedPeer t;
        Mad mad = *whole;
        std::fill(mad.begin() + static_cast<ptrdiff_t>(size), mad.end(), filler);
        t.manager.on_mad(t.now, t.peer, mad);
        EXPECT_LE(t.sent().size(), 1u);
        EXPECT_LE(t.manager.live_count(), 1u);
      }
    }
  }
}

TEST(CmHostile, C1EveryBitFlipOfEveryMadIsHandledInEveryState) {
  for (const Mad* whole : kGoldens) {
    ScriptedPeer passive;
    passive.establish();
    ScriptedPeer active;
    active.connect();
    for (size_t bit = 0; bit < kMadSize * 8; ++bit) {
      Mad mad = *whole;
      mad[bit / 8] = static_cast<uint8_t>(mad[bit / 8] ^ (1u << (bit % 8)));
      passive.manager.on_mad(passive.now, passive.peer, mad);
      active.manager.on_mad(active.now, active.peer, mad);
      EXPECT_LE(passive.sent().size(), 1u);
      EXPECT_LE(active.sent().size(), 1u);
      passive.events();
      active.events();
    }
    EXPECT_EQ(active.state(), S::kReqSent);
  }
}

TEST(CmHostile, C1RandomMadsAreHandled) {
  ScriptedPeer t;
  t.establish();
  const ConnectionId id = t.id;
  SeededRandom random(3);
  for (int round = 0; round < 50'000; ++round) {
    Mad mad;
    for (size_t i = 0; i < kMadSize; i += 8) {
      store_be64(mad.data() + i, random.next_u64());
    }
    MadHeader header;
    header.attribute_id = static_cast<uint16_t>(0x10 + random.next_below(11));
    header.transaction_id = random.next_u64();
    header.write(std::span<uint8_t, kMadSize>(mad).first<kMadHeaderSize>());
    if (random.next_below(2) == 0) {
      store_be32(mad.data() + kMadHeaderSize + 4, t.our_comm_id);
    }
    t.manager.on_mad(t.now, t.peer, mad);
    EXPECT_LE(t.sent().size(), 1u);
    EXPECT_TRUE(t.events().empty());
  }
  EXPECT_TRUE(t.manager.is_consistent());
  EXPECT_EQ(t.manager.state_of(id), S::kEstablished);
  EXPECT_EQ(t.manager.live_count(), 1u);
}

TEST(CmHostile, C1HeadersThatAreNotOursAreCountedByReason) {
  ScriptedPeer t;
  const auto deliver = [&](size_t at, uint8_t value) {
    Mad mad = golden::kReqIpv4;
    mad[at] = value;
    t.manager.on_mad(t.now, t.peer, mad);
  };
  deliver(0, 2);
  deliver(1, 3);
  deliver(3, 0x81);
  EXPECT_EQ(t.manager.stats().dropped(CmDrop::kHeader), 3u);
  deliver(2, 1);
  EXPECT_EQ(t.manager.stats().dropped(CmDrop::kClassVersion), 1u);
  deliver(17, 0x01);  // ClassPortInfo
  deliver(17, 0x0f);
  deliver(17, 0x1b);
  EXPECT_EQ(t.manager.stats().dropped(CmDrop::kAttribute), 3u);
  CmAddress odd = t.peer;
  odd.remote_qpn = verbs::Qpn(2);
  t.manager.on_mad(t.now, odd, golden::kReqIpv4);
  odd = t.peer;
  odd.remote = IpAddress::v4(0xe0000001);
  t.manager.on_mad(t.now, odd, golden::kReqIpv4);
  odd.remote = IpAddress::v4(0);
  t.manager.on_mad(t.now, odd, golden::kReqIpv4);
  EXPECT_EQ(t.manager.stats().dropped(CmDrop::kSource), 3u);
  EXPECT_TRUE(t.events().empty());
  EXPECT_TRUE(t.sent().empty());
}

TEST(CmHostile, C2AReqFloodIsHeldToItsRateAndItsOldestMakeRoomForItsNewest) {
  CmOptions options;
  options.half_open_max = 8;
  options.request_rate = {.per_second = 100, .burst = 20};
  options.prefix.request_rate = {.per_second = 10'000, .burst = 10'000};
  ScriptedPeer t(options);
  for (uint32_t i = 0; i < 1000; ++i) {
    t.deliver(linux_req(t.peer, 1000 + i, verbs::Qpn(1000 + i)));
  }
  EXPECT_EQ(t.manager.half_open_count(), 8u);
  EXPECT_EQ(t.manager.stats().ended(CmOutcome::kEvicted), 12u);
  EXPECT_EQ(t.manager.stats().dropped(CmDrop::kRequestRate), 980u);
  EXPECT_TRUE(t.sent().empty());
  // When the flood ebbs, an honest peer's repetition gets through.
  for (const auto& event : t.events()) {
    EXPECT_TRUE(t.manager.reject(t.now, event.connection, RejectReason::kConsumerDefined).ok());
  }
  t.sent();
  t.advance(Duration::seconds(1));
  t.receive_req();
}

TEST(CmHostile, C2FloodsOfWhatNeedsAnAnswerAreHeldToTheAnswerRate) {
  CmOptions options;
  options.answer_rate = {.per_second = 100, .burst = 10};
  options.prefix.answer_rate = {.per_second = 10'000, .burst = 10'000};
  ScriptedPeer t(options);
  t.our_comm_id = 55;
  size_t answers = 0;
  for (uint32_t i = 0; i < 1000; ++i) {
    Req req = linux_req(t.peer, i);
    req.service = ip_service_id(1);
    t.deliver(req);
    t.deliver(t.dreq());
    t.deliver(t.rep());
    t.deliver(SidrReq{.request_id = i, .pkey = 0xffff, .service = ip_service_id(1)});
    answers += t.sent().size();
  }
  EXPECT_EQ(answers, 10u);
  // DREQ and REP count as what they are, messages about unknown connections, whether they are answered or not.
  EXPECT_EQ(t.manager.stats().dropped(CmDrop::kAnswerRate), 1995u);
  EXPECT_EQ(t.manager.stats().dropped(CmDrop::kUnknown), 2000u);
  // Requests that can be served have a budget of their own.
  t.receive_req();
}

TEST(CmHostile, C2TheSameCommIdFromTwoAddressesIsTwoConnections) {
  ScriptedPeer t;
  const CmAddress a = address_of(1, 2);
  const CmAddress b = address_of(1, 3);
  CmAddress tagged = a;
  tagged.vlan = 7;
  CmAddress other_port = a;
  other_port.port = 1;
  for (const CmAddress& from : {a, b, tagged, other_port}) {
    t.deliver_from(from, linux_req(from));
    t.deliver_from(from, linux_req(from));
  }
  EXPECT_EQ(t.events().size(), 4u);
  EXPECT_EQ(t.manager.live_count(), 4u);
}

TEST(CmHostile, C2ARepeatedReqCannotChangeWhatTheFirstSaid) {
  ScriptedPeer t;
  t.accept();
  t.deliver(linux_req(t.peer, kPeerCommId, verbs::Qpn(0x666)));
  EXPECT_TRUE(t.events().empty());
  EXPECT_EQ(t.only<Rep>().local_comm_id, t.our_comm_id);
  t.deliver(t.rtu());
  t.manager.disconnect(t.now, t.id);
  EXPECT_EQ(t.only<Dreq>().remote_qpn, kPeerQpn);
}

struct BadReq {
  const char* what;
  void (*change)(Req&);
  RejectReason reason;
};

TEST(CmHostile, C3RequestsThatCannotBeServedAreRejectedWithTheRightReason) {
  const BadReq cases[] = {
      {"unknown port", [](Req& req) { req.service = ip_service_id(20050); }, RejectReason::kInvalidServiceId},
      {"UDP port space", [](Req& req) { req.service = ip_service_id(kPort, 17); }, RejectReason::kInvalidServiceId},
      {"not an IP service", [](Req& req) { req.service = ServiceId(kPort); }, RejectReason::kInvalidServiceId},
      {"UC", [](Req& req) { req.transport = TransportService::kUnreliableConnected; }, RejectReason::kInvalidTransportType},
      {"RD", [](Req& req) { req.transport = TransportService::kReliableDatagram; }, RejectReason::kInvalidTransportType},
      {"XRC", [](Req& req) { req.transport = TransportService::kExtended; }, RejectReason::kInvalidTransportType},
      {"MTU 0", [](Req& req) { req.path_mtu = static_cast<PathMtu>(0); }, RejectReason::kInvalidMtu},
      {"MTU 6", [](Req& req) { req.path_mtu = static_cast<PathMtu>(6); }, RejectReason::kInvalidMtu},
      {"MTU 7", [](Req& req) { req.path_mtu = static_cast<PathMtu>(7); }, RejectReason::kInvalidMtu},
      {"MTU 15", [](Req& req) { req.path_mtu = static_cast<PathMtu>(15); }, RejectReason::kInvalidMtu},
      {"somebody else's GID", [](Req& req) { req.primary.local_gid.raw[15] = 77; }, RejectReason::kInvalidGid},
      {"not our GID", [](Req& req) { req.primary.remote_gid.raw[15] = 77; }, RejectReason::kInvalidGid},
      {"no GIDs", [](Req& req) { req.primary = {}; }, RejectReason::kInvalidGid},
      {"P_Key", [](Req& req) { req.pkey = 0x8001; }, RejectReason::kUnsupported},
      {"QPN 0", [](Req& req) { req.local_qpn = verbs::Qpn(0); }, RejectReason::kUnsupported},
      {"QPN 1", [](Req& req) { req.local_qpn = verbs::Qpn(1); }, RejectReason::kUnsupported},
      {"multicast QPN", [](Req& req) { req.local_qpn = verbs::Qpn(0xffffff); }, RejectReason::kUnsupported},
      {"no IP CM header", [](Req& req) { req.private_data.fill(0); }, RejectReason::kConsumerDefined},
      {"garbage for IP CM header", [](Req& req) { req.private_data.fill(0xff); }, RejectReason::kConsumerDefined},
      {"IP CM of another source", [](Req& req) { req.private_data[19] = 77; }, RejectReason::kConsumerDefined},
      {"IP CM to another destination", [](Req& req) { req.private_data[35] = 77; }, RejectReason::kConsumerDefined},
      {"IP CM version 5", [](Req& req) { req.private_data[1] = 0x50; }, RejectReason::kConsumerDefined},
  };
  for (const BadReq& bad : cases) {
    SCOPED_TRACE(bad.what);
    ScriptedPeer t;
    Req req = linux_req(t.peer);
    bad.change(req);
    t.deliver(req);
    const Rej rej = t.only<Rej>();
    EXPECT_EQ(rej.reason, bad.reason);
    EXPECT_EQ(rej.local_comm_id, 0u);
    EXPECT_EQ(rej.remote_comm_id, kPeerCommId);
    EXPECT_TRUE(t.events().empty());
    EXPECT_EQ(t.manager.live_count() + t.manager.timewait_count(), 0u);
    EXPECT_EQ(t.manager.stats().rejects_sent[static_cast<size_t>(bad.reason)], 1u);
  }
}

// Proves CMPD-7-1, BIDI-2-6: what the port is for is offered on reliable connections only. Asked for it with any other kind of
// queue pair, or for datagrams (SIDR), it is refused before the owner hears of it.
TEST(CmHostile, C3OnlyReliableConnectionsAreOffered) {
  for (const TransportService service :
       {TransportService::kUnreliableConnected, TransportService::kReliableDatagram, TransportService::kExtended}) {
    ScriptedPeer t;
    Req req = linux_req(t.peer);
    req.transport = service;
    t.deliver(req);
    EXPECT_EQ(t.only<Rej>().reason, RejectReason::kInvalidTransportType);
    EXPECT_TRUE(t.events().empty());
    EXPECT_EQ(t.manager.live_count(), 0u);
  }
  ScriptedPeer t;
  t.deliver(SidrReq{.request_id = 7, .service = ip_service_id(kPort)});
  const SidrRep rep = t.only<SidrRep>();
  EXPECT_EQ(rep.request_id, 7u);
  EXPECT_EQ(rep.status, SidrStatus::kUnsupportedService) << "no queue pair for datagrams";
  EXPECT_TRUE(t.events().empty());
  EXPECT_EQ(t.manager.live_count(), 0u);
  t.deliver(linux_req(t.peer));
  t.only_event<ConnectRequest>();
}

TEST(CmHostile, C3AnMtuBeyondThePortIsRejected) {
  CmOptions options;
  options.path_mtu_max = PathMtu::k1024;
  ScriptedPeer t(options);
  t.deliver(linux_req(t.peer));
  EXPECT_EQ(t.only<Rej>().reason, RejectReason::kInvalidMtu);
  Req req = linux_req(t.peer);
  req.path_mtu = PathMtu::k1024;
  t.deliver(req);
  t.only_event<ConnectRequest>();
}

TEST(CmHostile, C3ExtremeButLegalFieldsArePassedOn) {
  for (const bool high : {false, true}) {
    ScriptedPeer t;
    Req req = linux_req(t.peer);
    req.responder_resources = high ? 255 : 0;
    req.initiator_depth = high ? 255 : 0;
    req.retry_count = high ? 7 : 0;
    req.rnr_retry_count = high ? 7 : 0;
    req.max_cm_retries = high ? 15 : 0;
    req.local_response_code = high ? 31 : 0;
    req.primary.ack_timeout_code = high ? 31 : 0;
    req.shared_receive_queue = high;
    req.pkey = high ? 0xffff : 0x7fff;
    std::fill(req.private_data.begin() + 36, req.private_data.end(), high ? 0xff : 0);
    t.deliver(req);
    const auto request = t.only_event<ConnectRequest>();
    EXPECT_EQ(request.peer_responder_resources, high ? 255 : 0);
    EXPECT_EQ(request.peer_initiator_depth, high ? 255 : 0);
    EXPECT_EQ(request.retry_count, high ? 7 : 0);
    EXPECT_EQ(request.shared_receive_queue, high);
    // Whatever the peer calls its patience, a half-open connection costs us a bounded time.
    ASSERT_TRUE(t.manager.accept(t.now, t.id, t.accept_parameters()).ok());
    t.run_for(Duration::seconds(1));
    EXPECT_EQ(t.manager.half_open_count(), 1u);
    t.run_for(Duration::seconds(30));
    EXPECT_EQ(t.manager.half_open_count(), 0u);
    t.only_event<ConnectFailed>();
    t.run_for(Duration::seconds(11));
    EXPECT_EQ(t.manager.timewait_count(), 0u);
  }
}

// How long a request may lie half-open, and the dead connection in time-wait, for what the peer says of its times.
TEST(CmHostile, C3ThePeersTimesMoveOursBetweenTheirBounds) {
  struct Asked {
    uint8_t response_code;
    uint8_t retries;
    Duration half_open;
    uint8_t ack_timeout_code;
    Duration timewait;
  };
  const CmOptions options;
  const Asked all[] = {
      {0, 0, options.handshake_min, 0, options.timewait_min},
      {0, 15, options.handshake_min, 18, timeout_of(18) * 2},
      {18, 3, timeout_of(18) * 4, 19, timeout_of(19) * 2},
      {20, 15, options.unproven_max, 21, options.timewait_time_max},
      {31, 15, options.unproven_max, 31, options.timewait_time_max},
  };
  const Duration moment = Duration::ms(1);
  for (const Asked& asked : all) {
    SCOPED_TRACE(int{asked.response_code});
    ScriptedPeer t;
    Req req = linux_req(t.peer);
    req.local_response_code = asked.response_code;
    req.remote_response_code = 31 - asked.response_code;  // how fast we shall answer: we answer at once
    req.max_cm_retries = asked.retries;
    req.primary.ack_timeout_code = asked.ack_timeout_code;
    t.deliver(req);
    t.only_event<ConnectRequest>();
    ASSERT_TRUE(t.manager.accept(t.now, t.id, t.accept_parameters()).ok());
    t.advance(asked.half_open - moment);
    EXPECT_EQ(t.manager.half_open_count(), 1u);
    t.advance(moment);
    EXPECT_EQ(t.manager.half_open_count(), 0u);
    t.only_event<ConnectFailed>();
    t.advance(asked.timewait - moment);
    EXPECT_EQ(t.manager.timewait_count(), 1u);
    t.advance(moment);
    EXPECT_EQ(t.manager.timewait_count(), 0u);
  }
}

// An MRA can only lengthen, by so much at a time and so often: one that asks for nothing changes nothing but when the REP is
// repeated.
TEST(CmHostile, C3AnMraLengthensWithinBoundsAndNeverShortens) {
  const CmOptions options;
  ScriptedPeer brief;
  brief.accept();
  const Instant accepted = brief.now;
  for (int i = 0; i < 3; ++i) {
    brief.deliver(brief.mra(AboutMessage::kRep, 0));
  }
  brief.run_for(options.unproven_max - (brief.now - accepted) - Duration::ms(100));
  EXPECT_EQ(brief.manager.half_open_count(), 1u);
  brief.run_for(Duration::ms(200));
  EXPECT_EQ(brief.manager.half_open_count(), 0u);

  ScriptedPeer greedy;
  greedy.accept();
  const Instant from = greedy.now;
  const Duration most = options.unproven_max + options.delay_max * int64_t{options.delay_count_max};
  while (greedy.manager.half_open_count() > 0 && greedy.now - from < most * 2) {
    if (greedy.manager.stats().delays_received * 29 <= static_cast<uint64_t>((greedy.now - from).to_seconds())) {
      greedy.deliver(greedy.mra(AboutMessage::kRep, 31));  // just before what was granted is over
    }
    greedy.run_for(Duration::ms(500));
  }
  EXPECT_EQ(greedy.manager.stats().delays_received, options.delay_count_max);
  EXPECT_GT(greedy.now - from, options.delay_max * int64_t{options.delay_count_max - 1});
  EXPECT_LE(greedy.now - from, most);
}

TEST(CmHostile, C3Ipv6IsServedLikeIpv4) {
  ScriptedPeer t;
  const Req req = Req::parse(message_of(golden::kReqIpv6)).value();
  CmAddress six = t.peer;
  six.local = req.primary.remote_gid;
  six.remote = req.primary.local_gid;
  t.manager.on_mad(t.now, six, golden::kReqIpv6);
  const auto request = t.only_event<ConnectRequest>();
  EXPECT_EQ(request.ip_cm.source, six.remote);
  ASSERT_TRUE(t.manager.accept(t.now, t.id, t.accept_parameters()).ok());
  const auto sent = t.sent();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].to, six);
}

// Every message that could move the connection, from every neighbour of its path: nothing moves, and nothing tells that the
// connection exists, since the answer to an unknown connection is the same.
TEST(CmHostile, C4MessagesFromAnotherPathDoNotTouchTheConnection) {
  for (const bool exists : {true, false}) {
    ScriptedPeer t;
    t.establish();
    if (!exists) {
      t.our_comm_id ^= 1;
    }
    CmAddress variants[4] = {t.peer, t.peer, t.peer, t.peer};
    variants[0].remote = IpAddress::v4(0x0a090063);
    variants[1].local = IpAddress::v4(0x0a090063);
    variants[2].vlan = 5;
    variants[3].port = 3;
    for (const CmAddress& from : variants) {
      t.deliver_from(from, t.rtu());
      t.deliver_from(from, t.drep());
      t.deliver_from(from, t.rej());
      t.deliver_from(from, t.mra(AboutMessage::kRep));
      t.deliver_from(from, Lap{.local_comm_id = kPeerCommId, .remote_comm_id = t.our_comm_id});
      EXPECT_TRUE(t.sent().empty());
      t.deliver_from(from, t.dreq());
      t.only<Drep>();
      t.deliver_from(from, t.rep());
      EXPECT_EQ(t.only<Rej>().reason, RejectReason::kInvalidCommId);
    }
    EXPECT_TRUE(t.events().empty());
    EXPECT_EQ(t.state(), S::kEstablished);
    EXPECT_EQ(t.manager.stats().dropped(exists ? CmDrop::kUnbound : CmDrop::kUnknown), 28u);
  }
}

TEST(CmHostile, C4MessagesWithOneWrongCommIdDoNotTouchTheConnection) {
  ScriptedPeer t;
  t.accept();
  Rtu rtu = t.rtu();
  rtu.local_comm_id ^= 1;
  t.deliver(rtu);
  Rej rej = t.rej();
  rej.local_comm_id = 0;
  t.deliver(rej);
  Drep drep = t.drep();
  drep.local_comm_id ^= 1;
  t.deliver(drep);
  EXPECT_TRUE(t.sent().empty());
  Dreq dreq = t.dreq();
  dreq.local_comm_id ^= 1;
  t.deliver(dreq);
  t.only<Drep>();
  EXPECT_TRUE(t.events().empty());
  EXPECT_EQ(t.state(), S::kRepSent);
  EXPECT_EQ(t.manager.stats().dropped(CmDrop::kUnknown), 4u);
}

TEST(CmHostile, C4ADreqThatDoesNotNameOurQueuePairIsIgnored) {
  ScriptedPeer t;
  t.establish();
  Dreq dreq = t.dreq();
  dreq.remote_qpn = verbs::Qpn(0x777);
  t.deliver(dreq);
  EXPECT_TRUE(t.sent().empty());
  EXPECT_EQ(t.state(), S::kEstablished);
  EXPECT_EQ(t.manager.stats().dropped(CmDrop::kQpnMismatch), 1u);
}

TEST(CmHostile, C4MessagesOfTheOtherRoleDoNotTouchTheConnection) {
  ScriptedPeer passive;
  passive.accept();
  passive.deliver(passive.rep());
  EXPECT_EQ(passive.only<Rej>().reason, RejectReason::kInvalidCommId);
  passive.deliver(passive.mra(AboutMessage::kReq));
  passive.deliver(passive.mra(AboutMessage::kOther));
  passive.deliver(passive.mra(static_cast<AboutMessage>(3)));
  EXPECT_EQ(passive.state(), S::kRepSent);
  ScriptedPeer active;
  active.establish_active();
  active.deliver(active.rtu());
  active.deliver(active.mra(AboutMessage::kRep));
  EXPECT_EQ(active.state(), S::kEstablished);
  EXPECT_TRUE(active.sent().empty());
}

TEST(CmHostile, C4ARepWithAnImpossibleQpnIsIgnored) {
  for (const uint32_t qpn : {0u, 1u, 0xffffffu}) {
    ScriptedPeer t;
    t.connect();
    Rep rep = t.rep();
    rep.local_qpn = verbs::Qpn(qpn);
    t.deliver(rep);
    EXPECT_EQ(t.state(), S::kReqSent);
    EXPECT_EQ(t.manager.stats().dropped(CmDrop::kMalformed), 1u);
  }
}

TEST(CmHostile, C4AnswersToQuestionsWeNeverAskAreDropped) {
  ScriptedPeer t;
  t.establish();
  t.deliver(Apr{.local_comm_id = kPeerCommId, .remote_comm_id = t.our_comm_id});
  t.deliver(SidrRep{});
  EXPECT_EQ(t.manager.stats().dropped(CmDrop::kOutOfState), 2u);
  EXPECT_TRUE(t.sent().empty());
  t.deliver(SidrReq{.request_id = 5, .pkey = 0xffff, .service = ip_service_id(9)});
  const SidrRep reply = t.only<SidrRep>();
  EXPECT_EQ(reply.request_id, 5u);
  EXPECT_EQ(reply.status, SidrStatus::kUnsupportedService);
  EXPECT_EQ(reply.service, ip_service_id(9));
}

TEST(CmHostile, C4UnknownRejectReasonsAreReportedAndCountedTogether) {
  ScriptedPeer t;
  t.connect();
  Rej rej = t.rej(static_cast<RejectReason>(0xbeef));
  rej.information_bytes = 127;
  t.deliver(rej);
  EXPECT_EQ(static_cast<uint32_t>(t.only_event<Rejected>().reason), 0xbeefu);
  EXPECT_EQ(t.manager.stats().rejects_received[0], 1u);
}

// The shapes of CVE-2026-89531 and -93224: requests that fail half way must not keep anything.
TEST(CmHostile, C5RequestsThatLostTheirRoomKeepNothing) {
  CmOptions options;
  options.connection_max = 4;
  options.timewait_max = 0;
  options.half_open_max = 100;
  options.prefix.request_rate = options.request_rate;
  ScriptedPeer t(options);
  for (uint32_t i = 0; i < 400; ++i) {
    t.deliver(linux_req(t.peer, 1000 + i, verbs::Qpn(1000 + i)));
  }
  EXPECT_EQ(t.manager.live_count(), 4u);
  EXPECT_EQ(t.manager.stats().ended(CmOutcome::kEvicted), 396u);
  for (const auto& event : t.events()) {
    // The user's own allocation fails too.
    ASSERT_TRUE(t.manager.reject(t.now, event.connection, RejectReason::kNoResources).ok());
  }
  t.run_for(Duration::seconds(20));
  EXPECT_EQ(t.manager.live_count() + t.manager.timewait_count(), 0u);
  EXPECT_TRUE(t.manager.next_deadline().is_never());
  t.sent();
  t.receive_req();
}

TEST(CmHostile, C5PrivateDataThatIsTooLongLeavesTheRequestUndecided) {
  ScriptedPeer t;
  t.receive_req();
  const std::vector<uint8_t> raw(197);
  AcceptParameters parameters = t.accept_parameters();
  parameters.private_data = raw;
  EXPECT_EQ(t.manager.accept(t.now, t.id, parameters).error(), Error::kLimit);
  EXPECT_EQ(t.manager.reject(t.now, t.id, RejectReason::kConsumerDefined, Bytes(raw).first(149)).error(), Error::kLimit);
  parameters.private_data = Bytes(raw).first(196);
  EXPECT_TRUE(t.manager.accept(t.now, t.id, parameters).ok());
}

// The shapes of CVE-2026-45910 and -93107: timers and messages that meet an ending.
TEST(CmHostile, C6NothingFiresAfterTheEnd) {
  ScriptedPeer t;
  t.accept();
  t.now = t.now + Duration::ms(250);  // the repetition is due
  t.deliver(t.dreq());
  t.only<Drep>();
  t.manager.on_deadline(t.now);
  EXPECT_TRUE(t.sent().empty());
  t.manager.data_arrived(t.now, t.id);
  EXPECT_EQ(t.accept_parameters().local_qpn, kOurQpn);
  EXPECT_FALSE(t.manager.accept(t.now, t.id, t.accept_parameters()).ok());
  t.manager.disconnect(t.now, t.id);
  EXPECT_TRUE(t.sent().empty());
  t.only_event<Disconnected>();
}

TEST(CmHostile, C6AClockThatJumpsFiresEverythingOnce) {
  ScriptedPeer t;
  t.accept();
  t.advance(Duration::seconds(100'000));
  t.only_event<ConnectFailed>();
  EXPECT_EQ(t.sent().size(), 1u);
  t.advance(Duration::seconds(100'000));
  EXPECT_EQ(t.manager.timewait_count(), 0u);
  EXPECT_TRUE(t.manager.next_deadline().is_never());
}

TEST(CmHostile, CommunicationIdsAndTransactionsAreNotInSequence) {
  ScriptedPeer t;
  uint32_t previous = 0;
  for (int i = 0; i < 100; ++i) {
    const auto opened = t.manager.connect(t.now, t.peer, ip_service_id(1), {.local_qpn = kOurQpn});
    ASSERT_TRUE(opened.ok());
    const uint32_t id = t.only<Req>().local_comm_id;
    EXPECT_GT(static_cast<uint32_t>(std::abs(static_cast<int64_t>(id) - static_cast<int64_t>(previous))), 1000u);
    previous = id;
  }
}

}  // namespace
}  // namespace cw::cm
