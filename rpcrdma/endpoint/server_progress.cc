// The part of the server side that moves calls along: RDMA Reads, splicing, replies.
#include <algorithm>
#include <span>
#include <utility>

#include "rpcrdma/endpoint/call_checks.h"
#include "rpcrdma/endpoint/call_splicer.h"
#include "rpcrdma/endpoint/server_endpoint.h"
#include "rpcrdma/ulb/procedures.h"

namespace cw::rpcrdma {
namespace {

// A read's work id: segment (6 bits), slot (24 bits), generation (32 bits), from the top.
static_assert(kReadSegmentsMax <= 64 && ServerCallTable::kSlotsMax <= 1u << 24);
verbs::WorkId read_work_id(const ServerCall& call, uint32_t segment) {
  return verbs::WorkId((uint64_t{segment} << 56) | call.id().value());
}
CallId call_of(verbs::WorkId id) {
  return CallId(id.value() & 0x00ff'ffff'ffff'ffffULL);
}
uint32_t segment_of(verbs::WorkId id) {
  return static_cast<uint32_t>(id.value() >> 56);
}

bool is_older(const ServerCall& call, const ServerCall& other) {
  return static_cast<int32_t>(call.arrival - other.arrival) < 0;
}

// Empty segments are passed by as if they had been read.
void skip_empty_reads(ServerCall& call) {
  while (call.reads_done < call.reads_posted && call.chunks.read[call.reads_done].segment.length == 0) {
    ++call.reads_done;
  }
}

// The longest time that a client may take for this many bytes. No overflow: they are at most those of one connection's calls.
Duration time_to_read(uint64_t bytes) {
  constexpr uint64_t kPerSecond = ServerEndpoint::kReadBytesPerSecondMin;
  return Duration::seconds(static_cast<int64_t>(bytes / kPerSecond)) +
         Duration::ns(static_cast<int64_t>(bytes % kPerSecond * 1'000'000'000 / kPerSecond));
}

}  // namespace

// Everything that may be able to go on: replies first, since they free slots and credits.
void ServerEndpoint::advance(Instant now) {
  memory_wanted_ = false;
  if (nothing_waits()) [[likely]] {
    retry_at_ = Instant::never();
    CW_DASSERT(is_consistent());
    return;
  }
  const bool all_posted = post_replies(now);
  if (reverse_ != nullptr && reverse_->has_waiting()) {
    advance_reverse(now);
  }
  if (backlog_ != nullptr) {
    take_waiting(now);
  }
  if (!unadmitted_.empty()) {
    admit_waiting(now);
  }
  if (!reading_.empty()) {
    post_reads(now);
  }
  if (!splicing_.empty()) {
    splice_calls(now);
  }
  if (all_posted && !replying_.empty()) {
    static_cast<void>(post_replies(now));  // refusals that have just come up
  }
  retry_at_ = memory_wanted_ && !failed_ ? now + kRetryInterval : Instant::never();
  CW_DASSERT(is_consistent());
}

void ServerEndpoint::advance_reverse(Instant now) {
  const uint32_t before = reverse_->in_flight();
  const ReverseCaller::Progress progress = reverse_->advance();
  receives_posted_ += reverse_->in_flight() - before;
  if (reverse_->in_flight() > before) {
    watch_replies(now);
  }
  switch (progress) {
    case ReverseCaller::Progress::kDone:
      return;
    case ReverseCaller::Progress::kNoRoom:
      wait_for_room();
      return;
    case ReverseCaller::Progress::kNoBuffer:
      ++shared_.stats.no_buffer;
      wait_for_memory();
      return;
    case ReverseCaller::Progress::kFailed:
      fail();
      return;
  }
}

// A completion wakes who waits for the connection's own queue; nobody tells when the work requests that all share are free again.
void ServerEndpoint::wait_for_room() {
  if (!window_.is_full()) {
    ++shared_.stats.no_send_work;
    wait_for_memory();
  }
}

void ServerEndpoint::on_read(Instant now, const verbs::Completion& completion, Chain&& data) {
  CW_DASSERT(reads_in_flight_ > 0);
  --reads_in_flight_;
  read_bytes_in_flight_ -= std::min<uint64_t>(read_bytes_in_flight_, data.bytes());
  unread_bytes_ -= std::min<uint64_t>(unread_bytes_, data.bytes());
  pull_end_ = earlier(pull_end_, earliest_pull_end(now));  // no credit for having been fast
  read_progress_ = now;
  pull_progress_ = now;
  ServerCall* call = shared_.calls->find(call_of(completion.id));
  if (call == nullptr || call->endpoint != this || call->state != CallState::kReading) {
    return;
  }
  skip_empty_reads(*call);
  // Reads complete in the order posted and whole; a transport that does otherwise cannot be trusted with the rest either.
  const std::span<const ReadSegment> reads = call->chunks.reads();
  const uint32_t segment = segment_of(completion.id);
  if (segment != call->reads_done || data.bytes() != reads[segment].segment.length) {
    fail();
    return;
  }
  shared_.stats.chunks[static_cast<size_t>(ChunkKind::kRead)].bytes += data.bytes();
  call->read_data.append(std::move(data));
  ++call->reads_done;
  read_finished(*call);
}

// Only what the client's memory refused says something about the call: a lost peer does not.
void ServerEndpoint::note_broken(const verbs::Completion& completion) {
  if (completion.status != verbs::WcStatus::kRemoteAccessError) {
    return;
  }
  if (completion.opcode == verbs::WcOpcode::kRdmaWrite) {
    aftermath().broken_xid = static_cast<uint32_t>(completion.id.value());
  } else if (completion.opcode == verbs::WcOpcode::kRdmaRead) {
    if (const ServerCall* call = shared_.calls->find(call_of(completion.id)); call != nullptr && call->endpoint == this) {
      aftermath().broken_xid = call->xid;
    }
  }
}

void ServerEndpoint::post_reads(Instant now) {
  while (!failed_ && !reading_.empty()) {
    ServerCall& call = *reading_.front();
    if (!admit_reads(now, call) || !post_reads_of(now, call)) {
      return;
    }
  }
  leave_lines();
}

void ServerEndpoint::admit_waiting(Instant now) {
  while (!failed_ && !unadmitted_.empty()) {
    ServerCall& call = *unadmitted_.front();
    if (!admit(now, call)) {
      return;
    }
    queue_node(call).unlink();
    call.state = CallState::kReading;
    pull_progress_ = now;
    if (call.chunks.read_count == 0) {
      has_data(now, call);
      make_ready(call);
    } else {
      reading_.push_back(call);
    }
  }
}

void ServerEndpoint::on_rate_turn(Instant now) {
  if (failed_) {
    return;
  }
  has_rate_turn_ = true;
  advance(now);
  has_rate_turn_ = false;
}

// Everything that the call's chunks can hold counts, since a reply may fill all of it. The rates get back what it did not fill.
// Who has not got his share of the budget stands in no line: his turn would be lost, or hold up others.
bool ServerEndpoint::admit(Instant now, ServerCall& call) {
  uint64_t bytes = call.chunks.read_bytes;
  for (const Segment& segment : std::span(call.chunks.segments).first(call.chunks.segment_count)) {
    bytes += segment.length;
  }
  SharedBudget* const budget = options_.budget;
  if (budget != nullptr && budget->bytes_in_use > 0 && budget->bytes_in_use + bytes > budget->bytes_max) {
    wait_for_memory();
    return false;
  }
  if (RateLine* const line = rates(); line != nullptr) {
    if (!has_rate_turn_ && !line->may_pass(now)) {
      line->stand_in(rate_waiter_);
      return false;
    }
    has_rate_turn_ = false;
    // A reply is no longer than we take, whatever room there is: nobody charges the others for what cannot come.
    const uint64_t offered = std::min(bytes - call.chunks.read_bytes, options_.reply_bytes_max);
    call.charged_bytes = call.message.bytes() + call.chunks.read_bytes + offered;
    line->charge(now, call.charged_bytes);
  }
  if (budget != nullptr) {
    call.budget_bytes = bytes;
    budget->bytes_in_use += bytes;
  }
  return true;
}

void ServerEndpoint::settle_rate(Instant now, ServerCall& call, uint64_t reply_bytes) {
  if (RateLine* const line = rates(); line != nullptr && call.charged_bytes > 0) {
    line->settle(now, call.charged_bytes, call.inline_bytes + call.chunks.read_bytes + reply_bytes);
    call.charged_bytes = 0;
  }
}

// Before its first read a call takes what all of its data will hold. False: it waits, and so do those behind it.
bool ServerEndpoint::admit_reads(Instant now, ServerCall& call) {
  if (call.pulled_units > 0) {
    return true;
  }
  uint64_t units = 1;
  for (const ReadSegment& read : call.chunks.reads()) {
    units += (uint64_t{read.segment.length} + options_.read_unit_bytes - 1) / options_.read_unit_bytes;
  }
  if (!has_turn_to_pull(now, call.share, units)) {
    ++shared_.stats.read_stalls;
    wait_for_memory();
    return false;
  }
  if (!shared_.pull_line.empty() && shared_.pull_line.front() != this) {
    shared_.passed_units += units;
  } else {
    shared_.passed_units = 0;
  }
  leave_lines();
  call.begun_at = now;
  pull_progress_ = now;
  slow_at_ = earlier(slow_at_, now + ServerShared::kSlowAfter);
  pull_end_ = (unread_bytes_ == 0 ? now : pull_end_) + time_to_read(call.chunks.read_bytes);
  unread_bytes_ += call.chunks.read_bytes;
  call.pulled_units = units;
  call.unread_units = units;
  shared_.pulled_units += units;
  share_.pulled_units += units;
  shared_.count_unread(share_, units);
  if (call.share != nullptr) {
    call.share->pulled_units += units;
  }
  return true;
}

// An endpoint waits in one line at a time. The first in the line of all also stays the first in its client's line. So an endpoint
// that waits for what only its client or its backend can give back holds up nobody else. One that comes from its backend's line
// has had its turn among its client's: it goes before those that have not.
bool ServerEndpoint::has_turn_to_pull(Instant now, BackendShare* backend, uint64_t units) {
  if (share_.slow_until <= now) {
    shared_.set_slow(share_, false);
  }
  const bool called = static_cast<ListNode<BackendTag>&>(*this).is_linked();  // it had its turn among its client's
  const bool is_next = share_.line.empty() || share_.line.front() == this || called;
  if (!is_next || !shared_.may_pull(share_, units)) {
    if (is_next && shared_.may_read(share_, units)) {
      note_wait(now);
    }
    leave_line<PullTag>();
    leave_line<BackendTag>();
    leave_line<SlowLineTag>();
    stand_in(share_.line, called);
    return false;
  }
  if (share_.is_slow && !has_slow_turn(units)) {
    return false;
  }
  const bool chosen = static_cast<ListNode<PullTag>&>(*this).is_linked();  // it had its turn among its backend's
  if (backend != nullptr &&
      (!(backend->line.empty() || backend->line.front() == this || chosen) || !shared_.may_pull(*backend, units))) {
    note_wait(now);
    leave_line<PullTag>();
    leave_line<ShareTag>();
    leave_line<SlowLineTag>();
    stand_in(backend->line);
    return false;
  }
  const bool has_room = shared_.pulled_units == 0 || shared_.pulled_units + units <= shared_.pull_units_max;
  const bool among_all = shared_.pull_line.empty() || shared_.pull_line.front() == this || shared_.may_pass(units);
  if (!has_room || !among_all) {
    note_wait(now);
    leave_line<BackendTag>();
    leave_line<SlowLineTag>();
    stand_in(share_.line, called);
    stand_in(shared_.pull_line);
    return false;
  }
  return true;
}

// One that comes from its backend's line or from that of all has had its turn among the slow.
bool ServerEndpoint::has_slow_turn(uint64_t units) {
  const bool called = static_cast<ListNode<BackendTag>&>(*this).is_linked();
  const bool had_turn = called || static_cast<ListNode<PullTag>&>(*this).is_linked();
  const bool is_next = shared_.slow_line.empty() || shared_.slow_line.front() == this || had_turn;
  if (is_next && shared_.may_pull_slowly(units)) {
    return true;
  }
  leave_line<PullTag>();
  leave_line<BackendTag>();
  stand_in(share_.line, called);
  stand_in(shared_.slow_line, had_turn);
  return false;
}

// A slow client waits for the slow: nobody has to go for it.
void ServerEndpoint::note_wait(Instant now) {
  if (!share_.is_slow) {
    shared_.waited_at = now;
  }
}

// A call has got its data, and the one that is oldest now counts.
void ServerEndpoint::watch_slowness() {
  leave_line<SlowTag>();
  const ServerCall* oldest = pulling_.front();
  while (oldest != nullptr && oldest->state == CallState::kSplicing) {
    oldest = pulling_.next(*oldest);
  }
  const bool is_read = oldest != nullptr && oldest->unread_units > 0;
  slow_at_ = is_read ? oldest->begun_at + ServerShared::kSlowAfter : Instant::never();
}

// False the first time: where all clients stall at once, those that wait have to be found slow before they count.
bool ServerEndpoint::note_slow(Instant now) {
  const bool was_slow = static_cast<ListNode<SlowTag>&>(*this).is_linked();
  if (!was_slow) {
    shared_.slow_endpoints.push_back(*this);
  }
  shared_.set_slow(share_, true);
  share_.slow_until = now + ServerShared::kSlowFor;
  slow_at_ = now + ServerShared::kSlowCheck;
  return was_slow;
}

// Whether it has to end for those who wait. Not as long as what those hold that have been slow for longer is enough: they end at
// their next look.
bool ServerEndpoint::is_in_the_way(Instant now) const {
  if (!shared_.slow_ones_are_in_the_way(now)) {
    return false;
  }
  const uint64_t excess = shared_.slow_units - shared_.pull_units_max / ServerShared::kSlowPart;
  uint64_t units_before = 0;
  uint32_t before = 0;
  for (const ServerEndpoint* other = shared_.slow_endpoints.front(); other != this; other = shared_.slow_endpoints.next(*other)) {
    for (const ServerCall* call = other->pulling_.front(); call != nullptr; call = other->pulling_.next(*call)) {
      units_before += call->unread_units;
    }
    if (units_before >= excess || ++before >= ServerShared::kTogether) {
      return false;
    }
  }
  return true;
}

// From here on the transport has to have done what is posted by now within reply_timeout. What is posted while it is watched is
// watched next: the client has between one and two reply_timeouts for each reply.
void ServerEndpoint::watch_replies(Instant now) {
  if (replies_watched_until_.is_never()) {
    replies_watched_ = window_.posted();
    replies_watched_until_ = now + options_.reply_timeout;
  }
}

// The client is late with a reply. False when it is not, and the watch goes on with what has been posted since.
bool ServerEndpoint::is_reply_late(Instant now) {
  const uint64_t done = window_.done();
  if (done < replies_watched_) {
    return true;
  }
  replies_watched_until_ = Instant::never();
  if (done < window_.posted()) {
    watch_replies(now);
  }
  return false;
}

// Whether the client may be sent what this call asks for: see ServerShared::may_keep.
bool ServerEndpoint::reply_has_room(Instant now, ServerCall& call) {
  uint64_t bytes = 0;
  for (const Segment& segment : std::span(call.chunks.segments).first(call.chunks.segment_count)) {
    bytes += segment.length;
  }
  bytes = std::min(bytes, options_.reply_bytes_max);
  if (!shared_.may_keep(share_, call.share, bytes)) {
    settle_replies();
    if (!shared_.may_keep(share_, call.share, bytes)) {
      ++shared_.stats.reply_stalls;
      retry_at_ = earlier(retry_at_, now + kRetryInterval);  // other connections may hold it, or the owner has it
      return false;
    }
  }
  set_reply_bytes(call, bytes);
  return true;
}

// What the call's reply keeps, or will: bytes of whole Buffers, since that is what others cannot have.
void ServerEndpoint::set_reply_bytes(ServerCall& call, uint64_t bytes) {
  count_reply_bytes(bytes - call.reply_bytes);
  count_for_backend(call, bytes - call.reply_bytes);
  call.reply_bytes = bytes;
}

// The reply is posted: until the client has acknowledged it its Buffers are counted here, and no longer with the call.
void ServerEndpoint::hold_reply(ServerCall& call) {
  settle_replies();
  count_for_backend(call, 0 - call.reply_bytes);
  holdings_.add(shared_.held_replies, window_.posted(), std::exchange(call.reply_bytes, 0));
}

void ServerEndpoint::settle_replies() {
  if (reply_bytes_ > 0) {
    count_reply_bytes(0 - holdings_.settle(shared_.held_replies, window_.done()));
  }
}

void ServerEndpoint::return_units(ServerCall& call) {
  set_reply_bytes(call, 0);
  shared_.return_units(share_, call.share, call.pulled_units);
  shared_.count_unread(share_, 0 - call.unread_units);
  call.pulled_units = 0;
  call.unread_units = 0;
  if (RateLine* const line = rates(); line != nullptr && call.charged_bytes > 0) {
    // It has had no reply. With less than was charged the clock's time does not matter.
    line->settle(Instant(), call.charged_bytes, std::min(call.charged_bytes, call.inline_bytes + call.chunks.read_bytes));
    call.charged_bytes = 0;
  }
  if (call.budget_bytes > 0) {
    options_.budget->bytes_in_use -= call.budget_bytes;
    call.budget_bytes = 0;
  }
}

// The owner may still hold the call's message, because the backend takes nothing. Its buffers are not free for others yet.
void ServerEndpoint::leave_units(ServerCall& call) {
  aftermath().units_left.push_back({.call = call.id(), .backend = call.share, .units = std::exchange(call.pulled_units, 0)});
}

uint32_t ServerEndpoint::take_units(CallId id, BackendShare& backend) {
  if (aftermath_ == nullptr) {
    return 0;
  }
  std::vector<Aftermath::UnitsLeft>& left = aftermath_->units_left;
  const auto found = std::ranges::find(left, id, &Aftermath::UnitsLeft::call);
  if (found == left.end()) {
    return 0;
  }
  const uint64_t units = found->units;
  if (found->backend != nullptr) {
    found->backend->pulled_units -= units;
  }
  backend.pulled_units += units;
  *found = left.back();
  left.pop_back();
  return static_cast<uint32_t>(units);
}

Instant ServerEndpoint::earliest_pull_end(Instant now) const {
  return now + time_to_read(unread_bytes_);
}

// True when the next call's turn has come.
bool ServerEndpoint::post_reads_of(Instant now, ServerCall& call) {
  const std::span<const ReadSegment> reads = call.chunks.reads();
  for (; call.reads_posted < reads.size(); ++call.reads_posted) {
    const Segment& segment = reads[call.reads_posted].segment;
    if (segment.length == 0) {
      continue;
    }
    const bool too_far = reads_in_flight_ > 0 && read_bytes_in_flight_ + segment.length > options_.read_bytes_in_flight_max;
    if (reads_in_flight_ >= options_.reads_in_flight_max || too_far) {
      return false;
    }
    if (window_.room() == 0) {
      wait_for_room();
      return false;
    }
    const Status posted = qp_.post_read({.id = read_work_id(call, call.reads_posted),
                                         .rkey = segment.handle,
                                         .remote_address = segment.offset,
                                         .length = segment.length});
    if (!posted.ok()) {
      fail();
      return false;
    }
    window_.note_posted();
    if (reads_in_flight_++ == 0) {
      pull_end_ = read_progress_ == now ? pull_end_ : earliest_pull_end(now);  // a pause of ours is not the client's
      read_progress_ = now;
    }
    read_bytes_in_flight_ += segment.length;
  }
  ChunkStats& counted = shared_.stats.chunks[static_cast<size_t>(ChunkKind::kRead)];
  counted.segments += reads.size();
  for (size_t i = 0; i < reads.size(); ++i) {
    counted.chunks += i == 0 || reads[i].position != reads[i - 1].position ? 1 : 0;
  }
  queue_node(call).unlink();
  read_finished(call);
  return true;
}

// After the last segment the stream can be put together.
void ServerEndpoint::read_finished(ServerCall& call) {
  skip_empty_reads(call);
  if (call.reads_done == call.chunks.read_count) {
    call.state = CallState::kSplicing;
    shared_.count_unread(share_, 0 - std::exchange(call.unread_units, 0));
    watch_slowness();
    splicing_.push_back(call);
  }
}

void ServerEndpoint::splice_calls(Instant now) {
  while (ServerCall* call = splicing_.front()) {
    if (!splice(*call, shared_.pool)) {
      ++shared_.stats.no_buffer;
      wait_for_memory();
      return;
    }
    queue_node(*call).unlink();
    call->read_for = now - call->begun_at;
    has_data(now, *call);
    if (check_xid(call->message, call->xid, shared_.stats)) {
      shared_.durations.record(Stage::kRdmaRead, call->read_for);
      make_ready(*call);
    } else {
      refuse(*call, ReplyForm::kErrorChunk);
    }
  }
}

// Its time counts with the others that wait for data, and no longer alone.
void ServerEndpoint::await_data(Instant now, ServerCall& call) {
  static_cast<ListNode<ArrivalTag>&>(call).unlink();
  if (pulling_.empty()) {
    pull_progress_ = now;
  }
  pulling_.push_back(call);
}

void ServerEndpoint::has_data(Instant now, ServerCall& call) {
  static_cast<ListNode<ArrivalTag>&>(call).unlink();
  calls_.push_back(call);
  call.begun_at = now;
  pull_progress_ = now;
}

void ServerEndpoint::make_ready(ServerCall& call) {
  inspect_call(XdrReader(call.message), call.context);
  const bool reduced = call.chunks.read_count > 0 && call.chunks.read[call.chunks.read_count - 1].position > 0;
  if (reduced && !reduces_eligible_arguments(call.context, call.message, call.chunks)) {
    ++shared_.stats.ddp_violations;
    answer_garbage(call);
    return;
  }
  enter_ready(call);
}

void ServerEndpoint::enter_ready(ServerCall& call) {
  call.state = CallState::kReady;
  ++ready_calls_;
  in_order_ |= call.context.header.flavor == static_cast<uint32_t>(AuthFlavor::kRpcsecGss);
  if (in_order_) [[unlikely]] {
    enqueue_in_order(call);
  } else {
    ready_.push_back(call);
  }
}

// Calls that have overtaken it are waiting here: it goes before them.
void ServerEndpoint::enqueue_in_order(ServerCall& call) {
  ServerCall* before = ready_.front();
  while (before != nullptr && is_older(*before, call)) {
    before = ready_.next(*before);
  }
  if (before == nullptr) {
    ready_.push_back(call);
  } else {
    ready_.insert_before(*before, call);
  }
}

// Where calls are polled in order: nothing is polled before what came earlier and waits for its data. That is admitted and pulled
// in the order of arrival, and what it waits for is nothing that a call behind it holds alone.
bool ServerEndpoint::has_turn(Instant now, const ServerCall& call) {
  return (pulling_.empty() || is_older(call, *pulling_.front())) && !leaves_window(now, call);
}

// Whether the call would move the sequence window of its context past one that the owner has. It is tried again with each reply,
// and when kGssPatience is over.
bool ServerEndpoint::leaves_window(Instant now, const ServerCall& call) {
  const RpcCallHeader& header = call.context.header;
  if (header.flavor != static_cast<uint32_t>(AuthFlavor::kRpcsecGss)) {
    return false;
  }
  for (const ServerCall* other = calls_.front(); other != nullptr; other = calls_.next(*other)) {
    const RpcCallHeader& before = other->context.header;
    const bool is_behind = other->state == CallState::kPolled && before.flavor == header.flavor &&
                           before.gss_context == header.gss_context &&
                           static_cast<int32_t>(header.gss_sequence - before.gss_sequence) >= kGssWindow;
    if (is_behind && now < other->begun_at + kGssPatience) {
      ++shared_.stats.gss_window_stalls;
      retry_at_ = earlier(retry_at_, other->begun_at + kGssPatience);
      return true;
    }
  }
  return false;
}

// RFC 8166 6.1 and 4.5.2: the call is not processed. Its header is valid, so the answer is an RPC reply with all chunks unused.
void ServerEndpoint::answer_garbage(ServerCall& call) {
  uint8_t raw[kAcceptedReplyBytes];
  write_accepted_reply(raw, call.xid, AcceptStatus::kGarbageArguments);
  Chain answer;
  if (!answer.append_copy(shared_.pool, raw)) {
    ++shared_.stats.no_buffer;
    refuse(call, ReplyForm::kErrorChunk);
    return;
  }
  call.message.clear();
  plan(call, std::move(answer), ReducibleItems{});
  replying_.push_back(call);
}

// Precondition: the call is in no state list.
void ServerEndpoint::refuse(ServerCall& call, ReplyForm form) {
  call.message.clear();
  call.plan = ReplyPlan::error(form);
  call.state = CallState::kReplying;
  replying_.push_back(call);
}

// False when the oldest reply cannot go on.
bool ServerEndpoint::post_replies(Instant now) {
  while (!failed_ && !replying_.empty()) {
    switch (post_reply(now, *replying_.front())) {
      case PostResult::kPosted:
        break;
      case PostResult::kNoBuffer:
        ++shared_.stats.no_buffer;
        wait_for_memory();
        return false;
      case PostResult::kNoRoom:
        wait_for_room();
        return false;
      case PostResult::kFailed:
        return false;
    }
  }
  return true;
}

// A call that has been answered is gone. kFailed: all of them are.
PostResult ServerEndpoint::post_reply(Instant now, ServerCall& call) {
  ReplyPoster poster(qp_, window_, shared_.pool, shared_.stats);
  const uint64_t posted_before = window_.posted();
  const bool lowers = grant_ < credits_;
  // Others may wait for what it keeps: a completion says when it is over, also where this connection stays idle from now on.
  const bool signaled = call.reply_bytes > 0;
  const PostResult result =
      poster.post(call, {.credit = grant_, .post_receive = !lowers, .signaled = signaled}, thresholds_.remote_invalidation);
  if (result == PostResult::kPosted) [[likely]] {
    watch_replies(now);
    if (call.reply_bytes > 0) [[unlikely]] {
      hold_reply(call);
    }
    if (lowers) [[unlikely]] {
      --credits_;
      count_granted(-1);
    } else {
      ++receives_posted_;
    }
    answered(now, call);
  } else if (result == PostResult::kFailed) {
    fail();  // RFC 8166 4.5.4: no reply can be sent, so the connection has to go
  } else if (window_.posted() > posted_before) {
    watch_replies(now);  // Writes that go before the SEND
  }
  return result;
}

// The reply to a call without chunks that post_reply() would post at once as it is, with the header in front of it: nothing is
// to be reduced, counted, copied or waited for.
bool ServerEndpoint::goes_plainly(const ServerCall& call, const Chain& message) const {
  if (!shared_.express || !call.chunks.empty() || !replying_.empty()) {
    return false;
  }
  return call.reply_bytes == 0 && grant_ >= credits_ && leaves_as_it_is(call.xid, message);
}

bool ServerEndpoint::leaves_as_it_is(uint32_t xid, const Chain& message) const {
  if (message.buffer_count() != 1) {
    return false;
  }
  const Buffer& only = *message.head();
  const bool is_short = only.size >= kRpcReplyBytesMin && only.size <= plain_reply_bytes_max_;
  return is_short && only.pool == &shared_.pool && only.headroom_bytes >= kBareHeaderBytes && load_be32(only.data) == xid &&
         load_be32(only.data + kXidBytes) == static_cast<uint32_t>(RpcMessageType::kReply);
}

bool ServerEndpoint::post_plainly(Instant now, uint32_t xid, Chain&& message, uint32_t room) {
  ReplyPoster poster(qp_, window_, shared_.pool, shared_.stats);
  if (!poster.post_plainly(xid, now, std::move(message), grant_, room)) {
    fail();
    return false;
  }
  watch_replies(now);
  ++receives_posted_;
  return true;
}

void ServerEndpoint::answered(Instant now, ServerCall& call) {
  queue_node(call).unlink_if_linked();
  if (call.polled) {
    note_answered(now, call.context, call.received);
  }
  finish(call);
  release(call);
}

void ServerEndpoint::note_answered(Instant now, const CallContext& context, Instant received) {
  const RpcCallHeader& header = context.header;
  ++answered_;
  shared_.note_done(options_.client, procedure_row(header.program, header.version, header.procedure, context.compound.principal),
                    received, now);
}

// The call is over: it no longer counts.
void ServerEndpoint::finish(ServerCall& call) {
  if (call.holds_shares()) [[unlikely]] {
    return_units(call);
  }
  static_cast<ListNode<ArrivalTag>&>(call).unlink();
  --in_flight_;
  taken_ -= call.polled ? 1 : 0;
  count_in_use(-1);
}

}  // namespace cw::rpcrdma
