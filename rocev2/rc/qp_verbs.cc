// The verbs::QueuePair part of a queue pair: posting and polling.
#include <algorithm>
#include <utility>

#include "rocev2/rc/qp.h"
#include "rocev2/rc/requester.h"
#include "rocev2/rc/whole_sends.h"

namespace cw::rc {
namespace {

verbs::WcOpcode opcode_of(const Work& work) {
  switch (work.kind) {
    case WorkKind::kSend:
      return verbs::WcOpcode::kSend;
    case WorkKind::kWrite:
      return verbs::WcOpcode::kRdmaWrite;
    case WorkKind::kRead:
      return verbs::WcOpcode::kRdmaRead;
    case WorkKind::kCompareSwap:
      return verbs::WcOpcode::kCompareSwap;
    case WorkKind::kFetchAdd:
      return verbs::WcOpcode::kFetchAdd;
    case WorkKind::kReceive:
      return work.write_immediate ? verbs::WcOpcode::kReceiveRdmaWithImmediate : verbs::WcOpcode::kReceive;
  }
  return verbs::WcOpcode::kSend;
}

void fill_completion(Work& work, verbs::Completion& out) {
  const bool received = work.kind == WorkKind::kReceive;
  out.id = work.id;
  out.status = work.status;
  out.opcode = opcode_of(work);
  out.bytes = work.status == verbs::WcStatus::kSuccess ? work.length : 0;
  out.payload = std::move(work.payload);
  out.original = work.original;
  out.begun = received ? work.begun_at : Instant::never();
  out.solicited = received && work.solicited;
  out.immediate.reset();
  out.invalidated.reset();
  if (received && work.has_immediate) {
    out.immediate = work.immediate;
  }
  if (received && work.has_invalidate) {
    out.invalidated = work.rkey;
  }
}

// The same of a message that has no Work.
void fill_completion(Buffer* message, Instant begun, verbs::Completion& out) {
  out.id = verbs::WorkId();
  out.status = verbs::WcStatus::kSuccess;
  out.opcode = verbs::WcOpcode::kReceive;
  out.bytes = message->size;
  out.payload.clear();
  out.payload.push_back(message);
  out.original = 0;
  out.begun = begun;
  out.solicited = false;
  out.immediate.reset();
  out.invalidated.reset();
}

}  // namespace

Status RcQp::admit(uint64_t bytes) const {
  if (!can_send(state_)) {
    return cw::fail(Error::kBadState);
  }
  if (bytes > kMessageBytesMax || context_.packets_of(bytes) > context_.psn_window_packets) {
    return cw::fail(Error::kLimit);
  }
  if (send_queue_room() == 0) {
    return cw::fail(Error::kNoResources);
  }
  return {};
}

void RcQp::enqueue(Work* work) {
  work->packets = context_.packets_of(work->length);
  enqueue_work(context_, send_, work);
  note_sendable();
}

Status RcQp::post_send(verbs::SendRequest&& request) {
  if (request.invalidate.has_value() && request.immediate.has_value()) {
    return cw::fail(Error::kBadValue);
  }
  const Status admitted = admit(request.payload.bytes());
  if (!admitted.ok()) {
    return admitted;
  }
  const bool is_bare = !(request.immediate.has_value() || request.invalidate.has_value() || request.solicited || request.fence);
  // A core remembers few of those that somebody wants to hear of. One behind which nothing waits may as well be a Work.
  const bool is_worth_it = !request.signaled || send_.whole_count > 0;
  if (takes_whole_sends(context_, send_) && is_bare && is_worth_it && request.payload.buffer_count() == 1) {
    const verbs::PlainSend plain{request.id, request.payload.head(), request.signaled};
    if (enqueue_whole_sends(context_, send_, std::span(&plain, 1)) > 0) {
      (void)request.payload.detach();
      note_sendable();
      return {};
    }
  }
  Work* work = context_.core.sends.create();
  work->kind = WorkKind::kSend;
  work->id = request.id;
  work->length = static_cast<uint32_t>(request.payload.bytes());
  work->payload = std::move(request.payload);
  work->has_immediate = request.immediate.has_value();
  work->immediate = request.immediate.value_or(0);
  work->has_invalidate = request.invalidate.has_value();
  work->rkey = request.invalidate.value_or(verbs::Rkey());
  work->solicited = request.solicited;
  work->fence = request.fence;
  work->signaled = request.signaled;
  work->plain = is_bare;
  enqueue(work);
  return {};
}

Status RcQp::post_write(verbs::WriteRequest&& request) {
  const Status admitted = admit(request.payload.bytes());
  if (!admitted.ok()) {
    return admitted;
  }
  Work* work = context_.core.sends.create();
  work->kind = WorkKind::kWrite;
  work->id = request.id;
  work->length = static_cast<uint32_t>(request.payload.bytes());
  work->payload = std::move(request.payload);
  work->rkey = request.rkey;
  work->remote_address = request.remote_address;
  work->has_immediate = request.immediate.has_value();
  work->immediate = request.immediate.value_or(0);
  work->solicited = request.solicited;
  work->fence = request.fence;
  work->signaled = request.signaled;
  enqueue(work);
  return {};
}

Status RcQp::post_read(verbs::ReadRequest&& request) {
  const Status admitted = admit(request.length);
  if (!admitted.ok()) {
    return admitted;
  }
  if (send_.window.initiator_depth() == 0) {
    return cw::fail(Error::kUnsupported);
  }
  Work* work = context_.core.sends.create();
  work->kind = WorkKind::kRead;
  work->id = request.id;
  work->length = request.length;
  work->rkey = request.rkey;
  work->remote_address = request.remote_address;
  work->fence = request.fence;
  enqueue(work);
  return {};
}

Status RcQp::post_atomic(const verbs::AtomicRequest& request) {
  const Status admitted = admit(verbs::kAtomicBytes);
  if (!admitted.ok()) {
    return admitted;
  }
  if (send_.window.initiator_depth() == 0) {
    return cw::fail(Error::kUnsupported);
  }
  Work* work = context_.core.sends.create();
  work->kind = request.operation == verbs::AtomicOperation::kCompareSwap ? WorkKind::kCompareSwap : WorkKind::kFetchAdd;
  work->id = request.id;
  work->length = verbs::kAtomicBytes;
  work->rkey = request.rkey;
  work->remote_address = request.remote_address;
  work->operand = request.operand;
  work->compare = request.compare;
  work->fence = request.fence;
  enqueue(work);
  return {};
}

void RcQp::post_receives(uint32_t count) {
  if (receive_.pool != nullptr) {
    receive_.pool->post(count);
  } else {
    receive_.receives += count;
  }
}

bool RcQp::poll_completion(verbs::Completion& out) {
  Work* work = context_.completions.pop();
  if (work == nullptr) {
    Buffer* message = context_.completions.pop_whole(context_.core);
    if (message == nullptr) {
      return false;
    }
    fill_completion(message, context_.core.whole_at, out);
    return true;
  }
  fill_completion(*work, out);
  Slab<Work>& slab = work->kind == WorkKind::kReceive ? context_.core.receives : context_.core.sends;
  slab.destroy(work);
  return true;
}

uint32_t RcQp::poll_messages(std::span<verbs::ReceivedMessage> out) {
  CompletionQueue& completions = context_.completions;
  uint32_t count = 0;
  for (Work* work = completions.front(); work != nullptr; work = completions.front()) {
    if (count == out.size() || work->kind != WorkKind::kReceive || !work->plain) {
      return count;
    }
    static_cast<void>(completions.pop());
    out[count++] = {.payload = work->payload.detach(), .begun = work->begun_at};
    context_.core.receives.destroy(work);
  }
  for (; count < out.size(); ++count) {
    Buffer* message = completions.pop_whole(context_.core);
    if (message == nullptr) {
      break;
    }
    out[count] = {.payload = message, .begun = context_.core.whole_at};
  }
  return count;
}

// Nobody looks between one and the next: what they share is done once.
uint32_t RcQp::post_receives_and_sends(std::span<verbs::PlainSend> sends) {
  const uint32_t room = can_send(state_) ? std::min(send_queue_room(), static_cast<uint32_t>(sends.size())) : 0;
  uint32_t posted = takes_whole_sends(context_, send_) ? enqueue_whole_sends(context_, send_, sends.first(room)) : 0;
  for (; posted < room; ++posted) {
    const verbs::PlainSend& send = sends[posted];
    const uint32_t packets = context_.packets_of(send.payload->size);
    if (send.payload->size > kMessageBytesMax || packets > context_.psn_window_packets) [[unlikely]] {
      break;
    }
    Work* work = context_.core.sends.create();
    work->kind = WorkKind::kSend;
    work->id = send.id;
    work->length = send.payload->size;
    work->packets = packets;
    work->payload.push_back(send.payload);
    work->signaled = send.signaled;
    work->plain = true;
    enqueue_work(context_, send_, work);
  }
  post_receives(std::min(posted + 1, static_cast<uint32_t>(sends.size())));
  if (posted > 0) {
    note_sendable();
  }
  return posted;
}

uint32_t RcQp::send_queue_room() const {
  return std::min<uint32_t>(send_.queue_depth - send_.queue_count, context_.core.send_work_left());
}

}  // namespace cw::rc
