#include "rpcrdma/endpoint/server_endpoint.h"

#include <algorithm>
#include <utility>

#include "rpcrdma/endpoint/call_checks.h"
#include "rpcrdma/xdr/peek_word.h"

namespace cw::rpcrdma {
namespace {

constexpr ReducibleItems kNoItems{};

// The time of a call counts for each thing that it waits for anew: nobody pays with his call_timeout for a place in a line. Calls
// are in the order in which they got their data and are polled in about that order, so that the first of them is the first to be
// late; one behind a reply that waits may be found out when that is gone.
bool is_with_owner(const ServerCall& call) {
  return call.state == CallState::kPolled;
}
Instant clock_of(const ServerCall& call) {
  return call.polled && !is_with_owner(call) ? call.answered : call.begun_at;
}
Duration limit_of(const ServerCall& call, const ServerOptions& options) {
  return is_with_owner(call) ? options.call_timeout : options.wait_timeout;
}

// With its header in front, as one inline message.
uint32_t longest_plain_reply(const ServerShared& shared, const ServerOptions& options, const InlineThresholds& thresholds) {
  if (kBareHeaderBytes > shared.header_bytes_max || kBareHeaderBytes > thresholds.send_bytes) {
    return 0;
  }
  return static_cast<uint32_t>(std::min<uint64_t>(
      {ReplyPoster::kCopyBytesMax, options.reply_bytes_max, uint64_t{thresholds.send_bytes} - kBareHeaderBytes}));
}

}  // namespace

ServerShared::ServerShared(uint32_t calls_in_flight_max, BufferPool& buffer_pool, uint64_t units_max)
    : calls(std::make_unique<ServerCallTable>(calls_in_flight_max)),
      pool(buffer_pool),
      header_bytes_max(buffer_pool.buffer_bytes()),
      done(calls_in_flight_max),
      held_replies(calls_in_flight_max),
      pull_units_max(units_max) {}

ServerShared::~ServerShared() = default;

const char* to_string(EndpointFailure failure) noexcept {
  switch (failure) {
    case EndpointFailure::kNone:
      return "none";
    case EndpointFailure::kProtocol:
      return "protocol";
    case EndpointFailure::kCallTimeout:
      return "call timeout";
    case EndpointFailure::kReadTimeout:
      return "read timeout";
    case EndpointFailure::kSlowReads:
      return "slow reads";
    case EndpointFailure::kReplyTimeout:
      return "reply timeout";
    case EndpointFailure::kStarved:
      return "starved";
  }
  return "unknown failure";
}

ServerEndpoint::ServerEndpoint(ServerShared& shared, verbs::QueuePair& qp, const ServerOptions& options,
                               const InlineThresholds& thresholds)
    : shared_(shared),
      qp_(qp),
      window_(qp),
      thresholds_(thresholds),
      plain_reply_bytes_max_(longest_plain_reply(shared, options, thresholds)),
      credits_(std::clamp(options.credits, 1u, kCreditsMax)),
      grant_(credits_),
      prediction_(shared.predictions.join()),
      own_share_(options.share == nullptr ? std::make_unique<ClientShare>() : nullptr),
      share_(own_share_ != nullptr ? *own_share_ : *options.share),
      options_(options) {
  options_.reads_in_flight_max = std::max(options_.reads_in_flight_max, 1u);
  rate_waiter_.owner = options.connection;
  count_granted(credits_);
}

ServerEndpoint::~ServerEndpoint() {
  fail();
  shared_.predictions.leave(prediction_);
  if (aftermath_ == nullptr) {
    return;
  }
  for (const Aftermath::UnitsLeft& left : aftermath_->units_left) {
    shared_.return_units(share_, left.backend, left.units);
  }
}

void ServerEndpoint::start(uint32_t posted) {
  CW_DASSERT(!started_ && posted <= credits_);
  started_ = true;
  receives_posted_ = credits_;
  qp_.post_receives(receives_posted_ - posted);
}

void ServerEndpoint::set_grant(uint32_t credits) {
  grant_ = std::clamp(credits, 1u, std::clamp(options_.credits, 1u, kCreditsMax));
  if (failed_ || (started_ && grant_ <= credits_)) {
    return;  // less comes with the replies
  }
  count_granted(int64_t{grant_} - credits_);
  if (started_) {
    receives_posted_ += grant_ - credits_;
    qp_.post_receives(grant_ - credits_);
  }
  credits_ = grant_;
}

ServerEndpoint::Aftermath& ServerEndpoint::aftermath() {
  if (aftermath_ == nullptr) {
    aftermath_ = std::make_unique<Aftermath>();
  }
  return *aftermath_;
}

void ServerEndpoint::refuse_xid(uint32_t xid) {
  std::vector<uint32_t>& refused = aftermath().refused_xids;
  if (refused.size() < kRefusedXidsMax) {
    refused.push_back(xid);
  }
}

// True once for each.
bool ServerEndpoint::is_refused(uint32_t xid) {
  if (aftermath_ == nullptr) {
    return false;
  }
  std::vector<uint32_t>& refused = aftermath_->refused_xids;
  const auto found = std::ranges::find(refused, xid);
  if (found == refused.end()) {
    return false;
  }
  *found = refused.back();
  refused.pop_back();
  return true;
}

void ServerEndpoint::on_completions(Instant now) {
  verbs::Completion completion;
  while (qp_.poll_completion(completion)) {
    on_completion(now, completion);
  }
  end_completions(now, completion);
}

// What is left of the last one, as of a message that is refused, is memory for what comes of it.
void ServerEndpoint::end_completions(Instant now, verbs::Completion& last) {
  last.payload.clear();
  if (qp_.in_error()) {
    fail();
  }
  advance(now);
}

void ServerEndpoint::on_completion(Instant now, verbs::Completion& completion) {
  if (failed_) {
    return;
  }
  // Work that fails, receives included, takes the connection with it: nothing can be said about what the client has seen.
  if (completion.status != verbs::WcStatus::kSuccess) {
    note_broken(completion);
    fail();
    return;
  }
  switch (completion.opcode) {
    case verbs::WcOpcode::kReceive:
      on_message(now, earlier(completion.begun, now), std::move(completion.payload));
      break;
    case verbs::WcOpcode::kReceiveRdmaWithImmediate:
      // No RPC-over-RDMA peer sends it: nothing of ours can be written to.
      ++shared_.stats.messages_in[static_cast<size_t>(MessageKind::kOther)];
      --receives_posted_;
      drop_message();
      break;
    case verbs::WcOpcode::kRdmaRead:
      on_read(now, completion, std::move(completion.payload));
      break;
    case verbs::WcOpcode::kSend:
      on_sent(now, completion);
      break;
    case verbs::WcOpcode::kRdmaWrite:
    case verbs::WcOpcode::kCompareSwap:
    case verbs::WcOpcode::kFetchAdd:
      break;
  }
}

void ServerEndpoint::on_sent(Instant now, const verbs::Completion& completion) {
  if (const std::optional<Acknowledged> what = acknowledged_by(completion.id)) {
    shared_.durations.record(what->stage, now - what->answered);
  }
  settle_replies();
}

void ServerEndpoint::on_message(Instant now, Instant begun, Chain&& message) {
  receives_posted_ -= receives_posted_ > 0 ? 1 : 0;
  if (reverse_ != nullptr && reverse_->in_flight() > 0 && reverse_->take(shared_.header_view, message)) {
    return;
  }
  const bool predicted = predicts(message);
  if (!predicted && check_fixed(shared_.header_view, message, shared_.stats) == Verdict::kDrop) {
    drop_message();
    return;
  }
  if (backlog_ == nullptr || backlog_->waiting.empty()) [[likely]] {
    take_call(now, begun, std::move(message), predicted);
    return;
  }
  // Calls keep their order while they wait for slots.
  if (!backlog_->waiting.push({.bytes = static_cast<uint32_t>(message.bytes()), .begun = begun, .share = share_for(message)})) {
    ++shared_.stats.credit_violations;
    fail();
    return;
  }
  backlog_->messages.append(std::move(message));
  count_in_use(1);
}

bool ServerEndpoint::predicts(const Chain& message) const {
  return shared_.express && rates() == nullptr && message.buffer_count() == 1 && message.bytes() <= options_.call_bytes_max &&
         shared_.predictions.at(prediction_).matches(message.head()->bytes());
}

// `message` is as it came, and the call that it was is ready.
void ServerEndpoint::learn_from(Bytes message, const HeaderCheck& check, const ServerCall& call) {
  if (shared_.express && check.header_bytes == kBareHeaderBytes && call.chunks.empty() && call.proc == RdmaProc::kMsg) {
    shared_.predictions.at(prediction_).learn(message, call.context.header);
    ++shared_.predictions.calls_learned;
  }
}

// In which the call's slot is to count. What is malformed is refused at once, and may count anywhere.
BackendShare* ServerEndpoint::share_for(const Chain& message) {
  const BackendShares* backends = options_.backends;
  if (backends == nullptr || backends->programs.empty()) [[likely]] {
    return backends == nullptr ? nullptr : backends->others;
  }
  constexpr uint32_t kProgramWord = 3;  // RFC 5531 9: behind XID, direction and RPC version
  const auto header = shared_.header_view.decode(message, options_.limits, shared_.looked_at);
  if (header.ok()) {
    if (const auto program = peek_word(message, header->header_bytes / 4 + kProgramWord); program.ok()) {
      return backends->of(*program);
    }
  }
  return backends->unread;
}

// The common case is cheap: nobody waits, and more slots are free than the client holds.
ServerCall* ServerEndpoint::acquire_slot(BackendShare* backend) {
  const bool is_scarce = shared_.slot_waiters > 0 || share_.slots >= shared_.calls->free_count() ||
                         (backend != nullptr && !shared_.may_begin(*backend));
  if (is_scarce && !has_turn_to_begin(backend)) [[unlikely]] {
    return nullptr;
  }
  ++share_.slots;
  return shared_.calls->acquire(*this, backend);
}

// An endpoint waits in one line at a time. One that has reached a later line has had its turn in the lines before: when it is
// sent back, it goes to the front.
bool ServerEndpoint::has_turn_to_begin(BackendShare* backend) {
  if (!is_among_first(SlotLine::kClient, share_.slot_line, shared_.slots_left_to(share_))) {
    stand_in_slot_line(SlotLine::kClient, share_.slot_line);
    return false;
  }
  if (backend != nullptr && !is_among_first(SlotLine::kBackend, backend->slot_line, shared_.slots_left_to(backend))) {
    stand_in_slot_line(SlotLine::kBackend, backend->slot_line);
    return false;
  }
  if (!is_among_first(SlotLine::kAll, shared_.slot_line, shared_.calls->free_count())) {
    stand_in_slot_line(SlotLine::kAll, shared_.slot_line);
    return false;
  }
  leave_slot_line();
  return true;
}

// Whether `count` slots are enough for those before it in the line and for itself.
bool ServerEndpoint::is_among_first(SlotLine which, SlotWaiters& line, uint32_t count) const {
  if (slot_line_ > which) {
    return count > 0;
  }
  const SlotWaiter* self = slot_line_ == which ? &backlog_->waiter : nullptr;
  uint32_t before = 0;
  for (const SlotWaiter* other = line.front(); other != self; other = line.next(*other)) {
    if (++before >= std::min(count, ServerShared::kTogether)) {
      return false;
    }
  }
  return count > 0;
}

void ServerEndpoint::stand_in_slot_line(SlotLine which, SlotWaiters& line) {
  if (slot_line_ == which) {
    return;
  }
  const bool sent_back = slot_line_ > which;
  leave_slot_line();
  make_backlog();
  if (sent_back) {
    line.push_front(backlog_->waiter);
  } else {
    line.push_back(backlog_->waiter);
  }
  slot_line_ = which;
  ++shared_.slot_waiters;
}

void ServerEndpoint::leave_slot_line() {
  if (slot_line_ != SlotLine::kNone) {
    backlog_->waiter.unlink();
    slot_line_ = SlotLine::kNone;
    --shared_.slot_waiters;
  }
}

void ServerEndpoint::make_backlog() {
  if (backlog_ == nullptr) {
    backlog_ = std::make_unique<Backlog>(std::clamp(options_.credits, 1u, kCreditsMax) + options_.reverse_credits);
  }
}

void ServerEndpoint::release(ServerCall& call) {
  --share_.slots;
  shared_.calls->release(call);
}

// Gives the message a slot, or lets it wait for one.
void ServerEndpoint::take_call(Instant now, Instant begun, Chain&& message, bool predicted) {
  BackendShare* share = share_for(message);
  ServerCall* call = acquire_slot(share);
  count_in_use(1);
  if (call == nullptr) {
    CW_ASSERT(backlog_->waiting.push({.bytes = static_cast<uint32_t>(message.bytes()), .begun = begun, .share = share}));
    backlog_->messages.append(std::move(message));
    wait_for_memory();
    return;
  }
  accept(now, begun, *call, std::move(message), predicted);
}

void ServerEndpoint::take_waiting(Instant now) {
  while (!failed_ && !backlog_->waiting.empty()) {
    ServerCall* call = acquire_slot(backlog_->waiting.front().share);
    if (call == nullptr) {
      wait_for_memory();
      return;
    }
    Chain message;
    // Every message has Buffers of its own, so that the cut needs no view.
    const Backlog::Message oldest = backlog_->waiting.pop();
    CW_ASSERT(backlog_->messages.split_front(oldest.bytes, message));
    accept(now, oldest.begun, *call, std::move(message), false);
  }
}

void ServerEndpoint::enlist(Instant now, Instant begun, ServerCall& call) {
  call.received = begun;
  call.begun_at = now;
  call.arrival = arrivals_++;
  ++in_flight_;
  calls_.push_back(call);
  call.state = CallState::kReading;
}

// `message` is the RPC call alone.
void ServerEndpoint::make_predicted_ready(ServerCall& call, const RpcCallHeader& header, Chain&& message) {
  ++shared_.predictions.calls_predicted;
  call.message = std::move(message);
  inspect_call(header, call.context);
  enter_ready(call);
}

void ServerEndpoint::accept(Instant now, Instant begun, ServerCall& call, Chain&& message, bool predicted) {
  enlist(now, begun, call);
  const Bytes raw = message.head()->bytes();
  const HeaderCheck check = predicted ? check_predicted(message, call, shared_.stats)
                                      : check_header(shared_.header_view, message, options_, call, shared_.stats);
  if (check.verdict == Verdict::kReverseReply || check.verdict == Verdict::kDrop) {
    // The ReverseCaller has seen it before: nobody waits for this one.
    ++shared_.stats.reverse_dropped;
    drop_call(call);
    drop_message();
    return;
  }
  if (in_flight_ > credits_) {
    ++shared_.stats.credit_violations;
    fail();
    return;
  }
  if (aftermath_ != nullptr && check.verdict == Verdict::kCall && is_refused(call.xid)) {
    ++shared_.stats.refused_again;
    refuse(call, ReplyForm::kErrorChunk);
    return;
  }
  if (check.verdict != Verdict::kCall) {
    refuse(call, check.verdict == Verdict::kErrorVersion ? ReplyForm::kErrorVersion : ReplyForm::kErrorChunk);
    return;
  }
  if (predicted) {
    message.give_up_front(check.header_bytes);
    make_predicted_ready(call, shared_.predictions.at(prediction_).header_of(raw), std::move(message));
    return;
  }
  if (call.proc == RdmaProc::kMsg) {
    message.give_up_front(check.header_bytes);
    if (!check_xid(message, call.xid, shared_.stats)) {
      refuse(call, ReplyForm::kErrorChunk);
      return;
    }
    call.message = std::move(message);
  }
  const bool is_admitted = rates() != nullptr || (options_.budget != nullptr && !call.chunks.empty());
  if (is_admitted && (!unadmitted_.empty() || !admit(now, call))) [[unlikely]] {
    call.state = CallState::kWaiting;
    count_postponed();
    await_data(now, call);
    unadmitted_.push_back(call);
    return;
  }
  if (call.chunks.read_count == 0) {
    make_ready(call);
    learn_from(raw, check, call);
    return;
  }
  await_data(now, call);
  reading_.push_back(call);
}

void ServerEndpoint::count_postponed() {
  if (options_.budget != nullptr) {
    ++options_.budget->calls_postponed;
  }
  if (options_.rates != nullptr) {
    options_.rates->count_postponed();
  }
}

// The receive of a message that needs no answer goes back at once.
void ServerEndpoint::drop_message() {
  ++receives_posted_;
  qp_.post_receives(1);
}

void ServerEndpoint::drop_call(ServerCall& call) {
  finish(call);
  release(call);
}

// Whether the owner may have a call that is ready: in order, only in its turn; and its reply must have room.
bool ServerEndpoint::may_poll(Instant now, ServerCall& call) {
  return (!in_order_ || has_turn(now, call)) && reply_has_room(now, call);
}

bool ServerEndpoint::poll_call(Instant now, Call& out) {
  ServerCall* call = ready_.front();
  if (call == nullptr) {
    return false;
  }
  const bool asks_more = (call->chunks.segment_count | share_.reply_bytes | uint64_t{in_order_}) != 0;
  if (asks_more && !may_poll(now, *call)) [[unlikely]] {
    return false;
  }
  queue_node(*call).unlink();
  // Most calls arrive in one burst and are taken up in its turn: they have no such stage.
  if (const Duration waited = now - call->received - call->read_for; waited > Duration()) [[unlikely]] {
    shared_.durations.record(Stage::kRx, waited);
  }
  call->begun_at = now;
  call->state = CallState::kPolled;
  call->polled = true;
  ++taken_;
  --ready_calls_;
  out.id = call->id();
  call->context.compound.clear();
  if (call->context.binding == Binding::kNfs4) {
    read_compound_call(call->context.header, call->message, call->context.compound);
  }
  out.context = &call->context;
  out.message = std::move(call->message);
  out.received = call->received;
  return true;
}

std::optional<uint32_t> ServerEndpoint::next_xid() const {
  const ServerCall* call = ready_.front();
  call = call == nullptr ? pulling_.front() : call;
  return call == nullptr ? std::nullopt : std::optional(call->xid);
}

void ServerEndpoint::reply(Instant now, CallId id, Chain&& message) {
  ServerCall* call = shared_.calls->find(id);
  if (call == nullptr || call->endpoint != this || call->state != CallState::kPolled) {
    ++shared_.stats.late_replies;
    message.clear();
    return;
  }
  call->answered = now;
  settle_rate(now, *call, message.bytes());
  shared_.durations.record(Stage::kBackend, now - call->begun_at);
  if (goes_plainly(*call, message)) [[likely]] {
    if (const uint32_t room = window_.room(); room > 0) [[likely]] {
      if (post_plainly(now, call->xid, std::move(message), room)) [[likely]] {
        answered(now, *call);
      }
      advance(now);
      return;
    }
  }
  const bool keeps = message.bytes() > ReplyPoster::kCopyBytesMax;
  if (keeps || call->reply_bytes > 0) {
    set_reply_bytes(*call, keeps ? uint64_t{message.buffer_count()} * message.head()->pool->buffer_bytes() : 0);
  }
  if (message.bytes() < kRpcReplyBytesMin || !check_reply(message, call->xid, shared_.stats)) {
    message.clear();
    refuse(*call, ReplyForm::kErrorChunk);
  } else {
    const bool reducible = call->chunks.write_count > 0 && call->context.binding != Binding::kNone;
    if (reducible) [[unlikely]] {
      plan(*call, std::move(message), find_reducible(call->context, message));
    } else {
      plan(*call, std::move(message), kNoItems);
    }
    // At once, unless others wait before it. What cannot be posted now is tried again below, and counted there.
    const PostResult result = replying_.empty() ? post_reply(now, *call) : PostResult::kNoRoom;
    if (result == PostResult::kNoRoom || result == PostResult::kNoBuffer) {
      replying_.push_back(*call);
    }
  }
  advance(now);
}

// Precondition: the call is in no state list, and is put on its way by the caller.
void ServerEndpoint::plan(ServerCall& call, Chain&& answer, const ReducibleItems& items) {
  const ReplyLimits limits{.send_bytes_max = thresholds_.send_bytes,
                           .header_bytes_max = shared_.header_bytes_max,
                           .reply_bytes_max = options_.reply_bytes_max};
  call.plan = plan_reply(call.chunks, answer.bytes(), items, limits, call.layout);
  call.reply = std::move(answer);
  call.state = CallState::kReplying;
}

void ServerEndpoint::fail(EndpointFailure why) {
  if (failed_) {
    return;
  }
  failed_ = true;
  failure_ = why;
  leave_lines();
  leave_line<SlowTag>();
  leave_slot_line();
  if (options_.rates != nullptr) {
    options_.rates->leave(rate_waiter_);
  }
  replies_watched_until_ = Instant::never();
  count_granted(-int64_t{credits_});
  count_in_use(-int64_t{calls_in_flight()});
  for (IntrusiveList<ServerCall, ArrivalTag>* calls : {&calls_, &pulling_}) {
    while (ServerCall* call = calls->pop_front()) {
      queue_node(*call).unlink_if_linked();
      if (is_with_owner(*call) && call->pulled_units > 0) {
        leave_units(*call);
      }
      return_units(*call);
      release(*call);
    }
  }
  count_reply_bytes(0 - reply_bytes_);  // of replies that were not acknowledged
  holdings_.clear(shared_.held_replies);
  in_flight_ = 0;
  taken_ = 0;
  ready_calls_ = 0;
  reverse_.reset();
  backlog_.reset();
}

Instant ServerEndpoint::pull_deadline() const {
  return reads_in_flight_ > 0 ? earlier(read_progress_, pull_end_ + options_.read_timeout) + options_.read_timeout
                              : pull_progress_ + options_.wait_timeout;
}

Instant ServerEndpoint::next_deadline() const {
  if (failed_) {
    return Instant::never();
  }
  Instant next = reverse_ == nullptr ? retry_at_ : earlier(retry_at_, reverse_->next_deadline());
  if (const ServerCall* oldest = calls_.front(); oldest != nullptr) {
    next = earlier(next, clock_of(*oldest) + limit_of(*oldest, options_));
  }
  if (replies_watched_until_ < next && !window_.is_done()) {
    next = replies_watched_until_;
  }
  if (!pulling_.empty()) [[unlikely]] {
    next = earlier(next, earlier(pull_deadline(), slow_at_));
  }
  if (backlog_ != nullptr && !backlog_->waiting.empty()) [[unlikely]] {
    next = earlier(next, backlog_->waiting.front().begun + options_.wait_timeout);
  }
  return next;
}

// What has taken too long, if anything.
EndpointFailure ServerEndpoint::expired(Instant now) const {
  if (const ServerCall* oldest = calls_.front(); oldest != nullptr && clock_of(*oldest) + limit_of(*oldest, options_) <= now) {
    return is_with_owner(*oldest) ? EndpointFailure::kCallTimeout : EndpointFailure::kStarved;
  }
  if (!pulling_.empty() && pull_deadline() <= now) {
    return reads_in_flight_ > 0 ? EndpointFailure::kReadTimeout : EndpointFailure::kStarved;
  }
  const bool waits_for_slot = backlog_ != nullptr && !backlog_->waiting.empty();
  return waits_for_slot && backlog_->waiting.front().begun + options_.wait_timeout <= now ? EndpointFailure::kStarved
                                                                                          : EndpointFailure::kNone;
}

void ServerEndpoint::on_deadline(Instant now) {
  if (failed_) {
    return;
  }
  if (replies_watched_until_ <= now && is_reply_late(now)) {
    ++shared_.stats.reply_timeouts;
    fail(EndpointFailure::kReplyTimeout);
    return;
  }
  if (const EndpointFailure why = expired(now); why != EndpointFailure::kNone) {
    shared_.stats.call_timeouts += why == EndpointFailure::kCallTimeout ? 1 : 0;
    shared_.stats.read_timeouts += why == EndpointFailure::kReadTimeout ? 1 : 0;
    shared_.stats.wait_timeouts += why == EndpointFailure::kStarved ? 1 : 0;
    fail(why);
    return;
  }
  if (slow_at_ <= now) {
    if (note_slow(now) && is_in_the_way(now)) {
      ++shared_.stats.slow_reads;
      fail(EndpointFailure::kSlowReads);
      return;
    }
  }
  if (reverse_ != nullptr) {
    reverse_->on_deadline(now);
  }
  advance(now);
}

void ServerEndpoint::enable_reverse() {
  if (reverse_ == nullptr && !failed_ && options_.reverse_credits > 0) {
    reverse_ = std::make_unique<ReverseCaller>(qp_, window_, shared_.pool, shared_.stats, options_, thresholds_.send_bytes);
  }
}

Status ServerEndpoint::submit_reverse(Instant now, Chain&& call) {
  if (reverse_ == nullptr) {
    return cw::fail(Error::kBadState);
  }
  const Status taken = reverse_->submit(now, std::move(call));
  if (taken.ok()) {
    advance(now);
  }
  return taken;
}

bool ServerEndpoint::is_consistent() const {
  if (failed_) {
    return calls_.empty() && pulling_.empty() && in_flight_ == 0 && backlog_ == nullptr;
  }
  return in_flight_ <= credits_ && reads_in_flight_ <= options_.reads_in_flight_max &&
         (!started_ || receives_posted_ + calls_in_flight() == credits_ + reverse_in_flight());
}

}  // namespace cw::rpcrdma
