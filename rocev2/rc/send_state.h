// The requester's half of a queue pair as data. What does not always exist is a value of its own, which says whether it does: the
// send window, the round-trip sample, the tail probe, recovery, the RNR wait, the NAK that was put off, the keepalive. When one
// begins and ends stands in the sources that work on it.
//
// Sending and acknowledgements of SENDs and WRITEs touch the first four cache lines (with the end of ReceiveState before them),
// READs and recovery the rest.
//
// A READ is asked for by one READ request or several, as a SEND is cut into packets: each takes the PSNs of the responses that it
// asks for, is a READ of its own to the peer, and counts as one. next_psn never lies within such a request, unless it is una.
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"
#include "rocev2/rc/keepalive.h"
#include "rocev2/rc/read_gaps.h"
#include "rocev2/rc/read_window.h"
#include "rocev2/rc/recovery.h"
#include "rocev2/rc/reorder_window.h"
#include "rocev2/rc/repeated_reads.h"
#include "rocev2/rc/retries.h"
#include "rocev2/rc/rnr_wait.h"
#include "rocev2/rc/round_trip.h"
#include "rocev2/rc/scoreboard.h"
#include "rocev2/rc/send_window.h"
#include "rocev2/rc/suspected_loss.h"
#include "rocev2/rc/tail_probe.h"
#include "rocev2/rc/work.h"
#include "rocev2/wire/psn.h"

namespace cw::rc {

// Where in the queue the next packet comes from.
struct SendCursor {
  Work* work = nullptr;            // nullptr: everything has been sent
  const Buffer* buffer = nullptr;  // where the next payload byte lies; nullptr for READ, atomic or an empty message. No Work: the
                                   // next SEND that waits without one, if any does
  uint32_t offset = 0;             // in buffer
  uint32_t packet = 0;             // index of the next packet within work

  [[nodiscard]] static SendCursor start_of(Work* work) {
    const bool has_payload = work != nullptr && !work->awaits_response();
    return {work, has_payload ? work->payload.head() : nullptr, 0, 0};
  }
  // Steps over so many packets, or responses, none of which is the work's last. Precondition: the work has them.
  void step(uint32_t packets, uint32_t mtu_bytes) {
    packet += packets;
    offset += packets * mtu_bytes;
    while (buffer != nullptr && offset >= buffer->size) {
      offset -= buffer->size;
      buffer = buffer->next;
    }
  }
};

struct SendState {
  // What leaves next. The first line of the four that sending and acknowledgements touch.
  SendCursor cursor;
  SendWindow window;
  uint16_t since_ack_request = 0;  // packets sent since one asked for an acknowledgement
  SuspectedLoss suspected;
  bool draining = false;                  // SQD: begin no work
  std::optional<wire::Psn> credit_limit;  // last message for which the peer has a receive (LSN); none: it does not count them

  // The queue: Works, and behind them SENDs without a Work (whole_sends.h).
  Work* oldest = nullptr;  // first not completed; the queue runs from here by next
  union {
    Work* newest = nullptr;  // when there is a Work, and nothing without one behind it
    Buffer* newest_whole;    // when there is a SEND without a Work: the last of a ring, whose next is the oldest of them
  };
  wire::Psn last_ssn;        // of the newest message posted
  uint16_t queue_count = 0;  // posted and not completed
  uint16_t queue_depth = 0;
  Instant progress_at;               // last news, or when sending began
  Instant heard_at;                  // last response to a READ or atomic that was of no use
  Scoreboard* board = nullptr;       // what the peer reports behind a gap; nullptr: no gap, or an ordinary peer
  ReadGaps* gaps = nullptr;          // responses that are missing before others that have come; nullptr: none
  RepeatedReads* repeats = nullptr;  // READ requests sent again that a SEND must not overtake; nullptr: none

  // Time and loss.
  RoundTrip rtt;
  TailProbe probe;
  Recovery recovery;

  RnrWait rnr;
  Retries retries;             // after a NAK or a timeout
  Retries rnr_retries;         // after an RNR NAK
  uint8_t ack_timeout = 0;     // exponent
  bool partial_reads = false;  // the peer answers any part of a READ request again, not only the rest from some response on
  uint16_t peer_port = 0;      // UDP source port of the last answer that came in its turn; 0: none yet
  [[no_unique_address]] Keepalive keepalive;  // has room for six bytes behind its own

  // SENDs without a Work.
  uint8_t watched_count = 0;  // of RcCore::watched_sends
  uint16_t whole_count = 0;
  uint16_t whole_unsent = 0;  // the newest of these

  // READs, and what went wrong.
  Duration longest_pause;  // before a response that nothing was lost before; slowly forgotten
  ReorderWindow reorder;   // how long what is overtaken may still be on its way
  ReadWindow read_window;  // responses asked for at once, and by each request

  // Without what has arrived behind a gap.
  [[nodiscard]] uint32_t packets_missing() const {
    return window.packets_in_flight() - (board != nullptr ? board->arrived_in_window() : 0);
  }
  // Something is missing before what has arrived, or may come once more.
  [[nodiscard]] bool is_disordered() const { return board != nullptr || gaps != nullptr || repeats != nullptr; }
  // Nothing is lost or late, nobody has asked us to wait, and what leaves next leaves for the first time.
  [[nodiscard]] bool is_ordinary() const {
    return !is_disordered() && !rnr.is_under_way() && !recovery.timed_out() && !draining && !credit_limit.has_value() &&
           window.next_psn() == window.limit_psn();
  }
  // Responses that have been asked for and have not come.
  [[nodiscard]] uint32_t responses_awaited() const {
    const bool asked_again = gaps != nullptr && gaps->frontier().distance_to(window.next_psn()) < 0;  // what has come, too
    return window.read_psns() - (gaps == nullptr || asked_again ? 0 : gaps->early_count());
  }
  // How many responses of the oldest work, a READ, lie before una.
  [[nodiscard]] uint32_t index_of_una() const { return static_cast<uint32_t>(oldest->first_psn.distance_to(window.una())); }
  // A request for responses from the one with this index on, of any READ, begins within what is asked for together.
  [[nodiscard]] bool is_within_request(uint32_t index) const {
    return index != Work::request_begin(index, read_window.request_packets());
  }
  // una belongs to a READ request that the peer has executed, because some of its responses, or something behind it, has come.
  [[nodiscard]] bool oldest_read_is_executed() const {
    return oldest != nullptr && oldest->kind == WorkKind::kRead && (gaps != nullptr || is_within_request(index_of_una()));
  }
};

}  // namespace cw::rc
