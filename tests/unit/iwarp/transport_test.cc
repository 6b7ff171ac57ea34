// Connections of iWARP from their set-up to their end, and messages of every kind between two of our transports.
#include "tests/support/sanitized.h"
#include "tests/unit/iwarp/two_ends.h"

namespace cw::iwarp::test {
namespace {

using verbs::WcOpcode;
using verbs::WcStatus;

// Proves RDMAP-6.1-8, RDMAP-6.1-9
TEST(IwarpTransport, ConnectsBothSidesWithTheirPrivateData) {
  TwoEnds t;
  const std::vector<uint8_t> theirs{1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<uint8_t> ours{9, 8, 7};
  t.server.accept_options.private_data = ours;
  t.connect(theirs);
  ASSERT_TRUE(t.server.has_event(Kind::kConnectRequest));
  EXPECT_EQ(t.server.events[0].private_data, theirs);
  ASSERT_TRUE(t.client.has_event(Kind::kConnectResponse));
  EXPECT_EQ(t.client.events[0].private_data, ours);
  EXPECT_TRUE(t.server.has_event(Kind::kEstablished));
  EXPECT_EQ(t.server.stream().ord, IwarpOptions().ird);
  EXPECT_EQ(t.client.stream().ird, IwarpOptions().ird);
  EXPECT_EQ(t.server.stream().ird, t.client.stream().ord) << "in either direction as many as the other end answers";
  EXPECT_TRUE(t.server.stream().crc);
  t.expect_nothing_left();
}

// From the moment that its user is told of it, or says so, until that user lets it go.
TEST(IwarpTransport, CountsTheConnectionsThatItsUsersHave) {
  TwoEnds t;
  const auto open = [&] { return std::pair(t.client.transport.stats().connections, t.server.transport.stats().connections); };
  EXPECT_EQ(open(), std::pair(uint64_t{0}, uint64_t{0}));
  t.connect();
  EXPECT_EQ(open(), std::pair(uint64_t{1}, uint64_t{1}));
  const verbs::ConnectionId first = t.client.connection;
  const verbs::ConnectionId first_at_server = t.server.connection;
  t.connect();
  EXPECT_EQ(open(), std::pair(uint64_t{2}, uint64_t{2}));
  t.client.transport.disconnect(t.net.now, first);
  t.client.transport.destroy(first);
  t.run();
  EXPECT_EQ(open(), std::pair(uint64_t{1}, uint64_t{2})) << "the server's user still has it";
  t.server.transport.destroy(first_at_server);
  EXPECT_EQ(open(), std::pair(uint64_t{1}, uint64_t{1}));
  // One that is refused never was one.
  t.server.refuse = verbs::RejectReason::kRefused;
  const verbs::ConnectionId second = t.client.connection;
  t.connect();
  EXPECT_EQ(open(), std::pair(uint64_t{1}, uint64_t{1}));
  t.client.transport.destroy(t.client.connection);
  EXPECT_EQ(open(), std::pair(uint64_t{1}, uint64_t{1}));
  t.client.connection = second;
  t.expect_nothing_left();
  EXPECT_EQ(open(), std::pair(uint64_t{0}, uint64_t{0}));
}

TEST(IwarpTransport, ARefusalCarriesItsReasonAndWhatTheUserSays) {
  for (const std::vector<uint8_t>& said : {std::vector<uint8_t>{}, {1, 2, 3}, std::vector<uint8_t>(verbs::kPrivateDataMax, 0)}) {
    TwoEnds t;
    t.server.refuse = verbs::RejectReason::kNoResources;
    t.server.refusal_data = said;
    t.connect();
    ASSERT_EQ(t.client.events.size(), 1u);
    EXPECT_EQ(t.client.events[0].kind, Kind::kRejected);
    EXPECT_EQ(t.client.events[0].rejection.reason, verbs::RejectReason::kNoResources);
    EXPECT_EQ(t.client.events[0].private_data, said);
    t.client.transport.destroy(t.client.connection);
  }
}

TEST(IwarpTransport, ReadDepthsAreOfferedAndBounded) {
  IwarpOptions client_options;
  client_options.ird = 5;
  IwarpOptions server_options;
  server_options.ord = 32;
  TwoEnds t(client_options, server_options);
  t.server.accept_options.depths = {.initiator_depth = 3, .responder_resources = 0};
  t.connect();
  const auto depths_at = [](const EndHost& end, Kind kind) {
    const auto found = std::ranges::find_if(end.events, [&](const EndHost::Event& each) { return each.kind == kind; });
    return found == end.events.end() ? verbs::ReadDepths() : found->depths;
  };
  EXPECT_EQ(depths_at(t.server, Kind::kConnectRequest).initiator_depth, 5);
  EXPECT_EQ(depths_at(t.client, Kind::kConnectResponse).responder_resources, 3);
  EXPECT_EQ(t.server.stream().ord, 3);
  t.expect_nothing_left();
}

// Proves RDMAP-3.2-4, RDMAP-5.1-4, RDMAP-5.1-5, RDMAP-5.2.1-10, RDMAP-5.3-16
TEST(IwarpTransport, CarriesMessagesOfEveryKind) {
  for (const bool crc : {true, false}) {
    for (const uint32_t piece : {0u, 1u, 7u, 1500u}) {
      for (const uint32_t mss : {536u, 1460u, 65483u}) {
        TwoEnds t({.crc = crc}, {.crc = crc});
        t.net.piece_bytes_max = piece;
        t.net.mss_bytes = mss;
        t.connect();
        ASSERT_NE(t.client.qp, nullptr);
        // A call, a READ of the client's memory, a WRITE into it, a reply that invalidates.
        std::vector<uint8_t> source = pattern(20'000, 3);
        std::vector<uint8_t> sink(30'000);
        const auto read_key = t.client.memory.register_region(TwoEnds::kDomain, source, verbs::RemoteAccess::kRead);
        const auto write_key = t.client.memory.register_region(TwoEnds::kDomain, sink, verbs::RemoteAccess::kWrite);
        const std::vector<uint8_t> call = pattern(3000, 5);
        ASSERT_TRUE(t.client.qp->post_send({.id = verbs::WorkId(1), .payload = t.client.chain(call), .solicited = true}).ok());
        t.run();
        ASSERT_EQ(t.server.completions.size(), 1u);
        EXPECT_EQ(bytes_of(t.server.completions[0].payload), call);
        EXPECT_EQ(t.server.completions[0].opcode, WcOpcode::kReceive);
        EXPECT_TRUE(t.server.completions[0].solicited);
        ASSERT_EQ(t.client.completions.size(), 1u);
        EXPECT_EQ(t.client.completions[0].id, verbs::WorkId(1));

        ASSERT_TRUE(t.server.qp
                        ->post_read({.id = verbs::WorkId(2),
                                     .rkey = *read_key,
                                     .remote_address = t.client.memory.address_of(*read_key) + 10,
                                     .length = 19'000})
                        .ok());
        t.run();
        ASSERT_EQ(t.server.completions.size(), 2u);
        EXPECT_EQ(t.server.completions[1].opcode, WcOpcode::kRdmaRead);
        EXPECT_EQ(bytes_of(t.server.completions[1].payload), std::vector<uint8_t>(source.begin() + 10, source.begin() + 19'010));

        const std::vector<uint8_t> written = pattern(25'001, 9);
        ASSERT_TRUE(t.server.qp
                        ->post_write({.id = verbs::WorkId(3),
                                      .payload = t.server.chain(written),
                                      .rkey = *write_key,
                                      .remote_address = t.client.memory.address_of(*write_key) + 4000})
                        .ok());
        ASSERT_TRUE(
            t.server.qp->post_send({.id = verbs::WorkId(4), .payload = t.server.chain(pattern(100)), .invalidate = *write_key})
                .ok());
        t.run();
        ASSERT_EQ(t.server.completions.size(), 4u);
        ASSERT_EQ(t.client.completions.size(), 2u);
        EXPECT_EQ(t.client.completions[1].invalidated, *write_key);
        EXPECT_TRUE(std::equal(written.begin(), written.end(), sink.begin() + 4000));
        EXPECT_EQ(t.client.memory.region_count(), 1u);
        for (const auto& completion : t.server.completions) {
          EXPECT_EQ(completion.status, WcStatus::kSuccess);
        }
        t.expect_nothing_left();
      }
    }
  }
}

// Proves RDMAP-1.1-5, RDMAP-2.4-9, RDMAP-4.4-3, RDMAP-5.2.1-8, RDMAP-5.2.1-11, RDMAP-5.2.2-4, RDMAP-5.2.2-7, RDMAP-5.3-6,
// RDMAP-5.3-11, RDMAP-B-1, RDMAP-5.5-11, RDMAP-5.5-13, RDMAP-5.5-20, RDMAP-5.5-25
TEST(IwarpTransport, ARandomMixArrivesInOrderOverAnySegmentation) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SeededRandom random(seed);
    TwoEnds t;
    t.net.mss_bytes = 100 + random.next_below(9000);
    t.net.piece_bytes_max = random.next_below(3) == 0 ? 0 : 1 + random.next_below(4000);
    t.net.buffer_bytes_max = 1 + random.next_below(100'000);
    t.connect();
    ASSERT_NE(t.server.qp, nullptr);
    std::vector<uint8_t> memory = pattern(100'000, 2);
    const auto key = t.client.memory.register_region(TwoEnds::kDomain, memory, verbs::RemoteAccess::kReadWrite);
    const uint64_t base = t.client.memory.address_of(*key);
    std::deque<std::vector<uint8_t>> sends;
    std::deque<std::pair<uint64_t, std::vector<uint8_t>>> reads;
    uint64_t next_id = 1;
    for (uint32_t step = 0; step < 300; ++step) {
      const uint32_t size = random.next_below(3) == 0 ? random.next_below(4097) : random.next_below(200);
      switch (random.next_below(5)) {
        case 0:
          if (t.server.receives + 1000 > sends.size()) {
            const auto bytes = pattern(size, step);
            if (t.client.qp->post_send({.payload = t.client.chain(bytes), .signaled = random.next_below(2) == 0}).ok()) {
              sends.push_back(bytes);
              t.server.qp->post_receives(1);
            }
          }
          break;
        case 1: {
          const uint32_t at = random.next_below(50'000);
          const uint32_t length = random.next_below(2) == 0 ? random.next_below(20'000) : random.next_below(3);
          // WRITEs stay in the other half.
          if (t.server.qp
                  ->post_read({.id = verbs::WorkId(next_id),
                               .rkey = *key,
                               .remote_address = base + at,
                               .length = length,
                               .fence = random.next_below(4) == 0})
                  .ok()) {
            reads.emplace_back(next_id++, std::vector<uint8_t>(memory.begin() + at, memory.begin() + at + length));
          }
          break;
        }
        case 2: {
          const auto bytes = pattern(random.next_below(20'000), step);
          const uint32_t at = 75'000 + random.next_below(5'000);
          (void)t.server.qp->post_write({.payload = t.server.chain(bytes),
                                         .rkey = *key,
                                         .remote_address = base + at,
                                         .fence = random.next_below(4) == 0,
                                         .signaled = false});
          break;
        }
        default:
          (void)t.net.turn();
          t.client.turn(t.net.now);
          t.server.turn(t.net.now);
          break;
      }
      while (!t.server.completions.empty()) {
        verbs::Completion& completion = t.server.completions.front();
        ASSERT_EQ(completion.status, WcStatus::kSuccess);
        if (completion.opcode == WcOpcode::kReceive) {
          ASSERT_EQ(bytes_of(completion.payload), sends.front());
          sends.pop_front();
        } else {
          ASSERT_EQ(completion.opcode, WcOpcode::kRdmaRead);
          ASSERT_EQ(completion.id, verbs::WorkId(reads.front().first));
          ASSERT_EQ(bytes_of(completion.payload), reads.front().second);
          reads.pop_front();
        }
        t.server.completions.pop_front();
      }
    }
    t.run();
    uint64_t done = 0;
    for (const auto& completion : t.server.completions) {
      done += completion.status == WcStatus::kSuccess ? 1 : 0;
    }
    EXPECT_EQ(done, sends.size() + reads.size());
    EXPECT_EQ(t.server.qp->works_pending(), 0u);
    EXPECT_EQ(t.client.qp->works_pending(), 0u);
    t.expect_nothing_left();
  }
}

// RFC 5040 4.8, RFC 5041 8: what each kind of wrong access to registered memory is answered with.
// Proves RDMAP-4.8-13, RDMAP-4.8-14, RDMAP-4.8-15, RDMAP-4.8-16, RDMAP-5.2.1-13, RDMAP-7.2-9, RDMAP-7.2-10, RDMAP-7.2-12,
// RDMAP-7.2-14, RDMAP-8.1.1-1
// Proves RDMAP-8.1.1-2, RDMAP-8.1.1-3, RDMAP-8.1.1-5, RDMAP-3.2-8, RDMAP-3.2-12
TEST(IwarpTransport, WrongAccessHasItsOwnTerminate) {
  struct Case {
    const char* name;
    bool write;
    verbs::ProtectionDomain domain;
    verbs::RemoteAccess access;
    uint32_t key_difference;
    uint64_t offset;
    uint32_t bytes;
    TerminateCause cause;
  };
  constexpr auto kRead = verbs::RemoteAccess::kRead;
  constexpr auto kWrite = verbs::RemoteAccess::kWrite;
  constexpr verbs::ProtectionDomain kOther{8};
  for (const Case& each :
       {Case{"READ, no such key", false, TwoEnds::kDomain, kRead, 1, 0, 10, TerminateCause::kProtectionInvalidStag},
        Case{"READ, another's key", false, kOther, kRead, 0, 0, 10, TerminateCause::kProtectionOtherStream},
        Case{"READ, behind the end", false, TwoEnds::kDomain, kRead, 0, 91, 10, TerminateCause::kProtectionBounds},
        Case{"READ, not granted", false, TwoEnds::kDomain, kWrite, 0, 0, 10, TerminateCause::kProtectionAccess},
        Case{"WRITE, no such key", true, TwoEnds::kDomain, kWrite, 1, 0, 10, TerminateCause::kTaggedInvalidStag},
        Case{"WRITE, another's key", true, kOther, kWrite, 0, 0, 10, TerminateCause::kTaggedOtherStream},
        Case{"WRITE, behind the end", true, TwoEnds::kDomain, kWrite, 0, 91, 10, TerminateCause::kTaggedBounds},
        Case{"WRITE, not granted", true, TwoEnds::kDomain, kRead, 0, 0, 10, TerminateCause::kProtectionAccess}}) {
    SCOPED_TRACE(each.name);
    TwoEnds t;
    t.connect();
    ASSERT_TRUE(t.client.qp->post_send({.payload = t.client.chain(pattern(10)), .signaled = false}).ok());
    t.run();
    std::vector<uint8_t> memory(100, 0x55);
    const auto key = t.client.memory.register_region(each.domain, memory, each.access);
    const verbs::Rkey used(key->value() ^ each.key_difference);
    const uint64_t address = t.client.memory.address_of(*key) + each.offset;
    if (each.write) {
      ASSERT_TRUE(
          t.server.qp->post_write({.payload = t.server.chain(pattern(each.bytes)), .rkey = used, .remote_address = address})
              .ok());
    } else {
      ASSERT_TRUE(t.server.qp->post_read({.rkey = used, .remote_address = address, .length = each.bytes}).ok());
    }
    t.run();
    EXPECT_EQ(t.server.transport.describe(t.server.connection).detail<IwarpDetail>().error.terminate, each.cause);
    EXPECT_EQ(t.client.transport.describe(t.client.connection).detail<IwarpDetail>().error.terminate, each.cause);
    EXPECT_EQ(t.client.transport.stream_stats().terminates_sent[index_of(each.cause)], 1u);
    EXPECT_EQ(t.server.transport.stream_stats().terminates_received[index_of(each.cause)], 1u);
    EXPECT_EQ(memory, std::vector<uint8_t>(100, 0x55));
    t.expect_nothing_left();
  }
}

// Proves RDMAP-4.8-17, RDMAP-7.2-13
TEST(IwarpTransport, AddressesThatWrapAreRefusedAsSuch) {
  for (const bool write : {false, true}) {
    TwoEnds t;
    t.connect();
    ASSERT_TRUE(t.client.qp->post_send({.payload = t.client.chain(pattern(10)), .signaled = false}).ok());
    t.run();
    std::vector<uint8_t> memory(100);
    const auto key = t.client.memory.register_region(TwoEnds::kDomain, memory, verbs::RemoteAccess::kReadWrite);
    if (write) {
      ASSERT_TRUE(
          t.server.qp->post_write({.payload = t.server.chain(pattern(10)), .rkey = *key, .remote_address = UINT64_MAX - 4}).ok());
    } else {
      ASSERT_TRUE(t.server.qp->post_read({.rkey = *key, .remote_address = UINT64_MAX - 4, .length = 10}).ok());
    }
    t.run();
    EXPECT_EQ(t.server.transport.describe(t.server.connection).detail<IwarpDetail>().error.terminate,
              write ? TerminateCause::kTaggedWrap : TerminateCause::kProtectionWrap);
    t.expect_nothing_left();
  }
}

// Proves RDMAP-4.8-18, RDMAP-5.3-15, RDMAP-5.3-17, RDMAP-7.2-5
// Proves RDMAP-8.1.1-7
TEST(IwarpTransport, AnInvalidationOfAnotherConnectionsKeyIsRefused) {
  TwoEnds t;
  t.connect();
  ASSERT_TRUE(t.client.qp->post_send({.payload = t.client.chain(pattern(10)), .signaled = false}).ok());
  t.run();
  std::vector<uint8_t> memory(100);
  const auto key = t.client.memory.register_region(verbs::ProtectionDomain(8), memory, verbs::RemoteAccess::kRead);
  ASSERT_TRUE(t.server.qp->post_send({.payload = t.server.chain(pattern(10)), .invalidate = *key}).ok());
  t.run();
  EXPECT_EQ(t.client.transport.describe(t.client.connection).detail<IwarpDetail>().error.terminate,
            TerminateCause::kProtectionNotInvalidated);
  EXPECT_EQ(t.client.memory.region_count(), 1u);
  t.expect_nothing_left();
}

// Its owner may take memory back while a READ of it is being answered.
// Proves RDMAP-8.1.1-4, RDMAP-8.1.1-6
TEST(IwarpTransport, MemoryThatIsWithdrawnIsReadNoFurther) {
  TwoEnds t;
  t.connect();
  ASSERT_TRUE(t.client.qp->post_send({.payload = t.client.chain(pattern(10)), .signaled = false}).ok());
  t.run();
  t.net.buffer_bytes_max = 3000;
  std::vector<uint8_t> memory = pattern(1'000'000);
  const auto key = t.client.memory.register_region(TwoEnds::kDomain, memory, verbs::RemoteAccess::kRead);
  ASSERT_TRUE(
      t.server.qp->post_read({.rkey = *key, .remote_address = t.client.memory.address_of(*key), .length = 1'000'000}).ok());
  for (uint32_t i = 0; i < 20; ++i) {
    (void)t.net.turn();
  }
  EXPECT_TRUE(t.client.memory.invalidate(TwoEnds::kDomain, *key));
  memory.clear();
  memory.shrink_to_fit();
  t.run();
  EXPECT_TRUE(t.client.qp->in_error());
  EXPECT_TRUE(t.server.qp->in_error());
  t.expect_nothing_left();
}

// Proves RDMAP-6.1-10
TEST(IwarpTransport, NeverHasMoreReadsOutstandingThanThePeerTakes) {
  TwoEnds t({.ird = 2});
  t.net.buffer_bytes_max = 100;
  t.connect();
  ASSERT_EQ(t.server.stream().ord, 2u);
  ASSERT_TRUE(t.client.qp->post_send({.payload = t.client.chain(pattern(10)), .signaled = false}).ok());
  t.run();
  t.server.completions.clear();
  std::vector<uint8_t> memory = pattern(5000);
  const auto key = t.client.memory.register_region(TwoEnds::kDomain, memory, verbs::RemoteAccess::kRead);
  for (uint32_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(
        t.server.qp
            ->post_read(
                {.id = verbs::WorkId(i), .rkey = *key, .remote_address = t.client.memory.address_of(*key), .length = 1000})
            .ok());
  }
  uint32_t most = 0;
  for (uint32_t idle = 0; idle < 3;) {
    idle = t.net.turn() ? 0 : idle + 1;
    t.server.turn(t.net.now);
    t.client.turn(t.net.now);
    most = std::max(most, t.server.dynamic_stream().reads_outstanding());
  }
  EXPECT_EQ(most, 2u);
  EXPECT_EQ(t.server.completions.size(), 20u);
  t.expect_nothing_left();
}

// Proves RDMAP-6.1-6
TEST(IwarpTransport, ReadsInFlightAreTheFewerOfThePeersAndOurs) {
  for (const uint16_t theirs : {uint16_t{2}, uint16_t{9}}) {
    for (const uint16_t ours : {uint16_t{3}, uint16_t{7}}) {
      TwoEnds t({.ird = theirs}, {.ord = 16});
      t.server.transport.reconfigure({.ord = ours});
      t.connect();
      EXPECT_EQ(t.server.stream().ord, std::min(theirs, ours));
    }
  }
}

TEST(IwarpTransport, FpdusAreNoLongerThanTheOptionSays) {
  TwoEnds t({.fpdu_bytes_max = 2000});
  t.net.mss_bytes = 65483;
  t.connect();
  const uint64_t before = t.client.transport.stream_stats().fpdus_sent;
  ASSERT_TRUE(t.client.qp->post_send({.payload = t.client.chain(pattern(4096))}).ok());
  t.run();
  EXPECT_EQ(t.client.transport.stream_stats().fpdus_sent - before, 3u);
  EXPECT_LE(t.client.stream().ulpdu_bytes_max, 2000u);
  t.expect_nothing_left();
}

TEST(IwarpTransport, ARefusalSaysWhy) {
  TwoEnds t;
  t.server.refuse = verbs::RejectReason::kNoResources;
  t.connect();
  ASSERT_TRUE(t.client.has_event(Kind::kRejected));
  EXPECT_EQ(t.client.events[0].rejection.reason, verbs::RejectReason::kNoResources);
  t.client.transport.destroy(t.client.connection);
  t.run();
  t.advance(Duration::seconds(3));
  EXPECT_EQ(t.server.transport.live_count(), 0u);
  EXPECT_EQ(t.client.transport.live_count(), 0u);
}

TEST(IwarpTransport, WhereNobodyListensTheConnectionIsRefused) {
  TwoEnds t;
  t.server.transport.unlisten(kPort);
  t.connect();
  ASSERT_TRUE(t.client.has_event(Kind::kRejected));
  EXPECT_EQ(t.client.events.back().rejection.reason, verbs::RejectReason::kNoListener);
  EXPECT_EQ(t.client.events.back().rejection.name, "connection_refused");
  t.client.transport.destroy(t.client.connection);
  EXPECT_EQ(t.client.transport.live_count(), 0u);
}

TEST(IwarpTransport, WhatWasPostedLeavesBeforeTheEndOfTheStream) {
  TwoEnds t;
  t.connect();
  ASSERT_TRUE(t.client.qp->post_send({.payload = t.client.chain(pattern(500))}).ok());
  t.run();
  t.client.transport.disconnect(t.net.now, t.client.connection);
  t.client.transport.destroy(t.client.connection);
  t.run();
  ASSERT_EQ(t.server.completions.size(), 1u);
  EXPECT_EQ(t.server.completions[0].payload.bytes(), 500u);
  EXPECT_TRUE(t.server.was_disconnected_by(verbs::DisconnectCause::kPeer));
  EXPECT_TRUE(t.server.qp->in_error());
  EXPECT_EQ(t.server.transport.describe(t.server.connection).error.cause, "peer_closed");
  t.server.transport.disconnect(t.net.now, t.server.connection);
  t.server.transport.destroy(t.server.connection);
  t.run();
  EXPECT_EQ(t.server.transport.live_count(), 0u);
  EXPECT_EQ(t.client.transport.live_count(), 0u);
}

TEST(IwarpTransport, AConnectionMayBeCutAtEveryByte) {
  for (uint32_t bytes = 1; bytes < 1200; bytes += cw::test::kSanitized ? 17 : 3) {
    TwoEnds t;
    t.net.mss_bytes = 300;
    t.net.piece_bytes_max = 1;
    std::vector<uint8_t> memory = pattern(600);
    const auto key = t.client.memory.register_region(TwoEnds::kDomain, memory, verbs::RemoteAccess::kReadWrite);
    (void)t.client.transport.connect(t.net.now, IpAddress::v4(kServerAddress), kPort, {.context = 1, .domain = TwoEnds::kDomain});
    bool posted = false;
    for (uint32_t i = 0; i < bytes; ++i) {
      (void)t.net.turn();
      t.client.turn(t.net.now);
      t.server.turn(t.net.now);
      if (!posted && t.server.qp != nullptr && t.client.qp != nullptr) {
        posted = true;
        (void)t.client.qp->post_send({.payload = t.client.chain(pattern(100))});
        (void)t.server.qp->post_read({.rkey = *key, .remote_address = t.client.memory.address_of(*key), .length = 600});
        (void)t.server.qp->post_write(
            {.payload = t.server.chain(pattern(300)), .rkey = *key, .remote_address = t.client.memory.address_of(*key)});
      }
    }
    t.net.cut(t.net.connections()[0]);
    t.run();
    for (EndHost* end : {&t.client, &t.server}) {
      end->completions.clear();
      for (const auto& event : end->events) {
        end->transport.destroy(event.connection);
      }
      end->transport.destroy(end->connection);
      t.run();
      t.advance(Duration::seconds(10));
      ASSERT_EQ(end->transport.live_count(), 0u) << bytes;
      ASSERT_LE(end->pool.in_use(), SpareBuffers::kCount) << bytes;
    }
  }
}

TEST(IwarpTransport, AnEmptyPoolDelaysAndEndsNothing) {
  TwoEnds t;
  t.connect();
  // Everything is taken away from the server, then given back.
  std::vector<Buffer*> held;
  ASSERT_TRUE(t.client.qp->post_send({.payload = t.client.chain(pattern(2000))}).ok());
  while (Buffer* one = t.server.pool.allocate_one()) {
    held.push_back(one);
  }
  for (uint32_t i = 0; i < SpareBuffers::kCount + 4; ++i) {
    (void)t.client.qp->post_send({.payload = t.client.chain(pattern(3000))});
    t.server.qp->post_receives(1);
  }
  t.run();
  t.advance(Duration::ms(5));
  // Nor is the peer's time counted.
  for (uint32_t i = 0; i < 6; ++i) {
    t.advance(Duration::seconds(5));
  }
  EXPECT_FALSE(t.server.qp->in_error());
  EXPECT_GT(t.server.transport.stream_stats().out_of_buffers, 0u);
  for (Buffer* one : held) {
    t.server.pool.release(one);
  }
  t.advance(Duration::ms(5));
  t.advance(Duration::ms(5));
  EXPECT_EQ(t.server.completions.size(), SpareBuffers::kCount + 5);
  t.expect_nothing_left();
}

// What arrives meanwhile does not make it forget that it has something to say.
TEST(IwarpTransport, AnAnswerThatWaitsForBuffersLeavesWhenThereAreSome) {
  TwoEnds t;
  t.connect();
  ASSERT_TRUE(t.client.qp->post_send({.payload = t.client.chain(pattern(10)), .signaled = false}).ok());
  t.run();
  t.server.completions.clear();
  const std::vector<uint8_t> memory = pattern(1000);
  std::vector<uint8_t> exposed = memory;
  const auto key = t.client.memory.register_region(TwoEnds::kDomain, exposed, verbs::RemoteAccess::kRead);
  std::vector<Buffer*> held;
  while (Buffer* one = t.client.pool.allocate_one()) {
    held.push_back(one);
  }
  ASSERT_TRUE(t.server.qp->post_read({.rkey = *key, .remote_address = t.client.memory.address_of(*key), .length = 1000}).ok());
  // The message lies in the same buffer as the request, which does not become free while somebody has it.
  ASSERT_TRUE(t.server.qp->post_send({.payload = t.server.chain(pattern(1200)), .signaled = false}).ok());
  t.run();
  EXPECT_EQ(t.client.completions.size(), 1u);
  EXPECT_EQ(t.client.transport.stream_stats().out_of_buffers, 1u);
  ASSERT_TRUE(t.server.qp->post_send({.signaled = false}).ok());
  t.run();
  EXPECT_EQ(t.client.completions.size(), 2u);
  EXPECT_TRUE(t.server.completions.empty());
  for (Buffer* one : held) {
    t.client.pool.release(one);
  }
  t.advance(Duration::ms(5));
  ASSERT_EQ(t.server.completions.size(), 1u);
  EXPECT_EQ(bytes_of(t.server.completions[0].payload), memory);
  t.expect_nothing_left();
}

}  // namespace
}  // namespace cw::iwarp::test
