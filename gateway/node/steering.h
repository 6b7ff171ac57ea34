// Which poll core a frame belongs to, before anything else is known of it.
//
//   queue pair's packet     the core in its QPN
//   CM message              the core in the communication id of ours that it names
//   REQ                     one of the cores that take RoCE clients, by the client's address and QPN: repetitions, and what a
//                           reborn client sends with the QPN of a connection that it has forgotten, meet the connection that
//                           they are about. A client's next connections have the next QPNs, so that they spread evenly
//   everything else         core 0: ARP, neighbour discovery, ICMP, messages that name nobody
//
// Devices deal frames to receive queues by what they see: where their driver takes the rules of dataplane/dpdk/flow_rules.h, the
// core in the QPN, else as a rule the UDP ports. The core that a frame reaches may be another one, which hands it over. Nothing
// is proved here, and nothing is read behind the frame's end: of what makes no sense some core says why, and counts it.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/core_share.h"
#include "rocev2/rc/qpn_codec.h"

namespace cw::node {

class Steering {
 public:
  // `codec` is the endpoint's, the same on all cores. The first `roce_cores` of them, 1 or more, take new clients.
  Steering(const CoreShare& core, uint32_t roce_cores, const rc::QpnCodec& codec)
      : core_(core), roce_cores_(roce_cores), codec_(codec) {}

  // The index of the core, this one's own included.
  [[nodiscard]] uint32_t owner_of(Bytes frame) const;
  [[nodiscard]] const CoreShare& core() const { return core_; }

 private:
  [[nodiscard]] uint32_t owner_of_mad(Bytes mad, Bytes source) const;

  CoreShare core_;
  uint32_t roce_cores_;
  rc::QpnCodec codec_;
};

}  // namespace cw::node
