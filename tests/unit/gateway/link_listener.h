// Hears everything on a world's link and takes notes: connection requests, and RPC-over-RDMA messages by their first words.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "apps/sim/world.h"
#include "rocev2/wire/packet_view.h"

namespace cw::sim {

// The first packet of an RPC-over-RDMA message, as often as it was sent.
struct HeardMessage {
  Instant at;
  uint32_t to = 0;  // 0: the gateway, 1: the client
  verbs::Qpn qpn;   // it goes to
  uint32_t xid = 0;
  uint32_t proc = 0;
  uint32_t direction = 0;  // RPC msg_type, for inline messages without chunks
};

struct HeardRequest {
  Instant at;
  uint32_t to = 0;
  size_t messages_before = 0;  // HeardMessages
  std::vector<uint8_t> raw;
};

class LinkListener {
 public:
  explicit LinkListener(World& world) {
    world.link.tap = &LinkListener::hear;
    world.link.tap_context = this;
  }
  [[nodiscard]] size_t requests_to(uint32_t end) const {
    return static_cast<size_t>(std::count_if(requests.begin(), requests.end(), [end](const auto& r) { return r.to == end; }));
  }

  uint32_t swallowed_requests = 0;  // the next ones to the gateway that are lost

  std::vector<HeardMessage> messages;
  std::vector<HeardRequest> requests;         // CM REQ
  std::vector<std::vector<uint8_t>> others;   // what is no RoCE, in order
  std::vector<size_t> requests_before_other;  // of each of those

 private:
  static bool hear(void* context, Instant now, uint32_t to, const std::vector<uint8_t>& raw) {
    constexpr size_t kAttributeAt = 16;  // in a MAD header
    constexpr uint16_t kReqAttribute = 0x0010;
    auto& self = *static_cast<LinkListener*>(context);
    const auto view = wire::PacketView::parse(raw);
    if (!view.ok()) {
      self.others.push_back(raw);
      self.requests_before_other.push_back(self.requests.size());
      return true;
    }
    const Bytes payload = view->payload;
    if (view->bth.opcode == wire::Opcode::kUdSendOnly && payload.size() > kAttributeAt + 2) {
      if (load_be16(payload.data() + kAttributeAt) == kReqAttribute) {
        self.requests.push_back({now, to, self.messages.size(), raw});
        if (to == 0 && self.swallowed_requests > 0) {
          --self.swallowed_requests;
          return false;
        }
      }
      return true;
    }
    if (view->traits->kind == wire::OpcodeKind::kSend && view->traits->starts_message() && payload.size() >= 36) {
      const auto word = [&](size_t index) { return load_be32(payload.data() + 4 * index); };
      self.messages.push_back({now, to, view->bth.destination, word(0), word(3), word(8)});
    }
    return true;
  }
};

}  // namespace cw::sim
