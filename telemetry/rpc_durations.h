// How long calls took, per program and procedure, and per stage. Program and procedure numbers come from the wire, so the table
// is closed: programs that have an upper-layer binding have a row per procedure, everything else shares the row "other". No peer
// can fill it.
#pragma once

#include <array>
#include <cstdint>

#include "base/histogram.h"
#include "base/time.h"
#include "rpcrdma/endpoint/stage_durations.h"

namespace cw::telemetry {

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

// Upper bounds of the exported buckets, 5 us .. 10 s; +Inf is the total count. Closest together where storage answers: 100 us to
// 2 ms. What is answered from memory takes 5 to 20 us.
inline constexpr std::array<Duration, 23> kExportedBounds = {
    Duration::us(5),    Duration::us(10),  Duration::us(20),   Duration::us(50),   Duration::us(100),  Duration::us(150),
    Duration::us(200),  Duration::us(300), Duration::us(500),  Duration::us(750),  Duration::us(1000), Duration::us(1500),
    Duration::us(2000), Duration::ms(5),   Duration::ms(10),   Duration::ms(20),   Duration::ms(50),   Duration::ms(100),
    Duration::ms(250),  Duration::ms(500), Duration::ms(1000), Duration::ms(2500), Duration::ms(10000)};

struct RpcDurations {
  std::array<Histogram, kRpcRowCount> calls;  // SEND of the call received until its reply was posted
  rpcrdma::StageDurations stages;

  void record_call(uint32_t program, uint32_t version, uint32_t procedure, Duration duration) {
    calls[rpc_row_of(program, version, procedure)].record(duration);
  }
};

}  // namespace cw::telemetry
