// Where the time of calls goes, stage by stage: what the server side of RPC-over-RDMA sees of it.
//
// The stages of a call follow one another without gaps, so their sums add up to what its client waits for, but for the way there:
//   [kRx] [kRdmaRead] kBackend (kRdmaWrite or kReplyAck)
// A call goes only through stages that it has; the number of records of a stage is the number of calls that went through it.
#pragma once

#include <array>
#include <cstdint>

#include "base/histogram.h"
#include "base/time.h"

namespace cw::rpcrdma {

enum class Stage : uint8_t {
  // First packet of the SEND arrived until the owner took the call up, without kRdmaRead: the rest of the SEND arriving, and
  // what the call waited for here: a slot, its share of a client's bytes, buffers to pull into, room on the way to a backend.
  // Only calls that took longer than the turn of the core that their first packet came in: others would be zero.
  kRx,
  kRdmaRead,   // buffers for the data of Read chunks are reserved until the data are pulled and in place
  kBackend,    // call taken up by the owner until its reply is
  kRdmaWrite,  // reply with data in Write or Reply chunks complete until the client acknowledged all of it
  kReplyAck,   // other replies, the same; of these every 16th is looked at, since it costs a completion to know
  kCount,
};
inline constexpr uint32_t kStageCount = static_cast<uint32_t>(Stage::kCount);
[[nodiscard]] const char* to_string(Stage stage) noexcept;

struct StageDurations {
  std::array<Histogram, kStageCount> stages;

  // Of so many calls.
  void record(Stage stage, Duration duration, uint64_t count = 1) {
    stages[static_cast<uint32_t>(stage)].record(duration, count);
  }
};

}  // namespace cw::rpcrdma
