// One side of a test protocol on reliable connections, without I/O: rping's and perftest's, server and client.
//
// The host (PeerHost on a Node, or a test) makes queue pairs and connections; the peer says how many it wants, posts and polls.
// It never waits: run() does what can be done now. It ends once, as kDone or kFailed with a sentence that says why.
#pragma once

#include <cstdint>
#include <string>

#include "base/time.h"
#include "verbs/memory_region.h"
#include "verbs/queue_pair.h"

namespace cw::peers {

enum class Outcome : uint8_t { kRunning, kDone, kFailed };

// What one queue pair of a peer needs of its creation (rc::RcOptions without what is the host's business).
struct QpProfile {
  uint32_t receive_bytes_max = 0;
  uint32_t send_queue_depth = 256;
  verbs::RemoteAccess remote_access = verbs::RemoteAccess::kNone;
  uint8_t responder_resources = 0;  // READs and atomics taken from the peer at a time
  uint8_t initiator_depth = 0;      // READs and atomics sent at a time
  verbs::ProtectionDomain domain;   // whose memory the other side may name
};

class Peer {
 public:
  virtual ~Peer() = default;

  // Connections that the protocol wants to have been made so far; the number grows while it runs.
  [[nodiscard]] virtual uint32_t connections_wanted() const = 0;
  [[nodiscard]] virtual QpProfile profile(uint32_t index) const = 0;
  // A queue pair in INIT for connection `index`: receives are posted before the other side can send.
  virtual void attach(uint32_t index, verbs::QueuePair& qp) = 0;
  // A connection attempt came to nothing and its queue pair is gone; the host may attach another one.
  virtual void detach(uint32_t index) = 0;
  virtual void on_connected(Instant now, uint32_t index) = 0;
  // The other side has ended the connection: the queue pair is gone.
  virtual void on_disconnected(Instant now, uint32_t index) = 0;
  virtual void run(Instant now) = 0;
  // How long after kDone the other side may need us to stay: it still waits for acknowledgements, or is the one to leave.
  [[nodiscard]] virtual Duration linger() const = 0;

  [[nodiscard]] Outcome outcome() const { return outcome_; }
  // Why it is kFailed.
  [[nodiscard]] const std::string& failure() const { return failure_; }
  // Ends it; the host uses it for failures that are the transport's. Only the first end counts.
  void fail(std::string why) {
    if (outcome_ == Outcome::kRunning) {
      outcome_ = Outcome::kFailed;
      failure_ = std::move(why);
    }
  }

 protected:
  void finish() {
    if (outcome_ == Outcome::kRunning) {
      outcome_ = Outcome::kDone;
    }
  }

 private:
  Outcome outcome_ = Outcome::kRunning;
  std::string failure_;
};

}  // namespace cw::peers
