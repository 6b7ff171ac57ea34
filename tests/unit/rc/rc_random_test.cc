// Random traffic over a bad link: whatever is lost, doubled, reordered or damaged, each message arrives once, in order and byte
// for byte; and when the faults end, everything finishes and nothing leaks. A failure prints its seed.
#include <gtest/gtest.h>

#include <deque>

#include "apps/sim/rc_pair.h"
#include "rocev2/rc/receive_pool.h"
#include "tests/support/sanitized.h"
#include "tests/unit/rc/lone_qp.h"

namespace cw::sim {
namespace {

constexpr uint32_t kRegionBytes = 256 * 1024;
constexpr uint32_t kReceivesPosted = 8;

struct PostedRead {
  uint32_t offset;
  uint32_t length;
};

// One direction: what node `from` posts and what must come of it at the other.
struct Direction {
  uint32_t posted_sends = 0;
  uint32_t received_sends = 0;
  uint32_t completions = 0;
  uint32_t posted = 0;
  std::vector<uint8_t> writable;  // memory of the receiving node, written by `from`
  std::vector<uint8_t> model;     // what it must hold in the end
  std::vector<uint8_t> readable;  // memory of the receiving node, never written
  verbs::Rkey write_key;
  verbs::Rkey read_key;
  std::deque<PostedRead> reads;
  std::deque<uint64_t> ids;  // of posted works, in order
  std::deque<uint32_t> send_sizes;
};

class Workload {
 public:
  explicit Workload(uint64_t seed) : random_(seed * 31 + 5), seed_(seed), pair_(options(seed)) {
    for (uint32_t i = 0; i < 2; ++i) {
      Direction& direction = directions_[i];
      direction.writable.assign(kRegionBytes, 0);
      direction.model.assign(kRegionBytes, 0);
      direction.readable = random_bytes(seed * 3 + i, kRegionBytes);
      verbs::MemoryTable& memory = pair_.nodes[1 - i]->memory;
      direction.write_key = *memory.register_region(verbs::ProtectionDomain(1), direction.writable, verbs::RemoteAccess::kWrite);
      direction.read_key = *memory.register_region(verbs::ProtectionDomain(1), direction.readable, verbs::RemoteAccess::kRead);
      pair_.qps[i]->post_receives(kReceivesPosted);
    }
  }

  RcPairOptions options(uint64_t seed) {
    RcPairOptions options = rc::test::pair_options();
    options.seed = seed;
    options.connect.path_mtu_bytes = 256u << random_.next_below(5);
    options.connect.initiator_depth = static_cast<uint8_t>(1 + random_.next_below(4));
    options.connect.responder_resources = 16;
    options.connect.ack_timeout = 8;
    options.qp.domain = verbs::ProtectionDomain(1);
    options.qp.remote_access = verbs::RemoteAccess::kReadWrite;
    options.qp.responder_resources_max = 16;
    options.qp.receive_bytes_max = 8192;
    options.qp.send_window_packets = 1u << random_.next_below(8);
    options.qp.send_queue_depth = 32;
    options.qp.min_rnr_timer = 1;
    options.qp.receive_pool = seed % 5 == 0 ? &pool_ : nullptr;
    options.qp.advertise_credits = seed % 5 < 2;
    options.endpoint.ack_delay = seed % 3 == 0 ? rc::kAckDelay : Duration();
    if (seed % 2 == 0) {
      options.connect.peer_hold_packets = 1u << random_.next_below(10);
      options.endpoint.recovery.gaps_max = seed % 8 == 0 ? 1 : 4;
      options.endpoint.recovery.holds_max = options.endpoint.recovery.gaps_max;
      options.endpoint.recovery.held_packets_max = 1u << random_.next_below(8);
    }
    options.qp.read_request_packets = 1u << random_.next_below(7);
    options.qp.read_window_packets = options.qp.read_request_packets << random_.next_below(4);
    max_operation_bytes_ = std::min(65536u, options.connect.path_mtu_bytes * 24);
    for (uint32_t& psn : options.first_psn) {
      psn = random_.next_below(2) == 0 ? 0xff'ffff - random_.next_below(200) : random_.next_u32() & 0xff'ffff;
    }
    return options;
  }

  const rc::RcStats& stats(uint32_t node) { return pair_.stats(node); }

  void run() {
    pair_.link.faults = LinkFaults{.loss = random_.next_below(60),
                                   .duplicate = random_.next_below(60),
                                   .reorder = random_.next_below(40),
                                   .corrupt = random_.next_below(20),
                                   .mark = random_.next_below(100),
                                   .jitter = Duration::us(1 + random_.next_below(5))};
    const uint32_t posts_each = 30;
    const Instant give_up = pair_.now + Duration::seconds(20);
    while (pair_.now < give_up && !failed()) {
      for (uint32_t i = 0; i < 2; ++i) {
        if (directions_[i].posted < posts_each) {
          post_some(i);
        }
        poll(i);
      }
      if (directions_[0].posted >= posts_each && directions_[1].posted >= posts_each) {
        break;
      }
      if (!pair_.step()) {
        pair_.now = pair_.now + Duration::us(10);  // nothing under way: time for the next posts
      }
      ASSERT_TRUE(pair_.qps[0]->is_consistent() && pair_.qps[1]->is_consistent()) << "seed " << seed_;
    }
    pair_.link.faults = LinkFaults{};
    pair_.run([this] {
      poll(0);
      poll(1);
      return failed() || (finished(0) && finished(1));
    });
    check_end();
  }

 private:
  bool failed() const { return ::testing::Test::HasFailure(); }

  bool finished(uint32_t i) const {
    return directions_[i].completions == directions_[i].posted && directions_[i].received_sends == directions_[i].posted_sends;
  }

  void post_some(uint32_t i) {
    for (uint32_t count = random_.next_below(4); count > 0; --count) {
      post_one(i);
    }
  }

  void post_one(uint32_t i) {
    Direction& direction = directions_[i];
    rc::RcQp& qp = *pair_.qps[i];
    if (qp.send_queue_room() == 0) {
      return;
    }
    const verbs::WorkId id(direction.posted + 1000);
    switch (random_.next_below(4)) {
      case 0:
      case 1:
        post_send(i, id);
        break;
      case 2: {
        const uint32_t length = random_.next_below(8) == 0 ? 0 : random_.next_below(max_operation_bytes_);
        const uint32_t offset = random_.next_below(kRegionBytes - length);
        const std::vector<uint8_t> raw = random_bytes(random_.next_u64(), length);
        verbs::WriteRequest request{.id = id, .payload = pair_.payload(i, raw), .rkey = direction.write_key};
        request.remote_address = pair_.nodes[1 - i]->memory.address_of(direction.write_key) + offset;
        ASSERT_TRUE(qp.post_write(std::move(request)).ok());
        std::copy(raw.begin(), raw.end(), direction.model.begin() + offset);
        break;
      }
      default: {
        const uint32_t length = random_.next_below(8) == 0 ? 0 : random_.next_below(max_operation_bytes_);
        const uint32_t offset = random_.next_below(kRegionBytes - length);
        verbs::ReadRequest request{.id = id, .rkey = direction.read_key, .length = length};
        request.remote_address = pair_.nodes[1 - i]->memory.address_of(direction.read_key) + offset;
        request.fence = random_.next_below(4) == 0;
        ASSERT_TRUE(qp.post_read(std::move(request)).ok());
        direction.reads.push_back({offset, length});
        break;
      }
    }
    direction.ids.push_back(id.value());
    ++direction.posted;
  }

  void post_send(uint32_t i, verbs::WorkId id) {
    Direction& direction = directions_[i];
    const uint32_t size = random_.next_below(6) == 0 ? 0 : random_.next_below(8193);
    verbs::SendRequest request{.id = id,
                               .payload = pair_.payload(i, random_bytes(payload_seed(i, direction.posted_sends), size))};
    if (direction.posted_sends % 3 == 0) {
      request.immediate = direction.posted_sends;
    }
    ASSERT_TRUE(pair_.qps[i]->post_send(std::move(request)).ok());
    direction.send_sizes.push_back(size);
    ++direction.posted_sends;
  }

  uint64_t payload_seed(uint32_t i, uint32_t index) const { return seed_ * 100'000 + i * 50'000 + index; }

  void poll(uint32_t i) {
    verbs::Completion completion;
    while (pair_.qps[i]->poll_completion(completion)) {
      ASSERT_EQ(completion.status, verbs::WcStatus::kSuccess)
          << "seed " << seed_ << ": " << to_string(pair_.qps[i]->error().cause);
      if (completion.opcode == verbs::WcOpcode::kReceive) {
        check_receive(directions_[1 - i], 1 - i, completion);
        pair_.qps[i]->post_receives(1);
      } else {
        check_sent(directions_[i], completion);
      }
    }
    completion.payload.clear();
  }

  void check_receive(Direction& direction, uint32_t from, const verbs::Completion& completion) {
    ASSERT_FALSE(direction.send_sizes.empty()) << "seed " << seed_;
    const uint32_t index = direction.received_sends++;
    ASSERT_EQ(bytes_of(completion.payload), random_bytes(payload_seed(from, index), direction.send_sizes.front()))
        << "seed " << seed_ << " send " << index;
    ASSERT_EQ(completion.immediate.has_value(), index % 3 == 0);
    ASSERT_EQ(completion.immediate.value_or(index), index);
    direction.send_sizes.pop_front();
  }

  void check_sent(Direction& direction, const verbs::Completion& completion) {
    ASSERT_FALSE(direction.ids.empty()) << "seed " << seed_;
    ASSERT_EQ(completion.id.value(), direction.ids.front()) << "seed " << seed_;
    direction.ids.pop_front();
    ++direction.completions;
    if (completion.opcode == verbs::WcOpcode::kRdmaRead) {
      const PostedRead read = direction.reads.front();
      direction.reads.pop_front();
      const std::vector<uint8_t> wanted(direction.readable.begin() + read.offset,
                                        direction.readable.begin() + read.offset + read.length);
      ASSERT_EQ(bytes_of(completion.payload), wanted) << "seed " << seed_;
    }
  }

  void check_end() {
    for (uint32_t i = 0; i < 2; ++i) {
      ASSERT_TRUE(finished(i)) << "seed " << seed_ << " node " << i << ": " << directions_[i].completions << " of "
                               << directions_[i].posted << " done, " << directions_[i].received_sends << " of "
                               << directions_[i].posted_sends << " received, " << to_string(pair_.qps[i]->error().cause);
      ASSERT_TRUE(directions_[i].writable == directions_[i].model) << "seed " << seed_;
      ASSERT_TRUE(pair_.qps[i]->is_consistent()) << "seed " << seed_;
    }
    pair_.destroy();
    ASSERT_EQ(pool_.available(), seed_ % 5 == 0 ? 2 * kReceivesPosted : 0) << "seed " << seed_;
    ASSERT_EQ(pair_.buffers_in_use(), 0u) << "seed " << seed_;
  }

  SeededRandom random_;
  uint64_t seed_;
  uint32_t max_operation_bytes_ = 0;
  rc::ReceivePool pool_;  // of both ends, for some seeds
  RcPair pair_;
  std::array<Direction, 2> directions_;
};

// Proves RPCRDMA-2.3.2-4, RPCRDMA-2.3.2-5.
TEST(RcRandom, EveryMessageArrivesOnceInOrderAndIntactOverABadLink) {
  rc::RcStats total;
  // The second time looks for what differs, and a sanitizer for what any of them would show.
  const uint64_t seeds = cw::test::takes_express_paths() && !cw::test::kSanitized ? 500 : 200;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    Workload workload(seed);
    workload.run();
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
    for (uint32_t node = 0; node < 2; ++node) {
      const rc::RcStats& stats = workload.stats(node);
      total.ack_timeouts += stats.ack_timeouts;
      total.naks_received[0] += stats.naks_received[0];
      total.rnr_naks_received += stats.rnr_naks_received;
      total.implied_naks += stats.implied_naks;
      total.tail_probes += stats.tail_probes;
      total.duplicate_requests += stats.duplicate_requests;
      total.reads_replayed += stats.reads_replayed;
      total.window_stalls += stats.window_stalls;
      total.ecn_marked += stats.ecn_marked;
      total.gap_reports_received += stats.gap_reports_received;
      total.packets_held += stats.packets_held;
      total.holds_refused += stats.holds_refused;
    }
  }
  // The weather was bad enough to have tried everything.
  for (const uint64_t count : {total.ack_timeouts, total.naks_received[0], total.rnr_naks_received, total.implied_naks,
                               total.tail_probes, total.duplicate_requests, total.reads_replayed, total.window_stalls,
                               total.ecn_marked, total.gap_reports_received, total.packets_held, total.holds_refused}) {
    EXPECT_GT(count, 10u);
  }
}

// The peer itself sends nonsense: any opcode, PSNs around the interesting ones, any syndrome, any lengths. It can end its
// connection, and nothing else: the queue pair stays consistent, memory outside the region stays as it is, nothing leaks (checked
// by LoneQp).
TEST(RcRandom, NonsenseFromThePeerCostsAtMostItsOwnConnection) {
  SeededRandom random(99);
  for (uint32_t round = 0; round < 400; ++round) {
    rc::test::LoneQpOptions options = rc::test::client_options();
    options.connect.peer_hold_packets = round % 2 == 0 ? 0 : 512;
    options.qp.remote_access = verbs::RemoteAccess::kAll;
    options.qp.advertise_credits = round % 4 < 2;
    rc::test::LoneQp lone(options);
    std::vector<uint8_t> memory(3000, 0xee);
    const verbs::Rkey key = *lone.memory.register_region(verbs::ProtectionDomain(7), MutableBytes(memory).subspan(1000, 1000),
                                                         verbs::RemoteAccess::kAll);
    lone.qp->post_receives(random.next_below(8));
    for (uint32_t packet = 0; packet < 100 && !lone.qp->in_error(); ++packet) {
      if (random.next_below(3) == 0) {
        const uint32_t what = random.next_below(3);
        (void)(what == 0   ? lone.post_send(random.next_below(1500))
               : what == 1 ? lone.post_read(random.next_below(1500))
                           : lone.post_fetch_add(1));
      }
      rc::test::Inbound inbound;
      do {
        inbound.opcode = static_cast<wire::Opcode>(random.next_below(0x19));
        inbound.opcode = inbound.opcode == static_cast<wire::Opcode>(0x18) ? wire::Opcode::kRcGapReport : inbound.opcode;
      } while (wire::traits_of(inbound.opcode).kind == wire::OpcodeKind::kReserved);
      const wire::OpcodeTraits& traits = wire::traits_of(inbound.opcode);
      const rc::RcQpInfo info = lone.qp->info();
      const wire::Psn base = traits.is_request ? info.expected_psn : info.una;
      inbound.psn = base.plus(random.next_below(3) == 0 ? random.next_below(8) - 4 : 0).value();
      if (traits.may_carry_payload) {
        inbound.payload.resize(random.next_below(2) == 0 ? 256 : random.next_below(300));
        if (traits.kind == wire::OpcodeKind::kGapReport) {
          inbound.payload = random_bytes(random.next_u64(), random.next_below(8) == 0 ? 7 : 8 * (1 + random.next_below(9)));
          inbound.extensions.aeth.syndrome = 0x60;
        }
      }
      if (traits.kind != wire::OpcodeKind::kGapReport || random.next_below(8) == 0) {
        inbound.extensions.aeth.syndrome = static_cast<uint8_t>(random.next_below(4) == 0 ? random.next_below(256) : 31);
      }
      const uint64_t address = lone.memory.address_of(key) + random.next_below(3) * 500 - 500;
      inbound.extensions.reth = wire::Reth{address, key, random.next_below(2) == 0 ? 256 : random.next_below(1200)};
      inbound.extensions.atomic_eth = wire::AtomicEth{address + random.next_below(2) * 4, key, random.next_u64(), 0};
      inbound.ack_request = random.next_below(2) == 0;
      lone.receive(inbound);
      if (random.next_below(2) == 0) {
        (void)lone.sent();
      }
      if (random.next_below(8) == 0) {
        lone.pass(Duration::us(random.next_below(2000)));
      }
      if (random.next_below(4) == 0) {
        (void)lone.completions();
      }
    }
    EXPECT_TRUE(std::all_of(memory.begin(), memory.begin() + 1000, [](uint8_t byte) { return byte == 0xee; }));
    EXPECT_TRUE(std::all_of(memory.begin() + 2000, memory.end(), [](uint8_t byte) { return byte == 0xee; }));
    (void)lone.sent();
    (void)lone.completions();
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
}

}  // namespace
}  // namespace cw::sim
