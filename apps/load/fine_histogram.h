// Latencies of a load: a bucket is at most 1.6 % wide, from 256 ns on, and any percentile within 0.8 % of the truth. The
// histogram of what runs in production takes an eighth of the memory: enough to watch a gateway, too coarse to compare two. 14
// KB, of which a load touches a few lines.
#pragma once

#include "base/histogram.h"

namespace cw::load {

using FineHistogram = LogLinearHistogram<6, 8>;

}  // namespace cw::load
