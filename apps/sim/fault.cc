#include "apps/sim/fault.h"

#include <cinttypes>
#include <cstdio>

#include "apps/sim/link/damage.h"
#include "apps/sim/link/losses.h"
#include "apps/sim/link/timing.h"
#include "base/assert.h"

namespace cw::sim {
namespace {

constexpr uint32_t kBurstFrames = 6;

bool has_client(FaultKind kind) {
  return is_link_fault(kind) || is_stream_fault(kind) || kind == FaultKind::kKillClient || kind == FaultKind::kDisconnect ||
         kind == FaultKind::kPauseClient || kind == FaultKind::kClockJumpClient;
}

const char* arrow(Direction direction) {
  switch (direction) {
    case Direction::kBoth:
      return "<->";
    case Direction::kToGateway:
      return "-->";
    case Direction::kToClient:
      return "<--";
  }
  return "?";
}

}  // namespace

const char* to_string(FaultKind kind) noexcept {
  switch (kind) {
    case FaultKind::kLoss:
      return "loss";
    case FaultKind::kBurstLoss:
      return "burst_loss";
    case FaultKind::kDuplicate:
      return "duplicate";
    case FaultKind::kReorder:
      return "reorder";
    case FaultKind::kJitter:
      return "jitter";
    case FaultKind::kDelay:
      return "delay";
    case FaultKind::kCorrupt:
      return "corrupt";
    case FaultKind::kTruncate:
      return "truncate";
    case FaultKind::kClog:
      return "clog";
    case FaultKind::kEcnMark:
      return "ecn_mark";
    case FaultKind::kMtu:
      return "mtu";
    case FaultKind::kBottleneck:
      return "bottleneck";
    case FaultKind::kPartition:
      return "partition";
    case FaultKind::kKillGateway:
      return "kill_gateway";
    case FaultKind::kKillClient:
      return "kill_client";
    case FaultKind::kDrainGateway:
      return "drain_gateway";
    case FaultKind::kHandOverGateway:
      return "hand_over_gateway";
    case FaultKind::kDisconnect:
      return "disconnect";
    case FaultKind::kReload:
      return "reload";
    case FaultKind::kPauseGateway:
      return "pause_gateway";
    case FaultKind::kPauseClient:
      return "pause_client";
    case FaultKind::kClockJumpGateway:
      return "clock_jump_gateway";
    case FaultKind::kClockJumpClient:
      return "clock_jump_client";
    case FaultKind::kStarvePackets:
      return "starve_packets";
    case FaultKind::kBackendRefuses:
      return "backend_refuses";
    case FaultKind::kBackendCloses:
      return "backend_closes";
    case FaultKind::kBackendSlow:
      return "backend_slow";
    case FaultKind::kBackendSilent:
      return "backend_silent";
    case FaultKind::kBackendNonsense:
      return "backend_nonsense";
    case FaultKind::kStreamReset:
      return "stream_reset";
    case FaultKind::kStreamHalfClose:
      return "stream_half_close";
    case FaultKind::kStreamStall:
      return "stream_stall";
    case FaultKind::kStreamTiny:
      return "stream_tiny";
    case FaultKind::kStreamJitter:
      return "stream_jitter";
    case FaultKind::kStreamWindow:
      return "stream_window";
    case FaultKind::kConnectRefused:
      return "connect_refused";
    case FaultKind::kConnectIgnored:
      return "connect_ignored";
    case FaultKind::kCount:
      break;
  }
  return "unknown";
}

bool is_link_fault(FaultKind kind) noexcept {
  return kind <= FaultKind::kPartition;
}

bool is_stream_fault(FaultKind kind) noexcept {
  return kind >= FaultKind::kStreamReset && kind < FaultKind::kCount;
}

std::string describe(const Fault& fault) {
  char text[200];
  int used = std::snprintf(text, sizeof(text), "%-18s ", to_string(fault.kind));
  std::string out(text, static_cast<size_t>(used));
  if (has_client(fault.kind)) {
    used = std::snprintf(text, sizeof(text), "client %" PRIu32 " %s ", fault.client,
                         is_link_fault(fault.kind) || is_stream_fault(fault.kind) ? arrow(fault.direction) : "");
    out.append(text, static_cast<size_t>(used));
  }
  if (fault.at_frame > 0) {
    used = std::snprintf(text, sizeof(text), "at %s %" PRIu64 " for %" PRId64 " us",
                         is_stream_fault(fault.kind) ? "byte" : "frame", fault.at_frame, fault.until.to_us());
  } else {
    used = std::snprintf(text, sizeof(text), "from %" PRId64 " us until %" PRId64 " us", fault.from.to_us(), fault.until.to_us());
  }
  out.append(text, static_cast<size_t>(used));
  if (fault.amount > 0) {
    used = std::snprintf(text, sizeof(text), ", amount %" PRIu32, fault.amount);
    out.append(text, static_cast<size_t>(used));
  }
  if (fault.time > Duration()) {
    used = std::snprintf(text, sizeof(text), ", time %" PRId64 " us", fault.time.to_us());
    out.append(text, static_cast<size_t>(used));
  }
  return out;
}

std::unique_ptr<Link> decorate(std::unique_ptr<Link> inner, const Fault& fault, Instant start) {
  const Window window{start + fault.from, start + fault.until};
  switch (fault.kind) {
    case FaultKind::kLoss:
      return std::make_unique<Loss>(std::move(inner), window, fault.seed, fault.amount);
    case FaultKind::kBurstLoss:
      return std::make_unique<BurstLoss>(std::move(inner), window, fault.seed, fault.amount, kBurstFrames);
    case FaultKind::kDuplicate:
      return std::make_unique<Duplicate>(std::move(inner), window, fault.seed, fault.amount, fault.time);
    case FaultKind::kReorder:
      return std::make_unique<Reorder>(std::move(inner), window, fault.seed, fault.amount, fault.time);
    case FaultKind::kJitter:
      return std::make_unique<Jitter>(std::move(inner), window, fault.seed, fault.time);
    case FaultKind::kDelay:
      return std::make_unique<Delay>(std::move(inner), window, fault.seed, fault.time);
    case FaultKind::kCorrupt:
      return std::make_unique<Corrupt>(std::move(inner), window, fault.seed, fault.amount);
    case FaultKind::kTruncate:
      return std::make_unique<Truncate>(std::move(inner), window, fault.seed, fault.amount);
    case FaultKind::kClog:
      return std::make_unique<Clog>(std::move(inner), window, fault.seed);
    case FaultKind::kEcnMark:
      return std::make_unique<EcnMark>(std::move(inner), window, fault.seed, fault.amount);
    case FaultKind::kMtu:
      return std::make_unique<MtuLimit>(std::move(inner), window, fault.seed, fault.amount);
    case FaultKind::kBottleneck: {
      const auto bits_per_second = static_cast<uint64_t>(int64_t{1500} * 8 * 1'000'000'000 / fault.time.to_ns());
      return std::make_unique<Bottleneck>(std::move(inner), window, fault.seed,
                                          Bottleneck::Options{.bits_per_second = bits_per_second, .queue_bytes = fault.amount});
    }
    case FaultKind::kPartition:
      return std::make_unique<Partition>(std::move(inner), window, fault.seed);
    default:
      break;
  }
  CW_ASSERT(false);  // the caller looked
}

}  // namespace cw::sim
