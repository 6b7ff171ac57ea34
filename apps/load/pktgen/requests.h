// A flood of connection requests: CM REQs from many addresses, each for a connection of its own.
#pragma once

#include "apps/load/pktgen/profile.h"
#include "control/cm/wire/req.h"

namespace cw::pktgen {

struct RequestOptions {
  uint32_t count = 1000;   // 1..1000000 REQs
  uint32_t sources = 200;  // 1..65536 addresses, counted up from the generator's own
};

// Each REQ is right in every respect, with a communication id, queue pair and UDP source port that no other has (ports come
// round after 16384).
[[nodiscard]] Profile make_requests(const Target& target, const RequestOptions& options);

// A REQ that a listener on the target's service port would serve.
[[nodiscard]] cm::Req request_from(const Target& target, uint32_t comm_id, verbs::Qpn qpn, wire::Psn psn);

}  // namespace cw::pktgen
