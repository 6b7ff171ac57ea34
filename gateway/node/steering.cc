#include "gateway/node/steering.h"

#include "base/keyed_hash.h"
#include "control/cm/wire/mad_header.h"
#include "rocev2/gsi/gsi_qp.h"
#include "rocev2/wire/bth.h"
#include "rocev2/wire/deth.h"
#include "rocev2/wire/frame_layout.h"

namespace cw::node {
namespace {

constexpr size_t kAttributeId = 16;                // in a MAD header
constexpr size_t kOurId = cm::kMadHeaderSize + 4;  // in every CM message but REQ, SIDR_REQ and SIDR_REP
constexpr size_t kRequestQpn = cm::kMadHeaderSize + 32;

uint32_t sum_of_words(Bytes raw) {
  uint32_t sum = 0;
  for (size_t i = 0; i + 4 <= raw.size(); i += 4) {
    sum += load_be32(raw.data() + i);
  }
  return sum;
}

}  // namespace

uint32_t Steering::owner_of(Bytes frame) const {
  const std::optional<wire::RoceLayout> roce = wire::find_roce(frame);
  if (!roce) {
    return 0;
  }
  const Bytes bth = frame.subspan(roce->bth);
  const verbs::Qpn qpn(load_be24(bth.data() + 5));
  if (qpn == verbs::Qpn(gsi::kGsiQpn)) {
    constexpr size_t kBefore = size_t{wire::Bth::kSize} + wire::Deth::kSize;
    const Bytes source = roce->ip.ipv6 ? frame.subspan(roce->ip.offset + 8, 16) : frame.subspan(roce->ip.offset + 12, 4);
    return bth.size() < kBefore ? 0 : owner_of_mad(bth.subspan(kBefore), source);
  }
  const uint32_t core = codec_.core_of(qpn);
  return core < core_.count ? core : 0;
}

uint32_t Steering::owner_of_mad(Bytes mad, Bytes source) const {
  if (mad.size() < kRequestQpn + 4) {
    return 0;
  }
  const auto type = cm::message_type_of(load_be16(mad.data() + kAttributeId));
  if (!type || *type == cm::MessageType::kSidrReq || *type == cm::MessageType::kSidrRep) {
    return 0;
  }
  if (*type == cm::MessageType::kReq) {
    const uint32_t qpn = load_be32(mad.data() + kRequestQpn) >> 8;
    return static_cast<uint32_t>((mix(sum_of_words(source)) + qpn) % roce_cores_);
  }
  const uint32_t core = load_be32(mad.data() + kOurId) & ((1u << core_.bits()) - 1);
  return core < core_.count ? core : 0;
}

}  // namespace cw::node
