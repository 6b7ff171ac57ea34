#include "gateway/call_holds.h"

#include <utility>

namespace cw::gateway {

void CallHolds::hold(Connection& connection, Instant until) {
  connection.for_each_lane([&](Lane& lane) {
    if (lane.client != nullptr) {
      lane.waits_here = guard_.hold(*lane.client, lane.link);
      connection.has_waited = connection.has_waited || lane.waits_here;
      connection.holds += (lane.waits_here ? 1 : 0) + mails_.core().count - 1;
    }
  });
  if (connection.holds == 0) {
    return;
  }
  connection.for_each_lane([&](Lane& lane) {
    if (lane.client != nullptr) {
      mails_.tell_others(
          {.kind = CoreMessage::Kind::kFence, .index = lane.backend, .link = lane.link, .client = connection.peer});
    }
  });
  stats_.connections_held += connection.has_waited ? 1 : 0;
  connection.held_until = until;
  connections_.arm(connection, until);
}

void CallHolds::give_up(Connection& connection) {
  connection.holds = 0;
  connection.for_each_lane([&](Lane& lane) { forget(lane); });
}

void CallHolds::forget(Lane& lane) {
  if (std::exchange(lane.waits_here, false)) {
    guard_.forget(*lane.client, lane.link);
  }
}

Connection* CallHolds::next_released() {
  LinkId link;
  while (guard_.poll_released(link)) {
    if (core_of(link) != mails_.core().index) {
      tell_fence_done(link, true);
    } else if (Connection* connection = connections_.find(link);
               connection != nullptr && std::exchange(connection->lane(lane_of(link)).waits_here, false) && let_go(*connection)) {
      return connection;
    }
  }
  return nullptr;
}

void CallHolds::answer_fence(const CoreMessage& fence) {
  ReplayGuard::Client* client = guard_.find(fence.client, fence.index);
  if (client == nullptr || !guard_.hold(*client, fence.link)) {
    tell_fence_done(fence.link, false);
  }
}

Connection* CallHolds::on_fence_done(const CoreMessage& message) {
  Connection* connection = connections_.find(message.link);
  if (connection == nullptr || connection->holds == 0) {
    return nullptr;
  }
  if (message.value != 0 && !connection->has_waited) {
    connection->has_waited = true;
    ++stats_.connections_held;
  }
  return let_go(*connection) ? connection : nullptr;
}

void CallHolds::tell_fence_done(LinkId link, bool waited) {
  mails_.tell(core_of(link), {.kind = CoreMessage::Kind::kFenceDone, .link = link, .value = waited ? uint32_t{1} : uint32_t{0}});
}

}  // namespace cw::gateway
