// What the connection manager tells its user. Every connection that was announced (ConnectRequest) or asked for (connect()) ends
// with exactly one of Rejected, Disconnected or ConnectFailed, after which its id is dead; the one exception is a connection that
// the user refused by reject(), which ends with that call.
//
//   passive: ConnectRequest -> accept() -> Established -> Disconnected        or ConnectFailed / Rejected before Established
//   active:  connect() -> ConnectReply -> ready() -> Disconnected              or ConnectFailed / Rejected before ready()
//
// A later event of a connection replaces an earlier one that was not yet polled: a user may see an ending without Established,
// or no event at all of a request that ended before it was polled.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "base/strong_id.h"
#include "base/time.h"
#include "control/cm/cm_address.h"
#include "control/cm/ip_cm.h"
#include "control/cm/path_mtu.h"
#include "control/cm/private_data.h"
#include "control/cm/reject_reason.h"
#include "control/cm/service_id.h"
#include "rocev2/wire/psn.h"
#include "verbs/ids.h"

namespace cw::cm {

// Slot and generation: never reused while the process lives.
struct ConnectionIdTag {};
using ConnectionId = StrongId<ConnectionIdTag, uint64_t>;

// Passive side: a peer wants in. All of it is what the peer claims, checked for form, path and limits, not for truth.
struct ConnectRequest {
  ServiceId service;
  verbs::Qpn remote_qpn;
  // Where our own requests have to start: a Starting PSN on the wire is what its sender expects to *receive* first, although the
  // name suggests the opposite. Seen in every capture of a Linux peer.
  wire::Psn first_send_psn;
  PathMtu path_mtu = PathMtu::k1024;
  uint8_t peer_responder_resources = 0;  // READs and atomics the peer takes from us at a time: the bound of our initiator depth
  uint8_t peer_initiator_depth = 0;      // READs and atomics the peer would like to send us at a time
  uint8_t retry_count = 0;               // 3 bits: time-out retries our requester shall use
  uint8_t rnr_retry_count = 0;           // 3 bits, 7 = for ever
  uint8_t ack_timeout_code = 0;          // 5 bits, timeout_of(): what our requester shall wait for an ACK; 0 = for ever
  bool end_to_end_flow_control = false;  // AETH credits
  bool shared_receive_queue = false;     // the peer's receive queue is shared: it gives no credits
  uint8_t traffic_class = 0;             // of the path, for our packets too
  uint8_t hop_limit = 0;
  uint32_t flow_label = 0;  // 20 bits
  uint16_t pkey = 0;
  uint64_t remote_ca_guid = 0;
  // An established connection to the same address and QPN. It ends, superseded, when this one is established: the peer has
  // restarted, unless somebody pretends to be the peer, who then cannot finish the handshake.
  std::optional<ConnectionId> rival;
  bool has_ip_cm = false;    // the service is an RDMA IP CM one: `ip_cm` holds the addresses and source port
  IpCmHeader ip_cm;          // its addresses have been found equal to those of the packet
  PrivateData private_data;  // behind the IP CM header: 56 bytes, or 92 without one
};

// Passive side: the peer's RTU, or its first packet on the queue pair, has arrived.
struct Established {
  bool by_data = false;  // the RTU was lost or late; the queue pair told
};

// Active side: the peer accepts. The queue pair has to be made ready, then ready() called.
struct ConnectReply {
  verbs::Qpn remote_qpn;
  wire::Psn first_send_psn;  // as in ConnectRequest
  uint8_t peer_responder_resources = 0;
  uint8_t peer_initiator_depth = 0;
  uint8_t rnr_retry_count = 0;
  uint8_t target_ack_delay_code = 0;  // timeout_of(): to be added to the ACK time-out
  bool end_to_end_flow_control = false;
  bool shared_receive_queue = false;
  uint64_t remote_ca_guid = 0;
  PrivateData private_data;  // 196 bytes
};

// The peer refused, before the connection was established.
struct Rejected {
  RejectReason reason = RejectReason::kConsumerDefined;  // may be a code outside the enumeration
  PrivateData private_data;                              // 148 bytes
};

enum class DisconnectCause : uint8_t {
  kRemoteRequest,    // the peer's DREQ
  kLocalRequest,     // disconnect(), and the peer answered or had not been told yet
  kLocalUnanswered,  // disconnect(), and nobody answered our DREQs
  kRejected,         // REJ after the connection was established: the peer never saw our RTU, or has lost its state
  kSuperseded,       // the same remote address and QPN asks anew: the peer restarted and has forgotten this connection
};
[[nodiscard]] const char* to_string(DisconnectCause cause) noexcept;

struct Disconnected {
  DisconnectCause cause = DisconnectCause::kRemoteRequest;
  [[nodiscard]] constexpr bool by_peer() const {
    return cause != DisconnectCause::kLocalRequest && cause != DisconnectCause::kLocalUnanswered;
  }
};

enum class ConnectFailure : uint8_t {
  kNoAnswer,    // REQ or REP was sent as often as allowed and nothing came back
  kNoDecision,  // the user neither accepted nor rejected (passive), or never called ready() (active), in time
  kSuperseded,  // the peer started anew before this attempt was through
  kEvicted,     // passive: too many are half open, and a newer request needed the room
};
[[nodiscard]] const char* to_string(ConnectFailure failure) noexcept;

struct ConnectFailed {
  ConnectFailure failure = ConnectFailure::kNoAnswer;
};

struct CmEvent {
  using Detail = std::variant<ConnectRequest, Established, ConnectReply, Rejected, Disconnected, ConnectFailed>;
  ConnectionId connection;
  CmAddress address;  // the connection's path
  Detail detail;

  template <typename T>
  [[nodiscard]] const T* as() const {
    return std::get_if<T>(&detail);
  }
};

}  // namespace cw::cm
