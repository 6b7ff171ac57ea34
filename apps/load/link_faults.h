// Faults of the link, made on our own side of it: frames are lost, doubled, overtaken or late, in either direction.
//
// The links of the simulation (apps/sim/link) between a port and its stack: bytes in, bytes out, in order of their time.
// Every frame is copied twice, so a load with faults says how the two ends recover, not how fast they are. Sans-I/O.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "apps/sim/link/link.h"
#include "apps/sim/link/wire.h"
#include "base/bytes.h"
#include "base/time.h"
#include "rocev2/wire/opcode.h"

namespace cw::load {

enum class FaultDirection : uint8_t { kBoth, kOut, kIn };

struct LinkFaultOptions {
  uint32_t loss_permille = 0;
  uint32_t duplicate_permille = 0;
  uint32_t reorder_permille = 0;  // held back by up to reorder_us, and overtaken
  uint32_t reorder_us = 100;
  uint32_t corrupt_permille = 0;  // one bit flipped
  uint32_t delay_us = 0;          // all frames
  uint32_t jitter_us = 0;         // on top, up to this; the order is kept
  FaultDirection direction = FaultDirection::kBoth;
  uint64_t seed = 1;
  // What a hostile peer does (hostile_peer.cc); causeway-load has no option for it. A while after its first frame our stack's
  // packets of this kind go nowhere.
  std::optional<wire::OpcodeKind> withheld;
  uint32_t withheld_after_ms = 1000;

  [[nodiscard]] bool any() const {
    return loss_permille + duplicate_permille + reorder_permille + corrupt_permille + delay_us + jitter_us > 0 || withheld;
  }
  [[nodiscard]] bool hits(FaultDirection one) const { return direction == FaultDirection::kBoth || direction == one; }
};

// One direction.
class FaultyWay {
 public:
  // `way`: ours, kOut or kIn.
  FaultyWay(const LinkFaultOptions& options, FaultDirection way, uint64_t seed);
  FaultyWay(const FaultyWay&) = delete;
  FaultyWay& operator=(const FaultyWay&) = delete;

  void push(Instant now, std::vector<uint8_t>&& frame);
  // Takes out the next frame that is due.
  [[nodiscard]] bool poll(Instant now, std::vector<uint8_t>& frame);
  [[nodiscard]] Instant next_at() const { return top_->next_at(); }

 private:
  sim::Flight flight_;
  std::unique_ptr<sim::Link> top_;
  std::optional<wire::OpcodeKind> to_withhold_;  // until the first frame says when
  Duration withhold_after_;
};

}  // namespace cw::load
