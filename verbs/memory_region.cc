#include "verbs/memory_region.h"

#include <bit>

namespace cw::verbs {

MemoryTable::MemoryTable(uint32_t region_max, RandomSource& random)
    : mask_(static_cast<uint32_t>(std::bit_ceil(uint64_t{region_max} * 2 + 2) - 1)), region_max_(region_max), random_(random) {
  CW_ASSERT(region_max <= 1u << 30);
  slots_ = std::make_unique<Region[]>(size_t{mask_} + 1);
}

Result<Rkey> MemoryTable::register_region(ProtectionDomain domain, MutableBytes memory, RemoteAccess access) {
  if (region_count_ >= region_max_) {
    return fail(Error::kNoResources);
  }
  // The remote address is random too, page-aligned and far from both ends of the address space: it says nothing about our
  // memory layout, and address + length cannot wrap.
  const uint64_t address = (random_.next_u64() >> 17) << 12;
  uint32_t key = random_.next_u32();
  while (key == 0 || slots_[slot_of(key)].key == key) {
    key = random_.next_u32();
  }
  slots_[slot_of(key)] = Region{.key = key, .access = access, .domain = domain, .address = address, .memory = memory};
  ++region_count_;
  return Rkey(key);
}

Result<RemoteRegion> MemoryTable::expose(ProtectionDomain domain, MutableBytes memory, RemoteAccess access) {
  const auto key = register_region(domain, memory, access);
  if (!key.ok()) {
    return fail(key.error());
  }
  return RemoteRegion{*key, address_of(*key)};
}

uint64_t MemoryTable::address_of(Rkey key) const {
  return key.value() == 0 ? 0 : slots_[slot_of(key.value())].address;
}

bool MemoryTable::invalidate(ProtectionDomain domain, Rkey key) {
  const Region* region = find(domain, key);
  if (region == nullptr) {
    return false;
  }
  erase(static_cast<uint32_t>(region - slots_.get()));
  return true;
}

uint32_t MemoryTable::invalidate_all(ProtectionDomain domain) {
  uint32_t count = 0;
  // Erasing moves a later region into the slot, which is therefore looked at again. What wraps around to the end of the table
  // comes from slots that have been looked at.
  for (uint32_t slot = 0; slot <= mask_;) {
    if (slots_[slot].key != 0 && slots_[slot].domain == domain) {
      erase(slot);
      ++count;
    } else {
      ++slot;
    }
  }
  return count;
}

Result<MutableBytes, MemoryFault> MemoryTable::resolve(ProtectionDomain domain, Rkey key, uint64_t address, uint64_t length,
                                                       RemoteAccess access) const {
  const Region& region = slots_[slot_of(key.value())];
  if (key.value() == 0 || region.key == 0) {
    return fail(MemoryFault::kUnknownKey);
  }
  if (region.domain != domain) {
    return fail(MemoryFault::kOtherDomain);
  }
  if (!grants(region.access, access)) {
    return fail(MemoryFault::kAccess);
  }
  if (length > 0 && address > UINT64_MAX - (length - 1)) {
    return fail(MemoryFault::kWrap);
  }
  // Subtractions that cannot wrap, in this order: never address + length (CVE-2026-98365).
  if (address < region.address) {
    return fail(MemoryFault::kBounds);
  }
  const uint64_t offset = address - region.address;
  if (offset > region.memory.size() || length > region.memory.size() - offset) {
    return fail(MemoryFault::kBounds);
  }
  return MutableBytes(region.memory.data() + offset, static_cast<size_t>(length));
}

bool MemoryTable::exposes(Bytes memory) const {
  const auto begin = reinterpret_cast<uintptr_t>(memory.data());
  for (uint32_t slot = 0; slot <= mask_; ++slot) {
    const MutableBytes region = slots_[slot].memory;
    const auto at = reinterpret_cast<uintptr_t>(region.data());
    if (slots_[slot].key != 0 && at < begin + memory.size() && begin < at + region.size()) {
      return true;
    }
  }
  return false;
}

uint32_t MemoryTable::slot_of(uint32_t key) const {
  uint32_t slot = home_of(key);
  while (slots_[slot].key != 0 && slots_[slot].key != key) {
    slot = (slot + 1) & mask_;
  }
  return slot;
}

const MemoryTable::Region* MemoryTable::find(ProtectionDomain domain, Rkey key) const {
  if (key.value() == 0) {
    return nullptr;
  }
  const Region& region = slots_[slot_of(key.value())];
  return region.key == key.value() && region.domain == domain ? &region : nullptr;
}

// Closes the gap: every region behind it that the gap would cut off from its home moves up, so that no tombstones gather.
void MemoryTable::erase(uint32_t slot) {
  uint32_t gap = slot;
  for (uint32_t at = (gap + 1) & mask_; slots_[at].key != 0; at = (at + 1) & mask_) {
    const uint32_t from_home = (at - home_of(slots_[at].key)) & mask_;
    const uint32_t from_gap = (at - gap) & mask_;
    if (from_home >= from_gap) {
      slots_[gap] = slots_[at];
      gap = at;
    }
  }
  slots_[gap] = Region{};
  --region_count_;
}

}  // namespace cw::verbs
