// What the manager does for its user and for well-meaning peers, step by step.
#include "control/cm/connection_manager.h"

#include <gtest/gtest.h>

#include "tests/unit/cm/golden_mads.h"
#include "tests/unit/cm/scripted_peer.h"

namespace cw::cm {
namespace {

using test::address_of;
using test::kOurQpn;
using test::kPeerCommId;
using test::kPeerQpn;
using test::kPeerTransaction;
using test::kPort;
using test::linux_req;
using test::ScriptedPeer;
using S = ConnectionState;

// Proves RPCRDMA-5-5, RPCRDMA-5-3, CMPD-5.2-8.
TEST(CmPassive, TellsTheUserAllThatTheReqSays) {
  ScriptedPeer t;
  t.manager.on_mad(t.now, t.peer, golden::kReqIpv4);
  const auto request = t.only_event<ConnectRequest>();
  EXPECT_EQ(request.service, ip_service_id(20049));
  EXPECT_EQ(request.remote_qpn, verbs::Qpn(0x11));
  EXPECT_EQ(request.first_send_psn, wire::Psn(0x4fca72));
  EXPECT_EQ(request.path_mtu, PathMtu::k4096);
  EXPECT_EQ(request.peer_responder_resources, 128);
  EXPECT_EQ(request.peer_initiator_depth, 0);
  EXPECT_EQ(request.retry_count, 6);
  EXPECT_EQ(request.rnr_retry_count, 0);
  EXPECT_EQ(request.ack_timeout_code, 19);
  EXPECT_FALSE(request.shared_receive_queue);
  EXPECT_EQ(request.flow_label, 0x34ea7u);
  EXPECT_TRUE(request.has_ip_cm);
  EXPECT_EQ(request.ip_cm.source_port, 0x9cea);
  EXPECT_EQ(request.ip_cm.source, t.peer.remote);
  ASSERT_EQ(request.private_data.size, 56);
  EXPECT_EQ(load_be32(request.private_data.raw.data()), 0xf6ab0e18u);
  EXPECT_EQ(t.state(), S::kReqRcvd);
  EXPECT_EQ(t.manager.half_open_count(), 1u);
  EXPECT_TRUE(t.sent().empty());
}

// Given what knfsd decided, what we send to the Linux client is what knfsd sent, communication id aside.
TEST(CmPassive, AnswersTheLinuxClientAsKnfsdDoes) {
  CmOptions options;
  options.local_ca_guid = 0x505400fffe000001;
  ScriptedPeer t(options);
  t.manager.on_mad(t.now, t.peer, golden::kReqIpv4);
  t.only_event<ConnectRequest>();
  const std::array<uint8_t, 8> private_data = {0xf6, 0xab, 0x0e, 0x18, 0x01, 0x00, 0x03, 0x03};
  ASSERT_TRUE(t.manager
                  .accept(t.now, t.id,
                          {.local_qpn = verbs::Qpn(0x11),
                           .first_receive_psn = wire::Psn(0xa95359),
                           .our_initiator_depth = 0x80,
                           .target_ack_delay_code = 15,
                           .rnr_retry_count = 0,
                           .private_data = private_data})
                  .ok());
  auto sent = t.sent();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].to, t.peer);
  const uint32_t ours = load_be32(sent[0].mad.data() + kMadHeaderSize);
  store_be32(sent[0].mad.data() + kMadHeaderSize, 0x38000948);
  EXPECT_EQ(sent[0].mad, golden::kRepKnfsd);

  Mad rtu = golden::kRtu;
  store_be32(rtu.data() + kMadHeaderSize + 4, ours);
  t.manager.on_mad(t.now, t.peer, rtu);
  EXPECT_FALSE(t.only_event<Established>().by_data);

  Mad dreq = golden::kDreq;
  store_be32(dreq.data() + kMadHeaderSize + 4, ours);
  t.manager.on_mad(t.now, t.peer, dreq);
  sent = t.sent();
  ASSERT_EQ(sent.size(), 1u);
  store_be32(sent[0].mad.data() + kMadHeaderSize, 0x38000948);
  EXPECT_EQ(sent[0].mad, golden::kDrep);
  EXPECT_EQ(t.only_event<Disconnected>().cause, DisconnectCause::kRemoteRequest);
}

TEST(CmPassive, RejectsAPortWithoutListenerAsTheKernelDoes) {
  ScriptedPeer t;
  t.manager.unlisten(ip_service_id(kPort));
  Req req = linux_req(t.peer, 0xdd31b408);
  req.service = ip_service_id(20050);
  t.deliver(req, 0x208b431dd);
  const auto sent = t.sent();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].mad, golden::kRejNoListener);
  EXPECT_TRUE(t.events().empty());
  EXPECT_EQ(t.manager.live_count(), 0u);
}

// Rejections are remembered as long as handshakes do not need the room: beyond, a repeated REQ is stale.
TEST(CmPassive, RejectionsTakeAtMostHalfTheRoomOfHandshakes) {
  CmOptions options;
  options.handshakes_at_once_max = 2;
  ScriptedPeer t(options);
  std::vector<RejectReason> repeated;
  for (uint32_t round = 0; round < 2; ++round) {
    Req req = linux_req(t.peer, 0x100 + round);
    req.local_qpn = verbs::Qpn(0x20 + round);
    t.deliver(req, round + 1);
    const auto events = t.events();
    ASSERT_EQ(events.size(), 1u);
    ASSERT_TRUE(t.manager.reject(t.now, events[0].connection, RejectReason::kConsumerDefined).ok());
    EXPECT_EQ(t.only<Rej>().reason, RejectReason::kConsumerDefined);
    EXPECT_TRUE(t.manager.is_consistent());
    t.deliver(req, round + 1);
    repeated.push_back(t.only<Rej>().reason);
  }
  EXPECT_EQ(repeated, (std::vector<RejectReason>{RejectReason::kConsumerDefined, RejectReason::kStaleConnection}));
  t.run_for(Duration::seconds(20));
  EXPECT_EQ(t.manager.timewait_count(), 0u);
  EXPECT_TRUE(t.manager.is_consistent());
}

// Nothing of a handshake is left when the connection is up: two that may be at once suffice for any number one after the other.
TEST(CmPassive, HandshakesGiveTheirRoomBack) {
  CmOptions options;
  options.handshakes_at_once_max = 2;
  ScriptedPeer t(options);
  for (uint32_t round = 0; round < 50; ++round) {
    Req req = linux_req(t.peer, 0x100 + round);
    req.local_qpn = verbs::Qpn(0x20 + round);
    t.deliver(req, round + 1);
    const auto events = t.events();
    ASSERT_EQ(events.size(), 1u) << round;
    ASSERT_TRUE(t.manager.accept(t.now, events[0].connection, t.accept_parameters()).ok());
    (void)t.sent();
    t.manager.data_arrived(t.now, events[0].connection);
    EXPECT_EQ(t.events().size(), 1u);
    ASSERT_TRUE(t.manager.is_consistent()) << round;
  }
  EXPECT_EQ(t.manager.live_count(), 50u);
}

TEST(CmPassive, SendsTheSameRepUntilTheRtuArrives) {
  ScriptedPeer t;
  t.receive_req();
  ASSERT_TRUE(t.manager.accept(t.now, t.id, t.accept_parameters()).ok());
  const auto first = t.sent();
  ASSERT_EQ(first.size(), 1u);
  t.our_comm_id = load_be32(first[0].mad.data() + kMadHeaderSize);
  t.run_for(Duration::ms(3900));  // 250 ms, then doubling: at 0.25, 0.75, 1.75 s
  const auto again = t.sent();
  ASSERT_EQ(again.size(), 3u);
  for (const auto& datagram : again) {
    EXPECT_EQ(datagram.mad, first[0].mad);
  }
  t.deliver(t.rtu());
  EXPECT_FALSE(t.only_event<Established>().by_data);
  t.run_for(Duration::seconds(100));
  EXPECT_TRUE(t.sent().empty());
  EXPECT_EQ(t.manager.stats().established, 1u);
  EXPECT_TRUE(t.manager.next_deadline().is_never());
}

// Anybody can send a REQ in anybody's name: what it draws upon that address is bounded, however long it claims to be patient.
TEST(CmPassive, OneRequestDrawsFourRepsAndOneRejAndItsRepetitionsOneRepEach) {
  ScriptedPeer t;
  t.receive_req();
  ASSERT_TRUE(t.manager.accept(t.now, t.id, t.accept_parameters()).ok());
  t.run_for(Duration::ms(4300));
  EXPECT_EQ(t.sent().size(), 4u);
  t.deliver(linux_req(t.peer));  // as the kernel's CM repeats it
  EXPECT_EQ(t.sent().size(), 1u);
  t.run_for(Duration::ms(4300));
  EXPECT_EQ(t.sent().size(), 0u);
  t.deliver(linux_req(t.peer));
  EXPECT_EQ(t.sent().size(), 1u);
  t.run_for(Duration::ms(1400));
  t.only<Rej>();
  EXPECT_EQ(t.only_event<ConnectFailed>().failure, ConnectFailure::kNoAnswer);
  t.run_for(Duration::seconds(60));
  EXPECT_EQ(t.sent().size(), 0u);
}

TEST(CmPassive, GivesUpOnAPeerThatNeverSendsAnRtu) {
  ScriptedPeer t;
  t.accept();
  t.run_for(Duration::seconds(31));
  EXPECT_EQ(t.only_event<ConnectFailed>().failure, ConnectFailure::kNoAnswer);
  const auto sent = t.sent();
  const Rej rej = Rej::parse(message_of(sent.back().mad)).value();
  EXPECT_EQ(type_of(sent.back().mad), MessageType::kRej);
  EXPECT_EQ(rej.reason, RejectReason::kTimeout);
  EXPECT_EQ(rej.remote_comm_id, kPeerCommId);
  EXPECT_EQ(rej.information_bytes, 8);
  EXPECT_EQ(t.manager.stats().ended(CmOutcome::kNoAnswer), 1u);
  t.run_for(Duration::seconds(20));
  EXPECT_EQ(t.manager.timewait_count(), 0u);
}

TEST(CmPassive, TakesTheFirstDataForALostRtu) {
  ScriptedPeer t;
  t.accept();
  t.manager.data_arrived(t.now, t.id);
  EXPECT_TRUE(t.only_event<Established>().by_data);
  t.manager.data_arrived(t.now, t.id);
  t.deliver(t.rtu());
  EXPECT_TRUE(t.events().empty());
  EXPECT_EQ(t.manager.stats().established, 1u);
  EXPECT_EQ(t.manager.stats().dropped(CmDrop::kDuplicate), 1u);
}

TEST(CmPassive, AnswersARepeatedReqWithTheSameRepAndAnnouncesItOnce) {
  ScriptedPeer t;
  t.deliver(linux_req(t.peer));
  t.deliver(linux_req(t.peer));
  t.only_event<ConnectRequest>();
  t.deliver(linux_req(t.peer));
  EXPECT_TRUE(t.sent().empty());
  ASSERT_TRUE(t.manager.accept(t.now, t.id, t.accept_parameters()).ok());
  const auto first = t.sent();
  t.deliver(linux_req(t.peer));
  const auto second = t.sent();
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].mad, first[0].mad);
  EXPECT_TRUE(t.events().empty());
  EXPECT_EQ(t.manager.live_count(), 1u);
}

TEST(CmPassive, RejectsWithReasonAndPrivateDataAndRepeatsThatToRepeatedReqs) {
  ScriptedPeer t;
  t.receive_req();
  const std::array<uint8_t, 3> why = {'n', 'o', '!'};
  ASSERT_TRUE(t.manager.reject(t.now, t.id, RejectReason::kConsumerDefined, why).ok());
  const auto first = t.sent();
  ASSERT_EQ(first.size(), 1u);
  const Rej rej = Rej::parse(message_of(first[0].mad)).value();
  EXPECT_EQ(rej.local_comm_id, 0u);
  EXPECT_EQ(rej.remote_comm_id, kPeerCommId);
  EXPECT_EQ(rej.rejected, AboutMessage::kReq);
  EXPECT_EQ(rej.reason, RejectReason::kConsumerDefined);
  EXPECT_EQ(rej.private_data[2], '!');
  EXPECT_EQ(MadHeader::parse(first[0].mad)->transaction_id, kPeerTransaction);
  t.deliver(linux_req(t.peer));
  const auto second = t.sent();
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].mad, first[0].mad);
  EXPECT_TRUE(t.events().empty());
  EXPECT_EQ(t.manager.live_count(), 0u);
  EXPECT_EQ(t.manager.stats().ended(CmOutcome::kRejectedByUs), 1u);
  EXPECT_FALSE(t.manager.accept(t.now, t.id, t.accept_parameters()).ok());
  EXPECT_FALSE(t.manager.reject(t.now, t.id, RejectReason::kConsumerDefined).ok());
}

TEST(CmPassive, AsksThePeerToWaitAndAnswersItsRepetitionsWithTheSameMra) {
  ScriptedPeer t;
  t.receive_req();
  ASSERT_TRUE(t.manager.delay(t.now, t.id, Duration::seconds(15)).ok());
  const Mra mra = t.only<Mra>();
  EXPECT_EQ(mra.remote_comm_id, kPeerCommId);
  EXPECT_EQ(mra.about, AboutMessage::kReq);
  EXPECT_EQ(mra.service_timeout_code, 22);  // 17 s
  t.deliver(linux_req(t.peer));
  EXPECT_EQ(t.only<Mra>(), mra);
  t.run_for(Duration::seconds(14));  // longer than a decision may take without delay()
  ASSERT_TRUE(t.manager.accept(t.now, t.id, t.accept_parameters()).ok());
  EXPECT_EQ(t.only<Rep>().local_comm_id, mra.local_comm_id);
}

TEST(CmPassive, RejectsForAUserThatDoesNotDecide) {
  ScriptedPeer t;
  t.receive_req();
  t.run_for(Duration::seconds(11));
  EXPECT_EQ(t.only<Rej>().reason, RejectReason::kNoResources);
  EXPECT_EQ(t.only_event<ConnectFailed>().failure, ConnectFailure::kNoDecision);
}

TEST(CmPassive, SaysNothingToAUserThatNeverFetchedTheRequest) {
  ScriptedPeer t;
  t.deliver(linux_req(t.peer));
  t.run_for(Duration::seconds(11));
  EXPECT_EQ(t.only<Rej>().reason, RejectReason::kNoResources);
  EXPECT_TRUE(t.events().empty());
  t.run_for(Duration::seconds(11));
  EXPECT_EQ(t.manager.timewait_count(), 0u);
}

TEST(CmPassive, EndsWhenThePeerTakesItsRequestBack) {
  ScriptedPeer t;
  t.receive_req();
  // The peer never learnt our id: it names only its own, with its node's GUID as information.
  t.deliver(Rej{.local_comm_id = kPeerCommId,
                .remote_comm_id = 0,
                .rejected = AboutMessage::kOther,
                .information_bytes = 8,
                .reason = RejectReason::kTimeout});
  EXPECT_EQ(t.only_event<Rejected>().reason, RejectReason::kTimeout);
  EXPECT_EQ(t.state(), S::kTimewait);
}

TEST(CmPassive, WaitsLongerForAPeerThatAsksForIt) {
  ScriptedPeer t;
  t.accept();
  t.deliver(t.mra(AboutMessage::kRep, 22));  // 17 s
  EXPECT_EQ(t.state(), S::kMraRepRcvd);
  t.run_for(Duration::ms(3900));
  EXPECT_TRUE(t.sent().empty());
  t.run_for(Duration::ms(12'500));
  EXPECT_EQ(t.sent().size(), 4u);  // slowly: one lost RTU must not cost all of the time that was asked for
  t.deliver(t.rtu());
  t.only_event<Established>();
  EXPECT_EQ(t.manager.stats().delays_received, 1u);
}

TEST(CmPassive, GrantsOnlySoManyDelays) {
  ScriptedPeer t;
  t.accept();
  for (int i = 0; i < 100; ++i) {
    t.deliver(t.mra(AboutMessage::kRep, 31));
  }
  EXPECT_EQ(t.manager.stats().delays_received, 4u);
  t.run_for(Duration::seconds(35));
  t.only_event<ConnectFailed>();
}

TEST(CmPassive, EstablishedConnectionsIgnoreRepeatedMessagesOfTheHandshake) {
  ScriptedPeer t;
  t.establish();
  t.deliver(linux_req(t.peer));
  t.deliver(t.rtu());
  EXPECT_TRUE(t.sent().empty());
  EXPECT_TRUE(t.events().empty());
  EXPECT_EQ(t.state(), S::kEstablished);
}

TEST(CmPassive, ADreqBeforeTheRtuEndsTheConnection) {
  ScriptedPeer t;
  t.accept();
  t.deliver(t.dreq());
  t.only<Drep>();
  EXPECT_EQ(t.only_event<Disconnected>().cause, DisconnectCause::kRemoteRequest);
}

TEST(CmPassive, TellsThatAnAlternatePathIsNotSupported) {
  ScriptedPeer t;
  Req req = linux_req(t.peer);
  req.alternate = req.primary;
  t.deliver(req);
  t.only_event<ConnectRequest>();
  ASSERT_TRUE(t.manager.accept(t.now, t.id, t.accept_parameters()).ok());
  const Rep rep = t.only<Rep>();
  EXPECT_EQ(rep.failover, Failover::kUnsupported);
  t.our_comm_id = rep.local_comm_id;
  t.deliver(t.rtu());
  t.only_event<Established>();
  Lap lap;
  lap.local_comm_id = kPeerCommId;
  lap.remote_comm_id = t.our_comm_id;
  t.deliver(lap);
  const Apr apr = t.only<Apr>();
  EXPECT_EQ(apr.status, AlternatePathStatus::kUnsupported);
  EXPECT_EQ(apr.remote_comm_id, kPeerCommId);
}

TEST(CmPassive, ServesServicesThatAreNotOfIpWithAllOfThePrivateData) {
  ScriptedPeer t;
  const ServiceId service(0x1234'5678'9abc'def0);
  ASSERT_TRUE(t.manager.listen(service).ok());
  Req req = linux_req(t.peer);
  req.service = service;
  req.private_data.fill(0x5a);
  t.deliver(req);
  const auto request = t.only_event<ConnectRequest>();
  EXPECT_FALSE(request.has_ip_cm);
  EXPECT_EQ(request.private_data.size, 92);
  EXPECT_EQ(request.private_data.raw[91], 0x5a);
}

// Proves RPCRDMA-5-5, CMPD-5.2-10.
TEST(CmActive, SendsAReqThatALinuxPeerUnderstandsAndRepeatsIt) {
  CmOptions options;
  options.local_ca_guid = 0x505400fffe000002;
  ScriptedPeer t(options);
  const std::array<uint8_t, 8> private_data = {0xf6, 0xab, 0x0e, 0x18, 0x01, 0x01, 0x03, 0x03};
  const auto opened = t.manager.connect(t.now, t.peer, ip_service_id(20049),
                                        {.local_qpn = verbs::Qpn(0x11),
                                         .first_receive_psn = wire::Psn(0x4fca72),
                                         .path_mtu = PathMtu::k4096,
                                         .our_responder_resources = 0x80,
                                         .retry_count = 6,
                                         .rnr_retry_count = 0,
                                         .ack_timeout_code = 19,
                                         .flow_label = 0x34ea7,
                                         .source_port = 0x9cea,
                                         .private_data = private_data});
  ASSERT_TRUE(opened.ok());
  t.run_for(Duration::ms(300));
  auto sent = t.sent();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].mad, sent[1].mad);
  // The golden REQ went from .2 to .1; ours goes the other way.
  Mad expected = golden::kReqIpv4;
  std::copy_n(sent[0].mad.begin() + 8, 8, expected.begin() + 8);                            // transaction id
  std::copy_n(sent[0].mad.begin() + kMadHeaderSize, 4, expected.begin() + kMadHeaderSize);  // communication id
  for (const size_t at : {size_t{56}, size_t{72}, size_t{140 + 4}, size_t{140 + 20}}) {
    expected[kMadHeaderSize + at + 15] ^= 3;
  }
  EXPECT_EQ(sent[0].mad, expected);
}

TEST(CmActive, ConnectsInThreeMessages) {
  ScriptedPeer t;
  t.connect();
  t.deliver(t.rep());
  const auto reply = t.only_event<ConnectReply>();
  EXPECT_EQ(reply.remote_qpn, kPeerQpn);
  EXPECT_EQ(reply.first_send_psn, wire::Psn(0x123));
  EXPECT_EQ(reply.private_data.size, 196);
  EXPECT_EQ(t.state(), S::kRepRcvd);
  EXPECT_TRUE(t.sent().empty());
  ASSERT_TRUE(t.manager.ready(t.now, t.id).ok());
  const Rtu rtu = t.only<Rtu>();
  EXPECT_EQ(rtu.local_comm_id, t.our_comm_id);
  EXPECT_EQ(rtu.remote_comm_id, kPeerCommId);
  EXPECT_FALSE(t.manager.ready(t.now, t.id).ok());
  EXPECT_TRUE(t.manager.next_deadline().is_never());
}

TEST(CmActive, RepeatsTheRtuForARepeatedRep) {
  ScriptedPeer t;
  t.establish_active();
  t.deliver(t.rep());
  t.only<Rtu>();
  EXPECT_TRUE(t.events().empty());
}

TEST(CmActive, GivesUpAndTakesItsRequestBack) {
  ScriptedPeer t;
  t.connect();
  t.run_for(Duration::seconds(31));
  EXPECT_EQ(t.only_event<ConnectFailed>().failure, ConnectFailure::kNoAnswer);
  const auto sent = t.sent();
  const Rej rej = Rej::parse(message_of(sent.back().mad)).value();
  EXPECT_EQ(rej.reason, RejectReason::kTimeout);
  EXPECT_EQ(rej.local_comm_id, t.our_comm_id);
  EXPECT_EQ(rej.remote_comm_id, 0u);
  // A REP that comes too late is refused in the same words.
  t.deliver(t.rep());
  EXPECT_EQ(t.only<Rej>(), rej);
}

TEST(CmActive, ReportsARejectionWithReasonAndPrivateData) {
  ScriptedPeer t;
  t.connect();
  Rej rej = t.rej(RejectReason::kInvalidServiceId);
  rej.local_comm_id = 0;
  rej.private_data[0] = 9;
  t.deliver(rej);
  const auto rejected = t.only_event<Rejected>();
  EXPECT_EQ(rejected.reason, RejectReason::kInvalidServiceId);
  EXPECT_EQ(rejected.private_data.raw[0], 9);
  EXPECT_EQ(t.manager.stats().rejects_received[8], 1u);
}

TEST(CmActive, WaitsForAPeerThatAsksForTime) {
  ScriptedPeer t;
  t.connect();
  t.run_for(Duration::seconds(20));
  t.sent();
  t.deliver(t.mra(AboutMessage::kReq, 22));
  t.run_for(Duration::ms(16'500));  // later than an attempt would have ended otherwise
  EXPECT_EQ(t.sent().size(), 4u);
  t.deliver(t.rep());
  t.only_event<ConnectReply>();
}

TEST(CmActive, TakesARejAfterTheRtuForTheEnd) {
  ScriptedPeer t;
  t.establish_active();
  t.deliver(t.rej(RejectReason::kTimeout));
  EXPECT_EQ(t.only_event<Disconnected>().cause, DisconnectCause::kRejected);
}

TEST(CmActive, RefusesParametersThatDoNotFit) {
  ScriptedPeer t;
  const std::array<uint8_t, 93> long_data{};
  const ConnectParameters good{.local_qpn = kOurQpn};
  ConnectParameters bad = good;
  bad.private_data = Bytes(long_data).first(57);
  EXPECT_EQ(t.manager.connect(t.now, t.peer, ip_service_id(1), bad).error(), Error::kLimit);
  EXPECT_TRUE(t.manager.connect(t.now, t.peer, ServiceId(77), bad).ok());
  bad.private_data = long_data;
  EXPECT_EQ(t.manager.connect(t.now, t.peer, ServiceId(77), bad).error(), Error::kLimit);
  CmAddress mixed = t.peer;
  mixed.local = IpAddress::v6(std::array<uint8_t, 16>{0xfd});
  EXPECT_EQ(t.manager.connect(t.now, mixed, ip_service_id(1), good).error(), Error::kBadValue);
  bad = good;
  bad.path_mtu = static_cast<PathMtu>(6);
  EXPECT_EQ(t.manager.connect(t.now, t.peer, ip_service_id(1), bad).error(), Error::kBadValue);
}

TEST(CmDisconnect, RepeatsDreqUntilDrep) {
  ScriptedPeer t;
  t.establish();
  t.manager.disconnect(t.now, t.id);
  t.manager.disconnect(t.now, t.id);
  const Dreq dreq = t.only<Dreq>();
  EXPECT_EQ(dreq.remote_qpn, kPeerQpn);
  EXPECT_EQ(dreq.remote_comm_id, kPeerCommId);
  t.run_for(Duration::ms(300));
  EXPECT_EQ(t.only<Dreq>(), dreq);
  EXPECT_TRUE(t.events().empty());
  t.deliver(t.drep(), t.last_transaction);
  EXPECT_EQ(t.only_event<Disconnected>().cause, DisconnectCause::kLocalRequest);
  t.deliver(t.drep(), t.last_transaction);
  t.run_for(Duration::seconds(1));
  EXPECT_TRUE(t.sent().empty());
  EXPECT_EQ(t.manager.live_count(), 0u);
}

TEST(CmDisconnect, GivesUpOnADeadPeer) {
  ScriptedPeer t;
  t.establish();
  t.manager.disconnect(t.now, t.id);
  t.run_for(Duration::seconds(9));
  EXPECT_EQ(t.only_event<Disconnected>().cause, DisconnectCause::kLocalUnanswered);
  EXPECT_EQ(t.manager.stats().ended(CmOutcome::kUnanswered), 1u);
  t.run_for(Duration::seconds(11));
  EXPECT_EQ(t.state(), S::kIdle);
}

TEST(CmDisconnect, FromBothSidesAtOnceEndsOnce) {
  ScriptedPeer t;
  t.establish();
  t.manager.disconnect(t.now, t.id);
  t.only<Dreq>();
  t.deliver(t.dreq());
  t.only<Drep>();
  EXPECT_EQ(t.only_event<Disconnected>().cause, DisconnectCause::kLocalRequest);
  t.deliver(t.drep());
  EXPECT_TRUE(t.events().empty());
}

TEST(CmDisconnect, AnswersARepeatedDreqAgainWithItsOwnTransaction) {
  ScriptedPeer t;
  t.establish();
  t.deliver(t.dreq(), 111);
  const Drep first = t.only<Drep>();
  EXPECT_EQ(t.last_transaction, 111u);
  t.deliver(t.dreq(), 222);
  EXPECT_EQ(t.only<Drep>(), first);
  EXPECT_EQ(t.last_transaction, 222u);
  EXPECT_EQ(t.events().size(), 1u);
}

TEST(CmDisconnect, BeforeEstablishmentIsARejAndStillOneEvent) {
  for (const bool delayed : {false, true}) {
    ScriptedPeer t;
    t.receive_req();
    if (delayed) {
      ASSERT_TRUE(t.manager.delay(t.now, t.id, Duration::seconds(1)).ok());
      t.only<Mra>();
    }
    t.manager.disconnect(t.now, t.id);
    const Rej rej = t.only<Rej>();
    EXPECT_EQ(rej.reason, RejectReason::kConsumerDefined);
    EXPECT_EQ(rej.local_comm_id != 0, delayed);
    EXPECT_EQ(t.only_event<Disconnected>().cause, DisconnectCause::kLocalRequest);
  }
  ScriptedPeer active;
  active.connect();
  active.manager.disconnect(active.now, active.id);
  EXPECT_EQ(active.only<Rej>().reason, RejectReason::kTimeout);
  EXPECT_EQ(active.only_event<Disconnected>().cause, DisconnectCause::kLocalRequest);
}

TEST(CmRestart, OfTheGatewayAnswersOldDreqsAndRefusesOldReps) {
  ScriptedPeer t;
  t.our_comm_id = 0x4711;
  t.deliver(t.dreq(), 99);
  const Drep drep = t.only<Drep>();
  EXPECT_EQ(drep.local_comm_id, 0x4711u);
  EXPECT_EQ(drep.remote_comm_id, kPeerCommId);
  EXPECT_EQ(t.last_transaction, 99u);
  t.deliver(t.rep(), 98);
  const Rej rej = t.only<Rej>();
  EXPECT_EQ(rej.reason, RejectReason::kInvalidCommId);
  EXPECT_EQ(rej.rejected, AboutMessage::kRep);
  EXPECT_EQ(rej.local_comm_id, 0x4711u);
  EXPECT_EQ(rej.remote_comm_id, kPeerCommId);
  t.deliver(t.rtu());
  t.deliver(t.drep());
  t.deliver(t.rej());
  t.deliver(t.mra(AboutMessage::kReq));
  EXPECT_TRUE(t.sent().empty());
}

TEST(CmRestart, OfThePeerServesTheNewRequestAtOnceAndEndsTheOldConnectionWithTheRtu) {
  for (const bool by_data : {false, true}) {
    ScriptedPeer t;
    t.establish();
    const ConnectionId old = t.id;
    t.deliver(linux_req(t.peer, 0x9999));
    const auto request = t.only_event<ConnectRequest>();
    ASSERT_TRUE(request.rival.has_value());
    EXPECT_EQ(*request.rival, old);
    const ConnectionId fresh = t.id;
    EXPECT_TRUE(t.manager.accept(t.now, fresh, t.accept_parameters()).ok());
    const uint32_t fresh_comm_id = t.only<Rep>().local_comm_id;
    EXPECT_EQ(t.manager.state_of(old), S::kEstablished);
    if (by_data) {
      t.manager.data_arrived(t.now, fresh);
    } else {
      t.deliver(Rtu{.local_comm_id = 0x9999, .remote_comm_id = fresh_comm_id});
    }
    const auto events = t.events();
    ASSERT_EQ(events.size(), 2u);
    ASSERT_NE(events[0].as<Disconnected>(), nullptr);
    EXPECT_EQ(events[0].connection, old);
    EXPECT_EQ(events[0].as<Disconnected>()->cause, DisconnectCause::kSuperseded);
    ASSERT_NE(events[1].as<Established>(), nullptr);
    EXPECT_TRUE(t.sent().empty());
    // A late repetition of the first REQ does not end the second connection.
    t.deliver(linux_req(t.peer));
    EXPECT_EQ(t.only<Rej>().reason, RejectReason::kStaleConnection);
    EXPECT_EQ(t.manager.state_of(fresh), S::kEstablished);
  }
}

// The address is forged, the QPN guessed, as often as one likes: the REP goes to the peer, which knows nothing of it, and the
// connection lives on.
TEST(CmRestart, PretendedBySomebodyElseEndsNothing) {
  ScriptedPeer t;
  t.establish();
  const ConnectionId victim = t.id;
  const uint32_t victim_comm_id = t.our_comm_id;
  for (uint32_t i = 0; i < 20; ++i) {
    t.deliver(linux_req(t.peer, 0x9999 + i));
    EXPECT_EQ(t.only_event<ConnectRequest>().rival, victim);
    ASSERT_TRUE(t.manager.accept(t.now, t.id, t.accept_parameters()).ok());
    const Rep rep = t.only<Rep>();
    t.deliver(Rtu{.local_comm_id = 0x9999 + i, .remote_comm_id = rep.local_comm_id ^ 1});  // the forger guesses
    EXPECT_EQ(t.manager.state_of(victim), S::kEstablished);
    EXPECT_EQ(t.manager.live_count(), 2u + i);
  }
  t.run_for(Duration::seconds(60));
  const auto events = t.events();
  EXPECT_EQ(events.size(), 20u);
  for (const CmEvent& event : events) {
    ASSERT_NE(event.as<ConnectFailed>(), nullptr);
    EXPECT_EQ(event.as<ConnectFailed>()->failure, ConnectFailure::kNoAnswer);
  }
  EXPECT_EQ(t.manager.state_of(victim), S::kEstablished);
  EXPECT_EQ(t.manager.stats().dropped(CmDrop::kUnknown), 20u);
  t.sent();
  t.id = victim;
  t.our_comm_id = victim_comm_id;
  t.deliver(t.dreq());
  t.only_event<Disconnected>();
}

TEST(CmRestart, WithoutRoomForBothTheConnectionThatIsThereStays) {
  CmOptions options;
  options.connection_max = 1;
  ScriptedPeer t(options);
  t.establish();
  const ConnectionId old = t.id;
  t.deliver(linux_req(t.peer, 0x9999));
  EXPECT_EQ(t.only<Rej>().reason, RejectReason::kNoResources);
  EXPECT_TRUE(t.events().empty());
  EXPECT_EQ(t.manager.state_of(old), S::kEstablished);
}

// A REQ ends nothing, since anybody can send one: the attempt that is finished first wins.
TEST(CmRestart, OfThePeerDuringTheHandshakeFailsTheFirstAttemptWhenTheSecondIsThrough) {
  ScriptedPeer t;
  t.accept();
  const ConnectionId first = t.id;
  t.deliver(linux_req(t.peer, 0x9999));
  EXPECT_FALSE(t.only_event<ConnectRequest>().rival.has_value());
  const ConnectionId second = t.id;
  ASSERT_TRUE(t.manager.accept(t.now, second, t.accept_parameters()).ok());
  EXPECT_EQ(t.manager.state_of(first), S::kRepSent);
  t.deliver(Rtu{.local_comm_id = 0x9999, .remote_comm_id = t.only<Rep>().local_comm_id});
  const auto events = t.events();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].connection, first);
  EXPECT_EQ(events[0].as<ConnectFailed>()->failure, ConnectFailure::kSuperseded);
  EXPECT_EQ(events[1].connection, second);
  EXPECT_NE(events[1].as<Established>(), nullptr);
}

TEST(CmRestart, AnotherHostWithTheSameQpnIsAnotherConnection) {
  ScriptedPeer t;
  t.establish();
  const CmAddress other = address_of(1, 3);
  t.deliver_from(other, linux_req(other, kPeerCommId));
  t.only_event<ConnectRequest>();
  EXPECT_EQ(t.manager.live_count(), 2u);
}

TEST(CmTables, RefuseWhatDoesNotFitAndRecoverWhenRoomIsMade) {
  CmOptions options;
  options.connection_max = 2;
  options.timewait_max = 1;
  ScriptedPeer t(options);
  std::vector<ConnectionId> ids;
  for (uint32_t i = 0; i < 2; ++i) {
    t.deliver(linux_req(t.peer, 100 + i, verbs::Qpn(100 + i)));
    t.only_event<ConnectRequest>();
    ids.push_back(t.id);
  }
  for (const ConnectionId id : ids) {
    ASSERT_TRUE(t.manager.accept(t.now, id, t.accept_parameters()).ok());
    t.manager.data_arrived(t.now, id);
  }
  t.events();
  t.sent();
  t.deliver(linux_req(t.peer, 200, verbs::Qpn(200)));
  EXPECT_EQ(t.only<Rej>().reason, RejectReason::kNoResources);
  EXPECT_EQ(t.manager.connect(t.now, t.peer, ip_service_id(1), {.local_qpn = kOurQpn}).error(), Error::kNoResources);
  // Dead connections never stand in the way: the oldest is forgotten.
  for (uint32_t i = 0; i < 20; ++i) {
    t.manager.disconnect(t.now, ids.front());  // its peer never answers, and holds nobody up
    ids.erase(ids.begin());
    t.sent();
    t.deliver(linux_req(t.peer, 300 + i, verbs::Qpn(300 + i)));
    const auto events = t.events();
    ASSERT_EQ(events.size(), 2u) << i;
    ASSERT_NE(events[1].as<ConnectRequest>(), nullptr);
    ids.push_back(events[1].connection);
    ASSERT_TRUE(t.manager.accept(t.now, ids.back(), t.accept_parameters()).ok());
    t.manager.data_arrived(t.now, ids.back());
    t.events();
  }
  EXPECT_EQ(t.manager.live_count(), 2u);
  EXPECT_EQ(t.manager.stats().ended(CmOutcome::kUnanswered), 20u);
  EXPECT_GT(t.manager.stats().timewaits_cut_short, 15u);
}

// Who leaves our DREQs unanswered holds a place for as long as they are repeated. That is nobody else's loss.
TEST(CmTables, WhoDoesNotAnswerADreqMakesRoomBeforeAnyHandshake) {
  CmOptions options;
  options.connection_max = 8;
  ScriptedPeer t(options);
  const CmAddress rude = address_of(1, 9);
  for (uint32_t i = 0; i < 7; ++i) {
    t.deliver_from(rude, linux_req(rude, 100 + i, verbs::Qpn(100 + i)));
    t.only_event<ConnectRequest>();
    ASSERT_TRUE(t.manager.accept(t.now, t.id, t.accept_parameters()).ok());
    t.manager.data_arrived(t.now, t.id);
    t.only_event<Established>();
    t.manager.disconnect(t.now, t.id);
  }
  t.sent();
  t.accept();  // an honest client's
  const ConnectionId honest = t.id;
  for (uint32_t i = 0; i < 7; ++i) {
    t.deliver(linux_req(t.peer, 200 + i, verbs::Qpn(200 + i)));
    const auto events = t.events();
    ASSERT_EQ(events.size(), 2u) << i;
    ASSERT_NE(events[0].as<Disconnected>(), nullptr) << i;
    EXPECT_EQ(events[0].as<Disconnected>()->cause, DisconnectCause::kLocalUnanswered);
    EXPECT_NE(events[1].as<ConnectRequest>(), nullptr);
    EXPECT_EQ(t.manager.state_of(events[0].connection), S::kTimewait) << "its late messages are known still";
  }
  EXPECT_EQ(t.manager.state_of(honest), S::kRepSent);
  EXPECT_EQ(t.manager.stats().ended(CmOutcome::kEvicted), 0u);
  EXPECT_EQ(t.manager.stats().ended(CmOutcome::kUnanswered), 7u);
  EXPECT_EQ(t.manager.stats().disconnects_cut_short, 7u);
  t.deliver(linux_req(t.peer, 300, verbs::Qpn(300)));
  EXPECT_EQ(t.manager.stats().ended(CmOutcome::kEvicted), 1u) << "nobody waits for a DREP any more";
}

TEST(CmTables, KeepADeadConnectionUntilItsEventIsPolled) {
  ScriptedPeer t;
  t.establish();
  t.deliver(t.dreq());
  t.only<Drep>();
  t.run_for(Duration::seconds(60));
  EXPECT_EQ(t.manager.timewait_count(), 1u);
  EXPECT_EQ(t.events().size(), 1u);
  EXPECT_EQ(t.manager.timewait_count(), 0u);
  EXPECT_EQ(t.state(), S::kIdle);
}

TEST(CmTables, IdsOfForgottenConnectionsStayDead) {
  ScriptedPeer t;
  t.establish();
  const ConnectionId old = t.id;
  t.deliver(t.dreq());
  t.events();
  t.run_for(Duration::seconds(60));
  t.sent();
  for (uint32_t i = 0; i < 3000; ++i) {  // every slot is used again
    const auto opened = t.manager.connect(t.now, t.peer, ip_service_id(1), {.local_qpn = kOurQpn});
    ASSERT_TRUE(opened.ok());
    ASSERT_FALSE(*opened == old);
    t.manager.disconnect(t.now, *opened);
    t.events();
    t.sent();
  }
  EXPECT_EQ(t.manager.state_of(old), S::kIdle);
  EXPECT_EQ(t.manager.state_of(ConnectionId(~0ULL)), S::kIdle);
  t.manager.disconnect(t.now, old);
  t.manager.data_arrived(t.now, old);
  EXPECT_EQ(t.manager.accept(t.now, old, t.accept_parameters()).error(), Error::kBadState);
}

TEST(CmTables, AFullTransmitQueueIsALostDatagram) {
  CmOptions options;
  options.transmit_queue_max = 1;
  ScriptedPeer t(options);
  t.receive_req();
  ASSERT_TRUE(t.manager.connect(t.now, address_of(1, 9), ip_service_id(1), {.local_qpn = kOurQpn}).ok());
  ASSERT_TRUE(t.manager.accept(t.now, t.id, t.accept_parameters()).ok());
  EXPECT_EQ(t.manager.stats().transmit_queue_full, 1u);
  EXPECT_EQ(t.sent().size(), 1u);
  t.advance(Duration::ms(260));
  EXPECT_EQ(t.sent().size(), 1u);
}

TEST(CmTables, ListensToNoMoreServicesThanConfigured) {
  CmOptions options;
  options.service_max = 2;
  ScriptedPeer t(options);
  EXPECT_TRUE(t.manager.listen(ServiceId(5)).ok());
  EXPECT_TRUE(t.manager.listen(ServiceId(5)).ok());
  EXPECT_EQ(t.manager.listen(ServiceId(6)).error(), Error::kLimit);
  t.manager.unlisten(ServiceId(5));
  EXPECT_TRUE(t.manager.listen(ServiceId(6)).ok());
}

}  // namespace
}  // namespace cw::cm
