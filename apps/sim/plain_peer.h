// What a peer that is not Causeway does differently, as Linux does it (drivers/infiniband/sw/rxe/rxe_resp.c), for endpoints of
// ours that play such a peer; they are made without selective recovery, so that they keep nothing behind a gap. Ours is kinder in
// two more ways:
//   - A gap gets one sequence NAK (IBA 9.7.5.2.8), and nothing more until the missing packet has come.
//   - A repeated READ request under a key that has been invalidated meanwhile gets NAK Remote Access Error, and the queue pair
//     goes to Error. Ours ignores it.
// Of RcPair (rc_pair.h) and of the fabric's standard clients (ClientPlan::standard).
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/heap_buffer_pool.h"
#include "rocev2/endpoint.h"
#include "rocev2/wire/packet_builder.h"
#include "rocev2/wire/packet_view.h"

namespace cw::sim {

class PlainPeer {
 public:
  // Whether it sends this frame. A second NAK for the same gap it does not.
  [[nodiscard]] bool sends(const std::vector<uint8_t>& frame) {
    const auto view = wire::PacketView::parse(frame);
    if (!view.ok() || view->bth.opcode != wire::Opcode::kRcAcknowledge || !is_sequence_nak(view->aeth())) {
      return true;
    }
    const auto [last, is_first] = last_nak_.try_emplace(view->bth.destination.value(), view->bth.psn);
    const bool again = !is_first && last->second == view->bth.psn;
    last->second = view->bth.psn;
    return !again;
  }

  // `request`, which arrives at `endpoint`, repeats a READ whose key is dead: the queue pair ends, and the answer is returned;
  // else an empty frame.
  [[nodiscard]] std::vector<uint8_t> refusal_of(const wire::PacketView& request, Endpoint& endpoint,
                                                const verbs::MemoryTable& memory, BufferPool& pool) {
    rc::RcQp* qp = request.bth.opcode == wire::Opcode::kRcReadRequest ? endpoint.find(request.bth.destination) : nullptr;
    if (qp == nullptr || !rc::can_receive(qp->state())) {
      return {};
    }
    const rc::RcQpInfo info = qp->info();
    const wire::Reth reth = request.reth();
    const bool repeated = info.expected_psn.distance_to(request.bth.psn) < 0;
    if (!repeated || reth.length == 0 || memory.address_of(reth.rkey) != 0) {
      return {};
    }
    wire::TxBatch batch(pool);
    wire::TxPacket* packet = batch.add();
    CW_ASSERT(packet != nullptr);
    wire::Bth bth;
    bth.opcode = wire::Opcode::kRcAcknowledge;
    bth.destination = info.remote_qpn;
    bth.psn = request.bth.psn;
    wire::Extensions extensions;
    extensions.aeth = wire::Aeth::nak(wire::NakCode::kRemoteAccessError, info.msn);
    wire::build_packet(*packet, wire::PathHeader(info.path), 0, bth, extensions, Bytes{});
    std::vector<uint8_t> frame = packet->raw();
    qp->close();
    ++refusals_;
    return frame;
  }
  [[nodiscard]] uint64_t refusals() const { return refusals_; }

 private:
  static bool is_sequence_nak(const wire::Aeth& aeth) {
    return aeth.kind() == wire::AethKind::kNak && aeth.code() == static_cast<uint8_t>(wire::NakCode::kPsnSequenceError);
  }

  std::map<uint32_t, wire::Psn> last_nak_;  // by the queue pair that it went to
  uint64_t refusals_ = 0;
};

}  // namespace cw::sim
