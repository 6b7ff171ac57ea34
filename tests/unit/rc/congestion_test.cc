// Congestion: marks are answered by notifications, notifications limit the rate, and neither can be used to starve a connection.
#include <gtest/gtest.h>

#include <array>

#include "rocev2/rc/dcqcn.h"
#include "rocev2/wire/cnp.h"
#include "tests/unit/rc/lone_qp.h"

namespace cw::rc::test {
namespace {

constexpr DcqcnLimits kLimits{.line_rate = 1'250'000'000, .floor_rate = 12'500'000};
constexpr Instant kStart = Instant::from_ns(1'000'000'000);

Inbound cnp() {
  return {.opcode = Opcode::kCnp, .psn = 0, .payload = std::vector<uint8_t>(16)};
}

// Delivers a frame of the peer with the mark Congestion Experienced, which the iCRC does not cover.
void receive_marked(LoneQp& lone, uint32_t psn) {
  wire::Path path = sim::RcPair::path(1);
  lone.receive(Inbound{.opcode = kOnly, .psn = psn, .payload = random_bytes(psn, 16), .path = path, .marked = true});
}

TEST(Dcqcn, TheFirstNotificationHalvesTheRateAndFastRecoveryBringsItBack) {
  Dcqcn rate(kStart, kLimits);
  EXPECT_TRUE(rate.on_cnp(kStart));
  EXPECT_EQ(rate.rate(), kLimits.line_rate / 2);
  Instant now = kStart;
  uint64_t before = rate.rate();
  for (uint32_t i = 0; i < Dcqcn::kFastRecoverySteps; ++i) {
    now = now + Dcqcn::kRiseInterval;
    rate.on_sent(now, 0);
    EXPECT_NEAR(static_cast<double>(rate.rate()), (static_cast<double>(before) + static_cast<double>(kLimits.line_rate)) / 2,
                2.0);
    before = rate.rate();
  }
  EXPECT_FALSE(rate.is_over(now));
  EXPECT_TRUE(rate.is_over(now + Duration::ms(50)));
  EXPECT_EQ(rate.rate(), kLimits.line_rate);
}

TEST(Dcqcn, NotificationsInOneIntervalCutOnce) {
  Dcqcn rate(kStart, kLimits);
  EXPECT_TRUE(rate.on_cnp(kStart));
  for (int64_t i = 1; i < 50; ++i) {
    EXPECT_FALSE(rate.on_cnp(kStart + Duration::us(i)));
  }
  EXPECT_EQ(rate.rate(), kLimits.line_rate / 2);
  EXPECT_TRUE(rate.on_cnp(kStart + Duration::us(50)));
}

TEST(Dcqcn, NoNumberOfNotificationsGoesBelowTheFloor) {
  Dcqcn rate(kStart, kLimits);
  for (int64_t i = 0; i < 10'000; ++i) {
    (void)rate.on_cnp(kStart + Dcqcn::kCutInterval * i);
    EXPECT_GE(rate.rate(), kLimits.floor_rate);
  }
  EXPECT_EQ(rate.rate(), kLimits.floor_rate);
}

TEST(Dcqcn, SpacesWhatIsSentAndMakesUpForAtMostALittleDelay) {
  Dcqcn rate(kStart, kLimits);
  (void)rate.on_cnp(kStart);
  rate.on_sent(kStart + Duration::seconds(1), 0);  // long silence buys no burst
  Instant now = kStart + Duration::us(1);
  Dcqcn fresh(kStart, kLimits);
  (void)fresh.on_cnp(kStart);  // 625 MB/s
  uint64_t sent = 0;
  for (; now < kStart + Duration::us(250); now = now + Duration::us(10)) {
    while (fresh.next_send_at() <= now) {
      fresh.on_sent(now, 1000);
      sent += 1000;
    }
  }
  EXPECT_NEAR(static_cast<double>(sent), 625.0 * 250, 10'000.0);
}

TEST(Congestion, AMarkIsAnsweredByOneNotificationPerInterval) {
  LoneQp lone;
  lone.qp->post_receives(16);
  for (uint32_t psn = 5000; psn < 5003; ++psn) {
    receive_marked(lone, psn);
  }
  EXPECT_EQ(lone.sent(), (SentList{{Opcode::kCnp, 0, false, 16}, ack(5002, 3)}));
  const auto view = wire::PacketView::parse(lone.frames[0]);
  EXPECT_TRUE(view->bth.becn);
  receive_marked(lone, 5003);
  EXPECT_EQ(lone.sent(), (SentList{ack(5003, 4)}));
  lone.pass(Duration::us(50));
  receive_marked(lone, 5004);
  EXPECT_EQ(lone.sent().size(), 2u);
  EXPECT_EQ(lone.endpoint->stats().cnps_sent, 2u);
  EXPECT_EQ(lone.endpoint->stats().ecn_marked, 5u);
  (void)lone.completions();
}

TEST(Congestion, SwitchedOffItSendsNoEctAnswersNoMarkAndObeysNoNotification) {
  LoneQpOptions options;
  options.qp.congestion_control = false;
  LoneQp lone(options);
  lone.qp->post_receives(1);
  receive_marked(lone, 5000);
  EXPECT_EQ(lone.sent(), (SentList{ack(5000, 1)}));
  EXPECT_EQ(wire::PacketView::parse(lone.frames[0])->ecn, 0);
  ASSERT_TRUE(lone.post_send(1000).ok());
  lone.receive(cnp());
  EXPECT_EQ(lone.endpoint->stats().cnps_ignored, 1u);
  EXPECT_EQ(lone.qp->info().rate_bytes_per_second, 0u);
  (void)lone.completions();
}

TEST(Congestion, PacketsAreEcnCapable) {
  LoneQp lone;
  ASSERT_TRUE(lone.post_send(10).ok());
  (void)lone.sent();
  EXPECT_EQ(wire::PacketView::parse(lone.frames[0])->ecn, 2);
}

TEST(Congestion, ANotificationToAQueuePairThatSendsNothingCostsNothing) {
  LoneQp lone;
  for (uint32_t i = 0; i < 100; ++i) {
    lone.receive(cnp());
  }
  EXPECT_EQ(lone.qp->info().rate_bytes_per_second, 0u);
  EXPECT_EQ(lone.endpoint->stats().cnps_ignored, 100u);
}

TEST(Congestion, ANotificationFromElsewhereIsNotBelieved) {
  LoneQp lone;
  ASSERT_TRUE(lone.post_send(10).ok());
  (void)lone.sent();
  Inbound forged = cnp();
  forged.path.local = IpAddress::v4(0x0a0000ff);
  lone.receive(forged);
  EXPECT_EQ(lone.discards(DropReason::kPathMismatch), 1u);
  EXPECT_EQ(lone.qp->info().rate_bytes_per_second, 0u);
}

TEST(Congestion, WithoutRoomForARateTheNotificationIsCountedAndIgnored) {
  LoneQpOptions options;
  options.endpoint.rate_limits_max = 0;
  LoneQp lone(options);
  ASSERT_TRUE(lone.post_send(10).ok());
  lone.receive(cnp());
  EXPECT_EQ(lone.endpoint->stats().cnps_ignored, 1u);
  EXPECT_EQ(lone.sent().size(), 1u);
}

// A rate keeps what we ask for from being sent, not the peer from answering: its READs say nothing of our SEND.
TEST(Congestion, AnswersToReadsDoNotPutOffTheTimeoutOfALostSend) {
  LoneQp lone(client_options());
  std::vector<uint8_t> region(64, 0xee);
  const verbs::Rkey key = *lone.memory.register_region(verbs::ProtectionDomain(7), region, verbs::RemoteAccess::kRead);
  ASSERT_TRUE(lone.post_send(10).ok());
  EXPECT_EQ(lone.sent().size(), 1u);
  lone.receive(cnp());
  ASSERT_GT(lone.qp->info().rate_bytes_per_second, 0u);
  for (uint32_t psn = 5000; psn < 5008; ++psn) {
    Inbound read{.opcode = Opcode::kRcReadRequest, .psn = psn};
    read.extensions.reth = wire::Reth{lone.memory.address_of(key), key, 64};
    lone.receive(read);
    lone.pass(Duration::us(500));
    (void)lone.sent();
  }
  EXPECT_GT(lone.endpoint->stats().ack_timeouts, 0u);
}

// Streams of SENDs from node 0 to node 1 over one bottleneck.
class Bottleneck {
 public:
  static constexpr uint32_t kMtu = 1024;
  static constexpr uint32_t kMessageBytes = 8 * kMtu;

  explicit Bottleneck(bool congestion_control) : pair_(options(congestion_control)) {
    pair_.link.faults.delay = Duration::us(5);
    pair_.link.faults.bytes_per_second = 1'250'000'000;
    pair_.link.faults.mark_queue_bytes = 40'000;
    pair_.link.faults.queue_bytes_max = 400'000;
    flows_[0] = {pair_.qps[0], pair_.qps[1]};
    for (uint32_t i = 1; i < flows_.size(); ++i) {
      flows_[i] = {*pair_.endpoint(0).create_qp(qp_options(congestion_control)),
                   *pair_.endpoint(1).create_qp(qp_options(congestion_control))};
      RcConnect connect = options(congestion_control).connect;
      connect.path = sim::RcPair::path(0);
      connect.remote_qpn = flows_[i].receiver->local_qpn();
      EXPECT_TRUE(pair_.endpoint(0).connect_qp(*flows_[i].sender, connect).ok());
      connect.path = sim::RcPair::path(1);
      connect.remote_qpn = flows_[i].sender->local_qpn();
      EXPECT_TRUE(pair_.endpoint(1).connect_qp(*flows_[i].receiver, connect).ok());
    }
    for (const Flow& flow : flows_) {
      flow.receiver->post_receives(1'000'000);
    }
  }
  ~Bottleneck() {
    for (uint32_t i = 1; i < flows_.size(); ++i) {
      pair_.endpoint(0).destroy_qp(*flows_[i].sender);
      pair_.endpoint(1).destroy_qp(*flows_[i].receiver);
    }
    pair_.destroy();
    EXPECT_EQ(pair_.buffers_in_use(), 0u);
  }

  // Runs the flows that are switched on for a while; bytes per second that each moved.
  std::array<double, 2> run(Duration time) {
    std::array<uint64_t, 2> received{};
    const Instant end = pair_.now + time;
    while (pair_.now < end) {
      for (uint32_t i = 0; i < flows_.size(); ++i) {
        turn(i, received[i]);
      }
      if (!pair_.step()) {
        pair_.now = pair_.now + Duration::us(10);
      }
      EXPECT_TRUE(flows_[0].sender->is_consistent() && flows_[0].receiver->is_consistent());
    }
    return {static_cast<double>(received[0]) / time.to_seconds(), static_cast<double>(received[1]) / time.to_seconds()};
  }

  sim::RcPair& pair() { return pair_; }
  RcQp& sender(uint32_t flow) { return *flows_[flow].sender; }
  std::array<bool, 2> runs{true, true};
  bool forges = false;  // someone sends the first flow a notification at every opportunity

 private:
  struct Flow {
    RcQp* sender = nullptr;
    RcQp* receiver = nullptr;
  };

  static RcOptions qp_options(bool congestion_control) {
    RcOptions options;
    options.send_window_packets = 256;
    options.receive_bytes_max = 1u << 20;
    options.congestion_control = congestion_control;
    options.rate = kLimits;
    return options;
  }
  static sim::RcPairOptions options(bool congestion_control) {
    sim::RcPairOptions options = pair_options();
    options.connect.path_mtu_bytes = kMtu;
    options.qp = qp_options(congestion_control);
    return options;
  }

  void turn(uint32_t i, uint64_t& received) {
    Flow& flow = flows_[i];
    verbs::Completion completion;
    while (flow.sender->poll_completion(completion)) {
      completion.payload.clear();
      --queued_[i];
    }
    while (flow.receiver->poll_completion(completion)) {
      received += completion.bytes;
      completion.payload.clear();
    }
    while (runs[i] && queued_[i] < 64) {
      EXPECT_TRUE(flow.sender->post_send({.payload = pair_.payload(0, raw_)}).ok());
      ++queued_[i];
    }
    if (forges && i == 0) {
      forge();
    }
  }
  void forge() {
    wire::TxPacket packet;
    packet.head = pair_.nodes[0]->head_pool.allocate_one();
    wire::build_packet(packet, wire::PathHeader(sim::RcPair::path(1)), 1, wire::cnp_bth(flows_[0].sender->local_qpn()), {},
                       Bytes(wire::kCnpReserved));
    pair_.deliver(0, packet.raw());
    release_buffers(packet.head);
  }

  sim::RcPair pair_;
  std::array<Flow, 2> flows_;
  std::array<uint32_t, 2> queued_{};
  const std::vector<uint8_t> raw_ = std::vector<uint8_t>(kMessageBytes, 0x5a);
};

constexpr double kPayloadRate = 1'250'000'000.0 * 1024 / 1106;  // of 10 Gb/s

TEST(Congestion, WithoutControlTwoFlowsOverflowTheBottleneck) {
  Bottleneck bottleneck(false);
  (void)bottleneck.run(Duration::ms(5));
  EXPECT_GT(bottleneck.pair().link.overflows(), 0u);
}

TEST(Congestion, TwoFlowsShareABottleneckFairlyAndLoseNothing) {
  Bottleneck bottleneck(true);
  (void)bottleneck.run(Duration::ms(20));  // the first microseconds are those of full windows
  const uint64_t overflows = bottleneck.pair().link.overflows();
  const auto rates = bottleneck.run(Duration::ms(60));
  std::printf("10 Gb/s shared by DCQCN: %.0f and %.0f MB/s, %llu notifications, %llu cuts\n", rates[0] / 1e6, rates[1] / 1e6,
              static_cast<unsigned long long>(bottleneck.pair().stats(0).cnps_received),
              static_cast<unsigned long long>(bottleneck.pair().stats(0).rate_cuts));
  EXPECT_EQ(bottleneck.pair().link.overflows(), overflows);
  EXPECT_GT(rates[0] + rates[1], 0.8 * kPayloadRate);
  EXPECT_GT(std::min(rates[0], rates[1]) / std::max(rates[0], rates[1]), 0.7);
  EXPECT_EQ(bottleneck.pair().stats(0).ack_timeouts, 0u);
}

TEST(Congestion, AFloodOfForgedNotificationsLeavesTheFloorAndPasses) {
  Bottleneck bottleneck(true);
  bottleneck.runs = {true, false};
  bottleneck.forges = true;
  (void)bottleneck.run(Duration::ms(20));
  const auto flooded = bottleneck.run(Duration::ms(50));
  EXPECT_GT(flooded[0], 0.9 * static_cast<double>(kLimits.floor_rate));
  EXPECT_LT(flooded[0], 0.1 * kPayloadRate);
  EXPECT_EQ(bottleneck.pair().stats(0).ack_timeouts, 0u);
  bottleneck.forges = false;
  (void)bottleneck.run(Duration::ms(30));
  const auto after = bottleneck.run(Duration::ms(20));
  EXPECT_GT(after[0], 0.8 * kPayloadRate);
}

}  // namespace
}  // namespace cw::rc::test
