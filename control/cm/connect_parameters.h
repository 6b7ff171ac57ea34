// What the user of the connection manager decides when it accepts or opens a connection.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "control/cm/path_mtu.h"
#include "rocev2/wire/psn.h"
#include "verbs/ids.h"

namespace cw::cm {

// Passive side. The queue pair must be able to receive before accept() is called: the peer's data may overtake its RTU.
struct AcceptParameters {
  verbs::Qpn local_qpn;
  wire::Psn first_receive_psn;           // first PSN that we expect of the peer's requests: goes out as Starting PSN
  uint8_t our_responder_resources = 0;   // READs and atomics we take from the peer at a time; 0: we expose no memory
  uint8_t our_initiator_depth = 0;       // READs we will send at a time: at most the request's peer_responder_resources
  uint8_t target_ack_delay_code = 15;    // 5 bits, 4.096 us x 2^code: how long we may sit on an ACK; 15 = 134 ms
  uint8_t rnr_retry_count = 7;           // 3 bits: what the peer's requester shall use towards us; 7 = for ever
  bool end_to_end_flow_control = false;  // AETH credits
  bool shared_receive_queue = false;
  Bytes private_data;  // at most kRepPrivateDataSize bytes, copied
};

// Active side.
struct ConnectParameters {
  verbs::Qpn local_qpn;
  wire::Psn first_receive_psn;  // as above
  PathMtu path_mtu = PathMtu::k1024;
  uint8_t our_responder_resources = 0;  // READs and atomics we take from the peer at a time
  uint8_t our_initiator_depth = 0;
  uint8_t retry_count = 7;          // 3 bits: what the peer's requester shall use
  uint8_t rnr_retry_count = 7;      // 3 bits
  uint8_t ack_timeout_code = 16;    // 5 bits: what the peer's requester shall wait for our ACK; 16 = 268 ms
  uint8_t peer_response_code = 20;  // 5 bits: how fast we want the peer's CM to answer; 20 = 4.3 s
  uint8_t our_response_code = 20;   // 5 bits: how fast our CM answers
  uint8_t max_cm_retries = 15;      // 4 bits
  bool end_to_end_flow_control = false;
  bool shared_receive_queue = false;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 64;
  uint32_t flow_label = 0;   // 20 bits; RoCEv2 peers derive their UDP source port from it
  uint16_t source_port = 0;  // IP CM services only
  Bytes private_data;        // at most 56 bytes for an IP CM service, 92 for others; copied
};

}  // namespace cw::cm
