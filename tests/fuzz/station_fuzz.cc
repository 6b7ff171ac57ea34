// Frames that are not RoCE: ARP, neighbour discovery, echo. However many come, the station answers at most one frame for each, no
// answer is longer than the MTU or sent to a group or to itself, and its tables stay as large as they were made.
//
// Input: records of [length (two bytes)][length bytes]; a length of 0xffff lets a second pass and asks for a neighbour.
#include <algorithm>
#include <array>
#include <vector>

#include "base/heap_buffer_pool.h"
#include "rocev2/link/station.h"
#include "tests/fuzz/fuzz_target.h"

namespace cw::link {
namespace {

StationOptions options() {
  StationOptions out;
  out.mac = wire::MacAddress{{2, 0, 0, 0, 0, 1}};
  out.mtu = 1500;
  out.addresses.push_back({IpAddress::v4(0x0a090001), 24});
  std::array<uint8_t, 16> ipv6{0xfd, 9};
  ipv6[15] = 1;
  out.addresses.push_back({IpAddress::v6(ipv6), 64});
  return out;
}

uint32_t drain(Station& station, HeapBufferPool& pool) {
  wire::TxBatch batch(pool);
  station.poll_transmit(batch);
  for (const wire::TxPacket& packet : batch.packets()) {
    const Bytes head = packet.head->bytes();
    FUZZ_CHECK(head.size() >= 14 && packet.frame_bytes() <= 1500 + 18);
    const wire::MacAddress own = options().mac;
    FUZZ_CHECK(std::equal(own.raw.begin(), own.raw.end(), head.begin() + 6));
  }
  return batch.size();
}

}  // namespace
}  // namespace cw::link

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 8192) {
    return 0;
  }
  cw::link::Station station(cw::link::options());
  cw::HeapBufferPool pool(64, 9216, 0);
  cw::Instant now = cw::Instant::from_ns(1'000'000'000);
  for (cw::Bytes input(data, size); input.size() >= 2;) {
    const uint16_t word = cw::load_be16(input.data());
    input = input.subspan(2);
    if (word == 0xffff) {
      now = now + cw::Duration::seconds(1);
      (void)station.resolve(now, cw::IpAddress::v4(0x0a090002));
      (void)cw::link::drain(station, pool);
      continue;
    }
    const size_t length = std::min<size_t>(word, input.size());
    const std::vector<uint8_t> frame(input.begin(), input.begin() + static_cast<ptrdiff_t>(length));
    (void)station.on_frame(now, frame);
    FUZZ_CHECK(cw::link::drain(station, pool) <= 1);
    input = input.subspan(length);
  }
  FUZZ_CHECK(pool.in_use() == 0);
  return 0;
}
