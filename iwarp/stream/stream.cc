#include "iwarp/stream/stream.h"

#include <algorithm>
#include <utility>

namespace cw::iwarp {
namespace {

verbs::WcOpcode opcode_of(WorkKind kind) {
  switch (kind) {
    case WorkKind::kWrite:
      return verbs::WcOpcode::kRdmaWrite;
    case WorkKind::kRead:
      return verbs::WcOpcode::kRdmaRead;
    case WorkKind::kReceive:
      return verbs::WcOpcode::kReceive;
    case WorkKind::kSend:
    case WorkKind::kReadResponse:
      return verbs::WcOpcode::kSend;
  }
  return verbs::WcOpcode::kSend;
}

Opcode send_opcode(const verbs::SendRequest& request) {
  if (request.invalidate) {
    return request.solicited ? Opcode::kSendSolicitedInvalidate : Opcode::kSendInvalidate;
  }
  return request.solicited ? Opcode::kSendSolicited : Opcode::kSend;
}

constexpr uint64_t kMessageBytesMax = UINT32_MAX;  // RFC 5040 1.1

SegmentCursor start_of(Work* work) {
  return {work, work == nullptr ? nullptr : work->payload.head(), 0, 0};
}

}  // namespace

RdmapStream::RdmapStream(const StreamOptions& options, StreamCore& core, ByteOutput& output)
    : options_(options), core_(core), output_(output) {}

RdmapStream::~RdmapStream() {
  if (!in_error()) {
    enter_error({StreamErrorCause::kClosed}, verbs::WcStatus::kWorkRequestFlushed);
  }
  while (Work* work = completions_.pop()) {
    (work->kind == WorkKind::kReceive ? core_.receives : core_.sends).destroy(work);
  }
  ListNode<ReadyTag>::unlink_if_linked();
  ListNode<SendableTag>::unlink_if_linked();
}

Status RdmapStream::admit(uint64_t bytes) const {
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

void RdmapStream::enqueue(Work* work) {
  if (newest_ == nullptr) {
    oldest_ = work;
  } else {
    newest_->next = work;
  }
  newest_ = work;
  if (unsent_ == nullptr) {
    unsent_ = work;
  }
  if (sending_.work == nullptr) {
    sending_ = start_of(work);
  }
  ++queue_count_;
  note_sendable();
}

Status RdmapStream::post_send(verbs::SendRequest&& request) {
  if (request.immediate) {
    return cw::fail(Error::kUnsupported);  // RFC 7306 has it, RFC 5040 does not
  }
  if (const Status admitted = admit(request.payload.bytes()); !admitted.ok()) {
    return admitted;
  }
  Work* work = core_.sends.create();
  work->kind = WorkKind::kSend;
  work->id = request.id;
  work->opcode = send_opcode(request);
  work->length = static_cast<uint32_t>(request.payload.bytes());
  work->payload = std::move(request.payload);
  work->rkey = request.invalidate.value_or(verbs::Rkey());
  work->fence = request.fence;
  work->signaled = request.signaled;
  enqueue(work);
  return {};
}

Status RdmapStream::post_write(verbs::WriteRequest&& request) {
  if (request.immediate) {
    return cw::fail(Error::kUnsupported);
  }
  if (const Status admitted = admit(request.payload.bytes()); !admitted.ok()) {
    return admitted;
  }
  Work* work = core_.sends.create();
  work->kind = WorkKind::kWrite;
  work->id = request.id;
  work->opcode = Opcode::kWrite;
  work->length = static_cast<uint32_t>(request.payload.bytes());
  work->payload = std::move(request.payload);
  work->rkey = request.rkey;
  work->remote_address = request.remote_address;
  work->fence = request.fence;
  work->signaled = request.signaled;
  enqueue(work);
  return {};
}

Status RdmapStream::post_read(verbs::ReadRequest&& request) {
  if (const Status admitted = admit(request.length); !admitted.ok()) {
    return admitted;
  }
  if (options_.ord == 0) {
    return cw::fail(Error::kUnsupported);
  }
  Work* work = core_.sends.create();
  work->kind = WorkKind::kRead;
  work->id = request.id;
  work->opcode = Opcode::kReadRequest;
  work->length = request.length;
  work->rkey = request.rkey;
  work->remote_address = request.remote_address;
  work->fence = request.fence;
  enqueue(work);
  return {};
}

Status RdmapStream::post_atomic(const verbs::AtomicRequest& /*request*/) {
  return cw::fail(Error::kUnsupported);
}

uint32_t RdmapStream::send_queue_room() const {
  return std::min<uint32_t>(options_.send_queue_depth - queue_count_, core_.sends.capacity() - core_.sends.in_use());
}

bool RdmapStream::poll_completion(verbs::Completion& out) {
  Work* work = completions_.pop();
  if (work == nullptr) {
    return false;
  }
  const bool received = work->kind == WorkKind::kReceive;
  out.id = work->id;
  out.status = work->status;
  out.opcode = opcode_of(work->kind);
  out.bytes = work->status == verbs::WcStatus::kSuccess ? work->length : 0;
  out.payload = std::move(work->payload);
  out.original = 0;
  out.begun = received ? work->begun_at : Instant::never();
  out.solicited = received && is_solicited(work->opcode);
  out.immediate.reset();
  out.invalidated.reset();
  if (received && work->invalidates()) {
    out.invalidated = work->rkey;
  }
  (received ? core_.receives : core_.sends).destroy(work);
  return true;
}

void RdmapStream::close() {
  if (!in_error()) {
    enter_error({StreamErrorCause::kClosed}, verbs::WcStatus::kWorkRequestFlushed);
  }
}

void RdmapStream::on_lost(StreamErrorCause cause) {
  if (!in_error()) {
    const bool silent = cause == StreamErrorCause::kTcpTimeout || cause == StreamErrorCause::kFpduTimeout;
    enter_error({cause}, silent ? verbs::WcStatus::kRetryExceeded : verbs::WcStatus::kWorkRequestFlushed);
  }
}

void RdmapStream::on_sent() {
  while (unsent_ != nullptr && unsent_ != sending_.work && unsent_->end_position <= output_.left()) {
    if (unsent_->kind != WorkKind::kRead) {
      unsent_->payload.clear();
      unsent_->done = true;
    }
    unsent_ = unsent_->next;
  }
  complete_in_order();
  if (!in_error() && (sending_.work != nullptr || !answers_.empty() || speaking_ != Speaking::kNothing)) {
    note_sendable();
  }
}

// RFC 5040 5.5 rule 15: in the order of submission. What TCP has not taken may still be read from.
void RdmapStream::complete_in_order() {
  while (oldest_ != nullptr && oldest_ != unsent_ && oldest_->done) {
    Work* work = oldest_;
    oldest_ = std::exchange(work->next, nullptr);
    if (oldest_ == nullptr) {
      newest_ = nullptr;
    }
    complete(work);
  }
}

void RdmapStream::complete(Work* work) {
  --queue_count_;
  if (!work->signaled && work->status == verbs::WcStatus::kSuccess) {
    core_.sends.destroy(work);
    return;
  }
  completions_.push(work);
  note_ready();
}

void RdmapStream::note_ready() {
  if (!ListNode<ReadyTag>::is_linked()) {
    core_.ready.push_back(*this);
  }
}

void RdmapStream::note_sendable() {
  if (!ListNode<SendableTag>::is_linked()) {
    core_.sendable.push_back(*this);
  }
}

// FPDUs that were made leave whole, the Terminate behind them. They refer to payload of works that are flushed now.
void RdmapStream::keep_unsent_payload() {
  SendBatch* batch = output_.batch();
  if (batch == nullptr) {
    return;
  }
  for (Work* work = unsent_; work != nullptr; work = work->next) {
    if (work->kind != WorkKind::kRead) {
      batch->keep(std::move(work->payload));
    }
    if (work == sending_.work) {
      break;
    }
  }
}

void RdmapStream::enter_error(const StreamError& error, verbs::WcStatus first_status) {
  error_ = error;
  keep_unsent_payload();
  verbs::WcStatus status = first_status;
  while (oldest_ != nullptr) {
    Work* work = oldest_;
    oldest_ = std::exchange(work->next, nullptr);
    work->payload.clear();
    if (!work->done) {
      work->status = std::exchange(status, verbs::WcStatus::kWorkRequestFlushed);
    }
    complete(work);
  }
  newest_ = nullptr;
  unsent_ = nullptr;
  sending_ = {};
  awaiting_ = nullptr;
  reads_outstanding_ = 0;
  if (answering_.work != nullptr) {
    core_.sends.destroy(answering_.work);
    answering_ = {};
  }
  while (Work* answer = answers_.pop()) {
    core_.sends.destroy(answer);
  }
  reads_answering_ = 0;
  if (receiving_ != nullptr) {
    core_.receives.destroy(receiving_);
    receiving_ = nullptr;
  }
  speaking_ = Speaking::kNothing;
  note_ready();
  note_sendable();  // what was begun leaves, and then the TCP connection ends
}

}  // namespace cw::iwarp
