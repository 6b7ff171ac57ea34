// After construction the endpoints and the bench program take nothing from the heap.
#include "tests/support/alloc_guard.h"
#include "tests/unit/endpoint/bench_call.h"
#include "tests/unit/endpoint/loopback.h"

namespace cw::rpcrdma {
namespace {

TEST(Allocation, IsCountedInThisExecutable) {
  const test::CountAllocations counted;
  std::vector<int> some(100);
  EXPECT_EQ(counted.count(), 1u);
}

TEST(Allocation, NoMessageCostsOne) {
  SeededRandom random(5);
  LoopbackOptions options;
  options.remote_invalidation = true;
  options.client.segment_bytes_max = 8192;
  options.send_queue_depth = 6;
  options.mtu = 256;
  Loopback loop(options);
  uint64_t allocations = 0;
  for (int i = 0; i < 150; ++i) {
    BenchCall bench = random_bench_call(random);
    ClientCall call;
    bench.prepare(loop.client_pool, call);
    ASSERT_FALSE(HasFatalFailure());
    {
      const test::CountAllocations counted;
      static_cast<void>(loop.client->submit(loop.now, std::move(call)));
      allocations += counted.count();
    }
    for (bool moved = true; moved;) {
      moved = loop.link.step(0) || loop.link.step(1);
      const test::CountAllocations counted;
      loop.server->on_completions(loop.now);
      moved = loop.serve_one() || moved;
      while (!loop.shared->done.empty()) {
        (void)loop.shared->done.pop();
      }
      loop.client->on_completions(loop.now);
      ClientReply reply;
      moved = loop.client->poll_reply(reply) || moved;
      loop.client->on_deadline(loop.now);
      loop.server->on_deadline(loop.now);
      moved = moved || loop.server_qp.has_completions() || loop.client_qp.has_completions();
      allocations += counted.count();
    }
  }
  EXPECT_EQ(allocations, 0u);
  loop.finish();
}

}  // namespace
}  // namespace cw::rpcrdma
