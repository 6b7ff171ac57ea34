// What the responder sends: READ responses cut from the named memory, then the one acknowledgement or NAK that is owed. In that
// order, because an acknowledgement of something behind a READ would tell the peer that the READ's responses are lost.
#pragma once

#include <cstdint>

#include "rocev2/rc/qp_context.h"
#include "rocev2/rc/receive_state.h"
#include "rocev2/wire/tx_batch.h"

namespace cw::rc {

struct ReplyResult {
  uint32_t packets = 0;                        // sent
  QpErrorCause failure = QpErrorCause::kNone;  // memory of a READ in progress is gone
};
// Sends READ responses and then, when none are left, the acknowledgement or NAK; at most `packets_max` and what the batch takes.
[[nodiscard]] ReplyResult send_replies(QpContext& context, ReceiveState& state, wire::TxBatch& batch, uint32_t packets_max);

}  // namespace cw::rc
