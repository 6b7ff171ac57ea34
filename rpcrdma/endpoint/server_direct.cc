// The part of the server side that leaves calls to be answered as they are taken: see direct_calls.h.
#include <algorithm>
#include <span>
#include <utility>

#include "rpcrdma/endpoint/server_endpoint.h"
#include "rpcrdma/ulb/procedures.h"

namespace cw::rpcrdma {
namespace {

// Tells of a SEND of ours, which concerns no call: it may be heard before the messages that came with it are answered.
bool says_that_was_sent(const verbs::Completion& completion) {
  return completion.opcode == verbs::WcOpcode::kSend && completion.status == verbs::WcStatus::kSuccess;
}

}  // namespace

// No call is under way, nothing waits and nobody has to be asked: what comes now goes before nobody, and is answered whatever it
// is answered with.
bool ServerEndpoint::may_answer_directly() const {
  const BackendShares* backends = options_.backends;
  return shared_.express && !failed_ && reverse_ == nullptr && in_flight_ == 0 &&
         (backlog_ == nullptr || backlog_->waiting.empty()) && (aftermath_ == nullptr || aftermath_->refused_xids.empty()) &&
         !in_order_ && share_.reply_bytes == 0 && grant_ >= credits_ && rates() == nullptr &&
         (backends == nullptr || backends->programs.empty()) && !qp_.in_error();
}

// acquire_slot() would find nothing scarce, so many times, and no credit would be exceeded.
bool ServerEndpoint::has_slots_for(uint32_t count) const {
  const uint32_t before = count - 1;
  const uint32_t free = shared_.calls->free_count();
  const BackendShare* backend = options_.backends == nullptr ? nullptr : options_.backends->others;
  const bool leaves_backends =
      backend == nullptr || shared_.leaves_others(uint64_t{backend->slots} + before, 1,
                                                  uint64_t{shared_.calls->in_use()} + before, shared_.calls->capacity());
  return shared_.slot_waiters == 0 && free > before && share_.slots + before < free - before && leaves_backends &&
         count <= credits_ && receives_posted_ >= count;
}

bool ServerEndpoint::are_direct(uint32_t from, uint32_t count) const {
  for (; from < count; ++from) {
    const Buffer& message = *shared_.direct.messages[from].payload;
    if (message.size > options_.call_bytes_max || !shared_.predictions.at(prediction_).matches(message.bytes())) {
      return false;
    }
  }
  return count == 0 || has_slots_for(count);
}

uint32_t ServerEndpoint::take_direct(Instant now) {
  if (!may_answer_directly()) {
    on_completions(now);
    return 0;
  }
  DirectCalls& direct = shared_.direct;
  direct.count = 0;
  direct.next = 0;
  direct.answered = 0;
  direct.is_known = false;
  verbs::Completion& completion = direct.completion;
  bool all_are_direct = true;
  bool more = true;
  while (more && all_are_direct) {
    const uint32_t before = direct.count;
    direct.count += qp_.poll_messages(std::span(direct.messages).subspan(before));
    all_are_direct = are_direct(before, direct.count);
    more = qp_.poll_completion(completion);
    if (more && all_are_direct) {
      all_are_direct = says_that_was_sent(completion);
      if (all_are_direct) {
        on_sent(now, completion);
      }
    }
  }
  if (all_are_direct && direct.count > 0) [[likely]] {
    return direct.count;
  }
  take_rest(now);
  for (; more; more = qp_.poll_completion(completion)) {
    on_completion(now, completion);
  }
  end_completions(now, completion);
  return 0;
}

void ServerEndpoint::take_rest(Instant now) {
  DirectCalls& direct = shared_.direct;
  while (direct.next < direct.count) {
    const verbs::ReceivedMessage& message = direct.messages[direct.next++];
    Chain payload(message.payload);
    if (!failed_) {
      on_message(now, earlier(message.begun, now), std::move(payload));
    }
  }
}

const CallContext& ServerEndpoint::look_at_direct() {
  DirectCalls& direct = shared_.direct;
  const Bytes raw = direct.messages[direct.next].payload->bytes();
  RpcCallHeader& header = direct.context.header;
  // Those of one turn are alike, but for XID and procedure.
  if (direct.is_known && CallPrediction::procedure_of(raw) == header.procedure) [[likely]] {
    header.xid = load_be32(raw.data());
    return direct.context;
  }
  direct.is_known = true;
  inspect_call(shared_.predictions.at(prediction_).header_of(raw), direct.context);
  direct.procedure = procedure_row(header.program, header.version, header.procedure, direct.context.compound.principal);
  return direct.context;
}

Chain ServerEndpoint::open_direct() {
  DirectCalls& direct = shared_.direct;
  Buffer* buffer = direct.messages[direct.next++].payload;
  if (direct.next == 1) {
    direct.room = window_.room();
  }
  Chain message;
  message.push_back(buffer);
  message.give_up_front(kBareHeaderBytes);
  return message;
}

bool ServerEndpoint::answer_direct(Instant now, Chain& reply) {
  DirectCalls& direct = shared_.direct;
  const uint32_t xid = direct.context.header.xid;
  if (direct.answered == direct.room || !leaves_as_it_is(xid, reply)) [[unlikely]] {
    return false;
  }
  const Instant received = earlier(direct.messages[direct.next - 1].begun, now);
  if (const Duration waited = now - received; waited > Duration()) [[unlikely]] {
    shared_.durations.record(Stage::kRx, waited);
  }
  const uint64_t posted = shared_.stats.messages_out[static_cast<size_t>(MessageKind::kMsg)] + direct.answered;
  const verbs::WorkId id = ReplyPoster::watch_some(posted, now);
  ReplyPoster::write_bare_header(reply.extend_front(kBareHeaderBytes), xid, grant_);
  verbs::PlainSend& send = direct.replies[direct.answered];
  send.id = id;
  send.payload = reply.detach();
  send.signaled = window_.signaled(direct.room - direct.answered) || id != verbs::WorkId();
  ++direct.answered;
  if (direct.unnoted > 0 && (direct.unnoted_procedure != direct.procedure || direct.unnoted_received != received)) {
    note_direct_done(now);
  }
  direct.unnoted_procedure = direct.procedure;
  direct.unnoted_received = received;
  ++direct.unnoted;
  return true;
}

void ServerEndpoint::note_direct_done(Instant now) {
  DirectCalls& direct = shared_.direct;
  shared_.note_done(options_.client, direct.unnoted_procedure, direct.unnoted_received, now, std::exchange(direct.unnoted, 0));
}

void ServerEndpoint::post_direct(Instant now) {
  DirectCalls& direct = shared_.direct;
  const uint32_t count = direct.answered;
  note_direct_done(now);
  shared_.stats.messages_in[static_cast<size_t>(MessageKind::kMsg)] += count;
  shared_.predictions.calls_predicted += count;
  shared_.durations.record(Stage::kBackend, Duration(), count);
  direct.calls += count;
  arrivals_ += count;
  answered_ += count;
  const uint32_t posted = qp_.post_receives_and_sends(std::span(direct.replies).first(count));
  shared_.stats.messages_out[static_cast<size_t>(MessageKind::kMsg)] += posted;
  if (posted > 0) {
    window_.note_posted(1);
    watch_replies(now);
    window_.note_posted(posted - 1);
  }
  if (posted < count) [[unlikely]] {
    for (uint32_t i = posted; i < count; ++i) {
      release_buffers(direct.replies[i].payload);
    }
    fail();
  }
}

void ServerEndpoint::end_direct(Instant now, Chain& opened, uint64_t opened_bytes) {
  DirectCalls& direct = shared_.direct;
  if (direct.answered > 0) [[likely]] {
    post_direct(now);
  }
  if (opened_bytes > 0 && !failed_) [[unlikely]] {
    receives_posted_ -= receives_posted_ > 0 ? 1 : 0;
    ServerCall* call = acquire_slot(options_.backends == nullptr ? nullptr : options_.backends->others);
    CW_ASSERT(call != nullptr);
    count_in_use(1);
    enlist(now, earlier(direct.messages[direct.next - 1].begun, now), *call);
    ++shared_.stats.messages_in[static_cast<size_t>(MessageKind::kMsg)];
    call->xid = direct.context.header.xid;
    call->inline_bytes = opened_bytes;
    make_predicted_ready(*call, direct.context.header, std::move(opened));
  } else {
    opened.clear();
  }
  take_rest(now);
  advance(now);
}

}  // namespace cw::rpcrdma
