// RFC 5531 11 record marking on a byte stream: a 4-octet mark (last-fragment bit, 31-bit length) before every fragment.
//
// RecordReader rebuilds messages from a TCP stream without copying: the owner asks where to read to (the tail room of a large
// Buffer), reads, and says how much came; complete messages are polled as Chains. Several messages may share one Buffer; they
// become views of it, and the last one to need a Buffer that is full gets the Buffer itself. A message that spans Buffers is a
// chain of them.
//
// Bounded: a message over `message_bytes_max`, more than `fragments_max` fragments or an endless run of empty fragments fails the
// stream (the peer's fault; the owner closes it). While a complete message waits and more than `message_bytes_max` octets are
// held, space() is empty: who does not poll does not read.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "rocev2/base/buffer.h"
#include "rocev2/base/result.h"

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
};

class RecordReader {
 public:
  RecordReader(BufferPool& pool, const RecordLimits& limits) : pool_(pool), limits_(limits) {}
  ~RecordReader() { reset(); }
  RecordReader(const RecordReader&) = delete;
  RecordReader& operator=(const RecordReader&) = delete;

  // Memory to read the stream into; empty when the pool is (try later), when messages wait to be polled (above) or when the
  // stream has failed. Valid until on_bytes() or reset().
  [[nodiscard]] MutableBytes space();
  // `count` octets have been read into space(). Fails for good with kLimit or kBadValue (a message without a single octet).
  // Messages that were complete before the fault can still be polled.
  [[nodiscard]] Status on_bytes(uint32_t count);
  // Takes the oldest complete message (record marks removed). False when there is none or (kNoResources) no view was left for it:
  // then has_message() stays true.
  [[nodiscard]] bool poll_message(Chain& out);
  [[nodiscard]] bool has_message() const { return messages_ready_ > 0; }
  [[nodiscard]] bool failed() const { return failed_; }
  // Forget everything (the connection was lost).
  void reset();

 private:
  // What the marks said up to the last octet received.
  struct Scan {
    uint8_t mark[kRecordMarkBytes] = {};
    uint32_t mark_bytes = 0;     // octets of the present mark that have come
    uint32_t fragment_left = 0;  // octets of the present fragment still to come
    uint64_t message_bytes = 0;  // of the present message, by its marks
    uint32_t fragments = 0;      // of the present message
    bool last_fragment = false;
    [[nodiscard]] bool between_messages() const { return mark_bytes == 0 && fragments == 0; }
  };
  // A place in the octets held: `offset` in `buffer`; no buffer = behind everything that came.
  struct Place {
    Buffer* buffer = nullptr;
    uint32_t offset = 0;
  };

  struct Walk {
    Place end;            // behind the message
    uint64_t octets = 0;  // walked over, marks included
  };

  [[nodiscard]] bool tail_is_spent() const;
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

  BufferPool& pool_;
  RecordLimits limits_;
  Buffer* head_ = nullptr;   // oldest Buffer that still holds something to poll, or is being filled; a list through Buffer::next
  Buffer* tail_ = nullptr;   // its last
  bool tail_open_ = false;   // space() may still give tail room of tail_
  uint32_t consumed_ = 0;    // octets of head_ that have been polled
  uint64_t held_bytes_ = 0;  // octets in the list that have not been polled, marks included
  uint32_t messages_ready_ = 0;
  bool failed_ = false;
  Scan scan_;
};

}  // namespace cw::rpcrdma
