// A backend with several servers: which one connections go to, as checks say that servers go down and come back.
#include "control/service/server_health.h"
#include "gateway/server_choice.h"
#include "tests/unit/gateway/gateway_on_fake.h"

namespace cw::sim {
namespace {

using control::ServerHealth;
using control::ServerState;
using gateway::BackendEvent;
using gateway::ConnectionResult;
using gateway::kAlice;
using gateway::kBob;
using gateway::ServerChoice;
using verbs::ConnectionId;
using verbs::RejectReason;

// A check that takes 100 ms, when the next is due.
bool check(ServerHealth& health, bool success) {
  const Instant begin = health.next_deadline();
  health.begin(begin);
  EXPECT_EQ(health.next_deadline(), Instant::never()) << "one at a time";
  return health.on_result(begin + Duration::ms(100), success);
}

TEST(ServerHealth, TheFirstCheckDecides) {
  for (const bool success : {true, false}) {
    ServerHealth health({}, Instant::from_ns(5));
    EXPECT_EQ(health.state(), ServerState::kUnknown);
    EXPECT_TRUE(check(health, success));
    EXPECT_EQ(health.state(), success ? ServerState::kUp : ServerState::kDown);
  }
}

TEST(ServerHealth, FallsAndRisesAfterSoManyInARow) {
  ServerHealth health({.interval = Duration::seconds(2), .fall = 3, .rise = 2}, Instant::from_ns(0));
  EXPECT_TRUE(check(health, true));
  EXPECT_FALSE(check(health, false));
  EXPECT_FALSE(check(health, false));
  EXPECT_FALSE(check(health, true)) << "two are not three, and it starts anew";
  EXPECT_FALSE(check(health, false));
  EXPECT_FALSE(check(health, false));
  EXPECT_EQ(health.state(), ServerState::kUp);
  EXPECT_TRUE(check(health, false));
  EXPECT_EQ(health.state(), ServerState::kDown);
  EXPECT_FALSE(check(health, true));
  EXPECT_FALSE(check(health, false));
  EXPECT_FALSE(check(health, true));
  EXPECT_TRUE(check(health, true));
  EXPECT_EQ(health.state(), ServerState::kUp);
  EXPECT_EQ(health.checks(), 11u);
  EXPECT_EQ(health.failures(), 6u);
}

TEST(ServerHealth, ChecksBeginAtTheIntervalOrAtOnceAfterOneThatTookLonger) {
  ServerHealth health({.interval = Duration::seconds(2)}, Instant::from_ns(0));
  health.begin(Instant::from_ns(0));
  (void)health.on_result(Instant::from_ns(0) + Duration::ms(300), true);
  EXPECT_EQ(health.next_deadline(), Instant::from_ns(0) + Duration::seconds(2));
  health.begin(health.next_deadline());
  (void)health.on_result(Instant::from_ns(0) + Duration::seconds(7), false);
  EXPECT_EQ(health.next_deadline(), Instant::from_ns(0) + Duration::seconds(7));
}

TEST(ServerHealth, OtherParametersCountFromTheNextCheckOn) {
  ServerHealth health({.interval = Duration::seconds(60), .fall = 9, .rise = 2}, Instant::from_ns(0));
  EXPECT_TRUE(check(health, true));
  EXPECT_FALSE(check(health, false));
  health.reconfigure({.interval = Duration::seconds(2), .fall = 2, .rise = 1});
  EXPECT_EQ(health.next_deadline(), Instant::from_ns(0) + Duration::seconds(62)) << "the last began after a minute";
  EXPECT_TRUE(check(health, false)) << "the second in a row";
  EXPECT_TRUE(check(health, true));
  health.begin(health.next_deadline());
  health.reconfigure({.interval = Duration::seconds(1)});
  EXPECT_EQ(health.next_deadline(), Instant::never()) << "one is under way";
}

TEST(ServerChoice, IsTheFirstThatIsNotDown) {
  ServerChoice servers({0, 1, 2});
  EXPECT_EQ(servers.pick(), 0u);
  EXPECT_FALSE(servers.any_up());
  servers.set(0, ServerState::kDown);
  EXPECT_EQ(servers.pick(), 1u) << "not checked yet is not down";
  servers.set(1, ServerState::kDown);
  servers.set(2, ServerState::kUp);
  EXPECT_EQ(servers.pick(), 2u);
  servers.set(2, ServerState::kDown);
  EXPECT_EQ(servers.pick(), 0u) << "all are down: the first is tried";
  EXPECT_FALSE(servers.any_up());
  servers.set(1, ServerState::kUp);
  servers.set(7, ServerState::kUp);
  EXPECT_EQ(servers.pick(), 1u);
  servers.set(0, ServerState::kUp);
  EXPECT_EQ(servers.pick(), 0u) << "the preferred one is back";
}

class FailOver : public gateway::GatewayOnAFakeTransport {
 protected:
  FailOver() {
    options.backends[0].servers = {0, 1};
    options.backends[0].checked = true;
  }
  // A connection whose backend connection could not be made.
  void come_in_vain(const IpAddress& peer, uint32_t server) {
    const ConnectionId id = ask(peer);
    ASSERT_EQ(transport.at(id).rejected, std::nullopt);
    confirm(id);
    worker_says(expect_opening(0, server), BackendEvent::Kind::kFailed);
    EXPECT_EQ(transport.at(id).disconnects, 1u);
  }
};

TEST_F(FailOver, ClientsOfADeadServerLandOnTheNextAndNothingIsLost) {
  start();
  check_says(0, ServerState::kUp);
  check_says(1, ServerState::kUp);
  const Opened first = open_at(kAlice, 0, 0);
  EXPECT_EQ(backend_stats(0).server_links[0], 1u);
  call(first.id, 1);
  expect_forwarded(first.link, 1);

  // The server dies. Until its checks have said so the client's connections end at once, and it comes again.
  worker_says(first.link, BackendEvent::Kind::kClosed);
  expect_disconnected(first.id, ConnectionResult::kFailedBackend);
  come_in_vain(kAlice, 0);
  EXPECT_EQ(backend_stats(0).server_links[0], 0u);
  EXPECT_EQ(backend_stats(0).open_failures, 1u);
  EXPECT_EQ(backend_stats(0).up, 1u) << "for the checks to say, not for a client";

  check_says(0, ServerState::kDown);
  const Opened second = open_at(kAlice, 0, 1);
  EXPECT_EQ(the_connection().server, 1u);
  expect_served(second, 1);
  EXPECT_EQ(backend_stats(0).server_links[0], 0u);
  EXPECT_EQ(backend_stats(0).server_links[1], 1u);
  EXPECT_EQ(backend_stats(0).up, 1u);

  // It is back: who is on the other stays there, who comes goes to it.
  check_says(0, ServerState::kUp);
  EXPECT_EQ(gateway->preferred_server(0), 0u);
  expect_served(second, 2);
  EXPECT_EQ(backend_stats(0).server_links[1], 1u);
  worker_says(second.link, BackendEvent::Kind::kClosed);
  const Opened third = open_at(kAlice, 0, 0);
  expect_served(third, 3);
  EXPECT_EQ(backend_stats(0).server_links[0], 1u);
  EXPECT_EQ(backend_stats(0).server_links[1], 0u);
  leave(third);
  EXPECT_EQ(backend_stats(0).server_links[0], 0u);
}

TEST_F(FailOver, WhileAServerIsUpByItsChecksAFailedConnectionRejectsNobody) {
  start();
  check_says(0, ServerState::kUp);
  for (int i = 0; i < 3; ++i) {
    come_in_vain(kAlice, 0);
  }
  EXPECT_EQ(backend_stats(0).open_failures, 3u);

  check_says(0, ServerState::kDown);
  EXPECT_EQ(transport.at(ask(kBob)).rejected, RejectReason::kRefused);
  EXPECT_EQ(ended(ConnectionResult::kRefusedBackend), 4u);
  expect_no_request();
}

// Whoever comes first when the second is over tries.
TEST_F(FailOver, WithoutASingleServerOneClientTriesInASecond) {
  start();
  check_says(0, ServerState::kDown);
  uint32_t refused = 0;
  for (int i = 0; i < 30; ++i) {
    turn(Duration::ms(100));
    const ConnectionId id = ask(kAlice);
    refused += transport.at(id).rejected == RejectReason::kRefused ? 1 : 0;
    if (!transport.at(id).rejected) {
      confirm(id);
      worker_says(expect_opening(0, 1), BackendEvent::Kind::kFailed);  // nothing is known of server 1
    }
  }
  EXPECT_EQ(backend_stats(0).open_failures, 3u);
  EXPECT_EQ(refused, 27u);
}

TEST_F(FailOver, WithoutASingleServerTheBackendIsDownAndTheFirstIsTriedAllTheSame) {
  start();
  EXPECT_FALSE(backend_stats(0).is_judged());
  check_says(0, ServerState::kDown);
  check_says(1, ServerState::kDown);
  EXPECT_EQ(backend_stats(0).up, 0u);
  EXPECT_TRUE(backend_stats(0).is_judged());
  expect_refused(ask(kAlice), RejectReason::kRefused, ConnectionResult::kRefusedBackend);
  turn(Duration::seconds(1));
  const Opened opened = open_at(kAlice, 0, 0);
  expect_served(opened, 1);
  EXPECT_EQ(backend_stats(0).up, 0u) << "for the checks to say, not for a client";
}

}  // namespace
}  // namespace cw::sim
