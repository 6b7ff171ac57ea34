#include "rocev2/verbs/memory_region.h"

namespace cw::verbs {

MemoryTable::MemoryTable(uint32_t region_max, RandomSource& random) : region_max_(region_max), random_(random) {
  regions_.reserve(region_max);
}

Result<Rkey> MemoryTable::register_region(ProtectionDomain domain, MutableBytes memory, RemoteAccess access) {
  if (regions_.size() >= region_max_) {
    return fail(Error::kNoResources);
  }
  // The remote address is random too, page-aligned and far from both ends of the address space: it says nothing about our
  // memory layout, and address + length cannot wrap.
  const uint64_t address = (random_.next_u64() >> 17) << 12;
  uint32_t key = random_.next_u32();
  while (key == 0 || regions_.contains(key)) {
    key = random_.next_u32();
  }
  regions_.emplace(key, Region{domain, access, address, memory});
  return Rkey(key);
}

uint64_t MemoryTable::address_of(Rkey key) const {
  const auto found = regions_.find(key.value());
  return found == regions_.end() ? 0 : found->second.address;
}

bool MemoryTable::invalidate(ProtectionDomain domain, Rkey key) {
  const auto found = regions_.find(key.value());
  if (found == regions_.end() || found->second.domain != domain) {
    return false;
  }
  regions_.erase(found);
  return true;
}

uint32_t MemoryTable::invalidate_all(ProtectionDomain domain) {
  uint32_t count = 0;
  for (auto it = regions_.begin(); it != regions_.end();) {
    if (it->second.domain == domain) {
      it = regions_.erase(it);
      ++count;
    } else {
      ++it;
    }
  }
  return count;
}

Result<MutableBytes> MemoryTable::resolve(ProtectionDomain domain, Rkey key, uint64_t address, uint64_t length,
                                          RemoteAccess access) const {
  const auto found = regions_.find(key.value());
  if (found == regions_.end() || found->second.domain != domain) {
    return fail(Error::kBadValue);
  }
  const Region& region = found->second;
  if ((static_cast<uint8_t>(region.access) & static_cast<uint8_t>(access)) != static_cast<uint8_t>(access)) {
    return fail(Error::kBadValue);
  }
  // Subtractions that cannot wrap, in this order: never address + length (CVE-2026-98365).
  if (address < region.address) {
    return fail(Error::kBadValue);
  }
  const uint64_t offset = address - region.address;
  if (offset > region.memory.size() || length > region.memory.size() - offset) {
    return fail(Error::kBadValue);
  }
  return MutableBytes(region.memory.data() + offset, static_cast<size_t>(length));
}

}  // namespace cw::verbs
