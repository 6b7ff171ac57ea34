// The XDP program and AddressFilter decide alike, whatever the frame. The program is the source that clang compiles for the
// kernel, compiled for this process; its frame ends where a page ends, and behind it nothing can be read.
//
// Input: the VLAN of the addresses (two bytes), then a frame (frame_of.h).
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/ip_address.h"
#include "gateway/node/address_filter.h"
#include "tests/fuzz/frame_of.h"
#include "tests/fuzz/fuzz_target.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wpointer-arith"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#include "dataplane/xdp/causeway_xdp.c"
#pragma GCC diagnostic pop

namespace {

using cw::IpAddress;

constexpr size_t kInputBytesMax = 2048;

const std::vector<IpAddress>& addresses() {
  static const std::vector<IpAddress> both{
      IpAddress::v4(0x0a090002), IpAddress::v6(std::array<uint8_t, 16>{0xfd, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2})};
  return both;
}

uint16_t own_vlan = 0;

// A frame's place: below 4 GiB, since a program's pointers to it have 32 bits, and right before a page that nobody may read.
class FramePlace {
 public:
  FramePlace() {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t bytes = (cw::fuzz::kFrameBytesMax + page - 1) / page * page;
    void* const memory = mmap(nullptr, bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    FUZZ_CHECK(memory != MAP_FAILED);
    end_ = static_cast<uint8_t*>(memory) + bytes;
    FUZZ_CHECK(mprotect(end_, page, PROT_NONE) == 0);
  }
  [[nodiscard]] cw::Bytes put(cw::Bytes frame) {
    std::ranges::copy(frame, end_ - frame.size());
    return {end_ - frame.size(), frame.size()};
  }

 private:
  uint8_t* end_;
};

}  // namespace

void* bpf_map_lookup_elem(void* map, const void* key) {
  static int present = 1;
  FUZZ_CHECK(map == &own_addresses);
  own_address to;
  std::memcpy(&to, key, sizeof(to));
  const bool is_own = std::ranges::any_of(
      addresses(), [&](const IpAddress& address) { return std::ranges::equal(address.raw, to.raw) && to.vlan == own_vlan; });
  return is_own ? &present : nullptr;
}

int bpf_redirect_map(void* map, __u32, __u64) {
  FUZZ_CHECK(map == &xsks_map);
  return XDP_REDIRECT;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2 || size > kInputBytesMax) {
    return 0;
  }
  static FramePlace place;
  static std::vector<uint8_t> built;
  own_vlan = cw::load_be16(data) & 0x0fff;
  cw::fuzz::frame_of({data + 2, size - 2}, own_vlan, built);
  const cw::Bytes frame = place.put(built);
  xdp_md context{};
  context.data = static_cast<__u32>(reinterpret_cast<uintptr_t>(frame.data()));
  context.data_end = static_cast<__u32>(reinterpret_cast<uintptr_t>(frame.data() + frame.size()));
  const int verdict = causeway_xdp(&context);
  const cw::node::AddressFilter filter(addresses(), own_vlan);
  FUZZ_CHECK(verdict == XDP_PASS || verdict == XDP_REDIRECT);
  FUZZ_CHECK((verdict == XDP_REDIRECT) == filter.takes(frame));
  return 0;
}
