// A transport without a wire, for tests of those who use one (verbs::Transport): the gateway and the client role. Each connection
// has a FakeQueuePair. The test plays the peers by the functions peer_...(), and looks up in at() what the user has done.
//
// What the user must not do is noted in violations(), which a test expects to be empty at its end. Beyond what the seam promises
// nothing is made easy: an event that is there outlives the id that it is about, private data of an event is gone with the next
// poll_event(), and a connection is live until its peer knows that it is over.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "tests/support/fake_queue_pair.h"
#include "verbs/transport.h"

namespace cw::test {

class FakeTransport final : public verbs::Transport {
 public:
  using Kind = verbs::ConnectionEvent::Kind;
  // As the peer sees it: kParting when we have said that it is over, and the peer does not know yet.
  enum class State : uint8_t { kAsked, kAnswered, kEstablished, kParting, kOver };
  struct Connection {
    verbs::ConnectionId id;
    State state = State::kAsked;
    bool active = false;                // connect() has made it
    IpAddress peer;                     // active: the server
    uint16_t port = 0;                  // of the listener
    verbs::ConnectionOptions options;   // of accept() or connect(); their private data is `private_data`
    std::vector<uint8_t> private_data;  // of our user
    std::unique_ptr<FakeQueuePair> qp;  // from accept() or connect() to destroy()
    std::optional<verbs::ConnectionId> rival;
    std::optional<verbs::RejectReason> rejected;
    std::vector<uint8_t> reject_data;  // of our user, with reject()
    uint32_t notifies = 0;
    uint32_t disconnects = 0;
    bool announced = false;  // the user has its id
    bool destroyed = false;
    bool message_arrived = false;
    bool ready = false;
    bool error_told = false;  // poll_ready() has given it in Error
    verbs::QueuePairError error;
  };

  // What the user finds, for connections that begin from now on.
  verbs::ConnectionLimits limits;
  std::optional<Error> accept_error;  // kNoResources, kBadState
  verbs::ReadDepths peer_depths = {.initiator_depth = 16, .responder_resources = 16};
  uint32_t ports_max = 16;
  Instant deadline = Instant::never();  // of something that it has to do by then

  // The peer's side, passive connections.
  // Refused at once when nobody listens at the port. `rival`: the connection that this one ends when it is established.
  verbs::ConnectionId peer_asks(const IpAddress& peer, uint16_t port, Bytes private_data = {},
                                std::optional<verbs::ConnectionId> rival = std::nullopt) {
    Connection& connection = add();
    connection.peer = peer;
    connection.port = port;
    connection.rival = rival;
    if (std::ranges::find(ports_, port) == ports_.end()) {
      connection.rejected = verbs::RejectReason::kNoListener;
      connection.state = State::kOver;
      return connection.id;
    }
    verbs::ConnectionEvent& event = post(connection, Kind::kConnectRequest, private_data);
    event.peer = peer;
    event.peer_port = static_cast<uint16_t>(1000 + connections_.size());
    event.listener_port = port;
    event.depths = peer_depths;
    if (rival && at(*rival).state == State::kEstablished) {
      event.rival = at(*rival).options.context;
    }
    return connection.id;
  }
  // It has our answer.
  void peer_confirms(verbs::ConnectionId id) {
    Connection& connection = of(id);
    CW_ASSERT(!connection.active);
    if (connection.state != State::kAnswered) {
      return;
    }
    if (connection.rival) {
      peer_leaves(*connection.rival);
    }
    connection.state = State::kEstablished;
    (void)post(connection, Kind::kEstablished);
  }

  // The peer's side, active connections.
  void peer_answers(verbs::ConnectionId id, Bytes private_data = {}) {
    Connection& connection = of(id);
    CW_ASSERT(connection.active);
    if (connection.state == State::kAsked) {
      connection.state = State::kAnswered;
      verbs::ConnectionEvent& event = post(connection, Kind::kConnectResponse, private_data);
      event.queue_pair = connection.qp.get();
      event.limits = limits;
      event.depths = peer_depths;
    }
  }

  // The peer's side, both.
  void peer_rejects(verbs::ConnectionId id, const verbs::Rejection& rejection, Bytes private_data = {}) {
    end(of(id), Kind::kRejected, {.private_data = private_data, .rejection = rejection});
  }
  void peer_is_silent(verbs::ConnectionId id) { end(of(id), Kind::kUnreachable); }
  void peer_leaves(verbs::ConnectionId id) { end(of(id), Kind::kDisconnected); }
  void wire_loses(verbs::ConnectionId id) { end(of(id), Kind::kDisconnected, {.cause = verbs::DisconnectCause::kTransport}); }
  // All of them know of all that is over by now.
  void peers_hear_of_partings() {
    for (Connection& connection : connections_) {
      if (connection.state == State::kParting) {
        connection.state = State::kOver;
      }
    }
  }
  // A message of the peer. False when there is no receive for it, or no queue pair.
  [[nodiscard]] bool peer_sends(verbs::ConnectionId id, Chain&& message) {
    of(id).message_arrived = true;
    of(id).ready = true;
    return of(id).qp != nullptr && of(id).qp->deliver(std::move(message));
  }
  // The peer has acknowledged what was sent to it.
  void peer_acknowledges(verbs::ConnectionId id) {
    qp(id).finish_all_sends();
    of(id).ready = true;
  }
  void break_queue_pair(verbs::ConnectionId id, verbs::WcStatus status, const verbs::QueuePairError& error) {
    qp(id).break_with(status);
    of(id).error = error;
  }

  // What the user has done.
  [[nodiscard]] const Connection& at(verbs::ConnectionId id) const { return connections_[id.value() - kFirstId]; }
  [[nodiscard]] FakeQueuePair& qp(verbs::ConnectionId id) {
    CW_ASSERT(at(id).qp != nullptr);
    return *at(id).qp;
  }
  // For work that the test has ended at the queue pair itself.
  void make_ready(verbs::ConnectionId id) { of(id).ready = true; }
  [[nodiscard]] const Connection& last() const { return connections_.back(); }
  [[nodiscard]] const std::vector<uint16_t>& ports() const { return ports_; }
  [[nodiscard]] const std::vector<std::string>& violations() const { return violations_; }
  // Ids that the user knows, and has neither rejected nor destroyed.
  [[nodiscard]] uint32_t held_count() const {
    return static_cast<uint32_t>(
        std::ranges::count_if(connections_, [](const Connection& each) { return each.announced && !is_dead(each); }));
  }

  [[nodiscard]] Status listen(uint16_t port) override {
    if (std::ranges::find(ports_, port) != ports_.end()) {
      return {};
    }
    if (ports_.size() >= ports_max) {
      return fail(Error::kLimit);
    }
    ports_.push_back(port);
    return {};
  }
  void unlisten(uint16_t port) override { std::erase(ports_, port); }

  [[nodiscard]] bool has_events() const override { return !events_.empty(); }
  [[nodiscard]] bool poll_event(Instant /*now*/, verbs::ConnectionEvent& out) override {
    if (undecided_) {
      violate("poll_event() with a request that is neither accepted nor rejected", *std::exchange(undecided_, std::nullopt));
    }
    if (events_.empty()) {
      return false;
    }
    told_ = std::move(events_.front());
    events_.pop_front();
    out = told_.event;
    out.private_data = told_.private_data;
    of(out.connection).announced = true;
    if (out.kind == Kind::kConnectRequest) {
      undecided_ = out.connection;
    }
    return true;
  }

  [[nodiscard]] Result<verbs::AcceptedConnection> accept(Instant /*now*/, verbs::ConnectionId id,
                                                         const verbs::ConnectionOptions& options) override {
    if (undecided_ != id) {
      violate("accept() of what is not the request that was polled last", id);
      return fail(Error::kBadState);
    }
    Connection& connection = of(id);
    take_options(connection, options);
    if (accept_error == Error::kBadState) {
      connection.state = State::kOver;
      undecided_.reset();
    }
    if (accept_error) {
      return fail(*accept_error);
    }
    undecided_.reset();
    connection.state = State::kAnswered;
    connection.qp = std::make_unique<FakeQueuePair>();
    return verbs::AcceptedConnection{connection.qp.get(), limits};
  }
  void reject(Instant /*now*/, verbs::ConnectionId id, verbs::RejectReason reason, Bytes private_data) override {
    if (undecided_ != id) {
      violate("reject() of what is not the request that was polled last", id);
      return;
    }
    undecided_.reset();
    of(id).rejected = reason;
    of(id).reject_data.assign(private_data.begin(), private_data.end());
    if (private_data.size() > verbs::kPrivateDataMax) {
      violate("reject() with more private data than every wire carries", id);
    }
    of(id).state = State::kOver;
  }
  void notify(Instant /*now*/, verbs::ConnectionId id) override {
    if (Connection* connection = use(id, "notify()")) {
      ++connection->notifies;
      if (!connection->active && connection->message_arrived) {
        peer_confirms(id);
      }
    }
  }

  [[nodiscard]] Result<verbs::ConnectionId> connect(Instant /*now*/, const IpAddress& server, uint16_t port,
                                                    const verbs::ConnectionOptions& options) override {
    Connection& connection = add();
    connection.active = true;
    connection.announced = true;
    connection.peer = server;
    connection.port = port;
    take_options(connection, options);
    connection.qp = std::make_unique<FakeQueuePair>();
    return connection.id;
  }
  void establish(Instant /*now*/, verbs::ConnectionId id) override {
    Connection* connection = use(id, "establish()");
    if (connection != nullptr && connection->active && connection->state == State::kAnswered) {
      connection->state = State::kEstablished;
    } else if (connection != nullptr && connection->state != State::kOver) {
      violate("establish() without an answer", id);
    }
  }

  void disconnect(Instant /*now*/, verbs::ConnectionId id) override {
    Connection* connection = use(id, "disconnect()");
    if (connection == nullptr) {
      return;
    }
    ++connection->disconnects;
    if (connection->state != State::kOver) {
      connection->state = State::kParting;
    }
  }
  // Of an id that reject() has ended: harmless, so that the user has one way out for all connections that it began.
  void destroy(verbs::ConnectionId id) override {
    Connection* connection = at(id).rejected && !at(id).destroyed ? &of(id) : use(id, "destroy()");
    if (connection != nullptr) {
      connection->destroyed = true;
      connection->qp.reset();
    }
  }

  [[nodiscard]] bool poll_ready(verbs::ReadyQueuePair& out) override {
    const auto found = std::ranges::find_if(connections_, is_ready);
    if (found == connections_.end()) {
      return false;
    }
    found->ready = false;
    found->error_told = found->qp->in_error();
    out = {found->qp.get(), found->options.context};
    return true;
  }
  [[nodiscard]] uint32_t peek_ready(std::span<uint64_t> out) const override {
    uint32_t count = 0;
    for (const Connection& connection : connections_) {
      if (is_ready(connection) && count < out.size()) {
        out[count++] = connection.options.context;
      }
    }
    return count;
  }

  [[nodiscard]] verbs::QueuePairInfo describe(verbs::ConnectionId id) const override {
    verbs::QueuePairInfo info;
    if (is_dead(at(id))) {
      violate("describe() of a dead id", id);
    } else if (at(id).qp != nullptr) {
      info.local_qpn = verbs::Qpn(static_cast<uint32_t>(id.value()));
      info.error = at(id).error;
    }
    return info;
  }
  [[nodiscard]] uint32_t log_capacity() const override { return 0; }
  [[nodiscard]] uint32_t copy_log(std::span<verbs::TransportEvent> /*out*/) const override { return 0; }
  [[nodiscard]] uint32_t live_count() const override {
    return static_cast<uint32_t>(
        std::ranges::count_if(connections_, [](const Connection& each) { return each.state != State::kOver; }));
  }

  [[nodiscard]] Instant next_deadline() const override { return deadline; }
  void on_deadline(Instant now) override { deadline = deadline <= now ? Instant::never() : deadline; }

 private:
  struct Event {
    verbs::ConnectionEvent event;
    std::vector<uint8_t> private_data;
  };
  static constexpr uint64_t kFirstId = 7000;  // no slot and no context of a user

  static bool is_dead(const Connection& connection) { return connection.destroyed || connection.rejected.has_value(); }
  // The user may have closed it behind our back.
  static bool is_ready(const Connection& connection) {
    return connection.qp != nullptr && (connection.ready || (connection.qp->in_error() && !connection.error_told));
  }
  Connection& add() {
    Connection& connection = connections_.emplace_back();
    connection.id = verbs::ConnectionId(kFirstId + connections_.size() - 1);
    return connection;
  }
  Connection& of(verbs::ConnectionId id) { return connections_[id.value() - kFirstId]; }
  Connection* use(verbs::ConnectionId id, std::string_view what) {
    if (is_dead(of(id)) || !of(id).announced) {
      violate(std::string(what) + " of a dead id", id);
      return nullptr;
    }
    return &of(id);
  }
  static void take_options(Connection& connection, const verbs::ConnectionOptions& options) {
    connection.private_data.assign(options.private_data.begin(), options.private_data.end());
    connection.options = options;
    connection.options.private_data = connection.private_data;
  }
  // The user is told, unless it has ended the connection itself or never heard of it.
  void end(Connection& connection, Kind kind, const verbs::ConnectionEvent& why = {}) {
    const bool went_on = connection.state != State::kParting && connection.state != State::kOver;
    connection.state = State::kOver;
    if (!connection.announced) {
      std::erase_if(events_, [&](const Event& each) { return each.event.connection == connection.id; });
    } else if (went_on) {
      verbs::ConnectionEvent& event = post(connection, kind, why.private_data);
      event.rejection = why.rejection;
      event.cause = why.cause;
    }
  }
  verbs::ConnectionEvent& post(const Connection& connection, Kind kind, Bytes private_data = {}) {
    auto found = std::ranges::find_if(events_, [&](const Event& each) { return each.event.connection == connection.id; });
    if (found == events_.end()) {
      events_.emplace_back();
      found = events_.end() - 1;
    }
    *found = Event{.event = {.kind = kind, .connection = connection.id, .context = connection.options.context},
                   .private_data = {private_data.begin(), private_data.end()}};
    return found->event;
  }
  void violate(std::string_view what, verbs::ConnectionId id) const {
    violations_.push_back(std::string(what) + ": connection " + std::to_string(id.value()));
  }

  std::deque<Connection> connections_;  // by id
  std::deque<Event> events_;
  Event told_;  // by the last poll_event()
  std::optional<verbs::ConnectionId> undecided_;
  std::vector<uint16_t> ports_;
  mutable std::vector<std::string> violations_;
};

}  // namespace cw::test
