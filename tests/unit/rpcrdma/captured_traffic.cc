#include "tests/unit/rpcrdma/captured_traffic.h"

#include <utility>

#include "rocev2/wire/packet_view.h"
#include "tests/support/pcap_reader.h"

namespace cw::test {
namespace {

using wire::OpcodeKind;
using wire::PacketView;

// One direction of one connection.
using FlowKey = std::pair<std::array<uint8_t, 16>, uint32_t>;

struct Flow {
  ByteVector message;
  CapturedTraffic::Written* writing = nullptr;
};

void take_send(const PacketView& view, Flow& flow, CapturedTraffic& traffic) {
  if (view.traits->starts_message()) {
    flow.message.clear();
  }
  add(flow.message, view.payload);
  if (view.traits->ends_message()) {
    traffic.messages.push_back(std::exchange(flow.message, {}));
  }
}

void take_write(const PacketView& view, Flow& flow, CapturedTraffic& traffic) {
  if (view.traits->starts_message()) {
    auto& list = traffic.writes[view.reth().rkey.value()];
    list.push_back({.address = view.reth().address, .raw = {}});
    flow.writing = &list.back();
  }
  add(flow.writing->raw, view.payload);
}

}  // namespace

CapturedTraffic read_traffic(const std::filesystem::path& pcap) {
  CapturedTraffic traffic;
  std::map<FlowKey, Flow> flows;
  for (const CapturedFrame& frame : read_pcap(pcap)) {
    const auto view = PacketView::parse(frame.bytes());
    if (!view.ok()) {
      continue;
    }
    Flow& flow = flows[{view->destination().raw, view->bth.destination.value()}];
    if (view->traits->kind == OpcodeKind::kSend) {
      take_send(*view, flow, traffic);
    } else if (view->traits->kind == OpcodeKind::kWrite) {
      take_write(*view, flow, traffic);
    }
  }
  return traffic;
}

std::optional<ByteVector> CapturedTraffic::written_to(const rpcrdma::Segment& segment, uint32_t length) const {
  ByteVector raw(length);
  uint64_t covered = 0;
  const auto found = writes.find(segment.handle.value());
  if (found == writes.end()) {
    return length == 0 ? std::optional<ByteVector>(raw) : std::nullopt;
  }
  for (const Written& written : found->second) {
    const uint64_t at = written.address - segment.offset;
    if (at <= length && written.raw.size() <= length - at) {
      std::copy(written.raw.begin(), written.raw.end(), raw.begin() + static_cast<ptrdiff_t>(at));
      covered += written.raw.size();
    }
  }
  return covered == length ? std::optional<ByteVector>(raw) : std::nullopt;
}

}  // namespace cw::test
