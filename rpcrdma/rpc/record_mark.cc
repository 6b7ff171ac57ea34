#include "rpcrdma/rpc/record_mark.h"

#include <algorithm>
#include <utility>

namespace cw::rpcrdma {

RecordReader::RecordReader(RecordAdmission& admission, const RecordLimits& limits, uint32_t source, uint64_t owner)
    : admission_(admission), limits_(limits) {
  demand_.source = source;
  demand_.owner = owner;
}

MutableBytes RecordReader::space() {
  reads_mark_ = false;
  if (failed_ || is_waiting() || (messages_ready_ > 0 && held_bytes_ > limits_.message_bytes_max)) {
    return {};
  }
  const bool may_read_ahead = admission_.may_read_ahead(demand_.source);
  if (tail_open_ && (tail_is_spent() || (scan_.between_messages() && !may_read_ahead))) {
    close_tail();
  }
  if (tail_open_) {
    return may_read_ahead ? tail_->tailroom() : marks_only(tail_->tailroom());
  }
  if (!knows_length()) {
    if (unstored_ == 0 && may_read_ahead) {
      if (Buffer* fresh = admission_.take_open(); fresh != nullptr) {
        attach(fresh);
        return tail_->tailroom();
      }
    }
    reads_mark_ = true;
    return MutableBytes(scan_.mark).subspan(scan_.mark_bytes);
  }
  if (demand_.spare == nullptr && !ensure_memory()) {
    return {};
  }
  Buffer* spare = demand_.spare;
  demand_.spare = std::exchange(spare->next, nullptr);
  --demand_.spare_count;
  attach(spare);
  return may_read_ahead ? tail_->tailroom() : marks_only(tail_->tailroom());
}

// Of `room`, as much as the present fragment or mark still takes.
MutableBytes RecordReader::marks_only(MutableBytes room) const {
  const uint32_t wanted = scan_.fragment_left > 0 ? scan_.fragment_left : kRecordMarkBytes - scan_.mark_bytes;
  return room.first(std::min<size_t>(room.size(), wanted));
}

void RecordReader::attach(Buffer* buffer) {
  CW_DASSERT(buffer->size == 0);
  if (tail_ == nullptr) {
    head_ = buffer;
    consumed_ = 0;
  } else {
    tail_->next = buffer;
  }
  tail_ = buffer;
  tail_open_ = true;
  if (unstored_ > 0) {
    const uint32_t stored = buffer->append(Bytes(scan_.mark).last(unstored_));
    CW_ASSERT(stored == unstored_);
    unstored_ = 0;
  }
}

void RecordReader::close_tail() {
  tail_open_ = false;
  if (head_ == tail_ && consumed_ == head_->size) {
    Buffer* gone = head_;
    head_ = nullptr;
    tail_ = nullptr;
    consumed_ = 0;
    admission_.give_open(gone);
  }
}

void RecordReader::end_turn() {
  if (failed_ || is_waiting()) {
    return;
  }
  if (scan_.between_messages()) {
    if (tail_open_ && messages_ready_ == 0) {
      close_tail();
    }
  } else if (knows_length()) {
    (void)ensure_memory();
  } else if (messages_ready_ == 0) {
    unstore_mark();
  }
}

// A part of a mark is all that is held: scan_ has it too. Whoever sends three bytes on each connection gets no memory for that.
void RecordReader::unstore_mark() {
  while (head_ != tail_) {
    drop_front();
  }
  if (head_ != nullptr) {
    head_->size = consumed_;
    close_tail();
  }
  unstored_ = scan_.mark_bytes;
}

Instant RecordReader::due(Instant now) {
  if (pace_.message != messages_read_) {
    pace_ = {.message = messages_read_, .bytes = read_bytes_, .begun = now, .moved = now};
  } else if (pace_.bytes != read_bytes_) {
    pace_.bytes = read_bytes_;
    pace_.moved = now;
  }
  if (is_waiting()) {
    pace_.waits_since = pace_.waits_since.value_or(now);
    return Instant::never();
  }
  if (pace_.waits_since) {
    pace_.begun = pace_.begun + (now - *pace_.waits_since);
    pace_.moved = now;
    pace_.waits_since.reset();
  }
  return earlier(pace_.moved + limits_.stall_max, pace_.begun + limits_.record_time_max);
}

// Bytes that have to be stored still before more is known of the present message.
uint64_t RecordReader::known_bytes() const {
  if (!knows_length()) {
    return unstored_;
  }
  return unstored_ + scan_.fragment_left + (scan_.last_fragment ? 0 : kRecordMarkBytes - scan_.mark_bytes);
}

// And at most until it is complete.
uint64_t RecordReader::rest_bytes() const {
  if (!knows_length() || scan_.last_fragment) {
    return known_bytes();
  }
  return known_bytes() + (limits_.message_bytes_max - scan_.message_bytes) +
         uint64_t{kRecordMarkBytes} * (limits_.fragments_max - scan_.fragments);
}

// Of the tail, what is sure to be used: tail_is_spent() may leave some bytes unused.
uint32_t RecordReader::tail_room() const {
  const uint32_t room = tail_open_ ? tail_->capacity_bytes - tail_->size : 0;
  return room - std::min(room, unused_bytes());
}

// Buffers behind the tail that so many bytes may take.
uint32_t RecordReader::spare_needed(uint64_t bytes) const {
  const uint64_t beyond = bytes - std::min<uint64_t>(bytes, tail_room());
  const uint64_t each = admission_.buffer_bytes() - unused_bytes();
  return static_cast<uint32_t>((beyond + each - 1) / each);
}

// In which the present message has begun: one, or two that have its first mark between them.
uint32_t RecordReader::buffers_uncounted() const {
  if (demand_.units > 0 || tail_ == nullptr || unstored_ == kRecordMarkBytes) {
    return 0;
  }
  return head_ == tail_ ? 1 : 2;
}

// For what is known of the present message. False: it waits.
bool RecordReader::ensure_memory() {
  const uint32_t needed = spare_needed(known_bytes());
  const uint32_t spare = needed - std::min(needed, demand_.spare_count);
  const uint32_t begun = buffers_uncounted();
  const uint32_t units = spare + begun;
  if (units == 0) {
    return true;
  }
  demand_.is_small = demand_.units + begun <= 1 && known_bytes() + unused_bytes() <= tail_room() + admission_.buffer_bytes() / 4;
  return admission_.admit(demand_, units, spare, spare_needed(rest_bytes()) - needed);
}

// A new Buffer is begun early so that a large message is read into few pieces: between messages when under a quarter is left,
// within one when what is left is not worth a read.
bool RecordReader::tail_is_spent() const {
  const uint32_t room = tail_->capacity_bytes - tail_->size;
  const uint32_t whole = admission_.buffer_bytes();
  return room == 0 || room < whole / (scan_.between_messages() ? 4 : 64);
}

Status RecordReader::on_bytes(uint32_t count) {
  if (failed_) {
    return fail(Error::kBadState);
  }
  const uint8_t* at = nullptr;
  if (reads_mark_) {
    CW_ASSERT(count <= kRecordMarkBytes - scan_.mark_bytes);
    at = scan_.mark + scan_.mark_bytes;
    unstored_ += count;
  } else {
    CW_ASSERT(tail_open_ && count <= tail_->capacity_bytes - tail_->size);
    at = tail_->data + tail_->size;
    tail_->size += count;
  }
  read_bytes_ += count;
  held_bytes_ += count;
  while (count > 0) {
    if (scan_.fragment_left > 0) {
      const uint32_t step = std::min(count, scan_.fragment_left);
      at += step;
      count -= step;
      scan_.fragment_left -= step;
      if (scan_.fragment_left == 0) {
        end_fragment();
      }
      continue;
    }
    scan_.mark[scan_.mark_bytes++] = *at++;
    --count;
    if (scan_.mark_bytes == kRecordMarkBytes) {
      if (const Status mark = on_mark(); !mark.ok()) {
        failed_ = true;
        return mark;
      }
    }
  }
  return {};
}

Status RecordReader::on_mark() {
  const uint32_t mark = load_be32(scan_.mark);
  const uint32_t fragment_bytes = mark & ~kLastFragment;
  scan_.mark_bytes = 0;
  scan_.last_fragment = (mark & kLastFragment) != 0;
  scan_.message_bytes += fragment_bytes;
  if (++scan_.fragments > limits_.fragments_max || scan_.message_bytes > limits_.message_bytes_max) {
    return fail(Error::kLimit);
  }
  if (scan_.last_fragment && scan_.message_bytes == 0) {
    return fail(Error::kBadValue);
  }
  scan_.fragment_left = fragment_bytes;
  if (scan_.last_fragment && demand_.spare_count > 0) {
    if (const uint32_t needed = spare_needed(known_bytes()); needed < demand_.spare_count) {
      admission_.give_back(demand_, demand_.spare_count - needed, demand_.spare_count - needed);
    }
  }
  if (fragment_bytes == 0) {
    end_fragment();
  }
  return {};
}

void RecordReader::end_fragment() {
  if (scan_.last_fragment) {
    ++messages_ready_;
    ++messages_read_;
    scan_ = {};
    admission_.forget(demand_);  // from here on its memory is for whoever gets the message
  }
}

bool RecordReader::poll_message(Chain& out) {
  out.clear();
  if (messages_ready_ == 0) {
    return false;
  }
  // Views first: when one is missing nothing has been touched yet.
  Chain views;
  if (!share_pieces(views)) {
    return false;
  }
  assemble(views, out);
  --messages_ready_;
  return true;
}

bool RecordReader::share_pieces(Chain& views) {
  bool complete = true;
  walk_message([&](const Place& place, uint32_t count) {
    if (is_last_use(place, count)) {
      return true;
    }
    Buffer* view = place.buffer->pool->share(*place.buffer, place.offset, count);
    if (view == nullptr) {
      complete = false;
      return false;
    }
    views.push_back(view);
    return true;
  });
  return complete;
}

void RecordReader::assemble(Chain& views, Chain& out) {
  Buffer* view = views.detach();
  const Walk walk = walk_message([&](const Place& place, uint32_t count) {
    if (!is_last_use(place, count)) {
      Buffer* next = std::exchange(view->next, nullptr);
      out.push_back(std::exchange(view, next));
      return true;
    }
    while (head_ != place.buffer) {
      drop_front();
    }
    Buffer* taken = head_;
    head_ = std::exchange(taken->next, nullptr);
    if (head_ == nullptr) {
      tail_ = nullptr;
      tail_open_ = false;
    }
    taken->trim_front(place.offset);
    out.push_back(taken);
    return true;
  });
  while (head_ != walk.end.buffer) {
    drop_front();
  }
  consumed_ = walk.end.offset;
  held_bytes_ -= walk.raw;
  if (head_ != nullptr && consumed_ == head_->size && !(head_ == tail_ && tail_open_)) {
    drop_front();
  }
}

template <typename OnPiece>
RecordReader::Walk RecordReader::walk_message(OnPiece&& on_piece) {
  Place place{head_, consumed_};
  uint64_t raw = 0;
  bool last = false;
  while (!last) {
    const uint32_t mark = take_mark(place);
    raw += kRecordMarkBytes;
    last = (mark & kLastFragment) != 0;
    uint32_t left = mark & ~kLastFragment;
    while (left > 0) {
      while (place.offset == place.buffer->size) {
        place = {place.buffer->next, 0};
      }
      const uint32_t count = std::min(left, place.buffer->size - place.offset);
      // on_piece may unlink the Buffer: where to go on is settled before.
      const Place next = behind(place, count);
      if (!on_piece(place, count)) {
        return {next, raw};
      }
      place = next;
      raw += count;
      left -= count;
    }
  }
  return {place, raw};
}

bool RecordReader::is_last_use(const Place& place, uint32_t count) const {
  const bool may_grow = place.buffer == tail_ && tail_open_ && tail_->size < tail_->capacity_bytes;
  return place.offset + count == place.buffer->size && !may_grow;
}

RecordReader::Place RecordReader::behind(const Place& place, uint32_t count) const {
  if (is_last_use(place, count)) {
    return {place.buffer->next, 0};
  }
  return {place.buffer, place.offset + count};
}

uint32_t RecordReader::take_mark(Place& place) {
  uint32_t mark = 0;
  for (uint32_t i = 0; i < kRecordMarkBytes; ++i) {
    while (place.offset == place.buffer->size) {
      place = {place.buffer->next, 0};
    }
    mark = (mark << 8) | place.buffer->data[place.offset++];
  }
  return mark;
}

void RecordReader::drop_front() {
  Buffer* gone = head_;
  head_ = std::exchange(gone->next, nullptr);
  if (head_ == nullptr) {
    tail_ = nullptr;
    tail_open_ = false;
  }
  consumed_ = 0;
  release_buffers(gone);
}

void RecordReader::reset() {
  admission_.forget(demand_);
  if (head_ != nullptr) {
    release_buffers(head_);
  }
  head_ = nullptr;
  tail_ = nullptr;
  tail_open_ = false;
  consumed_ = 0;
  held_bytes_ = 0;
  messages_ready_ = 0;
  unstored_ = 0;
  failed_ = false;
  scan_ = {};
}

}  // namespace cw::rpcrdma
