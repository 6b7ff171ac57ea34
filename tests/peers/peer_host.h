// Peers on a Node: makes their queue pairs and connections, as listener or as the one who calls, and ends them. Sans-I/O.
//
// A session is one Peer with its connections. A listener makes a session for the first connection of a client and gives it the
// following ones for as long as its Peer wants more (perftest: one for control, then one per queue pair). A caller opens as many
// as its Peer wants, and tries again when it is refused: a perftest server listens anew between control and data connections.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gateway/node/node.h"
#include "tests/peers/peer.h"

namespace cw::peers {

struct PeerHostOptions {
  uint32_t path_mtu_bytes = 4096;  // of connections that we open
  uint8_t ack_timeout = 14;        // code, at least; what the other side may sit on an ACK counts when that is longer
  Duration connect_timeout = Duration::seconds(10);
  uint32_t send_window_packets = 128;
  // Idle time after which the other side is asked whether it is there. One that never answers has left without a word: rping ends
  // right behind its DREQ, which Linux then does not repeat when it is lost.
  Duration keepalive = Duration::seconds(5);
};

class PeerHost {
 public:
  using Factory = std::function<std::unique_ptr<Peer>()>;

  PeerHost(const PeerHostOptions& options, node::Node& node, RandomSource& random);
  ~PeerHost();
  PeerHost(const PeerHost&) = delete;
  PeerHost& operator=(const PeerHost&) = delete;

  // Listens; each of the first `sessions_max` clients gets a Peer of its own. Once per host.
  [[nodiscard]] Status serve(uint16_t port, uint32_t sessions_max, Factory factory);
  // Calls. The session is there at once; what becomes of it is in its Peer.
  void open(Instant now, const IpAddress& server, uint16_t port, std::unique_ptr<Peer> peer);
  // Acts on whatever the node has; call after each burst. True when something moved.
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

 private:
  enum class State : uint8_t { kFree, kWaiting, kConnecting, kOpen, kEnded };
  struct Connection {
    State state = State::kFree;
    uint32_t index = 0;
    Instant retry_at;
    cm::ConnectionId cm_id;
    cm::CmAddress address;
    wire::Psn first_receive_psn;
    rc::RcQp* qp = nullptr;
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

  void on_event(Instant now, const cm::CmEvent& event);
  void on_request(Instant now, const cm::CmEvent& event, const cm::ConnectRequest& request);
  [[nodiscard]] Place place_for(const cm::CmEvent& event);
  void on_reply(Instant now, Session& session, Connection& connection, const cm::ConnectReply& reply);
  void on_refused(Instant now, Session& session, Connection& connection, const std::string& reason);
  void on_disconnected(Instant now, Session& session, Connection& connection);
  [[nodiscard]] bool make_qp(Session& session, Connection& connection);
  void drop_qp(Connection& connection);
  void call(Instant now, Session& session, Connection& connection);
  void step(Instant now, Session& session);
  void watch(Instant now, Session& session, Connection& connection);
  void leave(Instant now, Session& session);
  [[nodiscard]] Place find(cm::ConnectionId id);

  PeerHostOptions options_;
  node::Node& node_;
  RandomSource& random_;
  Factory factory_;
  uint16_t serve_port_ = 0;
  uint32_t serve_max_ = 0;
  uint32_t served_ = 0;
  uint32_t connections_made_ = 0;
  std::vector<std::unique_ptr<Session>> sessions_;
};

}  // namespace cw::peers
