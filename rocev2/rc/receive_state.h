// The responder's half of a queue pair as data.
#pragma once

#include <cstdint>

#include "rocev2/rc/held_packets.h"
#include "rocev2/rc/read_replay.h"
#include "rocev2/rc/receive_pool.h"
#include "rocev2/rc/work.h"
#include "rocev2/wire/opcode.h"
#include "rocev2/wire/psn.h"
#include "verbs/ids.h"

namespace cw::rc {

// What the responder owes the peer. A NAK replaces an acknowledgement, which it implies. kAckLater: an acknowledgement that may
// wait a little for those of messages behind it (ack_policy.h).
enum class ReplyKind : uint8_t { kNone, kAckLater, kAck, kNak, kRnrNak };

struct ReceiveState {
  wire::Psn expected;
  wire::Psn ack_psn;      // last executed SEND or WRITE packet: what an acknowledgement names; never a READ's
  uint32_t msn = 0;       // messages completed, 24 bits used
  uint32_t receives = 0;  // messages that the owner still allows; not used with a pool
  uint32_t receive_bytes_max = 0;
  uint16_t peer_port = 0;           // UDP source port of the last packet executed; 0: none yet
  uint8_t responder_resources = 0;  // inbound READs agreed with the peer; 0: READs are not answered
  bool advertises_credits = false;  // acknowledgements say how many receives there are
  Work* message = nullptr;          // being assembled (SEND), nullptr between messages
  wire::OpcodeKind in_progress =
      wire::OpcodeKind::kReserved;  // kSend, kWrite: between First and Last; kReserved: between messages
  ReplyKind reply = ReplyKind::kNone;
  uint8_t acks_later_max = 0;  // messages that one acknowledgement may be held for; 0: none is ever held
  uint8_t acks_later = 0;      // valid when kAckLater: messages that it is for
  uint8_t nak_code = 0;        // kNak: the syndrome; kRnrNak: the timer code
  uint8_t min_rnr_timer = 0;
  bool paused = false;          // no message is begun any more
  bool gap = false;             // a NAK for `expected` is out: say no more until it comes
  HeldPackets* held = nullptr;  // what came behind the gap; nullptr: nothing
  ReceivePool* pool = nullptr;  // nullptr: the receives are its own
  ReadReplay* reads = nullptr;  // nullptr: READs are not answered
  wire::Psn last_ahead;         // valid when gap: PSN of the last packet behind the gap
  // WRITE in progress
  verbs::Rkey write_rkey;
  uint64_t write_address = 0;  // of the next byte
  uint32_t write_left = 0;     // bytes announced and not yet come
  uint32_t write_bytes = 0;    // bytes announced

  [[nodiscard]] uint32_t receives_left() const { return pool != nullptr ? pool->available() : receives; }
};

}  // namespace cw::rc
