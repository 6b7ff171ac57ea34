// What went wrong in other connection managers: tests/requirements/hostile.md has the list. Each test is named after its origin
// and says in one sentence what its shape is.
#include <gtest/gtest.h>

#include "tests/unit/cm/scripted_peer.h"

namespace cw::cm {
namespace {

using test::kOurQpn;
using test::kPeerCommId;
using test::linux_req;
using test::ScriptedPeer;
using S = ConnectionState;

// iwcm destroyed a connection from within one of its work items while others were still queued for it: the user ends a connection
// while an event of it waits, its timer is due and a message is on its way; there is one ending, and nothing later reaches it or
// the connection that took its slot.
TEST(CveShapes, CVE_2025_38211_AnEndingWithWorkQueuedIsTheOnlyOne) {
  CmOptions options;
  options.connection_max = 1;
  options.timewait_max = 0;
  ScriptedPeer t(options);
  t.accept();
  const ConnectionId old = t.id;
  const Rtu rtu = t.rtu();
  const Dreq dreq = t.dreq();
  t.now = t.now + Duration::ms(250);  // the repetition of REP is due
  t.deliver(rtu);                     // Established waits to be polled
  t.manager.disconnect(t.now, old);
  EXPECT_EQ(t.state(), S::kDreqSent);
  t.deliver(dreq);  // ours and theirs have crossed
  t.manager.on_deadline(t.now);
  const auto events = t.events();
  ASSERT_EQ(events.size(), 1u);
  ASSERT_NE(events[0].as<Disconnected>(), nullptr);
  t.sent();
  // The slot's next owner, with everything that was meant for the first.
  t.deliver(linux_req(t.peer, kPeerCommId + 1, verbs::Qpn(0x77)));
  t.only_event<ConnectRequest>();
  ASSERT_TRUE(t.manager.accept(t.now, t.id, t.accept_parameters()).ok());
  t.only<Rep>();
  EXPECT_EQ(t.manager.live_count(), 1u);
  t.deliver(rtu);
  t.deliver(dreq);
  t.deliver(Drep{.local_comm_id = kPeerCommId, .remote_comm_id = rtu.remote_comm_id});
  t.manager.data_arrived(t.now, old);
  t.manager.disconnect(t.now, old);
  EXPECT_FALSE(t.manager.accept(t.now, old, t.accept_parameters()).ok());
  EXPECT_FALSE(t.manager.reject(t.now, old, RejectReason::kNoResources).ok());
  EXPECT_EQ(t.state(), S::kRepSent);
  EXPECT_TRUE(t.events().empty());
  EXPECT_EQ(t.manager.stats().outcomes[static_cast<size_t>(CmOutcome::kLocalDisconnect)], 1u);
}

// The server side of RPC-over-RDMA forgot one connection id for each request that it could not serve (CVE-2026-89531), and its
// error paths took down what had never been set up (CVE-2026-93224): twenty thousand requests that fail at each step of being
// accepted leave the tables as they were.
TEST(CveShapes, CVE_2026_89531_RequestsThatFailAtAnyStepLeaveNothing) {
  CmOptions options;
  options.connection_max = 4;
  options.timewait_max = 2;
  options.request_rate = {.per_second = 1'000'000, .burst = 1000};
  ScriptedPeer t(options);
  for (uint32_t i = 0; i < 20'000; ++i) {
    Mad mad;
    write_mad(mad, i, linux_req(t.peer, 1000 + i, verbs::Qpn(2 + i % 5000)));
    t.manager.on_mad(t.now, t.peer, mad);
    CmEvent event;
    while (t.manager.poll_event(event)) {
      if (event.as<ConnectRequest>() == nullptr) {
        continue;
      }
      switch (i % 4) {
        case 0:  // no queue pair to be had
          ASSERT_TRUE(t.manager.reject(t.now, event.connection, RejectReason::kNoResources).ok());
          break;
        case 1:  // the backend is slow, then down
          ASSERT_TRUE(t.manager.delay(t.now, event.connection, Duration::seconds(1)).ok());
          ASSERT_TRUE(t.manager.reject(t.now, event.connection, RejectReason::kConsumerDefined).ok());
          break;
        case 2:  // accepted, and at once not wanted any more
          ASSERT_TRUE(t.manager.accept(t.now, event.connection, t.accept_parameters()).ok());
          t.manager.disconnect(t.now, event.connection);
          break;
        default:  // nobody decides
          break;
      }
    }
    CmDatagram datagram;
    while (t.manager.poll_transmit(datagram)) {
    }
    t.now = t.now + Duration::ms(3);
    t.manager.on_deadline(t.now);
    ASSERT_LE(t.manager.live_count(), 4u);
  }
  t.run_for(Duration::seconds(60));
  t.events();
  t.run_for(Duration::seconds(60));
  EXPECT_EQ(t.manager.live_count() + t.manager.timewait_count() + t.manager.half_open_count(), 0u);
  EXPECT_TRUE(t.manager.next_deadline().is_never());
  EXPECT_GT(t.manager.stats().ended(CmOutcome::kRejectedByUs), 0u);
  EXPECT_GT(t.manager.stats().ended(CmOutcome::kLocalDisconnect), 0u);
  EXPECT_GT(t.manager.stats().ended(CmOutcome::kNoDecision), 0u);
  t.sent();
  t.receive_req();
}

}  // namespace
}  // namespace cw::cm
