// Closed-loop load over a Client: so many connections, so many calls in flight on each, every answer checked, the next call at
// once.
//
// Sans-I/O like what it drives: causeway-load runs it on a poll core, the in-process bench and the system tests in memory.
// The shape of a call follows from its size, as a real client would choose: inline when call or result fits the inline
// threshold of the connection that it goes to, else data go by Read chunk and results come by Write chunk.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "control/client/client.h"
#include "rocev2/base/histogram.h"
#include "rpcrdma/backend/bench_program.h"
#include "rpcrdma/ulb/binding.h"

namespace cw::load {

using rpcrdma::BenchProcedure;

[[nodiscard]] std::optional<BenchProcedure> parse_operation(std::string_view name);  // to_string()'s names
[[nodiscard]] const char* to_string(BenchProcedure procedure) noexcept;

// What the client has to grant for it: calls of the server come in answer to CALLBACK alone.
[[nodiscard]] uint32_t reverse_credits_for(BenchProcedure procedure, uint32_t window) noexcept;

struct LoadOptions {
  wire::IpAddress server;
  uint16_t service_port = 20049;
  uint16_t services = 1;  // the n-th connection goes to service_port + n % services
  uint32_t connections = 1;
  uint32_t window = 16;  // calls in flight per connection; the server's credits may allow fewer
  BenchProcedure operation = BenchProcedure::kNull;
  uint32_t bytes = 0;  // data per call; NULL has none
  uint32_t inline_bytes = 4096;
  uint32_t verify_every = 1;  // check each n-th answer's data in full; the others by status and length only
  bool reconnect = false;     // a lost or refused connection is opened again, and the calls lost with it are sent again
};

struct LoadStats {
  uint64_t calls = 0;                                        // answered rightly
  uint64_t bytes = 0;                                        // data moved, both ways
  uint64_t wrong = 0;                                        // answered, with wrong content
  std::array<uint64_t, rpcrdma::kCallStatusCount> failed{};  // by rpcrdma::CallStatus, kReplied unused
  uint64_t refused = 0;                                      // connections
  uint64_t lost = 0;
  uint64_t resent = 0;       // calls sent again under their XIDs on a new connection
  uint64_t connected = 0;    // connections made, again ones included
  uint64_t called_back = 0;  // calls of the server that were answered (CALLBACK)
  Histogram latency;
};

class LoadDriver {
 public:
  LoadDriver(const LoadOptions& options, client::Client& client, BufferPool& pool);

  // Opens the connections.
  void start(Instant now);
  // Acts on events and answers and keeps the windows full. True when something happened.
  bool turn(Instant now);
  // No more calls; those in flight are still answered.
  void stop() { stopping_ = true; }
  // Calls again, on the connections that are there.
  void resume(Instant now);
  // Forgets what was counted: the end of a warm-up.
  void reset_stats();

  [[nodiscard]] const LoadStats& stats() const { return stats_; }
  [[nodiscard]] uint32_t in_flight() const { return in_flight_; }
  [[nodiscard]] uint32_t connected() const { return client_.connected_count(); }
  // Connections that were refused or lost and are not opened again.
  [[nodiscard]] uint32_t given_up() const { return given_up_; }
  [[nodiscard]] bool is_dead() const { return given_up_ == options_.connections; }
  // For the line that explains a failure; empty when nothing failed.
  [[nodiscard]] cm::RejectReason last_reject() const { return last_reject_; }
  [[nodiscard]] const rc::QpError& last_qp_error() const { return last_qp_error_; }

 private:
  struct Slot {
    uint32_t lane = 0;
    uint64_t sequence = 0;
    uint32_t xid = 0;
    bool resend = false;          // lost with its connection: goes first on the next one, under its XID
    bool placed = false;          // a Write chunk was offered
    std::vector<uint8_t> data;    // what is sent
    std::vector<uint8_t> result;  // where results are placed
  };
  // One connection's place; it may be served by several connections over time.
  struct Lane {
    std::optional<client::ClientId> id;
    std::vector<uint32_t> free_slots;
    bool hungry = false;
    Instant retry = Instant::never();
  };

  void open(Instant now, uint32_t lane);
  void on_event(Instant now, const client::ClientEvent& event);
  void on_reply(Instant now, rpcrdma::ClientReply& reply);
  void on_lost(uint32_t slot);
  void fill(Instant now, Lane& lane, uint32_t index);
  [[nodiscard]] bool submit(Instant now, Lane& lane, rpcrdma::ClientEndpoint& endpoint);
  [[nodiscard]] bool check(const rpcrdma::ClientReply& reply, const Slot& slot) const;
  [[nodiscard]] bool call_fits_inline(const rpcrdma::ClientEndpoint& endpoint) const;
  [[nodiscard]] bool result_fits_inline(const rpcrdma::ClientEndpoint& endpoint) const;
  [[nodiscard]] uint64_t reply_bytes_max(bool placed) const;

  LoadOptions options_;
  client::Client& client_;
  BufferPool& pool_;
  rpcrdma::BenchProgram bench_;  // what the server may call
  rpcrdma::ProgramRegistry programs_;
  std::vector<Slot> slots_;
  std::vector<Lane> lanes_;
  std::vector<uint32_t> lane_of_client_;
  std::vector<uint32_t> hungry_;        // lanes that found no memory or room
  std::vector<uint32_t> asking_again_;  // those of the last turn, while they are filled; empty otherwise
  LoadStats stats_;
  uint64_t sequence_ = 0;
  uint64_t called_back_before_ = 0;  // when the counters were last set to 0
  uint32_t in_flight_ = 0;
  uint32_t given_up_ = 0;
  bool stopping_ = false;
  cm::RejectReason last_reject_ = cm::RejectReason::kTimeout;
  rc::QpError last_qp_error_;
};

}  // namespace cw::load
