// SENDs that need no Work: whole messages of one Buffer in one packet each, with nothing else to say.
//
// They wait as the Buffers that they lie in, from the post until the peer has acknowledged them. What lies before them in the
// queue, if anything, are Works that have been sent; nothing has to be sent again. Anything else that comes (a Work behind them,
// a loss, a timer, a NAK) first makes them Works, and the general path goes on with these. Till then each counts against
// RcCore::sends all the same, so that there is one to be had.
//
// Of some the owner wants to hear. A core remembers a few of these (RcCore::watched_sends), and one more needs a Work, as all do
// without the express paths. A peer that says nothing keeps its places until the first timer: then they are Works.
//
//    Works     oldest             SendState::cursor.buffer    SendState::newest_whole
//   -------|-----|----------------------|---------------------------|---->  next, in a ring
//    sent             sent                      whole_unsent
#pragma once

#include <cstdint>
#include <span>

#include "rocev2/rc/qp_context.h"
#include "rocev2/rc/send_state.h"
#include "verbs/work_request.h"

namespace cw::rc {

// A SEND that is posted now may wait so.
[[nodiscard]] inline bool takes_whole_sends(const QpContext& context, const SendState& state) {
  return context.core.express && state.cursor.work == nullptr && state.is_ordinary();
}
// Puts them at the end of the queue, up to the first that needs a Work, and takes their Buffers. Says how many.
// Precondition: takes_whole_sends(), and there is room for all of them.
[[nodiscard]] uint32_t enqueue_whole_sends(QpContext& context, SendState& state, std::span<const verbs::PlainSend> sends);

// Everything before `upto` is acknowledged. Precondition: no Works are left; `upto` in [una, next_psn].
void acknowledge_whole_sends(QpContext& context, SendState& state, wire::Psn upto);

// The queue becomes what it would be if they had been posted as Works. Precondition: it holds some.
void make_works_of_whole_sends(QpContext& context, SendState& state);
inline void make_works(QpContext& context, SendState& state) {
  if (state.whole_count > 0) [[unlikely]] {
    make_works_of_whole_sends(context, state);
  }
}

}  // namespace cw::rc
