// What poll cores give each other: frames that reached another core than the one they are for, packets for devices whose queue
// another core has, and what their gateways say to each other.
//
// A ring with one producer and one consumer for each pair of cores and each of the three, so that no core waits for another.
// What is in a ring belongs to the core that takes it out. Whoever gives wakes the others once per turn.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dataplane/value_ring.h"
#include "dataplane/wakeup.h"
#include "gateway/core_message.h"

namespace cw::dataplane {

class CoreExchange {
 public:
  struct Frame {
    rte_mbuf* mbuf = nullptr;
    uint32_t port = 0;
    uint32_t reserved = 0;
  };

  // `wakeups[i]` wakes core i.
  explicit CoreExchange(std::vector<Wakeup*> wakeups);
  // What nobody took is freed.
  ~CoreExchange();
  CoreExchange(const CoreExchange&) = delete;
  CoreExchange& operator=(const CoreExchange&) = delete;

  // By core `from`, for core `to`, another one. False when the ring is full: it stays the caller's.
  [[nodiscard]] bool give_received(uint32_t from, uint32_t to, const Frame& frame);
  [[nodiscard]] bool give_to_send(uint32_t from, uint32_t to, const Frame& frame);
  [[nodiscard]] bool give_message(uint32_t from, uint32_t to, const gateway::CoreMessage& message);
  // By core `from`, at the end of its turn: wakes those that it gave something.
  void kick(uint32_t from);

  // By core `to`: from each other core in turn.
  [[nodiscard]] uint32_t take_received(uint32_t to, uint32_t from, std::span<Frame> out);
  [[nodiscard]] bool take_to_send(uint32_t to, uint32_t from, Frame& out);
  [[nodiscard]] bool take_message(uint32_t to, uint32_t from, gateway::CoreMessage& out);
  [[nodiscard]] bool has_input(uint32_t to) const;

  [[nodiscard]] uint32_t cores() const { return static_cast<uint32_t>(wakeups_.size()); }

 private:
  struct Pair {
    Pair();
    ValueRing<Frame> received;
    ValueRing<Frame> to_send;
    ValueRing<gateway::CoreMessage> messages;
  };
  // Of the giving core alone.
  struct alignas(RTE_CACHE_LINE_SIZE) Giver {
    std::vector<bool> touched;
  };
  [[nodiscard]] Pair& pair(uint32_t from, uint32_t to) { return *pairs_[from * cores() + to]; }

  std::vector<Wakeup*> wakeups_;
  std::vector<std::unique_ptr<Pair>> pairs_;  // nullptr from a core to itself
  std::vector<Giver> givers_;
};

}  // namespace cw::dataplane
