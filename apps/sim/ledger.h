// The book of all calls: who sent what when, how often it was executed, what came of it. It stands outside of every process of
// the simulation, so that it knows what none of them can.
//
// An attempt is one call on one connection life. Its number travels in the call's credential (an opaque that the whole stack
// passes through), so that the program at the other end says which attempt it executes, and the ledger compares what it saw with
// what was sent.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "apps/sim/oracle.h"
#include "base/buffer.h"
#include "rpcrdma/backend/bench_program.h"

namespace cw::sim {

// The credential's body: magic, attempt, and a check word.
inline constexpr uint32_t kTagBytes = 12;
// Bytes of a call header with the tag: xid, CALL, rpcvers, prog, vers, proc, credential of 8 + tag, verifier of 8.
inline constexpr uint32_t kTaggedHeaderBytes = 24 + 8 + kTagBytes + 8;
inline constexpr uint32_t kTagOffset = 24 + 8;

// Outcome of an attempt, as the client saw it.
enum class Outcome : uint8_t {
  kNone,
  kAnswered,
  kRefused,  // RDMA_ERROR, where that was the right answer
  kLost,     // with its connection
  kTimeout,
  kUnknown,  // its process died
};

class Ledger {
 public:
  explicit Ledger(Verdict& verdict) : verdict_(verdict) {}

  // A new attempt. `digest`: of the call's stream without its XID.
  [[nodiscard]] uint32_t begin();
  void sent(uint32_t attempt, uint32_t digest);
  // Not sent after all: forgotten.
  void take_back(uint32_t attempt);
  static void write_tag(std::span<uint8_t, kTagBytes> out, uint32_t attempt);

  // Clients whose calls are not in the book are answered too.
  void admit_strangers() { strangers_ = true; }
  // By the program: a whole call has been executed. What it was is looked at before, since the reply may take its Buffer.
  struct Sight {
    std::array<uint8_t, kTagBytes> tag{};
    bool may_be_tagged = false;  // long enough
    uint32_t digest = 0;
  };
  [[nodiscard]] static Sight look_at(const Chain& message);
  void executed(const Sight& call);
  void ended(uint32_t attempt, Outcome outcome);
  // Every attempt has had its outcome.
  void check_end();

  [[nodiscard]] uint64_t attempts() const { return entries_.size(); }
  [[nodiscard]] uint64_t executions() const { return executions_; }
  [[nodiscard]] const std::array<uint64_t, 6>& outcomes() const { return outcomes_; }

 private:
  struct Entry {
    uint32_t digest = 0;
    uint32_t executed = 0;
    bool sent = false;
    Outcome outcome = Outcome::kNone;
  };
  Verdict& verdict_;
  std::vector<Entry> entries_;
  std::array<uint64_t, 6> outcomes_{};
  uint64_t executions_ = 0;
  bool strangers_ = false;
};

// The bench program under observation.
class WatchedProgram final : public rpcrdma::Program {
 public:
  explicit WatchedProgram(Ledger& ledger) : ledger_(ledger) {}
  [[nodiscard]] uint32_t program() const override { return bench_.program(); }
  [[nodiscard]] uint32_t version() const override { return bench_.version(); }
  [[nodiscard]] bool call(const rpcrdma::CallContext& context, const Chain& message, const rpcrdma::ReplyPools& pools,
                          Chain& reply) override {
    const Ledger::Sight sight = Ledger::look_at(message);
    if (!bench_.call(context, message, pools, reply)) {
      return false;
    }
    ledger_.executed(sight);
    return true;
  }

 private:
  Ledger& ledger_;
  rpcrdma::BenchProgram bench_;
};

}  // namespace cw::sim
