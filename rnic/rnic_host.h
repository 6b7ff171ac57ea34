// What the transport on RNICs asks of rdma-core: the real one (dataplane/rnic), or a test's. The host does what it is asked to
// and no more; what happens it tells by the functions on_...() of RnicTransport. Memory is named by its addresses: the host
// knows what it has registered, and no number of rdma-core's is seen here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/bytes.h"
#include "base/ip_address.h"
#include "base/result.h"
#include "base/strong_id.h"
#include "base/time.h"
#include "rnic/rnic_error.h"
#include "verbs/completion.h"
#include "verbs/ids.h"
#include "verbs/memory_region.h"

namespace cw::rnic {

// A connection, from on_request() or resolve_address() to release(). Never used again while the process lives.
struct RnicIdTag {};
using RnicId = StrongId<RnicIdTag, uint64_t>;

// A peer wants in.
struct RnicRequest {
  IpAddress peer;
  uint16_t peer_port = 0;
  uint16_t listener_port = 0;
  Bytes private_data;
  // READs of ours at a time that the peer answers, and of these the device has room for.
  uint16_t reads_max = 0;
};

// What we ask a server for.
struct RnicCall {
  // At a time, within what the device has room for: READs of ours, and of the server's.
  uint16_t reads_max = 0;
  uint16_t reads_of_peer_max = 0;
  Bytes private_data;
};

// The server takes us.
struct RnicResponse {
  Bytes private_data;
  // At a time: READs of ours that it answers, and READs of its own.
  uint16_t reads_max = 0;
  uint16_t reads_of_peer_max = 0;
};

struct QueuePairWish {
  uint32_t send_requests = 0;     // work requests of the send queue
  uint32_t receive_requests = 0;  // of the receive queue
  uint32_t receive_pieces = 1;    // that one receive needs
  uint32_t inline_bytes = 0;
  bool exposes = false;  // the peer may read and write what is registered for it
};

// What the device has given: pieces are those of one work request.
struct QueuePairMade {
  verbs::Qpn number;
  uint32_t send_requests = 0;
  uint32_t receive_requests = 0;
  uint32_t send_pieces = 1;
  uint32_t read_pieces = 1;
  uint32_t receive_pieces = 1;
  uint32_t inline_bytes = 0;
  bool can_invalidate = false;  // SEND with Invalidate
  // A WRITE that is done has reached the peer. Of iWARP it has reached the own TCP, and that only if it was signaled itself: siw
  // gives TCP the pages of others (siw_qp_prepare_tx, zcopy_tx), which are sent later, and again, as they are then.
  bool acknowledges_writes = true;
};

enum class WorkVerb : uint8_t { kSend, kSendWithInvalidate, kWrite, kRead };

// One work request of the send queue. `id` comes back with its completion. Without pieces it moves no data.
struct SendWork {
  uint64_t id = 0;
  WorkVerb verb = WorkVerb::kSend;
  bool signaled = false;
  bool solicited = false;
  bool fence = false;
  bool is_inline = false;
  std::span<const MutableBytes> pieces;
  verbs::Rkey rkey;             // kWrite, kRead: of the peer's memory; kSendWithInvalidate: what is invalidated
  uint64_t remote_address = 0;  // kWrite, kRead
};

struct ReceiveWork {
  uint64_t id = 0;
  std::span<const MutableBytes> pieces;
};

// A work completion.
struct WorkDone {
  uint64_t id = 0;
  verbs::WcStatus status = verbs::WcStatus::kSuccess;
  uint32_t bytes = 0;  // receives
  std::optional<verbs::Rkey> invalidated;
  std::optional<uint32_t> immediate;
};

// Memory that a peer may reach.
struct DeviceRegion {
  verbs::RemoteRegion remote;
  uint64_t handle = 0;  // the host's own word
};

// Whether a peer may reach memory of ours: the access flags that the device says the queue pair has.
enum class Exposure : uint8_t {
  kUnknown,  // the device does not say
  kNone,
  kExposed,
};
[[nodiscard]] std::string_view to_string(Exposure exposure) noexcept;

// What the device says of a queue pair (ibv_query_qp).
struct QueuePairState {
  std::string_view state;  // RESET, INIT, RTR, RTS, SQD, SQE, ERROR; alive as long as the process
  uint32_t access_flags = 0;
  verbs::Qpn remote;
  uint32_t path_mtu = 0;
  uint32_t send_psn = 0;
  uint32_t receive_psn = 0;
  uint8_t reads_max = 0;
  uint8_t timeout = 0;  // 4.096 us x 2^n; 0: none
  uint8_t retries_max = 0;
  uint8_t rnr_retries_max = 0;
};

class RnicHost {
 public:
  virtual ~RnicHost() = default;

  // Listening twice is fine. kLimit: too many ports. kNoResources: the port is taken, or rdma-core or the device is not there.
  [[nodiscard]] virtual Status listen(uint16_t port) = 0;
  virtual void unlisten(uint16_t port) = 0;

  // Active. Each looks for an answer, which comes later: on_address_resolved(), on_route_resolved(), or on_not_connected(). The
  // first finds the device, too. kBadValue: there is no way to that address. kNoResources: rdma-core is not there.
  [[nodiscard]] virtual Status resolve_address(RnicId connection, const IpAddress& server, uint16_t port, Duration patience) = 0;
  [[nodiscard]] virtual ConnectFailure resolve_route(RnicId connection, Duration patience) = 0;
  // Behind make_queue_pair(): asks the server. on_connected(), on_rejected() or on_not_connected() is the answer.
  [[nodiscard]] virtual ConnectFailure connect(RnicId connection, const RnicCall& call) = 0;
  // Behind on_connected(): the queue pair is ready to send. False: it cannot be.
  [[nodiscard]] virtual bool make_ready(RnicId connection, uint16_t reads_max) = 0;
  // Says to the server that it may send. False: that cannot be said.
  [[nodiscard]] virtual bool establish(RnicId connection) = 0;

  // A queue pair that takes receives and no more. It gives the peer access to nothing in any state, unless that is wished.
  // kNoResources: the device has none, or no room for the completions.
  [[nodiscard]] virtual Result<QueuePairMade> make_queue_pair(RnicId connection, const QueuePairWish& wish) = 0;
  // Ready to send, and says so to the peer: on_established() or one of the others is the answer, later.
  [[nodiscard]] virtual Status accept(RnicId connection, uint16_t reads_max, Bytes private_data) = 0;
  virtual void reject(RnicId connection, Bytes private_data) = 0;
  // The peer's first message came before what makes the connection established.
  virtual void notify(RnicId connection) = 0;

  // Both return how many were taken, from the first on. Fewer than all: the queue pair is of no more use.
  [[nodiscard]] virtual uint32_t post_sends(RnicId connection, std::span<const SendWork> works) = 0;
  [[nodiscard]] virtual uint32_t post_receives(RnicId connection, std::span<const ReceiveWork> works) = 0;

  // Moves the queue pair to Error: what is posted is flushed.
  virtual void fail(RnicId connection) = 0;
  // Tells the peer that it is over. Once.
  virtual void disconnect(RnicId connection) = 0;
  // The device touches none of its memory afterwards. Completions may still come, and mean nothing.
  virtual void destroy_queue_pair(RnicId connection) = 0;
  // The transport is done with the connection, and its id is dead. Its queue pair goes with it.
  virtual void release(RnicId connection) = 0;

  // Of a connection whose queue pair exposes. Write access takes no read access with it, nor the other way round. kNoResources:
  // the device registers no more. Whatever is registered is deregistered before the queue pair is destroyed.
  [[nodiscard]] virtual Result<DeviceRegion> register_memory(RnicId connection, MutableBytes memory,
                                                             verbs::RemoteAccess access) = 0;
  // Afterwards the peer does not reach it. False: the device has not let go of it.
  [[nodiscard]] virtual bool deregister_memory(uint64_t handle) = 0;

  [[nodiscard]] virtual Exposure exposure(RnicId connection) const = 0;
  // nullopt: nothing is known.
  [[nodiscard]] virtual std::optional<QueuePairState> look(RnicId /*connection*/) const { return std::nullopt; }
  // Alive as long as the process; empty: not known.
  [[nodiscard]] virtual std::string_view device(RnicId /*connection*/) const { return {}; }
};

}  // namespace cw::rnic
