// Peers on a wire, RoCE or a verbs::Transport: makes their queue pairs and connections, as listener or as the one who calls, and
// ends them. Sans-I/O.
//
// A session is one Peer with its connections. A listener makes a session for the first connection of a client and gives it the
// following ones for as long as its Peer wants more (perftest: one for control, then one per queue pair). A caller opens as many
// as its Peer wants, and tries again when it is refused: a perftest server listens anew between control and data connections.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gateway/node/node.h"
#include "tests/peers/peer.h"
#include "verbs/transport.h"

namespace cw::peers {

struct PeerHostOptions {
  uint32_t path_mtu_bytes = 4096;  // of connections that we open
  uint8_t ack_timeout = 14;        // code, at least; what the other side may sit on an ACK counts when that is longer
  Duration connect_timeout = Duration::seconds(10);
  uint32_t send_window_packets = 128;
  // Idle time after which the other side is asked whether it is there. One that never answers has left without a word: rping ends
  // right behind its DREQ, which Linux then does not repeat when it is lost.
  Duration keepalive = Duration::seconds(5);
  // On a verbs::Transport: between set-up and the first message of one who calls (client::ClientWire::settling_time()).
  Duration settling_time;
};

// What both wires share: sessions and what becomes of them.
class PeerSessions {
 public:
  using Factory = std::function<std::unique_ptr<Peer>()>;

  virtual ~PeerSessions() = default;
  PeerSessions(const PeerSessions&) = delete;
  PeerSessions& operator=(const PeerSessions&) = delete;

  // Listens; each of the first `sessions_max` clients gets a Peer of its own. Once per host.
  [[nodiscard]] Status serve(uint16_t port, uint32_t sessions_max, Factory factory);
  // Calls. The session is there at once; what becomes of it is in its Peer.
  void open(Instant now, const IpAddress& server, uint16_t port, std::unique_ptr<Peer> peer);
  // Acts on whatever the wire has; call after each burst. True when something moved.
  bool run(Instant now);
  [[nodiscard]] Instant next_deadline() const;

  // Every session wanted has been there and is over, connections included.
  [[nodiscard]] bool is_over() const;
  [[nodiscard]] size_t session_count() const { return sessions_.size(); }
  [[nodiscard]] Peer& peer(size_t session) { return *sessions_[session]->peer; }
  // Connections that were opened or accepted, all sessions together.
  [[nodiscard]] uint32_t connections_made() const { return connections_made_; }
  // Fails what is still running.
  void give_up(const std::string& why);

 protected:
  enum class State : uint8_t { kFree, kWaiting, kConnecting, kOpen, kEnded };
  struct Connection {
    State state = State::kFree;
    uint32_t index = 0;
    Instant retry_at;
    // RoCE
    cm::ConnectionId cm_id;
    cm::CmAddress address;
    wire::Psn first_receive_psn;
    rc::RcQp* qp = nullptr;
    // A verbs::Transport
    std::optional<verbs::ConnectionId> id;
    Instant settled_at = Instant::never();

    [[nodiscard]] bool lives() const { return state == State::kConnecting || state == State::kOpen; }
  };
  struct Session {
    std::unique_ptr<Peer> peer;
    bool calls = false;
    IpAddress other;
    uint16_t port = 0;
    Instant connect_deadline;
    Instant leave_at = Instant::never();
    bool left = false;
    std::vector<Connection> connections;
  };
  struct Place {
    Session* session = nullptr;
    Connection* connection = nullptr;
  };

  explicit PeerSessions(const PeerHostOptions& options) : options_(options) {}
  // Nowhere: as many sessions as wanted have been there.
  [[nodiscard]] Place place_for(const IpAddress& client);
  template <typename Is>
  [[nodiscard]] Place find(Is&& is) {
    for (auto& session : sessions_) {
      for (Connection& connection : session->connections) {
        if (connection.lives() && is(connection)) {
          return Place{session.get(), &connection};
        }
      }
    }
    return Place{};
  }
  void on_refused(Instant now, Session& session, Connection& connection, const std::string& reason);
  void on_disconnected(Instant now, Session& session, Connection& connection);

  PeerHostOptions options_;
  uint32_t connections_made_ = 0;
  std::vector<std::unique_ptr<Session>> sessions_;

 private:
  // The wire's part.
  [[nodiscard]] virtual Status listen(uint16_t port) = 0;
  [[nodiscard]] virtual bool take_events(Instant now) = 0;
  virtual void call(Instant now, Session& session, Connection& connection) = 0;
  // A connection that has a queue pair.
  virtual void watch(Instant now, Session& session, Connection& connection) = 0;
  virtual void disconnect(Instant now, Connection& connection) = 0;
  virtual void drop_qp(Connection& connection) = 0;

  void step(Instant now, Session& session);
  void leave(Instant now, Session& session);

  Factory factory_;
  uint32_t serve_max_ = 0;
  uint32_t served_ = 0;
};

class PeerHost final : public PeerSessions {
 public:
  PeerHost(const PeerHostOptions& options, node::Node& node, RandomSource& random);
  ~PeerHost() override;

 private:
  [[nodiscard]] Status listen(uint16_t port) override;
  [[nodiscard]] bool take_events(Instant now) override;
  void call(Instant now, Session& session, Connection& connection) override;
  void watch(Instant now, Session& session, Connection& connection) override;
  void disconnect(Instant now, Connection& connection) override;
  void drop_qp(Connection& connection) override;

  void on_event(Instant now, const cm::CmEvent& event);
  void on_request(Instant now, const cm::CmEvent& event, const cm::ConnectRequest& request);
  void on_reply(Instant now, Session& session, Connection& connection, const cm::ConnectReply& reply);
  [[nodiscard]] bool make_qp(Session& session, Connection& connection);

  node::Node& node_;
  RandomSource& random_;
};

// The same on a verbs::Transport, such as iWARP. It outlives the host.
class TransportPeerHost final : public PeerSessions {
 public:
  TransportPeerHost(const PeerHostOptions& options, verbs::Transport& transport) : PeerSessions(options), transport_(transport) {}
  ~TransportPeerHost() override;

 private:
  [[nodiscard]] Status listen(uint16_t port) override { return transport_.listen(port); }
  [[nodiscard]] bool take_events(Instant now) override;
  void call(Instant now, Session& session, Connection& connection) override;
  void watch(Instant now, Session& session, Connection& connection) override;
  void disconnect(Instant now, Connection& connection) override;
  void drop_qp(Connection& connection) override;

  void on_event(Instant now, const verbs::ConnectionEvent& event);
  void on_request(Instant now, const verbs::ConnectionEvent& event);
  [[nodiscard]] static verbs::ConnectionOptions options_of(const Session& session, const Connection& connection);

  verbs::Transport& transport_;
};

}  // namespace cw::peers
