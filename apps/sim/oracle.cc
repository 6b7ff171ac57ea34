#include "apps/sim/oracle.h"

namespace cw::sim {
namespace {

struct Row {
  const char* name;
  const char* demand;
};

constexpr Row kRows[] = {
    {"executed_once", "an attempt at a call is executed at most once, and an answered one exactly once"},
    {"answered_once", "each attempt at a call has exactly one outcome"},
    {"payload", "the program sees the bytes that were sent, the client those that were answered"},
    {"memory", "no memory is touched outside a live key"},
    {"credits", "never more calls in flight than granted, never a SEND without a posted receive"},
    {"blame", "honest peers never find fault with each other, whatever the wire does"},
    {"leak", "in the end nobody owns a buffer, a key, a queue pair, a connection or a part of what all share"},
    {"timers", "in the end nothing waits for a deadline"},
    {"end_state", "each connection ends once, with a recorded cause"},
    {"progress", "without faults everything finishes within the bound"},
    {"consistency", "the invariants that objects state about themselves hold"},
    {"isolation",
     "beside hostile peers and sick backends honest clients keep 0.8 of their rate, and none waits beyond the bound"},
};
static_assert(sizeof(kRows) / sizeof(kRows[0]) == static_cast<size_t>(Oracle::kCount));

}  // namespace

const char* to_string(Oracle oracle) noexcept {
  return oracle < Oracle::kCount ? kRows[static_cast<size_t>(oracle)].name : "unknown";
}

const char* demand_of(Oracle oracle) noexcept {
  return oracle < Oracle::kCount ? kRows[static_cast<size_t>(oracle)].demand : "";
}

}  // namespace cw::sim
