// The sending half of an RDMAP stream: messages become DDP segments, and these FPDUs.
#include <algorithm>
#include <array>
#include <cstring>

#include "base/crc32c.h"
#include "iwarp/stream/stream.h"
#include "iwarp/wire/fpdu.h"
#include "iwarp/wire/terminate.h"

namespace cw::iwarp {
namespace {

// Pieces of payload of one FPDU. A longer row of small buffers is cut into more FPDUs.
constexpr uint32_t kPiecesPerFpdu = 64;
// What a Terminate needs is always there: one may become due behind any FPDU.
constexpr uint32_t kTerminatePieces = 2;
constexpr uint32_t kTerminateScratch = 128;
// Length, the longer of the headers, pad and CRC.
constexpr uint32_t kFpduScratch = 2 + kUntaggedHeaderBytes + kReadRequestBytes + 3 + 4;

using Pieces = std::array<Bytes, kPiecesPerFpdu>;

// The next bytes of a message, at most `bytes_max`. Returns how many pieces.
uint32_t next_pieces(const SegmentCursor& cursor, uint32_t bytes_max, Pieces& out, uint32_t& bytes) {
  uint32_t count = 0;
  bytes = 0;
  uint32_t skip = cursor.in_buffer;
  for (const Buffer* at = cursor.buffer; at != nullptr && bytes < bytes_max && count < out.size(); at = at->next) {
    const uint32_t size = std::min(at->size - skip, bytes_max - bytes);
    if (size > 0) {
      out[count++] = Bytes(at->data + skip, size);
      bytes += size;
    }
    skip = 0;
  }
  return count;
}

void advance(SegmentCursor& cursor, uint32_t bytes) {
  cursor.offset += bytes;
  cursor.in_buffer += bytes;
  while (cursor.buffer != nullptr && cursor.in_buffer >= cursor.buffer->size) {
    cursor.in_buffer -= cursor.buffer->size;
    cursor.buffer = cursor.buffer->next;
  }
}

}  // namespace

bool RdmapStream::may_begin(const Work& work) const {
  if (work.fence && reads_outstanding_ > 0) {
    return false;
  }
  return work.kind != WorkKind::kRead || reads_outstanding_ < options_.ord;
}

// Posted work and READ responses take turns, message by message.
bool RdmapStream::begin_message() {
  const bool has_work = sending_.work != nullptr && may_begin(*sending_.work);
  const bool has_answer = !answers_.empty();
  if (has_answer && (answer_next_ || !has_work)) {
    answering_ = {answers_.pop(), nullptr, 0, 0};
    speaking_ = Speaking::kAnswer;
  } else if (has_work) {
    speaking_ = Speaking::kWork;
  } else {
    return false;
  }
  answer_next_ = speaking_ == Speaking::kWork;
  return true;
}

bool RdmapStream::fill() {
  if (in_error() || (!options_.speaks_first && !heard_peer_)) {
    return true;
  }
  if (speaking_ == Speaking::kNothing && !begin_message()) {
    return true;
  }
  SendBatch* batch = output_.open();
  CW_ASSERT(batch != nullptr);  // there are as many as streams
  Added added = Added::kSegment;
  while (added == Added::kSegment && (speaking_ != Speaking::kNothing || begin_message())) {
    added = speaking_ == Speaking::kWork ? add_work_segment(*batch) : add_answer_segment(*batch);
  }
  output_.close_if_empty();
  core_.stats.out_of_buffers += added == Added::kNoBuffers ? 1 : 0;
  return added != Added::kNoBuffers;
}

RdmapStream::Added RdmapStream::add_work_segment(SendBatch& batch) {
  Work& work = *sending_.work;
  if (work.kind == WorkKind::kRead) {
    return add_read_request(batch, work);
  }
  const bool is_tagged = work.kind == WorkKind::kWrite;
  const uint32_t header_bytes = is_tagged ? kTaggedHeaderBytes : kUntaggedHeaderBytes;
  Pieces pieces;
  uint32_t bytes = 0;
  const uint32_t count = next_pieces(sending_, options_.ulpdu_bytes_max - header_bytes, pieces, bytes);
  if (!batch.has_room(count + kTerminatePieces, kFpduScratch + kTerminateScratch)) {
    return Added::kNoRoom;
  }
  const bool last = sending_.offset + bytes == work.length;
  std::array<uint8_t, kUntaggedHeaderBytes> header{};
  if (is_tagged) {
    TaggedHeader tagged;
    tagged.control.last = last;
    tagged.control.opcode = work.opcode;
    tagged.stag = work.rkey.value();
    tagged.offset = work.remote_address + sending_.offset;
    write(tagged, header);
  } else {
    UntaggedHeader untagged;
    untagged.control.last = last;
    untagged.control.opcode = work.opcode;
    untagged.invalidate_stag = work.invalidates() ? work.rkey.value() : 0;
    untagged.queue = QueueNumber::kSend;
    untagged.message = next_send_msn_;
    untagged.offset = sending_.offset;
    write(untagged, header);
  }
  add_fpdu(batch, Bytes(header).first(header_bytes), std::span<const Bytes>(pieces).first(count), bytes);
  advance(sending_, bytes);
  if (last) {
    next_send_msn_ += is_tagged ? 0 : 1;
    finish_work();
  }
  return Added::kSegment;
}

RdmapStream::Added RdmapStream::add_read_request(SendBatch& batch, Work& work) {
  if (!batch.has_room(1 + kTerminatePieces, kFpduScratch + kTerminateScratch)) {
    return Added::kNoRoom;
  }
  work.local_key = verbs::Rkey(core_.random.next_u32());
  ReadRequestHeader request;
  request.sink_stag = work.local_key.value();
  request.sink_offset = 0;
  request.bytes = work.length;
  request.source_stag = work.rkey.value();
  request.source_offset = work.remote_address;
  UntaggedHeader untagged;
  untagged.control.opcode = Opcode::kReadRequest;
  untagged.queue = QueueNumber::kReadRequest;
  untagged.message = next_read_msn_++;
  // The request's own header travels as payload of the segment, in the same scratch piece.
  std::array<uint8_t, kUntaggedHeaderBytes + kReadRequestBytes> bytes{};
  write(untagged, MutableBytes(bytes).first(kUntaggedHeaderBytes));
  write(request, MutableBytes(bytes).subspan(kUntaggedHeaderBytes));
  add_fpdu(batch, bytes, {}, 0);
  ++reads_outstanding_;
  if (awaiting_ == nullptr) {
    awaiting_ = &work;
  }
  finish_work();
  return Added::kSegment;
}

void RdmapStream::finish_work() {
  Work* work = sending_.work;
  work->end_position = output_.made();
  Work* next = work->next;
  sending_ = {next, next == nullptr ? nullptr : next->payload.head(), 0, 0};
  speaking_ = Speaking::kNothing;
}

// The memory is looked up for each segment: its owner may withdraw it at any time, and then the stream ends.
RdmapStream::Added RdmapStream::add_answer_segment(SendBatch& batch) {
  Work& answer = *answering_.work;
  const uint32_t buffer_bytes = core_.spares.pool().buffer_bytes();
  const uint32_t bytes =
      std::min({answer.length - answering_.offset, options_.ulpdu_bytes_max - kTaggedHeaderBytes, kPiecesPerFpdu * buffer_bytes});
  // Before the copy, which would be for nothing.
  if (!batch.has_room((bytes + buffer_bytes - 1) / buffer_bytes + kTerminatePieces, kFpduScratch + kTerminateScratch)) {
    return Added::kNoRoom;
  }
  Chain payload;
  if (bytes > 0) {
    const auto memory = core_.memory->resolve(options_.domain, answer.local_key, answer.local_address + answering_.offset, bytes,
                                              verbs::RemoteAccess::kRead);
    if (!memory.ok()) {
      refuse_answer(memory.error());
      return Added::kFailed;
    }
    if (!payload.append_copy(core_.spares.pool(), *memory)) {
      return Added::kNoBuffers;
    }
  }
  TaggedHeader tagged;
  tagged.control.last = answering_.offset + bytes == answer.length;
  tagged.control.opcode = Opcode::kReadResponse;
  tagged.stag = answer.rkey.value();
  tagged.offset = answer.remote_address + answering_.offset;
  std::array<uint8_t, kTaggedHeaderBytes> header{};
  write(tagged, header);
  Pieces pieces;
  uint32_t piece_bytes = 0;
  const uint32_t count = next_pieces({&answer, payload.head(), 0, 0}, bytes, pieces, piece_bytes);
  add_fpdu(batch, header, std::span<const Bytes>(pieces).first(count), bytes);
  batch.keep(std::move(payload));
  answering_.offset += bytes;
  if (tagged.control.last) {
    core_.sends.destroy(answering_.work);
    answering_ = {};
    --reads_answering_;
    speaking_ = Speaking::kNothing;
  }
  return Added::kSegment;
}

// RFC 5040 4.8: both headers of the request go back, its own with how far the READ has come.
void RdmapStream::refuse_answer(verbs::MemoryFault fault) {
  const Work& answer = *answering_.work;
  UntaggedHeader untagged;
  untagged.control.opcode = Opcode::kReadRequest;
  untagged.queue = QueueNumber::kReadRequest;
  untagged.message = expected_read_msn_ - reads_answering_;  // the oldest without a whole answer
  std::array<uint8_t, kUntaggedHeaderBytes> ddp_header{};
  write(untagged, ddp_header);
  ReadRequestHeader request;
  request.sink_stag = answer.rkey.value();
  request.sink_offset = answer.remote_address + answering_.offset;
  request.bytes = answer.length - answering_.offset;
  request.source_stag = answer.local_key.value();
  request.source_offset = answer.local_address + answering_.offset;
  std::array<uint8_t, kReadRequestBytes> read_header{};
  write(request, read_header);
  const TerminateCause cause = read_fault(fault);
  add_terminate(cause, ddp_header, kUntaggedHeaderBytes + kReadRequestBytes, read_header);
  enter_error({StreamErrorCause::kViolation, cause, untagged.message}, verbs::WcStatus::kBadResponse);
}

void RdmapStream::add_fpdu(SendBatch& batch, Bytes ddp_header, std::span<const Bytes> payload, uint32_t payload_bytes) {
  const uint32_t ulpdu_bytes = static_cast<uint32_t>(ddp_header.size()) + payload_bytes;
  const MutableBytes head = batch.add_scratch(kFpduLengthBytes + static_cast<uint32_t>(ddp_header.size()));
  store_be16(head.data(), static_cast<uint16_t>(ulpdu_bytes));
  std::memcpy(head.data() + kFpduLengthBytes, ddp_header.data(), ddp_header.size());
  for (const Bytes piece : payload) {
    batch.add_view(piece);
  }
  const uint32_t pad = fpdu_pad_bytes(ulpdu_bytes);
  const MutableBytes trailer = batch.add_scratch(pad + kFpduCrcBytes);
  std::memset(trailer.data(), 0, trailer.size());
  if (options_.crc) {
    Crc32c crc;
    crc.add(head);
    for (const Bytes piece : payload) {
      crc.add(piece);
    }
    crc.add(trailer.first(pad));
    store_fpdu_crc(trailer.data() + pad, crc.value());
  }
  ++core_.stats.fpdus_sent;
  ++counters_.fpdus_out;
  counters_.payload_bytes_out += payload_bytes;
  core_.stats.bytes_sent += fpdu_bytes(ulpdu_bytes);
}

void RdmapStream::add_terminate(TerminateCause cause, Bytes ddp_header, uint32_t segment_bytes, Bytes read_header) {
  SendBatch* batch = output_.open();
  if (batch == nullptr) {
    return;
  }
  TerminateMessage message;
  message.cause = cause;
  message.segment_bytes = static_cast<uint16_t>(segment_bytes);
  message.ddp_header = ddp_header;
  message.read_header = read_header;
  UntaggedHeader untagged;
  untagged.control.opcode = Opcode::kTerminate;
  untagged.queue = QueueNumber::kTerminate;
  std::array<uint8_t, kUntaggedHeaderBytes + kTerminateBytesMax> bytes{};
  write(untagged, MutableBytes(bytes).first(kUntaggedHeaderBytes));
  const uint32_t size = write(message, MutableBytes(bytes).subspan(kUntaggedHeaderBytes));
  add_fpdu(*batch, Bytes(bytes).first(kUntaggedHeaderBytes + size), {}, 0);
  ++core_.stats.terminates_sent[index_of(cause)];
}

}  // namespace cw::iwarp
