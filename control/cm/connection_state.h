// The states of a connection (IBA 12.9) and what may happen in each, as one table: anything not listed is refused and counted.
//
// Alternate paths, and an MRA of our own to a REP, do not exist here. IBA's states between DREQ received and DREP sent are one
// step, since nothing is waited for in between.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

namespace cw::cm {

enum class ConnectionState : uint8_t {
  kIdle,        // the slot is free
  kReqRcvd,     // passive: the user decides
  kMraReqSent,  // passive: the user decides, the peer was asked to wait
  kRepSent,     // passive: waits for RTU
  kMraRepRcvd,  // passive: waits for RTU, the peer asked for time
  kReqSent,     // active: waits for REP
  kMraReqRcvd,  // active: waits for REP, the peer asked for time
  kRepRcvd,     // active: the user makes its queue pair ready
  kEstablished,
  kDreqSent,  // waits for DREP
  kTimewait,  // over; kept to answer late duplicates
  kCount,
};

enum class ConnectionInput : uint8_t {
  // From the peer
  kReq,
  kMraOfReq,
  kMraOfRep,
  kRep,
  kRtu,
  kRej,
  kDreq,
  kDrep,
  kLap,
  kData,        // the queue pair saw a packet
  kSuperseded,  // a new connection that is established, or a REP, names the QPN of this one
  kEvicted,     // a new REQ needs the room
  // From the user
  kConnect,
  kAccept,
  kReject,
  kDelay,
  kReady,
  kDisconnect,
  // From the clock
  kGiveUp,   // the state has lasted as long as it may
  kRelease,  // the end of time-wait, or its place is needed
  kCount,
};

enum class ConnectionAction : uint8_t {
  kNone,
  kAnnounce,   // tell the user about the request or the reply
  kEstablish,  // tell the user that the connection is up
  kWait,       // extend the deadline
  kEnd,        // end without a word to the peer
  kSendReq,
  kSendMra,
  kSendRep,
  kSendRtu,
  kSendRej,  // and end
  kSendDreq,
  kSendDrep,  // and end, if it has not ended
  kSendApr,
  kDuplicateMessage,  // a duplicate: the same answer as the first time
  kRepeatReject,      // a duplicate of a dead connection's REQ: the same REJ, or "stale"
  kIgnore,            // a duplicate that needs no answer
};

struct Transition {
  ConnectionState from;
  ConnectionInput input;
  ConnectionState to;
  ConnectionAction action;
};

[[nodiscard]] std::span<const Transition> all_transitions() noexcept;
// nullptr: refused in this state.
[[nodiscard]] const Transition* find_transition(ConnectionState from, ConnectionInput input) noexcept;

[[nodiscard]] constexpr bool is_half_open(ConnectionState state) {
  return state == ConnectionState::kReqRcvd || state == ConnectionState::kMraReqSent || state == ConnectionState::kRepSent ||
         state == ConnectionState::kMraRepRcvd;
}
// Not decided, or not answered: the handshake of either role is under way.
[[nodiscard]] constexpr bool is_attempt(ConnectionState state) {
  return is_half_open(state) || state == ConnectionState::kReqSent || state == ConnectionState::kMraReqRcvd ||
         state == ConnectionState::kRepRcvd;
}
[[nodiscard]] constexpr bool is_live(ConnectionState state) {
  return state != ConnectionState::kIdle && state != ConnectionState::kTimewait;
}

[[nodiscard]] const char* to_string(ConnectionState state) noexcept;
[[nodiscard]] const char* to_string(ConnectionInput input) noexcept;
[[nodiscard]] const char* to_string(ConnectionAction action) noexcept;

}  // namespace cw::cm
