// What it costs to give a call to a worker and to take its answer: cycles per RPC, both ways, in batches of 32.
//
//   handoff_bench [--repeats N] [--json FILE]
//
//   rings       the worker pool's own rings, outboxes and items, used as the pool does it: collected, published once per burst,
//               taken in bursts, a look at the sleeper's flag for each batch. Beside them bare rte_rings of pointers with one
//               producer and one consumer, enqueued and dequeued 32 at a time: the least that DPDK takes
//   one_core    both ends in one thread by turns: instructions and stores, no cache line moves between CPUs
//   two_cores   the worker's end on the other CPU; up to two batches on their way. Both spin, so that the time per RPC is that of
//               the slower end. Follows the distance of the two CPUs: looked at before and after, and told
//   pool        the whole WorkerPool with threads of its own, which sleep when idle, and a built-in program run on them: what
//               causewayd does for programs that may take long. One batch on its way. Contains TBB's handing over of a task, and
//               where there are two CPUs for three threads, the scheduler
//
// What a worker does at its sockets is not in here: link_bench.py and gateway_bench.py have it.
#include <rte_ring.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "dataplane/worker_pool.h"
#include "rpcrdma/backend/bench_client.h"
#include "rpcrdma/backend/bench_program.h"
#include "tests/bench/core_distance.h"
#include "tests/bench/measure.h"
#include "tests/support/locked_buffer_pool.h"

namespace cw::bench {
namespace {

using dataplane::EventItem;
using dataplane::Outbox;
using dataplane::RequestItem;
using dataplane::RingProducers;
using dataplane::ValueRing;
using dataplane::Wakeup;
using dataplane::WorkerPool;

constexpr uint32_t kBatch = 32;
constexpr uint32_t kRingEntries = 4096;  // as WorkerPoolOptions has it
constexpr uint32_t kBatchesPerRepeat = 2000;
constexpr uint32_t kBatchesOnTheirWay = 2;

// One way to hand calls over. The poll core calls give() and take(), the worker serve().
class Handoff {
 public:
  virtual ~Handoff() = default;
  virtual void give(uint32_t count) = 0;
  [[nodiscard]] virtual uint32_t take() = 0;   // answers that have come
  [[nodiscard]] virtual uint32_t serve() = 0;  // calls answered
};

// As WorkerPool::submit, kick and poll do it, and a turn of Worker.
class ProductRings final : public Handoff {
 public:
  void give(uint32_t count) override {
    for (uint32_t i = 0; i < count; ++i) {
      CW_ASSERT(there_.has_room());
      request_.kind = gateway::BackendRequest::Kind::kSend;
      request_.call = rpcrdma::CallId(++sequence_);
      there_.put(RequestItem(request_));
    }
    CW_ASSERT(there_.publish());
  }
  uint32_t take() override {
    uint32_t taken = 0;
    while (const uint32_t count = events_.pop(events_burst_)) {
      for (uint32_t i = 0; i < count; ++i) {
        CW_ASSERT(events_burst_[i].call.value() == ++answered_);
      }
      taken += count;
    }
    return taken;
  }
  uint32_t serve() override {
    const uint32_t count = requests_.pop(requests_burst_);
    for (uint32_t i = 0; i < count; ++i) {
      const RequestItem& item = requests_burst_[i];
      back_.put({item.link, item.call(), item.message(), gateway::BackendEvent::Kind::kMessage, item.backend});
    }
    CW_ASSERT(back_.publish());
    return count;
  }

 private:
  ValueRing<RequestItem> requests_{"requests", kRingEntries, RingProducers::kOne};
  ValueRing<EventItem> events_{"events", kRingEntries, RingProducers::kOne};
  Wakeup worker_;
  Wakeup core_;
  // The poll core's from here.
  alignas(RTE_CACHE_LINE_SIZE) Outbox<RequestItem> there_{requests_, worker_};
  gateway::BackendRequest request_;
  std::array<EventItem, kBatch> events_burst_;
  uint64_t sequence_ = 0;
  uint64_t answered_ = 0;
  // The worker's.
  alignas(RTE_CACHE_LINE_SIZE) Outbox<EventItem> back_{events_, core_};
  std::array<RequestItem, kBatch> requests_burst_;
};

class BareRings final : public Handoff {
 public:
  BareRings() : there_(make()), back_(make()) {}
  void give(uint32_t count) override {
    std::array<void*, kBatch> items;
    for (uint32_t i = 0; i < count; ++i) {
      items[i] = this;
    }
    CW_ASSERT(rte_ring_sp_enqueue_bulk(there_.get(), items.data(), count, nullptr) == count);
  }
  uint32_t take() override {
    std::array<void*, kBatch> items;
    return rte_ring_sc_dequeue_burst(back_.get(), items.data(), kBatch, nullptr);
  }
  uint32_t serve() override {
    std::array<void*, kBatch> items;
    const uint32_t count = rte_ring_sc_dequeue_burst(there_.get(), items.data(), kBatch, nullptr);
    CW_ASSERT(count == 0 || rte_ring_sp_enqueue_bulk(back_.get(), items.data(), count, nullptr) == count);
    return count;
  }

 private:
  struct Free {
    void operator()(rte_ring* ring) const { std::free(ring); }
  };
  using Ring = std::unique_ptr<rte_ring, Free>;
  static Ring make() {
    const auto bytes = static_cast<size_t>(rte_ring_get_memsize(kRingEntries));
    Ring ring(static_cast<rte_ring*>(std::aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN_CEIL(bytes, RTE_CACHE_LINE_SIZE))));
    CW_ASSERT(ring != nullptr && rte_ring_init(ring.get(), "bare", kRingEntries, RING_F_SP_ENQ | RING_F_SC_DEQ) == 0);
    return ring;
  }
  Ring there_;
  Ring back_;
};

double on_one_core(Handoff& way) {
  const uint64_t first = __rdtsc();
  for (uint32_t batch = 0; batch < kBatchesPerRepeat; ++batch) {
    way.give(kBatch);
    uint32_t served = 0;
    while (served < kBatch) {
      served += way.serve();
    }
    for (uint32_t taken = 0; taken < kBatch;) {
      taken += way.take();
    }
  }
  return static_cast<double>(__rdtsc() - first) / (uint64_t{kBatchesPerRepeat} * kBatch);
}

double on_two_cores(Handoff& way, int worker_cpu) {
  std::atomic<bool> stop{false};
  std::thread worker([&] {
    (void)pin_to(worker_cpu);
    while (!stop.load(std::memory_order_relaxed)) {
      (void)way.serve();
    }
  });
  uint64_t given = 0;
  uint64_t taken = 0;
  // The first batches find the worker's thread still starting.
  const auto pass = [&](uint64_t goal) {
    while (taken < goal) {
      if (given < goal && given - taken <= uint64_t{kBatchesOnTheirWay - 1} * kBatch) {
        way.give(kBatch);
        given += kBatch;
      }
      taken += way.take();
    }
  };
  pass(uint64_t{64} * kBatch);
  const uint64_t before = taken;
  const uint64_t first = __rdtsc();
  pass(before + uint64_t{kBatchesPerRepeat} * kBatch);
  const double cycles = static_cast<double>(__rdtsc() - first) / static_cast<double>(taken - before);
  stop.store(true);
  worker.join();
  return cycles;
}

// The pool as causewayd has it, with NULL calls of the bench program.
class Pool {
 public:
  Pool() {
    CW_ASSERT(programs_.add(bench_));
    dataplane::WorkerPoolOptions options;
    options.spin = false;  // as many threads as CPUs: one that spins would keep a program's thread waiting
    options.ring_entries = kRingEntries;
    options.backends = {{}};
    pool_ = std::make_unique<WorkerPool>(options, buffers_, programs_, std::vector<Wakeup*>{&wakeup_});
    pool_->start();
  }
  double sample(uint32_t batches) {
    uint64_t spent = 0;
    for (uint32_t batch = 0; batch < batches; ++batch) {
      std::array<gateway::BackendRequest, kBatch> requests;
      for (gateway::BackendRequest& request : requests) {
        request.kind = gateway::BackendRequest::Kind::kRun;
        CW_ASSERT(rpcrdma::build_bench_null(buffers_, request.message));
      }
      const uint64_t first = __rdtsc();
      for (gateway::BackendRequest& request : requests) {
        CW_ASSERT(pool_->submit(0, request));
      }
      pool_->kick(0);
      gateway::BackendEvent event;
      for (uint32_t answers = 0; answers < kBatch;) {
        if (pool_->poll(0, event)) {
          ++answers;
          good_ = good_ && !event.message.empty();
        }
      }
      spent += __rdtsc() - first;
    }
    return static_cast<double>(spent) / (uint64_t{batches} * kBatch);
  }
  [[nodiscard]] bool good() const { return good_; }

 private:
  cw::test::LockedBufferPool buffers_{4096, 1024, 0};
  rpcrdma::BenchProgram bench_;
  rpcrdma::ProgramRegistry programs_;
  Wakeup wakeup_;
  std::unique_ptr<WorkerPool> pool_;
  bool good_ = true;
};

struct Samples {
  std::vector<double> product;
  std::vector<double> bare;
};

void tell(const char* name, const Spread& value, double baseline, const char* state) {
  std::printf("%-20s %7.1f cycles per RPC [%.1f %.1f]", name, value.median, value.low, value.high);
  if (baseline > 0) {
    std::printf(", bare rte_ring %.1f", baseline);
  }
  std::printf("%s%s\n", *state != '\0' ? "  " : "", state);
}

nlohmann::json figure_of(const char* name, const Samples& samples, const char* state) {
  const Spread value = spread_of(samples.product);
  const double bare = spread_of(samples.bare).median;
  tell(name, value, bare, state);
  nlohmann::json figure = row_beside(std::string("handoff/") + name, value, "cycles", bare, "bare rte_ring", false);
  if (*state != '\0') {
    figure["state"] = state;
  }
  return figure;
}

// Of the runs in one state: of that which most were in.
struct ByState {
  Samples near;
  Samples far;
  uint32_t changed = 0;
};

int main_of(int count, char** words) {
  BenchOptions options{.repeats = 41, .json = {}, .only = {}};
  if (!options.parse(count, words)) {
    std::fputs("usage: handoff_bench [--repeats N] [--json FILE]\n", stderr);
    return 2;
  }
  const bool smoke = options.repeats < 5;
  nlohmann::json rows = nlohmann::json::array();
  ProductRings product;
  BareRings bare;
  Samples one_core;
  for (uint32_t repeat = 0; repeat < options.repeats; ++repeat) {
    one_core.product.push_back(on_one_core(product));
    one_core.bare.push_back(on_one_core(bare));
  }
  rows.push_back(figure_of("rings_one_core", one_core, ""));

  const std::vector<int> cpus = own_cpus();
  bool good = true;
  if (cpus.size() < 2) {
    std::puts("handoff_bench: one CPU only; what needs two is skipped");
  } else {
    // Before this thread is bound to a CPU, for threads made later would be too.
    Pool pool;
    (void)pool.sample(1);
    CW_ASSERT(pin_to(cpus[0]));
    const std::chrono::milliseconds look(smoke ? 2 : 10);
    ByState by_state;
    for (uint32_t repeat = 0; repeat < options.repeats; ++repeat) {
      const CoreDistance before = core_distance(cpus[1], look);
      const double with_product = on_two_cores(product, cpus[1]);
      const double with_bare = on_two_cores(bare, cpus[1]);
      const CoreDistance after = core_distance(cpus[1], look);
      if (before.state() != after.state()) {
        ++by_state.changed;
        continue;
      }
      Samples& samples = before.round_trip_ns <= CoreDistance::kNearNsMax ? by_state.near : by_state.far;
      samples.product.push_back(with_product);
      samples.bare.push_back(with_bare);
    }
    const bool near = by_state.near.product.size() >= by_state.far.product.size();
    const Samples& samples = near ? by_state.near : by_state.far;
    if (samples.product.empty()) {
      std::puts("handoff_bench: the distance of the CPUs changed during every run");
    } else {
      rows.push_back(figure_of("rings_two_cores", samples, near ? "near" : "far"));
      rows.back()["discarded"] = options.repeats - samples.product.size();
    }
    std::vector<double> whole;
    for (uint32_t repeat = 0; repeat < options.repeats; ++repeat) {
      whole.push_back(pool.sample(smoke ? 4 : 100));
    }
    good = pool.good();
    const Spread value = spread_of(whole);
    tell("pool_programs", value, 0, "");
    rows.push_back(row("handoff/pool_programs", value.median, "cycles", value));
  }
  return write_rows(options.json, rows) && good ? 0 : 1;
}

}  // namespace
}  // namespace cw::bench

int main(int count, char** words) {
  return cw::bench::main_of(count, words);
}
