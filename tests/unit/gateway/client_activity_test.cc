// Who does what: the table of clients, and what the gateway counts in it.
#include "gateway/client_activity.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "tests/unit/gateway/gateway_on_fake.h"

namespace cw::gateway {
namespace {

IpAddress peer_at(uint32_t last) {
  return IpAddress::v4(0x0a00'0000 + last);
}

class Activity : public ::testing::Test {
 protected:
  std::vector<ClientInfo> all(uint32_t at_once = 7) {
    std::vector<ClientInfo> infos(2000);
    uint32_t count = 0;
    uint32_t place = 0;
    do {
      place = activity.describe_some(place, at_once, infos, count);
    } while (place != 0);
    infos.resize(count);
    return infos;
  }
  void answer(uint32_t client, uint32_t row, Duration took) {
    activity.on_done(
        {.client = client, .procedure = row, .received = Instant::from_ns(1000), .replied = Instant::from_ns(1000) + took});
  }
  ClientActivity activity;
};

TEST_F(Activity, ConnectionsOfOneAddressAreOneClient) {
  ActiveClient& first = activity.join(peer_at(1), 3);
  EXPECT_EQ(&activity.join(peer_at(1), 3), &first);
  EXPECT_NE(&activity.join(peer_at(2), std::nullopt), &first);
  first.use.calls = 5;
  answer(first.number, 4, Duration::us(2));
  answer(first.number, 4, Duration::us(3));
  const std::vector<ClientInfo> infos = all(1);
  ASSERT_EQ(infos.size(), 2u);
  EXPECT_EQ(infos[0].address, peer_at(1));
  EXPECT_EQ(infos[0].connections, 2u);
  EXPECT_EQ(infos[0].section, 3u);
  EXPECT_EQ(infos[0].use.calls, 5u);
  EXPECT_EQ(infos[0].procedures[4].calls, 2u);
  EXPECT_EQ(infos[0].procedures[4].ns, 5000u);
  EXPECT_EQ(infos[1].connections, 1u);
  EXPECT_EQ(infos[1].section, std::nullopt);
  EXPECT_EQ(infos[1].procedures[4].calls, 0u);
}

TEST_F(Activity, OneThatComesBackGoesOn) {
  ActiveClient& client = activity.join(peer_at(1), std::nullopt);
  client.use.calls = 5;
  activity.leave(client);
  EXPECT_EQ(all()[0].connections, 0u);
  EXPECT_EQ(activity.join(peer_at(1), 2).use.calls, 5u);
  EXPECT_EQ(all()[0].section, 2u);
}

TEST_F(Activity, OfThoseThatAreGoneTheLastStay) {
  ActiveClient& stays = activity.join(peer_at(0), std::nullopt);
  const uint32_t many = 3 * ClientActivity::kGoneMax;
  for (uint32_t i = 1; i <= many; ++i) {
    activity.leave(activity.join(peer_at(i), std::nullopt));
  }
  EXPECT_EQ(activity.size(), ClientActivity::kGoneMax + 1);
  const std::vector<ClientInfo> infos = all();
  EXPECT_EQ(infos.size(), ClientActivity::kGoneMax + 1);
  for (const ClientInfo& info : infos) {
    const uint32_t last = info.address.to_v4() - 0x0a00'0000;
    EXPECT_TRUE(last == 0 || last > many - ClientActivity::kGoneMax) << last;
  }
  activity.leave(stays);
}

// The record of a call may come when its client is forgotten, and its number somebody else's only much later.
TEST_F(Activity, ALateRecordFindsNobody) {
  const uint32_t number = [&] {
    ActiveClient& client = activity.join(peer_at(1), std::nullopt);
    const uint32_t own = client.number;
    activity.leave(client);
    return own;
  }();
  for (uint32_t i = 0; i < ClientActivity::kGoneMax; ++i) {
    activity.leave(activity.join(peer_at(100 + i), std::nullopt));
  }
  answer(number, 0, Duration::us(1));
  answer(UINT32_MAX, 0, Duration::us(1));
  for (const ClientInfo& info : all()) {
    EXPECT_EQ(info.procedures[0].calls, 0u);
  }
}

TEST_F(Activity, AsManyAreToldAsThereIsRoomFor) {
  for (uint32_t i = 0; i < 5; ++i) {
    (void)activity.join(peer_at(i), std::nullopt);
  }
  std::array<ClientInfo, 2> few;
  uint32_t count = 0;
  EXPECT_EQ(activity.describe_some(0, 100, few, count), 0u);
  EXPECT_EQ(count, 5u);
  EXPECT_EQ(few[1].address, peer_at(1));
}

class WhoDoesWhat : public GatewayOnAFakeTransport {
 protected:
  ClientInfo info_of(const IpAddress& address) {
    rpcrdma::CallDone done;
    while (gateway->poll_done(done)) {
    }
    std::array<ClientInfo, 4> infos;
    uint32_t count = 0;
    EXPECT_EQ(gateway->activity().describe_some(0, 100, infos, count), 0u);
    for (uint32_t i = 0; i < count; ++i) {
      if (infos[i].address == address) {
        return infos[i];
      }
    }
    ADD_FAILURE() << "not there";
    return {};
  }
  void worker_says(const Opened& opened, const rpcrdma::Words& words) {
    BackendEvent event;
    event.kind = BackendEvent::Kind::kMessage;
    event.link = opened.link;
    event.message = rpcrdma::chain_of(packets, words.bytes());
    gateway->on_backend_event(now, std::move(event));
    turn();
  }
};

TEST_F(WhoDoesWhat, CallsAreTheirClientsAndTheirSections) {
  options.clients = {{.name = "alices", .prefixes = {{.address = kAlice, .length_bits = 32}}}};
  start();
  const Opened alice = open(kAlice);
  const Opened bob = open(kBob);
  expect_served(alice, 1);
  call(alice.id, 2);
  expect_forwarded(alice.link, 2);
  now = now + Duration::us(70);
  worker_replies(alice.link, 2);
  expect_replied(alice.id, 2);
  acknowledge(alice.id);
  expect_served(bob, 3);
  const ClientInfo info = info_of(kAlice);
  EXPECT_EQ(info.section, 0u);
  EXPECT_EQ(info.use.calls, 2u);
  EXPECT_EQ(info.use.replies, 2u);
  EXPECT_EQ(info.use.errors, 0u);
  EXPECT_EQ(info.use.call_bytes, 80u);
  EXPECT_EQ(info.use.reply_bytes, 48u);
  const uint32_t null = rpcrdma::procedure_row(rpcrdma::kBenchProgram, rpcrdma::kBenchVersion, 0, 0);
  EXPECT_EQ(info.procedures[null].calls, 2u);
  EXPECT_EQ(info.procedures[null].ns, 70'000u);
  EXPECT_EQ(info_of(kBob).use.calls, 1u);
  EXPECT_EQ(gateway->stats().clients[0].use.calls, 2u);
  EXPECT_EQ(gateway->stats().clients[0].use.reply_bytes, 48u);
  EXPECT_EQ(backend_stats(0).errors, 0u);
  EXPECT_EQ(backend_stats(0).call_ns, 70'000u);
}

// RFC 5531 9: a verifier may come before the status, and a denied call has none.
TEST_F(WhoDoesWhat, RepliesThatRefuseAreErrors) {
  start();
  const Opened alice = open(kAlice);
  const std::vector<rpcrdma::Words> refusals = {{0, 1, 0, 0, 0, 1}, {0, 1, 1, 1, 1}, {0, 1, 0, 6, 4, 7, 5}};
  const std::vector<rpcrdma::Words> answers = {{0, 1, 0, 0, 0, 0}, {0, 1, 0, 6, 4, 7, 0}};
  uint32_t xid = 0;
  for (const auto* list : {&refusals, &answers}) {
    for (const rpcrdma::Words& words : *list) {
      call(alice.id, ++xid);
      expect_forwarded(alice.link, xid);
      std::vector<uint32_t> reply = words.words();
      reply[0] = xid;
      rpcrdma::Words with_xid;
      for (const uint32_t word : reply) {
        with_xid.add({word});
      }
      worker_says(alice, with_xid);
      acknowledge(alice.id);
    }
  }
  EXPECT_EQ(info_of(kAlice).use.replies, 5u);
  EXPECT_EQ(info_of(kAlice).use.errors, refusals.size());
  EXPECT_EQ(backend_stats(0).errors, refusals.size());
}

TEST_F(WhoDoesWhat, CallsThatAreLostWithTheirConnectionAreErrors) {
  start();
  const Opened alice = open(kAlice);
  expect_served(alice, 1);
  call(alice.id, 2);
  expect_forwarded(alice.link, 2);
  call(alice.id, 3);
  expect_forwarded(alice.link, 3);
  transport.peer_leaves(alice.id);
  turn();
  const ClientInfo info = info_of(kAlice);
  EXPECT_EQ(info.connections, 0u);
  EXPECT_EQ(info.use.calls, 3u);
  EXPECT_EQ(info.use.replies, 1u);
  EXPECT_EQ(info.use.errors, 2u);
}

// Nobody is known who has not proved that he is there.
TEST_F(WhoDoesWhat, WhoHasOnlyAskedIsNobody) {
  start();
  (void)ask(kAlice);
  EXPECT_EQ(gateway->activity().size(), 0u);
}

TEST_F(WhoDoesWhat, OperationsOfACompoundAreCounted) {
  start();
  const Opened alice = open(kAlice);
  const rpcrdma::Words rpc = rpcrdma::rpc_call(9, 1, rpcrdma::kNfsProgram, 4).add({0, 1, 3, 24, 10, 9, 1, 0x18});
  ASSERT_TRUE(transport.peer_sends(alice.id, rpcrdma::chain_of(packets, rpcrdma::inline_call(9, rpc).bytes())));
  turn();
  (void)expect_request(BackendRequest::Kind::kSend);
  worker_replies(alice.link, 9);
  acknowledge(alice.id);
  const std::array<uint64_t, rpcrdma::kNfs4Operations>& operations = gateway->stats().nfs4_operations;
  EXPECT_EQ(operations[24], 1u);
  EXPECT_EQ(operations[10], 1u);
  EXPECT_EQ(operations[9], 1u);
  EXPECT_EQ(operations[25], 0u);
  EXPECT_EQ(info_of(kAlice).procedures[rpcrdma::procedure_row(rpcrdma::kNfsProgram, 4, 1, 9)].calls, 1u);
}

}  // namespace
}  // namespace cw::gateway
