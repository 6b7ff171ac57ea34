// The words in which a transport and its user speak of connections: those of librdmacm, without what only one wire has.
//
//   passive: kConnectRequest -> accept() -> kEstablished -> kDisconnected
//   active:  connect() -> kConnectResponse -> establish() -> kDisconnected
//
// kRejected or kUnreachable come instead of kEstablished and kConnectResponse.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "base/ip_address.h"
#include "base/strong_id.h"
#include "verbs/memory_region.h"
#include "verbs/queue_pair.h"

namespace cw::verbs {

// A connection from its request, or connect(), to destroy(). Never used again while the process lives.
struct ConnectionIdTag {};
using ConnectionId = StrongId<ConnectionIdTag, uint64_t>;

enum class RejectReason : uint8_t {
  kNoListener,   // nobody listens at the port: a TCP reset
  kNoResources,  // try again later
  kRefused,      // the listener does not want this peer
  kNoAnswer,     // nobody has answered; only in events
  kOther,        // only in events: Rejection::name tells
};

// A word that logs and the wire can carry.
[[nodiscard]] std::string_view to_string(RejectReason reason) noexcept;

// Why a connection was not made. `name` is the wire's own word, alive as long as the process.
struct Rejection {
  RejectReason reason = RejectReason::kNoAnswer;
  std::string_view name = "timeout";
};

// Why an established connection is over.
enum class DisconnectCause : uint8_t {
  kPeer,       // it took leave, or started anew
  kTransport,  // reset, silent beyond the wire's limits, or without a way to it
};

// What the transport does for a connection; fixed before its user hears of it.
struct ConnectionLimits {
  // Bytes of a message that one packet carries at most. A message takes a receive buffer for each packet. RoCE: the path MTU.
  uint32_t packet_bytes = 1024;
  // Bytes of READs to post at a time: as many as the transport keeps in flight, and half as many again to follow them.
  uint64_t read_bytes_wanted = 0;
};

// READs outstanding at a time, as rdma_conn_param names them: seen from our side, whoever says it.
struct ReadDepths {
  uint16_t initiator_depth = 0;      // of ours, which the peer answers
  uint16_t responder_resources = 0;  // of the peer's, which we answer

  friend constexpr bool operator==(const ReadDepths&, const ReadDepths&) = default;
};
inline constexpr uint16_t kAnyDepth = UINT16_MAX;

struct ConnectionEvent {
  enum class Kind : uint8_t {
    kConnectRequest,   // a peer wants in: accept() or reject() before the next poll_event(). What it claims may be forged
    kConnectResponse,  // the peer accepts: establish() makes it final. Its queue pair can be used from here on
    kEstablished,      // the peer has proved that it has our answer
    kDisconnected,     // was established, and is over
    kRejected,         // the peer refused
    kUnreachable,      // nobody answered, or not in time
  };
  Kind kind = Kind::kUnreachable;
  ConnectionId connection;
  uint64_t context = 0;  // of accept() or connect()

  // kConnectRequest
  IpAddress peer;
  uint16_t peer_port = 0;
  uint16_t listener_port = 0;
  // The context of an established connection that ends when this one is established: the peer has restarted, or somebody
  // pretends to be the peer, and then cannot finish the handshake.
  std::optional<uint64_t> rival;
  // kConnectRequest, kConnectResponse and kRejected: what the peer's user says, valid until the next poll_event().
  Bytes private_data;
  // kConnectRequest and kConnectResponse: what the peer offers. kAnyDepth: its wire has not said.
  ReadDepths depths;
  // kConnectResponse
  QueuePair* queue_pair = nullptr;
  ConnectionLimits limits;
  // kRejected
  Rejection rejection;
  // kDisconnected
  DisconnectCause cause = DisconnectCause::kPeer;
};

inline constexpr uint32_t kPrivateDataMax = 32;  // bytes that every wire can carry beside its own

// What both sides decide about a connection of theirs.
struct ConnectionOptions {
  uint64_t context = 0;  // the user's own word, given back with events and by poll_ready()
  // Longest message that is taken, bytes. A longer one is the peer's error and ends the connection.
  uint32_t receive_bytes_max = 4096;
  Bytes private_data;  // at most kPrivateDataMax. The transport may put its own offer behind an RFC 8797 message
  // Bounds beside those of the peer and of the transport's own options.
  ReadDepths depths = {.initiator_depth = kAnyDepth, .responder_resources = kAnyDepth};
  // Memory of this domain may be read and written by the peer, where the transport has memory to expose: the gateway's has none.
  // RoCE and rnic/ expose it on the active side only, iWARP on either side.
  ProtectionDomain domain;
};

struct AcceptedConnection {
  QueuePair* queue_pair = nullptr;
  ConnectionLimits limits;
};

struct ResumedConnection {
  ConnectionId connection;
  QueuePair* queue_pair = nullptr;
  ConnectionLimits limits;
};

}  // namespace cw::verbs
