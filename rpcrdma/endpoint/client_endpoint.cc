#include "rpcrdma/endpoint/client_endpoint.h"

#include <algorithm>
#include <bit>

#include "rpcrdma/endpoint/pending_call.h"
#include "rpcrdma/rpc/rpc_message.h"

namespace cw::rpcrdma {
namespace {

// Payload up to this goes into the header's own Buffer: cheaper to send than one more piece.
constexpr uint32_t kCopyBytesMax = 256;

ListNode<PendingTag>& pending_node(PendingCall& pending) {
  return pending;
}

}  // namespace

const char* to_string(CallStatus status) noexcept {
  switch (status) {
    case CallStatus::kReplied:
      return "replied";
    case CallStatus::kErrorVersion:
      return "ERR_VERS";
    case CallStatus::kErrorChunk:
      return "ERR_CHUNK";
    case CallStatus::kTimeout:
      return "timeout";
    case CallStatus::kConnectionLost:
      return "connection lost";
    case CallStatus::kBadReply:
      return "bad reply";
    case CallStatus::kCancelled:
      return "cancelled";
  }
  return "unknown status";
}

ClientEndpoint::ClientEndpoint(verbs::QueuePair& qp, verbs::MemoryRegistry& memory, verbs::ProtectionDomain domain,
                               BufferPool& pool, const ClientOptions& options, const InlineThresholds& thresholds,
                               uint32_t first_xid, RpcRdmaStats& stats)
    : qp_(qp),
      memory_(memory),
      domain_(domain),
      pool_(pool),
      options_(options),
      thresholds_(thresholds),
      stats_(stats),
      window_(qp),
      reverse_(qp, window_, pool, stats, options.reverse_credits, thresholds.send_bytes),
      slot_count_(std::max(options.credits_wanted, 1u)),
      first_xid_(first_xid),
      slot_bits_(static_cast<uint32_t>(std::bit_width(slot_count_ - 1))) {
  slots_ = std::make_unique<PendingCall[]>(slot_count_);
  for (uint32_t i = slot_count_; i > 0; --i) {
    slots_[i - 1].slot = i - 1;
    free_slot(slots_[i - 1]);
  }
}

ClientEndpoint::~ClientEndpoint() {
  fail();
}

void ClientEndpoint::start() {
  // One for each call that may be in flight, in either direction; each message that takes one gives it back (RFC 8166 3.3.1,
  // RFC 8167 4.3.1).
  qp_.post_receives(slot_count_ + reverse_.credits());
}

uint32_t ClientEndpoint::calls_allowed() const {
  const uint32_t limit = std::min(granted_, slot_count_);
  return failed_ || in_flight_ >= limit ? 0 : std::min(limit - in_flight_, free_count_);
}

Status ClientEndpoint::submit(Instant now, ClientCall&& call) {
  if (failed_ || qp_.in_error()) {
    return cw::fail(Error::kBadState);
  }
  if (calls_allowed() == 0) {
    ++stats_.credit_stalls;
    return cw::fail(Error::kNoResources);
  }
  // An empty message in a Long Call means that the memory is the stream.
  const bool in_memory = call.long_call && call.message.empty();
  const uint64_t stream_bytes = in_memory ? call.long_call_memory.size() : call.message.bytes();
  if (const Status checked = check_call(call, stream_bytes); !checked.ok()) {
    return checked;
  }
  if (call.resent_xid && find(*call.resent_xid) != nullptr) {
    return cw::fail(Error::kBadValue);
  }
  if (const Status laid_out = lay_out_chunks(call, stream_bytes, options_.segment_bytes_max, chunks_); !laid_out.ok()) {
    return laid_out;
  }
  if (!check_reduction(call) || !check_reply_room(call)) {
    return cw::fail(Error::kBadValue);
  }
  const uint64_t inline_bytes = call.long_call ? 0 : stream_bytes;
  const uint64_t header = header_bytes(chunks_);
  if (header + inline_bytes > thresholds_.send_bytes || header + kXidBytes > pool_.buffer_bytes()) {
    return cw::fail(Error::kLimit);
  }
  return send_call(now, *free_, call, call.long_call ? stream_bytes : 0);
}

Status ClientEndpoint::check_call(const ClientCall& call, uint64_t stream_bytes) const {
  if (call.writes.size() > ClientReply::kWritesMax || call.reads.size() > kReadsMax) {
    return cw::fail(Error::kLimit);
  }
  uint32_t position = 0;
  for (const ReadChunkSource& source : call.reads) {
    if (source.position % 4 != 0 || source.position <= position || source.memory.empty() || source.memory.size() > UINT32_MAX) {
      return cw::fail(Error::kBadValue);
    }
    position = source.position;
  }
  for (const MutableBytes memory : call.writes) {
    if (memory.size() > UINT32_MAX) {
      return cw::fail(Error::kBadValue);
    }
  }
  const bool fits = !call.long_call || stream_bytes <= call.long_call_memory.size();
  if (stream_bytes < kXidBytes || stream_bytes > UINT32_MAX || call.reply_memory.size() > UINT32_MAX || !fits) {
    return cw::fail(Error::kBadValue);
  }
  return {};
}

// RFC 8166 6.1: nothing may be reduced that is not eligible. Precondition: the chunks are laid out.
bool ClientEndpoint::check_reduction(const ClientCall& call) {
  if (call.reads.empty() && call.writes.empty()) {
    return true;
  }
  const XdrReader stream = call.message.empty() ? XdrReader(Bytes(call.long_call_memory)) : XdrReader(call.message);
  inspect_call(stream, context_);
  if (call.reads.empty()) {
    return true;
  }
  Reduction moved(Reduction::Kind::kArguments);
  for (const ReadChunkSource& source : call.reads) {
    moved.add_read_chunk(source.position, source.memory.size());
  }
  return reduces_eligible_arguments(context_, stream, moved);
}

// RFC 8166 3.4.6, 4.3.2.2, 4.3.3: each Write chunk takes the longest result, and what remains fits a SEND or the Reply chunk; the
// reply's header, which returns the lists, counts. Precondition: the chunks are laid out.
bool ClientEndpoint::check_reply_room(const ClientCall& call) const {
  for (const MutableBytes memory : call.writes) {
    if (!memory.empty() && memory.size() < call.result_bytes_max) {
      return false;
    }
  }
  return call.reply_bytes_max <= call.reply_memory.size() ||
         reply_header_bytes(chunks_) + call.reply_bytes_max <= thresholds_.receive_bytes;
}

Status ClientEndpoint::send_call(Instant now, PendingCall& pending, ClientCall& call, uint64_t long_call_bytes) {
  const uint32_t room = window_.room();
  if (room == 0) {
    return cw::fail(Error::kNoResources);
  }
  pending.xid = call.resent_xid ? *call.resent_xid : fresh_xid(pending);
  if (const Status exposed = expose_chunks(call, long_call_bytes, memory_, domain_, pending, chunks_); !exposed.ok()) {
    return exposed;
  }
  Buffer* header = build_header(pending, !call.long_call);
  if (header == nullptr) {
    (void)hide_chunks(memory_, domain_, pending);
    ++stats_.no_buffer;
    return cw::fail(Error::kNoResources);
  }
  // The stream's own XID word is left out: it stands behind the header, where it can be written.
  verbs::SendRequest send{.payload = Chain(), .signaled = window_.signaled(room)};
  Chain body = std::move(call.message);
  if (call.long_call) {
    const MutableBytes stream = call.long_call_memory.first(static_cast<size_t>(long_call_bytes));
    body.copy_to(0, stream.first(static_cast<size_t>(body.bytes())));
    store_be32(stream.data(), pending.xid);
    body.clear();
  } else {
    body.trim_front(kXidBytes);
  }
  if (body.bytes() <= kCopyBytesMax && body.bytes() <= header->tailroom().size()) {
    body.copy_to(0, header->tailroom().first(static_cast<size_t>(body.bytes())));
    header->size += static_cast<uint32_t>(body.bytes());
    body.clear();
  }
  send.payload.push_back(header);
  send.payload.append(std::move(body));
  if (!qp_.post_send(std::move(send)).ok()) {
    (void)hide_chunks(memory_, domain_, pending);
    fail();
    return cw::fail(Error::kBadState);
  }
  free_ = pending.next_free;
  --free_count_;
  pending.resent = call.resent_xid.has_value();
  ++(pending.resent ? resent_ : xid_count_);
  last_xid_ = pending.xid;
  ++in_flight_;
  pending.in_flight = true;
  pending.abandoned = false;
  pending.sent = now;
  pending.reply_memory = call.reply_memory;
  if (!call.writes.empty()) {
    pending.context = context_;
  }
  // Its message has been moved out, and the other fields are set here one by one: a whole new ClientReply costs more.
  pending.outcome.user_data = call.user_data;
  pending.outcome.status = CallStatus::kReplied;
  pending.outcome.reply_chunk_bytes = 0;
  std::fill(std::begin(pending.outcome.write_bytes), std::end(pending.outcome.write_bytes), 0u);
  pending.outcome.sent = now;
  pending.outcome.xid = pending.xid;
  sent_.push_back(pending);
  ++stats_.messages_out[static_cast<size_t>(call.long_call ? MessageKind::kNomsg : MessageKind::kMsg)];
  return {};
}

Buffer* ClientEndpoint::build_header(const PendingCall& pending, bool with_xid) {
  Buffer* header = pool_.allocate_one();
  if (header == nullptr) {
    return nullptr;
  }
  const RdmaProc proc = with_xid ? RdmaProc::kMsg : RdmaProc::kNomsg;
  const FixedHeader fixed{.xid = pending.xid, .credit = slot_count_, .proc = static_cast<uint32_t>(proc)};
  const auto written = write_call_header(header->tailroom(), fixed, chunks_);
  CW_ASSERT(written.ok());  // sizes have been checked
  header->size = *written;
  if (with_xid) {
    store_be32(header->data + header->size, pending.xid);
    header->size += kXidBytes;
  }
  return header;
}

void ClientEndpoint::free_slot(PendingCall& pending) {
  pending.next_free = free_;
  free_ = &pending;
  ++free_count_;
}

// One that no call in flight has; the next one as long as none of them came from another connection.
uint32_t ClientEndpoint::fresh_xid(const PendingCall& pending) {
  uint32_t xid = first_xid_ + ((xid_count_ << slot_bits_) | pending.slot);
  while (resent_ > 0 && find(xid) != nullptr) {
    ++xid_count_;
    xid = first_xid_ + ((xid_count_ << slot_bits_) | pending.slot);
  }
  return xid;
}

// The call in flight that this XID belongs to.
PendingCall* ClientEndpoint::find(uint32_t xid) {
  const uint32_t slot = (xid - first_xid_) & ((1u << slot_bits_) - 1);
  if (slot < slot_count_ && slots_[slot].in_flight && slots_[slot].xid == xid) {
    return &slots_[slot];
  }
  // Retransmissions are few and soon over: they are searched for.
  for (uint32_t i = 0; resent_ > 0 && i < slot_count_; ++i) {
    if (slots_[i].in_flight && slots_[i].xid == xid) {
      return &slots_[i];
    }
  }
  return nullptr;
}

void ClientEndpoint::on_completions(Instant now) {
  verbs::Completion completion;
  while (qp_.poll_completion(completion)) {
    on_completion(completion);
  }
  if (qp_.in_error() || exposed_) {
    fail();
  }
  advance_reverse(now);
}

void ClientEndpoint::reply_reverse(Instant now, uint32_t xid, Chain&& message) {
  Chain reply = std::move(message);
  if (!failed_) {
    reverse_.reply(xid, std::move(reply));
    advance_reverse(now);
  }
}

void ClientEndpoint::advance_reverse(Instant now) {
  if (reverse_.has_answers() && !reverse_.advance()) {
    fail();
  }
  reverse_retry_at_ = reverse_.has_answers() ? now + kRetryInterval : Instant::never();
}

void ClientEndpoint::on_completion(verbs::Completion& completion) {
  if (failed_) {
    return;
  }
  if (completion.status != verbs::WcStatus::kSuccess) {
    fail();
    return;
  }
  if (completion.opcode == verbs::WcOpcode::kReceive) {
    qp_.post_receives(1);
    on_message(std::move(completion.payload), completion.invalidated);
  } else if (completion.opcode == verbs::WcOpcode::kReceiveRdmaWithImmediate) {
    qp_.post_receives(1);
    ++stats_.messages_in[static_cast<size_t>(MessageKind::kOther)];
  }
}

// The outcome is known. Nothing happens for a call whose outcome is out already.
void ClientEndpoint::deliver(PendingCall& pending, CallStatus status) {
  if (pending.abandoned) {
    return;
  }
  exposed_ = !hide_chunks(memory_, domain_, pending) || exposed_;
  pending.outcome.status = status;
  if (status != CallStatus::kReplied) {
    pending.outcome.message.clear();
    pending.outcome.reply_chunk_bytes = 0;
    std::fill(std::begin(pending.outcome.write_bytes), std::end(pending.outcome.write_bytes), 0u);
  }
  outcomes_.push_back(pending);
}

// The server has nothing more to send for this call: its credit is free.
void ClientEndpoint::answered(PendingCall& pending) {
  pending_node(pending).unlink();
  pending.in_flight = false;
  resent_ -= pending.resent ? 1 : 0;
  --in_flight_;
  if (!static_cast<ListNode<OutcomeTag>&>(pending).is_linked()) {
    free_slot(pending);
  }
}

// RFC 8166 3.3.1: the newest value holds, up or down; 0 is illegal and would stop us for good.
void ClientEndpoint::grant(uint32_t credit) {
  granted_ = std::max(credit, 1u);
}

bool ClientEndpoint::poll_reply(ClientReply& out) {
  PendingCall* pending = outcomes_.pop_front();
  if (pending == nullptr) {
    return false;
  }
  out = std::move(pending->outcome);
  if (!pending->in_flight) {
    free_slot(*pending);
  }
  return true;
}

void ClientEndpoint::fail() {
  if (failed_) {
    return;
  }
  failed_ = true;
  reverse_.end();
  while (PendingCall* pending = sent_.front()) {
    deliver(*pending, CallStatus::kConnectionLost);
    answered(*pending);
  }
  while (PendingCall* pending = abandoned_.front()) {
    answered(*pending);
  }
}

Instant ClientEndpoint::next_deadline() const {
  const PendingCall* oldest = sent_.front();
  return oldest == nullptr ? reverse_retry_at_ : earlier(oldest->sent + options_.call_timeout, reverse_retry_at_);
}

void ClientEndpoint::on_deadline(Instant now) {
  advance_reverse(now);
  while (PendingCall* pending = sent_.front()) {
    if (now < pending->sent + options_.call_timeout) {
      return;
    }
    ++stats_.call_timeouts;
    abandon(*pending, CallStatus::kTimeout);
    if (failed_) {
      return;
    }
  }
}

Status ClientEndpoint::cancel(uint32_t xid) {
  PendingCall* pending = find(xid);
  if (pending == nullptr || pending->abandoned) {
    return cw::fail(Error::kBadValue);
  }
  ++stats_.calls_cancelled;
  abandon(*pending, CallStatus::kCancelled);
  return {};
}

// Ends the call for its owner before the server has answered it.
void ClientEndpoint::abandon(PendingCall& pending, CallStatus status) {
  deliver(pending, status);
  pending.abandoned = true;
  pending_node(pending).unlink();
  abandoned_.push_back(pending);
  if (exposed_) {
    fail();
  }
}

}  // namespace cw::rpcrdma
