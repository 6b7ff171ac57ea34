// TCP without a network, for tests of the iWARP transport: hosts whose connections are pairs of byte queues. Bytes arrive in
// pieces of any size, as many or as few as the test wants; a connection can be cut at any byte, from either end.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/assert.h"
#include "base/random.h"
#include "iwarp/transport.h"

namespace cw::test {

class StreamNet;

// One end of a network: the host of a transport, or a test that plays a peer byte by byte.
class StreamNetHost final : public iwarp::StreamHost {
 public:
  StreamNetHost(StreamNet& net, const IpAddress& address) : net_(net), address_(address) {}

  void attach(iwarp::IwarpTransport& transport) { transport_ = &transport; }
  [[nodiscard]] iwarp::IwarpTransport* transport() { return transport_; }
  [[nodiscard]] const IpAddress& address() const { return address_; }
  [[nodiscard]] bool listens(uint16_t port) const { return std::ranges::find(ports_, port) != ports_.end(); }

  [[nodiscard]] Status listen(uint16_t port) override {
    ports_.push_back(port);
    return {};
  }
  void unlisten(uint16_t port) override { std::erase(ports_, port); }
  [[nodiscard]] Status connect(iwarp::StreamId stream, const IpAddress& server, uint16_t port) override;
  void finish(iwarp::StreamId stream) override;
  void release(iwarp::StreamId stream, iwarp::ReleaseKind kind) override;

 private:
  StreamNet& net_;
  IpAddress address_;
  iwarp::IwarpTransport* transport_ = nullptr;
  std::vector<uint16_t> ports_;
};

class StreamNet {
 public:
  // One direction's half of a connection.
  struct End {
    StreamNetHost* host = nullptr;          // nullptr: the test itself
    std::optional<iwarp::StreamId> stream;  // of the host's transport; none: not told yet, or over
    std::deque<uint8_t> arriving;           // written by the other end, not read by this one
    bool fin_arriving = false;
    bool fin_told = false;
    bool reset_arriving = false;
    bool has_released = false;
  };
  struct Connection {
    std::array<End, 2> ends;  // 0: who called
    uint16_t port = 0;
    bool is_up = false;
  };

  explicit StreamNet(uint64_t seed = 1) : random_(seed) {}

  Instant now = Instant::from_ns(1'000'000'000);
  uint32_t mss_bytes = 1460;
  uint32_t piece_bytes_max = 0;       // of what arrives at a time; 0: everything
  uint64_t buffer_bytes_max = 65536;  // that may be on their way; a sender waits beyond it

  StreamNetHost& add_host(uint32_t ipv4) { return hosts_.emplace_back(*this, IpAddress::v4(ipv4)); }
  // The test calls a host itself, without a transport.
  Connection& call(StreamNetHost& server, uint16_t port, uint32_t from_ipv4 = 0x0a00'00fe) {
    Connection& connection = connections_.emplace_back();
    connection.port = port;
    connection.ends[1].host = &server;
    connection.is_up = true;
    connection.ends[1].stream = server.transport()->on_accepted(
        now, IpAddress::v4(from_ipv4), static_cast<uint16_t>(40000 + connections_.size()), port, mss_bytes);
    connection.ends[0].reset_arriving = !connection.ends[1].stream;
    return connection;
  }
  void write(Connection& connection, Bytes bytes) {
    connection.ends[1].arriving.insert(connection.ends[1].arriving.end(), bytes.begin(), bytes.end());
  }
  // What the transport under test has written to the test's end.
  [[nodiscard]] std::vector<uint8_t> read(Connection& connection) {
    std::deque<uint8_t>& arrived = connection.ends[0].arriving;
    std::vector<uint8_t> bytes(arrived.begin(), arrived.end());
    arrived.clear();
    return bytes;
  }
  // The connection breaks for both.
  void cut(Connection& connection) {
    for (End& end : connection.ends) {
      end.reset_arriving = true;
    }
  }
  [[nodiscard]] std::deque<Connection>& connections() { return connections_; }

  // Moves bytes and tells what has happened, once for every connection. False: nothing did.
  bool turn() {
    bool moved = false;
    for (size_t i = 0; i < connections_.size(); ++i) {
      moved |= turn(connections_[i]);
    }
    for (StreamNetHost& host : hosts_) {
      moved |= host.transport() != nullptr && write_out(*host.transport());
    }
    return moved;
  }
  void advance(Duration time) {
    now = now + time;
    for (StreamNetHost& host : hosts_) {
      if (host.transport() != nullptr) {
        host.transport()->on_deadline(now);
      }
    }
  }

 private:
  friend class StreamNetHost;

  [[nodiscard]] std::pair<Connection*, uint32_t> find(const StreamNetHost& host, iwarp::StreamId stream) {
    for (Connection& connection : connections_) {
      for (uint32_t end = 0; end < 2; ++end) {
        if (connection.ends[end].host == &host && connection.ends[end].stream == stream) {
          return {&connection, end};
        }
      }
    }
    return {nullptr, 0};
  }

  bool turn(Connection& connection) {
    bool moved = false;
    if (!connection.is_up) {
      connection.is_up = true;
      moved = true;
      End& caller = connection.ends[0];
      End& called = connection.ends[1];
      if (called.host != nullptr && called.host->transport() != nullptr && called.host->listens(connection.port)) {
        called.stream = called.host->transport()->on_accepted(now, caller.host->address(), 40000, connection.port, mss_bytes);
      }
      if (!called.stream) {
        caller.reset_arriving = true;
      } else if (caller.stream) {
        caller.host->transport()->on_connected(now, *caller.stream, mss_bytes);
      }
    }
    for (End& end : connection.ends) {
      moved |= deliver(end);
    }
    return moved;
  }

  bool deliver(End& end) {
    if (end.host == nullptr || !end.stream) {
      return false;
    }
    iwarp::IwarpTransport& transport = *end.host->transport();
    if (end.reset_arriving) {
      const iwarp::StreamId stream = *end.stream;
      end.stream.reset();
      transport.on_lost(now, stream, iwarp::StreamErrorCause::kTcpReset);
      return true;
    }
    bool moved = false;
    while (end.stream && !end.arriving.empty()) {
      std::array<MutableBytes, 17> space;
      const uint32_t pieces = transport.receive_space(now, *end.stream, space);
      if (pieces == 0) {
        return moved;
      }
      size_t limit = end.arriving.size();
      if (piece_bytes_max != 0) {
        limit = std::min<size_t>(limit, 1 + random_.next_below(piece_bytes_max));
      }
      uint32_t count = 0;
      for (uint32_t i = 0; i < pieces && count < limit; ++i) {
        const auto take = static_cast<uint32_t>(std::min(space[i].size(), limit - count));
        std::copy_n(end.arriving.begin(), take, space[i].begin());
        end.arriving.erase(end.arriving.begin(), end.arriving.begin() + take);
        count += take;
      }
      transport.on_received(now, *end.stream, count);
      moved = true;
    }
    if (end.stream && end.fin_arriving && !end.fin_told) {
      end.fin_told = true;
      transport.on_end_of_stream(now, *end.stream);
      moved = true;
    }
    return moved;
  }

  bool write_out(iwarp::IwarpTransport& transport) {
    bool moved = false;
    for (auto& connection : connections_) {
      for (uint32_t i = 0; i < 2; ++i) {
        moved |= flush(transport, connection, i);
      }
    }
    iwarp::StreamId stream;
    while (transport.poll_sendable(now, stream)) {
      for (auto& connection : connections_) {
        for (uint32_t i = 0; i < 2; ++i) {
          if (connection.ends[i].stream == stream) {
            moved |= flush(transport, connection, i);
          }
        }
      }
    }
    return moved;
  }

  bool flush(iwarp::IwarpTransport& transport, Connection& connection, uint32_t from) {
    End& end = connection.ends[from];
    End& other = connection.ends[1 - from];
    bool moved = false;
    while (end.host != nullptr && end.host->transport() == &transport && end.stream) {
      std::array<Bytes, 8> pieces;
      const uint32_t count = transport.send_pieces(*end.stream, pieces);
      uint64_t room = buffer_bytes_max > other.arriving.size() ? buffer_bytes_max - other.arriving.size() : 0;
      if (piece_bytes_max != 0) {
        room = std::min<uint64_t>(room, 1 + random_.next_below(piece_bytes_max));
      }
      uint64_t written = 0;
      for (uint32_t i = 0; i < count && room > 0; ++i) {
        const size_t size = std::min<size_t>(pieces[i].size(), room);
        other.arriving.insert(other.arriving.end(), pieces[i].begin(), pieces[i].begin() + static_cast<ptrdiff_t>(size));
        written += size;
        room -= size;
      }
      if (written == 0) {
        break;
      }
      moved = true;
      transport.on_written(now, *end.stream, written);
    }
    return moved;
  }

  SeededRandom random_;
  std::deque<StreamNetHost> hosts_;
  std::deque<Connection> connections_;
};

inline Status StreamNetHost::connect(iwarp::StreamId stream, const IpAddress& server, uint16_t port) {
  StreamNet::Connection& connection = net_.connections_.emplace_back();
  connection.port = port;
  connection.ends[0].host = this;
  connection.ends[0].stream = stream;
  for (StreamNetHost& host : net_.hosts_) {
    if (host.address() == server) {
      connection.ends[1].host = &host;
    }
  }
  return {};
}

inline void StreamNetHost::finish(iwarp::StreamId stream) {
  const auto [connection, end] = net_.find(*this, stream);
  CW_ASSERT(connection != nullptr);
  connection->ends[1 - end].fin_arriving = true;
}

inline void StreamNetHost::release(iwarp::StreamId stream, iwarp::ReleaseKind kind) {
  const auto [connection, end] = net_.find(*this, stream);
  CW_ASSERT(connection != nullptr);
  connection->ends[end].stream.reset();
  connection->ends[end].arriving.clear();
  if (kind == iwarp::ReleaseKind::kReset) {
    connection->ends[1 - end].reset_arriving = true;
  } else {
    connection->ends[1 - end].fin_arriving = true;
  }
}

}  // namespace cw::test
