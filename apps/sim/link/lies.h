// Decorators that stand on the cable of a peer and break a rule in its name: the stack behind them is an honest one.
#pragma once

#include <map>
#include <optional>

#include "apps/sim/link/link.h"
#include "rocev2/wire/opcode.h"
#include "rocev2/wire/psn.h"

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

// The answer to one READ of each queue pair passes in `every`; the others wait for their turn.
class Drip final : public Decorator {
 public:
  Drip(std::unique_ptr<Link> inner, const Window& window, Duration every)
      : Decorator(std::move(inner), window, 0), every_(every) {}

 protected:
  void act(Instant now, Transit&& frame) override;

 private:
  struct Flow {
    Instant last;                         // when an answer begins to leave, the latest
    std::map<uint32_t, Instant> leaving;  // by PSN: a repetition does not come later than the first
  };

  Duration every_;
  std::map<uint32_t, Flow> flows_;  // by the queue pair that they go to
};

// Of each queue pair the first SEND in the window is lost, however often it is repeated.
class LeaveOut final : public Decorator {
 public:
  LeaveOut(std::unique_ptr<Link> inner, const Window& window) : Decorator(std::move(inner), window, 0) {}

 protected:
  void act(Instant now, Transit&& frame) override;

 private:
  std::map<uint32_t, wire::Psn> left_out_;  // by the queue pair that it goes to
};

// Of connections that end the gateway hears nothing: no DREQ, no DREP.
class NoGoodbye final : public Decorator {
 public:
  NoGoodbye(std::unique_ptr<Link> inner, const Window& window) : Decorator(std::move(inner), window, 0) {}

 protected:
  void act(Instant now, Transit&& frame) override;
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
