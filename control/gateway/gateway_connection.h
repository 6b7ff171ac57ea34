// One RDMA connection of the gateway: its queue pair, its endpoint and its backend. Private to Gateway.
#pragma once

#include <optional>
#include <vector>

#include "control/gateway/gateway.h"

namespace cw::gateway {

struct Gateway::Connection : TimerNode, ListNode<Gateway::StalledTag> {
  uint32_t slot = 0;
  LinkId link;
  cm::ConnectionId cm_id;
  cm::CmAddress address;
  cm::ConnectRequest request;
  const ListenerOptions* listener = nullptr;
  uint32_t listener_index = 0;
  ConnectionState state = ConnectionState::kOpeningBackend;
  bool link_open = false;
  bool asked_patience = false;
  Instant created;
  Instant open_deadline;
  rc::RcQp* qp = nullptr;
  rpcrdma::InlineThresholds thresholds;
  std::optional<rpcrdma::ServerEndpoint> server;
  // Calls that the backend owes a reply: the same index in both. At most one per credit, so a search is a few cache lines.
  std::vector<uint32_t> pending_xids;
  std::vector<rpcrdma::CallId> pending_calls;
  uint64_t calls = 0;
};

}  // namespace cw::gateway
