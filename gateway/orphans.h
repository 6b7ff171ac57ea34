// The backend connections of clients' connections that are gone, while the backend still works on their calls. Each is closed
// soon after the last call has been answered, or at its deadline. Until then the calls of the client's next connection wait
// (ReplayGuard), and what the calls hold of what all share stays the client's.
//
// Soon after, and not at once: NFS-Ganesha (4.3) sends a reply and then notes in its duplicate request cache that the call is
// done. A repetition that comes in between is dropped without a word, and its client waits for a time-out of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>

#include "base/intrusive_list.h"
#include "gateway/backends.h"
#include "gateway/client_shares.h"
#include "gateway/connection.h"
#include "gateway/gateway_stats.h"
#include "gateway/replay_guard.h"
#include "gateway/worker_requests.h"

namespace cw::gateway {

struct OrphanTag {};

struct Orphan : ListNode<OrphanTag>, ListNode<OfClientTag> {
  LinkId link;
  uint32_t backend = 0;
  uint32_t server_number = 0;
  bool is_open = true;  // false: the worker still opens it, and has its calls
  ReplayGuard::Client* client = nullptr;
  PendingCalls pending;
  Instant deadline;
  std::optional<uint32_t> last_epoch;  // of the call that was answered last, when that were all
  IpAddress remote;
  rpcrdma::ClientShare* share = nullptr;  // of `remote`
};

class Orphans {
 public:
  // What a server may take to note that it has answered.
  static constexpr Duration kAnswerSettles = Duration::ms(50);

  // At most `count_max`. The references must outlive it; what is left is released at the end.
  Orphans(uint32_t count_max, rpcrdma::ServerShared& shared, Backends& backends, ReplayGuard& guard, WorkerRequests& requests,
          GatewayStats& stats);
  ~Orphans();
  Orphans(const Orphans&) = delete;
  Orphans& operator=(const Orphans&) = delete;

  // What the connections of a client's address hold together of what all share, while one is there.
  [[nodiscard]] rpcrdma::ClientShare& join_client(const IpAddress& address);
  void leave_client(const IpAddress& address);

  // Takes over the link and the calls of a lane of the client's. Without calls it is as if the last had been answered now.
  // Preconditions: the link is open, or is being opened and has calls; the lane has joined the guard, and its calls' units have
  // been taken from their endpoint.
  void adopt(Instant now, const IpAddress& client, Lane& lane, Instant deadline);
  // An event of a link that no connection has.
  void on_event(Instant now, BackendEvent&& event);
  // Closes those whose deadline has come.
  void expire(Instant now);
  void close_all();
  [[nodiscard]] Instant next_deadline() const;

 private:
  // Its last call has been answered.
  void settle(Instant now, Orphan& orphan, uint32_t epoch);
  // What the backend has not answered counts as answered.
  void release(Orphan& orphan);
  void note_opened(Instant now, Orphan& orphan);
  void take_reply(Instant now, Orphan& orphan, const Chain& message);
  void close(Orphan& orphan);
  void return_units(Orphan& orphan, const PendingCall& call);

  uint32_t count_max_;
  rpcrdma::ServerShared& shared_;
  Backends& backends_;
  ReplayGuard& guard_;
  WorkerRequests& requests_;
  GatewayStats& stats_;
  ClientShares<Orphan> client_shares_;
  std::unordered_map<uint64_t, std::unique_ptr<Orphan>> orphans_;  // by link
  IntrusiveList<Orphan, OrphanTag> by_age_;                        // with calls at the backend, by deadline
  IntrusiveList<Orphan, OrphanTag> answered_;                      // without, by deadline
};

}  // namespace cw::gateway
