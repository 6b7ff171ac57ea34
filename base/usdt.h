// The USDT probes of this program, for bpftrace, perf and gdb (scripts: deploy/bpftrace). While nobody watches, each costs a load
// and a branch.
//
//   causeway:transport_event   wire, event, reason, number of the queue pair (0: none), address and port of the peer ("": not
//                              known), sequence: what a transport notes in its log, as it happens
//   causeway:call_done         client, program, procedure, nanoseconds from the SEND of the call to the post of its reply
//
// Arguments in this order, numbers and sequences as such, all else as strings. Tools of BPF pass six at most.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/ip_address.h"

// Who watches adds to it. Names, type and section are those that SystemTap and the tools of BPF look for.
extern "C" {
extern volatile uint16_t causeway_transport_event_semaphore;
extern volatile uint16_t causeway_call_done_semaphore;
}

namespace cw::usdt {

struct TransportEvent {
  std::string_view wire;
  std::string_view event;
  std::string_view reason;
  uint32_t local_qpn = 0;
  IpAddress peer;
  uint16_t peer_port = 0;  // 0: the peer is not known
  uint32_t sequence = 0;
};
[[nodiscard]] inline bool watches_transport_events() {
  return causeway_transport_event_semaphore != 0;
}
void fire(const TransportEvent& event);

struct CallDone {
  IpAddress client;
  std::string_view program;
  std::string_view procedure;
  int64_t ns = 0;
};
[[nodiscard]] inline bool watches_calls() {
  return causeway_call_done_semaphore != 0;
}
void fire(const CallDone& call);

}  // namespace cw::usdt
