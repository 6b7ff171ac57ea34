// What a peer chooses in its REQ and its REP reaches the queue pair within bounds of ours, whatever it says: the table of
// control/cm/README.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <optional>

#include "tests/support/rc_info.h"
#include "tests/unit/node/attacked_world.h"
#include "tests/unit/node/forged_messages.h"

namespace cw::node::test {
namespace {

struct Ours {
  uint8_t retry_count;
  uint8_t rnr_retry_count;
  uint8_t ack_timeout_min_code;
  uint8_t reads_in_flight = 16;
};

class PeerChoices : public ::testing::Test {
 protected:
  // The queue pair that a stranger's REQ gets, which is the standard one but for what `choose` changes. nullopt: none.
  template <typename Choose>
  std::optional<rc::RcQpInfo> ask(Choose&& choose) {
    const uint32_t number = ++asked_;
    const IpAddress from = stranger(number % 250);
    cm::Req req = request_from(from, 0x1000'0000 + number, verbs::Qpn(0x100 + number));
    choose(req);
    (void)attacked_.inject(attacked_.datagram(mad_of(req), from));
    attacked_.world.run_for(Duration::us(100));
    std::vector<gateway::ConnectionInfo> all(64);
    all.resize(attacked_.world.server->gateway.describe(attacked_.world.now, all));
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.qp.remote_qpn == req.local_qpn; });
    return found == all.end() ? std::nullopt : std::optional(cw::test::rc_info(*found));
  }
  void set(const Ours& ours) {
    RoceOptions options = sim::sim_roce_options(AttackedWorld::options());
    options.retry_count = ours.retry_count;
    options.rnr_retry_count = ours.rnr_retry_count;
    options.ack_timeout_min_code = ours.ack_timeout_min_code;
    options.rc.initiator_depth_max = ours.reads_in_flight;
    attacked_.world.server->transport.reconfigure(options);
  }
  uint64_t rejects(cm::RejectReason reason) {
    return attacked_.world.server->node.cm().stats().rejects_sent[static_cast<size_t>(reason)];
  }

  AttackedWorld attacked_;

 private:
  uint32_t asked_ = 0;
};

TEST_F(PeerChoices, RetriesAreTheFewerOfThePeersAndOurs) {
  for (const Ours& ours : {Ours{7, 7, 14}, Ours{4, 2, 14}}) {
    set(ours);
    for (uint8_t asked = 0; asked <= 7; ++asked) {
      const auto qp = ask([&](cm::Req& req) {
        req.retry_count = asked;
        req.rnr_retry_count = static_cast<uint8_t>(7 - asked);
      });
      ASSERT_TRUE(qp.has_value());
      EXPECT_EQ(qp->retry_count, std::min(asked, ours.retry_count));
      EXPECT_EQ(qp->rnr_retry, std::min<uint8_t>(7 - asked, ours.rnr_retry_count));
    }
  }
}

// 0 means "no timeout" in the standard, and 31 two and a half hours.
TEST_F(PeerChoices, TheAckTimeoutIsThePeersBetweenOursAndTheLongest) {
  for (const uint8_t ours : {rc::kAckTimeoutMin, uint8_t{14}, rc::kAckTimeoutMax}) {
    set({7, 7, ours});
    for (const uint8_t asked : std::initializer_list<uint8_t>{0, 1, 13, 14, 15, 19, 20, 21, 31}) {
      const auto qp = ask([&](cm::Req& req) { req.primary.ack_timeout_code = asked; });
      ASSERT_TRUE(qp.has_value());
      EXPECT_EQ(qp->ack_timeout, std::clamp(asked, ours, rc::kAckTimeoutMax)) << int{asked} << " with " << int{ours};
    }
  }
}

TEST_F(PeerChoices, ReadsInFlightAreTheFewerOfThePeersAndOurs) {
  for (const uint8_t ours : std::initializer_list<uint8_t>{16, 4}) {
    set({7, 7, 14, ours});
    for (const uint8_t asked : std::initializer_list<uint8_t>{0, 1, 15, 16, 17, 255}) {
      const auto qp = ask([&](cm::Req& req) {
        req.responder_resources = asked;
        req.initiator_depth = 255;
      });
      ASSERT_TRUE(qp.has_value());
      EXPECT_EQ(qp->reads_max, std::min(asked, ours)) << int{asked} << " with " << int{ours};
    }
  }
}

TEST_F(PeerChoices, ThePathMtuIsThePeersIfItExists) {
  for (const uint8_t asked : std::initializer_list<uint8_t>{1, 2, 3, 4, 5}) {
    const auto qp = ask([&](cm::Req& req) { req.path_mtu = static_cast<cm::PathMtu>(asked); });
    ASSERT_TRUE(qp.has_value());
    EXPECT_EQ(qp->path_mtu_bytes, 128u << asked);
  }
  for (const uint8_t asked : std::initializer_list<uint8_t>{0, 6, 7, 15}) {
    const uint64_t before = rejects(cm::RejectReason::kInvalidMtu);
    EXPECT_FALSE(ask([&](cm::Req& req) { req.path_mtu = static_cast<cm::PathMtu>(asked); }).has_value()) << int{asked};
    EXPECT_EQ(rejects(cm::RejectReason::kInvalidMtu), before + 1) << int{asked};
  }
}

// A hop limit of the peer's choosing would let it decide how far our packets travel.
TEST_F(PeerChoices, HopLimitTrafficClassAndRateAreOurs) {
  const auto usual = ask([](cm::Req&) {});
  ASSERT_TRUE(usual.has_value());
  for (const uint8_t asked : std::initializer_list<uint8_t>{0, 1, 255}) {
    const auto qp = ask([&](cm::Req& req) {
      req.primary.hop_limit = asked;
      req.primary.traffic_class = asked;
    });
    ASSERT_TRUE(qp.has_value());
    EXPECT_EQ(qp->path.hop_limit, usual->path.hop_limit);
    EXPECT_EQ(qp->path.dscp, usual->path.dscp);
    EXPECT_EQ(qp->rate_bytes_per_second, usual->rate_bytes_per_second);
  }
}

// The active side: its own ACK timeout, or longer for a peer that sits on its ACKs, and never longer than the longest.
TEST_F(PeerChoices, ATargetAckDelayOnlyLengthensTheAckTimeoutAndNotBeyondTheLongest) {
  node::Node& node = attacked_.world.peer->node;
  for (const uint8_t ours : {uint8_t{8}, uint8_t{14}}) {
    for (const uint8_t delay : std::initializer_list<uint8_t>{0, 5, 15, 20, 31}) {
      const auto qp = node.endpoint().create_qp({});
      ASSERT_TRUE(qp.ok());
      const wire::Path path = cw::test::rc_info(attacked_.connection(0)).path;
      const cm::CmAddress server{.local = path.remote, .remote = path.local, .remote_mac = path.local_mac};
      const cm::ConnectReply reply{.remote_qpn = verbs::Qpn(77), .peer_responder_resources = 255, .target_ack_delay_code = delay};
      const rc::RcConnect connect =
          node.connect_values(server, **qp, wire::Psn(1), reply, {.initiator = 4, .responder = 0}, ours);
      ASSERT_TRUE(node.endpoint().connect_qp(**qp, connect).ok());
      const rc::RcQpInfo info = (*qp)->info();
      EXPECT_GE(info.ack_timeout, ours);
      EXPECT_GE(info.ack_timeout, std::min(delay, rc::kAckTimeoutMax));
      EXPECT_LE(info.ack_timeout, rc::kAckTimeoutMax);
      EXPECT_EQ(info.reads_max, 4);
      node.endpoint().destroy_qp(**qp);
    }
  }
}

}  // namespace
}  // namespace cw::node::test
