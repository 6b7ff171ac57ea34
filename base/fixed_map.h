// A hash map of a fixed number of 64-bit keys, allocated once: open addressing, linear probing, deletion by moving back.
//
// Keys that a peer can choose (an XID, an address) are mixed with a secret seed, so that nobody can aim for one bucket.
#pragma once

#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/assert.h"

namespace cw {

template <typename Value>
class FixedMap {
 public:
  FixedMap(uint32_t capacity, uint64_t seed)
      : entries_(std::bit_ceil(capacity * 2 + 2)),
        mask_(static_cast<uint32_t>(entries_.size() - 1)),
        capacity_(capacity),
        seed_(seed | 1) {}

  // False when the map is full or has the key already.
  [[nodiscard]] bool insert(uint64_t key, Value value) {
    if (size_ == capacity_) {
      return false;
    }
    uint32_t at = bucket_of(key);
    while (entries_[at].used) {
      if (entries_[at].key == key) {
        return false;
      }
      at = (at + 1) & mask_;
    }
    entries_[at] = Entry{key, std::move(value), true};
    ++size_;
    return true;
  }

  [[nodiscard]] Value* find(uint64_t key) {
    for (uint32_t at = bucket_of(key); entries_[at].used; at = (at + 1) & mask_) {
      if (entries_[at].key == key) {
        return &entries_[at].value;
      }
    }
    return nullptr;
  }

  bool erase(uint64_t key) {
    uint32_t at = bucket_of(key);
    while (entries_[at].used && entries_[at].key != key) {
      at = (at + 1) & mask_;
    }
    if (!entries_[at].used) {
      return false;
    }
    // Close the gap: whatever may not stay behind a free bucket moves forward.
    uint32_t hole = at;
    for (uint32_t next = (hole + 1) & mask_; entries_[next].used; next = (next + 1) & mask_) {
      const uint32_t home = bucket_of(entries_[next].key);
      if (((next - home) & mask_) >= ((next - hole) & mask_)) {
        entries_[hole] = std::move(entries_[next]);
        hole = next;
      }
    }
    entries_[hole].used = false;
    --size_;
    return true;
  }

  [[nodiscard]] uint32_t size() const { return size_; }

 private:
  struct Entry {
    uint64_t key = 0;
    Value value{};
    bool used = false;
  };
  [[nodiscard]] uint32_t bucket_of(uint64_t key) const {
    uint64_t mixed = (key ^ seed_) * 0x9e3779b97f4a7c15ULL;
    mixed = (mixed ^ (mixed >> 29)) * seed_;
    return static_cast<uint32_t>(mixed >> 32) & mask_;
  }

  std::vector<Entry> entries_;
  uint32_t mask_;
  uint32_t capacity_;
  uint32_t size_ = 0;
  uint64_t seed_;
};

}  // namespace cw
