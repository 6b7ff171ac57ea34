// Registered memory of the client role: what a peer may read or write by rkey. The server role registers nothing
// (docs/architecture.md, "The server exposes no memory").
//
// Who makes calls sees a MemoryRegistry. Our own transports look keys up in a MemoryTable; an RDMA device has a table of its own
// (rnic/rnic_memory.h).
//
// Keys of a MemoryTable are random 32-bit values, live for one use when the caller wants so, and belong to one protection domain:
// a key shown to one connection opens nothing on another. The table is allocated once: registering and invalidating happen for
// every call with chunks. It is open-addressed with the key as its own hash, which is sound because keys come from the
// RandomSource and never from a peer.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/bytes.h"
#include "base/random.h"
#include "base/result.h"
#include "verbs/ids.h"

namespace cw::verbs {

struct ProtectionDomainTag {};
using ProtectionDomain = StrongId<ProtectionDomainTag, uint32_t>;

// The remote part of ibv_access_flags, with its values. IBV_ACCESS_LOCAL_WRITE has no counterpart: a region is a MutableBytes,
// which its owner may write by definition, so that remote write and atomic access never lack it, as ibv_reg_mr demands.
enum class RemoteAccess : uint8_t {
  kNone = 0,
  kWrite = 2,   // IBV_ACCESS_REMOTE_WRITE
  kRead = 4,    // IBV_ACCESS_REMOTE_READ
  kAtomic = 8,  // IBV_ACCESS_REMOTE_ATOMIC
  kReadWrite = kRead | kWrite,
  kAll = kReadWrite | kAtomic,
};
[[nodiscard]] constexpr bool grants(RemoteAccess have, RemoteAccess want) {
  return (static_cast<uint8_t>(have) & static_cast<uint8_t>(want)) == static_cast<uint8_t>(want);
}

// Why a peer may not have what it asks for.
enum class MemoryFault : uint8_t {
  kUnknownKey,   // no region, or none any more
  kOtherDomain,  // a region of another connection's
  kBounds,
  kAccess,
  kWrap,  // address and length go beyond 2^64
};
inline constexpr uint32_t kMemoryFaultCount = 5;

// What a peer is told of a region, to reach it.
struct RemoteRegion {
  Rkey key;
  uint64_t address = 0;  // of its first byte
};

class MemoryRegistry {
 public:
  virtual ~MemoryRegistry() = default;

  // Registers `memory` for one use, and says how the peer reaches it. It must outlive the registration. kNoResources when no more
  // can be registered.
  [[nodiscard]] virtual Result<RemoteRegion> expose(ProtectionDomain domain, MutableBytes memory, RemoteAccess access) = 0;
  // After this no peer reaches the memory. False when the key is unknown or of another domain, or the peer could not be shut off.
  virtual bool invalidate(ProtectionDomain domain, Rkey key) = 0;
};

class MemoryTable final : public MemoryRegistry {
 public:
  MemoryTable(uint32_t region_max, RandomSource& random);

  // Exposes `memory`, which must outlive the registration. The remote address of its first byte is address_of(key).
  // kNoResources when region_max regions are registered.
  [[nodiscard]] Result<Rkey> register_region(ProtectionDomain domain, MutableBytes memory, RemoteAccess access);
  [[nodiscard]] uint64_t address_of(Rkey key) const;  // 0 when unknown
  // Both at once.
  [[nodiscard]] Result<RemoteRegion> expose(ProtectionDomain domain, MutableBytes memory, RemoteAccess access) override;
  bool invalidate(ProtectionDomain domain, Rkey key) override;
  // Invalidates every key of the domain; returns how many there were.
  uint32_t invalidate_all(ProtectionDomain domain);
  // The bytes [address, address + length) if `key` of `domain` grants `access` to all of them; else why not. The check
  // cannot overflow for any address and length. length 0 is the caller's business (the key is not looked at, IBA 9.7.5).
  [[nodiscard]] Result<MutableBytes, MemoryFault> resolve(ProtectionDomain domain, Rkey key, uint64_t address, uint64_t length,
                                                          RemoteAccess access) const;
  [[nodiscard]] uint32_t region_count() const { return region_count_; }
  // Whether some key opens any of these bytes. Looks at every slot: for checks, not for the life of a call.
  [[nodiscard]] bool exposes(Bytes memory) const;

 private:
  struct Region {
    uint32_t key = 0;  // 0 = the slot is empty; never given out
    RemoteAccess access = RemoteAccess::kNone;
    ProtectionDomain domain;
    uint64_t address = 0;
    MutableBytes memory;
  };
  [[nodiscard]] uint32_t home_of(uint32_t key) const { return key & mask_; }
  // The key's slot, or the empty one where it would go. Ends because at least half of the slots are empty.
  [[nodiscard]] uint32_t slot_of(uint32_t key) const;
  [[nodiscard]] const Region* find(ProtectionDomain domain, Rkey key) const;
  void erase(uint32_t slot);

  std::unique_ptr<Region[]> slots_;  // mask_ + 1 of them
  uint32_t mask_;
  uint32_t region_count_ = 0;
  uint32_t region_max_;
  RandomSource& random_;
};

}  // namespace cw::verbs
