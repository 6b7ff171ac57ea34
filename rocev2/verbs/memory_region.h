// Registered memory of the client role: what a peer may read or write by rkey. The server role registers nothing (design
// decision 1). Keys are random 32-bit values, live for one use when the caller wants so, and belong to one protection domain:
// a key shown to one connection opens nothing on another.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>

#include "rocev2/base/bytes.h"
#include "rocev2/base/random.h"
#include "rocev2/base/result.h"
#include "rocev2/verbs/ids.h"

namespace cw::verbs {

struct ProtectionDomainTag {};
using ProtectionDomain = StrongId<ProtectionDomainTag, uint32_t>;

// ibv_access_flags, remote part.
enum class RemoteAccess : uint8_t { kNone = 0, kRead = 1, kWrite = 2, kReadWrite = 3 };

class MemoryTable {
 public:
  MemoryTable(uint32_t region_max, RandomSource& random);

  // Exposes `memory`, which must outlive the registration. The remote address of its first octet is address_of(key).
  // kNoResources when region_max regions are registered.
  [[nodiscard]] Result<Rkey> register_region(ProtectionDomain domain, MutableBytes memory, RemoteAccess access);
  [[nodiscard]] uint64_t address_of(Rkey key) const;  // 0 when unknown
  // After this no packet reaches the memory. False when the key is unknown or of another domain.
  bool invalidate(ProtectionDomain domain, Rkey key);
  // Invalidates every key of the domain; returns how many there were.
  uint32_t invalidate_all(ProtectionDomain domain);
  // The octets [address, address + length) if `key` of `domain` grants `access` to all of them; else an empty Result. The check
  // cannot overflow for any address and length. length 0 is the caller's business (the key is not looked at, IBA 9.7.5).
  [[nodiscard]] Result<MutableBytes> resolve(ProtectionDomain domain, Rkey key, uint64_t address, uint64_t length,
                                             RemoteAccess access) const;
  [[nodiscard]] uint32_t region_count() const { return static_cast<uint32_t>(regions_.size()); }

 private:
  struct Region {
    ProtectionDomain domain;
    RemoteAccess access;
    uint64_t address;
    MutableBytes memory;
  };
  std::unordered_map<uint32_t, Region> regions_;
  uint32_t region_max_;
  RandomSource& random_;
};

}  // namespace cw::verbs
