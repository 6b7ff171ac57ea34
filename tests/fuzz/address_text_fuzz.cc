// Text of addresses, which configuration and the admin socket hand in: never a crash, and what is accepted survives a round trip.
#include <string_view>

#include "base/ip_address.h"
#include "rocev2/wire/mac_address.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const cw::Result<cw::IpAddress> ip = cw::parse_ip(text);
  if (ip) {
    const cw::Result<cw::IpAddress> again = cw::parse_ip(cw::to_text(*ip).data());
    FUZZ_CHECK(again.ok() && *again == *ip);
  }
  const cw::Result<cw::wire::MacAddress> mac = cw::wire::parse_mac(text);
  if (mac) {
    const cw::Result<cw::wire::MacAddress> again = cw::wire::parse_mac(cw::wire::to_text(*mac).data());
    FUZZ_CHECK(again.ok() && *again == *mac);
  }
  return 0;
}
