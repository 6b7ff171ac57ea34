// Decorators that stand on the cable of a peer and break a rule in its name: the stack behind them is an honest one.
#pragma once

#include <optional>

#include "rocev2/wire/opcode.h"
#include "tests/sim/link/link.h"

namespace cw::sim {

// Packets of one kind are held back for `by`, and overtaken by the others; without it, for good.
class Withhold final : public Decorator {
 public:
  Withhold(std::unique_ptr<Link> inner, const Window& window, wire::OpcodeKind kind, std::optional<Duration> by)
      : Decorator(std::move(inner), window, 0), kind_(kind), by_(by) {}

 protected:
  void act(Instant now, Transit&& frame) override;

 private:
  wire::OpcodeKind kind_;
  std::optional<Duration> by_;
};

// Changes one word of the RPC-over-RDMA header of some SENDs, and makes the iCRC right again.
class Garble final : public Decorator {
 public:
  Garble(std::unique_ptr<Link> inner, const Window& window, uint64_t seed, uint32_t permille)
      : Decorator(std::move(inner), window, seed), permille_(permille) {}

 protected:
  void act(Instant now, Transit&& frame) override;

 private:
  uint32_t permille_;
};

}  // namespace cw::sim
