// What the owner of a queue pair is to poll, in its order.
//
// A Work that waits to be polled is the completion. A SEND that came whole, in one frame, needs none: while nothing else comes
// behind it, it waits as the Buffer that it lies in. Anything else that comes behind it first makes it a Work. Till then it
// counts against RcCore::receives all the same, so that there is one to be had.
// All messages of a core that wait so came in one burst, and so at one time (RcCore::whole_at): owners poll in each turn. Where
// one does not, what comes later becomes a Work.
#pragma once

#include <cstdint>
#include <utility>

#include "base/assert.h"
#include "base/buffer.h"
#include "base/time.h"
#include "rocev2/rc/rc_core.h"
#include "rocev2/rc/work.h"

namespace cw::rc {

class CompletionQueue {
 public:
  [[nodiscard]] bool empty() const { return works_.empty() && last_ == nullptr; }

  void push(RcCore& core, Work* work) {
    if (last_ != nullptr) [[unlikely]] {
      make_works(core);
    }
    works_.push(work);
  }
  // A message of one unlinked Buffer that came at `now`, and of which there is nothing else to say.
  // Precondition: RcCore::has_receive_work().
  void push_whole(RcCore& core, Buffer* message, Instant now) {
    CW_DASSERT(message->next == nullptr && core.has_receive_work());
    if (core.whole_messages > 0 && core.whole_at != now) [[unlikely]] {
      push(core, work_of(core, message, now));
      return;
    }
    core.whole_at = now;
    ++core.whole_messages;
    message->next = last_ == nullptr ? message : std::exchange(last_->next, message);
    last_ = message;
  }

  // Works come first. nullptr: there is none.
  [[nodiscard]] Work* front() const { return works_.front(); }
  [[nodiscard]] Work* pop() { return works_.pop(); }
  // The next of the messages that have no Work, which came at RcCore::whole_at; nullptr: there is none.
  // Precondition: front() gives nullptr.
  [[nodiscard]] Buffer* pop_whole(RcCore& core) {
    CW_DASSERT(works_.empty());
    return last_ == nullptr ? nullptr : take_first(core);
  }

 private:
  [[nodiscard]] Buffer* take_first(RcCore& core) {
    Buffer* first = last_->next;
    last_->next = first->next;
    if (first == last_) {
      last_ = nullptr;
    }
    first->next = nullptr;
    --core.whole_messages;
    return first;
  }
  [[nodiscard]] static Work* work_of(RcCore& core, Buffer* message, Instant begun) {
    Work* work = core.receives.create();
    CW_ASSERT(work != nullptr);
    work->kind = WorkKind::kReceive;
    work->begun_at = begun;
    work->length = message->size;
    work->plain = true;
    work->payload.push_back(message);
    return work;
  }
  [[gnu::noinline]] void make_works(RcCore& core) {
    while (last_ != nullptr) {
      works_.push(work_of(core, take_first(core), core.whole_at));
    }
  }

  WorkQueue works_;
  Buffer* last_ = nullptr;  // behind all Works: the last of a ring, whose next is the first; nullptr: none
};

}  // namespace cw::rc
