// The backend connections of clients that are gone, and the connections that wait for them: see ReplayGuard.
#include <algorithm>
#include <utility>

#include "gateway/gateway_connection.h"
#include "rpcrdma/rpc/rpc_message.h"

namespace cw::gateway {
namespace {

constexpr uint64_t kReplyBytesMin = 8;

}  // namespace

void Gateway::close_link(LinkId link, uint32_t backend) {
  closes_.push_back(Close{link, backend, requests_pushed_});
}

// Not when the backend has closed it: then the lane is kClosed.
void Gateway::part_from_backend(Instant now, Connection& connection, Lane& lane, bool may_keep) {
  BackendStats& stats = stats_.backends[lane.backend];
  if (lane.waits_here) {
    guard_.forget(*lane.client, lane.link);
  }
  stats.calls_in_flight -= lane.pending.size();
  stats.server_calls[lane.server_number] -= lane.pending.size();
  if (may_keep && !lane.pending.empty() && lane.state == Lane::State::kOpen) {
    // Whoever has left most backend connections makes room: many of one client are no reason to break the promise to another.
    if (orphans_.size() >= options_.connections_max) {
      Orphan& oldest = *client_shares_.greediest_orphan();
      stats_.orphaned_expired += oldest.pending.size();
      give_up(oldest);
    }
    give_port_back(lane);
    auto orphan = std::make_unique<Orphan>();
    orphan->link = lane.link;
    orphan->backend = lane.backend;
    orphan->server_number = lane.server_number;
    orphan->client = lane.client;
    orphan->pending = std::move(lane.pending);
    orphan->pending.for_each([&](uint32_t, PendingCall& call) {
      call.units = connection.server->take_units(call.call, backend_shares_[lane.backend]);
    });
    orphan->deadline = now + options_.orphan_max;
    orphan->remote = connection.peer;
    orphan->share = &join_client(orphan->remote);
    client_shares_.add_orphan(orphan->remote, *orphan);
    stats_.orphaned_calls += orphan->pending.size();
    ++stats_.orphans;
    orphans_by_age_.push_back(*orphan);
    orphans_.emplace(orphan->link.value(), std::move(orphan));
    return;
  }
  lane.pending.for_each([&](uint32_t, const PendingCall& call) { guard_.end(*lane.client, call.epoch); });
  guard_.leave(*lane.client);
  if (lane.state != Lane::State::kClosed) {
    forget_link(lane);
    close_link(lane.link, lane.backend);
  }
}

void Gateway::on_orphan_event(BackendEvent&& event) {
  const auto found = orphans_.find(event.link.value());
  if (found == orphans_.end()) {
    return;
  }
  Orphan& orphan = *found->second;
  if (event.kind == BackendEvent::Kind::kClosed) {
    ++stats_.backends[orphan.backend].closes;
    release_orphan(orphan);
    return;
  }
  uint8_t start[kReplyBytesMin];
  if (event.kind != BackendEvent::Kind::kMessage || event.message.bytes() < sizeof(start)) {
    return;
  }
  event.message.copy_to(0, start);
  if (load_be32(start + 4) == static_cast<uint32_t>(rpcrdma::RpcMessageType::kCall)) {
    return;  // for the client that is gone
  }
  const std::optional<PendingCall> call = orphan.pending.take(load_be32(start));
  if (!call) {
    return;
  }
  guard_.end(*orphan.client, call->epoch);
  return_units(orphan, *call);
  if (orphan.pending.empty()) {
    give_up(orphan);
  }
}

void Gateway::return_units(Orphan& orphan, const PendingCall& call) {
  shared_.return_units(*orphan.share, &backend_shares_[orphan.backend], call.units);
}

void Gateway::give_up(Orphan& orphan) {
  close_link(orphan.link, orphan.backend);
  release_orphan(orphan);
}

void Gateway::release_orphan(Orphan& orphan) {
  orphan.pending.for_each([&](uint32_t, const PendingCall& call) {
    guard_.end(*orphan.client, call.epoch);
    return_units(orphan, call);
  });
  guard_.leave(*orphan.client);
  client_shares_.remove_orphan(orphan.remote, orphan);
  leave_client(orphan.remote);
  --stats_.backends[orphan.backend].links;
  --stats_.backends[orphan.backend].server_links[orphan.server_number];
  --stats_.orphans;
  static_cast<ListNode<OrphanTag>&>(orphan).unlink_if_linked();
  orphans_.erase(orphan.link.value());
}

// For all lanes at once: a call to one backend may follow from a call to another.
void Gateway::hold_calls(Instant now, Connection& connection) {
  connection.for_each_lane([&](Lane& lane) {
    if (lane.client != nullptr) {
      lane.waits_here = guard_.hold(*lane.client, lane.link);
      connection.has_waited = connection.has_waited || lane.waits_here;
      connection.holds += (lane.waits_here ? 1 : 0) + options_.core.count - 1;
    }
  });
  if (connection.holds == 0) {
    return;
  }
  connection.for_each_lane([&](Lane& lane) {
    if (lane.client != nullptr) {
      tell_other_cores({.kind = CoreMessage::Kind::kFence, .index = lane.backend, .link = lane.link, .client = connection.peer});
    }
  });
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
    stats_.orphaned_expired += orphan->pending.size();
    give_up(*orphan);
  }
  LinkId link;
  while (guard_.poll_released(link)) {
    if (core_of(link) != options_.core.index) {
      tell_fence_done(link, true);
    } else if (Connection* connection = find(link);
               connection != nullptr && std::exchange(connection->lane(lane_of(link)).waits_here, false)) {
      let_go(now, *connection);
    }
  }
}

}  // namespace cw::gateway
