// Connections that we ask a server for, over an RNIC: each step and each failure, the end in every state, and the life of memory
// that the server may reach.
#include "tests/unit/rnic/fake_rdma_core.h"

namespace cw::rnic::test {
namespace {

using verbs::RejectReason;

constexpr verbs::ProtectionDomain kDomain(7);
const IpAddress kServer = IpAddress::v4(0xc000'0201);

// The one who calls, and the server and rdma-core by which a test acts.
struct Caller {
  explicit Caller(const RnicOptions& wanted = {}, bool exposes = true, uint32_t buffers = 256)
      : pool(buffers, 2048, 4 * buffers),
        memory(16, host),
        transport(std::in_place, wanted, host, pool, random, exposes ? &memory : nullptr) {
    pool.poison_released();
  }
  ~Caller() {
    completions.clear();
    transport.reset();
    EXPECT_EQ(host.violations(), std::vector<std::string>());
    EXPECT_EQ(memory.region_count(), 0u);
    EXPECT_TRUE(!host.deregisters || host.regions().empty());
    EXPECT_EQ(pool.in_use(), 0u);
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  Result<verbs::ConnectionId> call(verbs::ProtectionDomain domain = kDomain) {
    verbs::ConnectionOptions wanted = options;
    wanted.domain = domain;
    const auto made = transport->connect(now, kServer, kPort, wanted);
    if (made.ok()) {
      connection = *made;
    }
    return made;
  }
  [[nodiscard]] RnicId id() const { return RnicId(connection.value()); }
  [[nodiscard]] FakeRdmaCore::Connection& at() { return host.at(id()); }
  void turn() {
    transport->on_deadline(now);
    take();
    (void)transport->flush(now);
    take();
  }
  void take() {
    verbs::ConnectionEvent event;
    while (transport->poll_event(now, event)) {
      events.push_back(event);
      told.assign(event.private_data.begin(), event.private_data.end());
      if (event.kind == Kind::kConnectResponse) {
        qp = event.queue_pair;
        qp->post_receives(grants);
        if (establishes) {
          transport->establish(now, event.connection);
        }
      }
    }
    verbs::ReadyQueuePair ready;
    while (transport->poll_ready(ready)) {
      EXPECT_EQ(ready.queue_pair, qp);
      EXPECT_EQ(ready.context, options.context);
      verbs::Completion completion;
      while (ready.queue_pair->poll_completion(completion)) {
        completions.push_back(std::move(completion));
      }
    }
  }
  void advance(Duration time) {
    now = now + time;
    turn();
  }
  enum class Step : uint8_t { kAddress, kRoute, kRequest, kAsked, kAnswered, kPolled, kEstablished };
  // A call that has come so far.
  void come_to(Step step) {
    ASSERT_TRUE(call().ok());
    turn();
    if (step >= Step::kRoute) {
      transport->on_address_resolved(now, id());
      turn();
    }
    if (step >= Step::kRequest) {
      transport->on_route_resolved(now, id());
    }
    if (step >= Step::kAsked) {
      turn();
    }
    if (step >= Step::kAnswered) {
      answer();
    }
    if (step >= Step::kPolled) {
      establishes = step == Step::kEstablished;
      turn();
    }
  }
  void answer() { transport->on_connected(now, id(), {.private_data = their_words, .reads_max = 4, .reads_of_peer_max = 8}); }
  void deliver(Bytes message) {
    ASSERT_FALSE(at().receives.empty()) << "the server would find no receive";
    const FakeRdmaCore::Posted posted = at().receives.front();
    at().receives.pop_front();
    std::ranges::copy(message, posted.pieces.front().begin());
    transport->on_completion(now, {.id = posted.work.id, .bytes = static_cast<uint32_t>(message.size())});
  }
  [[nodiscard]] uint64_t failures(ConnectFailure failure) const {
    return transport->stats().connect_failures[static_cast<size_t>(failure)];
  }
  // It has failed, by this name, and is told so once; nothing of it is left at rdma-core.
  void expect_failed(Kind kind, RejectReason reason, std::string_view name, ConnectFailure failure) {
    turn();
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].kind, kind);
    EXPECT_EQ(events[0].connection, connection);
    EXPECT_EQ(events[0].context, options.context);
    EXPECT_EQ(events[0].rejection.reason, reason);
    EXPECT_EQ(events[0].rejection.name, name);
    EXPECT_EQ(failures(failure), 1u);
    EXPECT_TRUE(at().released);
    EXPECT_EQ(transport->live_count(), 0u);
    tell_all_late();
    advance(Duration::seconds(60));
    EXPECT_EQ(events.size(), 1u);
    transport->destroy(connection);
    EXPECT_TRUE(call().ok()) << "its place is free again, and its domain";
    transport->destroy(connection);
  }
  // Whatever rdma-core had on its way.
  void tell_all_late() {
    transport->on_address_resolved(now, id());
    transport->on_route_resolved(now, id());
    answer();
    transport->on_rejected(now, id(), {RejectReason::kRefused, "rejected"}, {});
    transport->on_not_connected(now, id(), ConnectFailure::kUnreachable);
    transport->on_established(now, id());
    transport->on_disconnected(now, id());
    transport->on_queue_pair_event(now, id(), DeviceEvent::kQueuePairFatal);
    transport->on_device_failed(now, id(), DeviceEvent::kDeviceFatal);
    transport->on_device_removed(now, id());
    transport->on_parted(now, id());
    turn();
  }

  Instant now = Instant::from_ns(1'000'000'000);
  HeapBufferPool pool;
  SeededRandom random{7};
  FakeRdmaCore host;
  RnicMemory memory;
  std::optional<RnicTransport> transport;
  verbs::ConnectionOptions options{.context = 5, .receive_bytes_max = 4096};
  std::vector<verbs::ConnectionEvent> events;
  std::vector<uint8_t> told;  // of the last event
  std::vector<uint8_t> their_words{4, 5, 6};
  std::deque<verbs::Completion> completions;
  verbs::ConnectionId connection;
  verbs::QueuePair* qp = nullptr;
  uint32_t grants = 8;
  bool establishes = true;
};
using Step = Caller::Step;
constexpr std::array kSteps{Step::kAddress,  Step::kRoute,  Step::kRequest,    Step::kAsked,
                            Step::kAnswered, Step::kPolled, Step::kEstablished};

TEST(RnicCall, IsMadeInStepsAndEndsInOrder) {
  Caller caller;
  const std::vector<uint8_t> ours{1, 2, 3};
  caller.options.private_data = ours;
  ASSERT_TRUE(caller.call().ok());
  EXPECT_EQ(caller.at().server, kServer);
  EXPECT_EQ(caller.at().port, kPort);
  EXPECT_EQ(caller.transport->live_count(), 1u);
  EXPECT_FALSE(caller.at().wants_route);
  caller.transport->on_address_resolved(caller.now, caller.id());
  EXPECT_TRUE(caller.at().wants_route);
  EXPECT_FALSE(caller.at().has_queue_pair);
  caller.transport->on_route_resolved(caller.now, caller.id());
  EXPECT_TRUE(caller.at().has_queue_pair && caller.at().wish.exposes);
  EXPECT_FALSE(caller.at().asked);
  caller.turn();
  EXPECT_TRUE(caller.at().asked);
  EXPECT_EQ(caller.at().private_data, ours);
  EXPECT_GT(caller.at().receives_when_asked, 0u) << "the server's first message finds one";
  EXPECT_EQ(caller.at().reads_max, 16u);
  EXPECT_EQ(caller.at().reads_of_peer_max, 16u);
  caller.answer();
  EXPECT_TRUE(caller.at().ready);
  EXPECT_FALSE(caller.at().established);
  caller.turn();
  ASSERT_EQ(caller.events.size(), 1u);
  EXPECT_EQ(caller.events[0].kind, Kind::kConnectResponse);
  EXPECT_EQ(caller.told, caller.their_words);
  EXPECT_EQ(caller.events[0].depths, (verbs::ReadDepths{.initiator_depth = 4, .responder_resources = 8}));
  EXPECT_TRUE(caller.at().established);
  EXPECT_EQ(caller.at().receives.size(), caller.grants) << "those in advance count";
  EXPECT_EQ(caller.transport->stats().established, 1u);
  caller.transport->on_disconnected(caller.now, caller.id());
  caller.turn();
  ASSERT_EQ(caller.events.size(), 2u);
  EXPECT_EQ(caller.events[1].kind, Kind::kDisconnected);
  EXPECT_EQ(caller.events[1].cause, verbs::DisconnectCause::kPeer);
  caller.transport->disconnect(caller.now, caller.connection);
  caller.transport->destroy(caller.connection);
  EXPECT_EQ(caller.at().goodbyes, 1u);
  EXPECT_EQ(caller.transport->live_count(), 0u);
  EXPECT_EQ(caller.transport->stats().connections, 0u);
}

TEST(RnicCall, OneThatEndsByUsIsOverForThePeerInTime) {
  Caller caller;
  caller.come_to(Step::kEstablished);
  caller.transport->disconnect(caller.now, caller.connection);
  caller.transport->destroy(caller.connection);
  EXPECT_EQ(caller.at().goodbyes, 1u);
  EXPECT_EQ(caller.transport->live_count(), 1u);
  caller.advance(Duration::seconds(3));
  EXPECT_EQ(caller.transport->live_count(), 0u);
  EXPECT_EQ(caller.events.size(), 1u) << "no event of an end that its user has wanted";
}

TEST(RnicCall, AnEarlyMessageWaitsForItsUser) {
  Caller caller;
  caller.come_to(Step::kAsked);
  caller.deliver(pattern(100));
  caller.turn();
  EXPECT_TRUE(caller.completions.empty());
  std::array<uint64_t, 2> ready{};
  EXPECT_EQ(caller.transport->peek_ready(ready), 0u);
  caller.answer();
  caller.turn();
  ASSERT_EQ(caller.completions.size(), 1u);
  EXPECT_EQ(bytes_of(caller.completions[0].payload), pattern(100));
  EXPECT_EQ(caller.at().notifies, 0u);
}

// As many receives as the user grants, those before it knows of them included.
TEST(RnicCall, ReceivesInAdvanceAreTheUsersFirst) {
  Caller caller;
  caller.grants = 1;
  caller.come_to(Step::kEstablished);
  const size_t posted = caller.at().receives.size();
  EXPECT_EQ(posted, caller.at().receives_when_asked);
  caller.qp->post_receives(static_cast<uint32_t>(posted) - 1);
  caller.turn();
  EXPECT_EQ(caller.at().receives.size(), posted);
  caller.qp->post_receives(2);
  caller.turn();
  EXPECT_EQ(caller.at().receives.size(), posted + 2);
}

TEST(RnicCall, WorkMayBePostedBeforeItIsFinal) {
  Caller caller;
  caller.come_to(Step::kPolled);
  verbs::SendRequest request{.id = verbs::WorkId(1), .payload = Chain()};
  ASSERT_TRUE(request.payload.append_copy(caller.pool, pattern(64)));
  ASSERT_TRUE(caller.qp->post_send(std::move(request)).ok());
  caller.turn();
  EXPECT_EQ(caller.at().sends.size(), 1u);
  EXPECT_FALSE(caller.at().established);
  caller.transport->establish(caller.now, caller.connection);
  caller.transport->establish(caller.now, caller.connection);
  EXPECT_TRUE(caller.at().established);
  EXPECT_EQ(caller.transport->stats().established, 1u);
}

TEST(RnicCall, TheRequestWaitsForAReceive) {
  Caller caller;
  std::vector<Buffer*> taken(caller.pool.buffer_usage().available);
  ASSERT_TRUE(caller.pool.allocate(taken));
  caller.come_to(Step::kAsked);
  EXPECT_FALSE(caller.at().asked);
  for (Buffer* each : taken) {
    release_buffers(each);
  }
  caller.advance(Duration::ms(2));
  EXPECT_TRUE(caller.at().asked);
  EXPECT_GT(caller.at().receives_when_asked, 0u);
}

TEST(RnicCall, WithoutAWayThereIsNoConnection) {
  Caller caller;
  caller.host.resolve_error = Error::kBadValue;
  const auto made = caller.call();
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error(), Error::kBadValue);
  EXPECT_EQ(caller.transport->live_count(), 0u);
  caller.host.resolve_error.reset();
  EXPECT_TRUE(caller.call().ok()) << "nothing of the first is left";
}

TEST(RnicCall, ADomainIsOfOneConnection) {
  Caller caller;
  ASSERT_TRUE(caller.call().ok());
  const auto second = caller.call();
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error(), Error::kBadValue);
  EXPECT_TRUE(caller.call(verbs::ProtectionDomain(8)).ok());
}

TEST(RnicCall, ThereAreOnlySoMany) {
  Caller caller({.connections_max = 2});
  ASSERT_TRUE(caller.call(verbs::ProtectionDomain(1)).ok());
  const verbs::ConnectionId first = caller.connection;
  ASSERT_TRUE(caller.call(verbs::ProtectionDomain(2)).ok());
  const auto third = caller.call(verbs::ProtectionDomain(3));
  ASSERT_FALSE(third.ok());
  EXPECT_EQ(third.error(), Error::kNoResources);
  caller.transport->destroy(first);
  EXPECT_TRUE(caller.call(verbs::ProtectionDomain(3)).ok());
}

TEST(RnicCall, PrivateDataHasABound) {
  Caller caller;
  const std::vector<uint8_t> longest(65);
  caller.options.private_data = longest;
  EXPECT_FALSE(caller.call().ok());
}

// ---- Failures ----

TEST(RnicCall, AnAddressThatNobodyAnswersForIsSaidSo) {
  Caller caller;
  caller.come_to(Step::kAddress);
  caller.transport->on_not_connected(caller.now, caller.id(), ConnectFailure::kAddressUnresolved);
  caller.expect_failed(Kind::kUnreachable, RejectReason::kNoAnswer, "address_unresolved", ConnectFailure::kAddressUnresolved);
}

TEST(RnicCall, AnAddressHasATimeLimitOfOurs) {
  Caller caller;
  caller.come_to(Step::kAddress);
  caller.advance(RnicOptions().resolve_timeout - Duration::ms(1));
  EXPECT_TRUE(caller.events.empty());
  caller.advance(Duration::ms(10));
  caller.expect_failed(Kind::kUnreachable, RejectReason::kNoAnswer, "address_unresolved", ConnectFailure::kAddressUnresolved);
}

TEST(RnicCall, AWayThatOnlyRdmaCoreKnowsToBeMissingIsSaidSo) {
  Caller caller;
  caller.come_to(Step::kAddress);
  caller.transport->on_not_connected(caller.now, caller.id(), ConnectFailure::kNoRoute);
  caller.expect_failed(Kind::kUnreachable, RejectReason::kNoAnswer, "no_route", ConnectFailure::kNoRoute);
}

TEST(RnicCall, AnotherDeviceThanTheOneThatWasNamedIsSaidSo) {
  Caller caller;
  caller.come_to(Step::kAddress);
  caller.transport->on_not_connected(caller.now, caller.id(), ConnectFailure::kOtherDevice);
  caller.expect_failed(Kind::kRejected, RejectReason::kOther, "other_device", ConnectFailure::kOtherDevice);
}

TEST(RnicCall, ADeviceThatCannotBeUsedIsSaidSo) {
  Caller caller;
  caller.come_to(Step::kAddress);
  caller.transport->on_not_connected(caller.now, caller.id(), ConnectFailure::kDeviceRefused);
  caller.expect_failed(Kind::kRejected, RejectReason::kOther, "device_refused", ConnectFailure::kDeviceRefused);
}

TEST(RnicCall, ARouteThatCannotBeAskedForIsSaidSo) {
  Caller caller;
  caller.host.route_failure = ConnectFailure::kRouteUnresolved;
  caller.come_to(Step::kAddress);
  caller.transport->on_address_resolved(caller.now, caller.id());
  caller.expect_failed(Kind::kUnreachable, RejectReason::kNoAnswer, "route_unresolved", ConnectFailure::kRouteUnresolved);
}

TEST(RnicCall, ARouteHasATimeLimitOfItsOwn) {
  Caller caller;
  caller.come_to(Step::kAddress);
  caller.advance(RnicOptions().resolve_timeout - Duration::ms(500));
  caller.transport->on_address_resolved(caller.now, caller.id());
  caller.advance(RnicOptions().resolve_timeout - Duration::ms(500));
  EXPECT_TRUE(caller.events.empty());
  caller.advance(Duration::ms(600));
  caller.expect_failed(Kind::kUnreachable, RejectReason::kNoAnswer, "route_unresolved", ConnectFailure::kRouteUnresolved);
}

TEST(RnicCall, ADeviceWithoutAQueuePairIsSaidSo) {
  Caller caller;
  caller.host.make_error = Error::kNoResources;
  caller.come_to(Step::kRequest);
  caller.expect_failed(Kind::kRejected, RejectReason::kOther, "no_queue_pair", ConnectFailure::kNoQueuePair);
}

TEST(RnicCall, AMessageOfTooManyPiecesIsSaidSo) {
  Caller caller;
  caller.host.made.receive_pieces = 1;
  caller.come_to(Step::kRequest);
  EXPECT_FALSE(caller.at().has_queue_pair);
  caller.expect_failed(Kind::kRejected, RejectReason::kOther, "receive_pieces", ConnectFailure::kPieces);
}

TEST(RnicCall, ARequestThatRdmaCoreDoesNotTakeIsSaidSo) {
  Caller caller;
  caller.host.connect_failure = ConnectFailure::kRequestFailed;
  caller.come_to(Step::kAsked);
  caller.expect_failed(Kind::kRejected, RejectReason::kOther, "request_failed", ConnectFailure::kRequestFailed);
}

// siw connects TCP meanwhile.
TEST(RnicCall, AServerThatListensNotIsKnownAtOnce) {
  Caller caller;
  caller.host.connect_failure = ConnectFailure::kNoListener;
  caller.come_to(Step::kAsked);
  caller.expect_failed(Kind::kRejected, RejectReason::kNoListener, "connection_refused", ConnectFailure::kNoListener);
}

TEST(RnicCall, ARejectionSaysWhatTheWireSays) {
  Caller caller;
  caller.come_to(Step::kAsked);
  const std::vector<uint8_t> words{0xaa, 0xbb};
  caller.transport->on_rejected(caller.now, caller.id(), {RejectReason::kNoListener, "invalid_service_id"}, words);
  caller.turn();
  EXPECT_EQ(caller.told, words);
  caller.expect_failed(Kind::kRejected, RejectReason::kNoListener, "invalid_service_id", ConnectFailure::kRejected);
}

TEST(RnicCall, ARejectionOfOurKindSaysMore) {
  Caller caller;
  caller.come_to(Step::kAsked);
  const std::vector<uint8_t> words{1, 2, 3};
  const verbs::Refusal refusal(RejectReason::kNoResources, words);
  caller.transport->on_rejected(caller.now, caller.id(), {RejectReason::kRefused, "consumer_defined"}, refusal.bytes());
  caller.turn();
  EXPECT_EQ(caller.told, words);
  caller.expect_failed(Kind::kRejected, RejectReason::kNoResources, to_string(RejectReason::kNoResources),
                       ConnectFailure::kRejected);
}

TEST(RnicCall, AServerThatDoesNotAnswerIsGivenUp) {
  Caller caller;
  caller.come_to(Step::kAsked);
  caller.advance(Duration::seconds(4));
  EXPECT_TRUE(caller.events.empty());
  caller.advance(Duration::seconds(2));
  caller.expect_failed(Kind::kUnreachable, RejectReason::kNoAnswer, "timeout", ConnectFailure::kTimeout);
}

TEST(RnicCall, TheConnectionManagerMayGiveUpFirst) {
  Caller caller;
  caller.come_to(Step::kAsked);
  caller.transport->on_not_connected(caller.now, caller.id(), ConnectFailure::kUnreachable);
  caller.expect_failed(Kind::kUnreachable, RejectReason::kNoAnswer, "unreachable", ConnectFailure::kUnreachable);
}

TEST(RnicCall, AServerThatLeavesMeanwhileIsSaidSo) {
  Caller caller;
  caller.come_to(Step::kAsked);
  caller.transport->on_disconnected(caller.now, caller.id());
  caller.expect_failed(Kind::kRejected, RejectReason::kOther, "lost_in_setup", ConnectFailure::kLost);
}

TEST(RnicCall, AQueuePairThatCannotSendIsSaidSo) {
  Caller caller;
  caller.host.can_be_ready = false;
  caller.come_to(Step::kAnswered);
  caller.expect_failed(Kind::kRejected, RejectReason::kOther, "request_failed", ConnectFailure::kRequestFailed);
}

TEST(RnicCall, ADeviceThatGoesEndsItInEveryStep) {
  for (const Step step : {Step::kAddress, Step::kRoute, Step::kRequest, Step::kAsked}) {
    Caller caller;
    caller.come_to(step);
    caller.transport->on_device_removed(caller.now, caller.id());
    EXPECT_TRUE(caller.at().released) << "nothing may refer to the device";
    caller.expect_failed(Kind::kRejected, RejectReason::kOther, "device_gone", ConnectFailure::kDeviceGone);
  }
}

TEST(RnicCall, AQueuePairThatFailsBeforeTheAnswerEndsIt) {
  Caller caller;
  caller.come_to(Step::kAsked);
  caller.transport->on_queue_pair_event(caller.now, caller.id(), DeviceEvent::kQueuePairFatal);
  caller.answer();
  caller.turn();
  ASSERT_EQ(caller.events.size(), 1u);
  EXPECT_EQ(caller.events[0].kind, Kind::kUnreachable);
  EXPECT_EQ(caller.events[0].rejection.name, "lost_in_setup");
  EXPECT_FALSE(caller.at().ready);
  caller.transport->destroy(caller.connection);
  EXPECT_TRUE(caller.at().released);
}

// Its user has no queue pair yet to see it by.
TEST(RnicCall, WorkThatFailsBeforeTheAnswerEndsIt) {
  Caller caller;
  caller.come_to(Step::kAsked);
  const uint64_t work = caller.at().receives.front().work.id;
  caller.transport->on_completion(caller.now, {.id = work, .status = WcStatus::kLocalLengthError});
  caller.expect_failed(Kind::kRejected, RejectReason::kOther, "lost_in_setup", ConnectFailure::kLost);
}

TEST(RnicCall, WorkThatIsFlushedBeforeTheAnswerEndsItInTime) {
  Caller caller;
  caller.come_to(Step::kAsked);
  const uint64_t work = caller.at().receives.front().work.id;
  caller.transport->on_completion(caller.now, {.id = work, .status = WcStatus::kWorkRequestFlushed});
  caller.turn();
  EXPECT_TRUE(caller.events.empty()) << "somebody may say why";
  caller.advance(Duration::ms(60));
  ASSERT_EQ(caller.events.size(), 1u);
  EXPECT_EQ(caller.events[0].rejection.name, "lost_in_setup");
  caller.transport->on_rejected(caller.now, caller.id(), {RejectReason::kRefused, "rejected"}, {});
  caller.turn();
  EXPECT_EQ(caller.events.size(), 1u) << "told once";
}

// What the device had comes back when its queue pair is gone, before the user's turn.
TEST(RnicCall, WhatIsFlushedBehindTheEndTellsNothing) {
  Caller caller;
  caller.come_to(Step::kAsked);
  const uint64_t work = caller.at().receives.front().work.id;
  caller.transport->on_not_connected(caller.now, caller.id(), ConnectFailure::kNoListener);
  caller.transport->on_completion(caller.now, {.id = work, .status = WcStatus::kWorkRequestFlushed});
  caller.transport->on_completion(caller.now, {.id = work + 1, .status = WcStatus::kLocalLengthError});
  EXPECT_EQ(caller.failures(ConnectFailure::kLost), 0u);
  caller.expect_failed(Kind::kRejected, RejectReason::kNoListener, "connection_refused", ConnectFailure::kNoListener);
}

TEST(RnicCall, ReceivesThatTheDeviceDoesNotTakeEndIt) {
  Caller caller;
  caller.host.receives_taken = 0;
  caller.come_to(Step::kAsked);
  caller.expect_failed(Kind::kRejected, RejectReason::kOther, "request_failed", ConnectFailure::kRequestFailed);
}

// Between the answer and its user's turn.
TEST(RnicCall, AQueuePairThatHasFailedIsNewsForItsUser) {
  Caller caller;
  caller.establishes = false;
  caller.come_to(Step::kAnswered);
  const uint64_t work = caller.at().receives.front().work.id;
  caller.transport->on_completion(caller.now, {.id = work, .status = WcStatus::kLocalLengthError});
  verbs::ConnectionEvent event;
  ASSERT_TRUE(caller.transport->poll_event(caller.now, event));
  EXPECT_EQ(event.kind, Kind::kConnectResponse);
  verbs::ReadyQueuePair ready;
  ASSERT_TRUE(caller.transport->poll_ready(ready));
  EXPECT_TRUE(ready.queue_pair->in_error());
}

TEST(RnicCall, OneThatIsLostBeforeItsUserHearsOfItWasNotMade) {
  Caller caller;
  caller.come_to(Step::kAnswered);
  caller.transport->on_disconnected(caller.now, caller.id());
  caller.turn();
  ASSERT_EQ(caller.events.size(), 1u);
  EXPECT_EQ(caller.events[0].kind, Kind::kUnreachable);
  EXPECT_EQ(caller.events[0].rejection.name, "lost_in_setup");
  EXPECT_EQ(caller.failures(ConnectFailure::kLost), 1u);
  EXPECT_EQ(caller.transport->stats().established, 0u);
}

TEST(RnicCall, OneThatIsLostBeforeItIsFinalWasEstablishedForItsUser) {
  Caller caller;
  caller.come_to(Step::kPolled);
  caller.transport->on_disconnected(caller.now, caller.id());
  caller.transport->establish(caller.now, caller.connection);
  caller.turn();
  ASSERT_EQ(caller.events.size(), 2u);
  EXPECT_EQ(caller.events[1].kind, Kind::kDisconnected);
  EXPECT_FALSE(caller.at().established);
  caller.transport->destroy(caller.connection);
  EXPECT_EQ(caller.transport->stats().connections, 0u);
}

TEST(RnicCall, WhatCannotBeMadeFinalIsLost) {
  Caller caller;
  caller.host.can_establish = false;
  caller.come_to(Step::kEstablished);
  ASSERT_EQ(caller.events.size(), 2u);
  EXPECT_EQ(caller.events[1].kind, Kind::kDisconnected);
  EXPECT_EQ(caller.events[1].cause, verbs::DisconnectCause::kTransport);
}

TEST(RnicCall, ItMayBeDestroyedInEveryStep) {
  for (const Step step : kSteps) {
    for (const bool says_goodbye : {false, true}) {
      Caller caller;
      caller.come_to(step);
      const size_t events = caller.events.size();
      if (says_goodbye) {
        caller.transport->disconnect(caller.now, caller.connection);
      }
      caller.transport->destroy(caller.connection);
      EXPECT_FALSE(caller.at().has_queue_pair);
      EXPECT_EQ(caller.at().goodbyes, says_goodbye && step == Step::kEstablished ? 1u : 0u);
      EXPECT_FALSE(caller.at().rejected) << "who asks cannot reject";
      caller.tell_all_late();
      caller.advance(Duration::seconds(60));
      EXPECT_TRUE(caller.at().released);
      EXPECT_EQ(caller.events.size(), events);
      EXPECT_EQ(caller.transport->live_count(), 0u);
      EXPECT_EQ(caller.transport->stats().connections, 0u);
      EXPECT_TRUE(caller.call().ok());
    }
  }
}

TEST(RnicCall, TheProcessMayEndInEveryStep) {
  for (const Step step : kSteps) {
    Caller caller;
    caller.come_to(step);
    caller.transport.reset();
    EXPECT_TRUE(caller.at().released);
  }
}

// ---- Memory ----

TEST(RnicCall, MemoryIsExposedForOneUseWithTheRightsThatItNeeds) {
  Caller caller;
  caller.come_to(Step::kEstablished);
  std::vector<uint8_t> bytes(100);
  const auto source = caller.memory.expose(kDomain, bytes, verbs::RemoteAccess::kRead);
  const auto sink = caller.memory.expose(kDomain, bytes, verbs::RemoteAccess::kWrite);
  ASSERT_TRUE(source.ok() && sink.ok());
  EXPECT_NE(source->key, sink->key);
  EXPECT_EQ(source->address, reinterpret_cast<uintptr_t>(bytes.data())) << "the device's";
  ASSERT_EQ(caller.host.regions().size(), 2u);
  EXPECT_EQ(caller.host.regions().at(1).access, verbs::RemoteAccess::kRead);
  EXPECT_EQ(caller.host.regions().at(2).access, verbs::RemoteAccess::kWrite);
  EXPECT_EQ(caller.host.regions().at(1).connection, caller.id());
  EXPECT_FALSE(caller.memory.invalidate(verbs::ProtectionDomain(8), source->key)) << "of another domain";
  EXPECT_TRUE(caller.memory.invalidate(kDomain, source->key));
  EXPECT_FALSE(caller.memory.invalidate(kDomain, source->key)) << "it was";
  EXPECT_TRUE(caller.memory.invalidate(kDomain, sink->key));
  EXPECT_TRUE(caller.host.regions().empty());
}

TEST(RnicCall, NothingIsExposedWithoutAQueuePair) {
  Caller caller;
  std::vector<uint8_t> bytes(100);
  EXPECT_EQ(caller.memory.expose(kDomain, bytes, verbs::RemoteAccess::kRead).error(), Error::kBadState);
  caller.come_to(Step::kRoute);
  EXPECT_EQ(caller.memory.expose(kDomain, bytes, verbs::RemoteAccess::kRead).error(), Error::kBadState);
}

TEST(RnicCall, MemoryHasABound) {
  Caller caller;
  caller.come_to(Step::kEstablished);
  std::vector<uint8_t> bytes(16);
  std::vector<verbs::Rkey> keys;
  for (int i = 0; i < 16; ++i) {
    const auto region = caller.memory.expose(kDomain, bytes, verbs::RemoteAccess::kRead);
    ASSERT_TRUE(region.ok());
    keys.push_back(region->key);
  }
  EXPECT_EQ(caller.memory.expose(kDomain, bytes, verbs::RemoteAccess::kRead).error(), Error::kNoResources);
  for (const verbs::Rkey key : keys) {
    EXPECT_TRUE(caller.memory.invalidate(kDomain, key));
  }
  caller.host.registers = false;
  EXPECT_EQ(caller.memory.expose(kDomain, bytes, verbs::RemoteAccess::kRead).error(), Error::kNoResources);
  EXPECT_EQ(caller.memory.region_count(), 0u);
}

// And whoever exposed it may still ask for it.
TEST(RnicCall, TheDeviceLetsGoOfMemoryBeforeTheQueuePairGoes) {
  for (const bool device_goes : {false, true}) {
    Caller caller;
    caller.come_to(Step::kEstablished);
    std::vector<uint8_t> bytes(16);
    const auto region = caller.memory.expose(kDomain, bytes, verbs::RemoteAccess::kWrite);
    ASSERT_TRUE(region.ok());
    if (device_goes) {
      caller.transport->on_device_removed(caller.now, caller.id());
      EXPECT_TRUE(caller.host.regions().empty());
      EXPECT_EQ(caller.memory.expose(kDomain, bytes, verbs::RemoteAccess::kWrite).error(), Error::kBadState);
      EXPECT_TRUE(caller.memory.invalidate(kDomain, region->key));
      EXPECT_FALSE(caller.memory.invalidate(kDomain, region->key));
    }
    caller.transport->destroy(caller.connection);
    EXPECT_TRUE(caller.host.regions().empty());
    EXPECT_EQ(caller.memory.region_count(), 0u);
    EXPECT_FALSE(caller.memory.invalidate(kDomain, region->key));
  }
}

// The call's connection has to go then (RFC 8166 4.5.4).
TEST(RnicCall, MemoryThatTheDeviceKeepsIsNotShutOff) {
  Caller caller;
  caller.come_to(Step::kEstablished);
  std::vector<uint8_t> bytes(16);
  const auto region = caller.memory.expose(kDomain, bytes, verbs::RemoteAccess::kWrite);
  ASSERT_TRUE(region.ok());
  caller.host.deregisters = false;
  EXPECT_FALSE(caller.memory.invalidate(kDomain, region->key));
  caller.host.deregisters = true;
  caller.transport->destroy(caller.connection);
  EXPECT_TRUE(caller.host.regions().empty());
}

TEST(RnicCall, WithoutMemoryTheQueuePairExposesNothing) {
  Caller caller({}, false);
  caller.host.exposed = Exposure::kNone;
  caller.come_to(Step::kEstablished);
  EXPECT_FALSE(caller.at().wish.exposes);
  EXPECT_EQ(caller.at().reads_of_peer_max, 0u);
  EXPECT_EQ(caller.transport->stats().exposed, 0u);
  caller.transport->destroy(caller.connection);
  caller.host.exposed = Exposure::kExposed;
  caller.come_to(Step::kEstablished);
  EXPECT_EQ(caller.transport->stats().exposed, 1u) << "nobody has wished it";
  caller.transport->destroy(caller.connection);
  EXPECT_EQ(caller.transport->stats().exposed, 0u);
}

TEST(RnicCall, WhatIsExposedOnPurposeIsNotCounted) {
  Caller caller;
  caller.host.exposed = Exposure::kExposed;
  caller.come_to(Step::kEstablished);
  EXPECT_EQ(caller.transport->stats().exposed, 0u);
  EXPECT_EQ(caller.transport->stats().connections, 1u);
}

// Of the transport that also listens.
TEST(RnicCall, AConnectionThatWasAskedOfUsExposesNothing) {
  Caller caller;
  ASSERT_TRUE(caller.transport->listen(kPort).ok());
  const auto asked =
      caller.transport->on_request(caller.now, {.peer = kServer, .peer_port = 1, .listener_port = kPort, .reads_max = 1});
  ASSERT_TRUE(asked);
  verbs::ConnectionEvent event;
  ASSERT_TRUE(caller.transport->poll_event(caller.now, event));
  verbs::ConnectionOptions options{.receive_bytes_max = 1024};
  options.domain = kDomain;
  ASSERT_TRUE(caller.transport->accept(caller.now, event.connection, options).ok());
  EXPECT_FALSE(caller.host.at(*asked).wish.exposes);
  std::vector<uint8_t> bytes(16);
  EXPECT_EQ(caller.memory.expose(kDomain, bytes, verbs::RemoteAccess::kRead).error(), Error::kBadState);
}

}  // namespace
}  // namespace cw::rnic::test
