// Sends calls over a connection of our own client endpoint, on either wire: chunks laid out as the Placement says, memory around
// them watched. Blocking: the poll core turns until the replies are there.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "apps/client/client_wire.h"
#include "apps/nfs/call.h"
#include "dataplane/core_loop.h"
#include "gateway/client/client.h"

namespace cw::nfs {

// What a connection's two sides agree on, which is set before the first call.
struct Profile {
  const char* name = "";
  uint32_t inline_bytes = 4096;
  bool remote_invalidate = true;
  bool silent = false;         // no private data: 1024 bytes inline, no remote invalidation
  uint32_t segment_bytes = 0;  // longest segment of a chunk; 0 = one segment however long
  Duration call_timeout = Duration::seconds(20);
};

class LiveCaller final : public Caller, private dataplane::CoreApp {
 public:
  // `wire` outlives the caller, which alone makes transports on it meanwhile. `path_mtu_bytes`: of RoCE. `calls_max`: asked for
  // as credits.
  LiveCaller(client::ClientWire& wire, uint32_t path_mtu_bytes, uint32_t calls_max);
  ~LiveCaller() override;

  // Empty, or why there is no connection.
  [[nodiscard]] std::string connect(const IpAddress& server, uint16_t port, const Profile& profile);
  void disconnect();
  [[nodiscard]] bool is_connected() const { return connected_; }
  // Why it no longer is.
  [[nodiscard]] const std::string& ending() const { return problem_; }
  [[nodiscard]] std::vector<Reply> exchange(std::span<const Request> requests) override;

  // Sends one call and disconnects after `stay`, whatever became of it by then. Returns its XID.
  [[nodiscard]] uint32_t send_and_leave(const Request& request, Duration stay);

  // Of the connection; precondition: there was one.
  [[nodiscard]] const rpcrdma::RpcRdmaStats& stats() const { return client_->rpcrdma_stats(); }
  [[nodiscard]] const rpcrdma::InlineThresholds& thresholds() const { return thresholds_; }
  [[nodiscard]] uint32_t credits() const { return credits_; }                // last granted
  [[nodiscard]] uint32_t in_flight_max() const { return in_flight_max_; }    // at once, so far
  void interrupt() { interrupted_.store(true, std::memory_order_relaxed); }  // from a signal: every wait ends

 private:
  struct Sent;
  bool turn(Instant now) override;
  [[nodiscard]] bool has_input() const override { return interrupted_.load(std::memory_order_relaxed); }
  [[nodiscard]] Instant next_deadline() const override;
  void submit(Instant now);
  void finish(rpcrdma::ClientReply& reply);
  void lose();

  client::ClientWire& wire_;
  uint32_t path_mtu_bytes_;
  uint32_t calls_max_;
  dataplane::TscClock clock_;
  dataplane::Wakeup wakeup_;
  std::unique_ptr<dataplane::CoreLoop> loop_;
  std::unique_ptr<verbs::Transport> transport_;
  std::optional<client::Client> client_;
  client::ClientId id_;
  rpcrdma::InlineThresholds thresholds_;
  std::string problem_;
  bool connected_ = false;
  uint32_t credits_ = 0;
  uint32_t in_flight_max_ = 0;
  std::vector<Sent> sent_;  // one per request of this exchange
  size_t next_ = 0;         // first that has not been submitted
  size_t open_ = 0;         // not answered, submitted or not
  std::atomic<bool> stop_{false};
  std::atomic<bool> interrupted_{false};
};

}  // namespace cw::nfs
