#include "gateway/orphans.h"

#include <utility>

#include "rpcrdma/rpc/rpc_message.h"

namespace cw::gateway {
namespace {

constexpr uint64_t kReplyBytesMin = 8;

}  // namespace

Orphans::Orphans(uint32_t count_max, rpcrdma::ServerShared& shared, Backends& backends, ReplayGuard& guard,
                 WorkerRequests& requests, GatewayStats& stats)
    : count_max_(count_max), shared_(shared), backends_(backends), guard_(guard), requests_(requests), stats_(stats) {}

Orphans::~Orphans() {
  for (auto* list : {&by_age_, &answered_}) {
    while (Orphan* orphan = list->front()) {
      release(*orphan);
    }
  }
}

rpcrdma::ClientShare& Orphans::join_client(const IpAddress& address) {
  rpcrdma::ClientShare& share = client_shares_.join(address);
  shared_.clients = static_cast<uint32_t>(client_shares_.client_count());
  return share;
}

void Orphans::leave_client(const IpAddress& address) {
  client_shares_.leave(address);
  shared_.clients = static_cast<uint32_t>(client_shares_.client_count());
}

void Orphans::adopt(Instant now, const IpAddress& client, Lane& lane, Instant deadline) {
  // Whoever has left most backend connections makes room: many of one client are no reason to break the promise to another.
  if (orphans_.size() >= count_max_) {
    Orphan& oldest = *client_shares_.greediest_orphan();
    stats_.orphaned_expired += oldest.pending.size();
    close(oldest);
  }
  auto orphan = std::make_unique<Orphan>();
  orphan->link = lane.link;
  orphan->backend = lane.backend;
  orphan->server_number = lane.server_number;
  orphan->is_open = lane.state == Lane::State::kOpen;
  orphan->client = lane.client;
  orphan->pending = std::move(lane.pending);
  orphan->deadline = deadline;
  orphan->remote = client;
  orphan->share = &join_client(orphan->remote);
  client_shares_.add_orphan(orphan->remote, *orphan);
  stats_.orphaned_calls += orphan->pending.size();
  ++stats_.orphans;
  Orphan& adopted = *orphan;
  by_age_.push_back(adopted);
  orphans_.emplace(adopted.link.value(), std::move(orphan));
  if (adopted.pending.empty()) {
    settle(now, adopted, guard_.begin(*adopted.client));
  }
}

void Orphans::note_opened(Instant now, Orphan& orphan) {
  orphan.is_open = true;
  backends_.note(now, orphan.backend, true);
  BackendStats& stats = stats_.backends[orphan.backend];
  ++stats.opens;
  ++stats.links;
  ++stats.server_links[orphan.server_number];
}

void Orphans::settle(Instant now, Orphan& orphan, uint32_t epoch) {
  orphan.last_epoch = epoch;
  orphan.deadline = now + kAnswerSettles;
  static_cast<ListNode<OrphanTag>&>(orphan).unlink();
  answered_.push_back(orphan);
}

void Orphans::on_event(Instant now, BackendEvent&& event) {
  const auto found = orphans_.find(event.link.value());
  if (found == orphans_.end()) {
    return;
  }
  Orphan& orphan = *found->second;
  switch (event.kind) {
    case BackendEvent::Kind::kOpened:
      note_opened(now, orphan);
      return;
    case BackendEvent::Kind::kFailed:
      backends_.note(now, orphan.backend, false);
      ++stats_.backends[orphan.backend].open_failures;
      release(orphan);
      return;
    case BackendEvent::Kind::kClosed:
      ++stats_.backends[orphan.backend].closes;
      release(orphan);
      return;
    case BackendEvent::Kind::kMessage:
      take_reply(now, orphan, event.message);
      return;
    case BackendEvent::Kind::kPortBusy:
    case BackendEvent::Kind::kRan:
      return;
  }
}

void Orphans::take_reply(Instant now, Orphan& orphan, const Chain& message) {
  uint8_t start[kReplyBytesMin];
  if (message.bytes() < sizeof(start)) {
    return;
  }
  message.copy_to(0, start);
  if (load_be32(start + 4) == static_cast<uint32_t>(rpcrdma::RpcMessageType::kCall)) {
    return;  // for the client that is gone
  }
  const std::optional<PendingCall> call = orphan.pending.take(load_be32(start));
  if (!call) {
    return;
  }
  return_units(orphan, *call);
  if (!orphan.pending.empty()) {
    guard_.end(*orphan.client, call->epoch);
    return;
  }
  settle(now, orphan, call->epoch);
}

void Orphans::expire(Instant now) {
  for (auto* list : {&by_age_, &answered_}) {
    for (Orphan* orphan = list->front(); orphan != nullptr && orphan->deadline <= now; orphan = list->front()) {
      stats_.orphaned_expired += orphan->pending.size();
      close(*orphan);
    }
  }
}

void Orphans::close_all() {
  for (auto* list : {&by_age_, &answered_}) {
    while (Orphan* orphan = list->front()) {
      close(*orphan);
    }
  }
}

Instant Orphans::next_deadline() const {
  const auto of = [](const Orphan* oldest) { return oldest == nullptr ? Instant::never() : oldest->deadline; };
  return earlier(of(by_age_.front()), of(answered_.front()));
}

void Orphans::return_units(Orphan& orphan, const PendingCall& call) {
  shared_.return_units(*orphan.share, &backends_.share(orphan.backend), call.units);
}

void Orphans::close(Orphan& orphan) {
  requests_.close(orphan.link, orphan.backend);
  release(orphan);
}

void Orphans::release(Orphan& orphan) {
  orphan.pending.for_each([&](uint32_t, const PendingCall& call) {
    guard_.end(*orphan.client, call.epoch);
    return_units(orphan, call);
  });
  if (orphan.last_epoch) {
    guard_.end(*orphan.client, *orphan.last_epoch);
  }
  guard_.leave(*orphan.client);
  client_shares_.remove_orphan(orphan.remote, orphan);
  leave_client(orphan.remote);
  if (orphan.is_open) {
    --stats_.backends[orphan.backend].links;
    --stats_.backends[orphan.backend].server_links[orphan.server_number];
  }
  --stats_.orphans;
  static_cast<ListNode<OrphanTag>&>(orphan).unlink_if_linked();
  orphans_.erase(orphan.link.value());
}

}  // namespace cw::gateway
