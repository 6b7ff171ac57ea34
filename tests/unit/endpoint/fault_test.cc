// Faults: the connection is cut at every step, memory is pulled away, headers are mutated. One connection may suffer, nothing
// else.
#include <set>

#include "tests/unit/endpoint/bench_call.h"
#include "tests/unit/endpoint/loopback.h"
#include "tests/unit/endpoint/words.h"

namespace cw::rpcrdma {
namespace {

// Five calls of all shapes; the connection is cut after `steps` steps of the link. Returns whether the cut came before the end.
bool run_and_cut(uint64_t steps) {
  LoopbackOptions options;
  options.mtu = 256;
  options.remote_invalidation = true;
  options.server.reads_in_flight_max = 2;
  options.client.segment_bytes_max = 700;
  options.send_queue_depth = 8;
  Loopback loop(options);
  std::vector<BenchCall> benches = {
      {},
      {.procedure = BenchProcedure::kEcho, .seed = 1, .bytes = 3001, .read_chunk = true, .write_chunk = true},
      {.procedure = BenchProcedure::kSource, .seed = 2, .bytes = 2000, .reply_room = 3000},
      {.procedure = BenchProcedure::kSink, .seed = 3, .bytes = 1500, .long_call = true},
      {.procedure = BenchProcedure::kSource, .seed = 4, .bytes = 9000},
  };
  uint64_t submitted = 0;
  std::set<uint64_t> ended;
  bool cut = false;
  const auto collect = [&] {
    for (ClientReply reply; loop.client->poll_reply(reply);) {
      EXPECT_TRUE(ended.insert(reply.user_data).second) << "a second outcome";
      EXPECT_TRUE(cut || reply.status == CallStatus::kReplied || reply.status == CallStatus::kErrorChunk);
      if (reply.status == CallStatus::kReplied) {
        EXPECT_TRUE(benches[reply.user_data].check(reply));
      }
    }
  };
  for (uint64_t step = 0; step < 10'000; ++step) {
    while (submitted < benches.size() && loop.client->calls_allowed() > 0) {
      ClientCall call;
      call.user_data = submitted;
      benches[submitted].prepare(loop.client_pool, call);
      EXPECT_TRUE(loop.client->submit(loop.now, std::move(call)).ok());
      ++submitted;
    }
    if (step == steps) {
      loop.link.cut();
      cut = true;
    }
    const bool moved = loop.link.step(step % 2) || loop.link.step(1 - step % 2);
    loop.server->on_completions(loop.now);
    const bool served = loop.serve_one();
    loop.client->on_completions(loop.now);
    collect();
    if (!moved && !served && !loop.server_qp.has_completions() && !loop.client_qp.has_completions()) {
      break;
    }
  }
  collect();
  EXPECT_EQ(ended.size(), submitted) << "a call without an outcome";
  EXPECT_EQ(loop.client->failed(), cut);
  EXPECT_EQ(loop.memory.region_count(), 0u);
  loop.finish();
  return cut;
}

// Thread list and lesson C1.4: a disconnect at every boundary.
TEST(Fault, ACutAtAnyStepEndsEveryCallOnce) {
  uint64_t steps = 0;
  while (run_and_cut(steps)) {
    ASSERT_FALSE(::testing::Test::HasFailure()) << "cut at step " << steps;
    ++steps;
  }
  EXPECT_GT(steps, 20u);
}

// Proves RPCRDMA-4.5.3-1, RPCRDMA-4.5.3-5: handles that open nothing show when they are used; the connection is lost, the calls
// with it.
TEST(Fault, MemoryThatIsGoneCostsTheConnection) {
  for (const bool read : {true, false}) {
    Loopback loop({});
    BenchCall bench{.procedure = BenchProcedure::kEcho, .seed = 1, .bytes = 500, .read_chunk = read, .write_chunk = !read};
    ClientCall call;
    bench.prepare(loop.client_pool, call);
    ASSERT_TRUE(loop.client->submit(loop.now, std::move(call)).ok());
    EXPECT_EQ(loop.memory.invalidate_all(Loopback::kDomain), 1u);
    while (loop.link.step(0) || loop.link.step(1) || loop.serve_one()) {
      loop.server->on_completions(loop.now);
      loop.client->on_completions(loop.now);
    }
    EXPECT_EQ(loop.link.stats().access_errors, 1u);
    EXPECT_TRUE(loop.server->failed());
    EXPECT_TRUE(loop.client->failed());
    EXPECT_EQ(loop.take_reply().status, CallStatus::kConnectionLost);
    loop.finish();
  }
}

// Proves RPCRDMA-8.1.4-6, RPCRDMA-4.4.1-3: a timed-out call's memory is shut off: a server that answers late breaks its own
// connection, not the client's memory.
TEST(Fault, ALateWriteHitsNoMemory) {
  Loopback loop({});
  BenchCall bench{.procedure = BenchProcedure::kSource, .seed = 1, .bytes = 500, .write_chunk = true};
  ClientCall call;
  bench.prepare(loop.client_pool, call);
  ASSERT_TRUE(loop.client->submit(loop.now, std::move(call)).ok());
  ASSERT_TRUE(loop.link.step(0));
  loop.now = loop.now + Duration::seconds(61);
  loop.client->on_deadline(loop.now);
  EXPECT_EQ(loop.take_reply().status, CallStatus::kTimeout);
  loop.server->on_completions(loop.now);
  EXPECT_TRUE(loop.serve_one());
  EXPECT_TRUE(loop.link.step(1));
  EXPECT_EQ(loop.link.stats().access_errors, 1u);
  EXPECT_EQ(bench.write_memory, std::vector<uint8_t>(500, 0xee));
  loop.finish();
}

// Proves RPCRDMA-4.5-1, RPCRDMA-8.2.2.4-1: random headers from valid ones: whatever comes, each message is a call, an error or
// dropped, and nothing is left.
TEST(Fault, MutatedMessagesLeaveNothingBehind) {
  constexpr uint64_t kSeed = 20'261;
  std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  SeededRandom random(kSeed);
  HeapBufferPool pool(1024, 2048, 1024);
  ServerShared shared(16, pool);
  shared.express = cw::test::takes_express_paths();
  ServerOptions options;
  options.credits = 4;
  options.limits.read_bytes_max = 4096;
  options.call_bytes_max = 5000;
  InlineThresholds thresholds{.send_bytes = 1024, .receive_bytes = 4096, .remote_invalidation = true};
  test::FakeQueuePair qp;
  auto server = std::make_unique<ServerEndpoint>(shared, qp, options, thresholds);
  server->start();
  const Instant now = Instant::from_ns(1);
  const std::vector<Words> valid = {
      Words{kXid, 1, 8, 0, 0, 0, 0}.raw(rpc_call(kXid).bytes()),
      Words{kXid, 1, 8, 0}.read(44, 1, 5, 0).read(44, 2, 6, 9).add({0, 0, 0}).raw(rpc_call(kXid, 1).add({11}).bytes()),
      Words{kXid, 1, 8, 1}.read(0, 1, 44, 0).read(44, 2, 6, 9).add({0, 1, 1}).segment(3, 9, 9).add({0, 1, 1}).segment(4, 99, 0),
      Words{kXid, 1, 8, 0, 0, 1, 2}
          .segment(3, 9, 9)
          .segment(4, 9, 9)
          .add({1, 0, 0, 0})
          .raw(rpc_call(kXid, 2).add({4, 0, 0}).bytes()),
  };
  uint64_t calls = 0;
  uint64_t errors = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::vector<uint8_t> raw = valid[random.next_below(4)].bytes();
    for (uint32_t changes = random.next_below(4); changes > 0; --changes) {
      constexpr uint32_t kNasty[] = {0, 1, 2, 3, 4, 0x7fff'ffff, 0x8000'0000, 0xffff'fffc, 0xffff'ffff, 65};
      const size_t word = random.next_below(static_cast<uint32_t>(raw.size() / 4)) * size_t{4};
      store_be32(raw.data() + word, kNasty[random.next_below(10)]);
    }
    if (random.next_below(4) == 0) {
      raw.resize(random.next_below(static_cast<uint32_t>(raw.size()) + 1));
    }
    ASSERT_TRUE(qp.deliver(chain_of(pool, raw, 1 + random.next_below(200))));
    server->on_completions(now);
    while (!qp.posted().empty()) {
      test::PostedWork& work = qp.posted().front();
      if (work.kind == test::WorkKind::kRead) {
        ASSERT_LE(work.length, 4096u);
        std::vector<uint8_t> data(work.length);
        if (work.length >= 4) {
          store_be32(data.data(), kXid);
        }
        qp.finish(chain_of(pool, data, 100));
      } else {
        errors += work.kind == test::WorkKind::kSend && work.payload.bytes() <= kVersionErrorBytes ? 1 : 0;
        qp.finish();
      }
      server->on_completions(now);
      Call call;
      if (server->poll_call(now, call)) {
        ++calls;
        server->reply(now, call.id, chain_of(pool, rpc_reply(load_be32(raw.data())).bytes()));
      }
    }
    Call call;
    if (server->poll_call(now, call)) {
      ++calls;
      server->reply(now, call.id, chain_of(pool, rpc_reply(load_be32(raw.data())).bytes()));
      call.message.clear();
      qp.finish_all_sends();
      server->on_completions(now);
    }
    ASSERT_FALSE(server->failed());
    ASSERT_TRUE(server->is_consistent());
    ASSERT_EQ(server->calls_in_flight(), 0u);
    ASSERT_EQ(qp.receives(), 4u);
  }
  EXPECT_GT(calls, 4000u);
  EXPECT_GT(errors, 4000u);
  server.reset();
  EXPECT_EQ(shared.calls->in_use(), 0u);
  EXPECT_EQ(pool.in_use(), 0u);
}

// Proves RPCRDMA-8.1.4-5: one connection can cost itself, never another.
TEST(Fault, AFailedConnectionLeavesItsNeighboursAlone) {
  HeapBufferPool pool(64, 2048, 16);
  ServerShared shared(4, pool);
  shared.express = cw::test::takes_express_paths();
  ServerOptions options;
  options.credits = 4;
  const InlineThresholds thresholds;
  test::FakeQueuePair bad_qp;
  test::FakeQueuePair good_qp;
  ServerEndpoint bad(shared, bad_qp, options, thresholds);
  ServerEndpoint good(shared, good_qp, options, thresholds);
  bad.start();
  good.start();
  const Instant now = Instant::from_ns(1);
  for (uint32_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(bad_qp.deliver(chain_of(pool, Words{i, 1, 1, 0, 0, 0, 0}.raw(rpc_call(i).bytes()).bytes())));
  }
  bad.on_completions(now);
  ASSERT_TRUE(good_qp.deliver(chain_of(pool, Words{9, 1, 1, 0, 0, 0, 0}.raw(rpc_call(9).bytes()).bytes())));
  good.on_completions(now);
  EXPECT_EQ(good.calls_in_flight(), 1u);
  bad_qp.break_with(verbs::WcStatus::kRetryExceeded);
  bad.on_completions(now);
  EXPECT_TRUE(bad.failed());
  good.on_deadline(good.next_deadline());
  Call call;
  ASSERT_TRUE(good.poll_call(now, call));
  good.reply(now, call.id, chain_of(pool, rpc_reply(9).bytes()));
  EXPECT_EQ(good_qp.posted().size(), 1u);
  EXPECT_FALSE(good.failed());
  EXPECT_EQ(shared.stats.credits_granted, 4u);
  good_qp.finish();
}

}  // namespace
}  // namespace cw::rpcrdma
