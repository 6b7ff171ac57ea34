// One RDMAP stream (RFC 5040) over DDP (RFC 5041) over MPA (RFC 5044) over one TCP connection: the queue pair of iWARP. Without
// I/O: bytes of TCP come in by take() and leave by fill(); completions are polled.
//
//   take(): FPDU -> CRC -> DDP segment -> placed: receive, READ response, registered memory
//   fill(): READ responses and posted work, in turns, each message whole -> segments -> FPDUs
//
// A segment is looked at when its FPDU is complete. Payload stays in the buffers that TCP wrote it to; a short segment is copied,
// since it would hold a whole buffer. siw fails on tagged messages that are interleaved, so nothing is.
//
// RDMA READs need a sink. Ours is a random tag of one use that names the work and no memory, so the server exposes nothing.
// TCP's acknowledgement is not seen: a SEND or WRITE completes when the socket has taken it (RFC 5040 5.5 rule 14).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "base/intrusive_list.h"
#include "base/time.h"
#include "iwarp/stream/byte_output.h"
#include "iwarp/stream/stream_core.h"
#include "iwarp/stream/stream_error.h"
#include "iwarp/stream/work.h"
#include "iwarp/wire/ddp_header.h"
#include "iwarp/wire/read_request.h"
#include "verbs/queue_pair.h"

namespace cw::iwarp {

struct StreamOptions {
  uint32_t receive_bytes_max = 4096;  // longest SEND that is taken
  uint16_t send_queue_depth = 256;    // works posted and not completed
  uint16_t ird = 0;                   // READs of the peer at a time that we answer
  uint16_t ord = 0;                   // READs of ours at a time
  bool crc = true;                    // both ways
  uint16_t ulpdu_bytes_max = 1442;    // of an FPDU that we make
  uint32_t slot = 0;                  // the owner's own word
  bool exposes_memory = false;        // of `domain`, to the peer's READs and WRITEs
  verbs::ProtectionDomain domain;
  bool speaks_first = true;  // false: nothing is sent before the peer's first FPDU (RFC 5044 7.1.2, responder)
  // The peer's first SEND is empty, says that it is ready (RFC 6581 9), and is nobody's message.
  bool ready_by_send = false;
};

// Of one stream.
struct StreamCounters {
  uint64_t fpdus_in = 0;
  uint64_t fpdus_out = 0;
  uint64_t payload_bytes_in = 0;
  uint64_t payload_bytes_out = 0;
};

// How far a message of ours has been cut into segments.
struct SegmentCursor {
  Work* work = nullptr;
  const Buffer* buffer = nullptr;
  uint32_t in_buffer = 0;  // bytes of it that are behind us
  uint32_t offset = 0;     // in the message
};

class RdmapStream final : public verbs::QueuePair, public ListNode<ReadyTag>, public ListNode<SendableTag> {
 public:
  RdmapStream(const StreamOptions& options, StreamCore& core, ByteOutput& output);
  ~RdmapStream() override;
  RdmapStream(const RdmapStream&) = delete;
  RdmapStream& operator=(const RdmapStream&) = delete;

  [[nodiscard]] Status post_send(verbs::SendRequest&& request) override;
  [[nodiscard]] Status post_write(verbs::WriteRequest&& request) override;
  [[nodiscard]] Status post_read(verbs::ReadRequest&& request) override;
  [[nodiscard]] Status post_atomic(const verbs::AtomicRequest& request) override;
  void post_receives(uint32_t count) override { receives_ += count; }
  [[nodiscard]] bool poll_completion(verbs::Completion& out) override;
  [[nodiscard]] uint32_t send_queue_room() const override;
  [[nodiscard]] uint32_t works_pending() const override { return queue_count_; }
  [[nodiscard]] bool in_error() const override { return error_.any(); }
  void close() override;

  // Takes the whole FPDUs at the front of `input`. kStarved: the pool has no buffer or view, call again later.
  enum class Taken : uint8_t { kAll, kStarved };
  [[nodiscard]] Taken take(Instant now, Chain& input);
  // Bytes of the FPDU that `input` begins with, headers and trailer included; 0: not known yet.
  [[nodiscard]] static uint32_t fpdu_bytes_at_front(const Chain& input);
  // Adds FPDUs to the output, until the batch is full or there is nothing to send. False: the pool has no buffers, call again
  // later.
  [[nodiscard]] bool fill();
  // The output has taken in what it counts as left().
  void on_sent();
  // The TCP connection is over, or the shell's patience.
  void on_lost(StreamErrorCause cause);
  // Tells the peer what is wrong, without naming a segment, and ends the stream.
  void refuse(TerminateCause cause);
  // Something may be sent now that could not be before.
  void resume() { note_sendable(); }

  [[nodiscard]] bool has_completions() const { return !completions_.empty(); }
  // A message of the peer has been taken, of whatever kind.
  [[nodiscard]] bool heard_peer() const { return heard_peer_; }
  [[nodiscard]] const StreamError& error() const { return error_; }
  [[nodiscard]] const StreamCounters& counters() const { return counters_; }
  [[nodiscard]] const StreamOptions& options() const { return options_; }
  [[nodiscard]] uint32_t receives() const { return receives_; }
  [[nodiscard]] uint32_t reads_outstanding() const { return reads_outstanding_; }
  [[nodiscard]] uint32_t reads_answering() const { return reads_answering_; }
  void set_receive_bytes_max(uint32_t bytes) { options_.receive_bytes_max = bytes; }

 private:
  // A segment whose FPDU is complete.
  struct Segment {
    SegmentHeader header;
    uint32_t payload_bytes = 0;
    uint32_t ulpdu_bytes = 0;
    Bytes raw_header;
    Bytes front;  // of the payload, as far as headers and a Terminate reach
  };
  // What it is refused for.
  using Refused = std::optional<TerminateCause>;
  using FaultCauses = std::array<TerminateCause, verbs::kMemoryFaultCount>;

  // Posting
  [[nodiscard]] Status admit(uint64_t bytes) const;
  void enqueue(Work* work);

  // Receiving (stream_receive.cc)
  [[nodiscard]] Taken take_fpdu(Instant now, Chain& input, uint32_t fpdu_bytes);
  [[nodiscard]] static bool crc_fits(const Chain& input, uint32_t fpdu_bytes);
  [[nodiscard]] Refused check(const Segment& segment) const;
  [[nodiscard]] Refused check_tagged(const Segment& segment) const;
  [[nodiscard]] Refused check_send(const Segment& segment) const;
  [[nodiscard]] bool is_ready_message(const Segment& segment) const;
  [[nodiscard]] Refused check_read_request(const Segment& segment) const;
  [[nodiscard]] static Refused check_whole(const Segment& segment, uint32_t message, uint32_t bytes_min, uint32_t bytes_max);
  [[nodiscard]] Result<MutableBytes, verbs::MemoryFault> resolve(uint32_t stag, uint64_t address, uint32_t bytes,
                                                                 verbs::RemoteAccess access) const;
  [[nodiscard]] Taken place(Instant now, const Segment& segment, Chain& input);
  [[nodiscard]] bool begin_receive(Instant now, const SegmentHeader& header);
  [[nodiscard]] bool begin_answer(const ReadRequestHeader& request);
  [[nodiscard]] Refused finish(const Segment& segment);
  [[nodiscard]] Refused finish_send();
  void finish_read();
  void take_terminate(Bytes payload);
  [[nodiscard]] static TerminateCause read_fault(verbs::MemoryFault fault);
  // The peer is told what is wrong with what it sent, and the stream ends.
  void refuse(const Segment& segment, TerminateCause cause);

  // Sending (stream_send.cc)
  enum class Added : uint8_t { kSegment, kNoRoom, kNoBuffers, kFailed };
  [[nodiscard]] bool begin_message();
  [[nodiscard]] Added add_work_segment(SendBatch& batch);
  [[nodiscard]] Added add_read_request(SendBatch& batch, Work& work);
  [[nodiscard]] Added add_answer_segment(SendBatch& batch);
  void refuse_answer(verbs::MemoryFault fault);
  void finish_work();
  void add_fpdu(SendBatch& batch, Bytes ddp_header, std::span<const Bytes> payload, uint32_t payload_bytes);
  [[nodiscard]] bool may_begin(const Work& work) const;
  void add_terminate(TerminateCause cause, Bytes ddp_header, uint32_t segment_bytes, Bytes read_header);
  void note_sendable();

  // Ending
  void enter_error(const StreamError& error, verbs::WcStatus first_status);
  void keep_unsent_payload();
  void complete_in_order();
  void complete(Work* work);
  void note_ready();

  StreamOptions options_;
  StreamCore& core_;
  ByteOutput& output_;
  StreamError error_;
  StreamCounters counters_;
  bool heard_peer_ = false;
  bool answer_next_ = false;  // at the next end of a message: a READ response before posted work
  enum class Speaking : uint8_t { kNothing, kWork, kAnswer };
  Speaking speaking_ = Speaking::kNothing;  // the message that is under way

  // Posted work, oldest first. What lies before sending_.work has been made into FPDUs.
  Work* oldest_ = nullptr;
  Work* newest_ = nullptr;
  Work* unsent_ = nullptr;  // oldest that TCP has not taken whole
  SegmentCursor sending_;
  uint16_t queue_count_ = 0;
  uint16_t reads_outstanding_ = 0;
  uint32_t next_send_msn_ = 1;
  uint32_t next_read_msn_ = 1;

  // READs of the peer
  WorkQueue answers_;
  SegmentCursor answering_;
  uint16_t reads_answering_ = 0;
  uint32_t expected_read_msn_ = 1;

  // The peer's SENDs, and responses to our READs
  uint32_t receives_ = 0;
  uint32_t expected_send_msn_ = 1;
  Work* receiving_ = nullptr;
  Work* awaiting_ = nullptr;  // the oldest READ whose response is not complete

  WorkQueue completions_;
};

}  // namespace cw::iwarp
