// One queue pair under test and a peer that exists only as packets: what the peer sends is built here, what the queue pair sends
// is parsed here.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "apps/sim/faulty_link.h"
#include "apps/sim/rc_pair.h"
#include "base/heap_buffer_pool.h"
#include "rocev2/endpoint.h"
#include "tests/support/express.h"

namespace cw::rc::test {

using sim::bytes_of;
using sim::random_bytes;
using wire::DropReason;
using wire::NakCode;
using wire::Opcode;
using wire::Psn;

// A packet that left the queue pair, as far as tests compare it.
struct Sent {
  Opcode opcode = Opcode::kRcAcknowledge;
  uint32_t psn = 0;
  bool ack_request = false;
  size_t payload_bytes = 0;
  uint8_t syndrome = 0;  // AETH only
  uint32_t msn = 0;      // AETH only
  friend bool operator==(const Sent&, const Sent&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Sent& sent) {
    return out << wire::traits_of(sent.opcode).name << " psn " << sent.psn << (sent.ack_request ? " A" : "") << " "
               << sent.payload_bytes << " bytes, syndrome " << int{sent.syndrome} << " msn " << sent.msn;
  }
};

inline Sent ack(uint32_t psn, uint32_t msn) {
  return Sent{Opcode::kRcAcknowledge, psn, false, 0, wire::Aeth::kCreditsInvalid, msn};
}
inline Sent nak(uint32_t psn, NakCode code, uint32_t msn) {
  return Sent{Opcode::kRcAcknowledge, psn, false, 0, static_cast<uint8_t>(0x60 | static_cast<uint8_t>(code)), msn};
}
inline Sent rnr_nak(uint32_t psn, uint8_t timer, uint32_t msn) {
  return Sent{Opcode::kRcAcknowledge, psn, false, 0, static_cast<uint8_t>(0x20 | timer), msn};
}

struct LoneQpOptions {
  RcOptions qp{.min_rnr_timer = 12};
  RcConnect connect{.path_mtu_bytes = 256, .initiator_depth = 4, .responder_resources = 4, .ack_timeout = 8};
  uint32_t local_psn = 1000;
  uint32_t remote_psn = 5000;
  bool exposes_memory = false;
  QpState state = QpState::kRts;
  uint32_t buffers = 128;
  wire::Path path = sim::RcPair::path(0);  // its own; Inbound has the peer's
  EndpointOptions endpoint{
      .qp_max = 8, .send_work_max = 64, .receive_work_max = 16, .read_replay_max = 2, .express = cw::test::takes_express_paths()};
};

// Options of the client role: READ and WRITE of domain 7 allowed.
inline LoneQpOptions client_options() {
  LoneQpOptions options;
  options.exposes_memory = true;
  options.qp.remote_access = verbs::RemoteAccess::kReadWrite;
  options.qp.responder_resources_max = 16;
  options.qp.domain = verbs::ProtectionDomain(7);
  return options;
}

// It keeps nothing behind a gap, and says so at once.
inline LoneQpOptions without_recovery() {
  LoneQpOptions options;
  options.qp.selective_recovery = false;
  return options;
}

// What one inbound packet carries besides opcode and PSN.
struct Inbound {
  Opcode opcode = Opcode::kRcSendOnly;
  uint32_t psn = 0;
  std::vector<uint8_t> payload{};
  wire::Extensions extensions{};
  bool ack_request = true;
  bool solicited = false;
  bool migration_request = true;
  uint16_t pkey = 0xffff;
  wire::Path path = sim::RcPair::path(1);  // of the peer
  uint16_t port = 0;
  bool marked = false;  // Congestion Experienced
};

// Of two endpoints on a link.
[[nodiscard]] inline sim::RcPairOptions pair_options() {
  sim::RcPairOptions options;
  options.endpoint.express = cw::test::takes_express_paths();
  return options;
}

class LoneQp {
 public:
  explicit LoneQp(const LoneQpOptions& options = {})
      : random(42),
        memory(8, random),
        pool(options.buffers, 4096 + 160, 64),
        endpoint(std::make_unique<Endpoint>(options.endpoint, random, options.exposes_memory ? &memory : nullptr)),
        qp(*endpoint->create_qp(options.qp)) {
    const RcConnect connect = connect_of(options);
    if (options.state == QpState::kRtr || options.state == QpState::kRts) {
      EXPECT_TRUE(endpoint->to_rtr(*qp, connect).ok());
    }
    if (options.state == QpState::kRts) {
      EXPECT_TRUE(endpoint->to_rts(*qp).ok());
    }
  }
  ~LoneQp() {
    EXPECT_TRUE(qp == nullptr || qp->is_consistent());
    endpoint.reset();
    EXPECT_EQ(pool.in_use(), 0u) << "buffers leaked";
  }

  // One more queue pair of the endpoint, connected as the first one is, to `peer`. It receives when it is `qp`.
  RcQp* connect_another(const LoneQpOptions& options, const IpAddress& peer = sim::RcPair::path(0).remote) {
    RcConnect connect = connect_of(options);
    connect.path.remote = peer;
    RcQp* another = *endpoint->create_qp(options.qp);
    EXPECT_TRUE(endpoint->connect_qp(*another, connect).ok());
    return another;
  }

  // A packet of the peer, with this IPv4 identification.
  wire::TxPacket packet_of(const Inbound& inbound, uint16_t identification) {
    wire::TxPacket packet;
    packet.head = pool.allocate_one();
    wire::Bth bth;
    bth.opcode = inbound.opcode;
    bth.psn = Psn(inbound.psn);
    bth.ack_request = inbound.ack_request;
    bth.solicited = inbound.solicited;
    bth.migration_request = inbound.migration_request;
    bth.pkey = inbound.pkey;
    bth.destination = qp->local_qpn();
    wire::build_packet(packet, wire::PathHeader(inbound.path), identification, bth, inbound.extensions, Bytes(inbound.payload));
    return packet;
  }
  // It arrives. True when its buffer was kept.
  bool receive(const Inbound& inbound) {
    wire::TxPacket packet = packet_of(inbound, 1);
    if (inbound.marked) {
      sim::mark_ipv4(MutableBytes(packet.head->data, packet.head->size));
    }
    if (RcQp* who = endpoint->predicting(packet.head->bytes(), inbound.port)) {
      EXPECT_EQ(endpoint->take_predicted(now, *who, std::span(&packet.head, 1)), 1u);
      EXPECT_TRUE(qp->is_consistent());
      return true;
    }
    const auto view = wire::PacketView::parse(packet.head->bytes());
    EXPECT_TRUE(view.ok() && wire::verify_icrc(*view));
    const bool took = endpoint->on_packet(now, *view, packet.head, inbound.port);
    if (!took) {
      release_buffers(packet.head);
    }
    EXPECT_TRUE(qp->is_consistent());
    return took;
  }
  bool receive(Opcode opcode, uint32_t psn, size_t payload_bytes = 0) {
    Inbound inbound{.opcode = opcode, .psn = psn, .payload = random_bytes(psn, payload_bytes)};
    if (const IpAddress peer = qp->info().path.remote; peer.is_v4()) {  // it is connected
      inbound.path.local = peer;
    }
    return receive(inbound);
  }
  void receive_aeth(uint32_t psn, uint8_t syndrome) {
    Inbound inbound{.opcode = Opcode::kRcAcknowledge, .psn = psn};
    inbound.extensions.aeth = wire::Aeth{syndrome, 0};
    receive(inbound);
  }
  void receive_ack(uint32_t psn) { receive_aeth(psn, 31); }
  void receive_nak(uint32_t psn, NakCode code) { receive_aeth(psn, static_cast<uint8_t>(0x60 | static_cast<uint8_t>(code))); }
  void receive_rnr(uint32_t psn, uint8_t timer) { receive_aeth(psn, static_cast<uint8_t>(0x20 | timer)); }
  bool receive_response(Opcode opcode, uint32_t psn, size_t payload_bytes) {
    return receive(Inbound{.opcode = opcode, .psn = psn, .payload = random_bytes(psn, payload_bytes)});
  }

  // Everything that the queue pair has wanted to send since the last call.
  std::vector<Sent> sent() {
    send();
    frames = std::exchange(sent_, {});
    std::vector<Sent> all;
    for (const std::vector<uint8_t>& frame : frames) {
      all.push_back(parse(frame));
    }
    return all;
  }

  // As a poll core does: whoever has something to send has had his turn before time passes.
  void pass(Duration duration) {
    send();
    now = now + duration;
    endpoint->on_deadline(now);
    EXPECT_TRUE(qp->is_consistent());
  }

  // What has been overtaken is lost afterwards, of a queue pair that has measured no round trip.
  void wait_for_late_ones() { pass(ReorderWindow::kUnknown); }

  Status post_send(size_t bytes, uint64_t id = 1) {
    return qp->post_send(verbs::SendRequest{.id = verbs::WorkId(id), .payload = chain(random_bytes(id, bytes))});
  }
  Status post_read(uint32_t bytes, uint64_t id = 1) {
    return qp->post_read(
        verbs::ReadRequest{.id = verbs::WorkId(id), .rkey = verbs::Rkey(0x77), .remote_address = 0x10000, .length = bytes});
  }
  Status post_fetch_add(uint64_t add, uint64_t id = 1) {
    return qp->post_atomic({.id = verbs::WorkId(id), .rkey = verbs::Rkey(0x77), .remote_address = 0x10000, .operand = add});
  }
  Status post_compare_swap(uint64_t compare, uint64_t swap, uint64_t id = 1) {
    return qp->post_atomic({.id = verbs::WorkId(id),
                            .operation = verbs::AtomicOperation::kCompareSwap,
                            .rkey = verbs::Rkey(0x77),
                            .remote_address = 0x10000,
                            .operand = swap,
                            .compare = compare});
  }
  void receive_atomic_ack(uint32_t psn, uint64_t original, uint8_t syndrome = wire::Aeth::kCreditsInvalid) {
    Inbound inbound{.opcode = Opcode::kRcAtomicAcknowledge, .psn = psn};
    inbound.extensions.aeth = wire::Aeth{syndrome, 0};
    inbound.extensions.atomic_ack_eth = wire::AtomicAckEth{original};
    receive(inbound);
  }
  Chain chain(const std::vector<uint8_t>& raw) {
    Chain chain;
    EXPECT_TRUE(chain.append_copy(pool, raw));
    return chain;
  }

  // "send 1 success; receive 0 success ..." of all completions waiting; payloads are kept in `payloads`.
  std::string completions() {
    std::string text;
    payloads.clear();
    verbs::Completion completion;
    while (qp->poll_completion(completion)) {
      text += text.empty() ? "" : "; ";
      text += std::string(to_string(completion.opcode)) + " " + std::to_string(completion.id.value()) + " " +
              to_string(completion.status);
      payloads.push_back(bytes_of(completion.payload));
      last_immediate = completion.immediate;
      last_invalidated = completion.invalidated;
      last_original = completion.original;
      last_solicited = completion.solicited;
    }
    return text;
  }
  uint64_t discards(DropReason reason) const { return endpoint->stats().discards[static_cast<size_t>(reason)]; }

  SeededRandom random;
  verbs::MemoryTable memory;
  HeapBufferPool pool;
  std::unique_ptr<Endpoint> endpoint;
  RcQp* qp;
  Instant now = Instant::from_ns(5'000'000'000);
  std::vector<std::vector<uint8_t>> frames;    // of the last sent()
  std::vector<std::vector<uint8_t>> payloads;  // of the last completions()
  std::optional<uint32_t> last_immediate;
  std::optional<verbs::Rkey> last_invalidated;
  uint64_t last_original = 0;
  bool last_solicited = false;

 private:
  static RcConnect connect_of(const LoneQpOptions& options) {
    RcConnect connect = options.connect;
    connect.path = options.path;
    connect.remote_qpn = verbs::Qpn(0x1234);
    connect.local_first_psn = Psn(options.local_psn);
    connect.remote_first_psn = Psn(options.remote_psn);
    return connect;
  }
  void send() {
    wire::TxBatch batch(pool);
    do {
      batch.clear();
      endpoint->poll_transmit(now, batch);
      for (const wire::TxPacket& packet : batch.packets()) {
        sent_.push_back(packet.raw());
      }
    } while (!batch.empty());
    EXPECT_TRUE(qp->is_consistent());
  }

  static Sent parse(const std::vector<uint8_t>& raw) {
    const auto view = wire::PacketView::parse(raw);
    EXPECT_TRUE(view.ok() && wire::verify_icrc(*view));
    EXPECT_EQ(view->bth.destination.value(), 0x1234u);
    Sent sent{view->bth.opcode, view->bth.psn.value(), view->bth.ack_request, view->payload.size()};
    if (view->traits->aeth != wire::OpcodeTraits::kAbsent) {
      sent.syndrome = view->aeth().syndrome;
      sent.msn = view->aeth().msn;
    }
    return sent;
  }

  std::vector<std::vector<uint8_t>> sent_;  // and not yet asked for
};

using SentList = std::vector<Sent>;

// The opcodes that most tests send or expect, by short names.
inline constexpr wire::Opcode kFirst = wire::Opcode::kRcSendFirst;
inline constexpr wire::Opcode kMiddle = wire::Opcode::kRcSendMiddle;
inline constexpr wire::Opcode kLast = wire::Opcode::kRcSendLast;
inline constexpr wire::Opcode kOnly = wire::Opcode::kRcSendOnly;
inline constexpr wire::Opcode kReadRequest = wire::Opcode::kRcReadRequest;
inline constexpr wire::Opcode kResponseFirst = wire::Opcode::kRcReadResponseFirst;
inline constexpr wire::Opcode kResponseMiddle = wire::Opcode::kRcReadResponseMiddle;
inline constexpr wire::Opcode kResponseLast = wire::Opcode::kRcReadResponseLast;
inline constexpr wire::Opcode kResponseOnly = wire::Opcode::kRcReadResponseOnly;

inline Inbound send(wire::Opcode opcode, uint32_t psn, size_t bytes) {
  return Inbound{.opcode = opcode, .psn = psn, .payload = random_bytes(psn, bytes)};
}

}  // namespace cw::rc::test
