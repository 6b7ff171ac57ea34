// The express paths of the server side come to the same as the general ones: the same messages, replies and completions through
// two endpoints, of which one takes no express path.
#include <cstring>

#include "rpcrdma/endpoint/call_prediction.h"
#include "tests/unit/endpoint/server_fixture.h"

namespace cw::rpcrdma {
namespace {

constexpr uint32_t kAuthSys = 1;
constexpr uint32_t kRpcsecGss = 6;

// A call with a credential of this flavor and body, and arguments.
Words call_with(uint32_t xid, uint32_t procedure, uint32_t flavor, const Words& body) {
  return Words{xid, 0, 2, kBenchProgram, kBenchVersion, procedure, flavor, static_cast<uint32_t>(body.size())}
      .raw(body.bytes())
      .add({0, 0});
}

RpcCallHeader header_of(const Words& call) {
  const auto reader = [&] { return XdrReader(Bytes(call.bytes())); };
  XdrReader at = reader();
  RpcCallHeader header;
  EXPECT_TRUE(read_rpc_call(at, header).ok());
  return header;
}

TEST(CallPrediction, MatchesWhatDiffersInXidCreditsAndProcedureOnly) {
  const Words call = call_with(kXid, 1, kAuthSys, Words{1, 2, 3, 4, 5}).add({7, 8});
  CallPrediction prediction;
  EXPECT_FALSE(prediction.matches(inline_call(kXid, call).bytes()));
  prediction.learn(inline_call(kXid, call).bytes(), header_of(call));
  const Words message = inline_call(kXid, call);
  const size_t headers = kBareHeaderBytes + header_of(call).header_bytes;
  for (size_t at = 0; at < message.size(); ++at) {
    for (uint32_t bit = 0; bit < 8; ++bit) {
      std::vector<uint8_t> raw = message.bytes();
      raw[at] ^= static_cast<uint8_t>(1u << bit);
      const bool credits = at >= 8 && at < 12;
      const bool procedure = at >= kBareHeaderBytes + 20 && at < kBareHeaderBytes + 24;
      EXPECT_EQ(prediction.matches(raw), credits || procedure || at >= headers) << at << " " << bit;
    }
  }
  for (size_t bytes = 0; bytes < headers; ++bytes) {
    EXPECT_FALSE(prediction.matches(Bytes(message.bytes()).first(bytes))) << bytes;
  }
  const Words other = call_with(77, 3, kAuthSys, Words{1, 2, 3, 4, 5});
  ASSERT_TRUE(prediction.matches(inline_call(77, other).bytes()));
  const RpcCallHeader header = prediction.header_of(inline_call(77, other).bytes());
  const RpcCallHeader read = header_of(other);
  EXPECT_EQ(std::memcmp(&header, &read, sizeof(header)), 0);
}

TEST(CallPrediction, LearnsNeitherRpcsecGssNorWhatIsLongerThanItsMemory) {
  CallPrediction prediction;
  const Words gss = call_with(kXid, 1, kRpcsecGss, Words{1, 0, 5, 1, 4, 9});
  prediction.learn(inline_call(kXid, gss).bytes(), header_of(gss));
  EXPECT_FALSE(prediction.matches(inline_call(kXid, gss).bytes()));
  const Words longer = call_with(kXid, 1, kAuthSys, Words().zeros(300));
  prediction.learn(inline_call(kXid, longer).bytes(), header_of(longer));
  EXPECT_FALSE(prediction.matches(inline_call(kXid, longer).bytes()));
}

// The calls of connections take turns: each is predicted by its own, whatever the others' credentials are, until there are more
// connections than predictions.
class Crowd {
 public:
  explicit Crowd(uint32_t connections) : pool_(512, 1024, 64), shared_(6, pool_) {
    for (uint32_t i = 0; i < connections; ++i) {
      qps_.push_back(std::make_unique<test::FakeQueuePair>());
      ServerOptions options;
      options.credits = 2;
      servers_.push_back(std::make_unique<ServerEndpoint>(shared_, *qps_.back(), options, InlineThresholds{}));
      servers_.back()->start();
    }
  }
  ~Crowd() { servers_.clear(); }

  // A call of each.
  void round(uint32_t rounds = 1) {
    for (; rounds > 0; --rounds) {
      for (uint32_t i = 0; i < servers_.size(); ++i) {
        call(i);
      }
    }
  }
  void call(uint32_t i) {
    const uint32_t xid = next_xid_++;
    const Words body{0, 4, 0x686f'7374, i, i, 0};  // stamp, machine name, uid, gid, no more groups
    const Words message = inline_call(xid, call_with(xid, 1, kAuthSys, body).add({7}));
    ASSERT_TRUE(qps_[i]->deliver(chain_of(pool_, message.bytes(), 1024)));
    servers_[i]->on_completions(now_);
    Call call;
    ASSERT_TRUE(servers_[i]->poll_call(now_, call));
    EXPECT_EQ(call.context->header.xid, xid);
    EXPECT_EQ(call.context->header.flavor, kAuthSys);
    servers_[i]->reply(now_, call.id, chain_of(pool_, rpc_reply(xid).bytes(), 1024));
    qps_[i]->finish_all_sends();
    servers_[i]->on_completions(now_);
  }
  void leave(uint32_t i) {
    servers_.erase(servers_.begin() + i);
    qps_.erase(qps_.begin() + i);
  }
  const CallPredictions& predictions() const { return shared_.predictions; }

 private:
  HeapBufferPool pool_;
  ServerShared shared_;
  std::vector<std::unique_ptr<test::FakeQueuePair>> qps_;
  std::vector<std::unique_ptr<ServerEndpoint>> servers_;
  Instant now_ = Instant::from_ns(1'000'000);
  uint32_t next_xid_ = 1;
};

TEST(CallPredictions, TwoClientsWithDifferentCredentialsAreBothPredicted) {
  Crowd crowd(2);
  crowd.round();
  EXPECT_EQ(crowd.predictions().calls_learned, 2u);
  EXPECT_EQ(crowd.predictions().calls_predicted, 0u);
  crowd.round(50);
  EXPECT_EQ(crowd.predictions().calls_learned, 2u);
  EXPECT_EQ(crowd.predictions().calls_predicted, 100u);
}

TEST(CallPredictions, AsManyConnectionsAsThereArePlacesHaveOneEach) {
  Crowd crowd(CallPredictions::kPlaces);
  crowd.round(2);
  EXPECT_EQ(crowd.predictions().calls_learned, CallPredictions::kPlaces);
  EXPECT_EQ(crowd.predictions().calls_predicted, CallPredictions::kPlaces);
}

TEST(CallPredictions, WhereConnectionsShareAPlaceTheirCallsAreLearnedAnew) {
  constexpr uint32_t kMore = 3;
  Crowd crowd(CallPredictions::kPlaces + kMore);
  crowd.round(2);
  EXPECT_EQ(crowd.predictions().calls_predicted, CallPredictions::kPlaces - kMore);
  crowd.leave(CallPredictions::kPlaces);  // the first of the places is one's own again
  crowd.round(2);
  EXPECT_EQ(crowd.predictions().calls_predicted, CallPredictions::kPlaces - kMore + 2 * (CallPredictions::kPlaces - kMore) + 1);
}

TEST(CallPredictions, WhoeverComesLaterFindsNothingOfWhoeverHadThePlace) {
  CallPredictions predictions;
  const CallPredictions::Place place = predictions.join();
  const Words call = call_with(kXid, 1, kAuthSys, Words{1, 2, 3});
  predictions.at(place).learn(inline_call(kXid, call).bytes(), header_of(call));
  EXPECT_TRUE(predictions.at(place).matches(inline_call(kXid, call).bytes()));
  predictions.leave(place);
  EXPECT_EQ(predictions.join(), place);
  EXPECT_FALSE(predictions.at(place).matches(inline_call(kXid, call).bytes()));
}

struct Taken {
  CallId ids[2];  // by side
  uint32_t xid = 0;
};

struct Side {
  explicit Side(bool express, const ServerOptions& options, uint32_t slots = 6)
      : pool(512, 1024, 64), qp(12), shared(slots, pool) {
    shared.express = express;
    server.emplace(shared, qp, options, InlineThresholds{.send_bytes = 512, .receive_bytes = 1024, .remote_invalidation = true});
    server->start();
  }
  ~Side() {
    server.reset();
    qp.posted().clear();
  }
  HeapBufferPool pool;
  test::FakeQueuePair qp;
  ServerShared shared;
  std::optional<ServerEndpoint> server;
};

class Lives {
 public:
  explicit Lives(uint64_t seed, bool answers_at_once = false) : random_(seed), answers_at_once_(answers_at_once) {
    options_.credits = 8;
    options_.reverse_credits = random_.next_below(2) == 0 ? 3 : 0;
    options_.call_bytes_max = random_.next_below(4) == 0 ? 90 : 4096;
    options_.reply_bytes_max = random_.next_below(4) == 0 ? 60 : 4096;
    const uint32_t slots = answers_at_once ? 24 : 6;
    sides_[0].emplace(true, options_, slots);
    sides_[1].emplace(false, options_, slots);
  }

  void run() {
    for (uint32_t step = 0; step < 150 && !::testing::Test::HasFailure(); ++step) {
      act();
      compare();
    }
  }
  // What happened in it.
  [[nodiscard]] uint64_t predicted() const { return sides_[0]->shared.predictions.calls_predicted; }
  [[nodiscard]] uint64_t refused() const { return sides_[0]->shared.stats.refused_again; }
  [[nodiscard]] uint64_t reversed() const { return reversed_; }
  [[nodiscard]] uint64_t direct() const { return sides_[0]->shared.direct.calls; }

 private:
  Words random_message() {
    const uint32_t xid = next_xid_++;
    const uint32_t procedure = random_.next_below(3);
    Words call = rpc_call(xid, procedure);
    switch (random_.next_below(6)) {
      case 0:
        call = call_with(xid, procedure, kAuthSys, Words{1, 2, random_.next_below(2)});
        break;
      case 1:
        call = call_with(xid, procedure, random_.next_below(8) == 0 ? kRpcsecGss : kAuthSys, Words{1, 0, xid, 1, 4, 9});
        break;
      default:
        break;
    }
    call.zeros(size_t{4} * random_.next_below(6));
    Words message = inline_call(xid, call);
    if (random_.next_below(6) == 0) {
      message = Words{xid, 1, 16, 0, 0, 0, 1, 1}.segment(9, 200, 4096).raw(call.bytes());  // with a Reply chunk
    }
    std::vector<uint8_t> raw = message.bytes();
    for (uint32_t changes = random_.next_below(5) == 0 ? 1 + random_.next_below(3) : 0; changes > 0; --changes) {
      raw[random_.next_below(static_cast<uint32_t>(raw.size()))] ^= static_cast<uint8_t>(1u << random_.next_below(8));
    }
    if (random_.next_below(20) == 0) {
      raw.resize(random_.next_below(static_cast<uint32_t>(raw.size())));
    }
    return Words().raw(raw);
  }
  void deliver(const Words& message, size_t piece) {
    bool delivered[2] = {};
    for (uint32_t i = 0; i < 2; ++i) {
      Side& side = *sides_[i];
      Chain chain = chain_of(side.pool, message.bytes(), piece);
      delivered[i] = side.qp.deliver(std::move(chain));
      if (!answers_at_once_) {
        side.server->on_completions(now_);
      }
    }
    EXPECT_EQ(delivered[0], delivered[1]);
    if (answers_at_once_ && random_.next_below(3) == 0) {
      serve_at_once();
    }
  }
  void poll() {
    Call calls[2];
    const bool polled = sides_[0]->server->poll_call(now_, calls[0]);
    ASSERT_EQ(sides_[1]->server->poll_call(now_, calls[1]), polled);
    if (!polled) {
      return;
    }
    if (!answers_at_once_) {
      EXPECT_EQ(calls[0].id, calls[1].id);
    }
    EXPECT_EQ(calls[0].received, calls[1].received);
    EXPECT_EQ(bytes_of(calls[0].message), bytes_of(calls[1].message));
    EXPECT_EQ(std::memcmp(&calls[0].context->header, &calls[1].context->header, sizeof(RpcCallHeader)), 0);
    EXPECT_EQ(calls[0].context->binding, calls[1].context->binding);
    Taken taken{.ids = {calls[0].id, calls[1].id}};
    if (calls[0].message.bytes() >= 4) {
      uint8_t xid[4];
      calls[0].message.copy_to(0, xid);
      taken.xid = load_be32(xid);
    }
    taken_.push_back(taken);
  }
  void reply() {
    if (taken_.empty()) {
      return;
    }
    const size_t which = random_.next_below(static_cast<uint32_t>(taken_.size()));
    const Taken taken = taken_[which];
    taken_.erase(taken_.begin() + static_cast<std::ptrdiff_t>(which));
    Words message = rpc_reply(random_.next_below(16) == 0 ? taken.xid + 1 : taken.xid);
    message.zeros(size_t{4} * random_.next_below(random_.next_below(4) == 0 ? 150 : 16));
    if (random_.next_below(16) == 0) {
      message.cut(random_.next_below(static_cast<uint32_t>(message.size())));
    }
    const size_t piece = random_.next_below(6) == 0 ? 40 : 1024;
    for (uint32_t i = 0; i < 2; ++i) {
      sides_[i]->server->reply(now_, taken.ids[i], chain_of(sides_[i]->pool, message.bytes(), piece));
    }
  }
  // The owner answers calls as it takes them, but for some that it keeps.
  static bool keeps(uint32_t xid) { return xid % 13 == 5; }
  Chain answer_to(Side& side, uint32_t xid) const {
    Words message = rpc_reply(xid % 17 == 3 ? xid + 1 : xid);
    message.zeros(size_t{4} * (xid % 19 == 7 ? 150 : xid % 11));
    return chain_of(side.pool, message.bytes(), xid % 23 == 2 ? 10 : 1024);
  }
  void take_calls(Side& side, std::vector<Taken>& kept) {
    Call call;
    while (side.server->poll_call(now_, call)) {
      const uint32_t xid = call.context->header.xid;
      if (keeps(xid)) {
        kept.push_back({.ids = {call.id, call.id}, .xid = xid});
      } else {
        side.server->reply(now_, call.id, answer_to(side, xid));
      }
    }
  }
  void answer_directly(Side& side) {
    const uint32_t count = side.server->take_direct(now_);
    EXPECT_TRUE(count == 0 || side.shared.express);
    if (count == 0) {
      return;
    }
    Chain message;
    Chain reply;
    uint32_t xid = 0;
    for (uint32_t left = count; left > 0; --left) {
      const CallContext& context = side.server->look_at_direct();
      xid = context.header.xid;
      if (keeps(xid)) {
        break;
      }
      message = side.server->open_direct();
      uint8_t word[4];
      message.copy_to(0, word);
      EXPECT_EQ(load_be32(word), xid);
      reply = answer_to(side, xid);
      if (!side.server->answer_direct(now_, reply)) {
        break;
      }
      message.clear();
    }
    const bool is_open = !message.empty();
    side.server->end_direct(now_, message, message.bytes());
    if (is_open) {
      Call taken;
      ASSERT_TRUE(side.server->poll_call(now_, taken));
      EXPECT_EQ(taken.context->header.xid, xid);
      side.server->reply(now_, taken.id, std::move(reply));
    }
  }
  void serve_at_once() {
    std::vector<Taken> kept[2];
    for (uint32_t i = 0; i < 2; ++i) {
      answer_directly(*sides_[i]);
      take_calls(*sides_[i], kept[i]);
    }
    ASSERT_EQ(kept[0].size(), kept[1].size());
    for (size_t k = 0; k < kept[0].size(); ++k) {
      EXPECT_EQ(kept[0][k].xid, kept[1][k].xid);
      taken_.push_back({.ids = {kept[0][k].ids[0], kept[1][k].ids[0]}, .xid = kept[0][k].xid});
    }
  }
  // One of the next calls is to be refused, since it broke the client's last connection.
  void refuse() {
    const uint32_t xid = next_xid_ + random_.next_below(3);
    for (auto& side : sides_) {
      side->server->refuse_xid(xid);
    }
  }
  // The XID of a call in reverse direction: its own, or one that a call of the client has as well.
  uint32_t reverse_xid() { return random_.next_below(2) == 0 ? next_xid_ - 1 : 0x8000'0000 + random_.next_below(4); }
  void call_client() {
    const Words call = rpc_call(reverse_xid());
    bool taken[2] = {};
    for (uint32_t i = 0; i < 2; ++i) {
      Side& side = *sides_[i];
      side.server->enable_reverse();
      taken[i] = side.server->submit_reverse(now_, chain_of(side.pool, call.bytes(), 1024)).ok();
    }
    EXPECT_EQ(taken[0], taken[1]);
  }
  // The Reply to one of these calls, or to none.
  void answer_server() {
    const uint32_t xid = reverse_xid();
    const Words message = Words{xid, 1, 1 + random_.next_below(4), 0, 0, 0, 0}.raw(rpc_reply(xid).bytes());
    deliver(message, 1024);
    for (bool more = true; more;) {
      ReverseOutcome outcomes[2];
      more = sides_[0]->server->poll_reverse(outcomes[0]);
      ASSERT_EQ(sides_[1]->server->poll_reverse(outcomes[1]), more);
      EXPECT_EQ(outcomes[0].status, outcomes[1].status);
      EXPECT_EQ(outcomes[0].xid, outcomes[1].xid);
      EXPECT_EQ(bytes_of(outcomes[0].message), bytes_of(outcomes[1].message));
      reversed_ += more ? 1 : 0;
    }
  }
  void act() {
    switch (random_.next_below(20)) {
      case 0:
        now_ = now_ + Duration::us(random_.next_below(300));
        for (auto& side : sides_) {
          side->server->on_deadline(now_);
        }
        break;
      case 1:
      case 2:
      case 3: {
        const bool told = !answers_at_once_ || random_.next_below(2) == 0;  // else with what comes next
        for (auto& side : sides_) {
          side->qp.finish_all_sends();
          if (told) {
            side->server->on_completions(now_);
          }
        }
        break;
      }
      case 4: {
        const uint32_t grant = 1 + random_.next_below(8);
        for (auto& side : sides_) {
          side->server->set_grant(random_grant_ ? grant : 8);
        }
        random_grant_ = random_.next_below(3) == 0;
        break;
      }
      case 5: {
        const uint32_t room = random_.next_below(3) == 0 ? random_.next_below(3) : UINT32_MAX;
        for (auto& side : sides_) {
          side->qp.set_shared_room(room);
        }
        break;
      }
      case 6:
      case 7:
      case 8:
        poll();
        break;
      case 9:
      case 10:
      case 11:
        reply();
        break;
      case 12:
        if (!answers_at_once_ || random_.next_below(32) == 0) {
          refuse();
        }
        break;
      case 13:
        if (!answers_at_once_ || random_.next_below(32) == 0) {
          call_client();
        }
        break;
      case 14:
        answer_server();
        break;
      default:
        deliver(random_message(), random_.next_below(8) == 0 ? 1 + random_.next_below(60) : 1024);
        break;
    }
  }
  void compare() {
    Side& one = *sides_[0];
    Side& other = *sides_[1];
    EXPECT_EQ(std::memcmp(&one.shared.stats, &other.shared.stats, sizeof(RpcRdmaStats)), 0);
    EXPECT_EQ(one.server->failed(), other.server->failed());
    EXPECT_EQ(one.server->calls_in_flight(), other.server->calls_in_flight());
    EXPECT_EQ(one.server->calls_taken(), other.server->calls_taken());
    EXPECT_EQ(one.server->calls_answered(), other.server->calls_answered());
    EXPECT_EQ(one.server->credits_granted(), other.server->credits_granted());
    EXPECT_EQ(one.server->reverse_in_flight(), other.server->reverse_in_flight());
    EXPECT_EQ(one.server->reverse_credits_granted(), other.server->reverse_credits_granted());
    EXPECT_EQ(one.server->next_xid(), other.server->next_xid());
    EXPECT_EQ(one.server->next_deadline(), other.server->next_deadline());
    EXPECT_TRUE(one.server->is_consistent() && other.server->is_consistent());
    EXPECT_EQ(one.shared.done.size(), other.shared.done.size());
    EXPECT_EQ(std::memcmp(&one.shared.durations, &other.shared.durations, sizeof(StageDurations)), 0);
    EXPECT_EQ(one.qp.receives(), other.qp.receives());
    ASSERT_EQ(one.qp.posted().size(), other.qp.posted().size());
    for (size_t i = 0; i < one.qp.posted().size(); ++i) {
      const test::PostedWork& work = one.qp.posted()[i];
      const test::PostedWork& same = other.qp.posted()[i];
      EXPECT_EQ(work.kind, same.kind);
      EXPECT_EQ(work.id, same.id);
      EXPECT_EQ(work.signaled, same.signaled);
      EXPECT_EQ(work.receives, same.receives);
      EXPECT_EQ(bytes_of(work.payload), bytes_of(same.payload));
    }
  }

  SeededRandom random_;
  bool answers_at_once_;  // the owner
  ServerOptions options_;
  std::optional<Side> sides_[2];
  std::vector<Taken> taken_;
  Instant now_ = Instant::from_ns(1'000'000);
  uint32_t next_xid_ = 1;
  bool random_grant_ = false;
  uint64_t reversed_ = 0;  // calls in reverse direction that have ended
};

TEST(ServerExpress, ComesToTheSameAsTheGeneralPaths) {
  uint64_t predicted = 0;
  uint64_t refused = 0;
  uint64_t reversed = 0;
  for (uint64_t seed = 0; seed < 1000 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Lives lives(seed);
    lives.run();
    predicted += lives.predicted();
    refused += lives.refused();
    reversed += lives.reversed();
  }
  // Else nothing has been compared.
  EXPECT_GT(predicted, 1000u);
  EXPECT_GT(refused, 100u);
  EXPECT_GT(reversed, 100u);
}

// An owner that answers each call when it takes it, and one whose calls have slots meanwhile.
TEST(ServerExpress, AnsweringDirectlyComesToTheSame) {
  uint64_t direct = 0;
  for (uint64_t seed = 0; seed < 1000 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Lives lives(seed, true);
    lives.run();
    direct += lives.direct();
  }
  EXPECT_GT(direct, 200u);
}

// A call that would be predicted is refused all the same when its XID has broken the client's last connection, and once only.
TEST(ServerExpress, RefusesTheXidOfACallThatWouldBePredicted) {
  Side with(true, {.credits = 8});
  Side without(false, {.credits = 8});
  for (Side* side : {&with, &without}) {
    side->server->refuse_xid(2);
    for (const uint32_t xid : {1u, 2u, 2u}) {
      ASSERT_TRUE(side->qp.deliver(chain_of(side->pool, inline_call(xid, rpc_call(xid)).bytes(), 1024)));
      side->server->on_completions(Instant::from_ns(1'000'000));
    }
    EXPECT_EQ(side->shared.stats.refused_again, 1u);
    ASSERT_EQ(side->qp.posted().size(), 1u);
    EXPECT_EQ(words_of(side->qp.posted().front().payload), (std::vector<uint32_t>{2, 1, 8, 4, 2}));  // ERR_CHUNK
    EXPECT_EQ(side->server->calls_in_flight(), 2u);
    EXPECT_EQ(side->shared.predictions.calls_predicted, side == &with ? 1u : 0u);
  }
}

// A Reply to a call in reverse direction is no call, though it begins as one; and a call under the same XID is predicted.
TEST(ServerExpress, TellsRepliesInReverseDirectionFromCalls) {
  for (const bool express : {true, false}) {
    Side side(express, {.credits = 8, .reverse_credits = 2});
    const Instant now = Instant::from_ns(1'000'000);
    const auto send = [&](const Words& message) {
      ASSERT_TRUE(side.qp.deliver(chain_of(side.pool, message.bytes(), 1024)));
      side.server->on_completions(now);
    };
    send(inline_call(1, rpc_call(1)));
    side.server->enable_reverse();
    ASSERT_TRUE(side.server->submit_reverse(now, chain_of(side.pool, rpc_call(7).bytes(), 1024)).ok());
    send(inline_call(7, rpc_call(7)));
    EXPECT_EQ(side.server->calls_in_flight(), 2u);
    EXPECT_EQ(side.shared.predictions.calls_predicted, express ? 1u : 0u);
    EXPECT_EQ(side.server->reverse_in_flight(), 1u);
    send(Words{7, 1, 2, 0, 0, 0, 0}.raw(rpc_reply(7).bytes()));
    EXPECT_EQ(side.server->calls_in_flight(), 2u);
    EXPECT_EQ(side.server->reverse_in_flight(), 0u);
    ReverseOutcome outcome;
    ASSERT_TRUE(side.server->poll_reverse(outcome));
    EXPECT_EQ(outcome.status, ReverseStatus::kReplied);
    EXPECT_EQ(outcome.xid, 7u);
  }
}

}  // namespace
}  // namespace cw::rpcrdma
