// What the connection manager counts. Plain integers, added up by one thread.
#pragma once

#include <array>
#include <cstdint>

#include "control/cm/reject_reason.h"
#include "control/cm/wire/mad_header.h"

namespace cw::cm {

// Why a datagram was not acted upon. Each ignored datagram counts under exactly one.
enum class CmDrop : uint8_t {
  kHeader,        // not a version-1 MAD, or not of class 7, or not Send()
  kClassVersion,  // not version 2 of the class
  kAttribute,     // not a message of ours (ClassPortInfo and the like)
  kSource,        // not from QP 1, or from or to an address that cannot be a station
  kMalformed,     // a message whose content cannot be acted upon
  kUnknown,       // no connection has these communication ids
  kUnbound,       // one has, but it belongs to another path
  kOutOfState,    // not possible in the state of the connection
  kQpnMismatch,   // DREQ that does not name our queue pair
  kDuplicate,     // repeats what we know and needs no answer
  kRequestRate,   // REQ beyond request_rate
  kAnswerRate,    // would need an answer beyond answer_rate
  // The same, beyond what the sender's network may ask.
  kPrefixRequestRate,
  kPrefixAnswerRate,
  kCount,
};
[[nodiscard]] const char* to_string(CmDrop drop) noexcept;

// How connections ended, each exactly once.
enum class CmOutcome : uint8_t {
  kRemoteDisconnect,  // established, then the peer's DREQ
  kLocalDisconnect,   // established, then our DREQ was answered; or abandoned by us on the way there
  kUnanswered,        // established, then our DREQs were not answered
  kSuperseded,        // the peer started anew
  kRejectedLate,      // REJ after the connection was established
  kRejectedByPeer,    // REJ before
  kRejectedByUs,      // reject()
  kNoAnswer,          // nothing came back
  kNoDecision,        // our own user was too slow
  kEvicted,           // half open, and a newer request needed the room
  kCount,
};
[[nodiscard]] const char* to_string(CmOutcome outcome) noexcept;

struct CmStats {
  template <typename E>
  using Count = std::array<uint64_t, static_cast<size_t>(E::kCount)>;

  Count<MessageType> received{};    // well-formed, by type
  Count<MessageType> sent{};        // handed to poll_transmit(), by type, repetitions included
  Count<MessageType> duplicates{};  // recognised as repeated, answered or not
  Count<MessageType> repeated{};    // sent again because a timer ran out
  Count<CmDrop> drops{};
  Count<CmOutcome> outcomes{};
  std::array<uint64_t, kRejectReasonCount> rejects_sent{};      // by reason
  std::array<uint64_t, kRejectReasonCount> rejects_received{};  // by reason; [0] = unknown reason
  uint64_t requests_accepted = 0;                               // accept()
  uint64_t connects_started = 0;                                // connect()
  uint64_t established = 0;                                     // both roles
  uint64_t established_by_data = 0;                             // of these, without an RTU
  uint64_t delays_received = 0;                                 // MRA that extended a wait
  uint64_t timewaits_cut_short = 0;                             // forgotten early to make room
  uint64_t disconnects_cut_short = 0;                           // of kUnanswered: not waited for any longer, to make room
  uint64_t transmit_queue_full = 0;                             // datagrams lost for want of room

  [[nodiscard]] uint64_t dropped(CmDrop drop) const { return drops[static_cast<size_t>(drop)]; }
  [[nodiscard]] uint64_t ended(CmOutcome outcome) const { return outcomes[static_cast<size_t>(outcome)]; }
  [[nodiscard]] uint64_t received_of(MessageType type) const { return received[static_cast<size_t>(type)]; }
  [[nodiscard]] uint64_t sent_of(MessageType type) const { return sent[static_cast<size_t>(type)]; }
};

}  // namespace cw::cm
