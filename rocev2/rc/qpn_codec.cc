#include "rocev2/rc/qpn_codec.h"

#include "rocev2/base/assert.h"
#include "rocev2/base/random.h"

namespace cw::rc {
namespace {

constexpr uint32_t kHalfBits = 12;
constexpr uint32_t kHalfMask = (1u << kHalfBits) - 1;

}  // namespace

QpnCodec::QpnCodec(uint64_t key, uint32_t core_bits, uint32_t slot_bits) : core_bits_(core_bits), slot_bits_(slot_bits) {
  CW_ASSERT(core_bits + slot_bits <= 24);
  SeededRandom schedule(key);
  for (uint64_t& round_key : keys_) {
    round_key = schedule.next_u64();
  }
}

std::optional<verbs::Qpn> QpnCodec::encode(const QpnParts& parts) const {
  CW_DASSERT(parts.core < (1u << core_bits_) && parts.slot < (1u << slot_bits_));
  const uint32_t generation = parts.generation & (generation_count() - 1);
  const uint32_t plain = (((generation << slot_bits_) | parts.slot) << core_bits_) | parts.core;
  uint32_t left = plain >> kHalfBits;
  uint32_t right = plain & kHalfMask;
  for (uint32_t i = 0; i < kRounds; ++i) {
    const uint32_t mixed = left ^ round(right, i);
    left = right;
    right = mixed;
  }
  const uint32_t qpn = (left << kHalfBits) | right;
  if (qpn <= 1 || qpn == 0xff'ffff) {
    return std::nullopt;
  }
  return verbs::Qpn(qpn);
}

QpnParts QpnCodec::decode(verbs::Qpn qpn) const {
  uint32_t left = (qpn.value() >> kHalfBits) & kHalfMask;
  uint32_t right = qpn.value() & kHalfMask;
  for (uint32_t i = kRounds; i > 0; --i) {
    const uint32_t mixed = right ^ round(left, i - 1);
    right = left;
    left = mixed;
  }
  const uint32_t plain = (left << kHalfBits) | right;
  return QpnParts{.core = plain & ((1u << core_bits_) - 1),
                  .slot = (plain >> core_bits_) & ((1u << slot_bits_) - 1),
                  .generation = plain >> (core_bits_ + slot_bits_)};
}

// A multiplication spreads every bit of the half and of the key over the middle of the product; a second one takes away what
// linearity is left.
uint32_t QpnCodec::round(uint32_t half, uint32_t index) const {
  uint64_t mixed = (half ^ keys_[index]) * 0xff51afd7ed558ccdULL;
  mixed = (mixed ^ (mixed >> 32)) * 0xc4ceb9fe1a85ec53ULL;
  return static_cast<uint32_t>(mixed >> 40) & kHalfMask;
}

}  // namespace cw::rc
