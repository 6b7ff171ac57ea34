#include "base/crc32c.h"

#include <isa-l/crc.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>

#include "base/upper_halves.h"

namespace cw {
namespace {

// Fewer bytes than this are not worth the call, and what lies behind it.
constexpr size_t kShort = 48;

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t by_instruction(uint32_t crc, Bytes bytes) {
  const uint8_t* at = bytes.data();
  size_t left = bytes.size();
  uint64_t wide = crc;
  for (; left >= 8; left -= 8, at += 8) {
    wide = _mm_crc32_u64(wide, load_native<uint64_t>(at));
  }
  crc = static_cast<uint32_t>(wide);
  for (; left > 0; --left, ++at) {
    crc = _mm_crc32_u8(crc, *at);
  }
  return crc;
}
const bool kHasInstruction = __builtin_cpu_supports("sse4.2") != 0;
#endif

}  // namespace

void Crc32c::add(Bytes more) {
#if defined(__x86_64__)
  if (more.size() < kShort && kHasInstruction) {
    register_ = by_instruction(register_, more);
    return;
  }
#endif
  // It does not write to the bytes, and takes their number as an int.
  constexpr size_t kAtOnceMax = 1u << 30;
  while (!more.empty()) {
    const Bytes piece = more.first(std::min(more.size(), kAtOnceMax));
    register_ = crc32_iscsi(const_cast<uint8_t*>(piece.data()), static_cast<int>(piece.size()), register_);
    more = more.subspan(piece.size());
  }
  clear_upper_halves();
}

}  // namespace cw
