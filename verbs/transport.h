// What the gateway and the client role know of a wire: connections come and go as events, and each has a QueuePair. One object
// serves one core, which makes all calls; none calls back. The wires are RoCEv2 (gateway/node), iWARP (iwarp/) and rdma-core's
// (rnic/); a test's is tests/support/fake_transport.h.
//
// A turn of the user: poll_event() until there is none, poll_ready() until there is none, on_deadline(). The user sees no
// packets: the shell that runs the transport hands them in and takes them out.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "verbs/connection.h"
#include "verbs/queue_pair_info.h"
#include "verbs/transport_event.h"

namespace cw::verbs {

struct ReadyQueuePair {
  QueuePair* queue_pair = nullptr;
  uint64_t context = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;

  // Requests for `port` become kConnectRequest events; others are refused with kNoListener. Listening twice is fine. kLimit: too
  // many ports.
  [[nodiscard]] virtual Status listen(uint16_t port) = 0;
  // Stops new requests; connections stay as they are.
  virtual void unlisten(uint16_t port) = 0;

  [[nodiscard]] virtual bool has_events() const = 0;
  // Takes out one event; false when there is none. A later event of a connection replaces an earlier one that was not polled.
  [[nodiscard]] virtual bool poll_event(Instant now, ConnectionEvent& out) = 0;

  // Passive. From here on the queue pair takes receives and the peer's messages; other work is not posted before kEstablished.
  // kNoResources: no queue pair for it, and reject() is to be called. kBadState: the peer gave up meanwhile.
  [[nodiscard]] virtual Result<AcceptedConnection> accept(Instant now, ConnectionId connection,
                                                          const ConnectionOptions& options) = 0;
  // Instead of accept(), or when it failed. `private_data`: at most kPrivateDataMax bytes for the peer's user. The id is dead
  // afterwards; destroy() does nothing then.
  virtual void reject(Instant now, ConnectionId connection, RejectReason reason, Bytes private_data) = 0;
  // The first message of the peer may come before what makes the connection established (rdma_notify). When the queue pair has
  // been given by poll_ready() before kEstablished: looks whether that is so, and makes the event.
  virtual void notify(Instant now, ConnectionId connection) = 0;

  // Active. kBadValue: no own address of that family. kNoResources: too many connections.
  [[nodiscard]] virtual Result<ConnectionId> connect(Instant now, const IpAddress& server, uint16_t port,
                                                     const ConnectionOptions& options) = 0;
  // Answers kConnectResponse: the peer may send from here on.
  virtual void establish(Instant now, ConnectionId connection) = 0;

  // Tells the peer that the connection is over, whatever its state. destroy() follows.
  virtual void disconnect(Instant now, ConnectionId connection) = 0;
  // Ends the queue pair, without completions for what is pending, and the id. Says nothing to the peer: disconnect() does.
  virtual void destroy(ConnectionId connection) = 0;

  // Passive. A process may be followed by another one whose transport goes on with the connection: the peer notices a pause.
  //
  //   pause() -> save() -> destroy()   |   in the next process: resume(), as if established
  //
  // No message of the peer is begun any more; what has begun is finished. False: on this wire connections end with their process.
  [[nodiscard]] virtual bool pause(ConnectionId /*connection*/) { return false; }
  // Appends what the next process needs. False: something is under way still. True: the peer is not told when the connection ends
  // here; only destroy() may follow.
  [[nodiscard]] virtual bool save(ConnectionId /*connection*/, std::vector<uint8_t>& /*out*/) { return false; }
  // `saved`: of a process with the same number of cores and the same key for queue pair numbers. `options` count as in accept(),
  // without private data. kBadValue: it is nothing that save() has written, or for an address that is not ours any more.
  // kNoResources: no room; the peer is told that the connection is over.
  [[nodiscard]] virtual Result<ResumedConnection> resume(Instant /*now*/, Bytes /*saved*/, const ConnectionOptions& /*options*/) {
    return fail(Error::kUnsupported);
  }

  // A queue pair with completions or a change of state; each once until the next news. False when there is none.
  [[nodiscard]] virtual bool poll_ready(ReadyQueuePair& out) = 0;
  // The contexts of those that poll_ready() is going to give, as far as `out` reaches; returns how many.
  [[nodiscard]] virtual uint32_t peek_ready(std::span<uint64_t> out) const = 0;

  // Of connections that have a queue pair; else what is known.
  [[nodiscard]] virtual QueuePairInfo describe(ConnectionId connection) const = 0;
  // What has happened out of the ordinary, oldest first: the youngest entries, as far as `out` reaches. Returns how many.
  [[nodiscard]] virtual uint32_t log_capacity() const = 0;
  [[nodiscard]] virtual uint32_t copy_log(std::span<TransportEvent> out) const = 0;
  // Connections of both sides that the peer may not know to be over, half-open ones included.
  [[nodiscard]] virtual uint32_t live_count() const = 0;

  // Of what on_deadline() does, as looking for a server's hardware address. The shell keeps the deadlines of the wire itself.
  [[nodiscard]] virtual Instant next_deadline() const = 0;
  virtual void on_deadline(Instant now) = 0;
};

}  // namespace cw::verbs
