#include "gateway/node/causeway_offer.h"

#include <algorithm>

namespace cw::node {

ExtendedPrivateData::ExtendedPrivateData(Bytes message, const CausewayOffer& offer)
    : message_(message),
      extends_(offer != CausewayOffer{} && message.size() == rpcrdma::PrivateData::kSize &&
               rpcrdma::PrivateData::parse(message).ok()) {
  if (extends_) {
    std::ranges::copy(message, raw_.begin());
    offer.write(std::span<uint8_t>(raw_).subspan<rpcrdma::PrivateData::kSize, CausewayOffer::kSize>());
  }
}

}  // namespace cw::node
