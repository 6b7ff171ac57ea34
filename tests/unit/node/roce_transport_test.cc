// Two RoceTransports and a cable: what the seam carries while a connection is set up.
#include "gateway/node/roce_transport.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "apps/sim/hosts.h"
#include "base/heap_buffer_pool.h"
#include "base/random.h"

namespace cw::node {
namespace {

using Kind = verbs::ConnectionEvent::Kind;

constexpr uint16_t kPort = 20049;

RoceOptions with_depth(uint8_t initiator_depth, uint8_t responder_resources) {
  RoceOptions options;
  options.rc.initiator_depth_max = initiator_depth;
  options.rc.responder_resources_max = responder_resources;
  return options;
}

struct RoceEnd {
  RoceEnd(uint8_t number, bool exposes_memory, const RoceOptions& options)
      : random(number),
        node(sim::sim_node_options({}, number, exposes_memory), random, exposes_memory ? &memory : nullptr),
        transport(options, node, random) {}

  void turn(Instant now) {
    node.on_deadline(now);
    transport.on_deadline(now);
  }
  // The next event; its private data are copied to `told`.
  bool poll(Instant now) {
    const bool found = transport.poll_event(now, event);
    told.assign(event.private_data.begin(), event.private_data.end());
    return found;
  }

  HeapBufferPool packets{256, 4256, 256};
  SeededRandom random;
  verbs::MemoryTable memory{16, random};
  Node node;
  RoceTransport transport;
  verbs::ConnectionEvent event;
  std::vector<uint8_t> told;
};

class RocePair : public ::testing::Test {
 protected:
  void carry(RoceEnd& from, RoceEnd& to) {
    std::vector<std::vector<uint8_t>> frames;
    wire::TxBatch batch(from.packets);
    for (bool full = true; full; batch.clear()) {
      from.node.poll_transmit(now, batch);
      full = batch.full();
      for (const wire::TxPacket& packet : batch.packets()) {
        frames.push_back(packet.raw());
      }
    }
    for (const std::vector<uint8_t>& frame : frames) {
      EXPECT_TRUE(sim::deliver_frame(now, to.node, to.packets, frame));
    }
  }
  // Until this end has an event.
  bool wait_for_event(RoceEnd& end) {
    for (int i = 0; i < 1000 && !end.transport.has_events(); ++i) {
      now = now + Duration::us(100);
      client.turn(now);
      server.turn(now);
      carry(client, server);
      carry(server, client);
    }
    return end.poll(now);
  }
  void ask(const verbs::ConnectionOptions& options) {
    ASSERT_TRUE(server.transport.listen(kPort).ok());
    const IpAddress address = server.node.station(0).options().addresses.front().address;
    const auto connection = client.transport.connect(now, address, kPort, options);
    ASSERT_TRUE(connection.ok());
    ASSERT_TRUE(wait_for_event(server));
    ASSERT_EQ(server.event.kind, Kind::kConnectRequest);
  }

  Instant now = Instant::from_ns(1'000'000'000);
  RoceEnd client{2, true, with_depth(0, 9)};
  RoceEnd server{1, false, with_depth(16, 0)};
};

TEST_F(RocePair, ARefusalCarriesItsReasonAndWhatTheUserSays) {
  ask({});
  const std::vector<uint8_t> said(verbs::kPrivateDataMax, 0x5a);
  server.transport.reject(now, server.event.connection, verbs::RejectReason::kRefused, said);
  ASSERT_TRUE(wait_for_event(client));
  EXPECT_EQ(client.event.kind, Kind::kRejected);
  EXPECT_EQ(client.event.rejection.reason, verbs::RejectReason::kRefused);
  ASSERT_GE(client.told.size(), said.size());
  EXPECT_TRUE(std::ranges::equal(said, Bytes(client.told).first(said.size())));
  client.transport.destroy(client.event.connection);
}

TEST_F(RocePair, ReadDepthsAreOfferedAndBounded) {
  ask({.depths = {.initiator_depth = 0, .responder_resources = 4}});
  EXPECT_EQ(server.event.depths, (verbs::ReadDepths{.initiator_depth = 4, .responder_resources = 0}));
  const auto accepted =
      server.transport.accept(now, server.event.connection, {.depths = {.initiator_depth = 3, .responder_resources = 0}});
  ASSERT_TRUE(accepted.ok());
  ASSERT_TRUE(wait_for_event(client));
  ASSERT_EQ(client.event.kind, Kind::kConnectResponse);
  EXPECT_EQ(client.event.depths, (verbs::ReadDepths{.initiator_depth = 0, .responder_resources = 3}));
  for (RoceEnd* end : {&client, &server}) {
    end->transport.disconnect(now, end->event.connection);
    end->transport.destroy(end->event.connection);
  }
}

}  // namespace
}  // namespace cw::node
