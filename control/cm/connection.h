// One connection: what the manager knows about it, and nothing about how it is found. Lives in a slot of the ConnectionTable.
// What only a handshake needs lies in a Handshake beside it, so that an established connection is small.
#pragma once

#include <cstdint>
#include <variant>

#include "base/intrusive_list.h"
#include "base/time.h"
#include "base/timer_wheel.h"
#include "control/cm/cm_address.h"
#include "control/cm/cm_event.h"
#include "control/cm/connection_state.h"
#include "control/cm/wire/mad.h"

namespace cw::cm {

struct PendingEventTag {};
struct TimewaitTag {};
struct EvictionTag {};

// The last message we sent and may have to send again. kMad: byte for byte, in the Handshake. RTU and DREQ say nothing that the
// Connection does not know, and are written anew.
enum class Kept : uint8_t { kNone, kMad, kRtu, kDreq };

struct Handshake {
  Mad mad;                 // valid with Kept::kMad
  CmEvent::Detail detail;  // the event that the user has not seen yet: valid with Connection::detail_kept
};

struct Connection : TimerNode, ListNode<PendingEventTag>, ListNode<TimewaitTag>, ListNode<EvictionTag> {
  static constexpr uint32_t kNone = UINT32_MAX;

  uint32_t slot = 0;
  uint32_t generation = 0;  // counts the uses of the slot
  CmAddress address;
  uint32_t local_comm_id = 0;        // never 0 while in use
  uint32_t remote_comm_id = 0;       // valid with remote_known
  verbs::Qpn local_qpn;              // 0 until accept() or connect() tell
  verbs::Qpn remote_qpn;             // valid with remote_known
  uint64_t transaction_id = 0;       // of our own REQ, RTU and DREQ
  uint64_t peer_transaction_id = 0;  // of the peer's REQ or REP: our answers carry it

  // The handshake, as REQ laid it down.
  Duration peer_response;       // how long the peer may take to answer
  Duration attempt;             // how long it may last from here on
  uint32_t prefix = 0;          // passive: whose share of half-open connections it takes, while it is one
  uint32_t delays_granted = 0;  // MRAs of the peer that were honoured
  uint32_t repetitions = 0;     // of the kept message, unasked

  Handshake* handshake = nullptr;  // while there is a message in it, or an event
  Duration repeat_interval;
  Instant repeat_at = Instant::never();
  Instant give_up_at = Instant::never();

  // Chains of the table's three indexes.
  uint32_t next_by_local_id = kNone;
  uint32_t next_by_remote_id = kNone;
  uint32_t next_by_remote_qpn = kNone;

  // The one event that the user has not seen yet: one that is told in a byte, or else in the Handshake.
  std::variant<Established, Disconnected, ConnectFailed> brief;
  bool detail_kept = false;
  bool was_announced = false;  // the user knows the id

  ConnectionState state = ConnectionState::kIdle;
  Kept kept = Kept::kNone;
  bool passive = false;
  bool remote_known = false;
  bool in_qpn_index = false;
  uint8_t ack_timeout_code = 0;    // sizes time-wait
  bool alternate_offered = false;  // the REQ came with an alternate path
  bool mra_sent = false;           // the peer has our communication id already

  [[nodiscard]] ConnectionId id() const { return ConnectionId((uint64_t{generation} << 32) | slot); }
  [[nodiscard]] bool needs_handshake() const { return is_attempt(state) || kept == Kept::kMad || (has_event() && detail_kept); }
  [[nodiscard]] bool has_event() const { return ListNode<PendingEventTag>::is_linked(); }
  [[nodiscard]] bool is_evictable() const { return ListNode<TimewaitTag>::is_linked(); }
};

}  // namespace cw::cm
