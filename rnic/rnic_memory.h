// Memory that servers may reach, registered with the RDMA device of their connection for one use each (the client role). Keys and
// addresses are the device's. All connections of a device have one protection domain there, so a key opens its region to every
// peer of the device that is exposed to: it lives no longer than its call.
//
//   connection: open() -> close() with its queue pair -> forget() with its user
//   region:     expose() -> invalidate() by who exposed it; the device lets go of it with the connection's queue pair at last
//
// The table is allocated once; what rdma-core allocates for a registration is its own.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "base/intrusive_list.h"
#include "base/slab.h"
#include "rnic/rnic_host.h"
#include "verbs/memory_region.h"

namespace cw::rnic {

class RnicMemory final : public verbs::MemoryRegistry {
 public:
  // `host` outlives it.
  RnicMemory(uint32_t region_max, RnicHost& host);
  // Precondition: the transport is gone.
  ~RnicMemory() override;
  RnicMemory(const RnicMemory&) = delete;
  RnicMemory& operator=(const RnicMemory&) = delete;

  // kBadState: the domain's connection has no queue pair.
  [[nodiscard]] Result<verbs::RemoteRegion> expose(verbs::ProtectionDomain domain, MutableBytes memory,
                                                   verbs::RemoteAccess access) override;
  bool invalidate(verbs::ProtectionDomain domain, verbs::Rkey key) override;

  // The transport's side. False: another connection has the domain.
  [[nodiscard]] bool open(verbs::ProtectionDomain domain, RnicId connection);
  // The queue pair is about to go: the device lets go of all regions, which their owners may still invalidate.
  void close(verbs::ProtectionDomain domain);
  // Likewise, and nobody will ask for them.
  void forget(verbs::ProtectionDomain domain);

  [[nodiscard]] uint32_t region_count() const { return region_count_; }

 private:
  struct KeyTag {};
  struct DomainTag {};
  struct Region : ListNode<KeyTag>, ListNode<DomainTag> {
    verbs::ProtectionDomain domain;
    verbs::Rkey key;
    uint64_t handle = 0;
    bool is_registered = true;
  };
  struct Domain {
    RnicId connection;
    bool is_open = true;
    IntrusiveList<Region, DomainTag> regions;
  };
  using Bucket = IntrusiveList<Region, KeyTag>;

  [[nodiscard]] Bucket& bucket_of(verbs::ProtectionDomain domain, verbs::Rkey key);
  [[nodiscard]] bool deregister(Region& region);
  void free_region(Region& region);

  RnicHost& host_;
  Slab<Region> regions_;
  uint32_t region_count_ = 0;
  uint32_t mask_;
  std::unique_ptr<Bucket[]> buckets_;             // mask_ + 1 of them
  std::unordered_map<uint32_t, Domain> domains_;  // written when connections are made and end
};

}  // namespace cw::rnic
