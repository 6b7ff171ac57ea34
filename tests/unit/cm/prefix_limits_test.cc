// What one network of clients may ask, and what it may not cost the others.
#include <gtest/gtest.h>

#include <deque>

#include "base/prefix_table.h"
#include "base/request_rates.h"
#include "tests/unit/cm/scripted_peer.h"

namespace cw::cm {
namespace {

using test::linux_req;
using test::ScriptedPeer;
using S = ConnectionState;

CmAddress client(uint32_t ipv4) {
  CmAddress address = test::address_of(1, 2);
  address.remote = IpAddress::v4(ipv4);
  return address;
}
CmAddress client6(uint64_t network, uint64_t host) {
  CmAddress address = test::address_of(1, 2);
  std::array<uint8_t, 16> raw{};
  store_be64(raw.data(), network);
  store_be64(raw.data() + 8, host);
  address.remote = IpAddress::v6(raw);
  raw[15] = 1;
  address.local = IpAddress::v6(raw);
  return address;
}

// As the connection manager asks.
PrefixTable::Index find(PrefixTable& table, Instant now, const CmAddress& from) {
  return table.find(now, from.remote, from.way());
}

PrefixLimits few() {
  PrefixLimits limits;
  limits.half_open_max = 4;
  limits.request_rate = {.per_second = 10, .burst = 10};
  limits.answer_rate = {.per_second = 10, .burst = 10};
  return limits;
}

uint64_t dropped(const ScriptedPeer& t, CmDrop reason) {
  return t.manager.stats().dropped(reason);
}

TEST(CmPrefix, ANetworkThatAsksTooOftenIsHeldToItsShareAndAnotherIsNot) {
  CmOptions options;
  options.prefix = few();
  options.prefix.half_open_max = 1000;
  ScriptedPeer t(options);
  for (uint32_t i = 0; i < 200; ++i) {
    const CmAddress from = client(0x0a090100 + i);  // all of one /24
    t.deliver_from(from, linux_req(from, i + 1));
  }
  EXPECT_EQ(t.manager.half_open_count(), 10u);
  EXPECT_EQ(dropped(t, CmDrop::kPrefixRequestRate), 190u);
  EXPECT_EQ(dropped(t, CmDrop::kRequestRate), 0u);
  const CmAddress other = client(0x0a090201);
  t.deliver_from(other, linux_req(other));
  EXPECT_EQ(t.manager.half_open_count(), 11u);
  // Its share comes back with time.
  t.advance(Duration::ms(500));
  for (uint32_t i = 0; i < 200; ++i) {
    const CmAddress from = client(0x0a090100 + i);
    t.deliver_from(from, linux_req(from, 1000 + i, verbs::Qpn(0x1000 + i)));
  }
  EXPECT_EQ(t.manager.half_open_count(), 16u);
}

TEST(CmPrefix, AFloodKeepsNobodyOutWhoHadAConnection) {
  CmOptions options;
  options.request_rate = {.per_second = 10, .burst = 10};
  ScriptedPeer t(options);
  t.establish();
  for (uint32_t i = 0; i < 200; ++i) {
    const CmAddress from = client(0x0b000001 + i * 256);  // a network each
    t.deliver_from(from, linux_req(from, i + 1));
  }
  EXPECT_EQ(t.manager.half_open_count(), 9u);
  EXPECT_EQ(dropped(t, CmDrop::kRequestRate), 191u);
  const CmAddress known = test::address_of(1, 2);
  t.deliver_from(known, linux_req(known, 1000, verbs::Qpn(0x1000)));
  EXPECT_EQ(t.manager.half_open_count(), 10u);
  // And a stranger of the same network is one of the flood.
  const CmAddress neighbour = client(load_be32(known.remote.raw.data() + 12) + 1);
  t.deliver_from(neighbour, linux_req(neighbour, 1001, verbs::Qpn(0x1001)));
  EXPECT_EQ(t.manager.half_open_count(), 10u);
}

// Its connection lives for long, and thousands of others come and go meanwhile. When it ends the client is known again.
TEST(CmPrefix, AConnectionThatEndsIsOneThatItsClientHad) {
  for (const bool ends : {false, true}) {
    SCOPED_TRACE(ends);
    ScriptedPeer t;
    const CmAddress known = t.peer;
    t.establish();
    const uint32_t known_comm_id = t.our_comm_id;
    for (uint32_t i = 0; i < 3 * RequestRates::kKnownMax; ++i) {
      t.now = t.now + Duration::ms(2);
      t.peer = client(0x0b000001 + i * 256);
      t.establish();
      t.deliver(t.dreq());
      t.only_event<Disconnected>();
      (void)t.sent();
    }
    t.peer = known;
    t.our_comm_id = known_comm_id;
    if (ends) {
      t.deliver(t.dreq());
      t.only_event<Disconnected>();
      (void)t.sent();
    }
    for (uint32_t i = 0; i < 2000; ++i) {
      const CmAddress from = client(0x1b000001 + i * 256);
      t.deliver_from(from, linux_req(from, i + 1));
    }
    const uint32_t before = t.manager.half_open_count();
    t.deliver_from(known, linux_req(known, 1000, verbs::Qpn(0x1000)));
    EXPECT_EQ(t.manager.half_open_count(), before + (ends ? 1 : 0));
  }
}

TEST(CmPrefix, ANetworkHoldsNoMoreHalfOpenConnectionsThanItsShare) {
  CmOptions options;
  options.prefix = few();
  options.prefix.request_rate = {.per_second = 1000, .burst = 1000};
  ScriptedPeer t(options);
  std::vector<ConnectionId> ids;
  for (uint32_t i = 0; i < 20; ++i) {
    const CmAddress from = client(0x0a090100 + i);
    t.deliver_from(from, linux_req(from, i + 1));
    for (const CmEvent& event : t.events()) {
      if (event.as<ConnectRequest>() != nullptr) {
        ids.push_back(event.connection);
      }
    }
  }
  ASSERT_EQ(ids.size(), 20u);
  EXPECT_EQ(t.manager.half_open_count(), 4u);
  EXPECT_EQ(t.manager.stats().ended(CmOutcome::kEvicted), 16u);
  EXPECT_TRUE(t.sent().empty());
  for (uint32_t i = 0; i < 20; ++i) {
    EXPECT_EQ(t.manager.state_of(ids[i]), i < 16 ? S::kTimewait : S::kReqRcvd) << i << ": the oldest go";
  }
  // Whoever is through, by whatever way, makes room.
  ASSERT_TRUE(t.manager.reject(t.now, ids[16], RejectReason::kConsumerDefined).ok());
  t.manager.disconnect(t.now, ids[17]);
  ASSERT_TRUE(t.manager.accept(t.now, ids[18], t.accept_parameters()).ok());
  t.manager.data_arrived(t.now, ids[18]);
  for (uint32_t i = 20; i < 40; ++i) {
    const CmAddress from = client(0x0a090100 + i);
    t.deliver_from(from, linux_req(from, i + 1));
  }
  EXPECT_EQ(t.manager.stats().ended(CmOutcome::kEvicted), 16u + 17u);
  EXPECT_EQ(t.manager.half_open_count(), 4u);
  EXPECT_EQ(t.manager.live_count(), 5u);
}

// Who asks for much makes room for others, and for itself; who asked for little keeps what it has.
TEST(CmPrefix, WithoutRoomTheOldestOfTheBusiestNetworkGoes) {
  CmOptions options;
  options.half_open_max = 10;
  ScriptedPeer t(options);
  const auto ask = [&](const CmAddress& from, uint32_t comm_id) {
    t.deliver_from(from, linux_req(from, comm_id, verbs::Qpn(comm_id)));
    std::optional<ConnectionId> asked;
    for (const CmEvent& event : t.events()) {
      asked = event.as<ConnectRequest>() != nullptr ? event.connection : asked;
    }
    EXPECT_TRUE(asked.has_value());
    return *asked;
  };
  const ConnectionId honest = ask(client(0x0a090001), 0x77);
  const ConnectionId honest6 = ask(client6(0x2001'0db8'0000'0000, 1), 0x78);
  std::vector<ConnectionId> flood;
  for (uint32_t i = 0; i < 100; ++i) {
    flood.push_back(ask(client(0x0b000000 + i % 250), 0x100 + i));
  }
  EXPECT_EQ(t.manager.half_open_count(), 10u);
  EXPECT_EQ(t.manager.state_of(honest), S::kReqRcvd);
  EXPECT_EQ(t.manager.state_of(honest6), S::kReqRcvd);
  for (uint32_t i = 0; i < 100; ++i) {
    EXPECT_EQ(t.manager.state_of(flood[i]) == S::kReqRcvd, i >= 92) << i;
  }
  // A newcomer of a third network pushes out one of the flood, the oldest.
  const ConnectionId third = ask(client(0x0c000001), 0x79);
  EXPECT_EQ(t.manager.state_of(third), S::kReqRcvd);
  EXPECT_EQ(t.manager.state_of(honest), S::kReqRcvd);
  EXPECT_NE(t.manager.state_of(flood[92]), S::kReqRcvd);
  EXPECT_EQ(t.manager.state_of(flood[93]), S::kReqRcvd);
  EXPECT_EQ(t.manager.stats().ended(CmOutcome::kEvicted), 93u);
}

// A source address of its own for each REQ: all networks hold one, and the one that has held it the longest goes. An answer that
// takes no longer than as many other requests comes in time.
TEST(CmPrefix, AmongNetworksThatHoldAsManyTheLongestGoesFirst) {
  CmOptions options;
  options.half_open_max = 10;
  ScriptedPeer t(options);
  t.accept();
  for (uint32_t i = 0; i < 9; ++i) {
    const CmAddress from = client(0x0b000000 + i * 256);
    t.deliver_from(from, linux_req(from));
  }
  EXPECT_EQ(t.state(), S::kRepSent);
  const ConnectionId first = t.id;
  const CmAddress from = client(0x0c000000);
  t.deliver_from(from, linux_req(from));
  EXPECT_EQ(t.manager.state_of(first), S::kTimewait);
  EXPECT_EQ(t.manager.half_open_count(), 10u);
}

TEST(CmPrefix, RejectsAndOtherAnswersToANetworkAreHeldToItsShare) {
  CmOptions options;
  options.prefix = few();
  ScriptedPeer t(options);
  t.our_comm_id = 5;
  size_t answers = 0;
  for (uint32_t i = 0; i < 100; ++i) {
    const CmAddress from = client(0x0a090100 + i);
    Req req = linux_req(from, i + 1);
    req.service = ip_service_id(1);
    t.deliver_from(from, req);       // REJ
    t.deliver_from(from, t.dreq());  // DREP
    answers += t.sent().size();
  }
  EXPECT_EQ(answers, 10u);
  EXPECT_EQ(dropped(t, CmDrop::kPrefixAnswerRate), 95u);  // the REQs; DREQs count as unknown either way
  EXPECT_EQ(dropped(t, CmDrop::kUnknown), 100u);
  EXPECT_EQ(dropped(t, CmDrop::kAnswerRate), 0u);
  const CmAddress other = client(0x0a090201);
  t.deliver_from(other, t.dreq());
  t.only<Drep>();
}

TEST(CmPrefix, RepeatingARequestCostsNothingButItsAnswer) {
  CmOptions options;
  options.prefix = few();
  ScriptedPeer t(options);
  t.accept();
  for (uint32_t i = 0; i < 100; ++i) {
    t.deliver(linux_req(t.peer));
  }
  EXPECT_EQ(t.sent().size(), 10u);  // the same REP, as far as answers go
  EXPECT_EQ(t.manager.half_open_count(), 1u);
  EXPECT_EQ(t.manager.live_count(), 1u);
  EXPECT_TRUE(t.events().empty());
  EXPECT_EQ(dropped(t, CmDrop::kPrefixAnswerRate), 90u);
  // Other requests of the network are still looked at.
  const CmAddress neighbour = client(0x0a090009);
  t.deliver_from(neighbour, linux_req(neighbour));
  t.only_event<ConnectRequest>();
}

TEST(CmPrefix, NetworksAreAsWideAsConfigured) {
  struct Case {
    uint8_t ipv4_bits;
    uint8_t ipv6_bits;
    uint32_t ipv4_networks;
    uint32_t ipv6_networks;
  };
  // 256 addresses of 10.9.0.0/22, 64 of each /24; 256 of 2001:db8::/62, 64 of each /64.
  for (const Case& one :
       {Case{24, 64, 4, 4}, Case{22, 62, 1, 1}, Case{32, 128, 256, 256}, Case{0, 0, 1, 1}, Case{23, 63, 2, 2}}) {
    PrefixLimits limits;
    limits.ipv4_bits = one.ipv4_bits;
    limits.ipv6_bits = one.ipv6_bits;
    SeededRandom random(1);
    PrefixTable ipv4(limits, random);
    PrefixTable ipv6(limits, random);
    for (uint32_t i = 0; i < 256; ++i) {
      (void)find(ipv4, Instant::from_ns(i), client(0x0a090000 + (i / 64) * 256 + i % 64));
      (void)find(ipv6, Instant::from_ns(i), client6(0x2001'0db8'0000'0000 + i / 64, i));
    }
    EXPECT_EQ(ipv4.size(), one.ipv4_networks) << int{one.ipv4_bits};
    EXPECT_EQ(ipv6.size(), one.ipv6_networks) << int{one.ipv6_bits};
  }
}

// An address is not a network's before it is known over which link it came.
TEST(CmPrefix, TheSameNetworkOnAnotherPortOrVlanIsAnother) {
  SeededRandom random(1);
  PrefixTable table(PrefixLimits{}, random);
  CmAddress address = client(0x0a090001);
  const auto first = find(table, Instant::from_ns(1), address);
  address.vlan = 7;
  EXPECT_NE(find(table, Instant::from_ns(1), address), first);
  address.vlan = 0;
  address.port = 1;
  EXPECT_NE(find(table, Instant::from_ns(1), address), first);
  address.port = 0;
  EXPECT_EQ(find(table, Instant::from_ns(1), address), first);
  EXPECT_EQ(table.size(), 3u);
}

// A million invented networks: the table stays as it is, and a network that holds something is never forgotten.
TEST(CmPrefix, InventedSourcesGrowNothingAndForgetNobodyWhoHoldsSomething) {
  SeededRandom random(3);
  PrefixLimits limits = few();
  limits.prefix_max = 64;
  PrefixTable table(limits, random);
  EXPECT_EQ(table.capacity(), 64u);
  const CmAddress honest = client(0x0a090001);
  const auto held = find(table, Instant::from_ns(1), honest);
  table.opened(held);
  for (uint32_t i = 0; i < 1'000'000; ++i) {
    const auto index = find(table, Instant::from_ns(2 + i), client(0x0b000000 + i * 256));
    ASSERT_LE(index, table.capacity());
    ASSERT_NE(index, held);
  }
  EXPECT_EQ(table.size(), 64u);
  EXPECT_EQ(find(table, Instant::from_ns(2'000'000), honest), held);
  EXPECT_EQ(table.half_open(held), 1u);
  table.settled(held);
  EXPECT_EQ(table.half_open_count(), 0u);
}

TEST(CmPrefix, NetworksThatFindNoPlaceShareOne) {
  SeededRandom random(4);
  PrefixLimits limits = few();
  limits.prefix_max = 8;
  PrefixTable table(limits, random);
  std::vector<PrefixTable::Index> held;
  for (uint32_t i = 0; i < 20; ++i) {
    const auto index = find(table, Instant::from_ns(i), client(0x0b000000 + i * 256));
    if (table.may_open(index)) {
      table.opened(index);
      held.push_back(index);
    }
  }
  EXPECT_EQ(held.size(), 8u + 4u);  // one each, and the share of a single network for all others
  EXPECT_EQ(table.half_open(table.capacity()), 4u);
  EXPECT_FALSE(table.may_open(find(table, Instant::from_ns(30), client(0x0c000000))));
  for (const auto index : held) {
    table.settled(index);
  }
  EXPECT_EQ(table.half_open_count(), 0u);
}

// The whole floor comes back from a power cut: a thousand clients of one network, each repeating its request every 4.3 s up to 15
// times as the Linux kernel does, on the limits as they are by default and a backend that takes 2 ms for each.
TEST(CmPrefix, AThousandClientsOfOneNetworkThatComeBackAtOnceAllGetThrough) {
  constexpr uint32_t kClients = 1000;
  CmOptions options;
  options.connection_max = 2048;
  SeededRandom random(5);
  ConnectionManager manager(options, random);
  ASSERT_TRUE(manager.listen(ip_service_id(test::kPort)).ok());
  Instant now = Instant::from_ns(1'000'000'000);
  const Instant start = now;
  std::deque<std::pair<Instant, ConnectionId>> opening;  // at the backend, one after the other
  uint32_t up = 0;
  while (up < kClients && now - start < Duration::ms(int64_t{4295} * 15)) {
    const int64_t turn_us = (now - start).to_us() % 4'295'000;
    if (turn_us < 10'000) {  // the requests of each turn come within 10 ms, a hundred a millisecond
      for (uint32_t i = 0; i < 100; ++i) {
        const auto number = static_cast<uint32_t>(turn_us / 1000) * 100 + i;
        // A /22, of which the gateway sees four networks, would be easier: all in one.
        const CmAddress from = client(0x0a090000 + 2 + number % 250);
        Mad mad;
        write_mad(mad, number, linux_req(from, number + 1, verbs::Qpn(0x100 + number)));
        manager.on_mad(now, from, mad);
      }
    }
    CmEvent event;
    while (manager.poll_event(event)) {
      if (event.as<ConnectRequest>() != nullptr) {
        const Instant ready = opening.empty() ? now : std::max(now, opening.back().first);
        opening.emplace_back(ready + Duration::ms(2), event.connection);
      }
    }
    while (!opening.empty() && opening.front().first <= now) {
      (void)manager.accept(now, opening.front().second, {.local_qpn = test::kOurQpn});
      opening.pop_front();
    }
    CmDatagram datagram;
    while (manager.poll_transmit(datagram)) {
      if (type_of(datagram.mad) == MessageType::kRep) {
        const Rep rep = Rep::parse(message_of(datagram.mad)).value();
        Mad mad;
        write_mad(mad, 1, Rtu{.local_comm_id = rep.remote_comm_id, .remote_comm_id = rep.local_comm_id});
        manager.on_mad(now, datagram.to, mad);
      } else {
        ADD_FAILURE() << "refused: " << to_string(type_of(datagram.mad));
      }
    }
    while (manager.poll_event(event)) {
      up += event.as<Established>() != nullptr ? 1 : 0;
    }
    now = now + Duration::ms(1);
    manager.on_deadline(now);
  }
  EXPECT_EQ(up, kClients);
  EXPECT_LT((now - start).to_seconds(), 15.0);
  EXPECT_GT(manager.stats().dropped(CmDrop::kPrefixRequestRate), 0u);
  EXPECT_TRUE(manager.is_consistent());
  RecordProperty("seconds", std::to_string((now - start).to_seconds()));
}

// One client that connects and hangs up 150 times a second for a minute loses nothing to the limits.
TEST(CmPrefix, AClientMayChurn) {
  ScriptedPeer t;
  for (uint32_t i = 0; i < 9'000; ++i) {
    Mad mad;
    write_mad(mad, i, linux_req(t.peer, 1000 + i, verbs::Qpn(0x100 + i % 5000)));
    t.manager.on_mad(t.now, t.peer, mad);
    CmEvent event;
    ASSERT_TRUE(t.manager.poll_event(event)) << i;
    ASSERT_TRUE(t.manager.accept(t.now, event.connection, t.accept_parameters()).ok());
    t.manager.data_arrived(t.now, event.connection);
    t.manager.disconnect(t.now, event.connection);
    CmDatagram datagram;
    while (t.manager.poll_transmit(datagram)) {
      if (type_of(datagram.mad) == MessageType::kDreq) {
        const Dreq dreq = Dreq::parse(message_of(datagram.mad)).value();
        write_mad(mad, 1, Drep{.local_comm_id = dreq.remote_comm_id, .remote_comm_id = dreq.local_comm_id});
        t.manager.on_mad(t.now, t.peer, mad);
      }
    }
    while (t.manager.poll_event(event)) {
    }
    t.now = t.now + Duration::us(6667);
    t.manager.on_deadline(t.now);
  }
  EXPECT_EQ(t.manager.stats().established, 9'000u);
  EXPECT_EQ(t.manager.stats().ended(CmOutcome::kLocalDisconnect), 9'000u);
  EXPECT_EQ(t.manager.live_count(), 0u);
}

}  // namespace
}  // namespace cw::cm
