#include "gateway/client/client.h"

#include <algorithm>

namespace cw::client {

struct Client::Connection : TimerNode, ListNode<Client::ReadyTag> {
  ClientId id;
  verbs::ConnectionId connection;
  verbs::QueuePair* qp = nullptr;
  verbs::ProtectionDomain domain;
  std::optional<rpcrdma::ClientEndpoint> endpoint;
};

Client::Client(const ClientOptions& options, verbs::Transport& transport, verbs::MemoryRegistry& memory, BufferPool& packets,
               RandomSource& random)
    : options_(options),
      transport_(transport),
      memory_(memory),
      packets_(packets),
      random_(random),
      connections_(options.connections_max),
      timers_(options.connections_max),
      events_(2 * options.connections_max + 16) {}

Client::~Client() {
  for (auto& connection : connections_) {
    if (connection != nullptr) {
      end(*connection, ClientEvent{}, false);
    }
  }
}

rpcrdma::PrivateData Client::ours() const {
  return options_.private_data ? rpcrdma::PrivateData{}
                               : rpcrdma::PrivateData{options_.inline_bytes, options_.inline_bytes, options_.remote_invalidate};
}

Client::Connection* Client::find(ClientId id) const {
  return id.value() < connections_.size() ? connections_[id.value()].get() : nullptr;
}

rpcrdma::ClientEndpoint* Client::endpoint(ClientId id) {
  Connection* connection = find(id);
  return connection != nullptr && connection->endpoint ? &*connection->endpoint : nullptr;
}

verbs::QueuePair* Client::queue_pair(ClientId id) {
  Connection* connection = find(id);
  return connection != nullptr ? connection->qp : nullptr;
}

verbs::QueuePairInfo Client::describe(ClientId id) const {
  const Connection* connection = find(id);
  return connection == nullptr ? verbs::QueuePairInfo() : transport_.describe(connection->connection);
}

Result<ClientId> Client::connect(Instant now, const IpAddress& server, uint16_t service_port) {
  const auto free = std::find(connections_.begin(), connections_.end(), nullptr);
  if (free == connections_.end()) {
    return fail(Error::kNoResources);
  }
  const ClientId id(static_cast<uint32_t>(free - connections_.begin()));
  const rpcrdma::ConnectBytes private_data = rpcrdma::connect_bytes(ours());
  verbs::ConnectionOptions options;
  options.context = id.value();
  options.receive_bytes_max = options_.inline_bytes;
  options.private_data = options_.private_data ? Bytes(*options_.private_data) : private_data.bytes();
  options.domain = verbs::ProtectionDomain(next_domain_);
  const auto connection = transport_.connect(now, server, service_port, options);
  if (!connection.ok()) {
    return fail(connection.error());
  }
  ++next_domain_;
  *free = std::make_unique<Connection>();
  (*free)->id = id;
  (*free)->connection = *connection;
  (*free)->domain = options.domain;
  return id;
}

void Client::take_events(Instant now) {
  verbs::ConnectionEvent event;
  while (transport_.poll_event(now, event)) {
    on_event(now, event);
  }
}

void Client::on_event(Instant now, const verbs::ConnectionEvent& event) {
  using Kind = verbs::ConnectionEvent::Kind;
  Connection* connection = find(ClientId(static_cast<uint32_t>(event.context)));
  if (connection == nullptr || connection->connection != event.connection) {
    return;
  }
  switch (event.kind) {
    case Kind::kConnectResponse:
      on_response(now, *connection, event);
      return;
    case Kind::kRejected:
    case Kind::kUnreachable:
      end(*connection, ClientEvent{ClientEvent::Kind::kRefused, connection->id, event.rejection, {}}, true);
      return;
    case Kind::kDisconnected:
      lose(*connection);
      return;
    case Kind::kConnectRequest:
    case Kind::kEstablished:
      return;
  }
}

void Client::lose(Connection& connection) {
  const verbs::QueuePairError error = transport_.describe(connection.connection).error;
  end(connection, ClientEvent{ClientEvent::Kind::kLost, connection.id, {}, error}, true);
}

void Client::on_response(Instant now, Connection& connection, const verbs::ConnectionEvent& response) {
  const rpcrdma::InlineThresholds thresholds = rpcrdma::negotiate(ours(), rpcrdma::PrivateData::of_peer(response.private_data));
  connection.qp = response.queue_pair;
  connection.endpoint.emplace(*connection.qp, memory_, connection.domain, packets_, options_.rpc, thresholds, random_.next_u32(),
                              stats_);
  connection.endpoint->start();
  transport_.establish(now, connection.connection);
  arm(connection);
  ++connected_;
  (void)events_.push(ClientEvent{ClientEvent::Kind::kConnected, connection.id, {}, {}});
}

void Client::run(Instant now) {
  now_ = now;
  take_events(now);
  verbs::ReadyQueuePair next;
  while (transport_.poll_ready(next)) {
    Connection* connection = find(ClientId(static_cast<uint32_t>(next.context)));
    if (connection == nullptr || connection->qp != next.queue_pair || !connection->endpoint) {
      continue;
    }
    connection->endpoint->on_completions(now);
    if (connection->endpoint->failed() && !connection->qp->in_error()) {
      connection->qp
          ->close();  // before anyone sees the outcomes: memory that could not be shut off is out of reach (RFC 8166 4.5.4)
    }
    serve_reverse(now, *connection);
    ListNode<ReadyTag>& ready = *connection;
    if (!ready.is_linked()) {
      ready_.push_back(*connection);
    }
    arm(*connection);
  }
  while (TimerNode* node = timers_.pop_expired(now)) {
    Connection& connection = static_cast<Connection&>(*node);
    if (connection.endpoint) {
      ListNode<ReadyTag>& ready = connection;
      if (!ready.is_linked() && (connection.endpoint->failed() || connection.qp->in_error())) {
        transport_.disconnect(now, connection.connection);
        lose(connection);
        continue;
      }
      connection.endpoint->on_deadline(now);
      if (!ready.is_linked()) {
        ready_.push_back(connection);
      }
      arm(connection);
    }
  }
  transport_.on_deadline(now);
  if (transport_.has_events()) {
    take_events(now);
  }
}

void Client::serve_reverse(Instant now, Connection& connection) {
  rpcrdma::ReverseCall call;
  Chain reply;
  while (connection.endpoint->poll_reverse_call(call)) {
    if (!reverse_programs_->dispatch(call.context, call.message, packets_, reply)) {
      connection.endpoint->fail();  // no memory for the reply: the server would wait for it
      return;
    }
    connection.endpoint->reply_reverse(now, call.xid, std::move(reply));
    reply = Chain();
  }
}

std::optional<ClientId> Client::poll_ready() {
  Connection* connection = ready_.pop_front();
  if (connection == nullptr) {
    return std::nullopt;
  }
  arm(*connection);
  if (connection->endpoint->failed() || connection->qp->in_error()) {
    // Replies that the endpoint still holds (as lost) are polled by the caller before the next run(): the end comes with it.
    timers_.arm(*connection, Instant::from_ns(0));
  }
  return connection->id;
}

// Calls are submitted behind our back: whatever comes next cannot time out before this.
void Client::arm(Connection& connection) {
  const Instant deadline = earlier(connection.endpoint->next_deadline(), now_ + options_.rpc.call_timeout);
  if (!connection.is_armed() || deadline < connection.deadline()) {
    timers_.arm(connection, deadline);
  }
}

Status Client::cancel(ClientId id, uint32_t xid) {
  Connection* connection = find(id);
  if (connection == nullptr || !connection->endpoint) {
    return fail(Error::kBadState);
  }
  const Status cancelled = connection->endpoint->cancel(xid);
  if (connection->endpoint->failed()) {
    if (!connection->qp->in_error()) {
      connection->qp->close();  // memory that could not be shut off is out of reach
    }
    timers_.arm(*connection, Instant::from_ns(0));  // the end comes with the next run()
  }
  return cancelled;
}

void Client::disconnect(Instant now, ClientId id) {
  if (Connection* connection = find(id)) {
    transport_.disconnect(now, connection->connection);
    end(*connection, ClientEvent{}, false);
  }
}

void Client::end(Connection& connection, const ClientEvent& event, bool tell) {
  if (tell) {
    (void)events_.push(ClientEvent(event));
  }
  timers_.cancel(connection);
  static_cast<ListNode<ReadyTag>&>(connection).unlink_if_linked();
  if (connection.endpoint) {
    --connected_;
    connection.endpoint.reset();
  }
  transport_.destroy(connection.connection);
  connections_[connection.id.value()].reset();
}

bool Client::poll_event(ClientEvent& out) {
  if (events_.empty()) {
    return false;
  }
  out = events_.pop();
  return true;
}

}  // namespace cw::client
