// What only RoCEv2 has, of connections that are known as those of a verbs::Transport.
#pragma once

#include "gateway/client/client.h"
#include "gateway/gateway.h"
#include "rocev2/rc/qp.h"

namespace cw::test {

[[nodiscard]] inline rc::RcQpInfo rc_info(const gateway::ConnectionInfo& connection) {
  return connection.qp.detail<rc::RcQpInfo>();
}

// nullptr when there is none.
[[nodiscard]] inline rc::RcQp* rc_queue_pair(client::Client& client, client::ClientId id) {
  return static_cast<rc::RcQp*>(client.queue_pair(id));
}

}  // namespace cw::test
