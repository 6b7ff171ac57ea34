#include "rnic/rnic_queue_pair.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace cw::rnic {
namespace {

constexpr uint32_t kRequestsAtOnce = 32;
constexpr uint32_t kReceivesAtOnce = 32;
// Of one work request, whatever the device could take.
constexpr uint32_t kPiecesMax = 32;
constexpr uint64_t kMessageBytesMax = uint64_t{1} << 31;  // of a reliable connection

verbs::WcOpcode opcode_of(WorkVerb verb) {
  switch (verb) {
    case WorkVerb::kSend:
    case WorkVerb::kSendWithInvalidate:
      return verbs::WcOpcode::kSend;
    case WorkVerb::kWrite:
      return verbs::WcOpcode::kRdmaWrite;
    case WorkVerb::kRead:
      return verbs::WcOpcode::kRdmaRead;
  }
  return verbs::WcOpcode::kSend;
}

constexpr uint32_t divided_up(uint64_t value, uint32_t by) {
  return static_cast<uint32_t>((value + by - 1) / by);
}

}  // namespace

// A chain of work requests in the making. `requests` of them, each with its place in the order of works.
struct RnicQueuePair::Batch {
  std::array<SendWork, kRequestsAtOnce> requests;
  std::array<uint64_t, kRequestsAtOnce> work;
  std::array<bool, kRequestsAtOnce> begins_work;
  std::array<bool, kRequestsAtOnce> ends_work;
  std::array<MutableBytes, size_t{kRequestsAtOnce} * kPiecesMax> pieces;
  uint32_t count = 0;
  uint32_t piece_count = 0;
};

RnicQueuePair::RnicQueuePair(const RnicQueuePairOptions& options, RnicCore& core)
    : options_(options),
      core_(core),
      works_(options.send_queue_depth + 1),  // and a question
      signals_(options.made.send_requests),
      receives_(options.made.receive_requests),
      completions_(options.send_queue_depth + options.made.receive_requests) {
  CW_ASSERT(options.send_queue_depth <= WorkTag::kIndexMask / 2 && options.made.receive_requests <= WorkTag::kIndexMask);
  options_.made.send_pieces = std::min(options_.made.send_pieces, kPiecesMax);
  options_.made.read_pieces = std::clamp(options_.made.read_pieces, 1u, kPiecesMax);
  for (uint32_t i = options.made.receive_requests; i-- > 0;) {
    free_receives_.push_back(i);
  }
}

RnicQueuePair::~RnicQueuePair() {
  CW_ASSERT(is_destroyed_);
  ListNode<ReadyTag>::unlink_if_linked();
  ListNode<PostTag>::unlink_if_linked();
}

// ---- Posting ----

Status RnicQueuePair::admit(uint64_t bytes) const {
  if (in_error()) {
    return cw::fail(Error::kBadState);
  }
  if (bytes > kMessageBytesMax) {
    return cw::fail(Error::kLimit);
  }
  if (send_queue_room() == 0) {
    return cw::fail(Error::kNoResources);
  }
  return {};
}

RnicQueuePair::Work& RnicQueuePair::enqueue() {
  Work& work = at(tail_++);
  CW_DASSERT(work.is_free);
  work = Work();
  work.is_free = false;
  want_to_post();
  return work;
}

Status RnicQueuePair::post_send(verbs::SendRequest&& request) {
  if (request.immediate) {
    return cw::fail(Error::kUnsupported);  // not on every kind of RNIC, and nobody here sends any
  }
  if (const Status admitted = admit(request.payload.bytes()); !admitted.ok()) {
    return admitted;
  }
  // A message is one work request: of too many pieces it is copied together before it goes to the device.
  if (request.payload.buffer_count() > options_.made.send_pieces &&
      divided_up(request.payload.bytes(), core_.pool.buffer_bytes()) > options_.made.send_pieces) {
    return cw::fail(Error::kLimit);
  }
  Work& work = enqueue();
  work.id = request.id;
  // A peer does without: invalidation is an offer that need not be taken.
  const bool invalidates = request.invalidate && options_.made.can_invalidate;
  work.verb = invalidates ? WorkVerb::kSendWithInvalidate : WorkVerb::kSend;
  work.rkey = invalidates ? *request.invalidate : verbs::Rkey();
  work.length = static_cast<uint32_t>(request.payload.bytes());
  work.payload = std::move(request.payload);
  work.fence = request.fence;
  work.signaled = request.signaled;
  work.solicited = request.solicited;
  return {};
}

Status RnicQueuePair::post_write(verbs::WriteRequest&& request) {
  if (request.immediate) {
    return cw::fail(Error::kUnsupported);
  }
  if (const Status admitted = admit(request.payload.bytes()); !admitted.ok()) {
    return admitted;
  }
  Work& work = enqueue();
  work.id = request.id;
  work.verb = WorkVerb::kWrite;
  work.rkey = request.rkey;
  work.remote_address = request.remote_address;
  work.length = static_cast<uint32_t>(request.payload.bytes());
  work.payload = std::move(request.payload);
  work.fence = request.fence;
  work.signaled = request.signaled;
  return {};
}

Status RnicQueuePair::post_read(verbs::ReadRequest&& request) {
  if (const Status admitted = admit(request.length); !admitted.ok()) {
    return admitted;
  }
  if (options_.reads_max == 0) {
    return cw::fail(Error::kUnsupported);
  }
  Work& work = enqueue();
  work.id = request.id;
  work.verb = WorkVerb::kRead;
  work.rkey = request.rkey;
  work.remote_address = request.remote_address;
  work.length = request.length;
  work.fence = request.fence;
  return {};
}

Status RnicQueuePair::post_atomic(const verbs::AtomicRequest& /*request*/) {
  return cw::fail(Error::kUnsupported);
}

bool RnicQueuePair::ask_peer() {
  if (in_error() || is_flushing_ || is_destroyed_ || done_ < tail_ || has_question()) {
    return false;
  }
  question_ = tail_;
  Work& work = enqueue();
  work.verb = options_.made.acknowledges_writes || options_.reads_max == 0 ? WorkVerb::kWrite : WorkVerb::kRead;
  work.signaled = false;
  work.is_question = true;
  return true;
}

void RnicQueuePair::post_receives(uint32_t count) {
  const uint32_t posted = std::min(count, receives_in_advance_);
  receives_in_advance_ -= posted;
  receives_owed_ += count - posted;
  want_to_post();
}

void RnicQueuePair::post_in_advance(uint32_t receives) {
  receives_in_advance_ += receives;
  receives_owed_ += receives;
  want_to_post();
}

uint32_t RnicQueuePair::send_queue_room() const {
  return options_.send_queue_depth - static_cast<uint32_t>(tail_ - head_ - (has_question() ? 1 : 0));
}

void RnicQueuePair::want_to_post() {
  if (!is_destroyed_ && !in_error() && !ListNode<PostTag>::is_linked()) {
    core_.to_post.push_back(*this);
  }
}

// ---- To the device ----

bool RnicQueuePair::post_pending() {
  if (in_error() || is_destroyed_) {
    return true;
  }
  const bool received = post_receives_owed();  // credits go out with the SENDs behind
  return in_error() || (post_sends_pending() && received);
}

uint32_t RnicQueuePair::pieces_of_receive() const {
  return std::max(1u, divided_up(options_.receive_bytes_max, core_.pool.buffer_bytes()));
}

WorkTag RnicQueuePair::tag(uint64_t index, bool is_receive, bool is_last) const {
  const uint64_t id = options_.id.value();
  return {.slot = static_cast<uint32_t>(id),
          .generation = static_cast<uint32_t>(id >> 32),
          .is_receive = is_receive,
          .is_last = is_last,
          .index = static_cast<uint32_t>(index)};
}

bool RnicQueuePair::post_receives_owed() {
  std::array<ReceiveWork, kReceivesAtOnce> works;
  std::array<MutableBytes, size_t{kReceivesAtOnce} * kPiecesMax> pieces;
  std::array<Buffer*, kPiecesMax> fresh;
  const uint32_t pieces_each = pieces_of_receive();
  CW_DASSERT(pieces_each <= kPiecesMax);
  bool has_buffers = true;
  while (has_buffers && receives_owed_ > 0 && !free_receives_.empty()) {
    uint32_t count = 0;
    for (; count < kReceivesAtOnce && receives_owed_ > 0 && !free_receives_.empty(); ++count) {
      if (!core_.pool.allocate(std::span(fresh).first(pieces_each))) {
        ++core_.stats.out_of_buffers;
        has_buffers = false;
        break;
      }
      const uint32_t place = free_receives_.back();
      free_receives_.pop_back();
      Receive& receive = receives_[place];
      receive.is_out = true;
      uint32_t left = options_.receive_bytes_max;
      const size_t first = size_t{count} * kPiecesMax;
      for (uint32_t i = 0; i < pieces_each; ++i) {
        const auto bytes = std::min<uint32_t>(left, fresh[i]->capacity_bytes);
        pieces[first + i] = fresh[i]->tailroom().first(bytes);
        left -= bytes;
        receive.payload.push_back(fresh[i]);
      }
      works[count] = {tag(place, true, true).pack(), std::span(pieces).subspan(first, pieces_each)};
      --receives_owed_;
      ++receives_out_;
    }
    if (count > 0 && !submit_receives(std::span(works).first(count))) {
      return true;  // in Error
    }
  }
  return has_buffers;
}

bool RnicQueuePair::submit_receives(std::span<const ReceiveWork> works) {
  const uint32_t taken = core_.host.post_receives(options_.id, works);
  core_.stats.receives += taken;
  for (const ReceiveWork& refused : works.subspan(taken)) {
    const uint32_t place = WorkTag::of(refused.id).index;
    receives_[place].is_out = false;
    receives_[place].payload.clear();
    free_receives_.push_back(place);
    --receives_out_;
  }
  if (taken < works.size()) {
    fail({.cause = RnicErrorCause::kPostRefused});
    return false;
  }
  return true;
}

bool RnicQueuePair::post_sends_pending() {
  Added added = Added::kRequest;
  while (next_ < tail_ && added != Added::kNoBuffers && requests_out_ < options_.made.send_requests) {
    Batch batch;
    do {
      added = add_request(batch);
    } while (added == Added::kRequest && next_ < tail_);
    if (batch.count == 0) {
      break;
    }
    if (!submit(batch)) {
      return true;  // in Error
    }
  }
  return added != Added::kNoBuffers;
}

RnicQueuePair::Added RnicQueuePair::add_request(Batch& batch) {
  if (batch.count == kRequestsAtOnce || requests_out_ + batch.count == options_.made.send_requests) {
    return Added::kNoRoom;
  }
  Work& work = at(next_);
  if (!cursor_.begun) {
    cursor_ = {.buffer = work.payload.head(), .offset = 0, .begun = false};
  }
  const uint32_t first_piece = batch.piece_count;
  const uint32_t offset = cursor_.offset;
  if (work.verb == WorkVerb::kRead) {
    if (!add_sinks(batch, work)) {
      return Added::kNoBuffers;
    }
  } else if (work.verb != WorkVerb::kWrite && work.payload.buffer_count() > options_.made.send_pieces) {
    if (!pull_up(work)) {
      return Added::kNoBuffers;
    }
    cursor_.buffer = work.payload.head();
    add_payload(batch, work);
  } else {
    add_payload(batch, work);
  }
  const bool is_last = cursor_.offset == work.length;
  const uint32_t bytes = cursor_.offset - offset;
  const bool is_read = work.verb == WorkVerb::kRead;
  batch.requests[batch.count] = {.id = tag(next_, false, is_last).pack(),
                                 .verb = work.verb,
                                 .signaled = (is_read && is_last) || work.is_question || !options_.made.acknowledges_writes,
                                 .solicited = work.solicited,
                                 .fence = work.fence && offset == 0,
                                 .is_inline = !is_read && !work.is_question && bytes <= options_.made.inline_bytes,
                                 .pieces = std::span(batch.pieces).subspan(first_piece, batch.piece_count - first_piece),
                                 .rkey = work.rkey,
                                 .remote_address = work.remote_address + offset};
  batch.work[batch.count] = next_;
  batch.begins_work[batch.count] = !cursor_.begun;
  batch.ends_work[batch.count] = is_last;
  ++batch.count;
  cursor_.begun = true;
  if (is_last) {
    reads_outstanding_ += is_read ? 1 : 0;
    cursor_ = {};
    ++next_;
  }
  return Added::kRequest;
}

// Buffers for the next part of a READ: as much as one work request can have.
bool RnicQueuePair::add_sinks(Batch& batch, Work& work) {
  uint32_t left = work.length - cursor_.offset;
  const uint32_t count = std::min(options_.made.read_pieces, divided_up(left, core_.pool.buffer_bytes()));
  std::array<Buffer*, kPiecesMax> fresh;
  if (count > 0 && !core_.pool.allocate(std::span(fresh).first(count))) {
    ++core_.stats.out_of_buffers;
    return false;
  }
  for (uint32_t i = 0; i < count; ++i) {
    const auto bytes = std::min<uint32_t>(left, fresh[i]->capacity_bytes);
    batch.pieces[batch.piece_count++] = fresh[i]->tailroom().first(bytes);
    fresh[i]->size = bytes;
    work.payload.push_back(fresh[i]);
    left -= bytes;
    cursor_.offset += bytes;
  }
  return true;
}

// A copy has as few pieces as there can be. Without buffers for it the work waits, as a READ does: its owner could not know when
// to try again.
bool RnicQueuePair::pull_up(Work& work) {
  Chain whole;
  for (const Buffer* piece = work.payload.head(); piece != nullptr; piece = piece->next) {
    if (!whole.append_copy(core_.pool, piece->bytes())) {
      ++core_.stats.out_of_buffers;
      return false;
    }
  }
  work.payload = std::move(whole);
  ++core_.stats.pullups;
  return true;
}

// A device reads what it sends; only the type says otherwise.
void RnicQueuePair::add_payload(Batch& batch, const Work& /*work*/) {
  for (uint32_t pieces = 0; cursor_.buffer != nullptr && pieces < options_.made.send_pieces;
       cursor_.buffer = cursor_.buffer->next) {
    if (cursor_.buffer->size > 0) {
      batch.pieces[batch.piece_count++] = {cursor_.buffer->data, cursor_.buffer->size};
      cursor_.offset += cursor_.buffer->size;
      ++pieces;
    }
  }
}

// The last one of the chain is signaled, at least. False: the device has refused some, and the queue pair is in Error.
bool RnicQueuePair::submit(Batch& batch) {
  batch.requests[batch.count - 1].signaled = true;
  const uint32_t taken = core_.host.post_sends(options_.id, std::span<const SendWork>(batch.requests).first(batch.count));
  CW_ASSERT(taken <= batch.count);
  ++core_.stats.posts;
  core_.stats.work_requests += taken;
  for (uint32_t i = 0; i < taken; ++i) {
    ++requests_out_;
    ++requests_unsignaled_;
    if (batch.requests[i].signaled) {
      (void)signals_.push(std::exchange(requests_unsignaled_, 0));
    }
  }
  if (taken == batch.count) {
    return true;
  }
  // What the device has a part of stays with it until its queue pair is destroyed.
  next_ = batch.work[taken] + (batch.begins_work[taken] ? 0 : 1);
  cursor_ = {};
  fail({.cause = RnicErrorCause::kPostRefused});
  return false;
}

// ---- From the device ----

void RnicQueuePair::on_completion(Instant now, const WorkTag& tag, const WorkDone& done) {
  if (is_destroyed_) {
    ++core_.stats.stale_completions;
    return;
  }
  if (tag.is_receive) {
    take_receive(now, tag.index, done);
    return;
  }
  const uint64_t index = done_ + ((tag.index - static_cast<uint32_t>(done_)) & WorkTag::kIndexMask);
  const bool went_well = done.status == verbs::WcStatus::kSuccess;
  if (index >= tail_ || (went_well && signals_.empty())) {
    ++core_.stats.stale_completions;
    return;
  }
  Work& work = at(index);
  work.status = work.status == verbs::WcStatus::kSuccess ? done.status : work.status;
  note_done(index, tag.is_last, done.status == verbs::WcStatus::kWorkRequestFlushed ? done.status : verbs::WcStatus::kSuccess);
  if (went_well) {
    requests_out_ -= signals_.pop();
    if (options_.made.acknowledges_writes || work.verb == WorkVerb::kRead) {
      heard_at_ = now;
    }
  }
  const bool nobody_answered = work.is_question && done.status == verbs::WcStatus::kRetryExceeded;
  complete_done();
  if (went_well) {
    if (next_ < tail_) {
      want_to_post();
    }
    flush_rest();  // it came before the flushes, or in their place
    return;
  }
  if (nobody_answered) {
    fail({.cause = RnicErrorCause::kPeerSilent, .status = done.status});  // the device has asked as often as it may
  }
  take_error(done);
}

// A request of this work is done, the last one or not. SENDs and WRITEs before it are done too, since a device does them in
// order: `others` is what is known of those that had no completion of their own. READs have one each, always: siw tells of a SEND
// behind a READ as soon as TCP has it, while the READ is not answered yet.
void RnicQueuePair::note_done(uint64_t index, bool is_last, verbs::WcStatus others) {
  for (; moved_ < index; ++moved_) {
    Work& before = at(moved_);
    if (before.verb != WorkVerb::kRead && before.status == verbs::WcStatus::kSuccess) {
      before.status = others;
    }
  }
  if (is_last && at(index).verb == WorkVerb::kRead) {
    at(index).is_answered = true;
  } else if (is_last) {
    moved_ = std::max(moved_, index + 1);
  }
}

void RnicQueuePair::take_receive(Instant now, uint32_t index, const WorkDone& done) {
  if (index >= receives_.size() || !receives_[index].is_out) {
    ++core_.stats.stale_completions;
    return;
  }
  Receive& receive = receives_[index];
  receive.is_out = false;
  --receives_out_;
  if (done.status != verbs::WcStatus::kSuccess) {
    receive.payload.clear();
    free_receives_.push_back(index);
    take_error(done);
    return;
  }
  Buffer* list = receive.payload.detach();
  uint32_t left = std::min(done.bytes, options_.receive_bytes_max);
  while (list != nullptr && left > 0) {
    Buffer* buffer = list;
    list = std::exchange(buffer->next, nullptr);
    buffer->size = std::min(left, buffer->capacity_bytes);
    left -= buffer->size;
    receive.payload.push_back(buffer);
  }
  if (list != nullptr) {
    release_buffers(list);
  }
  receive.begun = now;
  receive.invalidated = done.invalidated;
  receive.immediate = done.immediate;
  heard_peer_ = true;
  heard_at_ = now;
  payload_bytes_in_ += receive.payload.bytes();
  core_.stats.payload_bytes_in += receive.payload.bytes();
  CW_ASSERT(completions_.push(index | kReceiveFlag));
  note_ready();
}

// A flush says nothing of its cause: whoever knows it tells soon.
void RnicQueuePair::take_error(const WorkDone& done) {
  if (done.status == verbs::WcStatus::kWorkRequestFlushed) {
    is_flushing_ = true;
  } else {
    fail({.cause = RnicErrorCause::kCompletion, .status = done.status});
  }
  flush_rest();
}

// In the order posted.
void RnicQueuePair::complete_done() {
  for (; done_ < next_; ++done_) {
    Work& work = at(done_);
    const bool is_read = work.verb == WorkVerb::kRead;
    if (is_read ? !work.is_answered : done_ >= moved_) {
      break;
    }
    if (is_read && reads_outstanding_ > 0) {
      --reads_outstanding_;
    }
    if (work.status == verbs::WcStatus::kSuccess) {
      (is_read ? payload_bytes_in_ : payload_bytes_out_) += work.length;
      (is_read ? core_.stats.payload_bytes_in : core_.stats.payload_bytes_out) += work.length;
    }
    if (!is_read || work.status != verbs::WcStatus::kSuccess) {
      work.payload.clear();
    }
    const bool is_silent = !is_read && !work.signaled && work.status == verbs::WcStatus::kSuccess;
    if (is_silent || work.is_question) {
      work.is_free = true;
      continue;
    }
    CW_ASSERT(completions_.push(static_cast<uint32_t>(done_ % works_.size())));
    note_ready();
  }
  moved_ = std::max(moved_, done_);
  free_done();
}

void RnicQueuePair::free_done() {
  while (head_ < done_ && at(head_).is_free) {
    ++head_;
  }
}

// In Error, when the device has nothing whose end is to come first.
void RnicQueuePair::flush_rest() {
  if (in_error() && !device_has_work()) {
    flush_unposted();
  }
}

void RnicQueuePair::flush_unposted() {
  next_ = tail_;
  reads_outstanding_ = 0;
  for (; done_ < tail_; ++done_) {
    Work& work = at(done_);
    work.payload.clear();
    work.status = verbs::WcStatus::kWorkRequestFlushed;
    if (work.is_question) {
      work.is_free = true;
      continue;
    }
    CW_ASSERT(completions_.push(static_cast<uint32_t>(done_ % works_.size())));
    note_ready();
  }
}

// ---- To the owner ----

void RnicQueuePair::note_ready() {
  if (!ListNode<ReadyTag>::is_linked()) {
    core_.ready.push_back(*this);
  }
}

void RnicQueuePair::tell_again() {
  if (!completions_.empty() || in_error()) {
    note_ready();
  }
}

bool RnicQueuePair::poll_completion(verbs::Completion& out) {
  if (completions_.empty()) {
    return false;
  }
  const uint32_t place = completions_.pop();
  out = verbs::Completion();
  if ((place & kReceiveFlag) != 0) {
    Receive& receive = receives_[place & ~kReceiveFlag];
    out.opcode = verbs::WcOpcode::kReceive;
    out.bytes = static_cast<uint32_t>(receive.payload.bytes());
    out.payload = std::move(receive.payload);
    out.begun = receive.begun;
    out.invalidated = receive.invalidated;
    out.immediate = receive.immediate;
    free_receives_.push_back(place & ~kReceiveFlag);
    if (receives_owed_ > 0) {
      want_to_post();
    }
    return true;
  }
  Work& work = works_[place];
  out.id = work.id;
  out.status = work.status;
  out.opcode = opcode_of(work.verb);
  out.bytes = work.status == verbs::WcStatus::kSuccess ? work.length : 0;
  out.payload = std::move(work.payload);
  work.is_free = true;
  free_done();
  return true;
}

// ---- The end ----

void RnicQueuePair::fail(const RnicError& error) {
  if (in_error()) {
    return;
  }
  error_ = error;
  error_.work = static_cast<uint32_t>(done_);
  ListNode<PostTag>::unlink_if_linked();
  if (!is_destroyed_) {
    core_.host.fail(options_.id);
  }
  flush_rest();
  note_ready();
}

void RnicQueuePair::on_destroyed() {
  is_destroyed_ = true;
  ListNode<PostTag>::unlink_if_linked();
  for (Receive& receive : receives_) {
    if (std::exchange(receive.is_out, false)) {
      receive.payload.clear();
    }
  }
  receives_out_ = 0;
  requests_out_ = 0;
  fail({.cause = RnicErrorCause::kClosed});
  flush_unposted();
}

}  // namespace cw::rnic
