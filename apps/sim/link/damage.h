// Decorators that change what is in a frame.
#pragma once

#include "apps/sim/link/link.h"

namespace cw::sim {

// Sets Congestion Experienced on an ECN-capable IPv4 or IPv6 packet, tagged or not, as a router does (RFC 3168 5). False when it
// is not capable or not IP.
bool mark_congestion(std::vector<uint8_t>& frame);

// Flips one bit behind the Ethernet header. What no iCRC guards (the link header, ARP, neighbour discovery) is guarded by the
// Ethernet checksum: a frame without UDP that is hit is lost.
class Corrupt final : public Decorator {
 public:
  Corrupt(std::unique_ptr<Link> inner, const Window& window, uint64_t seed, uint32_t permille)
      : Decorator(std::move(inner), window, seed), permille_(permille) {}

 protected:
  void act(Instant now, Transit&& frame) override;

 private:
  uint32_t permille_;
};

// Cuts the end off.
class Truncate final : public Decorator {
 public:
  Truncate(std::unique_ptr<Link> inner, const Window& window, uint64_t seed, uint32_t permille)
      : Decorator(std::move(inner), window, seed), permille_(permille) {}

 protected:
  void act(Instant now, Transit&& frame) override;

 private:
  uint32_t permille_;
};

class EcnMark final : public Decorator {
 public:
  EcnMark(std::unique_ptr<Link> inner, const Window& window, uint64_t seed, uint32_t permille)
      : Decorator(std::move(inner), window, seed), permille_(permille) {}

 protected:
  void act(Instant now, Transit&& frame) override;

 private:
  uint32_t permille_;
};

}  // namespace cw::sim
