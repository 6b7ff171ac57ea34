// One RDMA connection of the gateway: its queue pair, its endpoint and its backend. Private to Gateway.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "control/gateway/gateway.h"

namespace cw::gateway {

struct Gateway::Connection : TimerNode, ListNode<Gateway::StalledTag> {
  uint32_t slot = 0;
  LinkId link;
  cm::ConnectionId cm_id;
  cm::CmAddress address;
  std::unique_ptr<const cm::ConnectRequest> request;  // until it is accepted
  verbs::Qpn remote_qpn;
  uint16_t peer_port = 0;
  const ListenerOptions* listener = nullptr;
  uint32_t listener_index = 0;
  ConnectionState state = ConnectionState::kOpeningBackend;
  uint32_t server_index = 0;  // of the backend's: where the link leads
  bool link_open = false;
  bool asked_patience = false;
  bool timed_out = false;  // the backend kept a call too long, and the endpoint failed of it
  Instant created;
  Instant open_deadline;
  rc::RcQp* qp = nullptr;
  rpcrdma::InlineThresholds thresholds;
  std::optional<rpcrdma::ServerEndpoint> server;
  // Calls that the backend owes a reply: the same index in all. At most one per credit, so a search is a few cache lines.
  std::vector<uint32_t> pending_xids;
  std::vector<rpcrdma::CallId> pending_calls;
  std::vector<uint32_t> pending_epochs;
  ReplayGuard::Client* client = nullptr;  // with a TCP backend
  uint32_t holds = 0;                     // its calls wait for those of connections before it, here and on so many other cores
  bool waits_here = false;                // one of the holds is this core's guard
  bool has_waited = false;
  Instant held_until;  // valid when there are holds
  uint64_t calls = 0;
};

// The backend connection of an RDMA connection that is gone, while the backend still works on its calls.
struct Gateway::Orphan : ListNode<Gateway::OrphanTag> {
  LinkId link;
  uint32_t backend = 0;
  uint32_t server_index = 0;
  ReplayGuard::Client* client = nullptr;
  std::vector<uint32_t> xids;
  std::vector<uint32_t> epochs;
  Instant deadline;
};

}  // namespace cw::gateway
