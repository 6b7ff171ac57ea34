// Which verbs listeners no client can reach, and why: by what the kernel says of RDMA devices now, and by what rdma-core's
// listeners are bound to. Pure.
#pragma once

#include <span>
#include <vector>

#include "telemetry/collector.h"
#include "telemetry/core_snapshot.h"
#include "telemetry/health.h"
#include "telemetry/rdma_port_metrics.h"

namespace cw::telemetry {

// `known` may lack a listener: it is not listened on yet. `ports`: rdma_port_states() of the listeners' devices.
[[nodiscard]] std::vector<CutOff> cut_off_listeners(std::span<const ListenerLimits> listeners,
                                                    std::span<const VerbsListener> known, std::span<const RdmaPortState> ports);

}  // namespace cw::telemetry
