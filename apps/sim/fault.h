// Everything that can go wrong in a simulation, as data: what, where, from when until when, how much. A scenario's faults are a
// list of these; the shrinker takes some out and makes others shorter, and every other fault stays what it was.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "apps/sim/link/link.h"

namespace cw::sim {

enum class FaultKind : uint8_t {
  // Of a client's cable, one or both ways
  kLoss,
  kBurstLoss,
  kDuplicate,
  kReorder,
  kJitter,
  kDelay,
  kCorrupt,
  kTruncate,
  kClog,
  kEcnMark,
  kMtu,
  kBottleneck,
  kPartition,
  // Of processes: killed at `from`, started again at `until` with nothing of what they knew
  kKillGateway,
  kKillClient,
  // The gateway shuts down in order at `from` and starts again when it is quiet, but not before `until`
  kDrainGateway,
  // The gateway hands its connections over to the next process, from `from` on. It is gone when none is left, at `until` at the
  // latest, and then the next one is there
  kHandOverGateway,
  // The client disconnects one connection at `from`, and opens another
  kDisconnect,
  // The gateway gets another configuration at `from`, drawn from the fault's seed, and its first one again at `until`
  kReload,
  // A process does not run from `from` until `until`; frames wait in its port's queue
  kPauseGateway,
  kPauseClient,
  // A host's clock goes forward by `time` at `from`
  kClockJumpGateway,
  kClockJumpClient,
  // Of the gateway's packet pool: `amount` Buffers are missing
  kStarvePackets,
  // Of the server behind the gateway
  kBackendRefuses,
  kBackendCloses,
  kBackendSlow,
  kBackendSilent,
  kBackendNonsense,
  // Of the TCP connections of a client, one or both ways (tcp.h)
  kStreamReset,
  kStreamHalfClose,
  kStreamStall,
  kStreamTiny,
  kStreamJitter,
  kStreamWindow,
  kConnectRefused,
  kConnectIgnored,
  kCount,
};
inline constexpr uint32_t kFaultKindCount = static_cast<uint32_t>(FaultKind::kCount);
// Without those of streams, which stand last.
inline constexpr uint32_t kRoceFaultKindCount = static_cast<uint32_t>(FaultKind::kStreamReset);
[[nodiscard]] const char* to_string(FaultKind kind) noexcept;
[[nodiscard]] bool is_link_fault(FaultKind kind) noexcept;
[[nodiscard]] bool is_stream_fault(FaultKind kind) noexcept;

enum class Direction : uint8_t { kBoth, kToGateway, kToClient };

struct Fault {
  FaultKind kind = FaultKind::kLoss;
  uint32_t client = 0;  // whose cable or process; the gateway's and the backend's faults have none
  Direction direction = Direction::kBoth;
  Duration from;  // since the start
  Duration until;
  // With at_frame > 0, `from` is when so many frames or segments have arrived, and `until` counts from there. kStreamReset,
  // kStreamHalfClose: the byte of its direction before which a stream is cut, counted over all streams of the client; the first
  // is 1.
  uint64_t at_frame = 0;
  // 1/1000 for what happens to some frames or segments; bytes for kMtu, kStreamWindow; of the queue for kBottleneck; Buffers for
  // kStarvePackets.
  uint32_t amount = 0;
  // By how much: kJitter, kStreamJitter, kDelay, kReorder, kDuplicate, kClockJump*, kBackendSlow; 1500 bytes: kBottleneck.
  Duration time;
  uint64_t seed = 0;  // of its own draws
};

// One line: kind, place, times, parameters.
[[nodiscard]] std::string describe(const Fault& fault);

// The stack with a decorator for the fault on top. Precondition: is_link_fault(fault.kind).
[[nodiscard]] std::unique_ptr<Link> decorate(std::unique_ptr<Link> inner, const Fault& fault, Instant start);

}  // namespace cw::sim
