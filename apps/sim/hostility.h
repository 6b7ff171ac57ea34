// Peers and servers that mean harm, as data: what they do, how many connections, from when until when, how much. A scenario's
// hostiles are a list of these, beside the honest clients and their faults; taking one out leaves the honest part what it was.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace cw::sim {

enum class HostileKind : uint8_t {
  // A client that takes part and breaks one rule
  kNoReceives,     // asks for large results and posts no receives: RNR NAK for ever
  kNoReadAnswers,  // offers data by Read chunks and answers no READ
  kNoAcks,         // asks for large results and acknowledges nothing
  kSlowAcks,       // asks for large results and acknowledges `time` later
  kHugeCalls,      // the longest calls that are allowed, on every credit
  kHugeReplies,    // the longest results, on every credit
  kConnectLoop,    // connects and disconnects `amount` times a second
  kGarbage,        // `amount` of 1000 SENDs have other bytes in their RPC-over-RDMA header, under a right iCRC
  kSlowReads,      // offers data by Read chunks and answers one READ of each connection in `time`
  kCallSlots,      // the same with the smallest of such calls, on more credits than the gateway has places for calls
  kGapHolders,     // each connection leaves out one packet for good, and sends what follows it
  kNoDreqAnswer,   // breaks the protocol as soon as it is connected, says nothing when the gateway disconnects, and comes again
  kRefusedByBackend,  // no connection to the backend succeeds for it; connects in a loop, as connect_loop does
  // A sender of single frames, `amount` a second
  kForgedRequests,  // REQs from addresses that nobody has
  kForgedRivals,    // REQs in an honest client's name, with its queue pair, while idle connections take all other places
  kForgedCnps,      // CNPs in an honest client's name, to queue pairs that it has to guess
  // The server behind the second listener; the peer is a client of it with every credit in use
  kBackendDead,   // takes no connection
  kBackendHung,   // takes calls and answers none
  kBackendStops,  // takes calls and stops in the middle of a reply
  kBackendSlow,   // answers `time` later
  // A client on iWARP
  kHalfRequests,      // sends half an MPA Request
  kHalfFpdus,         // begins the longest FPDU and does not end it
  kClosedWindow,      // asks for large results and reads nothing
  kSilentReads,       // offers data by Read chunks and answers no READ
  kHugeIwarpCalls,    // the longest calls that are allowed, on every credit
  kHugeIwarpReplies,  // the longest results, on every credit
  kTerminates,        // sends a Terminate once connected, and connects again
  kGarbageBytes,      // has no FPDU but other bytes once connected, and connects again
  kConnectFlood,      // `amount` TCP connections a second from addresses that nobody has, each of them silent
  kNeverReady,        // `amount` connections a second that announce that they say when they are ready, and do not
  kCount,
};
inline constexpr uint32_t kHostileKindCount = static_cast<uint32_t>(HostileKind::kCount);
// Without those of iWARP, which stand last.
inline constexpr uint32_t kRoceHostileKindCount = static_cast<uint32_t>(HostileKind::kHalfRequests);
[[nodiscard]] constexpr bool is_on_iwarp(HostileKind kind) {
  return kind >= HostileKind::kHalfRequests;
}
[[nodiscard]] const char* to_string(HostileKind kind) noexcept;
[[nodiscard]] std::optional<HostileKind> parse_hostile_kind(std::string_view name) noexcept;
// Kinds that the gateway does not withstand yet: neither in `--isolation all` nor in a sweep. Whoever fixes one removes it.
inline constexpr std::initializer_list<HostileKind> kAwaitingFix = {};
[[nodiscard]] constexpr bool awaits_fix(HostileKind kind) {
  return std::find(kAwaitingFix.begin(), kAwaitingFix.end(), kind) != kAwaitingFix.end();
}
[[nodiscard]] constexpr bool is_about_backend(HostileKind kind) {
  return kind >= HostileKind::kBackendDead && kind <= HostileKind::kBackendSlow;
}

// One host with one address.
struct Hostile {
  HostileKind kind = HostileKind::kNoReceives;
  uint32_t connections = 1;  // 0: only what is forged
  uint32_t window = 64;      // calls in flight on each, as far as the gateway's credits go
  Duration from;             // since the start: it comes
  Duration turns;            // until then it is honest, and is granted what honest clients are
  Duration until;            // then its process dies, and nobody is told
  uint32_t amount = 0;       // see the kinds
  Duration time;             // see the kinds
  uint64_t seed = 0;         // of its own draws
};

// One line: kind, connections, times, parameters.
[[nodiscard]] std::string describe(const Hostile& hostile);

}  // namespace cw::sim
