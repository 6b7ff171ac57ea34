// RFC 8797 private data of a peer: whatever it says, the sizes that are agreed upon are within our own and within the format's,
// and
// what a message says survives being written.
#include <array>

#include "rpcrdma/wire/private_data.h"
#include "tests/fuzz/fuzz_target.h"

using namespace cw;
using namespace cw::rpcrdma;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 256) {
    return 0;
  }
  const Bytes input(data, size);
  const PrivateData peer = PrivateData::of_peer(input);
  FUZZ_CHECK(peer.send_bytes >= kInlineSizeMin && peer.send_bytes <= kInlineSizeMax);
  FUZZ_CHECK(peer.receive_bytes >= kInlineSizeMin && peer.receive_bytes <= kInlineSizeMax);
  for (const bool invalidation : {false, true}) {
    const PrivateData ours{4096, 8192, invalidation};
    const InlineThresholds agreed = negotiate(ours, peer);
    FUZZ_CHECK(agreed.send_bytes <= 4096 && agreed.send_bytes <= peer.receive_bytes && agreed.send_bytes >= kInlineSizeMin);
    FUZZ_CHECK(agreed.receive_bytes <= 8192 && agreed.receive_bytes >= kInlineSizeMin);
    FUZZ_CHECK(!agreed.remote_invalidation || (invalidation && peer.remote_invalidation));
  }
  std::array<uint8_t, PrivateData::kSize> written{};
  FUZZ_CHECK(peer.write(written).ok());
  FUZZ_CHECK(*PrivateData::parse(written) == peer);
  return 0;
}
