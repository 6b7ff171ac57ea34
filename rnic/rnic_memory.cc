#include "rnic/rnic_memory.h"

#include <bit>
#include <utility>

#include "base/assert.h"

namespace cw::rnic {

RnicMemory::RnicMemory(uint32_t region_max, RnicHost& host)
    : host_(host),
      regions_(region_max),
      mask_(static_cast<uint32_t>(std::bit_ceil(uint64_t{region_max} + 1) - 1)),
      buckets_(std::make_unique<Bucket[]>(size_t{mask_} + 1)) {}

RnicMemory::~RnicMemory() {
  CW_ASSERT(domains_.empty() && region_count_ == 0);
}

// Devices count their keys up, some from bit 8 on.
RnicMemory::Bucket& RnicMemory::bucket_of(verbs::ProtectionDomain domain, verbs::Rkey key) {
  const uint64_t both = uint64_t{domain.value()} << 32 | key.value();
  return buckets_[static_cast<uint32_t>(both * 0x9e37'79b9'7f4a'7c15 >> 32) & mask_];
}

Result<verbs::RemoteRegion> RnicMemory::expose(verbs::ProtectionDomain domain, MutableBytes memory, verbs::RemoteAccess access) {
  const auto found = domains_.find(domain.value());
  if (found == domains_.end() || !found->second.is_open) {
    return fail(Error::kBadState);
  }
  Region* region = regions_.create();
  if (region == nullptr) {
    return fail(Error::kNoResources);
  }
  const auto made = host_.register_memory(found->second.connection, memory, access);
  if (!made.ok()) {
    regions_.destroy(region);
    return fail(made.error());
  }
  region->domain = domain;
  region->key = made->remote.key;
  region->handle = made->handle;
  ++region_count_;
  bucket_of(domain, region->key).push_back(*region);
  found->second.regions.push_back(*region);
  return made->remote;
}

bool RnicMemory::deregister(Region& region) {
  if (region.is_registered) {
    region.is_registered = !host_.deregister_memory(region.handle);
  }
  return !region.is_registered;
}

bool RnicMemory::invalidate(verbs::ProtectionDomain domain, verbs::Rkey key) {
  Bucket& bucket = bucket_of(domain, key);
  for (Region* each = bucket.front(); each != nullptr; each = bucket.next(*each)) {
    if (each->domain == domain && each->key == key) {
      // One that the device keeps goes with its queue pair.
      const bool is_gone = deregister(*each);
      if (is_gone) {
        free_region(*each);
      }
      return is_gone;
    }
  }
  return false;
}

void RnicMemory::free_region(Region& region) {
  region.ListNode<KeyTag>::unlink();
  region.ListNode<DomainTag>::unlink();
  regions_.destroy(&region);
  --region_count_;
}

bool RnicMemory::open(verbs::ProtectionDomain domain, RnicId connection) {
  const auto [place, is_new] = domains_.try_emplace(domain.value());
  if (is_new) {
    place->second.connection = connection;
  }
  return is_new;
}

void RnicMemory::close(verbs::ProtectionDomain domain) {
  const auto found = domains_.find(domain.value());
  if (found == domains_.end() || !std::exchange(found->second.is_open, false)) {
    return;
  }
  auto& regions = found->second.regions;
  for (Region* each = regions.front(); each != nullptr; each = regions.next(*each)) {
    (void)deregister(*each);
  }
}

void RnicMemory::forget(verbs::ProtectionDomain domain) {
  close(domain);
  const auto found = domains_.find(domain.value());
  if (found == domains_.end()) {
    return;
  }
  while (Region* each = found->second.regions.front()) {
    free_region(*each);
  }
  domains_.erase(found);
}

}  // namespace cw::rnic
