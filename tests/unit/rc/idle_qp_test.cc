// What a hundred thousand idle connections cost: everything that the endpoint takes from the heap, counted, less what it would
// take for one.
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/support/alloc_guard.h"
#include "tests/unit/rc/lone_qp.h"

namespace cw::rc::test {
namespace {

constexpr uint32_t kQps = 100'000;

EndpointOptions options_for(uint32_t qp_max, bool answers_reads) {
  return {.qp_max = qp_max, .send_work_max = 1024, .receive_work_max = 1024, .read_replay_max = answers_reads ? qp_max : 0};
}

uint64_t bytes_of_endpoint(uint32_t qps, bool answers_reads) {
  SeededRandom random(1);
  verbs::MemoryTable memory(1, random);
  RcOptions options;
  if (answers_reads) {
    options.remote_access = verbs::RemoteAccess::kAll;
    options.responder_resources_max = 16;
  }
  const cw::test::CountAllocations allocations;
  Endpoint endpoint(options_for(qps, answers_reads), random, &memory);
  for (uint32_t i = 0; i < qps; ++i) {
    RcQp* qp = *endpoint.create_qp(options);
    RcConnect connect{.path = sim::RcPair::path(0), .remote_qpn = verbs::Qpn(2 + i), .responder_resources = 16};
    EXPECT_TRUE(endpoint.connect_qp(*qp, connect).ok());
    qp->post_receives(32);
  }
  EXPECT_EQ(endpoint.qp_count(), qps);
  return allocations.bytes();
}

uint64_t bytes_per_qp(bool answers_reads) {
  const uint64_t one = bytes_of_endpoint(1, answers_reads);
  const uint64_t many = bytes_of_endpoint(kQps, answers_reads);
  return (many - one) / (kQps - 1);
}

// A sanitizer has an operator new[] of its own, which nobody counts.
bool counts_arrays() {
  const cw::test::CountAllocations allocations;
  const std::vector<std::unique_ptr<uint64_t[]>> arrays = [] {
    std::vector<std::unique_ptr<uint64_t[]>> made;
    made.push_back(std::make_unique<uint64_t[]>(1000));
    return made;
  }();
  return arrays.size() == 1 && allocations.bytes() >= 8000;
}

TEST(IdleQp, TakesAtMostOneKibibyteOfEverythingTogether) {
  if (!counts_arrays()) {
    GTEST_SKIP() << "allocations are not counted here";
  }
  const uint64_t server = bytes_per_qp(false);
  const uint64_t client = bytes_per_qp(true);
  std::printf("bytes per idle queue pair of %u: %lu; answering READs and atomics: %lu\n", kQps, server, client);
  EXPECT_GT(server, sizeof(RcQp));
  EXPECT_LE(server, 1024u);
  EXPECT_LE(client, 2048u);
}

}  // namespace
}  // namespace cw::rc::test
