// How long calls took, per program and procedure, and per stage. Program and procedure numbers come from the wire, so the table
// is closed: programs that have an upper-layer binding have a row per procedure, everything else shares the row "other". No peer
// can fill it.
#pragma once

#include <array>
#include <cstdint>

#include "rocev2/base/time.h"
#include "telemetry/histogram.h"

namespace cw::telemetry {

// Where the time of a call goes.
enum class RpcStage : uint8_t {
  kRx,         // first packet of the call until its SEND is complete
  kRdmaRead,   // pulling Read chunks
  kBackend,    // call handed over until its reply is complete
  kRdmaWrite,  // pushing Write and Reply chunks
  kReplyAck,   // reply posted until the client acknowledged it
  kCount,
};
inline constexpr uint32_t kRpcStageCount = static_cast<uint32_t>(RpcStage::kCount);
[[nodiscard]] const char* to_string(RpcStage stage) noexcept;

struct RpcProcedureRow {
  const char* program;  // label values
  const char* procedure;
};

inline constexpr uint32_t kNfs3Procedures = 22;  // RFC 1813: NULL .. COMMIT
inline constexpr uint32_t kNfs4Procedures = 2;   // RFC 7530: NULL, COMPOUND
inline constexpr uint32_t kBenchProcedures = 4;  // rpcrdma::BenchProcedure
inline constexpr uint32_t kRpcRowCount = kNfs3Procedures + kNfs4Procedures + kBenchProcedures + 1;
inline constexpr uint32_t kRpcRowOther = kRpcRowCount - 1;

// The row of a call, from three numbers of its header that may be anything. O(1).
[[nodiscard]] uint32_t rpc_row_of(uint32_t program, uint32_t version, uint32_t procedure);
// Precondition: row < kRpcRowCount.
[[nodiscard]] const RpcProcedureRow& rpc_row(uint32_t row);

struct RpcDurations {
  std::array<Histogram, kRpcRowCount> calls;  // SEND of the call received until its reply was posted
  std::array<Histogram, kRpcStageCount> stages;

  void record_call(uint32_t program, uint32_t version, uint32_t procedure, Duration duration) {
    calls[rpc_row_of(program, version, procedure)].record(duration);
  }
  void record_stage(RpcStage stage, Duration duration) { stages[static_cast<uint32_t>(stage)].record(duration); }
};

}  // namespace cw::telemetry
