// The backend connections of clients that are gone, and the connections that wait for them: see ReplayGuard.
#include <algorithm>

#include "control/gateway/gateway_connection.h"
#include "rpcrdma/rpc/rpc_message.h"

namespace cw::gateway {
namespace {

constexpr uint64_t kReplyBytesMin = 8;

}  // namespace

void Gateway::close_link(LinkId link, uint32_t backend) {
  BackendRequest close;
  close.kind = BackendRequest::Kind::kClose;
  close.link = link;
  close.backend = backend;
  push_request(std::move(close));
}

void Gateway::part_from_backend(Instant now, Connection& connection, ConnectionResult result) {
  BackendStats& stats = stats_.backends[connection.listener->backend];
  if (connection.waits_here) {
    guard_.forget(*connection.client, connection.link);
  }
  stats.calls_in_flight -= connection.pending_xids.size();
  const bool keep = !connection.pending_xids.empty() && connection.link_open && result != ConnectionResult::kFailedBackend &&
                    !shutting_down_ && orphans_.size() < options_.connections_max;
  if (keep) {
    auto orphan = std::make_unique<Orphan>();
    orphan->link = connection.link;
    orphan->backend = connection.listener->backend;
    orphan->client = connection.client;
    orphan->xids = std::move(connection.pending_xids);
    orphan->epochs = std::move(connection.pending_epochs);
    orphan->deadline = now + options_.orphan_max;
    stats_.orphaned_calls += orphan->xids.size();
    ++stats_.orphans;
    orphans_by_age_.push_back(*orphan);
    orphans_.emplace(orphan->link.value(), std::move(orphan));
    return;
  }
  for (const uint32_t epoch : connection.pending_epochs) {
    guard_.end(*connection.client, epoch);
  }
  guard_.leave(*connection.client);
  stats.links -= connection.link_open ? 1 : 0;
  close_link(connection.link, connection.listener->backend);
}

void Gateway::on_orphan_event(BackendEvent&& event) {
  const auto found = orphans_.find(event.link.value());
  if (found == orphans_.end()) {
    return;
  }
  Orphan& orphan = *found->second;
  if (event.kind == BackendEvent::Kind::kClosed) {
    ++stats_.backends[orphan.backend].closes;
    bury(orphan);
    return;
  }
  uint8_t start[kReplyBytesMin];
  if (event.kind != BackendEvent::Kind::kMessage || event.message.bytes() < sizeof(start)) {
    return;
  }
  event.message.copy_to(0, start);
  const auto xid = std::find(orphan.xids.begin(), orphan.xids.end(), load_be32(start));
  const bool is_call = load_be32(start + 4) == static_cast<uint32_t>(rpcrdma::RpcMessageType::kCall);
  if (is_call || xid == orphan.xids.end()) {
    return;  // a call for the client that is gone, or nonsense
  }
  const auto index = static_cast<size_t>(xid - orphan.xids.begin());
  guard_.end(*orphan.client, orphan.epochs[index]);
  orphan.xids[index] = orphan.xids.back();
  orphan.xids.pop_back();
  orphan.epochs[index] = orphan.epochs.back();
  orphan.epochs.pop_back();
  if (orphan.xids.empty()) {
    close_link(orphan.link, orphan.backend);
    bury(orphan);
  }
}

void Gateway::bury(Orphan& orphan) {
  for (const uint32_t epoch : orphan.epochs) {
    guard_.end(*orphan.client, epoch);
  }
  guard_.leave(*orphan.client);
  --stats_.backends[orphan.backend].links;
  --stats_.orphans;
  static_cast<ListNode<OrphanTag>&>(orphan).unlink_if_linked();
  orphans_.erase(orphan.link.value());
}

void Gateway::hold_calls(Instant now, Connection& connection) {
  if (connection.client == nullptr) {
    return;
  }
  connection.waits_here = guard_.hold(*connection.client, connection.link);
  connection.has_waited = connection.waits_here;
  connection.holds = (connection.waits_here ? 1 : 0) + options_.core.count - 1;
  if (connection.holds == 0) {
    return;
  }
  tell_other_cores({.kind = CoreMessage::Kind::kFence,
                    .index = connection.listener->backend,
                    .link = connection.link,
                    .client = connection.address.remote});
  stats_.connections_held += connection.has_waited ? 1 : 0;
  connection.held_until = now + options_.orphan_max;
  arm(connection, connection.held_until);
}

void Gateway::let_go(Instant now, Connection& connection) {
  if (connection.holds > 0 && --connection.holds == 0) {
    pump(now, connection);
  }
}

void Gateway::release_calls(Instant now) {
  for (Orphan* orphan = orphans_by_age_.front(); orphan != nullptr && orphan->deadline <= now; orphan = orphans_by_age_.front()) {
    stats_.orphaned_expired += orphan->xids.size();
    close_link(orphan->link, orphan->backend);
    bury(*orphan);
  }
  LinkId link;
  while (guard_.poll_released(link)) {
    if (core_of(link) != options_.core.index) {
      tell_fence_done(link, true);
    } else if (Connection* connection = find(link); connection != nullptr && connection->waits_here) {
      connection->waits_here = false;
      let_go(now, *connection);
    }
  }
}

}  // namespace cw::gateway
