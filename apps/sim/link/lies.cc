#include "apps/sim/link/lies.h"

#include <algorithm>
#include <array>

#include "rocev2/wire/icrc.h"
#include "rocev2/wire/packet_view.h"

namespace cw::sim {
namespace {

constexpr uint32_t kWordBytes = 4;
// The XID stays, so that the answer finds its call: version, credits, procedure, the chunk lists.
constexpr uint32_t kFirstWord = 1;
constexpr uint32_t kLastWord = 12;
constexpr int32_t kConnectionPsns = 1 << 16;  // more than a connection sends while one packet of it is missing
// Of a MAD (IBA 13.4.2, 16.7): where the attribute is, and what it says when a connection ends.
constexpr size_t kMadBytes = 256;
constexpr size_t kMadAttributeAt = 16;
constexpr uint16_t kMadDreq = 0x0015;
constexpr uint16_t kMadDrep = 0x0016;
constexpr std::array<uint32_t, 4> kWords = {0, 1, 2, UINT32_MAX};

}  // namespace

void Withhold::act(Instant now, Transit&& frame) {
  const auto view = wire::PacketView::parse(frame.raw);
  if (!view.ok() || view->traits->kind != kind_) {
    pass(now, std::move(frame));
    return;
  }
  hit();
  if (by_) {
    frame.hold = frame.hold + *by_;
    frame.overtakes = true;
    pass(now, std::move(frame));
  }
}

void Drip::act(Instant now, Transit&& frame) {
  const auto view = wire::PacketView::parse(frame.raw);
  if (!view.ok() || view->traits->kind != wire::OpcodeKind::kReadResponse) {
    pass(now, std::move(frame));
    return;
  }
  hit();
  Flow& flow = flows_[view->bth.destination.value()];
  const auto [leaving, is_first] = flow.leaving.try_emplace(view->bth.psn.value(), now);
  if (is_first && view->traits->starts_message()) {
    flow.last = std::max(flow.last, now) + every_;
    leaving->second = flow.last;
  } else if (is_first) {
    const auto before = flow.leaving.find(view->bth.psn.minus(1).value());
    leaving->second = before == flow.leaving.end() ? now : before->second;
  }
  if (leaving->second >= window().until) {
    return;  // its process will be dead
  }
  frame.hold = frame.hold + (std::max(leaving->second, now) - now);
  frame.overtakes = true;
  pass(now, std::move(frame));
}

void LeaveOut::act(Instant now, Transit&& frame) {
  const auto view = wire::PacketView::parse(frame.raw);
  if (view.ok() && view->traits->kind == wire::OpcodeKind::kSend) {
    const auto [left_out, is_first] = left_out_.try_emplace(view->bth.destination.value(), view->bth.psn);
    const int32_t distance = left_out->second.distance_to(view->bth.psn);
    if (distance < -kConnectionPsns || distance > kConnectionPsns) {
      left_out->second = view->bth.psn;  // another connection, whose queue pair has the same number
    }
    if (left_out->second == view->bth.psn) {
      hit();
      return;
    }
  }
  pass(now, std::move(frame));
}

void NoGoodbye::act(Instant now, Transit&& frame) {
  const auto view = wire::PacketView::parse(frame.raw);
  if (view.ok() && view->bth.opcode == wire::Opcode::kUdSendOnly && view->payload.size() == kMadBytes) {
    const uint16_t attribute = load_be16(view->payload.data() + kMadAttributeAt);
    if (attribute == kMadDreq || attribute == kMadDrep) {
      hit();
      return;
    }
  }
  pass(now, std::move(frame));
}

void Garble::act(Instant now, Transit&& frame) {
  const auto view = wire::PacketView::parse(frame.raw);
  const bool begins_message = view.ok() && view->traits->kind == wire::OpcodeKind::kSend && view->traits->starts_message();
  if (!begins_message || view->payload.size() < 2 * kWordBytes || !chance(permille_)) {
    pass(now, std::move(frame));
    return;
  }
  hit();
  const auto words = std::min(kLastWord, static_cast<uint32_t>(view->payload.size() / kWordBytes));
  const auto payload_at = static_cast<size_t>(view->payload.data() - view->frame.data());
  const size_t at = payload_at + size_t{kWordBytes} * (kFirstWord + random().next_below(words - kFirstWord));
  const uint32_t choice = random().next_below(kWords.size() + 1);
  store_be32(frame.raw.data() + at, choice < kWords.size() ? kWords[choice] : static_cast<uint32_t>(random().next_u64()));
  const size_t icrc_at = view->frame.size() - wire::kIcrcBytes;
  const wire::Icrc icrc(Bytes(frame.raw).subspan(view->ip_offset, icrc_at - view->ip_offset));
  store_le32(frame.raw.data() + icrc_at, icrc.value());
  pass(now, std::move(frame));
}

}  // namespace cw::sim
