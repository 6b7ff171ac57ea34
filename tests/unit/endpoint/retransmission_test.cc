// Calls that lost their connection and go out again on the next one (RFC 8166 4.5.5, RFC 8167 5.4): which XID they have, what is
// posted before them, and that new calls keep out of their way. Also what a call costs that nobody waits for any more.
#include <algorithm>
#include <set>

#include "tests/unit/endpoint/client_fixture.h"
#include "tests/unit/endpoint/server_fixture.h"

namespace cw::rpcrdma {
namespace {

constexpr uint32_t kCalls = 5;
constexpr uint32_t kReverse = 3;

class Retransmission : public ClientFixture {
 protected:
  void SetUp() override {
    options.credits_wanted = kCalls;
    options.reverse_credits = kReverse;
    make();
  }
  // A connection of the same client whose fresh XIDs begin elsewhere.
  void reconnect(uint32_t first_xid) {
    client.reset();
    qp = std::make_unique<test::FakeQueuePair>();
    client = std::make_unique<ClientEndpoint>(*qp, *memory, kDomain, pool, options, thresholds, first_xid, stats);
    client->start();
  }
  void arrive(const Words& words) {
    ASSERT_TRUE(qp->deliver(chain_of(pool, words.bytes(), 64)));
    client->on_completions(now);
  }
  void open() {
    arrive(inline_reply(submit()[0], kCalls));
    ASSERT_EQ(outcome(), CallStatus::kReplied);
  }
  ClientCall numbered(uint32_t number) {
    return {.user_data = number, .message = chain_of(pool, rpc_call(0).add({number}).bytes())};
  }
  std::vector<uint32_t> sent() {
    const std::vector<uint32_t> words = words_of(qp->posted().back().payload);
    qp->finish_all_sends();
    client->on_completions(now);
    return words;
  }
  // Every call in flight ends as lost; gives their XIDs by user data.
  std::vector<uint32_t> lose() {
    qp->break_with(verbs::WcStatus::kRetryExceeded);
    client->on_completions(now);
    std::vector<uint32_t> xids(kCalls);
    while (client->poll_reply(reply)) {
      EXPECT_EQ(reply.status, CallStatus::kConnectionLost);
      xids[reply.user_data] = reply.xid;
    }
    return xids;
  }
};

// Proves BIDI-5.4-1, BIDI-4.3.1-5: five calls are lost; on the next connection the receives for their replies and for the
// server's calls are there before the first of them leaves, and each goes out byte for byte as before.
TEST_F(Retransmission, LostCallsGoOutAgainUnderTheirXids) {
  open();
  std::vector<std::vector<uint32_t>> lost;
  for (uint32_t i = 0; i < kCalls; ++i) {
    ASSERT_TRUE(client->submit(now, numbered(i)).ok());
    lost.push_back(sent());
    EXPECT_EQ(client->last_xid(), lost.back()[0]);
  }
  const std::vector<uint32_t> xids = lose();
  reconnect(0x1234'5678);
  EXPECT_EQ(qp->receives(), kCalls + kReverse);
  for (uint32_t i = 0; i < kCalls; ++i) {
    ClientCall again = numbered(i);
    again.resent_xid = xids[i];
    ASSERT_TRUE(client->submit(now, std::move(again)).ok());
    EXPECT_GE(qp->posted().back().receives, kCalls + kReverse - i) << "posted before the SEND";
    EXPECT_EQ(sent(), lost[i]);
    if (i == 0) {  // one credit until the first reply, like any call
      EXPECT_EQ(client->submit(now, numbered(9)).error(), Error::kNoResources);
      arrive(inline_reply(xids[0], kCalls));
      EXPECT_EQ(outcome(), CallStatus::kReplied);
      EXPECT_EQ(reply.xid, xids[0]);
    }
  }
  // Their replies find them in any order.
  for (uint32_t i = kCalls - 1; i > 0; --i) {
    arrive(inline_reply(xids[i], kCalls));
    EXPECT_EQ(outcome(), CallStatus::kReplied);
    EXPECT_EQ(reply.user_data, i);
  }
  EXPECT_EQ(client->calls_in_flight(), 0u);
}

// Keys belong to a connection: the repetition shows its memory anew.
TEST_F(Retransmission, MemoryIsRegisteredAnewForARepetition) {
  std::vector<uint8_t> sink(100);
  const MutableBytes write(sink);
  const std::vector<uint32_t> before = submit({.message = echo_call(), .writes = {&write, 1}});
  (void)lose();
  EXPECT_EQ(memory->region_count(), 0u);
  reconnect(7);
  const std::vector<uint32_t> again = submit({.message = echo_call(), .writes = {&write, 1}, .resent_xid = before[0]});
  EXPECT_EQ(again[0], before[0]);
  EXPECT_EQ(again[8], 100u);
  EXPECT_NE(again[7], before[7]) << "another key";
  arrive(Words({again[0], 1, 8, 0, 0, 1, 1})
             .segment(again[7], 0, (uint64_t{again[9]} << 32) | again[10])
             .add({0, 0})
             .raw(rpc_reply(again[0]).add({0}).bytes()));
  EXPECT_EQ(outcome(), CallStatus::kReplied);
}

// Proves BIDI-2.4-2: whatever XIDs are brought along, and while fresh ones wrap around, no two calls in flight have the same.
TEST_F(Retransmission, NoTwoCallsInFlightShareAnXid) {
  options.credits_wanted = 8;
  make();
  arrive(inline_reply(submit()[0], 8));
  ASSERT_EQ(outcome(), CallStatus::kReplied);
  std::vector<uint32_t> in_flight;
  uint32_t fresh = client->last_xid();
  uint32_t refused = 0;
  std::set<uint32_t> seen;
  for (uint32_t round = 0; round < 70'000; ++round) {
    if (in_flight.size() == 8 || (!in_flight.empty() && random.next_below(2) == 0)) {
      const size_t which = random.next_below(static_cast<uint32_t>(in_flight.size()));
      arrive(inline_reply(in_flight[which], 8));
      ASSERT_EQ(outcome(), CallStatus::kReplied);
      ASSERT_EQ(reply.xid, in_flight[which]);
      in_flight.erase(in_flight.begin() + static_cast<ptrdiff_t>(which));
      continue;
    }
    ClientCall call = numbered(round);
    if (random.next_below(3) == 0) {
      call.resent_xid = fresh + random.next_below(48);  // where the next fresh ones will be
    }
    const bool repeated = call.resent_xid.has_value();
    const bool taken = repeated && std::find(in_flight.begin(), in_flight.end(), *call.resent_xid) != in_flight.end();
    const Status status = client->submit(now, std::move(call));
    ASSERT_EQ(status.ok(), !taken);
    if (taken) {
      ++refused;
      continue;
    }
    qp->finish_all_sends();
    client->on_completions(now);
    const uint32_t xid = client->last_xid();
    ASSERT_EQ(std::find(in_flight.begin(), in_flight.end(), xid), in_flight.end()) << round;
    in_flight.push_back(xid);
    fresh = repeated ? fresh : xid;
    seen.insert(xid);
  }
  EXPECT_GT(refused, 100u);
  EXPECT_GT(*seen.rbegin(), 0xffff'fff0u);
  EXPECT_LT(*seen.begin(), 1000u) << "past the wrap at 2^32";
}

// RFC 8166 3.3.1: a call that nobody waits for keeps its credit until the server has answered it, in whatever way.
TEST_F(Retransmission, EveryLateAnswerGivesTheCreditOfAGivenUpCallBack) {
  std::vector<uint8_t> sink(100);
  const MutableBytes write(sink);
  for (const uint32_t answer : {0u, 1u, 2u}) {
    options.credits_wanted = 2;
    make();
    arrive(inline_reply(submit()[0], 2));
    EXPECT_EQ(outcome(), CallStatus::kReplied);
    const uint32_t xid = submit({.message = echo_call(), .writes = {&write, 1}})[0];
    const uint32_t other = submit()[0];
    now = now + options.call_timeout;
    client->on_deadline(now);
    EXPECT_EQ(outcome(), CallStatus::kTimeout);
    EXPECT_EQ(outcome(), CallStatus::kTimeout);
    EXPECT_EQ(memory->region_count(), 0u) << "shut off at once";
    EXPECT_EQ(client->calls_allowed(), 0u);
    EXPECT_EQ(client->calls_in_flight(), 2u);
    // A lower grant while they are outstanding: one of them in flight is all of it.
    const Words answers[] = {inline_reply(xid, 1), Words{xid, 1, 1, 4, 2}, Words{xid, 1, 1, 4, 1, 1, 1}};
    arrive(answers[answer]);
    EXPECT_EQ(outcome(), std::nullopt) << "one outcome per call";
    EXPECT_EQ(client->calls_in_flight(), 1u);
    EXPECT_EQ(client->credits(), 1u);
    EXPECT_EQ(client->calls_allowed(), 0u);
    arrive(inline_reply(other, 2));
    EXPECT_EQ(client->calls_allowed(), 2u);
    EXPECT_EQ(client->calls_in_flight(), 0u);
    // Neither XID is known any more.
    const uint64_t unknown = stats.unknown_xid;
    arrive(inline_reply(xid, 9));
    EXPECT_EQ(stats.unknown_xid, unknown + 1);
    EXPECT_EQ(client->credits(), 2u);
  }
}

// RFC 8166 3.3.1: calls outstanding beyond a lowered grant stay, and no new one leaves until there are fewer.
TEST_F(Retransmission, ALoweredGrantWaitsForTheCallsThatAreOutstanding) {
  open();
  std::vector<uint32_t> xids;
  for (uint32_t i = 0; i < kCalls; ++i) {
    xids.push_back(submit()[0]);
  }
  for (uint32_t answered = 1; answered <= kCalls; ++answered) {
    arrive(inline_reply(xids[answered - 1], 2));
    EXPECT_EQ(outcome(), CallStatus::kReplied);
    const uint32_t outstanding = kCalls - answered;
    EXPECT_EQ(client->calls_allowed(), outstanding >= 2 ? 0u : 2 - outstanding);
  }
}

class ReverseRetransmission : public ServerFixture {
 protected:
  void SetUp() override {
    options.credits = 8;
    options.reverse_credits = 4;
    make();
    server->enable_reverse();
  }
  std::vector<uint32_t> call(uint32_t xid) {
    EXPECT_TRUE(server->submit_reverse(now, chain_of(*pool, rpc_call(xid).bytes(), 2048)).ok());
    if (qp->posted().empty()) {
      return {};
    }
    EXPECT_EQ(qp->posted().back().receives, options.credits + server->reverse_in_flight()) << "before the SEND";
    return sent();
  }
};

// Proves BIDI-4.3.2-4, BIDI-5.4-1: after the client's return the receives for its calls are there first, and one more before
// each repeated reverse call leaves, byte for byte as before.
TEST_F(ReverseRetransmission, AfterTheClientsReturnTheSameCallsGoOutAgain) {
  std::vector<std::vector<uint32_t>> first;
  first.push_back(call(0x77));
  send(Words{0x77, 1, 4, 0, 0, 0, 0}.raw(rpc_reply(0x77).bytes()));
  first.clear();
  for (uint32_t xid = 1; xid <= 4; ++xid) {
    first.push_back(call(xid));
  }
  qp->break_with(verbs::WcStatus::kRetryExceeded);
  server->on_completions(now);
  EXPECT_TRUE(server->failed());
  make();  // the client's new connection
  EXPECT_EQ(qp->receives(), options.credits);
  EXPECT_EQ(server->submit_reverse(now, chain_of(*pool, rpc_call(1).bytes())).error(), Error::kBadState) << "not asked for yet";
  server->enable_reverse();
  EXPECT_EQ(call(1), first[0]);
  EXPECT_TRUE(call(2).empty()) << "one until the first reply";
  send(Words{1, 1, 4, 0, 0, 0, 0}.raw(rpc_reply(1).bytes()));
  EXPECT_EQ(sent(), first[1]);
  for (uint32_t xid = 3; xid <= 4; ++xid) {
    EXPECT_EQ(call(xid), first[xid - 1]);
  }
  EXPECT_EQ(qp->receives(), options.credits + 3);
}

}  // namespace
}  // namespace cw::rpcrdma
