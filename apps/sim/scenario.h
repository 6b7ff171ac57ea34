// What a run is made of: hosts, options, calls, faults. Everything is drawn from the seed before the run begins, so that a run
// can be described, changed (by the shrinker) and repeated without its seed meaning something else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/sim/fault.h"
#include "apps/sim/hostility.h"
#include "apps/sim/hosts.h"
#include "rpcrdma/ulb/binding.h"

namespace cw::sim {

// How a call's data travel.
enum class CallShape : uint8_t {
  kNatural,     // inline when it fits, else by chunks: what clients do
  kReduced,     // by Read and Write chunks however small
  kLongCall,    // the whole call in a Position-Zero chunk
  kReplyChunk,  // the result by Reply chunk if it does not fit inline
  kLongBoth,
  kNoRoom,  // nowhere to put the result: to be refused by ERR_CHUNK if it does not fit inline
  kCount,
};
[[nodiscard]] const char* to_string(CallShape shape) noexcept;

// What the clients of a scenario connect over. The gateway has both, but for kRoce.
enum class Wires : uint8_t { kRoce, kIwarp, kBoth };
[[nodiscard]] const char* to_string(Wires wires) noexcept;

// What a run is beside its seed.
struct Variant {
  Variant(Wires over = Wires::kRoce) : wires(over) {}  // NOLINT(google-explicit-constructor): most say the wires alone

  Wires wires;
  bool express = true;  // false: all hosts take the general paths alone, which must not change the hash
};

struct CallPlan {
  rpcrdma::BenchProcedure procedure = rpcrdma::BenchProcedure::kNull;
  uint32_t bytes = 0;
  CallShape shape = CallShape::kNatural;
  Duration cancel_after;  // its owner loses patience, once; 0: never
};

struct ClientPlan {
  uint32_t connections = 1;
  Duration pause;  // between the end of a call and the next in its place
  // Until the end of phase one each call is made again when it has been answered.
  bool endless = false;
  // After a call timed out the connection is kept while it has credits, and the answer may come late; else it is given up.
  bool stays_after_timeout = false;
  // It is not Causeway: no selective recovery, and it behaves as Linux does (plain_peer.h).
  bool standard = false;
  bool iwarp = false;  // else RoCE
  std::vector<CallPlan> calls;
};

struct Scenario {
  uint64_t seed = 0;
  Wires wires = Wires::kRoce;
  WorldOptions hosts;  // load.{window,inline_bytes,service_port} are the client's
  Duration link_delay;
  Duration phase_one;  // faults end here at the latest
  std::vector<ClientPlan> clients;
  std::vector<Fault> faults;
  std::vector<Hostile> hostiles;  // with any of them the oracle `isolation` speaks (isolation.h)

  // Phase two: from the end of the faults until every call has to be answered.
  [[nodiscard]] Duration finish_within() const;
};

// One seed in kIsolationSeeds has hostiles (isolation.h).
[[nodiscard]] Scenario draw_scenario(uint64_t seed, const Variant& variant = {});
// One client, one connection, a call of each kind, no faults: what "every packet boundary" starts from.
// On iWARP the calls are short, since each byte is a boundary there.
[[nodiscard]] Scenario boundary_scenario(Wires wires = Wires::kRoce);

// Sizes pools so that what the scenario may have in flight at once fits. Called by both of the above.
void size_pools(Scenario& scenario);

// As text for people.
[[nodiscard]] std::string describe(const Scenario& scenario);

}  // namespace cw::sim
