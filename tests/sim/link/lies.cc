#include "tests/sim/link/lies.h"

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
constexpr std::array<uint32_t, 4> kWords = {0, 1, 2, UINT32_MAX};

}  // namespace

void Withhold::act(Instant now, Transit&& frame) {
  const auto view = wire::PacketView::parse(frame.octets);
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

void Garble::act(Instant now, Transit&& frame) {
  const auto view = wire::PacketView::parse(frame.octets);
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
  store_be32(frame.octets.data() + at, choice < kWords.size() ? kWords[choice] : static_cast<uint32_t>(random().next_u64()));
  const size_t icrc_at = view->frame.size() - wire::kIcrcBytes;
  const wire::Icrc icrc(Bytes(frame.octets).subspan(view->ip_offset, icrc_at - view->ip_offset));
  store_le32(frame.octets.data() + icrc_at, icrc.value());
  pass(now, std::move(frame));
}

}  // namespace cw::sim
