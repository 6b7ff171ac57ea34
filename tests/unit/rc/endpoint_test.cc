// The endpoint: numbers, lookup, path binding, fairness, bounds, and what is left when a queue pair goes.
#include "rocev2/endpoint.h"

#include <functional>
#include <set>

#include "tests/unit/rc/lone_qp.h"

namespace cw::rc::test {
namespace {

TEST(Endpoint, QpnsAreNeverReservedAndNeverComeBackSoon) {
  SeededRandom random(1);
  Endpoint endpoint({.qp_max = 4, .send_work_max = 4, .receive_work_max = 4}, random, nullptr);
  std::set<uint32_t> seen;
  for (int i = 0; i < 20'000; ++i) {
    const auto qp = endpoint.create_qp({});
    ASSERT_TRUE(qp.ok());
    const uint32_t qpn = (*qp)->local_qpn().value();
    EXPECT_GT(qpn, 1u);
    EXPECT_LT(qpn, 0xff'ffffu);
    EXPECT_TRUE(seen.insert(qpn).second) << "QPN used twice";
    endpoint.destroy_qp(**qp);
  }
  EXPECT_EQ(endpoint.stats().qps_created, 20'000u);
  EXPECT_EQ(endpoint.stats().qps_destroyed, 20'000u);
}

TEST(Endpoint, FindsEveryQpAfterAnyOrderOfCreationAndDestruction) {
  SeededRandom random(2);
  Endpoint endpoint({.qp_max = 64, .send_work_max = 4, .receive_work_max = 4}, random, nullptr);
  std::vector<RcQp*> live;
  for (int i = 0; i < 5000; ++i) {
    if (live.size() < 64 && random.next_below(2) == 0) {
      live.push_back(*endpoint.create_qp({}));
    } else if (!live.empty()) {
      const size_t at = random.next_below(static_cast<uint32_t>(live.size()));
      const verbs::Qpn qpn = live[at]->local_qpn();
      endpoint.destroy_qp(*live[at]);
      EXPECT_EQ(endpoint.find(qpn), nullptr);
      live.erase(live.begin() + static_cast<long>(at));
    }
    for (RcQp* qp : live) {
      ASSERT_EQ(endpoint.find(qp->local_qpn()), qp);
    }
  }
}

TEST(Endpoint, RefusesMoreQpsThanItHasAndOptionsOutOfRange) {
  SeededRandom random(3);
  Endpoint endpoint({.qp_max = 2, .send_work_max = 4, .receive_work_max = 4}, random, nullptr);
  EXPECT_EQ(endpoint.create_qp({.send_window_packets = 0}).error(), Error::kBadValue);
  EXPECT_EQ(endpoint.create_qp({.send_queue_depth = 70'000}).error(), Error::kBadValue);
  EXPECT_EQ(endpoint.create_qp({.responder_resources_max = 4}).error(), Error::kNoResources);
  EXPECT_TRUE(endpoint.create_qp({}).ok());
  EXPECT_TRUE(endpoint.create_qp({}).ok());
  EXPECT_EQ(endpoint.create_qp({}).error(), Error::kNoResources);
}

TEST(Endpoint, RefusesToConnectWithWhatAPeerMustNotSay) {
  const RcConnect good{.path = sim::RcPair::path(0), .remote_qpn = verbs::Qpn(5)};
  std::vector<RcConnect> bad(9, good);
  bad[0].path_mtu_bytes = 0;
  bad[1].path_mtu_bytes = 8192;
  bad[2].path_mtu_bytes = 1000;
  bad[3].retry_count = 8;
  bad[4].rnr_retry = 8;
  bad[5].ack_timeout = 32;
  bad[6].remote_qpn = verbs::Qpn(1);
  bad[7].remote_qpn = verbs::Qpn(0xff'ffff);
  bad[8].path.remote = IpAddress{};
  for (const RcConnect& connect : bad) {
    LoneQp lone({.state = QpState::kInit});
    EXPECT_EQ(lone.endpoint->connect_qp(*lone.qp, connect).error(), Error::kBadValue);
    EXPECT_EQ(lone.qp->state(), QpState::kInit);
  }
  LoneQp lone({.state = QpState::kInit});
  EXPECT_EQ(lone.endpoint->to_rts(*lone.qp).error(), Error::kBadState);
  EXPECT_TRUE(lone.endpoint->connect_qp(*lone.qp, good).ok());
  EXPECT_EQ(lone.endpoint->to_rtr(*lone.qp, good).error(), Error::kBadState);
}

TEST(Endpoint, ATimeoutOfZeroFromThePeerDoesNotMeanForEver) {
  LoneQp lone({.connect = {.path_mtu_bytes = 256, .retry_count = 0, .ack_timeout = 0}});
  ASSERT_TRUE(lone.post_send(1).ok());
  (void)lone.sent();
  lone.pass(ack_timeout(kAckTimeoutMax));
  EXPECT_TRUE(lone.qp->in_error());
}

TEST(Endpoint, APacketForNobodyIsCounted) {
  LoneQp lone;
  wire::PacketView view{};
  view.traits = &wire::traits_of(Opcode::kRcSendOnly);
  view.bth.destination = verbs::Qpn((lone.qp->local_qpn().value() + 1) & 0xff'ffff);
  EXPECT_FALSE(lone.endpoint->on_packet(lone.now, view, nullptr, 0));
  EXPECT_EQ(lone.discards(DropReason::kUnknownQp), 1u);
  view.traits = &wire::traits_of(Opcode::kUdSendOnly);
  view.bth.destination = verbs::Qpn(1);
  EXPECT_FALSE(lone.endpoint->on_packet(lone.now, view, nullptr, 0));
  EXPECT_EQ(lone.discards(DropReason::kNotDatagram), 1u);
}

TEST(Endpoint, ASpoofedPacketChangesNothingAndIsNotAnswered) {  // ReDMArk A1, A2
  struct Spoof {
    const char* what;
    DropReason reason;
    std::function<void(Inbound&)> change;
  };
  const Spoof spoofs[] = {
      {"source address", DropReason::kPathMismatch, [](Inbound& i) { i.path.local = IpAddress::v4(0x0a000009); }},
      {"destination address", DropReason::kPathMismatch, [](Inbound& i) { i.path.remote = IpAddress::v4(0x0a000009); }},
      {"VLAN", DropReason::kPathMismatch, [](Inbound& i) { i.path.vlan = 5; }},
      {"port", DropReason::kPathMismatch, [](Inbound& i) { i.port = 1; }},
      {"partition", DropReason::kPkey, [](Inbound& i) { i.pkey = 0x8001; }},
      {"far PSN", DropReason::kPsnStale, [](Inbound& i) { i.psn += 1u << 22; }},
  };
  // An opcode that would end the connection at once, if it were believed; and a NAK that would.
  Inbound request{.opcode = Opcode::kRcSendMiddle, .psn = 5000, .payload = random_bytes(1, 16)};
  Inbound response{.opcode = Opcode::kRcAcknowledge, .psn = 1000};
  response.extensions.aeth = wire::Aeth::nak(NakCode::kInvalidRequest, 0);
  for (const Inbound& fatal : {request, response}) {
    for (const Spoof& spoof : spoofs) {
      LoneQp lone;
      lone.qp->post_receives(1);
      ASSERT_TRUE(lone.post_send(10).ok());
      (void)lone.sent();
      const RcQpInfo before = lone.qp->info();
      Inbound inbound = fatal;
      spoof.change(inbound);
      EXPECT_FALSE(lone.receive(inbound)) << spoof.what;
      EXPECT_EQ(lone.discards(spoof.reason), 1u) << spoof.what;
      EXPECT_EQ(lone.sent(), SentList{}) << spoof.what;
      EXPECT_EQ(lone.completions(), "") << spoof.what;
      EXPECT_EQ(lone.qp->state(), QpState::kRts) << spoof.what;
      const RcQpInfo after = lone.qp->info();
      EXPECT_TRUE(after.una == before.una && after.expected_psn == before.expected_psn) << spoof.what;
    }
  }
}

TEST(Endpoint, LimitedMembersOfThePartitionAreHeardByFullOnes) {
  LoneQp lone;
  lone.qp->post_receives(1);
  EXPECT_TRUE(lone.receive({.opcode = Opcode::kRcSendOnly, .psn = 5000, .payload = random_bytes(1, 16), .pkey = 0x7fff}));
  (void)lone.completions();
}

TEST(Endpoint, TheUdpSourcePortAndMacOfThePeerMayChange) {
  LoneQp lone;
  lone.qp->post_receives(1);
  Inbound inbound{.opcode = Opcode::kRcSendOnly, .psn = 5000, .payload = random_bytes(1, 16)};
  inbound.path.udp_source_port = 12345;
  inbound.path.local_mac = wire::MacAddress{{2, 9, 9, 9, 9, 9}};
  EXPECT_TRUE(lone.receive(inbound));
  (void)lone.completions();
}

// F12 of tests/requirements/hostile.md
TEST(Endpoint, CountsCongestionNotifications) {
  LoneQp lone;
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(lone.receive(Inbound{.opcode = Opcode::kCnp, .psn = 0, .payload = std::vector<uint8_t>(16)}));
  }
  EXPECT_EQ(lone.endpoint->stats().cnps_received, 100u);
  EXPECT_EQ(lone.qp->state(), QpState::kRts);
}

TEST(Endpoint, QpsTakeTurns) {
  LoneQp lone({.endpoint = {.qp_max = 8, .send_work_max = 64, .receive_work_max = 16, .turn_packets = 4}});
  RcQp* other = *lone.endpoint->create_qp({});
  ASSERT_TRUE(lone.endpoint
                  ->connect_qp(*other, {.path = sim::RcPair::path(0),
                                        .remote_qpn = verbs::Qpn(0x1234),
                                        .local_first_psn = Psn(9000),
                                        .path_mtu_bytes = 256})
                  .ok());
  ASSERT_TRUE(lone.post_send(256 * 10).ok());
  ASSERT_TRUE(other->post_send({.payload = lone.chain(random_bytes(1, 256 * 10))}).ok());
  std::vector<bool> is_other;
  for (const Sent& sent : lone.sent()) {
    is_other.push_back(sent.psn >= 9000);
  }
  const std::vector<bool> wanted = {false, false, false, false, true, true, true,  true,  false, false,
                                    false, false, true,  true,  true, true, false, false, true,  true};
  EXPECT_EQ(is_other, wanted);
}

TEST(Endpoint, AnIdleQpHasNoWorkAndNoDeadline) {
  LoneQp lone;
  EXPECT_FALSE(lone.endpoint->has_work());
  EXPECT_TRUE(lone.endpoint->next_deadline().is_never());
  ASSERT_TRUE(lone.post_send(1).ok());
  EXPECT_TRUE(lone.endpoint->has_work());
  (void)lone.sent();
  EXPECT_FALSE(lone.endpoint->has_work());
  EXPECT_FALSE(lone.endpoint->next_deadline().is_never());
}

// P1 of tests/requirements/hostile.md
TEST(Endpoint, WithoutHeaderBuffersEverythingWaits) {
  LoneQp lone;
  lone.qp->post_receives(1);
  lone.receive(Opcode::kRcSendOnly, 5000, 10);
  ASSERT_TRUE(lone.post_send(600).ok());
  HeapBufferPool empty(0, 4096, 0);
  {
    wire::TxBatch batch(empty);
    lone.endpoint->poll_transmit(lone.now, batch);
    EXPECT_TRUE(batch.empty());
  }
  EXPECT_TRUE(lone.endpoint->has_work());
  EXPECT_EQ(lone.endpoint->stats().no_header_buffer, 1u);
  EXPECT_EQ(lone.sent().size(), 4u);
  (void)lone.completions();
}

// A message that is left out of silence costs its sender one of its few repetitions, and the packets behind its first one a NAK
// and another one: beside luckier neighbours it would run out of them.
TEST(Endpoint, WithFewBuffersSendersOfNewMessagesAreToldToWaitAndThoseUnderWayAreTaken) {
  LoneQp lone;
  lone.qp->post_receives(2);
  EXPECT_TRUE(lone.receive({.opcode = Opcode::kRcSendFirst, .psn = 5000, .payload = random_bytes(1, 256)}));
  lone.endpoint->set_watermark(BufferWatermark::kLow);
  EXPECT_TRUE(lone.receive({.opcode = Opcode::kRcSendLast, .psn = 5001, .payload = random_bytes(2, 16)}));
  EXPECT_EQ(lone.sent(), (SentList{ack(5001, 1)}));
  const Inbound first{.opcode = Opcode::kRcSendFirst, .psn = 5002, .payload = random_bytes(3, 256)};
  const Inbound last{.opcode = Opcode::kRcSendLast, .psn = 5003, .payload = random_bytes(4, 16)};
  for (int i = 0; i < 9; ++i) {
    lone.endpoint->set_watermark(i % 2 == 0 ? BufferWatermark::kLow : BufferWatermark::kLast);
    EXPECT_FALSE(lone.receive(first));
    EXPECT_FALSE(lone.receive(last));
    EXPECT_EQ(lone.sent(), (SentList{rnr_nak(5002, 20, 1)}));
  }
  EXPECT_EQ(lone.discards(DropReason::kNoBuffer), 13u) << "first packets, and whatever came when the last buffers were left";
  lone.endpoint->set_watermark(BufferWatermark::kPlenty);
  EXPECT_TRUE(lone.receive(first));
  EXPECT_TRUE(lone.receive(last));
  EXPECT_EQ(lone.sent(), (SentList{ack(5003, 2)}));
}

// Acknowledgements give buffers back.
TEST(Endpoint, WithTheLastBuffersOnlyWhatIsNotKeptIsTaken) {
  LoneQp lone;
  lone.qp->post_receives(1);
  EXPECT_TRUE(lone.receive({.opcode = Opcode::kRcSendFirst, .psn = 5000, .payload = random_bytes(1, 256), .ack_request = false}));
  ASSERT_TRUE(lone.post_send(10).ok());
  EXPECT_EQ(lone.sent().size(), 1u);
  lone.endpoint->set_watermark(BufferWatermark::kLast);
  EXPECT_FALSE(lone.receive({.opcode = Opcode::kRcSendLast, .psn = 5001, .payload = random_bytes(2, 16)}));
  EXPECT_FALSE(lone.receive({.opcode = Opcode::kRcReadResponseOnly, .psn = 1000, .payload = random_bytes(2, 16)}));
  EXPECT_EQ(lone.discards(DropReason::kNoBuffer), 2u);
  lone.receive_ack(1000);
  EXPECT_EQ(lone.qp->info().una, Psn(1001));
}

TEST(Endpoint, DestroyGivesEverythingBack) {  // CVE-2026-45910
  LoneQp lone(client_options());
  lone.qp->post_receives(4);
  lone.receive(Opcode::kRcSendFirst, 5000, 256);
  lone.receive(Opcode::kRcSendLast, 5001, 1);
  lone.receive(Opcode::kRcSendFirst, 5002, 256);
  ASSERT_TRUE(lone.post_send(600).ok());
  ASSERT_TRUE(lone.post_read(600).ok());
  (void)lone.sent();
  ASSERT_TRUE(lone.post_send(600).ok());
  lone.endpoint->destroy_qp(*lone.qp);
  lone.qp = nullptr;
  EXPECT_EQ(lone.pool.in_use(), 0u);
  EXPECT_FALSE(lone.endpoint->has_work());
  EXPECT_EQ(lone.endpoint->poll_ready(), nullptr);
  EXPECT_TRUE(lone.endpoint->next_deadline().is_never());
  lone.endpoint->on_deadline(lone.now + Duration::seconds(100));
  EXPECT_EQ(lone.endpoint->qp_count(), 0u);
}

TEST(Endpoint, AReadyQpIsGivenOnceUntilTheNextNews) {
  LoneQp lone;
  lone.qp->post_receives(4);
  lone.receive(Opcode::kRcSendOnly, 5000, 10);
  lone.receive(Opcode::kRcSendOnly, 5001, 10);
  EXPECT_EQ(lone.endpoint->poll_ready(), lone.qp);
  EXPECT_EQ(lone.endpoint->poll_ready(), nullptr);
  (void)lone.completions();
  lone.receive(Opcode::kRcSendOnly, 5002, 10);
  EXPECT_EQ(lone.endpoint->poll_ready(), lone.qp);
  (void)lone.completions();
}

TEST(Endpoint, ShowsWhatIsWorthKnowingAboutAQp) {
  LoneQp lone({.qp = {.user_data = 77}});
  lone.qp->post_receives(3);
  ASSERT_TRUE(lone.post_send(600).ok());
  ASSERT_TRUE(lone.post_read(600).ok());
  (void)lone.sent();
  const RcQpInfo info = lone.qp->info();
  EXPECT_EQ(info.state, QpState::kRts);
  EXPECT_EQ(info.error, QpError{});
  EXPECT_EQ(info.path, sim::RcPair::path(0));
  EXPECT_EQ(info.local_qpn, lone.qp->local_qpn());
  EXPECT_EQ(info.remote_qpn, verbs::Qpn(0x1234));
  EXPECT_EQ(info.path_mtu_bytes, 256u);
  EXPECT_EQ(info.una, Psn(1000));
  EXPECT_EQ(info.next_psn, Psn(1006));
  EXPECT_EQ(info.expected_psn, Psn(5000));
  EXPECT_EQ(info.packets_in_flight, 3u);
  EXPECT_EQ(info.works_queued, 2u);
  EXPECT_EQ(info.reads_outstanding, 1u);
  EXPECT_EQ(info.receives_posted, 3u);
  EXPECT_EQ(info.counters.packets_out, 4u);
  EXPECT_EQ(lone.qp->user_data(), 77u);
}

TEST(Endpoint, AnIdleQpTakesLessThanAKibibyte) {
  EXPECT_LE(sizeof(RcQp), 1024u);
  EXPECT_LE(sizeof(SendState), 272u);
  EXPECT_LE(sizeof(ReceiveState), 128u);
}

TEST(QpnCodec, DecodesWhatItEncodesAndGivesEachNumberOnce) {
  const QpnCodec codec(0x1234567890abcdef, 3, 12);
  std::vector<bool> seen(1u << 24);
  uint32_t refused = 0;
  for (uint32_t generation = 0; generation < codec.generation_count(); ++generation) {
    for (uint32_t slot = 0; slot < (1u << 12); slot += 16) {
      for (uint32_t core = 0; core < 8; ++core) {
        const QpnParts parts{core, slot, generation};
        const auto qpn = codec.encode(parts);
        if (!qpn.has_value()) {
          ++refused;
          continue;
        }
        ASSERT_FALSE(seen[qpn->value()]);
        seen[qpn->value()] = true;
        ASSERT_EQ(codec.decode(*qpn), parts);
        ASSERT_EQ(codec.core_of(*qpn), core);
        ASSERT_EQ(qpn->value() & QpnCodec::core_mask(3), core);  // what a rule of a NIC reads
      }
    }
  }
  EXPECT_LE(refused, 3u);
}

TEST(QpnCodec, NeighbouringSlotsAndOtherKeysShowNoPattern) {
  const QpnCodec one(1, 0, 17);
  const QpnCodec other(2, 0, 17);
  uint32_t near = 0;
  uint32_t same = 0;
  for (uint32_t slot = 1; slot < 1000; ++slot) {
    const uint32_t before = one.encode({0, slot - 1, 0})->value();
    const uint32_t here = one.encode({0, slot, 0})->value();
    near += (here > before ? here - before : before - here) < 4096 ? 1 : 0;
    same += here == other.encode({0, slot, 0})->value() ? 1 : 0;
  }
  EXPECT_LE(near, 10u);
  EXPECT_LE(same, 1u);

  // The core in the clear takes bits away, and leaves the others without a pattern.
  const QpnCodec many(1, 6, 16);
  near = 0;
  for (uint32_t slot = 1; slot < 1000; ++slot) {
    const uint32_t before = many.encode({9, slot - 1, 0})->value();
    const uint32_t here = many.encode({9, slot, 0})->value();
    near += (here > before ? here - before : before - here) < 4096 ? 1 : 0;
  }
  EXPECT_LE(near, 10u);
}

}  // namespace
}  // namespace cw::rc::test
