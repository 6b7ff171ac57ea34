// Something out of the ordinary that happened on a wire, as its transport remembers it (causewayctl trace).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/ip_address.h"
#include "base/time.h"
#include "verbs/ids.h"

namespace cw::verbs {

struct TransportEvent {
  Instant at;     // of the last of those that this entry counts
  Instant first;  // of the first
  // Whom it is about: a queue pair, which may be gone, or where these have no numbers the peer.
  Qpn local_qpn;  // 0: none
  IpAddress peer;
  uint16_t peer_port = 0;  // 0: `peer` is not known
  uint32_t sequence = 0;   // RoCE: PSN; iWARP: MSN
  uint32_t count = 0;
  // Alive as long as the process.
  std::string_view event;   // a word for filters: ack_timeout, terminate_sent ...
  std::string_view reason;  // for people; empty: the event says it all
};

}  // namespace cw::verbs
