#include "rpcrdma/wire/private_data.h"

#include <algorithm>
#include <array>

namespace cw::rpcrdma {

InlineThresholds negotiate(const PrivateData& local, const PrivateData& peer) {
  return InlineThresholds{
      .send_bytes = std::min(local.send_bytes, peer.receive_bytes),
      .receive_bytes = std::min(local.receive_bytes, peer.send_bytes),
      .remote_invalidation = local.remote_invalidation && peer.remote_invalidation,
  };
}

ConnectBytes connect_bytes(const PrivateData& message) {
  ConnectBytes out;
  if (message.write(out.raw).ok()) {
    out.size = PrivateData::kSize;
  }
  return out;
}

namespace {

// What a Linux 6.1 client sends and what knfsd answers.
constexpr std::array<uint8_t, 8> kLinuxClient = {0xf6, 0xab, 0x0e, 0x18, 0x01, 0x01, 0x03, 0x03};
constexpr std::array<uint8_t, 8> kLinuxServer = {0xf6, 0xab, 0x0e, 0x18, 0x01, 0x00, 0x03, 0x03};
static_assert(PrivateData::parse(kLinuxClient).value() == PrivateData{4096, 4096, true});
static_assert(PrivateData::parse(kLinuxServer).value() == PrivateData{4096, 4096, false});
static_assert([] {
  std::array<uint8_t, 8> out{};
  return PrivateData{4096, 4096, true}.write(out).ok() && out == kLinuxClient;
}());

}  // namespace

}  // namespace cw::rpcrdma
