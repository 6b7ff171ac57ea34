// How long calls took, by procedure and by stage.
#pragma once

#include <array>
#include <cstdint>

#include "base/histogram.h"
#include "base/time.h"
#include "rpcrdma/endpoint/stage_durations.h"
#include "rpcrdma/ulb/procedures.h"

namespace cw::telemetry {

// Upper bounds of the exported buckets, 5 us .. 10 s; +Inf is the total count. Closest together where storage answers: 100 us to
// 2 ms. What is answered from memory takes 5 to 20 us.
inline constexpr std::array<Duration, 23> kExportedBounds = {
    Duration::us(5),    Duration::us(10),  Duration::us(20),   Duration::us(50),   Duration::us(100),  Duration::us(150),
    Duration::us(200),  Duration::us(300), Duration::us(500),  Duration::us(750),  Duration::us(1000), Duration::us(1500),
    Duration::us(2000), Duration::ms(5),   Duration::ms(10),   Duration::ms(20),   Duration::ms(50),   Duration::ms(100),
    Duration::ms(250),  Duration::ms(500), Duration::ms(1000), Duration::ms(2500), Duration::ms(10000)};

struct RpcDurations {
  // By rpcrdma::procedure_row(): from the SEND of the call being received until its reply was posted.
  std::array<Histogram, rpcrdma::kProcedureRows> calls;
  rpcrdma::StageDurations stages;
};

}  // namespace cw::telemetry
