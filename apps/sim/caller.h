// What a client's process does in a simulation: opens its connections, makes the calls of its plan, checks each answer byte by
// byte, begins again what was lost with a connection. It is the user that the client library was made for, and the witness for
// the oracles.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "apps/sim/guarded_memory.h"
#include "apps/sim/hosts.h"
#include "apps/sim/ledger.h"
#include "apps/sim/scenario.h"
#include "rpcrdma/backend/bench_client.h"

namespace cw::sim {

// How a client was served, for the oracle `isolation`. A wait counts from the instant at which the client wanted an answer,
// over lost connections and new attempts; who still waits counts too.
struct Service {
  uint64_t answered = 0;
  Duration longest_wait;
};

struct CallerStats {
  std::array<uint64_t, rpcrdma::kCallStatusCount> statuses{};  // by rpcrdma::CallStatus
  std::array<uint64_t, static_cast<size_t>(CallShape::kCount)> shapes{};
  uint64_t connects = 0;
  uint64_t connected = 0;
  uint64_t refused = 0;
  uint64_t lost = 0;
  uint64_t disconnects = 0;
  std::array<uint64_t, static_cast<size_t>(rc::QpErrorCause::kMemoryGone) + 1> lost_causes{};  // by cause
};

class Caller {
 public:
  // `pending`: indices into plan.calls of what is still to be done; kept by whoever outlives the process.
  Caller(Instant now, const Scenario& scenario, const ClientPlan& plan, std::deque<uint32_t>& pending, ClientStack& host,
         Ledger& ledger, Verdict& verdict);
  // The process dies: what was in flight has no outcome that anybody saw. Before the stack goes.
  void abandon();

  void turn(Instant now);
  // Its own pauses; the stack's deadlines are the stack's.
  [[nodiscard]] Instant next_deadline() const { return wake_; }
  // Breaks one connection, in turns, and opens another.
  void disconnect_one(Instant now);
  // No more connections, and all that are there end.
  void finish(Instant now);
  [[nodiscard]] bool is_idle() const { return in_flight_ == 0; }
  // ClientPlan::endless ends: what is under way is still answered.
  void stop_repeating() { repeats_ = false; }
  [[nodiscard]] Service service(Instant now) const;

  [[nodiscard]] const CallerStats& stats() const { return stats_; }
  [[nodiscard]] const RetiredMemory& retired_memory() const { return retired_memory_; }
  // A call timed out or was cancelled here: a server that still works on it may find its keys gone.
  [[nodiscard]] bool gave_up_calls() const {
    return stats_.statuses[static_cast<size_t>(rpcrdma::CallStatus::kTimeout)] > 0 ||
           stats_.statuses[static_cast<size_t>(rpcrdma::CallStatus::kCancelled)] > 0;
  }

 private:
  struct Slot {
    bool busy = false;
    uint32_t attempt = 0;
    uint32_t call = 0;  // index into the plan
    uint32_t xid = 0;
    Instant free_at;                       // pause
    Instant cancel_at = Instant::never();  // valid when busy
    bool placed = false;
    bool reply_chunk = false;
    bool must_be_refused = false;
    GuardedMemory memory;
  };
  struct Lane {
    std::optional<client::ClientId> id;
    bool connected = false;
    Instant retry;
    uint32_t in_flight = 0;
    std::vector<Slot> slots;
  };
  struct Building;

  void open(Instant now, Lane& lane);
  void on_event(Instant now, const client::ClientEvent& event);
  void count_cause(const verbs::QueuePairError& error);
  void fill(Instant now, uint32_t lane_index);
  [[nodiscard]] bool submit(Instant now, Lane& lane, uint32_t slot_index, rpcrdma::ClientEndpoint& endpoint);
  // Memory and chunks of a call in its shape.
  void lay_out_call(const CallPlan& plan, Slot& slot, Building& building);
  void take_replies(Instant now, Lane& lane);
  void cancel_due(Instant now, Lane& lane);
  void on_reply(Instant now, Lane& lane, const rpcrdma::ClientReply& reply);
  void on_answer(Slot& slot, const CallPlan& plan, const rpcrdma::ClientReply& reply);
  [[nodiscard]] bool answer_is_right(Slot& slot, const CallPlan& plan, const rpcrdma::ClientReply& reply);
  void end_slot(Instant now, Lane& lane, Slot& slot, Outcome outcome);
  // Everything in flight on a connection that is gone.
  void end_lane(Instant now, Lane& lane, Outcome outcome);
  void again_at(Instant at) { wake_ = earlier(wake_, at); }
  [[nodiscard]] uint64_t pattern_of(uint32_t call) const { return scenario_.seed * 1000 + call; }

  const Scenario& scenario_;
  const ClientPlan& plan_;
  std::deque<uint32_t>& pending_;
  ClientStack& host_;
  Ledger& ledger_;
  Verdict& verdict_;
  std::vector<Lane> lanes_;
  std::vector<bool> cancelled_;  // by index into the plan
  std::vector<Instant> wanted_;  // by index into the plan: since when; never(): answered, and not wanted any more
  Service service_;
  RetiredMemory retired_memory_;
  CallerStats stats_;
  Instant wake_;
  uint32_t in_flight_ = 0;
  uint32_t next_to_break_ = 0;
  bool finished_ = false;
  bool repeats_ = false;
};

}  // namespace cw::sim
