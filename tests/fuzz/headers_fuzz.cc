// Every header codec: the first byte chooses one, the rest is its input. What is parsed must be written and parsed again the
// same.
#include <array>

#include "rocev2/wire/aeth.h"
#include "rocev2/wire/atomic_eth.h"
#include "rocev2/wire/bth.h"
#include "rocev2/wire/deth.h"
#include "rocev2/wire/ethernet.h"
#include "rocev2/wire/ieth.h"
#include "rocev2/wire/immdt.h"
#include "rocev2/wire/ipv4.h"
#include "rocev2/wire/ipv6.h"
#include "rocev2/wire/reth.h"
#include "rocev2/wire/udp.h"
#include "tests/fuzz/fuzz_target.h"

namespace cw::wire {
namespace {

template <typename Header>
void check(Bytes input) {
  const Result<Header> header = Header::parse(input);
  FUZZ_CHECK(header.ok() || input.size() < Header::kSize || header.error() == Error::kUnsupported);
  if (!header) {
    return;
  }
  std::array<uint8_t, Header::kSize> written;
  header->write(written);
  const Result<Header> again = Header::parse(written);
  FUZZ_CHECK(again.ok() && *again == *header);
}

constexpr std::array kChecks = {check<Bth>,   check<Reth>, check<Aeth>, check<AtomicEth>, check<AtomicAckEth>,
                                check<ImmDt>, check<Ieth>, check<Deth>, check<Ethernet>,  check<VlanTag>,
                                check<Ipv4>,  check<Ipv6>, check<Udp>};

}  // namespace
}  // namespace cw::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0) {
    cw::wire::kChecks[data[0] % cw::wire::kChecks.size()](cw::Bytes(data + 1, size - 1));
  }
  return 0;
}
