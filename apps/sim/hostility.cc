#include "apps/sim/hostility.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>

namespace cw::sim {
namespace {

constexpr std::array<const char*, kHostileKindCount> kNames = {
    "no_receives",        "no_read_answers",    "no_acks",       "slow_acks",
    "huge_calls",         "huge_replies",       "connect_loop",  "garbage",
    "slow_reads",         "call_slots",         "gap_holders",   "no_dreq_answer",
    "refused_by_backend", "forged_requests",    "forged_rivals", "forged_cnps",
    "backend_dead",       "backend_hung",       "backend_stops", "backend_slow",
    "half_requests",      "half_fpdus",         "closed_window", "silent_reads",
    "huge_iwarp_calls",   "huge_iwarp_replies", "terminates",    "garbage_bytes",
    "connect_flood",      "never_ready",
};

}  // namespace

const char* to_string(HostileKind kind) noexcept {
  return kind < HostileKind::kCount ? kNames[static_cast<size_t>(kind)] : "unknown";
}

std::optional<HostileKind> parse_hostile_kind(std::string_view name) noexcept {
  const auto found = std::ranges::find(kNames, name);
  return found == kNames.end() ? std::nullopt : std::optional(static_cast<HostileKind>(found - kNames.begin()));
}

std::string describe(const Hostile& hostile) {
  std::array<char, 200> line;
  const int used = std::snprintf(line.data(), line.size(),
                                 "%s, %" PRIu32 " connections of %" PRIu32 " calls, from %" PRId64 " us, hostile from %" PRId64
                                 " us until %" PRId64 " us, amount %" PRIu32 ", time %" PRId64 " us",
                                 to_string(hostile.kind), hostile.connections, hostile.window, hostile.from.to_us(),
                                 hostile.turns.to_us(), hostile.until.to_us(), hostile.amount, hostile.time.to_us());
  return {line.data(), static_cast<size_t>(used)};
}

}  // namespace cw::sim
