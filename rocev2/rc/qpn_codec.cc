#include "rocev2/rc/qpn_codec.h"

#include "base/assert.h"
#include "base/random.h"

namespace cw::rc {
namespace {

constexpr uint32_t mask_of(uint32_t bits) {
  return (1u << bits) - 1;
}

}  // namespace

QpnCodec::QpnCodec(uint64_t key, uint32_t core_bits, uint32_t slot_bits) : core_bits_(core_bits), slot_bits_(slot_bits) {
  CW_ASSERT(core_bits + slot_bits <= kBits);
  SeededRandom schedule(key);
  for (uint64_t& round_key : keys_) {
    round_key = schedule.next_u64();
  }
}

std::optional<verbs::Qpn> QpnCodec::encode(const QpnParts& parts) const {
  CW_DASSERT(parts.core < (1u << core_bits_) && parts.slot < (1u << slot_bits_));
  const uint32_t generation = parts.generation & (generation_count() - 1);
  const uint32_t plain = (generation << slot_bits_) | parts.slot;
  uint32_t left = plain >> right_bits();
  uint32_t right = plain & mask_of(right_bits());
  for (uint32_t i = 0; i < kRounds; i += 2) {
    left ^= round(right, i) & mask_of(left_bits());
    right ^= round(left, i + 1) & mask_of(right_bits());
  }
  const uint32_t qpn = (((left << right_bits()) | right) << core_bits_) | parts.core;
  if (qpn <= 1 || qpn == 0xff'ffff) {
    return std::nullopt;
  }
  return verbs::Qpn(qpn);
}

QpnParts QpnCodec::decode(verbs::Qpn qpn) const {
  const uint32_t permuted = qpn.value() >> core_bits_;
  uint32_t left = permuted >> right_bits();
  uint32_t right = permuted & mask_of(right_bits());
  for (uint32_t i = kRounds; i > 0; i -= 2) {
    right ^= round(left, i - 1) & mask_of(right_bits());
    left ^= round(right, i - 2) & mask_of(left_bits());
  }
  const uint32_t plain = (left << right_bits()) | right;
  return QpnParts{.core = core_of(qpn), .slot = plain & mask_of(slot_bits_), .generation = plain >> slot_bits_};
}

// A multiplication spreads every bit of the half and of the key over the middle of the product; a second one takes away what
// linearity is left.
uint32_t QpnCodec::round(uint32_t half, uint32_t index) const {
  uint64_t mixed = (half ^ keys_[index]) * 0xff51afd7ed558ccdULL;
  mixed = (mixed ^ (mixed >> 32)) * 0xc4ceb9fe1a85ec53ULL;
  return static_cast<uint32_t>(mixed >> 40);
}

}  // namespace cw::rc
