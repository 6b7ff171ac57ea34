// One RDMA connection of the gateway: its queue pair, its endpoint and its ways to backends. The parts of the gateway share it;
// ConnectionTable makes and frees it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/intrusive_list.h"
#include "base/ip_address.h"
#include "base/prefetch.h"
#include "base/timer_wheel.h"
#include "gateway/backend_link.h"
#include "gateway/client_activity.h"
#include "gateway/gateway_options.h"
#include "gateway/gateway_stats.h"
#include "gateway/listener_lanes.h"
#include "gateway/pending_calls.h"
#include "gateway/replay_guard.h"
#include "rpcrdma/endpoint/server_endpoint.h"
#include "rpcrdma/wire/private_data.h"
#include "verbs/transport.h"

namespace cw::gateway {

enum class ConnectionState : uint8_t { kAccepting, kOpeningBackend, kEstablished };
[[nodiscard]] const char* to_string(ConnectionState state) noexcept;

// A connection's way to one backend: for a TCP backend, a backend connection of its own.
struct Lane {
  enum class State : uint8_t { kClosed, kOpening, kOpen };  // of the backend connection
  State state = State::kClosed;
  bool waits_here = false;                         // the connection's calls wait for this core's guard
  bool reverse_enabled = false;                    // a call on this lane has said that the client takes calls of its backend
  uint32_t backend = ListenerOptions::kNoBackend;  // up to here every call looks at lane 0
  uint16_t source_port = 0;                        // of the link, while this lane has it (SourcePorts)
  std::optional<uint32_t> last_xid;                // of the calls that went this way
  uint32_t server_number = 0;                      // of the backend's: where the link leads
  LinkId link;                            // each backend connection has one of its own; that of lane 0 names the connection, too
  Instant open_deadline;                  // valid while kOpening
  ReplayGuard::Client* client = nullptr;  // with a TCP backend
  Instant answered_at;                    // when its backend last answered a call; the clock's zero: never
  PendingCalls pending;
};

struct StalledTag {};

// Aligned, and what every call looks at in the first two lines and in the endpoint, because with thousands of connections the
// cache lines of a connection are what its call costs.
struct alignas(kCacheLineBytes) Connection : TimerNode, ListNode<StalledTag> {
  uint32_t slot = 0;
  uint32_t listener_index = 0;
  LinkId link;
  verbs::QueuePair* qp = nullptr;
  LaneTable* lanes = nullptr;

  ActiveClient* client = nullptr;  // while it has an endpoint
  uint32_t holds = 0;              // its calls wait for those of connections before it, here and on so many other cores
  ConnectionState state = ConnectionState::kAccepting;
  bool has_place = false;  // of connections_max and its class, from establishment on; only then it has lanes and an endpoint
  bool has_waited = false;
  bool takes_reverse = false;  // calls of its backends are passed on, once it has said that it takes them
  bool is_ending = false;      // ConnectionTable::end()
  bool is_paused = false;      // no message comes any more: the next process has it (Gateway::hand_over)
  uint16_t peer_port = 0;
  std::optional<uint32_t> client_class;
  std::vector<Lane> more;  // lanes 1 and up; empty without routes
  Lane first;              // lane 0

  const ListenerOptions* listener = nullptr;
  uint64_t number = 0;  // for people: 1, 2, ... of the process, no two cores the same
  verbs::ConnectionId id;
  verbs::Transport* transport = nullptr;
  std::optional<rpcrdma::ServerEndpoint> server;

  IpAddress peer;
  uint32_t receive_bytes_max = 0;  // of a message, as we have promised
  uint32_t credits = 0;            // granted at most
  uint32_t credits_before = 0;     // of one that was taken over: granted by the process before; else 0
  rpcrdma::InlineThresholds thresholds;
  verbs::ConnectionLimits limits;
  Instant created;
  Instant held_until;  // valid when there are holds
  struct ReverseCall {
    uint32_t xid = 0;
    std::optional<uint32_t> lane;  // nullopt: that backend connection is gone
  };
  // Whose outcomes have not been passed on, oldest first. Empty without routes: then all are of the first lane.
  std::vector<ReverseCall> reverse_calls;

  // What every call looks at.
  void prefetch() const;
  [[nodiscard]] Lane& lane(uint32_t index) { return index == 0 ? first : more[index - 1]; }
  template <typename Visit>
  void for_each_lane(Visit&& visit) {
    visit(first);
    for (Lane& lane : more) {
      visit(lane);
    }
  }
  [[nodiscard]] bool has_xid(uint32_t xid) const {
    const auto has = [&](const Lane& lane) { return lane.pending.has(xid); };
    return has(first) || std::any_of(more.begin(), more.end(), has);
  }
};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"  // compilers that we have support it
inline void Connection::prefetch() const {
  static_assert(offsetof(Connection, server) % kCacheLineBytes == 0, "the endpoint counts its lines from where it begins");
  static_assert(offsetof(Connection, first) + offsetof(Lane, source_port) <= 2 * kCacheLineBytes,
                "a call would cost a line more");
  prefetch_range(this, &first.source_port);
  rpcrdma::ServerEndpoint::prefetch(&server);
}
#pragma GCC diagnostic pop

}  // namespace cw::gateway
