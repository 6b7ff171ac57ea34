// Connections that come and go by the hundred thousand, and end in every way there is: each pool, table, timer, list and number
// space is back where it was. Two whole hosts, the real gateway and client; the backend answers at once, the clock is the test's.
#include <gtest/gtest.h>

#include <array>
#include <unordered_map>
#include <utility>

#include "apps/sim/world.h"
#include "control/cm/wire/mad_header.h"
#include "tests/support/rc_info.h"
#include "tests/support/sanitized.h"

namespace cw::node::test {
namespace {

using ByteVector = std::vector<uint8_t>;

constexpr uint32_t kCycles = cw::test::kSanitized ? 4'000 : 100'000;

// How a connection ends. Those that lose messages leave the managers waiting, while the next connections come and go.
enum class Ending : uint8_t {
  kByClient,
  kByClientAfterACall,  // whose answer is on its way
  kByBackend,           // hence by the gateway
  kBackendRefuses,
  kClientGivesUp,      // while the REQ is on its way
  kClientGivesUpLate,  // while the REP is on its way
  kLostRtu,
  kLostDreq,
  kLostDrep,
  kClientDies,  // nothing of it comes through any more
  kCount,
};

sim::WorldOptions small_world() {
  sim::WorldOptions options;
  options.backend = gateway::BackendKind::kTcp;
  options.credits = 8;
  options.connections_max = 64;
  options.packet_buffers = 4096;
  options.large_buffers = 64;
  return options;
}

class Churn {
 public:
  Churn() : server_(small_world(), 1), peer_(small_world(), 2) {
    (void)peer_.node.station(0).resolve(now_, sim::sim_ip(false, 1));  // else the first connection waits for ARP
    run(2);
  }

  void cycle(uint32_t number, Ending ending) {
    backend_refuses_ = ending == Ending::kBackendRefuses;
    const auto opened = peer_.client.connect(now_, sim::sim_ip(false, 1), 20049);
    ASSERT_TRUE(opened.ok()) << number;
    lose_ = ending == Ending::kLostRtu ? cm::MessageType::kRtu : cm::MessageType::kCount;
    if (ending == Ending::kClientGivesUp) {
      serve_client();  // the REQ waits at the gateway
    } else {
      run(ending == Ending::kClientGivesUpLate ? 1 : 8);  // the REP waits at the client, or all is done
    }
    const bool gives_up = ending == Ending::kClientGivesUp || ending == Ending::kClientGivesUpLate;
    if (!backend_refuses_) {  // else connected and hung up at once, or refused while the backend is known to be down
      EXPECT_EQ(has_event(client::ClientEvent::Kind::kConnected), !gives_up) << number;
    }
    switch (ending) {
      case Ending::kByBackend:
        close_links();
        run(8);
        break;
      case Ending::kByClientAfterACall:
        send_call(*opened);
        run(1);
        break;
      case Ending::kLostDreq:
        lose_ = cm::MessageType::kDreq;
        break;
      case Ending::kLostDrep:
        lose_ = cm::MessageType::kDrep;
        break;
      case Ending::kClientDies:
        cut_ = true;
        break;
      default:
        break;
    }
    peer_.client.disconnect(now_, *opened);
    run(4);
    if (cut_) {
      close_links();  // the gateway notices, and hears nothing
      run(2);
    }
    lose_ = cm::MessageType::kCount;
    cut_ = false;
    now_ = now_ + (backend_refuses_ ? Duration::seconds(1) : Duration::ms(8));  // so long it is known to be down
    run(1);
    client::ClientEvent event;
    while (peer_.client.poll_event(event)) {
    }
    ++endings[static_cast<size_t>(ending)];
  }

  // Everything that waits has its deadline within this time.
  void wait(Duration time) {
    const Instant end = now_ + time;
    while (now_ < end) {
      now_ = now_ + Duration::ms(20);
      run(2);
    }
  }

  void expect_baseline() {
    EXPECT_EQ(server_.gateway.stats().connections_open, 0u);
    EXPECT_EQ(server_.gateway.stats().backends[0].links, 0u);
    EXPECT_EQ(server_.gateway.stats().backends[0].calls_in_flight, 0u);
    EXPECT_EQ(server_.gateway.rpcrdma_stats().credits_granted, 0u);
    EXPECT_EQ(server_.gateway.rpcrdma_stats().credits_in_use, 0u);
    EXPECT_TRUE(server_.gateway.next_deadline().is_never());
    EXPECT_EQ(peer_.client.connected_count(), 0u);
    EXPECT_EQ(peer_.memory.region_count(), 0u);
    EXPECT_TRUE(peer_.client.next_deadline().is_never());
    EXPECT_TRUE(links_.empty());
    expect_baseline_of(server_.node);
    expect_baseline_of(peer_.node);
    EXPECT_EQ(server_.packets.in_use(), 0u);
    EXPECT_EQ(server_.large.in_use(), 0u);
    EXPECT_EQ(peer_.packets.in_use(), 0u);
  }
  static void expect_baseline_of(Node& node) {
    EXPECT_EQ(node.cm().live_count(), 0u);
    EXPECT_EQ(node.cm().half_open_count(), 0u);
    EXPECT_EQ(node.cm().timewait_count(), 0u);
    EXPECT_TRUE(node.cm().is_consistent());
    EXPECT_EQ(node.endpoint().qp_count(), 0u);
    EXPECT_EQ(node.endpoint().stats().qps_created, node.endpoint().stats().qps_destroyed);
    EXPECT_FALSE(node.endpoint().has_work());
    EXPECT_TRUE(node.next_deadline().is_never());
  }
  // As many queue pairs and connections as on the first day.
  void expect_full_capacity() {
    std::vector<rc::RcQp*> all;
    while (true) {
      const auto qp = server_.node.endpoint().create_qp({.initiator_depth_max = 0});
      if (!qp.ok()) {
        break;
      }
      all.push_back(*qp);
    }
    EXPECT_EQ(all.size(), 128u + cm::CmOptions().half_open_max);
    for (rc::RcQp* qp : all) {
      server_.node.endpoint().destroy_qp(*qp);
    }
    for (uint32_t i = 0; i < 64; ++i) {
      ASSERT_TRUE(peer_.client.connect(now_, sim::sim_ip(false, 1), 20049).ok());
    }
    run(16);
    EXPECT_EQ(server_.gateway.stats().connections_open, 64u);
    EXPECT_EQ(peer_.client.connected_count(), 64u);
    for (uint32_t id = 0; id < 64; ++id) {
      peer_.client.disconnect(now_, client::ClientId(id));
    }
    run(8);
    client::ClientEvent event;
    while (peer_.client.poll_event(event)) {
    }
  }

  const gateway::GatewayStats& gateway_stats() const { return server_.gateway.stats(); }
  const cm::CmStats& cm_stats() { return server_.node.cm().stats(); }

  std::array<uint32_t, static_cast<size_t>(Ending::kCount)> endings{};
  uint32_t connections_seen = 0;
  uint32_t shortest_rest = UINT32_MAX;  // connections between two uses of a queue pair number

 private:
  // Each round, what one side has to say reaches the other and is answered: half a round trip.
  void run(uint32_t rounds) {
    for (uint32_t round = 0; round < rounds; ++round) {
      now_ = now_ + Duration::us(5);
      serve_client();
      serve_gateway();
    }
  }
  void serve_client() {
    peer_.node.on_deadline(now_);
    peer_.client.run(now_);
    while (peer_.client.poll_ready()) {
    }
    transmit(peer_.node, peer_.packets, server_.node, server_.packets);
  }
  void serve_gateway() {
    server_.node.on_deadline(now_);
    server_.gateway.run(now_);
    gateway::BackendRequest request;
    while (server_.gateway.poll_backend_request(request)) {
      on_backend_request(request);
    }
    rpcrdma::CallDone done;
    while (server_.gateway.poll_done(done)) {
    }
    while (const gateway::Notice* notice = server_.gateway.next_notice()) {
      if (notice->result == gateway::ConnectionResult::kAccepted) {
        note_number(notice->local_qpn);
      }
      server_.gateway.pop_notice();
    }
    transmit(server_.node, server_.packets, peer_.node, peer_.packets);
  }
  void on_backend_request(const gateway::BackendRequest& request) {
    gateway::BackendEvent event;
    event.link = request.link;
    if (request.kind == gateway::BackendRequest::Kind::kClose) {
      std::erase(links_, request.link);
    } else if (request.kind == gateway::BackendRequest::Kind::kOpen) {
      event.kind = backend_refuses_ ? gateway::BackendEvent::Kind::kFailed : gateway::BackendEvent::Kind::kOpened;
      if (!backend_refuses_) {
        links_.push_back(request.link);
      }
      server_.gateway.on_backend_event(now_, std::move(event));
    }
  }
  void close_links() {
    for (const gateway::LinkId link : std::exchange(links_, {})) {
      gateway::BackendEvent event;
      event.kind = gateway::BackendEvent::Kind::kClosed;
      event.link = link;
      server_.gateway.on_backend_event(now_, std::move(event));
    }
  }
  void send_call(client::ClientId id) {
    constexpr std::array<uint8_t, 40> kNull = {0x12, 0x34, 0x56, 0x78, 0, 0, 0, 0, 0, 0, 0, 2, 0x20, 0, 0, 0, 0, 0, 0, 1};
    Chain message;
    ASSERT_TRUE(message.append_copy(peer_.packets, kNull));
    rc::RcQp* qp = cw::test::rc_queue_pair(peer_.client, id);
    ASSERT_NE(qp, nullptr);
    EXPECT_TRUE(qp->post_send({.payload = std::move(message), .signaled = false}).ok());  // no RPC-over-RDMA: also refused well
  }
  bool has_event(client::ClientEvent::Kind kind) {
    client::ClientEvent event;
    bool found = false;
    while (peer_.client.poll_event(event)) {
      found |= event.kind == kind;
    }
    return found;
  }
  void note_number(verbs::Qpn qpn) {
    const auto [place, is_new] = last_use_.try_emplace(qpn.value(), connections_seen);
    if (!is_new) {
      shortest_rest = std::min(shortest_rest, connections_seen - place->second);
      place->second = connections_seen;
    }
    ++connections_seen;
  }
  // Is it a message of the connection manager that this cycle loses?
  [[nodiscard]] bool is_lost(const ByteVector& frame) const {
    if (cut_) {
      return true;
    }
    const auto view = wire::PacketView::parse(frame);
    return lose_ != cm::MessageType::kCount && view.ok() && view->bth.destination == cm::kGsiQpn &&
           cm::message_type_of(cm::MadHeader::parse(view->payload)->attribute_id) == lose_;
  }
  void transmit(Node& from, BufferPool& heads, Node& to, BufferPool& buffers) {
    wire::TxBatch batch(heads);
    bool full = true;
    while (full) {
      from.poll_transmit(now_, batch);
      full = batch.full();
      for (const wire::TxPacket& packet : batch.packets()) {
        const ByteVector frame = packet.raw();
        if (is_lost(frame)) {
          continue;
        }
        Buffer* buffer = buffers.allocate_one();
        ASSERT_NE(buffer, nullptr);
        ASSERT_EQ(buffer->append(frame), frame.size());
        if (!to.on_frame(now_, buffer, 0)) {
          release_buffers(buffer);
        }
      }
      batch.clear();
    }
  }

  sim::GatewayHost server_;
  sim::ClientHost peer_;
  Instant now_ = Instant::from_ns(1'000'000'000);
  std::vector<gateway::LinkId> links_;
  bool backend_refuses_ = false;
  bool cut_ = false;
  cm::MessageType lose_ = cm::MessageType::kCount;
  std::unordered_map<uint32_t, uint32_t> last_use_;
};

TEST(Churn, AHundredThousandConnectionsComeAndGoInEveryWayAndLeaveNothing) {
  Churn churn;
  for (uint32_t i = 0; i < kCycles; ++i) {
    // Half of them in order, the others in every way there is.
    const uint32_t way = i % 20;
    const auto ending = way < 10 ? Ending::kByClient : static_cast<Ending>(way - 10);
    ASSERT_NO_FATAL_FAILURE(churn.cycle(i, ending));
    if (i % (kCycles / 4) == 0) {
      ASSERT_FALSE(HasFailure()) << i;
    }
  }
  churn.wait(Duration::seconds(45));
  churn.expect_baseline();
  for (const uint32_t count : churn.endings) {
    EXPECT_GE(count, kCycles / 20);
  }
  // Nobody was turned away: the limits let all of it through.
  const auto& results = churn.gateway_stats().connections;
  const auto of = [&](gateway::ConnectionResult result) { return results[static_cast<size_t>(result)]; };
  EXPECT_EQ(of(gateway::ConnectionResult::kRefusedLimit) + of(gateway::ConnectionResult::kRefusedResources), 0u);
  EXPECT_EQ(of(gateway::ConnectionResult::kRefusedBackend), churn.endings[static_cast<size_t>(Ending::kBackendRefuses)]);
  for (const cm::CmDrop drop :
       {cm::CmDrop::kRequestRate, cm::CmDrop::kPrefixRequestRate, cm::CmDrop::kAnswerRate, cm::CmDrop::kPrefixAnswerRate}) {
    EXPECT_EQ(churn.cm_stats().dropped(drop), 0u) << to_string(drop);
  }
  EXPECT_EQ(churn.cm_stats().ended(cm::CmOutcome::kEvicted), 0u);
  EXPECT_EQ(churn.cm_stats().transmit_queue_full, 0u);
  // A queue pair number rests while at least as many others are used as there are queue pairs.
  EXPECT_GE(churn.connections_seen, kCycles * 8 / 10);
  EXPECT_GE(churn.shortest_rest, 256u);
  churn.expect_full_capacity();
  churn.wait(Duration::seconds(45));
  churn.expect_baseline();
}

}  // namespace
}  // namespace cw::node::test
