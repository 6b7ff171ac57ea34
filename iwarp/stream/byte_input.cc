#include "iwarp/stream/byte_input.h"

#include <algorithm>

namespace cw::iwarp {

SpareBuffers::~SpareBuffers() {
  for (uint32_t i = 0; i < count_; ++i) {
    pool_.release(buffers_[i]);
  }
}

uint32_t SpareBuffers::offer(std::span<MutableBytes> out) {
  if (count_ < kCount / 2) {
    // All or nothing: near its end the pool may have one and not eight.
    const std::span<Buffer*> more(buffers_.data() + count_, kCount - count_);
    if (pool_.allocate(more)) {
      count_ = kCount;
    } else if (count_ == 0 && pool_.allocate(more.first(1))) {
      count_ = 1;
    }
  }
  const uint32_t offered = std::min<uint32_t>(count_, static_cast<uint32_t>(out.size()));
  for (uint32_t i = 0; i < offered; ++i) {
    out[i] = buffers_[count_ - 1 - i]->tailroom();
  }
  return offered;
}

Buffer* SpareBuffers::take() {
  CW_DASSERT(count_ > 0);
  return buffers_[--count_];
}

uint32_t ByteInput::space(SpareBuffers& spares, std::span<MutableBytes> out) {
  uint32_t count = 0;
  if (has_tailroom()) {
    out[count++] = bytes_.tail_room();
  }
  return count + spares.offer(out.subspan(count));
}

void ByteInput::received(SpareBuffers& spares, uint32_t count) {
  if (has_tailroom()) {
    const uint32_t fits = std::min(count, static_cast<uint32_t>(bytes_.tail_room().size()));
    bytes_.extend_back(fits);
    count -= fits;
  }
  while (count > 0) {
    Buffer* buffer = spares.take();
    buffer->size = std::min(count, static_cast<uint32_t>(buffer->tailroom().size()));
    count -= buffer->size;
    bytes_.push_back(buffer);
  }
}

}  // namespace cw::iwarp
