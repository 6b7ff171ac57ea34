#include "apps/nfs/pattern.h"

#include <algorithm>

namespace cw::peers {

void fill_pattern(MutableBytes bytes, uint64_t offset) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = pattern_at(offset + i);
  }
}

bool is_pattern(Bytes bytes, uint64_t offset) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != pattern_at(offset + i)) {
      return false;
    }
  }
  return true;
}

bool is_pattern(const Chain& chain) {
  uint64_t offset = 0;
  for (const Buffer* buffer = chain.head(); buffer != nullptr; buffer = buffer->next) {
    if (!is_pattern(buffer->bytes(), offset)) {
      return false;
    }
    offset += buffer->size;
  }
  return true;
}

bool PatternSource::fill(BufferPool& pool, uint64_t bytes_max) {
  whole_.clear();
  uint64_t offset = 0;
  while (offset < bytes_max) {
    Buffer* buffer = pool.allocate_one();
    if (buffer == nullptr) {
      whole_.clear();
      return false;
    }
    const MutableBytes room = buffer->tailroom();
    const uint64_t count = std::min<uint64_t>(room.size(), bytes_max - offset);
    fill_pattern(room.first(count), offset);
    buffer->size = static_cast<uint32_t>(count);
    whole_.push_back(buffer);
    offset += count;
  }
  return true;
}

}  // namespace cw::peers
