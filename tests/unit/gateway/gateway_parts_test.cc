// The parts of the gateway that keep something over connections, each alone: no gateway, no transport and no peer. What they do
// together is in fake_transport_test.cc.
#include <gtest/gtest.h>

#include <initializer_list>
#include <optional>
#include <vector>

#include "base/heap_buffer_pool.h"
#include "gateway/admission.h"
#include "gateway/call_holds.h"
#include "gateway/connection_table.h"
#include "gateway/drain.h"
#include "gateway/orphans.h"
#include "tests/support/fake_queue_pair.h"
#include "tests/unit/endpoint/words.h"

namespace cw::gateway {
namespace {

constexpr IpAddress kCarol = IpAddress::v4(0x0a00'0003);
constexpr IpAddress kDave = IpAddress::v4(0x0a00'0004);
constexpr Instant kStart = Instant::from_ns(1'000'000'000);

std::vector<LinkId> visited(ConnectionTable& table) {
  std::vector<LinkId> links;
  table.for_each([&](const Connection& connection) { links.push_back(connection.link); });
  return links;
}

TEST(ConnectionTable, WhoIsOverIsFoundByNobodyAndThereUntilItIsFreed) {
  ConnectionTable table(2, {3, 4});
  Connection& over = table.create();
  Connection& other = table.create();
  EXPECT_TRUE(table.is_full());
  EXPECT_EQ(core_of(over.link), 3u);
  EXPECT_EQ(table.find(over.link), &over);
  EXPECT_FALSE(table.has_endings());

  table.end(over, ConnectionResult::kFailedProtocol, false);
  table.end(over, ConnectionResult::kClosedByPeer, true);
  table.end_silently(over, ConnectionResult::kFailedHandshake);
  EXPECT_EQ(table.find(over.link), nullptr);
  EXPECT_EQ(visited(table), std::vector{other.link});
  EXPECT_EQ(table.at(over.slot), &over);
  EXPECT_TRUE(table.is_full());

  ASSERT_TRUE(table.has_endings());
  const Ending ending = table.take_ending();
  EXPECT_EQ(ending.connection, &over);
  EXPECT_EQ(ending.result, ConnectionResult::kFailedProtocol) << "the first of several counts";
  EXPECT_FALSE(ending.peer_ended);
  EXPECT_FALSE(ending.silent);
  EXPECT_FALSE(table.has_endings());
  const uint32_t slot = over.slot;
  table.free(over);
  EXPECT_EQ(table.at(slot), nullptr);
  EXPECT_FALSE(table.is_full());
  table.free(other);
}

TEST(ConnectionTable, NumbersAreSmallAndNeverTheSame) {
  ConnectionTable table(1, {3, 4});
  for (const uint64_t number : {4u, 8u, 12u}) {
    Connection& connection = table.create();
    EXPECT_EQ(connection.number, number);
    table.end_silently(connection, ConnectionResult::kFailedHandshake);
    table.free(*table.take_ending().connection);
  }
}

TEST(ConnectionTable, EndingsAreTakenInTheOrderInWhichTheyWereNoticed) {
  ConnectionTable table(3, {});
  Connection* connections[] = {&table.create(), &table.create(), &table.create()};
  for (const uint32_t index : {2u, 0u, 1u}) {
    table.end_silently(*connections[index], ConnectionResult::kFailedHandshake);
  }
  for (const uint32_t index : {2u, 0u, 1u}) {
    const Ending ending = table.take_ending();
    EXPECT_EQ(ending.connection, connections[index]);
    EXPECT_TRUE(ending.silent);
    table.free(*ending.connection);
  }
}

TEST(ConnectionTable, ALinkOfTheConnectionBeforeFindsNobody) {
  ConnectionTable table(1, {});
  Connection& before = table.create();
  const LinkId old = before.link;
  table.free(before);
  Connection& next = table.create();
  EXPECT_EQ(slot_of(next.link), slot_of(old));
  EXPECT_EQ(table.find(old), nullptr);
  EXPECT_EQ(table.find(next.link), &next);
  EXPECT_EQ(table.find(link_id(1, 0, 0, 77)), nullptr) << "there is no such slot";
  table.free(next);
}

TEST(ConnectionTable, ALaneIsFoundByItsPresentLinkAlone) {
  ConnectionTable table(1, {});
  Connection& connection = table.create();
  connection.more.resize(1);
  const LinkId first = table.new_link(connection.slot, 1);
  connection.lane(1).link = first;
  EXPECT_EQ(lane_of(first), 1u);
  EXPECT_EQ(table.find(first), &connection);
  connection.lane(1).link = table.new_link(connection.slot, 1);
  EXPECT_EQ(table.find(first), nullptr);
  EXPECT_EQ(table.find(connection.lane(1).link), &connection);
  EXPECT_EQ(table.find(table.new_link(connection.slot, 2)), nullptr) << "it has two lanes";
  table.free(connection);
}

TEST(ConnectionTable, ATimerComesAtTheEarliestOfItsDeadlinesAndGoesWithItsConnection) {
  ConnectionTable table(2, {});
  Connection& early = table.create();
  Connection& freed = table.create();
  table.arm(early, kStart + Duration::ms(50));
  table.arm(early, kStart + Duration::ms(10));
  table.arm(early, kStart + Duration::ms(90));
  EXPECT_EQ(early.deadline(), kStart + Duration::ms(10));
  table.arm(freed, kStart + Duration::ms(5));
  table.free(freed);
  EXPECT_EQ(table.pop_expired(kStart + Duration::ms(9)), nullptr);
  EXPECT_EQ(table.pop_expired(kStart + Duration::ms(11)), &early);
  EXPECT_EQ(table.pop_expired(kStart + Duration::seconds(1)), nullptr);
  table.free(early);
}

// What keeps links and calls of connections that have ended, and the guard that holds the calls of those that come.
class OrphansAlone : public ::testing::Test {
 protected:
  static constexpr Duration kOrphanMax = Duration::seconds(10);

  void TearDown() override {
    orphans.close_all();
    EXPECT_EQ(stats.orphans, 0u);
    EXPECT_EQ(stats.backends[0].links, 0u);
    EXPECT_EQ(stats.backends[0].server_links[0], 0u);
    EXPECT_EQ(guard.client_count(), 0u);
    EXPECT_EQ(shared.clients, 0u);
    EXPECT_EQ(shared.pulled_units, 0u);
    EXPECT_EQ(backends.share(0).pulled_units, 0u);
  }
  // The client's connection ends with these calls at the backend, each of which holds so many units.
  LinkId leave(const IpAddress& client, std::initializer_list<uint32_t> xids, uint32_t units = 0) {
    Lane lane;
    lane.state = Lane::State::kOpen;
    lane.backend = 0;
    lane.link = link_id(++generation, 0, 0, 0);
    lane.client = &guard.join(client, 0);
    rpcrdma::ClientShare& share = orphans.join_client(client);  // as the connection does
    for (const uint32_t xid : xids) {
      lane.pending.add(xid, {.call = {}, .since = now, .epoch = guard.begin(*lane.client), .units = units});
      shared.pulled_units += units;
      share.pulled_units += units;
      backends.share(0).pulled_units += units;
    }
    ++stats.backends[0].links;
    ++stats.backends[0].server_links[0];
    const LinkId link = lane.link;
    orphans.adopt(now, client, lane, now + kOrphanMax);
    orphans.leave_client(client);
    EXPECT_TRUE(lane.pending.empty());
    return link;
  }
  void says(LinkId link, BackendEvent::Kind kind, const rpcrdma::Words& words = {}) {
    BackendEvent event;
    event.kind = kind;
    event.link = link;
    event.message = rpcrdma::chain_of(packets, words.bytes());
    orphans.on_event(now, std::move(event));
  }
  void answers(LinkId link, uint32_t xid) { says(link, BackendEvent::Kind::kMessage, rpcrdma::rpc_reply(xid)); }
  void pass(Duration time) {
    now = now + time;
    orphans.expire(now);
  }
  // Of the workers it wants links to be closed, and nothing else.
  std::optional<LinkId> closed() {
    BackendRequest request;
    if (!requests.poll(request)) {
      return std::nullopt;
    }
    EXPECT_EQ(request.kind, BackendRequest::Kind::kClose);
    return request.link;
  }
  // Of connections that have come meanwhile.
  std::optional<LinkId> released() {
    LinkId link;
    return guard.poll_released(link) ? std::optional(link) : std::nullopt;
  }
  // The client's next connection has to wait.
  void expect_held(const IpAddress& client, LinkId link) { EXPECT_TRUE(guard.hold(*guard.find(client, 0), link)); }

  static constexpr LinkId kNext{link_id(99, 0, 0, 5)};
  GatewayStats stats;
  CoreMails mails{CoreShare()};
  HeapBufferPool packets{16, 1024, 16};
  rpcrdma::ServerShared shared{8, packets};
  Backends backends{std::vector<BackendOptions>{{.name = "nfs", .kind = BackendKind::kTcp}}, stats, mails};
  ReplayGuard guard{7};
  WorkerRequests requests{4};
  Orphans orphans{2, shared, backends, guard, requests, stats};
  Instant now = kStart;
  uint32_t generation = 0;
};

TEST_F(OrphansAlone, ALinkIsClosedSoonAfterItsLastCallHasBeenAnswered) {
  const LinkId link = leave(kCarol, {1, 2});
  EXPECT_EQ(stats.orphans, 1u);
  EXPECT_EQ(stats.orphaned_calls, 2u);
  EXPECT_EQ(orphans.next_deadline(), now + kOrphanMax);
  expect_held(kCarol, kNext);
  answers(link, 1);
  pass(Orphans::kAnswerSettles);
  EXPECT_EQ(closed(), std::nullopt) << "one is left";
  answers(link, 2);
  EXPECT_EQ(orphans.next_deadline(), now + Orphans::kAnswerSettles);
  pass(Orphans::kAnswerSettles - Duration::ns(1));
  EXPECT_EQ(closed(), std::nullopt);
  EXPECT_EQ(released(), std::nullopt);
  pass(Duration::ns(1));
  EXPECT_EQ(closed(), link);
  EXPECT_EQ(released(), kNext);
  EXPECT_EQ(stats.orphans, 0u);
  EXPECT_EQ(stats.orphaned_expired, 0u);
  EXPECT_EQ(orphans.next_deadline(), Instant::never());
}

TEST_F(OrphansAlone, WithoutCallsItIsAsIfTheLastHadJustBeenAnswered) {
  const LinkId link = leave(kCarol, {});
  expect_held(kCarol, kNext);
  EXPECT_EQ(orphans.next_deadline(), now + Orphans::kAnswerSettles);
  pass(Orphans::kAnswerSettles);
  EXPECT_EQ(closed(), link);
  EXPECT_EQ(released(), kNext);
}

TEST_F(OrphansAlone, ABackendThatDoesNotAnswerHoldsNobodyBeyondTheDeadline) {
  const LinkId link = leave(kCarol, {1, 2, 3});
  expect_held(kCarol, kNext);
  answers(link, 2);
  pass(kOrphanMax - Duration::ns(1));
  EXPECT_EQ(released(), std::nullopt);
  pass(Duration::ns(1));
  EXPECT_EQ(closed(), link);
  EXPECT_EQ(released(), kNext);
  EXPECT_EQ(stats.orphaned_expired, 2u);
}

TEST_F(OrphansAlone, ALinkThatTheBackendHasClosedIsGoneAtOnce) {
  const LinkId link = leave(kCarol, {1});
  expect_held(kCarol, kNext);
  says(link, BackendEvent::Kind::kClosed);
  EXPECT_EQ(closed(), std::nullopt) << "the worker has forgotten it";
  EXPECT_EQ(released(), kNext);
  EXPECT_EQ(stats.backends[0].closes, 1u);
  EXPECT_EQ(stats.orphans, 0u);
  says(link, BackendEvent::Kind::kClosed);
  EXPECT_EQ(stats.backends[0].closes, 1u) << "nobody's any more";
}

TEST_F(OrphansAlone, OnlyAReplyToACallOfItsOwnCounts) {
  const LinkId link = leave(kCarol, {1});
  const LinkId other = leave(kDave, {2});
  expect_held(kCarol, kNext);
  answers(link, 2);                                                        // the other one's
  says(link, BackendEvent::Kind::kMessage, rpcrdma::rpc_call(1));          // a call for the client that is gone
  says(link, BackendEvent::Kind::kMessage, rpcrdma::rpc_reply(1).cut(4));  // no RPC message
  pass(Orphans::kAnswerSettles);
  EXPECT_EQ(closed(), std::nullopt);
  answers(link, 1);
  pass(Orphans::kAnswerSettles);
  EXPECT_EQ(closed(), link);
  EXPECT_EQ(released(), kNext);
  EXPECT_EQ(closed(), std::nullopt);
  answers(other, 2);
  EXPECT_EQ(packets.in_use(), 0u);
}

TEST_F(OrphansAlone, WhatACallHoldsIsTheClientsUntilItIsAnswered) {
  const LinkId link = leave(kCarol, {1, 2}, 10);
  EXPECT_EQ(shared.clients, 1u) << "its orphan stands for it";
  const rpcrdma::ClientShare& share = orphans.join_client(kCarol);
  EXPECT_EQ(share.pulled_units, 20u);
  answers(link, 1);
  EXPECT_EQ(share.pulled_units, 10u);
  EXPECT_EQ(shared.pulled_units, 10u);
  EXPECT_EQ(backends.share(0).pulled_units, 10u);
  pass(kOrphanMax);
  EXPECT_EQ(share.pulled_units, 0u) << "given up";
  orphans.leave_client(kCarol);
}

TEST_F(OrphansAlone, WhenThereIsNoRoomTheOldestOfTheClientThatHasLeftMostGoes) {
  const LinkId oldest = leave(kDave, {1});
  const LinkId second = leave(kDave, {2});
  expect_held(kDave, kNext);
  (void)leave(kCarol, {3});
  EXPECT_EQ(closed(), oldest);
  EXPECT_EQ(closed(), std::nullopt);
  EXPECT_EQ(stats.orphaned_expired, 1u);
  EXPECT_EQ(stats.orphans, 2u);
  EXPECT_EQ(released(), std::nullopt) << "the second one's call holds it";
  says(second, BackendEvent::Kind::kClosed);
  EXPECT_EQ(released(), kNext);
}

class CallHoldsAlone : public ::testing::Test {
 protected:
  void make(uint32_t cores) {
    mails.emplace(CoreShare{.index = 0, .count = cores});
    holds.emplace(guard, table, *mails, stats);
  }
  void TearDown() override {
    for (Connection* connection : connections) {
      connection->for_each_lane([&](Lane& lane) {
        if (lane.client != nullptr) {
          holds->forget(lane);
          guard.leave(*lane.client);
        }
      });
      table.free(*connection);
    }
    EXPECT_EQ(guard.client_count(), 0u);
  }
  // Of Carol's, with a lane to each of so many backends.
  Connection& connect(uint32_t backends = 1) {
    Connection& connection = table.create();
    connections.push_back(&connection);
    connection.peer = kCarol;
    connection.more.resize(backends - 1);
    for (uint32_t i = 0; i < backends; ++i) {
      connection.lane(i).link = i == 0 ? connection.link : table.new_link(connection.slot, i);
      connection.lane(i).backend = i;
      connection.lane(i).client = &guard.join(kCarol, i);
    }
    return connection;
  }
  std::optional<CoreMails::Mail> mail() {
    const CoreMails::Mail* next = mails->next();
    if (next == nullptr) {
      return std::nullopt;
    }
    const CoreMails::Mail copy = *next;
    mails->pop();
    return copy;
  }

  const Instant until = kStart + Duration::seconds(10);
  ReplayGuard guard{7};
  ConnectionTable table{4, {}};
  GatewayStats stats;
  std::optional<CoreMails> mails;
  std::optional<CallHolds> holds;
  std::vector<Connection*> connections;
};

TEST_F(CallHoldsAlone, WhoFindsNothingInFlightDoesNotWait) {
  make(1);
  Connection& connection = connect();
  holds->hold(connection, until);
  EXPECT_EQ(connection.holds, 0u);
  EXPECT_FALSE(connection.is_armed());
  EXPECT_EQ(stats.connections_held, 0u);
  EXPECT_EQ(holds->next_released(), nullptr);
}

TEST_F(CallHoldsAlone, WaitsForTheCallsOfAllBackendsOnce) {
  make(1);
  Connection& before = connect(2);
  const uint32_t calls[] = {guard.begin(*before.lane(0).client), guard.begin(*before.lane(1).client)};
  Connection& next = connect(2);
  holds->hold(next, until);
  EXPECT_EQ(next.holds, 2u);
  EXPECT_EQ(next.held_until, until);
  EXPECT_EQ(next.deadline(), until);
  EXPECT_EQ(stats.connections_held, 1u);
  guard.end(*before.lane(1).client, calls[1]);
  EXPECT_EQ(holds->next_released(), nullptr) << "a call to one may follow from a call to the other";
  EXPECT_EQ(next.holds, 1u);
  guard.end(*before.lane(0).client, calls[0]);
  EXPECT_EQ(holds->next_released(), &next);
  EXPECT_EQ(next.holds, 0u);
  EXPECT_EQ(holds->next_released(), nullptr);
}

TEST_F(CallHoldsAlone, WhoHasGivenUpIsReleasedNoMore) {
  make(1);
  Connection& before = connect();
  const uint32_t call = guard.begin(*before.first.client);
  Connection& next = connect();
  holds->hold(next, until);
  holds->give_up(next);
  EXPECT_EQ(next.holds, 0u);
  EXPECT_FALSE(next.first.waits_here);
  guard.end(*before.first.client, call);
  EXPECT_EQ(holds->next_released(), nullptr);
}

TEST_F(CallHoldsAlone, WhoIsOverIsReleasedToNobody) {
  make(1);
  Connection& before = connect();
  const uint32_t call = guard.begin(*before.first.client);
  Connection& next = connect();
  holds->hold(next, until);
  table.end(next, ConnectionResult::kClosedByPeer, true);
  guard.end(*before.first.client, call);
  EXPECT_EQ(holds->next_released(), nullptr);
  (void)table.take_ending();
}

TEST_F(CallHoldsAlone, AsksAllOtherCoresAndWaitsForTheLastOfThem) {
  make(3);
  Connection& connection = connect();
  holds->hold(connection, until);
  EXPECT_EQ(connection.holds, 2u);
  EXPECT_EQ(stats.connections_held, 0u) << "as far as is known, there are no calls";
  for (const uint32_t core : {1u, 2u}) {
    const auto fence = mail();
    ASSERT_TRUE(fence.has_value());
    EXPECT_EQ(fence->to, core);
    EXPECT_EQ(fence->message.kind, CoreMessage::Kind::kFence);
    EXPECT_EQ(fence->message.client, kCarol);
    EXPECT_EQ(fence->message.link, connection.link);
    EXPECT_EQ(fence->message.index, 0u) << "the backend";
  }
  EXPECT_FALSE(mail().has_value());
  const CoreMessage done{.kind = CoreMessage::Kind::kFenceDone, .link = connection.link, .value = 1};
  EXPECT_EQ(holds->on_fence_done(done), nullptr);
  EXPECT_EQ(holds->on_fence_done(done), &connection);
  EXPECT_EQ(stats.connections_held, 1u);
  EXPECT_EQ(holds->on_fence_done(done), nullptr) << "it waits for nothing more";
}

TEST_F(CallHoldsAlone, AnswersAnotherCoreWhenTheClientsCallsHereHaveBeenAnswered) {
  make(3);
  const CoreMessage fence{.kind = CoreMessage::Kind::kFence, .index = 0, .link = link_id(1, 2, 0, 0), .client = kCarol};
  const auto expect_done = [&](uint32_t waited) {
    const auto done = mail();
    ASSERT_TRUE(done.has_value());
    EXPECT_EQ(done->to, 2u) << "the core of its link";
    EXPECT_EQ(done->message.kind, CoreMessage::Kind::kFenceDone);
    EXPECT_EQ(done->message.link, fence.link);
    EXPECT_EQ(done->message.value, waited);
  };
  holds->answer_fence(fence);
  expect_done(0);
  Connection& connection = connect();
  holds->answer_fence(fence);
  expect_done(0);
  const uint32_t call = guard.begin(*connection.first.client);
  holds->answer_fence(fence);
  EXPECT_FALSE(mail().has_value());
  guard.end(*connection.first.client, call);
  EXPECT_EQ(holds->next_released(), nullptr) << "none of this core's";
  expect_done(1);
}

class AdmissionAlone : public ::testing::Test {
 protected:
  AdmissionAlone() {
    options.listeners.resize(2);
    options.connections_max = 3;
    options.clients = {{.name = "carols", .prefixes = {{.address = kCarol, .length_bits = 32}}, .connections_max = 1}};
  }
  void make() { admission.emplace(options, stats); }
  static void set(Connection& connection, uint32_t listener, std::optional<uint32_t> client_class) {
    connection.listener_index = listener;
    connection.client_class = client_class;
  }

  GatewayOptions options;
  GatewayStats stats;
  std::optional<Admission> admission;
  Connection connections[4];
};

TEST_F(AdmissionAlone, ARequestTakesNothingAndAConnectionOnePlaceOfEachKind) {
  options.listeners[1].connections_max = 1;
  make();
  EXPECT_EQ(admission->class_of(kCarol), 0u);
  EXPECT_EQ(admission->class_of(kDave), std::nullopt);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(admission->lack_of_place(1, 0, nullptr), std::nullopt);
  }
  set(connections[0], 1, 0);
  EXPECT_EQ(admission->take_place(connections[0]), std::nullopt);
  EXPECT_TRUE(connections[0].has_place);
  EXPECT_EQ(stats.connections_open, 1u);
  EXPECT_EQ(stats.clients[0].connections, 1u);
  EXPECT_EQ(admission->lack_of_place(1, std::nullopt, nullptr), ConnectionResult::kRefusedLimit) << "of the listener";
  EXPECT_EQ(admission->lack_of_place(0, 0, nullptr), ConnectionResult::kRefusedClientLimit);
  EXPECT_EQ(admission->lack_of_place(0, std::nullopt, nullptr), std::nullopt);
  admission->give_place_back(connections[0]);
  EXPECT_EQ(admission->lack_of_place(1, 0, nullptr), std::nullopt);
  EXPECT_EQ(stats.connections_open, 0u);
  EXPECT_EQ(stats.clients[0].connections, 0u);
}

TEST_F(AdmissionAlone, WhomItsClassRefusesTakesNoPlaceOfTheListener) {
  options.connections_max = 2;
  make();
  for (Connection& connection : connections) {
    set(connection, 0, 0);
  }
  EXPECT_EQ(admission->take_place(connections[0]), std::nullopt);
  EXPECT_EQ(admission->take_place(connections[1]), ConnectionResult::kRefusedClientLimit);
  EXPECT_FALSE(connections[1].has_place);
  set(connections[2], 0, std::nullopt);
  EXPECT_EQ(admission->take_place(connections[2]), std::nullopt) << "the second place is left";
  set(connections[3], 0, std::nullopt);
  EXPECT_EQ(admission->take_place(connections[3]), ConnectionResult::kRefusedLimit);
  EXPECT_EQ(stats.connections_open, 2u);
}

TEST_F(AdmissionAlone, ARivalsPlaceCountsAsFreeIfItHasOne) {
  options.connections_max = 1;
  make();
  set(connections[0], 0, 0);
  ASSERT_EQ(admission->take_place(connections[0]), std::nullopt);
  set(connections[1], 0, 0);
  EXPECT_EQ(admission->lack_of_place(0, 0, nullptr), ConnectionResult::kRefusedLimit);
  EXPECT_EQ(admission->lack_of_place(0, 0, &connections[0]), std::nullopt);
  EXPECT_EQ(admission->lack_of_place(0, 0, &connections[1]), ConnectionResult::kRefusedLimit) << "it is half open";
}

TEST_F(AdmissionAlone, ARivalOfAnotherClassLeavesNoPlaceInThisOne) {
  options.clients.push_back({.name = "daves", .prefixes = {{.address = kDave, .length_bits = 32}}});
  make();
  set(connections[0], 0, 0);
  set(connections[1], 0, 1);
  ASSERT_EQ(admission->take_place(connections[0]), std::nullopt);
  ASSERT_EQ(admission->take_place(connections[1]), std::nullopt);
  EXPECT_EQ(admission->lack_of_place(0, 0, &connections[1]), ConnectionResult::kRefusedClientLimit);
  EXPECT_EQ(admission->lack_of_place(0, 0, &connections[0]), std::nullopt);
}

TEST_F(AdmissionAlone, CoresThatShareAQuotaNeverHaveMoreThanItAllows) {
  const uint32_t per_listener[] = {1, 8};
  LocalQuota quota(8, per_listener);
  options.quota = &quota;
  make();
  GatewayStats other_stats;
  Admission other(options, other_stats);
  EXPECT_EQ(admission->lack_of_place(0, std::nullopt, nullptr), std::nullopt);
  ASSERT_EQ(other.take_place(connections[0]), std::nullopt);
  EXPECT_EQ(admission->take_place(connections[1]), ConnectionResult::kRefusedLimit) << "it was free when it asked";
  other.give_place_back(connections[0]);
  EXPECT_EQ(admission->take_place(connections[1]), std::nullopt);
}

TEST_F(AdmissionAlone, RefusalsCountWithTheClassThatRefuses) {
  make();
  admission->count_refusal(ConnectionResult::kRefusedClientDenied, 0);
  admission->count_refusal(ConnectionResult::kRefusedClientLimit, 0);
  admission->count_refusal(ConnectionResult::kRefusedClientLimit, 0);
  admission->count_refusal(ConnectionResult::kRefusedLimit, 0);
  admission->count_refusal(ConnectionResult::kRefusedLimit, std::nullopt);
  EXPECT_EQ(stats.clients[0].refused_denied, 1u);
  EXPECT_EQ(stats.clients[0].refused_limit, 2u);
}

TEST_F(AdmissionAlone, AClassThatIsRemovedKeepsItsBudgetForThoseWhoAreInIt) {
  options.clients[0].bytes_in_flight_max = 1000;
  make();
  set(connections[0], 0, 0);
  ASSERT_EQ(admission->take_place(connections[0]), std::nullopt);
  std::vector<ClientClassOptions> fresh = {
      {}, {.name = "all", .prefixes = {*control::parse_prefix("0.0.0.0/0")}, .bytes_in_flight_max = 50}};
  admission->reconfigure(fresh, options.listeners);
  EXPECT_EQ(admission->class_of(kCarol), 1u);
  EXPECT_EQ(admission->budget(0).bytes_max, 1000u);
  EXPECT_EQ(admission->budget(1).bytes_max, 50u);
  admission->budget(0).bytes_in_use = 900;
  admission->fold_budgets();
  EXPECT_EQ(stats.clients[0].bytes_in_flight, 900u);
  EXPECT_EQ(stats.clients[0].connections, 1u);
  admission->give_place_back(connections[0]);
  EXPECT_EQ(stats.clients[0].connections, 0u);
}

TEST_F(AdmissionAlone, FewerPlacesThanAreTakenRefuseUntilSoManyHaveEnded) {
  options.clients.clear();
  make();
  ASSERT_EQ(admission->take_place(connections[0]), std::nullopt);
  ASSERT_EQ(admission->take_place(connections[1]), std::nullopt);
  options.listeners[0].connections_max = 1;
  std::vector<ClientClassOptions> none;
  admission->reconfigure(none, options.listeners);
  EXPECT_EQ(admission->take_place(connections[2]), ConnectionResult::kRefusedLimit);
  admission->give_place_back(connections[0]);
  EXPECT_EQ(admission->take_place(connections[2]), ConnectionResult::kRefusedLimit);
  admission->give_place_back(connections[1]);
  EXPECT_EQ(admission->take_place(connections[2]), std::nullopt);
}

// With one connection, whose endpoint takes calls and whose queue pair acknowledges when the test says so.
class DrainAlone : public ::testing::Test {
 protected:
  void SetUp() override {
    rpcrdma::ServerOptions options;
    options.credits = 8;
    connection.qp = &qp;
    connection.server.emplace(shared, qp, options, rpcrdma::InlineThresholds());
    connection.server->start();
    stats.connections_open = 1;
  }
  void TearDown() override {
    connection.server.reset();
    table.free(connection);
  }
  void receive(uint32_t xid) {
    ASSERT_TRUE(qp.deliver(rpcrdma::chain_of(packets, rpcrdma::inline_call(xid, rpcrdma::rpc_call(xid)).bytes())));
    connection.server->on_completions(now);
  }
  rpcrdma::CallId take() {
    rpcrdma::Call call;
    EXPECT_TRUE(connection.server->poll_call(now, call));
    return call.id;
  }
  void go_on() {
    now = now + Duration::us(1);
    drain.go_on(now, connection);
  }
  // When it is looked at next.
  Duration looks_again() { return connection.deadline() - now; }
  void expect_drained() {
    ASSERT_TRUE(table.has_endings());
    const Ending ending = table.take_ending();
    EXPECT_EQ(ending.connection, &connection);
    EXPECT_EQ(ending.result, ConnectionResult::kDrained);
    EXPECT_FALSE(ending.peer_ended);
  }

  HeapBufferPool packets{64, 1024, 16};
  rpcrdma::ServerShared shared{8, packets};
  test::FakeQueuePair qp;
  GatewayStats stats;
  ConnectionTable table{1, {}};
  Connection& connection = table.create();
  Drain drain{table, stats};
  Instant now = kStart;
};

TEST_F(DrainAlone, IsOnBetweenItsBeginningAndItsEnd) {
  EXPECT_FALSE(drain.is_on());
  drain.begin();
  EXPECT_TRUE(drain.is_on());
  drain.end();
  EXPECT_FALSE(drain.is_on());
}

TEST_F(DrainAlone, WhoOwesNothingEndsAtOnce) {
  drain.begin();
  go_on();
  expect_drained();
}

TEST_F(DrainAlone, ACallThatWasNotTakenIsLeftToTheClient) {
  receive(1);
  drain.begin();
  go_on();
  expect_drained();
}

TEST_F(DrainAlone, ACallThatWasTakenIsAnsweredAndTheAnswerAcknowledgedFirst) {
  receive(1);
  const rpcrdma::CallId call = take();
  drain.begin();
  go_on();
  EXPECT_FALSE(table.has_endings());
  EXPECT_EQ(looks_again(), Duration::ms(5));
  connection.server->reply(now, call, rpcrdma::chain_of(packets, rpcrdma::rpc_reply(1).bytes()));
  ASSERT_EQ(qp.works_pending(), 1u);
  go_on();
  EXPECT_FALSE(table.has_endings()) << "an answer that is lost would have the client repeat the call";
  EXPECT_EQ(looks_again(), Duration::us(50)) << "sooner, since nothing else is awaited";
  qp.finish();
  connection.server->on_completions(now);
  go_on();
  expect_drained();
}

TEST_F(DrainAlone, TheMoreConnectionsTheSeldomerItLooksForAnAcknowledgement) {
  receive(1);
  connection.server->reply(now, take(), rpcrdma::chain_of(packets, rpcrdma::rpc_reply(1).bytes()));
  drain.begin();
  // From many to few: a timer moves only to the front.
  stats.connections_open = 1'000'000;
  go_on();
  EXPECT_EQ(looks_again(), Duration::ms(5)) << "and no seldomer";
  stats.connections_open = 4000;
  go_on();
  EXPECT_EQ(looks_again(), Duration::ms(2));
  EXPECT_FALSE(table.has_endings());
}

}  // namespace
}  // namespace cw::gateway
