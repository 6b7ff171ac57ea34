// Load over a Client: so many connections, so many calls in flight on each at most, every answer checked.
//
//   closed loop   each connection keeps its window full: the next call goes when an answer has come. The rate is the server's.
//   open loop     calls are due at instants of their own, whatever the server does, and go to the connections in turn. Latency
//                 counts from the instant at which a call was due, so that a server that stalls shows in every call that had to
//                 wait for it, sent or not: free of coordinated omission.
//
// Connections may be opened and closed all the time (churn), and their number may follow a profile. With `reconnect`, what is
// lost or refused is opened again and the calls lost with it are sent again under their XIDs; these are not failed calls.
// Sans-I/O like what it drives: causeway-load runs it on a poll core, the in-process bench and the system tests in memory. One
// driver belongs to one core; several cores mean several drivers, each with a share of connections and rate, their stats added
// up.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "apps/load/call_mix.h"
#include "apps/load/load_stats.h"
#include "apps/load/open_loop.h"
#include "apps/load/workload.h"
#include "gateway/client/client.h"
#include "rpcrdma/backend/bench_program.h"
#include "rpcrdma/ulb/binding.h"

namespace cw::load {

using rpcrdma::BenchProcedure;

[[nodiscard]] const char* to_string(BenchProcedure procedure) noexcept;

// What the client has to grant for it: calls of the server come in answer to CALLBACK alone.
[[nodiscard]] uint32_t reverse_credits_for(BenchProcedure procedure, uint32_t window) noexcept;

struct OpenLoopOptions {
  Profile rate;  // calls per second over all connections
  Arrivals arrivals = Arrivals::kPoisson;
  uint32_t burst = 1;            // calls due at the same instant
  uint32_t queue_max = 1 << 20;  // due calls that may wait for a connection; 8 bytes each
};

struct LoadOptions {
  IpAddress server;
  uint16_t service_port = 20049;
  uint16_t services = 1;  // the n-th connection goes to service_port + n % services
  uint32_t connections = 1;
  std::optional<Profile> connection_profile;  // how many of these are open over time; all when not said
  uint32_t window = 16;                       // calls in flight per connection; the server's credits may allow fewer
  BenchProcedure operation = BenchProcedure::kNull;
  uint32_t bytes = 0;          // data per call; NULL has none
  std::optional<CallMix> mix;  // in place of these two
  std::optional<OpenLoopOptions> open_loop;
  double churn_per_second = 0;  // connections closed, when their calls are answered, and opened again
  uint32_t inline_bytes = 4096;
  uint32_t verify_every = 1;  // check each n-th answer's data in full, 0: none; the others by status and length only
  bool reconnect = false;     // a lost or refused connection is opened again, and the calls lost with it are sent again
  uint64_t seed = 1;          // of the order of calls and of their arrivals

  [[nodiscard]] CallMix calls() const {
    return mix ? *mix : CallMix(MixEntry{.kind = static_cast<CallKind>(operation), .bytes = bytes});
  }
};

class LoadDriver {
 public:
  // `workload`: whose calls these are; nullptr: the bench program's. What is given must outlive the driver.
  LoadDriver(const LoadOptions& options, client::Client& client, BufferPool& pool, Workload* workload = nullptr);

  // Opens the connections. A closed loop begins with them; an open loop waits for begin().
  void start(Instant now);
  // Now is the time 0 of profiles, arrivals and churn. May be called again, which forgets what was due.
  void begin(Instant now);
  // Acts on events and answers, and sends what is to be sent. True when something happened.
  bool turn(Instant now);
  // No more calls; those in flight are still answered, those that a lost connection interrupted still sent again where there is
  // one.
  void stop();
  // Calls again, on the connections that are there.
  void resume(Instant now);
  // Forgets what was counted: the end of a warm-up.
  void reset_stats();
  // When turn() has something to do without anything having come. For loops that sleep.
  [[nodiscard]] Instant next_deadline() const;

  [[nodiscard]] const LoadStats& stats() const { return stats_; }
  [[nodiscard]] const CallMix& mix() const { return mix_; }
  [[nodiscard]] uint32_t in_flight() const { return in_flight_; }
  // Calls whose connection was lost and that wait to be sent again.
  [[nodiscard]] uint32_t waiting_to_resend() const { return waiting_to_resend_; }
  // Open loop: due, and waiting for a connection.
  [[nodiscard]] uint32_t queued() const { return open_loop_ ? open_loop_->queued() : 0; }
  [[nodiscard]] uint32_t connected() const { return client_.connected_count(); }
  // Connections that should be open now.
  [[nodiscard]] uint32_t wanted() const { return wanted_; }
  // Connections that were refused or lost and are not opened again.
  [[nodiscard]] uint32_t given_up() const { return given_up_; }
  [[nodiscard]] bool is_dead() const { return given_up_ == options_.connections; }
  // For the line that explains a failure; empty when nothing failed.
  [[nodiscard]] const verbs::Rejection& last_rejection() const { return last_rejection_; }
  [[nodiscard]] const verbs::QueuePairError& last_qp_error() const { return last_qp_error_; }

 private:
  // One connection's place; it may be served by several connections over time.
  struct Lane {
    std::optional<client::ClientId> id;
    std::vector<uint32_t> free_slots;
    Instant opened;  // when it was last asked for
    Instant retry = Instant::never();
    bool hungry = false;
    bool listed = false;    // in ready_lanes_
    bool draining = false;  // no more calls: closed when all are answered
    bool wanted = false;
    bool given_up = false;
  };

  void open(Instant now, uint32_t lane);
  void retry_lost(Instant now);
  void follow_profile(Instant now);
  void churn(Instant now);
  void close_when_idle(Instant now, uint32_t index);
  void on_event(Instant now, const client::ClientEvent& event);
  void on_reply(Instant now, rpcrdma::ClientReply& reply);
  void on_lost(uint32_t slot);
  void give_up(Lane& lane);
  void fill(Instant now, Lane& lane, uint32_t index);
  void serve_open_loop(Instant now);
  void feed_hungry(Instant now);
  void be_hungry(Lane& lane, uint32_t index);
  // nullptr when it takes no call now.
  [[nodiscard]] rpcrdma::ClientEndpoint* endpoint_with_room(const Lane& lane);
  [[nodiscard]] bool has_resend(const Lane& lane) const {
    return !lane.free_slots.empty() && slots_[lane.free_slots.back()].resend;
  }
  [[nodiscard]] bool submit(Instant now, Instant due, Lane& lane, rpcrdma::ClientEndpoint& endpoint);

  LoadOptions options_;
  client::Client& client_;
  CallMix mix_;
  SeededRandom random_;
  std::unique_ptr<Workload> own_workload_;
  Workload& workload_;
  std::optional<OpenLoop> open_loop_;
  rpcrdma::BenchProgram bench_;  // what the server may call
  rpcrdma::ProgramRegistry programs_;
  std::vector<Slot> slots_;
  std::vector<Lane> lanes_;
  std::vector<uint32_t> lane_of_client_;
  Ring<uint32_t> ready_lanes_;          // open loop: may take a call, the next one first
  std::vector<uint32_t> hungry_;        // lanes that found no memory or room
  std::vector<uint32_t> asking_again_;  // those of the last turn, while they are filled; empty otherwise
  LoadStats stats_;
  uint64_t sequence_ = 0;
  uint64_t called_back_before_ = 0;  // when the counters were last set to 0
  uint64_t arrived_before_ = 0;
  uint64_t overflowed_before_ = 0;
  uint32_t in_flight_ = 0;
  uint32_t waiting_to_resend_ = 0;
  uint32_t given_up_ = 0;
  uint32_t wanted_ = 0;
  uint32_t churn_lane_ = 0;                // where the search for the next one to close begins
  Instant begun_ = Instant::never();       // time 0
  Instant next_retry_ = Instant::never();  // of all lanes
  Instant next_churn_ = Instant::never();
  Instant next_profile_ = Instant::never();
  bool stopping_ = false;
  verbs::Rejection last_rejection_;
  verbs::QueuePairError last_qp_error_;
};

}  // namespace cw::load
