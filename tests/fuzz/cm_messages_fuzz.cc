// Every codec of the connection manager: the first byte chooses one, the rest is its input. What is parsed must be written and
// parsed again the same; only too little input, or a version or family that does not exist, is refused.
#include <array>

#include "control/cm/ip_cm.h"
#include "control/cm/wire/apr.h"
#include "control/cm/wire/drep.h"
#include "control/cm/wire/dreq.h"
#include "control/cm/wire/lap.h"
#include "control/cm/wire/mad_header.h"
#include "control/cm/wire/mra.h"
#include "control/cm/wire/rej.h"
#include "control/cm/wire/rep.h"
#include "control/cm/wire/req.h"
#include "control/cm/wire/rtu.h"
#include "control/cm/wire/sidr.h"
#include "tests/fuzz/fuzz_target.h"

namespace cw::cm {
namespace {

template <typename Message>
void check(Bytes input) {
  const auto message = Message::parse(input);
  if (!message.ok()) {
    FUZZ_CHECK(input.size() < Message::kSize || message.error() != Error::kTruncated);
    return;
  }
  std::array<uint8_t, Message::kSize> written;
  written.fill(0xaa);
  message->write(written);
  const auto again = Message::parse(written);
  FUZZ_CHECK(again.ok());
  std::array<uint8_t, Message::kSize> twice;
  twice.fill(0x55);
  again->write(twice);
  FUZZ_CHECK(written == twice);  // nothing is left as it was found
}

constexpr std::array kChecks = {check<MadHeader>, check<Req>,  check<Rep>,       check<Rtu>,     check<Rej>,
                                check<Mra>,       check<Dreq>, check<Drep>,      check<SidrReq>, check<SidrRep>,
                                check<Lap>,       check<Apr>,  check<IpCmHeader>};

}  // namespace
}  // namespace cw::cm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0 && size <= 512) {
    cw::cm::kChecks[data[0] % cw::cm::kChecks.size()](cw::Bytes(data + 1, size - 1));
  }
  return 0;
}
