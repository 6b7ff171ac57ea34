#include "gateway/listeners.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace cw::gateway {

Listeners::Listeners(const std::vector<ListenerOptions>& options, const std::vector<verbs::Transport*>& transports,
                     Backends& backends)
    : transports_(transports), backends_(backends), options_(options), lanes_(options.size()) {
  CW_ASSERT(options_.size() <= kListenerIdsMax);
  options_.reserve(kListenerIdsMax);
  lanes_.reserve(kListenerIdsMax);
  for (size_t i = 0; i < lanes_.size(); ++i) {
    set_lanes(i);
  }
}

Status Listeners::start() {
  for (size_t i = 0; i < options_.size(); ++i) {
    const Status status = wire_of(options_[i]).listen(options_[i].port);
    if (!status.ok()) {
      // Only what this gateway has set up: the port that could not be had is somebody else's.
      while (i > 0) {
        --i;
        wire_of(options_[i]).unlisten(options_[i].port);
      }
      return status;
    }
  }
  return {};
}

void Listeners::stop() {
  stopped_ = true;
  for (const ListenerOptions& listener : options_) {
    wire_of(listener).unlisten(listener.port);
  }
}

const ListenerOptions* Listeners::find(uint32_t transport, uint16_t port) const {
  for (const ListenerOptions& listener : options_) {
    if (listener.transport == transport && listener.port == port && !listener.removed) {
      return &listener;
    }
  }
  return nullptr;
}

LaneTable& Listeners::join(uint32_t listener) {
  LaneTable& table = *lanes_[listener];
  ++table.connections;
  return table;
}

void Listeners::leave(LaneTable& table) {
  if (--table.connections == 0 && std::ranges::find(lanes_, &table) == lanes_.end()) {
    lane_tables_.remove_if([&](const LaneTable& each) { return &each == &table; });
  }
}

void Listeners::set_lanes(size_t listener) {
  ListenerLanes lanes(options_[listener]);
  LaneTable*& current = lanes_[listener];
  if (current != nullptr && current->lanes == lanes) {
    return;
  }
  LaneTable* const before = current;
  current = &lane_tables_.emplace_back(LaneTable{std::move(lanes), shares_of(options_[listener]), 0});
  if (before != nullptr && before->connections == 0) {
    lane_tables_.remove_if([&](const LaneTable& each) { return &each == before; });
  }
}

rpcrdma::BackendShares Listeners::shares_of(const ListenerOptions& listener) {
  rpcrdma::BackendShares shares;
  shares.others = &backends_.share(listener.backend);
  shares.unread = &backends_.share(ListenerOptions::kNoBackend);
  for (const RouteOptions& route : listener.routes) {
    shares.programs.push_back({route.program, &backends_.share(route.backend)});
  }
  return shares;
}

bool Listeners::reconfigure(std::vector<ListenerOptions>& fresh) {
  CW_ASSERT(fresh.size() >= options_.size() && fresh.size() <= kListenerIdsMax);
  for (uint32_t i = 0; i < fresh.size(); ++i) {
    const bool is_new = i == options_.size();
    if (is_new) {  // there is room, since the start
      options_.emplace_back();
      lanes_.push_back(nullptr);
    }
    ListenerOptions& listener = options_[i];
    if (fresh[i].removed && !is_new) {
      if (!listener.removed) {
        wire_of(listener).unlisten(listener.port);
      }
      listener.removed = true;  // its connections go on with what they have
      continue;
    }
    std::swap(listener, fresh[i]);
    if (!listener.removed) {
      set_lanes(i);
    }
  }
  // Behind all that went: one may have the port of another.
  bool all_listen = true;
  for (const ListenerOptions& listener : options_) {
    if (!listener.removed && !stopped_) {
      all_listen = wire_of(listener).listen(listener.port).ok() && all_listen;
    }
  }
  return all_listen;
}

}  // namespace cw::gateway
