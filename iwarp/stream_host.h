// What the iWARP transport asks of TCP: the kernel's (dataplane/sockets), or a simulated one. The host does what it is asked to
// and no more; what happens to a TCP connection it tells by the functions on_...() of IwarpTransport.
#pragma once

#include <cstdint>
#include <optional>

#include "base/ip_address.h"
#include "base/result.h"
#include "base/strong_id.h"
#include "base/time.h"

namespace cw::iwarp {

// A TCP connection, from on_accepted() or connect() to release(). Never used again while the process lives.
struct StreamIdTag {};
using StreamId = StrongId<StreamIdTag, uint64_t>;

enum class ReleaseKind : uint8_t {
  kClose,  // what was written still arrives
  kReset,  // the peer is to notice at once
};

// What TCP knows of a connection's path.
struct TcpPath {
  uint32_t mss_bytes = 0;
  Duration round_trip;                // smoothed
  uint64_t retransmits = 0;           // segments sent again
  uint64_t unacknowledged_bytes = 0;  // sent, or about to be
  uint64_t congestion_window_bytes = 0;
};

// What the host counts over all its connections.
struct TcpStats {
  uint64_t retransmits = 0;      // segments; those of live connections as of their last look
  uint64_t blocked_writes = 0;   // a socket's buffer was full
  uint64_t accept_failures = 0;  // descriptors or memory had run out
  uint64_t listen_failures = 0;  // addresses of a port that could not be taken
};

class StreamHost {
 public:
  virtual ~StreamHost() = default;

  // On every own address. Listening twice is fine. kLimit: too many ports. kNoResources: the port is taken, or not ours to take.
  [[nodiscard]] virtual Status listen(uint16_t port) = 0;
  virtual void unlisten(uint16_t port) = 0;
  // on_connected() or on_lost() is the answer, later. kBadValue: there is no way to that address.
  [[nodiscard]] virtual Status connect(StreamId stream, const IpAddress& server, uint16_t port) = 0;
  // Nothing more is written: FIN. What the peer sends is still read.
  virtual void finish(StreamId stream) = 0;
  // The transport is done with the connection, and its id is dead. Not told by on_lost().
  virtual void release(StreamId stream, ReleaseKind kind) = 0;
  // nullopt: nothing is known.
  [[nodiscard]] virtual std::optional<TcpPath> path(StreamId /*stream*/) const { return std::nullopt; }
  // May ask the kernel about some of the connections, each time about others.
  [[nodiscard]] virtual TcpStats look_at_tcp() { return {}; }
};

}  // namespace cw::iwarp
