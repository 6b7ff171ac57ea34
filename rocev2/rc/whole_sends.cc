#include "rocev2/rc/whole_sends.h"

#include <utility>

#include "base/assert.h"

namespace cw::rc {
namespace {

// The oldest one. Precondition: there is one.
Buffer* take_first(QpContext& context, SendState& state) {
  Buffer* first = state.newest_whole->next;
  state.newest_whole->next = first->next;
  first->next = nullptr;
  --context.core.whole_sends;
  --state.queue_count;
  --state.whole_count;
  return first;
}

// Of this queue pair's SENDs that the core remembers, the oldest one numbered before `end`; nullptr: there is none.
WatchedSend* first_watched(QpContext& context, const SendState& state, wire::Psn end) {
  WatchedSend* first = nullptr;
  for (WatchedSend& each : context.core.watched_sends) {
    const bool is_ours = each.owner == &state && each.ssn.distance_to(end) > 0;
    first = is_ours && (first == nullptr || each.ssn.distance_to(first->ssn) > 0) ? &each : first;
  }
  return first;
}

verbs::WorkId forget(SendState& state, WatchedSend& watched) {
  watched.owner = nullptr;
  --state.watched_count;
  return watched.id;
}

Work* work_of_send(QpContext& context) {
  Work* work = context.core.sends.create();
  CW_ASSERT(work != nullptr);  // it has been counted
  work->kind = WorkKind::kSend;
  work->packets = 1;
  work->plain = true;
  return work;
}

// Its owner wants to hear of it, and it has been acknowledged.
void complete_watched(QpContext& context, SendState& state, WatchedSend& watched) {
  Work* work = work_of_send(context);
  work->id = forget(state, watched);
  work->length = watched.bytes;
  context.completions.push(context.core, work);
}

// The owner wants to hear of the SEND with this number. False: there is no place to remember it.
bool watch(QpContext& context, SendState& state, const verbs::PlainSend& send, wire::Psn ssn) {
  for (WatchedSend& each : context.core.watched_sends) {
    if (each.owner == nullptr) {
      each = {.owner = &state, .id = send.id, .ssn = ssn, .bytes = send.payload->size};
      ++state.watched_count;
      return true;
    }
  }
  return false;
}

}  // namespace

uint32_t enqueue_whole_sends(QpContext& context, SendState& state, std::span<const verbs::PlainSend> sends) {
  Buffer* last = state.whole_count > 0 ? state.newest_whole : nullptr;
  Buffer* first = last != nullptr ? last->next : nullptr;
  const Buffer* first_new = nullptr;
  uint32_t count = 0;
  for (const verbs::PlainSend& send : sends) {
    Buffer* payload = send.payload;
    if (payload->size > context.mtu_bytes || !context.header.has_room_for_send(*payload)) {
      break;
    }
    if (send.signaled || send.id != verbs::WorkId()) [[unlikely]] {
      if (!send.signaled || !watch(context, state, send, state.last_ssn.plus(count + 1))) {
        break;
      }
    }
    (last == nullptr ? first : last->next) = payload;
    last = payload;
    first_new = count == 0 ? payload : first_new;
    ++count;
  }
  if (count > 0) [[likely]] {
    last->next = first;
    state.newest_whole = last;
    state.cursor.buffer = state.whole_unsent == 0 ? first_new : state.cursor.buffer;
    state.whole_count = static_cast<uint16_t>(state.whole_count + count);
    state.whole_unsent = static_cast<uint16_t>(state.whole_unsent + count);
    state.queue_count = static_cast<uint16_t>(state.queue_count + count);
    state.last_ssn = state.last_ssn.plus(count);
    context.core.whole_sends += count;
  }
  return count;
}

void acknowledge_whole_sends(QpContext& context, SendState& state, wire::Psn upto) {
  for (int32_t count = state.window.una().distance_to(upto); count > 0; --count) {
    context.core.released.push_back(take_first(context, state));
  }
  state.window.acknowledge(upto);
  while (state.watched_count > 0) {
    WatchedSend* watched = first_watched(context, state, state.last_ssn.minus(state.whole_count).next());
    if (watched == nullptr) {
      return;
    }
    complete_watched(context, state, *watched);
  }
}

void make_works_of_whole_sends(QpContext& context, SendState& state) {
  const uint16_t count = state.whole_count;
  const uint16_t sent = count - std::exchange(state.whole_unsent, uint16_t{0});
  wire::Psn psn = state.window.next_psn().minus(sent);
  Work* last = state.oldest;
  while (last != nullptr && last->next != nullptr) {
    last = last->next;
  }
  Work* unsent = nullptr;
  for (uint16_t i = 0; i < count; ++i) {
    Buffer* payload = take_first(context, state);
    Work* work = work_of_send(context);
    work->length = payload->size;
    work->payload.push_back(payload);
    work->ssn = state.last_ssn.minus(count - 1u - i);
    WatchedSend* watched = state.watched_count > 0 ? first_watched(context, state, work->ssn.next()) : nullptr;
    work->signaled = watched != nullptr;
    work->id = watched != nullptr ? forget(state, *watched) : verbs::WorkId();
    if (i < sent) {
      work->begun = true;
      work->first_psn = psn;
      psn = psn.next();
    } else if (unsent == nullptr) {
      unsent = work;
    }
    (last == nullptr ? state.oldest : last->next) = work;
    last = work;
  }
  state.newest = last;
  state.queue_count = static_cast<uint16_t>(state.queue_count + count);
  state.cursor = SendCursor::start_of(unsent);
}

}  // namespace cw::rc
