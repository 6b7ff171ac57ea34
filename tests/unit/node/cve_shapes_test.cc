// What went wrong in other RDMA stacks, tried on a whole gateway at work: tests/requirements/hostile.md has the list. Each test
// is named after its origin and says in one sentence what its shape is.
#include <gtest/gtest.h>

#include "rocev2/wire/opcode.h"
#include "tests/support/rc_info.h"
#include "tests/unit/node/attacked_world.h"

namespace cw::node::test {
namespace {

using wire::Opcode;

constexpr size_t kBth = kIpOffset + 20 + 8;

// Lengths, checksum and iCRC are right for whatever the frame is now.
void repair_ipv4(ByteVector& frame) {
  store_be16(&frame[kIpOffset + 2], static_cast<uint16_t>(frame.size() - kIpOffset));
  store_be16(&frame[kIpOffset + 24], static_cast<uint16_t>(frame.size() - kIpOffset - 20));
  fix_ipv4_checksum(frame, kIpOffset);
  if (frame.size() >= kBth + wire::Bth::kSize + wire::kIcrcBytes) {
    fix_icrc(frame, kIpOffset);
  }
}

// rxe computed the payload's size as what remains behind padding and iCRC without having proved that so much is there, and it
// became enormous: no length and pad count of any opcode yields a payload that lies outside of the packet.
TEST(CveShapes, CVE_2026_46043_PayloadSizeCannotUnderflow) {
  AttackedWorld attacked;
  const rc::RcQpInfo qp = cw::test::rc_info(attacked.connection(0));
  uint32_t refused = 0;
  for (uint32_t code = 0; code <= 0xff; ++code) {
    const wire::OpcodeTraits& traits = wire::traits_of(static_cast<Opcode>(code));
    if (traits.kind == wire::OpcodeKind::kReserved) {
      continue;
    }
    // Far outside of the PSN window, so that what is well formed changes nothing either.
    const ByteVector bare =
        AttackedWorld::frame(qp, static_cast<Opcode>(code), (traits.is_request ? qp.expected_psn : qp.next_psn).plus(1u << 22));
    for (size_t bytes = wire::Bth::kSize; bytes <= wire::Bth::kSize + traits.extension_bytes + 4u + 4u; ++bytes) {
      for (uint8_t pads = 0; pads <= 3; ++pads) {
        ByteVector frame = bare;
        frame.resize(kBth + bytes);
        frame[kBth + 1] = static_cast<uint8_t>(0x40 | (pads << 4));
        repair_ipv4(frame);
        const auto view = wire::PacketView::parse(frame);
        const size_t around = wire::Bth::kSize + traits.extension_bytes + pads + wire::kIcrcBytes;
        ASSERT_EQ(view.ok(), bytes >= around && (pads == 0 || bytes > around)) << traits.name << " " << bytes << " " << int{pads};
        if (view.ok()) {
          ASSERT_EQ(view->payload.size(), bytes - around);
        } else {
          attacked.expect_refused(
              frame, bytes < wire::Bth::kSize + traits.extension_bytes + 4u ? DropReason::kRunt : DropReason::kPadCount,
              traits.name);
          ++refused;
        }
      }
    }
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(refused, 1000u);
  attacked.expect_unharmed();
}

// rxe (commit 1114c87) executed an ATOMIC WRITE without payload by reading eight bytes behind the packet and leaked them: the
// opcode does not exist here, and an atomic that does is refused before its operands are looked at.
TEST(CveShapes, RXE_1114c87_AtomicWriteWithoutPayloadReadsNothing) {
  AttackedWorld attacked;
  const rc::RcQpInfo qp = cw::test::rc_info(attacked.connection(0));
  wire::Extensions extensions;
  extensions.reth = {.address = 0x1000, .rkey = verbs::Rkey(1), .length = 8};
  ByteVector frame = AttackedWorld::frame(qp, Opcode::kRcWriteOnly, qp.expected_psn, 0, extensions);
  frame[kBth] = 0x1d;
  repair_ipv4(frame);
  attacked.expect_refused(frame, DropReason::kOpcode, "ATOMIC WRITE");  // inject() ends the memory where the frame ends
  for (const Opcode opcode : {Opcode::kRcCompareSwap, Opcode::kRcFetchAdd}) {
    ByteVector atomic = AttackedWorld::frame(qp, opcode, qp.expected_psn);
    for (size_t size = kBth + wire::Bth::kSize; size < atomic.size(); ++size) {
      ByteVector cut(atomic.begin(), atomic.begin() + static_cast<ptrdiff_t>(size));
      repair_ipv4(cut);
      attacked.expect_refused(cut, DropReason::kRunt, "atomic cut to " + std::to_string(size));
    }
  }
  attacked.expect_unharmed();
}

// rxe moved a queue pair to Error for a datagram that was too long, where it should have dropped it silently: datagrams of any
// length and for anybody, QP1 included, are dropped under one reason, and no queue pair notices.
TEST(CveShapes, CVE_2024_40992_OversizeDatagramsAreDroppedSilently) {
  AttackedWorld attacked;
  const rc::RcQpInfo qp = cw::test::rc_info(attacked.connection(0));
  for (const size_t bytes : {257u, 512u, 1024u, 1028u, 2048u, 4096u, 4100u, 8192u}) {
    attacked.world.step();
    attacked.expect_refused(AttackedWorld::frame(qp, Opcode::kUdSendOnly, qp.expected_psn, bytes), DropReason::kNotDatagram,
                            "datagram of " + std::to_string(bytes) + " to a connected queue pair");
    attacked.expect_refused(attacked.datagram(ByteVector(bytes, 1), sim::sim_ip(false, 2)), DropReason::kMalformedMad,
                            "datagram of " + std::to_string(bytes) + " to QP1");
  }
  attacked.expect_unharmed();
}

// iwcm freed a connection's object while work for it was pending: a client that goes away in any moment of its set-up, while
// the backend is being opened and the answer is on its way, leaves nothing behind, and what arrives for it later finds nobody.
TEST(CveShapes, CVE_2024_42285_ConnectionsThatEndWithWorkPendingLeaveNothing) {
  for (uint32_t moment_us = 0; moment_us < 4000; moment_us += 37) {
    sim::WorldOptions options = AttackedWorld::options();
    options.load.connections = 1;
    options.load.reconnect = false;
    options.backend = gateway::BackendKind::kTcp;
    options.packet_buffers = 2048;
    options.large_buffers = 64;
    sim::World world(options);
    world.server->backend.open_delay = Duration::ms(2);
    world.server->backend.call_delay = Duration::us(300);
    world.start();
    world.run_for(Duration::us(moment_us));
    for (uint32_t id = 0; id < 4; ++id) {
      world.peer->client.disconnect(world.now, client::ClientId(id));
    }
    world.peer->driver.stop();
    ASSERT_TRUE(world.run_until(Duration::seconds(60), [](sim::World& w) {
      return w.server->gateway.stats().connections_open == 0 && w.server->node.cm().live_count() == 0 && w.link.empty();
    })) << moment_us;
    world.run_for(Duration::seconds(12));
    EXPECT_EQ(world.server->node.cm().timewait_count(), 0u) << moment_us;
    EXPECT_EQ(world.server->node.endpoint().qp_count(), 0u) << moment_us;
    EXPECT_EQ(world.server->backend.open_count(), 0u) << moment_us;
    EXPECT_EQ(world.server->gateway.stats().backends[0].links, 0u) << moment_us;
    EXPECT_EQ(world.server->gateway.stats().backends[0].calls_in_flight, 0u) << moment_us;
    EXPECT_EQ(world.server->packets.in_use(), 0u) << moment_us;
    EXPECT_EQ(world.server->large.in_use(), 0u) << moment_us;
    EXPECT_TRUE(world.server->node.cm().is_consistent());
    ASSERT_FALSE(HasFailure());
  }
}

// nvme-rdma destroyed the connection's object before its queue pair, which still used it: here the queue pair goes first, at
// once, and the connection manager finishes its teardown without it, while the peer's packets find nobody.
TEST(CveShapes, CVE_2021_47378_TheQueuePairGoesBeforeItsConnection) {
  for (const bool answered : {true, false}) {
    AttackedWorld attacked;
    sim::GatewayHost& host = *attacked.world.server;
    attacked.world.peer->driver.stop();
    const ByteVector heard = attacked.heard.back();
    const rc::RcQpInfo qp = cw::test::rc_info(attacked.connection(0));
    host.gateway.shut_down(attacked.world.now);
    EXPECT_EQ(host.node.endpoint().qp_count(), 0u);
    EXPECT_EQ(host.node.cm().live_count(), 2u);  // DREQ is out, or about to be
    EXPECT_FALSE(host.gateway.is_quiet());
    attacked.expect_refused(heard, DropReason::kUnknownQp, "late packet of the peer");
    attacked.expect_refused(AttackedWorld::frame(qp, Opcode::kRcAcknowledge, qp.una), DropReason::kUnknownQp, "late ACK");
    attacked.world.link.faults.loss = answered ? 0 : 1000;
    EXPECT_TRUE(attacked.world.run_until(Duration::seconds(20), [](sim::World& w) { return w.server->gateway.is_quiet(); }));
    const auto outcome = answered ? cm::CmOutcome::kLocalDisconnect : cm::CmOutcome::kUnanswered;
    EXPECT_EQ(host.node.cm().stats().ended(outcome), 2u);
    attacked.world.run_for(Duration::seconds(12));
    EXPECT_EQ(host.node.cm().timewait_count(), 0u);
    EXPECT_TRUE(host.node.cm().next_deadline().is_never());
    EXPECT_EQ(host.packets.in_use(), 0u);
    EXPECT_EQ(host.large.in_use(), 0u);
    EXPECT_TRUE(host.node.cm().is_consistent());
  }
}

// smbdirect granted credits from a count of posted receives that raced with their use (CVE-2026-31538, -31539): at every instant
// a connection has a receive for each credit that its client may still use.
TEST(CveShapes, CVE_2026_31538_EveryCreditHasAReceiveBehindIt) {
  for (const uint32_t credits : {1u, 3u, 16u}) {
    sim::WorldOptions options = AttackedWorld::options();
    options.credits = credits;
    options.load.window = 32;  // more than is granted
    AttackedWorld attacked(options);
    uint32_t busiest = 0;
    for (uint32_t step = 0; step < 3'000; ++step) {
      attacked.world.step();
      attacked.world.server->gateway.run(attacked.world.now);  // what arrived last is a call now
      for (uint32_t i = 0; i < 2; ++i) {
        const gateway::ConnectionInfo info = attacked.connection(i);
        ASSERT_EQ(info.credits_granted, credits);
        ASSERT_LE(info.calls_in_flight, credits);
        ASSERT_GE(cw::test::rc_info(info).receives_posted + info.calls_in_flight, credits) << step;
        busiest = std::max(busiest, info.calls_in_flight);
      }
    }
    EXPECT_GT(busiest, 0u);
    EXPECT_EQ(attacked.world.server->node.endpoint().stats().rnr_naks_sent, 0u);
    attacked.expect_unharmed();
  }
}

}  // namespace
}  // namespace cw::node::test
