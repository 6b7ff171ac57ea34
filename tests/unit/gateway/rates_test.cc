// Rates of listeners and sections before a backend that answers each call after a while: who goes, and when.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "tests/unit/gateway/gateway_on_fake.h"

namespace cw::gateway {
namespace {

constexpr Duration kTick = Duration::us(5);
constexpr Duration kAnswerTime = Duration::ms(1);  // of the backend

class Rates : public GatewayOnAFakeTransport {
 protected:
  // A connection with calls to make.
  struct Caller {
    Opened opened;
    uint32_t window = 0;  // calls that it always has under way; 0: one each `pause`
    Duration pause;
    uint32_t calls = 0;  // sent
    uint32_t answered = 0;
    Instant next;  // with a pause
    std::deque<Instant> sent{};
    std::vector<Duration> times{};
  };
  struct Answer {
    Instant due;
    LinkId link;
    uint32_t xid = 0;
  };

  Rates() {
    options.connections_max = 16;
    options.half_open_max = 16;
    options.calls_in_flight_max = 256;
    options.clients = {{.name = "alice", .prefixes = {{.address = kAlice, .length_bits = 32}}},
                       {.name = "bob", .prefixes = {{.address = kBob, .length_bits = 32}}}};
  }
  Caller& add(const IpAddress& peer, uint32_t window, Duration pause = Duration()) {
    return callers.emplace_back(Caller{.opened = open(peer), .window = window, .pause = pause, .next = now});
  }
  void send(Caller& caller) {
    const uint32_t xid = ++caller.calls;
    const rpcrdma::Words message = rpcrdma::inline_call(xid, rpcrdma::rpc_call(xid));
    ASSERT_TRUE(transport.peer_sends(caller.opened.id, rpcrdma::chain_of(packets, message.bytes())));
    caller.sent.push_back(now);
  }
  void step() {
    now = now + kTick;
    for (Caller& caller : callers) {
      while (caller.calls - caller.answered < caller.window) {
        send(caller);
      }
      if (caller.window == 0 && caller.next <= now) {
        caller.next = caller.next + caller.pause;
        send(caller);
      }
    }
    gateway->run(now);
    while (const std::optional<BackendRequest> next = request()) {
      ASSERT_EQ(next->kind, BackendRequest::Kind::kSend);
      ++forwarded;
      answers.push_back({now + kAnswerTime, next->link, rpcrdma::words_of(next->message).front()});
    }
    while (!answers.empty() && answers.front().due <= now) {
      BackendEvent event;
      event.kind = BackendEvent::Kind::kMessage;
      event.link = answers.front().link;
      event.message = rpcrdma::chain_of(packets, rpcrdma::rpc_reply(answers.front().xid).bytes());
      answers.pop_front();
      gateway->on_backend_event(now, std::move(event));
    }
    for (Caller& caller : callers) {
      const auto replies = static_cast<uint32_t>(transport.qp(caller.opened.id).posted().size());
      if (replies == 0) {
        continue;
      }
      transport.peer_acknowledges(caller.opened.id);
      caller.answered += replies;
      for (uint32_t i = 0; i < replies; ++i) {
        caller.times.push_back(now - caller.sent.front());
        caller.sent.pop_front();
      }
    }
  }
  void run_for(Duration time) {
    for (const Instant end = now + time; now < end;) {
      step();
    }
  }
  // From here on.
  void forget() {
    for (Caller& caller : callers) {
      caller.times.clear();
    }
    forwarded = 0;
  }
  static Duration p99(std::vector<Duration> times) {
    std::ranges::sort(times);
    return times[times.size() * 99 / 100];
  }
  void reload() {
    GatewayOptions fresh = options;
    ASSERT_TRUE(gateway->reconfigure(fresh));
  }
  // Calls that were answered, of all callers of this peer.
  uint64_t answered(const IpAddress& peer) {
    uint64_t sum = 0;
    for (const Caller& caller : callers) {
      sum += transport.at(caller.opened.id).peer == peer ? caller.times.size() : 0;
    }
    return sum;
  }

  std::deque<Caller> callers;
  std::deque<Answer> answers;
  uint64_t forwarded = 0;
};

TEST_F(Rates, CallsOfAListenerKeepToItsRateWhoeverMakesThem) {
  listener().calls_per_second = 1000;
  start();
  (void)add(kAlice, 4);
  (void)add(kBob, 4);
  (void)add(IpAddress::v4(0x0a00'0003), 4);  // of no section
  run_for(Duration::ms(50));
  forget();
  run_for(Duration::ms(400));
  EXPECT_NEAR(static_cast<double>(forwarded), 400, 4);
  EXPECT_GT(gateway->stats().listeners[0].calls_postponed, 400u);
  EXPECT_GT(gateway->stats().clients[0].calls_postponed, 100u);
  EXPECT_EQ(gateway->stats().listeners[0].use.calls, gateway->stats().backends[0].calls);
}

// A call and its reply are 40 and 24 bytes: of the messages, without what is around them.
TEST_F(Rates, BytesOfAListenerKeepToItsRate) {
  listener().bytes_per_second = 64'000;
  start();
  (void)add(kAlice, 4);
  (void)add(kBob, 4);
  run_for(Duration::ms(100));
  const ClientUse before = gateway->stats().listeners[0].use;
  run_for(Duration::ms(1000));
  const ClientUse& use = gateway->stats().listeners[0].use;
  EXPECT_NEAR(static_cast<double>(use.call_bytes + use.reply_bytes - before.call_bytes - before.reply_bytes), 64'000, 2000);
}

TEST_F(Rates, AReloadChangesTheRateOfAListener) {
  listener().calls_per_second = 1;
  start();
  (void)add(kAlice, 4);
  run_for(Duration::ms(100));
  forget();
  run_for(Duration::ms(100));
  EXPECT_EQ(forwarded, 0u);
  listener().calls_per_second = 2000;
  reload();
  run_for(Duration::ms(100));
  EXPECT_NEAR(static_cast<double>(forwarded), 210, 15);
  forget();
  listener().calls_per_second = 0;
  reload();
  run_for(Duration::ms(100));
  EXPECT_NEAR(static_cast<double>(forwarded), 4 * 100, 20) << "as fast as the backend answers";
}

TEST_F(Rates, AConnectionWithManyCallsTakesNoTurnOfThoseWithAFew) {
  options.clients[0].calls_per_second = 1000;
  start();
  Caller& greedy = add(kAlice, 8);
  Caller& modest = add(kAlice, 2);
  run_for(Duration::ms(100));
  forget();
  run_for(Duration::ms(200));
  EXPECT_NEAR(static_cast<double>(greedy.times.size()), 100, 3);
  EXPECT_NEAR(static_cast<double>(modest.times.size()), 100, 3);
}

TEST_F(Rates, SectionsShareTheRateOfAListenerByTheirWeights) {
  listener().calls_per_second = 4000;
  options.clients[1].weight = 3;
  start();
  for (int i = 0; i < 4; ++i) {
    (void)add(kAlice, 8);
  }
  (void)add(kBob, 8);
  run_for(Duration::ms(50));
  forget();
  run_for(Duration::ms(400));
  EXPECT_NEAR(static_cast<double>(answered(kAlice)), 400, 8);
  EXPECT_NEAR(static_cast<double>(answered(kBob)), 1200, 8);
  options.clients[1].weight = 1;
  reload();
  forget();
  run_for(Duration::ms(400));
  EXPECT_NEAR(static_cast<double>(answered(kBob)), 800, 8);
}

// 500 calls a second beside a section that asks for more than the listener lets through, with four connections of 8 calls each.
// They come at all times between two calls of the neighbour, which are 50 us apart.
TEST_F(Rates, ANeighbourThatAsksForEverythingMovesTheP99OfAnotherSectionByATenthAtMost) {
  listener().calls_per_second = 20'000;
  start();
  Caller& victim = add(kAlice, 0, Duration::us(1995));
  run_for(Duration::ms(400));
  const Duration alone = p99(victim.times);
  for (int i = 0; i < 4; ++i) {
    (void)add(kBob, 8);
  }
  run_for(Duration::ms(20));
  forget();
  run_for(Duration::ms(1000));
  const Duration beside = p99(victim.times);
  EXPECT_NEAR(static_cast<double>(forwarded), 20'000, 300) << "nothing is left over";
  EXPECT_NEAR(static_cast<double>(victim.times.size()), 501, 2);
  EXPECT_GT(beside, alone);
  EXPECT_LE(beside.to_ns(), alone.to_ns() * 11 / 10) << "alone " << alone.to_us() << " us";
}

// The line is told of it, and the rate is not charged for what did not go.
TEST_F(Rates, AConnectionThatEndsWhileItWaitsLeavesTheLine) {
  listener().calls_per_second = 100;
  start();
  Caller& gone = add(kAlice, 8);
  Caller& stays = add(kBob, 1);
  run_for(Duration::ms(100));
  transport.peer_leaves(gone.opened.id);
  callers.pop_front();
  gateway->run(now);
  EXPECT_EQ(transport.held_count(), 1u);
  Caller& left = callers.front();
  ASSERT_EQ(left.opened.id, stays.opened.id);
  left.times.clear();
  for (const Instant end = now + Duration::ms(500); now < end;) {
    now = now + kTick;
    gateway->run(now);
    while (request()) {
    }
  }
}

}  // namespace
}  // namespace cw::gateway
