// Where the time of calls goes, stage by stage: what the server side of RPC-over-RDMA sees of it.
//
// The stages of a call follow one another without gaps, so their sums add up to what its client waits for, but for the way there:
//   [kRdmaRead] kBackend (kRdmaWrite or kReplyAck)
// A call goes only through stages that it has; the number of records of a stage is the number of calls that went through it.
#pragma once

#include <array>
#include <cstdint>

#include "rocev2/base/histogram.h"
#include "rocev2/base/time.h"

namespace cw::rpcrdma {

enum class Stage : uint8_t {
  kRdmaRead,   // SEND of a call with Read chunks arrived until its data are pulled and in place
  kBackend,    // call complete until its reply is
  kRdmaWrite,  // reply with data in Write or Reply chunks complete until the client acknowledged all of it
  kReplyAck,   // other replies, the same; of these every 16th is looked at, since it costs a completion to know
  kCount,
};
inline constexpr uint32_t kStageCount = static_cast<uint32_t>(Stage::kCount);
[[nodiscard]] const char* to_string(Stage stage) noexcept;

struct StageDurations {
  std::array<Histogram, kStageCount> stages;

  void record(Stage stage, Duration duration) { stages[static_cast<uint32_t>(stage)].record(duration); }
};

}  // namespace cw::rpcrdma
