// PacketView::parse, every accessor and verify_icrc on arbitrary frames. Checks that a view stays inside its frame, and that a
// frame whose iCRC is repaired passes.
#include <vector>

#include "rocev2/wire/icrc.h"
#include "rocev2/wire/ipv4.h"
#include "rocev2/wire/packet_view.h"
#include "tests/fuzz/fuzz_target.h"

namespace cw::wire {
namespace {

uint64_t read_extensions(const PacketView& view) {
  const OpcodeTraits& traits = *view.traits;
  const auto has = [](uint8_t offset) { return offset != OpcodeTraits::kAbsent; };
  uint64_t sum = 0;
  sum += has(traits.reth) ? view.reth().address : 0;
  sum += has(traits.aeth) ? view.aeth().msn : 0;
  sum += has(traits.atomic_eth) ? view.atomic_eth().compare : 0;
  sum += has(traits.atomic_ack_eth) ? view.atomic_ack_eth().original : 0;
  sum += has(traits.immdt) ? view.immediate() : 0;
  sum += has(traits.ieth) ? view.invalidate_rkey().value() : 0;
  sum += has(traits.deth) ? view.deth().qkey : 0;
  return sum;
}

void check(std::vector<uint8_t> frame) {
  const Result<PacketView, DropReason> view = PacketView::parse(frame);
  if (!view) {
    FUZZ_CHECK(static_cast<uint32_t>(view.error()) <= static_cast<uint32_t>(DropReason::kMulticast));
    return;
  }
  FUZZ_CHECK(view->traits->kind != OpcodeKind::kReserved);
  FUZZ_CHECK(view->frame.data() == frame.data() && view->frame.size() <= frame.size());
  FUZZ_CHECK(view->payload.data() >= frame.data() + view->bth_offset + Bth::kSize + view->traits->extension_bytes);
  FUZZ_CHECK(view->payload.data() + view->payload.size() + view->bth.pad_count + kIcrcBytes == frame.data() + view->frame.size());
  volatile uint64_t sum = read_extensions(*view);
  (void)sum;
  (void)verify_icrc(*view);

  const size_t end = view->frame.size() - kIcrcBytes;
  store_le32(&frame[end], Icrc(Bytes(frame).subspan(view->ip_offset, end - view->ip_offset)).value());
  const Result<PacketView, DropReason> repaired = PacketView::parse(frame);
  FUZZ_CHECK(repaired.ok() && verify_icrc(*repaired));
}

}  // namespace
}  // namespace cw::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 9216) {
    return 0;
  }
  std::vector<uint8_t> frame(data, data + size);
  cw::wire::check(frame);
  // Once more with the IPv4 header checksum put right, which a fuzzer would not guess.
  if (size >= 34 && frame[12] == 0x08) {
    cw::store_be16(&frame[24], 0);
    const uint64_t sum = cw::wire::ipv4_sum(std::span<const uint8_t, 20>(&frame[14], 20));
    cw::store_be16(&frame[24], static_cast<uint16_t>(~cw::wire::fold_ones_complement(sum)));
    cw::wire::check(frame);
  }
  return 0;
}
