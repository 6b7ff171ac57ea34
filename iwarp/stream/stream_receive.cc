// The receiving half of an RDMAP stream: FPDUs become DDP segments, which are checked (RFC 5040 7.2, RFC 5041 7) and placed.
#include <algorithm>
#include <array>
#include <utility>

#include "base/crc32c.h"
#include "iwarp/stream/stream.h"
#include "iwarp/wire/fpdu.h"
#include "iwarp/wire/read_request.h"
#include "iwarp/wire/terminate.h"

namespace cw::iwarp {
namespace {

// Segments up to this size are copied together: each would hold a whole buffer of the pool otherwise, and a peer that cuts its
// messages into small segments would hold many times what it sends.
constexpr uint32_t kCopiedBytesMax = 1024;

// Bytes at the front of an FPDU that headers may lie in, or a whole Terminate.
constexpr uint32_t kFrontBytesMax = kFpduLengthBytes + kUntaggedHeaderBytes + kTerminateBytesMax;

}  // namespace

uint32_t RdmapStream::fpdu_bytes_at_front(const Chain& input) {
  if (input.bytes() < kFpduLengthBytes) {
    return 0;
  }
  std::array<uint8_t, kFpduLengthBytes> length{};
  input.copy_to(0, length);
  return fpdu_bytes(load_be16(length.data()));
}

RdmapStream::Taken RdmapStream::take(Instant now, Chain& input) {
  while (!in_error()) {
    const uint32_t bytes = fpdu_bytes_at_front(input);
    if (bytes == 0 || input.bytes() < bytes) {
      return Taken::kAll;
    }
    if (take_fpdu(now, input, bytes) == Taken::kStarved) {
      ++core_.stats.out_of_buffers;
      return Taken::kStarved;
    }
  }
  input.clear();
  return Taken::kAll;
}

bool RdmapStream::crc_fits(const Chain& input, uint32_t fpdu_bytes) {
  Crc32c crc;
  uint32_t left = fpdu_bytes - kFpduCrcBytes;
  for (const Buffer* at = input.head(); left > 0; at = at->next) {
    const uint32_t size = std::min(left, at->size);
    crc.add(Bytes(at->data, size));
    left -= size;
  }
  std::array<uint8_t, kFpduCrcBytes> trailer{};
  input.copy_to(fpdu_bytes - kFpduCrcBytes, trailer);
  return load_fpdu_crc(trailer.data()) == crc.value();
}

// A starved stream comes back with the same FPDU: nothing has changed until its payload is placed.
RdmapStream::Taken RdmapStream::take_fpdu(Instant now, Chain& input, uint32_t fpdu_bytes) {
  std::array<uint8_t, kFrontBytesMax> front{};
  const uint32_t front_bytes = std::min<uint32_t>(kFrontBytesMax, fpdu_bytes - kFpduCrcBytes);
  input.copy_to(0, MutableBytes(front).first(front_bytes));
  const uint32_t ulpdu_bytes = load_be16(front.data());
  if (options_.crc && !crc_fits(input, fpdu_bytes)) {
    ++core_.stats.crc_errors;
    refuse(TerminateCause::kMpaCrc);
    return Taken::kAll;
  }
  const Bytes segment = Bytes(front).subspan(kFpduLengthBytes, std::min(ulpdu_bytes, front_bytes - kFpduLengthBytes));
  const auto header = parse_segment_header(segment);
  if (!header.ok()) {
    refuse(TerminateCause::kMpaLength);  // no ULPDU is shorter than its header
    return Taken::kAll;
  }
  const Segment incoming{.header = *header,
                         .payload_bytes = ulpdu_bytes - header->bytes(),
                         .ulpdu_bytes = ulpdu_bytes,
                         .raw_header = segment.first(header->bytes()),
                         .front = segment.subspan(header->bytes())};
  if (const Refused refused = check(incoming); refused) {
    refuse(incoming, *refused);
    return Taken::kAll;
  }
  if (place(now, incoming, input) == Taken::kStarved) {
    return Taken::kStarved;
  }
  ++core_.stats.fpdus_received;
  ++counters_.fpdus_in;
  counters_.payload_bytes_in += incoming.payload_bytes;
  core_.stats.bytes_received += fpdu_bytes;
  if (!std::exchange(heard_peer_, true) && sending_.work != nullptr) {
    note_sendable();
  }
  if (const Refused refused = finish(incoming); refused) {
    refuse(incoming, *refused);
  }
  return Taken::kAll;
}

// What is wrong with a segment by itself, and at its place in the stream.
RdmapStream::Refused RdmapStream::check(const Segment& segment) const {
  const SegmentControl& control = segment.header.control;
  if (control.ddp_version != kDdpVersion) {
    return control.tagged ? TerminateCause::kTaggedVersion : TerminateCause::kUntaggedVersion;
  }
  if (!control.tagged && segment.header.queue >= kQueueCount) {
    return TerminateCause::kUntaggedQueue;
  }
  if (control.rdmap_version != kRdmapVersion) {
    return TerminateCause::kOperationVersion;
  }
  if (control.tagged) {
    return check_tagged(segment);
  }
  switch (static_cast<QueueNumber>(segment.header.queue)) {
    case QueueNumber::kSend:
      return check_send(segment);
    case QueueNumber::kReadRequest:
      return check_read_request(segment);
    case QueueNumber::kTerminate:
      break;
  }
  return control.opcode != Opcode::kTerminate ? Refused(TerminateCause::kOperationOpcode)
                                              : check_whole(segment, 1, kTerminateControlBytes, kTerminateBytesMax);
}

RdmapStream::Refused RdmapStream::check_tagged(const Segment& segment) const {
  const SegmentHeader& header = segment.header;
  if (header.control.opcode == Opcode::kReadResponse) {
    if (awaiting_ == nullptr || header.stag != awaiting_->local_key.value()) {
      return TerminateCause::kTaggedInvalidStag;
    }
    const uint64_t begin = awaiting_->payload.bytes();
    if (header.tagged_offset != begin || segment.payload_bytes > awaiting_->length - begin) {
      return TerminateCause::kTaggedBounds;
    }
    // A response that ends early: RFC 5040 has no code of its own for it.
    const bool is_whole = begin + segment.payload_bytes == awaiting_->length;
    return header.control.last && !is_whole ? Refused(TerminateCause::kOperationUnspecified) : std::nullopt;
  }
  if (header.control.opcode != Opcode::kWrite) {
    return TerminateCause::kOperationOpcode;
  }
  if (segment.payload_bytes == 0) {
    return std::nullopt;  // touches nothing: one of the ways in which a peer says that it is ready (RFC 6581 9)
  }
  static constexpr FaultCauses kCauses{TerminateCause::kTaggedInvalidStag, TerminateCause::kTaggedOtherStream,
                                       TerminateCause::kTaggedBounds, TerminateCause::kProtectionAccess,
                                       TerminateCause::kTaggedWrap};
  const auto memory = resolve(header.stag, header.tagged_offset, segment.payload_bytes, verbs::RemoteAccess::kWrite);
  return memory.ok() ? std::nullopt : Refused(kCauses[static_cast<size_t>(memory.error())]);
}

RdmapStream::Refused RdmapStream::check_send(const Segment& segment) const {
  const SegmentHeader& header = segment.header;
  if (!is_send(header.control.opcode)) {
    return TerminateCause::kOperationOpcode;
  }
  if (header.message != expected_send_msn_) {
    return TerminateCause::kUntaggedMessage;
  }
  if (is_ready_message(segment)) {
    return std::nullopt;
  }
  if (receiving_ == nullptr && receives_ == 0) {
    return TerminateCause::kUntaggedNoBuffer;
  }
  const auto received = static_cast<uint32_t>(receiving_ == nullptr ? 0 : receiving_->payload.bytes());
  if (header.message_offset != received) {
    return TerminateCause::kUntaggedOffset;
  }
  if (segment.payload_bytes > options_.receive_bytes_max - received) {
    return TerminateCause::kUntaggedTooLong;
  }
  // All segments of a message have one opcode and name one key.
  const bool differs =
      receiving_ != nullptr && (header.control.opcode != receiving_->opcode ||
                                (receiving_->invalidates() && header.invalidate_stag != receiving_->rkey.value()));
  return differs ? Refused(TerminateCause::kOperationOpcode) : std::nullopt;
}

bool RdmapStream::is_ready_message(const Segment& segment) const {
  return options_.ready_by_send && expected_send_msn_ == 1 && segment.header.control.opcode == Opcode::kSend &&
         segment.payload_bytes == 0 && segment.header.control.last;
}

RdmapStream::Refused RdmapStream::check_read_request(const Segment& segment) const {
  if (segment.header.control.opcode != Opcode::kReadRequest) {
    return TerminateCause::kOperationOpcode;
  }
  if (const Refused refused = check_whole(segment, expected_read_msn_, kReadRequestBytes, kReadRequestBytes); refused) {
    return refused;
  }
  if (reads_answering_ >= options_.ird) {
    return TerminateCause::kUntaggedNoBuffer;
  }
  const ReadRequestHeader request = parse_read_request(segment.front);
  if (request.bytes == 0) {
    return std::nullopt;  // RFC 5040 5.2.1: nothing is validated, and the response is empty
  }
  const auto memory = resolve(request.source_stag, request.source_offset, request.bytes, verbs::RemoteAccess::kRead);
  return memory.ok() ? std::nullopt : Refused(read_fault(memory.error()));
}

TerminateCause RdmapStream::read_fault(verbs::MemoryFault fault) {
  static constexpr FaultCauses kCauses{TerminateCause::kProtectionInvalidStag, TerminateCause::kProtectionOtherStream,
                                       TerminateCause::kProtectionBounds, TerminateCause::kProtectionAccess,
                                       TerminateCause::kProtectionWrap};
  return kCauses[static_cast<size_t>(fault)];
}

// A message that has to come in one segment.
RdmapStream::Refused RdmapStream::check_whole(const Segment& segment, uint32_t message, uint32_t bytes_min, uint32_t bytes_max) {
  if (segment.header.message != message) {
    return TerminateCause::kUntaggedMessage;
  }
  if (segment.header.message_offset != 0) {
    return TerminateCause::kUntaggedOffset;
  }
  if (segment.payload_bytes > bytes_max) {
    return TerminateCause::kUntaggedTooLong;
  }
  const bool is_whole = segment.header.control.last && segment.payload_bytes >= bytes_min;
  return is_whole ? std::nullopt : Refused(TerminateCause::kOperationUnspecified);
}

Result<MutableBytes, verbs::MemoryFault> RdmapStream::resolve(uint32_t stag, uint64_t address, uint32_t bytes,
                                                              verbs::RemoteAccess access) const {
  if (!options_.exposes_memory) {
    return cw::fail(verbs::MemoryFault::kUnknownKey);
  }
  return core_.memory->resolve(options_.domain, verbs::Rkey(stag), address, bytes, access);
}

// Moves the payload to where it belongs and the rest of the FPDU out of the input.
RdmapStream::Taken RdmapStream::place(Instant now, const Segment& segment, Chain& input) {
  const SegmentControl& control = segment.header.control;
  const uint32_t payload_at = kFpduLengthBytes + segment.header.bytes();
  const uint32_t payload_end = payload_at + segment.payload_bytes;
  const uint32_t trailer_bytes = fpdu_pad_bytes(segment.ulpdu_bytes) + kFpduCrcBytes;
  Chain* message = nullptr;
  if (control.opcode == Opcode::kReadResponse) {
    message = &awaiting_->payload;
  } else if (is_send(control.opcode) && !is_ready_message(segment)) {
    if (!begin_receive(now, segment.header)) {
      return Taken::kStarved;
    }
    message = &receiving_->payload;
  } else if (control.opcode == Opcode::kReadRequest) {
    if (!begin_answer(parse_read_request(segment.front))) {
      return Taken::kStarved;
    }
  } else if (control.opcode == Opcode::kWrite && segment.payload_bytes > 0) {
    input.copy_to(payload_at, *resolve(segment.header.stag, segment.header.tagged_offset, segment.payload_bytes,
                                       verbs::RemoteAccess::kWrite));
  }
  if (message == nullptr || segment.payload_bytes == 0) {
    input.trim_front(payload_end + trailer_bytes);
    return Taken::kAll;
  }
  if (segment.payload_bytes <= kCopiedBytesMax) {
    std::array<uint8_t, kCopiedBytesMax> copy;  // NOLINT(cppcoreguidelines-pro-type-member-init): written to before it is read
    const MutableBytes payload = MutableBytes(copy).first(segment.payload_bytes);
    input.copy_to(payload_at, payload);
    if (!message->append_copy(core_.spares.pool(), payload)) {
      return Taken::kStarved;
    }
    core_.stats.payload_bytes_copied += segment.payload_bytes;
    input.trim_front(payload_end + trailer_bytes);
    return Taken::kAll;
  }
  Chain payload;
  if (!input.split_front(payload_end, payload)) {
    return Taken::kStarved;
  }
  payload.trim_front(payload_at);
  input.trim_front(trailer_bytes);
  message->append(std::move(payload));
  return Taken::kAll;
}

// False: there is no work for it.
bool RdmapStream::begin_receive(Instant now, const SegmentHeader& header) {
  if (receiving_ != nullptr) {
    return true;
  }
  receiving_ = core_.receives.create();
  if (receiving_ == nullptr) {
    return false;
  }
  --receives_;
  receiving_->kind = WorkKind::kReceive;
  receiving_->opcode = header.control.opcode;
  receiving_->rkey = verbs::Rkey(header.invalidate_stag);
  receiving_->begun_at = now;
  return true;
}

bool RdmapStream::begin_answer(const ReadRequestHeader& request) {
  Work* answer = core_.sends.create();
  if (answer == nullptr) {
    return false;
  }
  answer->kind = WorkKind::kReadResponse;
  answer->opcode = Opcode::kReadResponse;
  answer->rkey = verbs::Rkey(request.sink_stag);
  answer->remote_address = request.sink_offset;
  answer->length = request.bytes;
  answer->local_key = verbs::Rkey(request.source_stag);
  answer->local_address = request.source_offset;
  answers_.push(answer);
  ++reads_answering_;
  ++expected_read_msn_;
  note_sendable();
  return true;
}

// What comes about when a segment has been placed.
RdmapStream::Refused RdmapStream::finish(const Segment& segment) {
  const SegmentControl& control = segment.header.control;
  if (control.opcode == Opcode::kReadResponse && control.last) {
    finish_read();
  } else if (is_ready_message(segment)) {
    ++expected_send_msn_;
  } else if (is_send(control.opcode) && control.last) {
    return finish_send();
  } else if (control.opcode == Opcode::kTerminate) {
    take_terminate(segment.front);
  }
  return std::nullopt;
}

RdmapStream::Refused RdmapStream::finish_send() {
  Work* work = receiving_;
  if (work->invalidates() && !(options_.exposes_memory && core_.memory->invalidate(options_.domain, work->rkey))) {
    return TerminateCause::kProtectionNotInvalidated;
  }
  work->length = static_cast<uint32_t>(work->payload.bytes());
  receiving_ = nullptr;
  ++expected_send_msn_;
  completions_.push(work);
  note_ready();
  return std::nullopt;
}

void RdmapStream::finish_read() {
  Work* read = awaiting_;
  read->done = true;
  --reads_outstanding_;
  // The next one whose request has been made.
  awaiting_ = read->next;
  while (awaiting_ != sending_.work && awaiting_ != nullptr && awaiting_->kind != WorkKind::kRead) {
    awaiting_ = awaiting_->next;
  }
  if (awaiting_ == sending_.work) {
    awaiting_ = nullptr;
  }
  complete_in_order();
  if (sending_.work != nullptr) {
    note_sendable();  // it may have waited for this one
  }
}

// RFC 5040 6.2.1: what is outstanding ends in error, since nobody knows what became of it.
void RdmapStream::take_terminate(Bytes payload) {
  const TerminateCause cause = parse_terminate(payload).cause;
  ++core_.stats.terminates_received[index_of(cause)];
  const auto layer_and_type = static_cast<uint16_t>(cause) >> 8;
  const bool is_protection = layer_and_type == 0x01 || layer_and_type == 0x11;
  enter_error({StreamErrorCause::kTerminated, cause, 0},
              is_protection ? verbs::WcStatus::kRemoteAccessError : verbs::WcStatus::kRemoteOperationError);
}

void RdmapStream::refuse(const Segment& segment, TerminateCause cause) {
  // RFC 5040 7.1: a Terminate is not answered by one.
  const bool is_terminate = !segment.header.control.tagged && segment.header.control.opcode == Opcode::kTerminate &&
                            segment.header.queue == static_cast<uint32_t>(QueueNumber::kTerminate);
  // RFC 5040 4.8: the headers go along with errors of a segment; the Read Request's own with those of what it asks for.
  const bool is_protection = static_cast<uint16_t>(cause) >> 8 == 0x01;
  const bool with_read_header = is_protection && segment.header.control.opcode == Opcode::kReadRequest;
  if (!is_terminate) {
    add_terminate(cause, segment.raw_header, segment.ulpdu_bytes,
                  with_read_header ? segment.front.first(kReadRequestBytes) : Bytes());
  }
  enter_error({StreamErrorCause::kViolation, cause, segment.header.control.tagged ? 0 : segment.header.message},
              verbs::WcStatus::kBadResponse);
}

void RdmapStream::refuse(TerminateCause cause) {
  add_terminate(cause, {}, 0, {});
  enter_error({StreamErrorCause::kViolation, cause, 0}, verbs::WcStatus::kBadResponse);
}

}  // namespace cw::iwarp
