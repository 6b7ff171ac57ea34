// RFC 5531 11 record marking on a byte stream: a 4-byte mark (last-fragment bit, 31-bit length) before every fragment.
//
// RecordReader rebuilds messages from a TCP stream without copying: the owner asks where to read to (the tail room of a large
// Buffer), reads, and says how much came; complete messages are polled as Chains. Several messages may share one Buffer; they
// become views of it, and the last one to need a Buffer that is full gets the Buffer itself. A message that spans Buffers is a
// chain of them.
//
// Bounded: a message over `message_bytes_max`, more than `fragments_max` fragments or an endless run of empty fragments fails the
// stream (the peer's fault; the owner closes it). While a complete message waits and more than `message_bytes_max` bytes are
// held, space() is empty: who does not poll does not read.
//
// Memory: see RecordAdmission. A message that ends in the Buffer in which it begins takes what is there; any other is admitted
// for what its marks announce, or waits. Between messages a reader that has been polled holds nothing (end_turn()). While others
// wait, only the mark of the next message is read, into the reader itself: no memory goes to what may not go on.
//
// Time: a message that has begun keeps coming, and is complete within `record_time_max`, or due() has passed: the owner then
// closes the stream, since others need what it holds.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "base/buffer.h"
#include "base/result.h"
#include "base/time.h"
#include "rpcrdma/rpc/record_admission.h"

namespace cw::rpcrdma {

inline constexpr uint32_t kRecordMarkBytes = 4;
inline constexpr uint32_t kLastFragment = 0x8000'0000;

// The mark for a fragment of `fragment_bytes`, which is at most 2^31 - 1; a message sent as one fragment is its own last one.
constexpr void write_record_mark(std::span<uint8_t, kRecordMarkBytes> out, uint32_t fragment_bytes, bool last = true) {
  CW_DASSERT(fragment_bytes < kLastFragment);
  store_be32(out.data(), fragment_bytes | (last ? kLastFragment : 0));
}

struct RecordLimits {
  uint64_t message_bytes_max = 8ULL << 20;
  uint32_t fragments_max = 1024;  // per message
  // From one read that brings some of a message to the next, and from its first to its last; while it waits for memory neither
  // counts. A TCP connection that lost a segment goes on within seconds.
  Duration stall_max = Duration::seconds(10);
  Duration record_time_max = Duration::seconds(60);
};

class RecordReader {
 public:
  // Messages count in the share of `source`; `owner` is what admission.poll() says of this reader (RecordDemand).
  RecordReader(RecordAdmission& admission, const RecordLimits& limits, uint32_t source = 0, uint64_t owner = 0);
  ~RecordReader() { reset(); }
  RecordReader(const RecordReader&) = delete;
  RecordReader& operator=(const RecordReader&) = delete;

  // Memory to read the stream into; empty when the message waits for memory (is_waiting()), when messages wait to be polled
  // (above) or when the stream has failed. Valid until on_bytes() or reset().
  [[nodiscard]] MutableBytes space();
  // `count` bytes have been read into space(). Fails for good with kLimit or kBadValue (a message without a single byte).
  // Messages that were complete before the fault can still be polled.
  [[nodiscard]] Status on_bytes(uint32_t count);
  // In line for memory: nothing is to be read before RecordAdmission::poll() has named this reader.
  [[nodiscard]] bool is_waiting() const { return demand_.is_linked(); }
  // Nothing more is read for now, and what was complete has been polled: gives back what the next message may not need.
  void end_turn();
  // After end_turn(): a message has begun, and holds memory that others may want, or waits for some.
  [[nodiscard]] bool is_unfinished() const { return demand_.units > 0 || is_waiting(); }
  // Of one that is unfinished, after each turn: when it has to have gone on. never() while it waits, which counts for nothing.
  [[nodiscard]] Instant due(Instant now);
  // Takes the oldest complete message (record marks removed). False when there is none or (kNoResources) no view was left for it:
  // then has_message() stays true.
  [[nodiscard]] bool poll_message(Chain& out);
  [[nodiscard]] bool has_message() const { return messages_ready_ > 0; }
  [[nodiscard]] bool failed() const { return failed_; }
  // Forget everything (the connection was lost).
  void reset();

 private:
  // What the marks said up to the last byte received.
  struct Scan {
    uint8_t mark[kRecordMarkBytes] = {};
    uint32_t mark_bytes = 0;     // bytes of the present mark that have come
    uint32_t fragment_left = 0;  // bytes of the present fragment still to come
    uint64_t message_bytes = 0;  // of the present message, by its marks
    uint32_t fragments = 0;      // of the present message
    bool last_fragment = false;
    [[nodiscard]] bool between_messages() const { return mark_bytes == 0 && fragments == 0; }
  };
  // A place in the bytes held: `offset` in `buffer`; no buffer = behind everything that came.
  struct Place {
    Buffer* buffer = nullptr;
    uint32_t offset = 0;
  };

  struct Walk {
    Place end;         // behind the message
    uint64_t raw = 0;  // walked over, marks included
  };

  [[nodiscard]] bool tail_is_spent() const;
  [[nodiscard]] bool knows_length() const { return scan_.fragments > 0; }
  [[nodiscard]] uint64_t known_bytes() const;
  [[nodiscard]] uint64_t rest_bytes() const;
  [[nodiscard]] uint32_t unused_bytes() const { return std::max(admission_.buffer_bytes() / 64, 1u) - 1; }
  [[nodiscard]] uint32_t tail_room() const;
  [[nodiscard]] uint32_t spare_needed(uint64_t bytes) const;
  [[nodiscard]] uint32_t buffers_uncounted() const;
  [[nodiscard]] bool ensure_memory();
  void close_tail();
  void unstore_mark();
  void attach(Buffer* buffer);
  [[nodiscard]] MutableBytes marks_only(MutableBytes room) const;
  [[nodiscard]] Status on_mark();
  void end_fragment();
  // Nobody else will read `place.buffer` once [place, place + count) has been taken.
  [[nodiscard]] bool is_last_use(const Place& place, uint32_t count) const;
  [[nodiscard]] Place behind(const Place& place, uint32_t count) const;
  [[nodiscard]] static uint32_t take_mark(Place& place);
  // Calls on_piece(place, count) for each contiguous run of the oldest message's content; on_piece may take the Buffer
  // out of the list and may end the walk by returning false. Precondition: has_message().
  template <typename OnPiece>
  Walk walk_message(OnPiece&& on_piece);
  [[nodiscard]] bool share_pieces(Chain& views);
  void assemble(Chain& views, Chain& out);
  void drop_front();

  RecordAdmission& admission_;
  RecordLimits limits_;
  RecordDemand demand_;
  Buffer* head_ = nullptr;   // oldest Buffer that still holds something to poll, or is being filled; a list through Buffer::next
  Buffer* tail_ = nullptr;   // its last
  bool tail_open_ = false;   // space() may still give tail room of tail_
  uint32_t consumed_ = 0;    // bytes of head_ that have been polled
  uint64_t held_bytes_ = 0;  // bytes in the list that have not been polled, marks included
  uint32_t messages_ready_ = 0;
  // The last bytes of the present mark that have come and lie in scan_.mark only: there was no Buffer for them.
  uint32_t unstored_ = 0;
  bool reads_mark_ = false;  // space() gave room in scan_.mark
  bool failed_ = false;
  Scan scan_;
  uint64_t read_bytes_ = 0;  // ever, as the two below
  uint64_t messages_read_ = 0;
  // What due() saw of the present message.
  struct Pace {
    uint64_t message = UINT64_MAX;
    uint64_t bytes = 0;
    Instant begun;
    Instant moved;
    std::optional<Instant> waits_since;
  };
  Pace pace_;
};

}  // namespace cw::rpcrdma
