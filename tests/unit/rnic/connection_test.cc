// Connections over an RNIC from their request to their end, with the events of the connection manager and of the device in every
// order.
#include "tests/unit/rnic/fake_rdma_core.h"

namespace cw::rnic::test {
namespace {

TEST(RnicConnection, IsMadeAndEndsInOrder) {
  OneEnd end;
  const std::vector<uint8_t> theirs{1, 2, 3, 4};
  const std::vector<uint8_t> ours{9, 8, 7};
  end.accept_options.private_data = ours;
  const auto id = end.request(0x0a00'0001, theirs);
  ASSERT_TRUE(id);
  EXPECT_EQ(end.transport.half_open_count(), 1u);
  end.turn();
  ASSERT_EQ(end.events.size(), 1u);
  EXPECT_EQ(end.events[0].private_data, theirs);
  EXPECT_EQ(end.host.at(*id).private_data, ours);
  EXPECT_EQ(end.host.at(*id).reads_max, 8) << "as many as the peer answers";
  EXPECT_FALSE(end.has_event(Kind::kEstablished));
  end.transport.on_established(end.now, *id);
  end.turn();
  EXPECT_TRUE(end.has_event(Kind::kEstablished));
  EXPECT_EQ(end.transport.half_open_count(), 0u);
  EXPECT_EQ(end.transport.stats().connections, 1u);
  EXPECT_EQ(end.transport.stats().exposed, 0u);
  end.transport.on_disconnected(end.now, *id);
  end.turn();
  EXPECT_TRUE(end.was_disconnected_by(verbs::DisconnectCause::kPeer));
  EXPECT_EQ(end.cause(), "peer_closed");
  end.expect_nothing_left();
  EXPECT_TRUE(end.host.at(*id).released);
}

// The peer's first message would find no receive otherwise.
TEST(RnicConnection, TheAnswerLeavesBehindTheFirstReceives) {
  OneEnd end;
  const auto id = end.request();
  end.take();
  EXPECT_FALSE(end.host.at(*id).answered);
  end.turn();
  EXPECT_TRUE(end.host.at(*id).answered);
  EXPECT_EQ(end.host.at(*id).receives_at_answer, end.receives);
  end.expect_nothing_left();
}

TEST(RnicConnection, TheFirstMessageMayComeBeforeItIsEstablished) {
  OneEnd end;
  const auto id = end.request();
  end.turn();
  end.deliver(*id, pattern(100));
  end.turn();
  EXPECT_TRUE(end.has_event(Kind::kEstablished));
  EXPECT_EQ(end.host.at(*id).notifies, 1u);
  ASSERT_EQ(end.completions.size(), 1u);
  EXPECT_EQ(bytes_of(end.completions[0].payload), pattern(100));
  EXPECT_EQ(end.transport.stats().early, 1u);
  end.transport.on_established(end.now, *id);
  end.turn();
  EXPECT_EQ(std::ranges::count(end.events, Kind::kEstablished, &OneEnd::Event::kind), 1);
  end.expect_nothing_left();
}

// Some devices tell of it by an event of their own.
TEST(RnicConnection, TheDeviceMaySayThatTheFirstMessageIsThere) {
  OneEnd end;
  const auto id = end.request();
  end.turn();
  end.transport.on_queue_pair_event(end.now, *id, DeviceEvent::kEstablished);
  EXPECT_EQ(end.host.at(*id).notifies, 1u);
  end.transport.on_established(end.now, *id);
  end.turn();
  EXPECT_TRUE(end.has_event(Kind::kEstablished));
  end.expect_nothing_left();
}

TEST(RnicConnection, ThePeerMayLeaveBeforeItIsEstablished) {
  OneEnd end;
  const auto id = end.request();
  end.turn();
  end.transport.on_disconnected(end.now, *id);
  end.transport.on_established(end.now, *id);
  end.turn();
  EXPECT_FALSE(end.has_event(Kind::kEstablished));
  EXPECT_TRUE(end.has_event(Kind::kUnreachable));
  EXPECT_EQ(end.transport.half_open_count(), 0u);
  EXPECT_EQ(end.transport.stats().drops[static_cast<size_t>(RnicDrop::kLostInSetup)], 1u);
  end.expect_nothing_left();
}

TEST(RnicConnection, ThePeerMayLeaveBeforeTheUserHasHeardOfIt) {
  OneEnd end;
  const auto id = end.request();
  end.transport.on_failed(end.now, *id);
  end.turn();
  EXPECT_TRUE(end.events.empty());
  EXPECT_EQ(end.transport.live_count(), 0u);
  EXPECT_TRUE(end.host.at(*id).released);
}

TEST(RnicConnection, ARejectionMayComeLate) {
  OneEnd end;
  const RnicId id = end.connect();
  end.transport.on_failed(end.now, id);
  end.turn();
  EXPECT_TRUE(end.was_disconnected_by(verbs::DisconnectCause::kTransport));
  EXPECT_EQ(end.cause(), "setup");
  end.expect_nothing_left();
  end.transport.on_failed(end.now, id);
  end.transport.on_disconnected(end.now, id);
  end.transport.on_parted(end.now, id);
  end.transport.on_queue_pair_event(end.now, id, DeviceEvent::kQueuePairFatal);
  end.turn();
}

TEST(RnicConnection, AnAnswerThatNobodyConfirmsHasATimeLimit) {
  OneEnd end;
  const auto id = end.request();
  end.turn();
  end.advance(Duration::seconds(4));
  EXPECT_FALSE(end.has_event(Kind::kUnreachable));
  end.advance(Duration::seconds(2));
  EXPECT_TRUE(end.has_event(Kind::kUnreachable));
  EXPECT_TRUE(end.host.at(*id).released);
  EXPECT_EQ(end.transport.stats().drops[static_cast<size_t>(RnicDrop::kHandshakeTimeout)], 1u);
  end.expect_nothing_left();
}

TEST(RnicConnection, HalfOpenOnesMakeRoom) {
  OneEnd end({.half_open_max = 2, .prefix = {.half_open_max = 2}});
  const auto first = end.request();
  const auto second = end.request();
  const auto third = end.request();
  ASSERT_TRUE(first && second && third);
  EXPECT_TRUE(end.host.at(*first).released);
  EXPECT_TRUE(end.host.at(*first).rejected);
  EXPECT_EQ(end.transport.half_open_count(), 2u);
  EXPECT_EQ(end.transport.stats().drops[static_cast<size_t>(RnicDrop::kPrefixHalfOpen)], 1u);
  const auto other = end.request(0x0b00'0001);
  ASSERT_TRUE(other);
  EXPECT_EQ(end.transport.stats().drops[static_cast<size_t>(RnicDrop::kHalfOpen)], 1u);
}

// Who asks in somebody else's name never confirms our answer, and must keep nobody out.
TEST(RnicConnection, AnswersThatNobodyConfirmsTakeNoPlaces) {
  OneEnd end({.connections_max = 1});
  const auto forged = end.request(0x0a00'0001);
  end.turn();
  const auto forged_too = end.request(0x0a00'0002);
  end.turn();
  ASSERT_TRUE(end.host.at(*forged).answered && end.host.at(*forged_too).answered);
  (void)end.connect();
  EXPECT_FALSE(end.refusal);
  EXPECT_EQ(end.transport.stats().connections, 1u);
  EXPECT_EQ(end.transport.half_open_count(), 2u);
  const auto late = end.request(0x0a00'0003);
  end.turn();
  EXPECT_EQ(end.refusal, Error::kNoResources) << "the one place is taken";
  EXPECT_TRUE(end.host.at(*late).rejected);
}

TEST(RnicConnection, OneThatIsConfirmedWhenAllPlacesAreTakenEnds) {
  OneEnd end({.connections_max = 1});
  const auto first = end.request(0x0a00'0001);
  end.turn();
  const verbs::ConnectionId kept = end.connection;
  const auto second = end.request(0x0a00'0002);
  end.turn();
  const verbs::ConnectionId lost = end.connection;
  end.transport.on_established(end.now, *first);
  end.transport.on_established(end.now, *second);
  end.turn();
  EXPECT_EQ(std::ranges::count(end.events, Kind::kEstablished, &OneEnd::Event::kind), 1);
  EXPECT_TRUE(end.has_event(Kind::kUnreachable));
  EXPECT_EQ(end.host.at(*second).goodbyes, 1u);
  EXPECT_TRUE(end.host.at(*second).released);
  EXPECT_EQ(end.transport.stats().drops[static_cast<size_t>(RnicDrop::kNoRoom)], 1u);
  end.transport.destroy(lost);
  EXPECT_FALSE(end.request(0x0a00'0003) && (end.turn(), !end.refusal)) << "the first has its place yet";
  end.refusal.reset();
  end.connection = kept;
  end.expect_nothing_left();
  (void)end.connect();
  EXPECT_FALSE(end.refusal) << "its place is free again";
}

// With their queue pairs, which are the device's.
TEST(RnicConnection, AnsweredOnesMakeRoomToo) {
  OneEnd end({.half_open_max = 2, .prefix = {.half_open_max = 2}});
  const auto first = end.request();
  const auto second = end.request();
  end.turn();
  ASSERT_TRUE(end.host.at(*first).has_queue_pair && end.host.at(*second).has_queue_pair);
  const auto third = end.request();
  ASSERT_TRUE(third);
  EXPECT_FALSE(end.host.at(*first).has_queue_pair);
  EXPECT_TRUE(end.host.at(*first).released);
  EXPECT_TRUE(end.host.at(*second).has_queue_pair);
  end.turn();
  EXPECT_TRUE(end.has_event(Kind::kUnreachable));
  EXPECT_EQ(end.transport.half_open_count(), 2u);
}

TEST(RnicConnection, RequestsHaveARate) {
  OneEnd end({.request_rate = {.per_second = 10, .burst = 2}});
  EXPECT_TRUE(end.request());
  EXPECT_TRUE(end.request());
  EXPECT_FALSE(end.request());
  EXPECT_EQ(end.transport.stats().drops[static_cast<size_t>(RnicDrop::kRate)], 1u);
  EXPECT_FALSE(end.transport.on_request(end.now, {.listener_port = 1}));
  EXPECT_EQ(end.transport.stats().drops[static_cast<size_t>(RnicDrop::kNoListener)], 1u);
}

TEST(RnicConnection, WhoHadAConnectionHasARateOfItsOwn) {
  OneEnd end({.request_rate = {.per_second = 10, .burst = 2}});
  const auto id = end.request();
  end.turn();
  end.transport.on_established(end.now, *id);
  end.turn();
  EXPECT_TRUE(end.request());
  EXPECT_TRUE(end.request());  // of its own, as the next one
  EXPECT_TRUE(end.request());
  EXPECT_FALSE(end.request());
}

TEST(RnicConnection, WhatTheDeviceRefusesIsNamed) {
  const auto refused = [](RnicDrop drop, const auto& prepare) {
    OneEnd end;
    prepare(end);
    const auto id = end.request();
    end.turn();
    EXPECT_EQ(end.transport.stats().drops[static_cast<size_t>(drop)], 1u) << to_string(drop);
    EXPECT_TRUE(end.host.at(*id).released);
    if (end.refusal) {
      EXPECT_EQ(*end.refusal, Error::kNoResources);
      EXPECT_TRUE(end.host.at(*id).rejected);
    }
    end.expect_nothing_left();
  };
  refused(RnicDrop::kNoQueuePair, [](OneEnd& end) { end.host.make_error = Error::kNoResources; });
  refused(RnicDrop::kPieces, [](OneEnd& end) { end.host.make_error = Error::kLimit; });
  refused(RnicDrop::kPieces, [](OneEnd& end) { end.host.made.receive_pieces = 1; });
  refused(RnicDrop::kAnswerFailed, [](OneEnd& end) { end.host.accept_error = Error::kNoResources; });
}

TEST(RnicConnection, APortThatCannotBeHadIsSaid) {
  OneEnd end;
  end.host.listen_error = Error::kNoResources;
  EXPECT_FALSE(end.transport.listen(1).ok());
  end.host.listen_error.reset();
  EXPECT_TRUE(end.transport.listen(1).ok());
  EXPECT_TRUE(end.transport.listen(1).ok());
  EXPECT_EQ(end.host.ports(), (std::vector<uint16_t>{kPort, 1}));
  end.transport.unlisten(kPort);
  EXPECT_EQ(end.host.ports(), (std::vector<uint16_t>{1}));
}

// Not asserted: some drivers (siw) say what they do for all.
TEST(RnicConnection, OneThatTheDeviceExposesIsMarked) {
  for (const Exposure exposure : {Exposure::kExposed, Exposure::kUnknown}) {
    OneEnd end;
    end.host.exposed = exposure;
    (void)end.connect();
    EXPECT_EQ(end.transport.stats().exposed, 1u);
    EXPECT_EQ(end.transport.describe(end.connection).value("exposure"), verbs::QueuePairValue(std::string(to_string(exposure))));
    std::vector<verbs::TransportEvent> log(end.transport.log_capacity());
    log.resize(end.transport.copy_log(log));
    EXPECT_EQ(std::ranges::count(log, "exposed", &verbs::TransportEvent::event), 1);
    end.expect_nothing_left();
  }
}

TEST(RnicConnection, ADeviceMayGo) {
  OneEnd end;
  const RnicId id = end.connect();
  ASSERT_TRUE(end.qp->post_send({.id = verbs::WorkId(1), .payload = end.chain(pattern(500)), .signaled = false}).ok());
  end.turn();
  EXPECT_GT(end.pool.in_use(), 0u);
  end.transport.on_device_removed(end.now, id);
  EXPECT_TRUE(end.host.at(id).released) << "rdma-core waits for it";
  EXPECT_EQ(end.pool.in_use(), 0u);
  end.turn();
  EXPECT_TRUE(end.was_disconnected_by(verbs::DisconnectCause::kTransport));
  EXPECT_EQ(end.cause(), "device_removed");
  ASSERT_EQ(end.completions.size(), 1u) << "unsignaled, but it has not gone well";
  EXPECT_EQ(end.completions[0].status, WcStatus::kWorkRequestFlushed);
  EXPECT_FALSE(end.qp->post_send({.payload = end.chain(pattern(5))}).ok());
  end.expect_nothing_left();
}

TEST(RnicConnection, ADeviceMayGoBeforeItsRequestsAreAnswered) {
  OneEnd end;
  const auto asked = end.request();
  end.transport.on_device_removed(end.now, *asked);
  EXPECT_TRUE(end.host.at(*asked).released);
  const auto accepted = end.request();
  end.take();
  end.transport.on_device_removed(end.now, *accepted);
  EXPECT_TRUE(end.host.at(*accepted).released);
  end.turn();
  EXPECT_TRUE(end.has_event(Kind::kUnreachable));
  end.expect_nothing_left();
}

TEST(RnicConnection, EventsOfItsQueuePairEndIt) {
  for (const auto& [event, cause, origin] : {std::tuple(DeviceEvent::kAccessError, "access_error", "peer"),
                                             {DeviceEvent::kRequestError, "request_error", "peer"},
                                             {DeviceEvent::kQueuePairFatal, "queue_pair", "device"}}) {
    OneEnd end;
    const RnicId id = end.connect();
    end.transport.on_queue_pair_event(end.now, id, event);
    end.turn();
    EXPECT_TRUE(end.was_disconnected_by(verbs::DisconnectCause::kTransport));
    EXPECT_EQ(end.cause(), cause);
    EXPECT_EQ(end.transport.describe(end.connection).error.origin, origin);
    EXPECT_TRUE(end.host.at(id).failed);
    EXPECT_EQ(end.transport.stats().device_events[static_cast<size_t>(event)], 1u);
    end.expect_nothing_left();
  }
}

// However many end with it, it was one event, and is counted as one.
TEST(RnicConnection, ItEndsWithItsDeviceOrCompletionQueue) {
  for (const auto& [event, cause] :
       {std::pair(DeviceEvent::kCompletionQueueError, "completion_queue"), {DeviceEvent::kDeviceFatal, "device_fatal"}}) {
    OneEnd end;
    const RnicId id = end.connect();
    end.transport.on_device_event(end.now, event);
    end.transport.on_device_failed(end.now, id, event);
    end.turn();
    EXPECT_TRUE(end.was_disconnected_by(verbs::DisconnectCause::kTransport));
    EXPECT_EQ(end.cause(), cause);
    EXPECT_EQ(end.transport.describe(end.connection).error.origin, "device");
    EXPECT_TRUE(end.host.at(id).failed);
    EXPECT_EQ(end.transport.stats().device_events[static_cast<size_t>(event)], 1u);
    end.expect_nothing_left();
  }
}

TEST(RnicConnection, EventsOfPortsEndNothing) {
  OneEnd end;
  (void)end.connect();
  end.transport.on_device_event(end.now, DeviceEvent::kPortDown);
  end.transport.on_device_event(end.now, DeviceEvent::kPortUp);
  end.turn();
  EXPECT_FALSE(end.qp->in_error());
  EXPECT_EQ(end.transport.stats().device_events[static_cast<size_t>(DeviceEvent::kPortDown)], 1u);
  end.expect_nothing_left();
}

// The device flushes what it has before the connection manager says that the peer has left.
TEST(RnicConnection, AFlushWaitsForItsCause) {
  OneEnd end;
  const RnicId id = end.connect();
  end.flush_all(id);
  EXPECT_FALSE(end.qp->in_error());
  end.transport.on_disconnected(end.now, id);
  end.turn();
  EXPECT_TRUE(end.was_disconnected_by(verbs::DisconnectCause::kPeer));
  end.expect_nothing_left();
}

TEST(RnicConnection, AFlushThatNobodyExplainsEndsIt) {
  OneEnd end;
  const RnicId id = end.connect();
  end.flush_all(id);
  end.advance(Duration::seconds(1));
  EXPECT_TRUE(end.was_disconnected_by(verbs::DisconnectCause::kTransport));
  EXPECT_EQ(end.cause(), "flushed");
  end.expect_nothing_left();
}

// Rdma-core repeats our goodbye until the peer has it, for a bounded time.
TEST(RnicConnection, PartingTakesUntilThePeerKnows) {
  for (const bool answers : {true, false}) {
    OneEnd end;
    const RnicId id = end.connect();
    end.transport.disconnect(end.now, end.connection);
    end.transport.destroy(end.connection);
    EXPECT_EQ(end.host.at(id).goodbyes, 1u);
    EXPECT_FALSE(end.host.at(id).released);
    EXPECT_FALSE(end.host.at(id).has_queue_pair);
    EXPECT_EQ(end.pool.in_use(), 0u);
    EXPECT_EQ(end.transport.live_count(), 1u);
    if (answers) {
      end.transport.on_disconnected(end.now, id);
    } else {
      end.advance(Duration::seconds(3));
    }
    EXPECT_TRUE(end.host.at(id).released);
    EXPECT_EQ(end.transport.live_count(), 0u);
  }
}

TEST(RnicConnection, IsRefusedOnce) {
  OneEnd end;
  const auto id = end.request();
  end.take();
  end.transport.disconnect(end.now, end.connection);
  EXPECT_TRUE(end.host.at(*id).rejected);
  end.advance(Duration::seconds(6));  // nor once more for want of an answer
  EXPECT_TRUE(end.has_event(Kind::kUnreachable));
  end.expect_nothing_left();
}

TEST(RnicConnection, PartingOnesMakeRoom) {
  OneEnd end({.connections_max = 1, .half_open_max = 1, .parting_max = 1});
  std::vector<RnicId> ids;
  for (uint32_t i = 0; i < 3; ++i) {
    ids.push_back(end.connect());
    end.transport.disconnect(end.now, end.connection);
    end.transport.destroy(end.connection);
  }
  EXPECT_TRUE(end.host.at(ids[0]).released);
  EXPECT_TRUE(end.host.at(ids[1]).released);
  EXPECT_FALSE(end.host.at(ids[2]).released);
  EXPECT_EQ(end.transport.parting_count(), 1u);
}

TEST(RnicConnection, IsDescribedAsTheDeviceSees) {
  OneEnd end;
  (void)end.connect();
  const verbs::QueuePairInfo info = end.transport.describe(end.connection);
  EXPECT_EQ(info.wire, "verbs");
  EXPECT_EQ(info.local_qpn, verbs::Qpn(17));
  EXPECT_EQ(info.remote_qpn, verbs::Qpn(99));
  EXPECT_EQ(info.value("state"), verbs::QueuePairValue(std::string("RTS")));
  EXPECT_EQ(info.value("device"), verbs::QueuePairValue(std::string("rxe0")));
  EXPECT_EQ(info.value("path_mtu"), verbs::QueuePairValue(uint64_t{1024}));
  EXPECT_EQ(info.value("receives_posted"), verbs::QueuePairValue(uint64_t{8}));
  end.expect_nothing_left();
}

}  // namespace
}  // namespace cw::rnic::test
