// A connection manager opposite a peer that is written by hand: the peer's messages are built here and given to the manager, and
// what the manager sends and says is collected. Time stands still unless a test moves it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "control/cm/connection_manager.h"
#include "control/cm/timeout_code.h"
#include "control/cm/wire/apr.h"
#include "control/cm/wire/drep.h"
#include "control/cm/wire/dreq.h"
#include "control/cm/wire/lap.h"
#include "control/cm/wire/mra.h"
#include "control/cm/wire/rtu.h"
#include "control/cm/wire/sidr.h"

namespace cw::cm::test {

inline constexpr uint32_t kPeerCommId = 0xde31'b408;
inline constexpr verbs::Qpn kPeerQpn{0x11};
inline constexpr verbs::Qpn kOurQpn{0x1234};
inline constexpr uint64_t kPeerTransaction = 0x2'08b4'31de;
inline constexpr uint16_t kPort = 20049;

[[nodiscard]] inline CmAddress address_of(uint8_t local, uint8_t remote) {
  CmAddress address;
  address.local = IpAddress::v4(0x0a09'0000u | local);
  address.remote = IpAddress::v4(0x0a09'0000u | remote);
  address.remote_mac = wire::MacAddress{{0x52, 0x54, 0, 0, 0, remote}};
  return address;
}

// The REQ of a Linux NFS client to 10.9.0.1.
[[nodiscard]] inline Req linux_req(const CmAddress& at, uint32_t comm_id = kPeerCommId, verbs::Qpn qpn = kPeerQpn) {
  Req req;
  req.local_comm_id = comm_id;
  req.service = ip_service_id(kPort);
  req.local_ca_guid = 0x5054'00ff'fe00'0002;
  req.local_qpn = qpn;
  req.responder_resources = 128;
  req.remote_response_code = 20;
  req.starting_psn = wire::Psn(0x4fca72);
  req.local_response_code = 20;
  req.retry_count = 6;
  req.path_mtu = PathMtu::k4096;
  req.max_cm_retries = 15;
  req.primary.local_lid = 0xffff;
  req.primary.remote_lid = 0xffff;
  req.primary.local_gid = at.remote;
  req.primary.remote_gid = at.local;
  req.primary.flow_label = 0x34ea7;
  req.primary.hop_limit = 64;
  req.primary.ack_timeout_code = 19;
  const IpCmHeader header{.source_port = 0x9cea, .source = at.remote, .destination = at.local};
  header.write(std::span<uint8_t, kReqPrivateDataSize>(req.private_data).first<IpCmHeader::kSize>());
  return req;
}

class ScriptedPeer {
 public:
  explicit ScriptedPeer(const CmOptions& options = {}, uint64_t seed = 1) : random(seed), manager(options, random) {
    EXPECT_TRUE(manager.listen(ip_service_id(kPort)).ok());
  }
  ~ScriptedPeer() { EXPECT_TRUE(manager.is_consistent()); }

  template <typename Message>
  void deliver(const Message& message, uint64_t transaction_id = kPeerTransaction) {
    deliver_from(peer, message, transaction_id);
  }
  template <typename Message>
  void deliver_from(const CmAddress& from, const Message& message, uint64_t transaction_id = kPeerTransaction) {
    Mad mad;
    write_mad(mad, transaction_id, message);
    manager.on_mad(now, from, mad);
    EXPECT_TRUE(manager.is_consistent());
  }

  // What the manager has sent since the last call.
  std::vector<CmDatagram> sent() {
    std::vector<CmDatagram> all;
    CmDatagram datagram;
    while (manager.poll_transmit(datagram)) {
      all.push_back(datagram);
    }
    return all;
  }
  // Exactly one datagram of this type was sent: its message. The default otherwise, and a failure.
  template <typename Message>
  Message only() {
    const auto all = sent();
    if (all.size() != 1 || type_of(all[0].mad) != Message::kType) {
      ADD_FAILURE() << "expected one " << to_string(Message::kType) << ", got " << all.size()
                    << (all.empty() ? "" : to_string(type_of(all[0].mad)));
      return {};
    }
    last_transaction = MadHeader::parse(all[0].mad)->transaction_id;
    return Message::parse(message_of(all[0].mad)).value();
  }
  std::vector<CmEvent> events() {
    std::vector<CmEvent> all;
    CmEvent event;
    while (manager.poll_event(event)) {
      all.push_back(event);
    }
    EXPECT_TRUE(manager.is_consistent());
    return all;
  }
  template <typename Detail>
  Detail only_event() {
    const auto all = events();
    if (all.size() != 1 || all[0].as<Detail>() == nullptr) {
      ADD_FAILURE() << "expected one event of another kind, got " << all.size();
      return {};
    }
    id = all[0].connection;
    return *all[0].as<Detail>();
  }
  void advance(Duration by) {
    now = now + by;
    manager.on_deadline(now);
    EXPECT_TRUE(manager.is_consistent());
  }
  // As a shell would: sleeps until each deadline.
  void run_for(Duration by) {
    const Instant end = now + by;
    while (manager.next_deadline() <= end) {
      now = std::max(now, manager.next_deadline());
      manager.on_deadline(now);
      now = now + Duration::us(70);
    }
    now = std::max(now, end);
    manager.on_deadline(now);
    EXPECT_TRUE(manager.is_consistent());
  }

  [[nodiscard]] ConnectionState state() { return manager.state_of(id); }
  [[nodiscard]] AcceptParameters accept_parameters() const {
    return {.local_qpn = kOurQpn, .first_receive_psn = wire::Psn(0xa95359), .our_initiator_depth = 16};
  }

  // Passive side, step by step.
  void receive_req() {
    deliver(linux_req(peer));
    only_event<ConnectRequest>();
  }
  void accept() {
    receive_req();
    EXPECT_TRUE(manager.accept(now, id, accept_parameters()).ok());
    our_comm_id = only<Rep>().local_comm_id;
  }
  void establish() {
    accept();
    deliver(Rtu{.local_comm_id = kPeerCommId, .remote_comm_id = our_comm_id});
    EXPECT_FALSE(only_event<Established>().by_data);
  }
  // Active side.
  void connect() {
    const auto opened = manager.connect(now, peer, ip_service_id(kPort),
                                        {.local_qpn = kOurQpn, .first_receive_psn = wire::Psn(77), .path_mtu = PathMtu::k1024});
    EXPECT_TRUE(opened.ok());
    id = *opened;
    our_comm_id = only<Req>().local_comm_id;
  }
  [[nodiscard]] Rep rep() const {
    Rep rep;
    rep.local_comm_id = kPeerCommId;
    rep.remote_comm_id = our_comm_id;
    rep.local_qpn = kPeerQpn;
    rep.starting_psn = wire::Psn(0x123);
    return rep;
  }
  void receive_rep() {
    connect();
    deliver(rep());
    only_event<ConnectReply>();
  }
  void establish_active() {
    receive_rep();
    EXPECT_TRUE(manager.ready(now, id).ok());
    only<Rtu>();
  }

  [[nodiscard]] Rtu rtu() const { return {.local_comm_id = kPeerCommId, .remote_comm_id = our_comm_id}; }
  [[nodiscard]] Dreq dreq() const { return {.local_comm_id = kPeerCommId, .remote_comm_id = our_comm_id, .remote_qpn = kOurQpn}; }
  [[nodiscard]] Drep drep() const { return {.local_comm_id = kPeerCommId, .remote_comm_id = our_comm_id}; }
  [[nodiscard]] Rej rej(RejectReason reason = RejectReason::kConsumerDefined) const {
    return {.local_comm_id = kPeerCommId, .remote_comm_id = our_comm_id, .rejected = AboutMessage::kOther, .reason = reason};
  }
  [[nodiscard]] Mra mra(AboutMessage about, uint8_t code = 20) const {
    return {.local_comm_id = kPeerCommId, .remote_comm_id = our_comm_id, .about = about, .service_timeout_code = code};
  }

  SeededRandom random;
  ConnectionManager manager;
  CmAddress peer = address_of(1, 2);
  Instant now = Instant::from_ns(1'000'000'000);
  ConnectionId id;
  uint32_t our_comm_id = 0;
  uint64_t last_transaction = 0;
};

}  // namespace cw::cm::test
