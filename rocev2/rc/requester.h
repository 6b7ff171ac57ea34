// The requester: turns posted works into packets, cut at the path MTU straight out of the works' payload, as far as the send
// window, the peer's READ depth, the READ window and the batch allow.
//
// What a READ request asks for comes back at the peer's full speed, and again when a response is lost. So a READ is asked for in
// requests of a bounded length (RcOptions::read_request_packets), and no more responses are under way than fill the way to the
// peer, nor than a receiver should be able to take in one go (read_window.h). The window does not shrink because responses are
// lost: the simulation showed no gain, because what is asked for again keeps the pace of what arrives, and a window of one
// request leaves the loss of its last response to a probe.
//
// It asks for an acknowledgement at the end of each message, every quarter of a window and with the packet that fills the window:
// so that the window reopens before it is used up, and never closes for want of having asked.
#pragma once

#include <cstdint>

#include "base/time.h"
#include "rocev2/rc/qp_context.h"
#include "rocev2/rc/send_state.h"
#include "rocev2/wire/tx_batch.h"

namespace cw::rc {

// Why no request packet can be sent now.
enum class SendStall : uint8_t {
  kNone,
  kIdle,          // all works have been sent
  kRnr,           // the peer asked us to wait
  kWindow,        // send window full
  kReadDepth,     // as many READ requests and atomics outstanding as the peer takes
  kReadWindow,    // as many READ responses asked for as may come at once
  kDraining,      // SQD: no work is begun
  kCredits,       // the peer has no receive for the next message
  kFence,         // earlier READs and atomics have to complete first
  kRepeatedRead,  // a READ request that was sent again must not be overtaken (repeated_reads.h)
  kSilence,       // the peer did not answer in time: the oldest packet has been repeated, the others wait for its answer
};

[[nodiscard]] SendStall send_stall(const QpContext& context, const SendState& state);

// Something that was sent is known to be lost, and alone has to be sent again.
[[nodiscard]] inline bool owes_repetition(const SendState& state) {
  return (state.board != nullptr && !state.rnr.is_under_way() && state.board->next_lost().has_value()) ||
         (state.gaps != nullptr && state.gaps->next_lost() != nullptr);
}

// Puts a work at the end of the queue. The caller has checked that there is room.
void enqueue_work(QpContext& context, SendState& state, Work* work);

// Sends up to `packets_max` packets. True when the batch or packets_max stopped it: it wants to be asked again.
[[nodiscard]] bool send_requests(QpContext& context, SendState& state, Instant now, wire::TxBatch& batch, uint32_t packets_max);

}  // namespace cw::rc
