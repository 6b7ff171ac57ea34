// The active side of RdmaHost on an rdma-core that the test plays: servers are called, and reach what is registered for them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <vector>

#include "base/heap_buffer_pool.h"
#include "dataplane/monotonic_clock.h"
#include "dataplane/rnic/rdma_host.h"
#include "rnic/rnic_memory.h"
#include "tests/unit/dataplane/played_rdma.h"

namespace cw::dataplane {
namespace {

using Kind = verbs::ConnectionEvent::Kind;

constexpr verbs::ProtectionDomain kCallDomain(3);
constexpr unsigned kClientAccess = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

struct CallRig {
  explicit CallRig(const std::string& device = {}, bool exposes = true)
      : host({.listens = false, .device = device}, {pool.storage()}, &rdma.core),
        memory(16, host),
        transport(std::in_place, rnic::RnicOptions{.connections_max = 2}, host, pool, random, exposes ? &memory : nullptr) {
    host.attach(*transport);
  }
  ~CallRig() {
    transport.reset();
    EXPECT_EQ(rdma.violations, std::vector<std::string>());
    EXPECT_TRUE(rdma.ids.empty());
    EXPECT_TRUE(rdma.queue_pairs.empty());
  }
  CallRig(const CallRig&) = delete;
  CallRig& operator=(const CallRig&) = delete;

  rdma_cm_id* call(const IpAddress& server = kRdmaAddress) {
    const auto made =
        transport->connect(now, server, kRdmaPort, {.receive_bytes_max = 1024, .private_data = words, .domain = kCallDomain});
    connection = made.ok() ? std::optional(*made) : std::nullopt;
    return made.ok() ? rdma.ids.back().get() : nullptr;
  }
  // Until its request is out.
  rdma_cm_id* ask(PlayedRdma::Device& device) {
    rdma_cm_id* const id = call();
    rdma.resolve(id, device);
    turn();
    rdma.tell(id, RDMA_CM_EVENT_ROUTE_RESOLVED);
    turn();
    return id;
  }
  void answer(rdma_cm_id* id, rdma_cm_event_type type = RDMA_CM_EVENT_CONNECT_RESPONSE) {
    rdma_cm_event& event = rdma.tell(id, type);
    event.param.conn.initiator_depth = 4;
    event.param.conn.responder_resources = 8;
    event.param.conn.private_data = answer_words.data();
    event.param.conn.private_data_len = static_cast<uint8_t>(answer_words.size());
    turn();
  }
  void turn(Duration pause = Duration::ms(1)) {
    now = now + pause;
    (void)host.receive(now);
    verbs::ConnectionEvent event;
    while (transport->poll_event(now, event)) {
      events.push_back(event);
      told.assign(event.private_data.begin(), event.private_data.end());
      if (event.kind == Kind::kConnectResponse) {
        transport->establish(now, event.connection);
      }
    }
    (void)transport->flush(now);
    transport->on_deadline(now);
  }
  void expect_failed(Kind kind, verbs::RejectReason reason, std::string_view name) {
    turn();
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].kind, kind);
    EXPECT_EQ(events[0].rejection.reason, reason);
    EXPECT_EQ(events[0].rejection.name, name);
    EXPECT_TRUE(rdma.ids.empty());
    EXPECT_EQ(transport->live_count(), 0u);
    transport->destroy(*connection);
  }

  PlayedRdma rdma;
  HeapBufferPool pool{1024, 1024, 64};
  SeededRandom random{1};
  RdmaHost host;
  rnic::RnicMemory memory;
  std::optional<rnic::RnicTransport> transport;
  std::optional<verbs::ConnectionId> connection;
  std::vector<verbs::ConnectionEvent> events;
  std::vector<uint8_t> told;
  std::vector<uint8_t> words{1, 2, 3};
  std::vector<uint8_t> answer_words{4, 5};
  Instant now = monotonic_now();
};

TEST(RdmaCall, IsMadeInSteps) {
  CallRig rig;
  PlayedRdma::Device& device = rig.rdma.add("rxe0", IpAddress::v4(0xc000'0202));
  rdma_cm_id* const id = rig.call();
  ASSERT_NE(id, nullptr);
  PlayedRdma::Call& call = rig.rdma.calls[id];
  EXPECT_EQ(call.server, kRdmaAddress);
  EXPECT_EQ(call.port, kRdmaPort);
  EXPECT_EQ(device.opens, 0u) << "which device is not known yet";
  rig.rdma.resolve(id, device);
  rig.turn();
  EXPECT_EQ(device.opens, 1u);
  EXPECT_TRUE(call.wants_route);
  EXPECT_TRUE(rig.rdma.queue_pairs.empty());
  rig.rdma.tell(id, RDMA_CM_EVENT_ROUTE_RESOLVED);
  rig.turn();
  ASSERT_EQ(rig.rdma.queue_pairs.size(), 1u);
  ASSERT_TRUE(call.request);
  EXPECT_EQ(call.private_data, rig.words);
  EXPECT_EQ(call.request->qp_num, rig.rdma.queue_pairs[0]->qp.qp_num);
  EXPECT_EQ(call.request->responder_resources, 16u);
  EXPECT_GT(call.receives_when_asked, 0u) << "the server's first message finds one";
  EXPECT_EQ(rig.rdma.queue_pairs[0]->qp.state, IBV_QPS_INIT);
  rig.answer(id);
  ASSERT_EQ(rig.events.size(), 1u);
  EXPECT_EQ(rig.events[0].kind, Kind::kConnectResponse);
  EXPECT_EQ(rig.told, rig.answer_words);
  EXPECT_EQ(rig.events[0].depths, (verbs::ReadDepths{.initiator_depth = 4, .responder_resources = 8}));
  EXPECT_TRUE(call.established);
  const PlayedRdma::QueuePair& pair = *rig.rdma.queue_pairs[0];
  EXPECT_EQ(pair.states, (std::vector<std::pair<ibv_qp_state, unsigned>>{
                             {IBV_QPS_INIT, kClientAccess}, {IBV_QPS_RTR, kClientAccess}, {IBV_QPS_RTS, kClientAccess}}));
  EXPECT_EQ(pair.reads_max, 4u);
  EXPECT_EQ(pair.reads_of_peer_max, 16u) << "as many as were offered, whatever the answer says";
  EXPECT_EQ(rig.host.exposure(rnic::RnicId(rig.connection->value())), rnic::Exposure::kExposed);
  EXPECT_EQ(rig.transport->stats().exposed, 0u) << "on purpose";
  rig.rdma.tell(id, RDMA_CM_EVENT_DISCONNECTED);
  rig.turn();
  ASSERT_EQ(rig.events.size(), 2u);
  EXPECT_EQ(rig.events[1].kind, Kind::kDisconnected);
}

// The kernel has moved the queue pair, and nothing is to be confirmed.
TEST(RdmaCall, OverIwarpTheAnswerIsTheEnd) {
  CallRig rig;
  PlayedRdma::Device& device = rig.rdma.add("siw0", IpAddress::v4(0xc000'0202));
  device.device.transport_type = IBV_TRANSPORT_IWARP;
  device.max_cqe = 1 << 16;
  rdma_cm_id* const id = rig.ask(device);
  rig.answer(id, RDMA_CM_EVENT_ESTABLISHED);
  ASSERT_EQ(rig.events.size(), 1u);
  EXPECT_EQ(rig.events[0].kind, Kind::kConnectResponse);
  EXPECT_FALSE(rig.rdma.calls[id].established);
  EXPECT_EQ(rig.rdma.queue_pairs[0]->qp.state, IBV_QPS_INIT) << "as far as we moved it";
  EXPECT_EQ(rig.events[0].depths.initiator_depth, 4u) << "the smaller one, whichever it is";
}

TEST(RdmaCall, WithoutMemoryNothingIsExposed) {
  CallRig rig({}, false);
  PlayedRdma::Device& device = rig.rdma.add("rxe0", IpAddress::v4(0xc000'0202));
  rdma_cm_id* const id = rig.ask(device);
  EXPECT_EQ(rig.rdma.calls[id].request->responder_resources, 0u);
  rig.answer(id);
  for (const auto& [state, access_flags] : rig.rdma.queue_pairs[0]->states) {
    EXPECT_EQ(access_flags, 0u) << "in state " << state;
  }
  EXPECT_EQ(rig.rdma.queue_pairs[0]->reads_of_peer_max, 0u);
  EXPECT_EQ(rig.host.exposure(rnic::RnicId(rig.connection->value())), rnic::Exposure::kNone);
}

TEST(RdmaCall, MemoryHasTheRightsOfItsUse) {
  CallRig rig;
  PlayedRdma::Device& device = rig.rdma.add("rxe0", IpAddress::v4(0xc000'0202));
  std::vector<uint8_t> bytes(64);
  EXPECT_FALSE(rig.memory.expose(kCallDomain, bytes, verbs::RemoteAccess::kRead).ok());
  rig.answer(rig.ask(device));
  const int pools = device.regions;
  const auto source = rig.memory.expose(kCallDomain, bytes, verbs::RemoteAccess::kRead);
  const auto sink = rig.memory.expose(kCallDomain, bytes, verbs::RemoteAccess::kWrite);
  ASSERT_TRUE(source.ok() && sink.ok());
  EXPECT_EQ(rig.rdma.exposed, (std::vector<int>{IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE}));
  EXPECT_EQ(source->key, verbs::Rkey(0x101)) << "the device's";
  EXPECT_EQ(source->address, reinterpret_cast<uintptr_t>(bytes.data()));
  EXPECT_EQ(device.regions, pools + 2);
  EXPECT_TRUE(rig.memory.invalidate(kCallDomain, source->key));
  EXPECT_EQ(device.regions, pools + 1);
  rig.transport->destroy(*rig.connection);
  EXPECT_EQ(device.regions, pools);
  device.registers = false;
  EXPECT_FALSE(rig.memory.expose(kCallDomain, bytes, verbs::RemoteAccess::kRead).ok());
}

TEST(RdmaCall, MemoryThatTheDeviceDoesNotTakeIsRefused) {
  CallRig rig;
  PlayedRdma::Device& device = rig.rdma.add("rxe0", IpAddress::v4(0xc000'0202));
  rig.answer(rig.ask(device));
  device.registers = false;
  std::vector<uint8_t> bytes(64);
  const auto region = rig.memory.expose(kCallDomain, bytes, verbs::RemoteAccess::kRead);
  ASSERT_FALSE(region.ok());
  EXPECT_EQ(region.error(), Error::kNoResources);
  EXPECT_EQ(rig.memory.region_count(), 0u);
}

TEST(RdmaCall, ADeviceThatGoesTakesWhatIsExposedOnItWithIt) {
  CallRig rig;
  PlayedRdma::Device& device = rig.rdma.add("rxe0", IpAddress::v4(0xc000'0202));
  rig.answer(rig.ask(device));
  std::vector<uint8_t> bytes(64);
  const auto region = rig.memory.expose(kCallDomain, bytes, verbs::RemoteAccess::kWrite);
  ASSERT_TRUE(region.ok());
  rig.rdma.remove(device);
  rig.turn();
  EXPECT_EQ(device.regions, 0);
  EXPECT_EQ(device.closes, 1u) << "nothing refers to it";
  EXPECT_TRUE(rig.rdma.ids.empty());
  ASSERT_EQ(rig.events.size(), 2u);
  EXPECT_EQ(rig.events[1].kind, Kind::kDisconnected);
  EXPECT_TRUE(rig.memory.invalidate(kCallDomain, region->key));
}

TEST(RdmaCall, ADeviceThatGoesBeforeItIsOpenedEndsTheCall) {
  CallRig rig;
  PlayedRdma::Device& device = rig.rdma.add("rxe0", IpAddress::v4(0xc000'0202));
  rdma_cm_id* const id = rig.call();
  id->verbs = &device.of_cm;
  rig.rdma.remove(device);
  rig.expect_failed(Kind::kRejected, verbs::RejectReason::kOther, "device_gone");
}

TEST(RdmaCall, ADeviceThatIsGoingIsNotOpened) {
  CallRig rig;
  PlayedRdma::Device& device = rig.rdma.add("rxe0", IpAddress::v4(0xc000'0202));
  rdma_cm_id* const id = rig.call();
  device.is_there = false;
  rig.rdma.resolve(id, device);
  rig.expect_failed(Kind::kRejected, verbs::RejectReason::kOther, "device_gone");
  EXPECT_EQ(device.opens, 0u);
}

TEST(RdmaCall, TheDeviceThatIsNamedIsTheOnlyOne) {
  CallRig rig("siw0");
  PlayedRdma::Device& device = rig.rdma.add("rxe0", IpAddress::v4(0xc000'0202));
  rig.rdma.resolve(rig.call(), device);
  rig.expect_failed(Kind::kRejected, verbs::RejectReason::kOther, "other_device");
  EXPECT_EQ(device.opens, 0u);
}

TEST(RdmaCall, ADeviceThatDoesNotRegisterIsSaidSo) {
  CallRig rig;
  PlayedRdma::Device& device = rig.rdma.add("rxe0", IpAddress::v4(0xc000'0202));
  device.registers = false;
  rig.rdma.resolve(rig.call(), device);
  rig.expect_failed(Kind::kRejected, verbs::RejectReason::kOther, "device_refused");
}

TEST(RdmaCall, WithoutAWayThereIsNoConnection) {
  CallRig rig;
  rig.rdma.resolve_error = ENETUNREACH;
  EXPECT_EQ(rig.call(), nullptr);
  EXPECT_TRUE(rig.rdma.ids.empty());
  rig.rdma.resolve_error = 0;
  EXPECT_NE(rig.call(), nullptr);
}

// The kernel may miss the answer, and look for it only when the time of the request is over.
TEST(RdmaCall, TheAddressIsAskedForAgain) {
  for (const bool is_there : {true, false}) {
    CallRig rig;
    PlayedRdma::Device& device = rig.rdma.add("rxe0", IpAddress::v4(0xc000'0202));
    rdma_cm_id* const id = rig.call();
    const PlayedRdma::Call& call = rig.rdma.calls[id];
    for (int requests = 1; requests < 5; ++requests) {
      EXPECT_EQ(call.address_requests, requests);
      EXPECT_EQ(call.address_patience_ms, 1000);
      EXPECT_EQ(call.server, kRdmaAddress);
      EXPECT_EQ(call.port, kRdmaPort);
      rig.rdma.tell(id, RDMA_CM_EVENT_ADDR_ERROR).status = -ETIMEDOUT;
      rig.turn();
      EXPECT_TRUE(rig.events.empty());
    }
    if (is_there) {
      rig.rdma.resolve(id, device);
      rig.turn();
      EXPECT_TRUE(call.wants_route);
      rig.transport->destroy(*rig.connection);
      rig.turn();
    } else {
      rig.rdma.tell(id, RDMA_CM_EVENT_ADDR_ERROR).status = -ETIMEDOUT;
      rig.expect_failed(Kind::kUnreachable, verbs::RejectReason::kNoAnswer, "address_unresolved");
    }
  }
}

TEST(RdmaCall, AnAddressThatCannotBeAskedForAgainIsSaidSo) {
  CallRig rig;
  rdma_cm_id* const id = rig.call();
  rig.rdma.resolve_error = EINVAL;
  rig.rdma.tell(id, RDMA_CM_EVENT_ADDR_ERROR).status = -ETIMEDOUT;
  rig.expect_failed(Kind::kUnreachable, verbs::RejectReason::kNoAnswer, "address_unresolved");
}

TEST(RdmaCall, WhatTheConnectionManagerSaysHasItsName) {
  struct Said {
    rdma_cm_event_type type;
    int status;
    Kind kind;
    verbs::RejectReason reason;
    std::string_view name;
  };
  using Reason = verbs::RejectReason;
  const std::vector<Said> all{
      {RDMA_CM_EVENT_ADDR_ERROR, -ENODEV, Kind::kUnreachable, Reason::kNoAnswer, "no_route"},
      {RDMA_CM_EVENT_ROUTE_ERROR, -EINVAL, Kind::kUnreachable, Reason::kNoAnswer, "route_unresolved"},
      {RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, Kind::kUnreachable, Reason::kNoAnswer, "unreachable"},
      {RDMA_CM_EVENT_CONNECT_ERROR, -EPROTO, Kind::kRejected, Reason::kOther, "request_failed"},
      {RDMA_CM_EVENT_REJECTED, 8, Kind::kRejected, Reason::kNoListener, "invalid_service_id"},
      {RDMA_CM_EVENT_REJECTED, 3, Kind::kRejected, Reason::kNoResources, "no_resources"},
      {RDMA_CM_EVENT_REJECTED, 28, Kind::kRejected, Reason::kRefused, "consumer_defined"},
      {RDMA_CM_EVENT_REJECTED, -ECONNREFUSED, Kind::kRejected, Reason::kNoListener, "connection_refused"},
      {RDMA_CM_EVENT_REJECTED, -ECONNRESET, Kind::kRejected, Reason::kOther, "rejected"},
      {RDMA_CM_EVENT_DISCONNECTED, 0, Kind::kRejected, Reason::kOther, "lost_in_setup"},
  };
  for (const Said& said : all) {
    CallRig rig;
    PlayedRdma::Device& device = rig.rdma.add("rxe0", IpAddress::v4(0xc000'0202));
    rdma_cm_id* const id = said.type == RDMA_CM_EVENT_ADDR_ERROR ? rig.call() : rig.ask(device);
    rig.rdma.tell(id, said.type).status = said.status;
    rig.expect_failed(said.kind, said.reason, said.name);
  }
}

// siw connects TCP meanwhile, and says at once what became of it.
TEST(RdmaCall, ARequestThatIsNotTakenHasItsName) {
  const std::vector<std::pair<int, std::string_view>> all{
      {ECONNREFUSED, "connection_refused"}, {ETIMEDOUT, "unreachable"}, {EHOSTUNREACH, "no_route"}, {EINVAL, "request_failed"}};
  for (const auto& [error, name] : all) {
    CallRig rig;
    PlayedRdma::Device& device = rig.rdma.add("rxe0", IpAddress::v4(0xc000'0202));
    rig.rdma.connect_error = error;
    (void)rig.ask(device);
    ASSERT_EQ(rig.events.size(), 0u);
    rig.turn();
    ASSERT_EQ(rig.events.size(), 1u);
    EXPECT_EQ(rig.events[0].rejection.name, name);
    EXPECT_TRUE(rig.rdma.ids.empty());
  }
}

TEST(RdmaCall, ItMayEndInEveryStep) {
  for (int steps = 0; steps < 5; ++steps) {
    CallRig rig;
    PlayedRdma::Device& device = rig.rdma.add("rxe0", IpAddress::v4(0xc000'0202));
    rdma_cm_id* const id = steps < 2 ? rig.call() : rig.ask(device);
    if (steps == 1) {
      rig.rdma.resolve(id, device);
      rig.turn();
    }
    if (steps == 3) {
      rig.rdma.tell(id, RDMA_CM_EVENT_CONNECT_RESPONSE);  // nobody has looked yet
    }
    if (steps == 4) {
      rig.answer(id);
    }
    rig.transport->destroy(*rig.connection);
    rig.turn();
    EXPECT_TRUE(rig.rdma.ids.empty());
    EXPECT_TRUE(rig.rdma.queue_pairs.empty());
    EXPECT_NE(rig.call(), nullptr);
  }
}

}  // namespace
}  // namespace cw::dataplane
